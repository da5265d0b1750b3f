"""What a result was made from: hashes of code, weights and data, versions, commit."""

import ast
import hashlib
import json
import subprocess
from functools import lru_cache
from importlib.metadata import version

from lib.files import ROOT


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
def code_digest(*places):
    """Hash of what modules of lib compute, by their names: "measure.batch", or "findings" for all of a room.

    Of their syntax trees without docstrings, types of parameters and imports from lib: comments, layout, wording and the
    place where a module stands do not count.
    """
    trees = []
    for place in places:
        path = ROOT / "lib" / place.replace(".", "/")
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            trees.append(_computation(ast.parse(file.read_text(encoding="utf-8"))))
    return digest(trees)


def _computation(tree):
    """The dump of a module's syntax tree without what does not change a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            body = body[1:]
        node.body = [n for n in body if not (isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] == "lib")]
    return ast.dump(tree)


_version = lru_cache(maxsize=None)(version)


def versions(*packages):
    """{package: installed version}."""
    return {package: _version(package) for package in packages}


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
