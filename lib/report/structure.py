"""The house as it is built: the rooms of lib/ and what they import from one another, read from the code itself.

A room is a folder of lib/ whose face (__init__.py) says in its docstring what it is for and which rooms it may import.
The page "How it is built" draws the rooms from here, and tests/test_rooms.py holds the imports against the faces.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass

from lib.files import ROOT

LIB = ROOT / "lib"


@dataclass(frozen=True)
class Room:
    """A folder of lib/.  text: its face's docstring.  may_import: names of rooms.  files: {name: lines}."""

    name: str
    text: str
    may_import: tuple[str, ...]
    files: dict


@dataclass(frozen=True)
class Arrow:
    """An import across a wall.  source, target: files relative to lib/; line: of the statement, from 1.

    inside: whether it goes past the face, to a module of another room by its own address.
    """

    source: str
    line: int
    target: str
    inside: bool

    @property
    def rooms(self):
        """(importing room, imported room)."""
        return self.source.split("/")[0], self.target.split("/")[0]


def rooms(lib=LIB):
    """{name: Room}, those that import least first."""
    found = {}
    for face in sorted(lib.glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""
        said = re.search(r"^May import: (.*)\.$", text, re.MULTILINE)
        if said is None:
            raise ValueError(f"{face.relative_to(lib.parent)}: its docstring has no line 'May import: ...'")
        may_import = tuple(name for name in said[1].split(", ") if (lib / name).is_dir())
        files = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in sorted(face.parent.glob("*.py"))}
        found[face.parent.name] = Room(face.parent.name, text, may_import, files)
    return {name: found[name] for name in sorted(found, key=lambda name: (len(found[name].may_import), name))}


def arrows(lib=LIB):
    """Every import from one room to another, inside functions too: [Arrow] in order of files and lines."""
    names = {face.parent.name for face in lib.glob("*/__init__.py")}
    found = []
    for path in sorted(lib.glob("*/*.py")):
        source = f"{path.parent.name}/{path.name}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for target, inside in _imported(node, lib, names):
                if target.split("/")[0] != path.parent.name:
                    found.append(Arrow(source, node.lineno, target, inside))
    return sorted(found, key=lambda arrow: (arrow.source, arrow.line, arrow.target))


def _imported(node, lib, names):
    """What an import statement takes of the rooms: [(file relative to lib, whether past the face)]."""
    if isinstance(node, ast.Import):
        whole = [alias.name.split(".") for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        whole = [[*node.module.split("."), alias.name] for alias in node.names]
    else:
        return []
    targets = []
    for _, room, *rest in (parts for parts in whole if parts[0] == "lib" and len(parts) > 1 and parts[1] in names):
        module = f"{room}/{rest[0]}.py" if rest and (lib / room / f"{rest[0]}.py").is_file() else f"{room}/__init__.py"
        targets.append((module, isinstance(node, ast.Import) and bool(rest) or len(rest) > 1))
    return targets


def weights(found):
    """How many files of a room import files of another: {(importing room, imported room): files}."""
    return Counter(rooms for rooms, *_ in {(arrow.rooms, arrow.source, arrow.target) for arrow in found})


def floors(found_rooms):
    """The floor of every room: one above the highest of those it may import."""
    level = {}
    for _ in found_rooms:  # as many rounds as there are rooms settle any order without circles
        for name, room in found_rooms.items():
            level[name] = 1 + max((level.get(other, 0) for other in room.may_import), default=-1)
    return level
