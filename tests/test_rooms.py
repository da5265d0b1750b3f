"""The rooms of lib/: imports go one way only, through the faces, and no module is too large or too small."""

import ast
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

from lib.report import structure

# Old addresses that people's scripts import, and commands: they only point to a room.
POINTERS = {"batch.py", "metrics.py", "capture.py", "ablation.py", "run.py", "book.py", "train.py"}


def broken(lib=structure.LIB):
    """Imports that a room's face does not allow, each with its file and line."""
    rooms = structure.rooms(lib)
    found = []
    for arrow in structure.arrows(lib):
        source, target = arrow.rooms
        where = f"lib/{arrow.source}:{arrow.line}"
        if target not in rooms[source].may_import:
            found.append(f"{where}: {source} may not import {target} (its face: lib/{source}/__init__.py)")
        elif arrow.inside:
            found.append(f"{where}: {target} is entered past its face; write 'from lib import {target}'")
    return found


def test_imports_between_rooms_are_those_that_the_faces_allow():
    assert broken() == []


def test_what_the_faces_allow_has_no_circle():
    rooms = structure.rooms()
    below = {}
    while len(below) < len(rooms):
        ready = [n for n, room in rooms.items() if n not in below and set(room.may_import) <= set(below)]
        assert ready, f"a circle among {sorted(set(rooms) - set(below))}"
        below |= dict.fromkeys(ready)
    assert 6 <= len(rooms) <= 8
    assert all(len(room.text.splitlines()) <= 10 for room in rooms.values())


def test_rooms_hold_few_arrows():
    assert sum(structure.weights(structure.arrows()).values()) <= 60


@pytest.mark.parametrize(
    "line, said",
    [
        ("from lib import report", "measure may not import report"),
        ("def later():\n    from lib.report import open_run", "measure may not import report"),
        ("import lib.tables.heads", "measure may not import tables"),
    ],
)
def test_an_upward_import_is_named_with_its_file_and_line(tmp_path, line, said):
    lib = tmp_path / "lib"
    shutil.copytree(structure.LIB, lib, ignore=shutil.ignore_patterns("__pycache__"))
    module = lib / "measure" / "metrics.py"
    before = len(module.read_text().splitlines())
    module.write_text(f"{module.read_text()}\n{line}\n")
    (found,) = broken(lib)
    assert found.startswith(f"lib/measure/metrics.py:{before + len(line.splitlines()) + 1}: {said}")


def test_a_room_is_not_entered_past_its_face(tmp_path):
    lib = tmp_path / "lib"
    shutil.copytree(structure.LIB, lib, ignore=shutil.ignore_patterns("__pycache__"))
    module = lib / "findings" / "counting.py"
    module.write_text(f"{module.read_text()}\nfrom lib.measure.metrics import CLASSES\n")
    assert [text.split(": ", 1)[1] for text in broken(lib)] == [
        "measure is entered past its face; write 'from lib import measure'"
    ]


def test_the_ground_imports_no_room():
    """files, formatting, numerics and provenance are below every room."""
    for name in ("files", "formatting", "numerics", "provenance"):
        tree = ast.parse((structure.LIB / f"{name}.py").read_text(encoding="utf-8"))
        taken = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and str(n.module).startswith("lib")]
        assert set(taken) <= {"lib.files"}, name


def test_modules_are_of_a_size_to_read():
    for path in sorted([*structure.LIB.rglob("*.py"), *(ROOT / "tests").glob("*.py")]):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= 500, f"{path.relative_to(ROOT)} has {lines} lines"
        pointer = path.name in {"__init__.py", "__main__.py"} or path.parent == structure.LIB and path.name in POINTERS
        if path.is_relative_to(structure.LIB) and not pointer:
            assert lines >= 30, f"{path.relative_to(ROOT)} has {lines} lines"


NAMES = "induction_batch, participation_ratio, measure_heads, capability, load_panel, open_run, head_table"


def test_public_names_are_there_from_any_folder(tmp_path):
    """The project is installed in its environment, so that notebooks and scripts need no path."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    line = [sys.executable, "-c", f"from lib import {NAMES}; print(load_panel('mini').name)"]
    done = subprocess.run(line, cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.stdout == "mini\n", done.stderr


def test_old_addresses():
    import lib
    from lib.ablation import capability
    from lib.batch import induction_batch
    from lib.capture import measure_heads
    from lib.metrics import participation_ratio

    assert induction_batch is lib.induction_batch and participation_ratio is lib.participation_ratio
    assert measure_heads is lib.measure_heads and capability is lib.capability
