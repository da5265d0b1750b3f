"""What a result was made from: hashes of code, weights and data, versions, commit."""

import ast
import hashlib
import json
import subprocess
from functools import lru_cache
from importlib.metadata import version

import pyarrow.parquet as pq

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


_version = lru_cache(maxsize=None)(version)


def versions(*packages):
    """{package: installed version}."""
    return {package: _version(package) for package in packages}


def of_table(path):
    """What a parquet table says it was made from, without reading its numbers; None if there is none that can be read."""
    try:
        return json.loads(pq.read_schema(path).metadata[b"PANDAS_ATTRS"])["provenance"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def unchanged(recorded, expected):
    """Whether a table's sources are what they would be now.

    Weights that are not on this machine (None) are not asked for: the table could not be
    measured again.
    """
    return all(recorded.get(k) == v for k, v in expected.items() if (k, v) != ("weights", None))


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
