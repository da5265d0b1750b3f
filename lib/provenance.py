"""What a result was made from: hashes of code, weights and data, versions, commit."""

import ast
import hashlib
import json
import subprocess
from functools import lru_cache
from importlib.metadata import version

from lib.paths import ROOT


def digest(value):
    """SHA-256 of bytes, or of a JSON-able value in canonical form."""
    if not isinstance(value, bytes):
        value = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(value).hexdigest()


def file_digest(path):
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=None)
def code_digest(*modules):
    """Hash of modules of lib by name ("batch", "metrics").

    Of their syntax trees: what runs counts, comments and layout do not.
    """
    return digest([ast.dump(ast.parse((ROOT / "lib" / f"{m}.py").read_text(encoding="utf-8"))) for m in modules])


def versions(*packages):
    """{package: installed version}."""
    return {package: version(package) for package in packages}


@lru_cache(maxsize=1)
def commit():
    """The project's commit, "+" if files were changed since; None outside a git checkout."""
    try:
        run = lambda *args: subprocess.run(  # noqa: E731
            ["git", *args], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        return run("rev-parse", "HEAD") + ("+" if run("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
