"""The lessons: one notebook each, in notebooks/lessons, with exercises, hidden solutions and checkers.

    python -m lib.lessons copy [FOLDER]       unsolved copies to work in (default: notebooks/mine)
    python -m lib.lessons mark NOTEBOOK ...   execute solved copies and count the right answers

A notebook holds both versions.  Cells tagged "answer" have a placeholder for the learner's
answer and its checker; cells tagged "solution" solve the exercise before them, with names of
their own, so that no other cell depends on them.  Without them it is the unsolved version.
"""

import argparse
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat
from traitlets.config import Config

from lib import provenance
from lib.files import ROOT, UserError, atomic, results_dir
from lib.lessons.answers import CHECK_MIME
from lib.panels import load_panel

FOLDER = ROOT / "notebooks" / "lessons"
COPIES = ROOT / "notebooks" / "mine"
CODE = (
    "formatting", "measure", "panels.panel", "panels.checkpoints", "tables.heads", "tables.causal", "findings.counting",
    "figures.display", "figures.style", "lessons",
)  # fmt: skip
TEXTS = sorted(Path(__file__).parent.glob("*.yml"))  # what checkers and figures say
PACKAGES = ("numpy", "pandas", "matplotlib", "seaborn", "papermill", "torch", "transformers", "transformer-lens")
EXERCISE = re.compile(r"^:::\{exercise\} (.*)\n:label: (\S+)\n:nonumber:\n\n(.*?)\n:::$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Lesson:
    """One execution of a lesson, for lib.report.execution; model is the panel's name of the model that it is about."""

    notebook: Path
    panel: str  # what load_panel takes: a name or a path
    panel_name: str
    model: str

    title = None  # it keeps its own

    @property
    def output(self):
        """Where the executed notebook goes, whether it failed or not."""
        return results_dir(self.panel_name) / "lessons" / self.notebook.name

    @property
    def parameters(self):
        """What papermill sets in the notebook."""
        return {"panel": self.panel, "model": self.model}

    def __str__(self):
        return f"lesson {self.notebook.stem}"


def notebooks():
    """The files of the lessons, in reading order."""
    return sorted(FOLDER.glob("[0-9]_*.ipynb"))


def plan(panel_argument):
    """The lessons of a panel; none if one of its models must be fetched.

    Each is about the model that it names itself; on a panel without that one, about the first.
    """
    panel = load_panel(panel_argument)
    if any(model.path is None for model in panel.models.values()):
        return []
    first = next(iter(panel.models))
    own = {path: _own_model(path) for path in notebooks()}
    return [
        Lesson(path, str(panel_argument), panel.name, model if model in panel.models else first)
        for path, model in own.items()
    ]


def _own_model(path):
    (cell,) = [c for c in nbformat.read(path, as_version=4).cells if "parameters" in tags(c)]
    return re.search(r'^model = "(.*)"$', cell.source, re.MULTILINE)[1]


def key_of(lesson, panel, digests):
    """Hash of all that an executed lesson depends on; digests: lib.report.execution.head_digests of all models."""
    return provenance.digest(
        {
            "notebook": provenance.file_digest(lesson.notebook),
            "code": provenance.code_digest(*CODE),
            "texts": [provenance.file_digest(path) for path in TEXTS],
            "versions": provenance.versions(*PACKAGES),
            "panel": panel.model_dump(),
            "model": lesson.model,
            "heads": digests,
        }
    )


def tags(cell):
    """The tags of a notebook's cell."""
    return cell.metadata.get("tags", [])


# Versions of a lesson -----------------------------------------------------------------


def unsolved(notebook):
    """A lesson without its solutions, for Jupyter: exercises are plain Markdown."""
    notebook = nbformat.from_dict(notebook)
    notebook.cells = [cell for cell in notebook.cells if "solution" not in tags(cell)]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = EXERCISE.sub(r"### Exercise \1\n\n\3", cell.source)
    return notebook


def page(notebook):
    """An executed lesson as a page of the book: solutions and what they show are folded, placeholders have no output."""
    notebook = nbformat.from_dict(notebook)
    cells, label, within = [], None, False
    for cell in notebook.cells:
        solves = "solution" in tags(cell)
        if solves and not within:
            gate = f"````{{solution-start}} {label}\n:label: {label}-solution\n:class: dropdown\n````"
            cells.append(nbformat.v4.new_markdown_cell(gate, id=f"{label}-start"))
        if within and not solves:
            cells.append(nbformat.v4.new_markdown_cell("```{solution-end}\n```", id=f"{label}-end"))
        within = solves
        if cell.cell_type == "markdown" and (found := EXERCISE.search(cell.source)):
            label = found[2]
        if "answer" in tags(cell):
            cell.metadata["tags"] = [*tags(cell), "remove-output"]
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(CHECK_MIME, None)
        cells.append(cell)
    notebook.cells = cells
    return notebook


def outcomes(notebook):
    """What the checkers of an executed notebook said, in order: [(exercise, right)]."""
    said = [
        output["data"][CHECK_MIME]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if CHECK_MIME in output.get("data", {})
    ]
    return [(one["exercise"], bool(one["right"])) for one in said]


def facts(notebook):
    """(title, minutes, what is done in it), from a lesson's first cell."""
    title, about = re.match(r"# (.*)\n\n\*(.*)\*", notebook.cells[0].source).groups()
    minutes, about = re.match(r"About (\d+) minutes\. (.*)", about).groups()
    return title, int(minutes), about


# The command line -------------------------------------------------------------------------


def copy(folder):
    """Write the unsolved lessons into a folder, their links leading to the book from there; returns their paths.

    Raises UserError if one is there already: it may hold somebody's answers.
    """
    there = [path.name for path in notebooks() if (folder / path.name).exists()]
    if there:
        raise UserError(f"{_shown(folder)} holds {there[0]} already: name another folder, or move it away first")
    book = Path(os.path.relpath(ROOT / "book", folder)).as_posix()
    copies = []
    for path in notebooks():
        with atomic(folder / path.name) as temporary:
            notebook = unsolved(nbformat.read(path, as_version=4))
            for cell in notebook.cells:
                cell.source = cell.source.replace("](../../book/", f"]({book}/")
            nbformat.write(notebook, temporary)
        copies.append(folder / path.name)
    return copies


def mark(path):
    """Execute a learner's notebook, going on after errors; returns {exercise: right}, the last answer counting.

    Raises UserError if the file is no notebook.
    """
    from nbclient import NotebookClient

    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise UserError(f"{path} cannot be read as a notebook: {error}") from None
    asked = dict.fromkeys(re.findall(r"Exercise (\d\.\d) ", "\n".join(cell.source for cell in notebook.cells)), False)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []  # what was saved is not what counts
    with tempfile.TemporaryDirectory(prefix="mark-") as scratch:
        sockets = {"transport": "ipc", "ip": str(Path(scratch, "k"))}  # as lib.report.execution does
        where = {"metadata": {"path": str(ROOT)}}
        NotebookClient(
            notebook, kernel_name="python3", allow_errors=True, resources=where, config=Config(KernelManager=sockets)
        ).execute()
    return asked | dict(outcomes(notebook))


def _shown(path):
    return os.path.relpath(path)


def main(arguments=None):
    """Command line; returns 0, or 2 for a mistake that the message explains."""
    parser = argparse.ArgumentParser(prog="python -m lib.lessons", description="Unsolved copies of the lessons; marks.")
    commands = parser.add_subparsers(dest="command", required=True)
    of_copy = commands.add_parser("copy", help="write unsolved copies to work in")
    of_copy.add_argument("folder", nargs="?", type=Path, default=COPIES, help="default: notebooks/mine")
    of_mark = commands.add_parser("mark", help="execute solved copies (they are programs: know whose) and count")
    of_mark.add_argument("notebooks", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "copy":
            for path in copy(options.folder):
                print(_shown(path))
        else:
            for path in options.notebooks:
                marks = mark(path)
                wrong = [number for number, right in marks.items() if not right]
                not_yet = f"; not yet: {', '.join(wrong)}" if wrong else ""
                print(f"{_shown(path)}: {len(marks) - len(wrong)} of {len(marks)} right{not_yet}")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
