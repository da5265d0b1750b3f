"""The lessons: solved they pass their checkers, unsolved they do not; copies, marks and pages."""

import ast
import re
import sys
import warnings

import nbformat
import pytest
import torch
import yaml
from conftest import ROOT, TINY, panel_content

from lib.figures.display import Figure
from lib.files import UserError
from lib.lessons import answers
from lib.lessons import notebooks as lessons

NOTEBOOKS = {path.stem: nbformat.read(path, as_version=4) for path in lessons.notebooks()}


@pytest.fixture(scope="module")
def panel(tiny_models, tmp_path_factory):
    """Path of the tiny panel; what is measured is shared by the tests of this module."""
    folder = tmp_path_factory.mktemp("lessons")
    path = folder / "tiny.yml"
    path.write_text(yaml.safe_dump(panel_content(tiny_models), sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCUITS_RESULTS", str(folder / "results"))
        yield str(path)


def play(notebook, panel, model):
    """Run a notebook's code in this process; returns what its cells show."""
    shown, names = [], {}
    before = list(sys.path)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("error", RuntimeWarning)  # a learner would see it, in red
        for cell in notebook.cells:
            if cell.cell_type == "code":
                source = f"panel, model = {panel!r}, {model!r}" if "parameters" in lessons.tags(cell) else cell.source
                tree = ast.parse(source)
                last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 - our own notebooks
                if last is not None:
                    shown.append(eval(compile(ast.Expression(last.value), "<cell>", "eval"), names))  # noqa: S307
    sys.path[:] = before
    return shown


def said(shown):
    return [one for one in shown if isinstance(one, answers.Checked)]


def exercises(notebook):
    """Numbers of the exercises in a lesson's text."""
    found = [lessons.EXERCISE.search(c.source) for c in notebook.cells if c.cell_type == "markdown"]
    return [match[1].split(" ")[0] for match in found if match]


# Solved and unsolved ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_solutions_pass_their_checkers_and_unanswered_exercises_do_not(panel, name, model):
    """One execution shows both: the source holds the placeholders and, after each, its solution."""
    notebook = NOTEBOOKS[name]
    shown = play(notebook, panel, model)
    checked = said(shown)
    numbers = exercises(notebook)
    assert [one.exercise for one in checked] == [n for number in numbers for n in (number, number)]
    for unanswered, solved in zip(checked[::2], checked[1::2]):
        assert not unanswered.right and "yet" in str(unanswered), unanswered
        assert solved.right, f"{name}, exercise {solved.exercise}: {solved}"
    figures = [one for one in shown if isinstance(one, Figure)]
    assert figures
    for figure in figures:
        assert re.search(r"\d", figure.alt) and len(figure.alt) > 40 and len(figure.data) > 0 and figure.caption


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_an_unsolved_copy_runs_to_its_end_and_has_no_solutions(panel, name):
    notebook = lessons.unsolved(NOTEBOOKS[name])
    shown = play(notebook, panel, next(iter(TINY)))
    assert [(one.exercise, one.right) for one in said(shown)] == [(n, False) for n in exercises(NOTEBOOKS[name])]
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "solution" not in text and ":::" not in text
    assert re.findall(r"### Exercise (\d\.\d) ", text) == exercises(NOTEBOOKS[name])


def test_the_lessons_are_five_in_order_and_each_exercise_has_an_answer_and_a_solution():
    assert [name[0] for name in NOTEBOOKS] == list("12345")
    for name, notebook in NOTEBOOKS.items():
        tags = [tag for c in notebook.cells for tag in lessons.tags(c) if tag in ("answer", "solution")]
        runs = [tag for i, tag in enumerate(tags) if i == 0 or tags[i - 1] != tag]
        assert runs == ["answer", "solution"] * len(exercises(notebook)), name
        assert exercises(notebook) == [f"{name[0]}.{i + 1}" for i in range(len(exercises(notebook)))]
        assert not any(c.get("outputs") or c.get("execution_count") for c in notebook.cells)
        hidden = [
            c.metadata.get("jupyter", {}).get("source_hidden") for c in notebook.cells if "solution" in lessons.tags(c)
        ]
        assert all(hidden), "Jupyter shows a solution"
    assert [n for notebook in NOTEBOOKS.values() for n in exercises(notebook)] == [
        n for n in answers.HINTS if n != "any"
    ]


# Copies, marks, pages --------------------------------------------------------------------------------


def test_copies_are_unsolved_and_nobodys_work_is_overwritten(tmp_path, capsys):
    folder = tmp_path / "anywhere" / "mine"
    assert lessons.main(["copy", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == [f"{name}.ipynb" for name in NOTEBOOKS]
    mine = folder / "2_find_an_induction_head.ipynb"
    nbformat.validate(nbformat.read(mine, as_version=4))
    mine.write_text("my answers")
    capsys.readouterr()
    assert lessons.main(["copy", str(folder)]) == 2
    assert "already" in capsys.readouterr().err and mine.read_text() == "my answers"


def test_links_of_a_copy_lead_to_the_book_from_wherever_it_is(tmp_path):
    for folder in (tmp_path, tmp_path / "a" / "b" / "c"):
        texts = [cell.source for path in lessons.copy(folder) for cell in nbformat.read(path, as_version=4).cells]
        links = re.findall(r"\]\(([^)#]+\.md)", "\n".join(texts))
        assert links and all((folder / link).resolve().is_file() for link in links)


def test_marking_counts_right_answers_and_goes_on_after_errors(panel, tmp_path, capsys):
    notebook = lessons.unsolved(NOTEBOOKS["4_watch_a_circuit_form"])
    for cell in notebook.cells:
        if "parameters" in lessons.tags(cell):
            cell.source = f'panel = {panel!r}\nmodel = "tiny-olmo"'
        cell.source = cell.source.replace("moment = ...", 'moment = "never"\nundefined_name = 1')
        cell.source = cell.source.replace("sizes = ...", "sizes = no_such_name")
        cell.source = cell.source.replace("first_revisions = ...", 'first_revisions = ("never", "never")')
    path = tmp_path / "ada.ipynb"
    nbformat.write(notebook, path)
    assert lessons.main(["mark", str(path)]) == 0
    assert "ada.ipynb: 2 of 4 right; not yet: 4.2, 4.3" in capsys.readouterr().out
    assert lessons.main(["mark", str(tmp_path / "nobody.ipynb")]) == 2
    assert "cannot be read as a notebook" in capsys.readouterr().err


def test_a_page_folds_solutions_and_hides_placeholders_outputs():
    notebook = nbformat.from_dict(NOTEBOOKS["2_find_an_induction_head"])
    shown = nbformat.v4.new_output(
        "display_data", {"text/html": "x", answers.CHECK_MIME: {"exercise": "2.1", "right": False}}
    )
    (first, *_) = [cell for cell in notebook.cells if "answer" in lessons.tags(cell)]
    first.outputs = [shown]
    assert lessons.outcomes(notebook) == [("2.1", False)]
    page = lessons.page(notebook)
    gates = [c.source.split("\n")[0] for c in page.cells if "{solution-" in c.source]
    assert gates == [g for i in range(1, 5) for g in (f"````{{solution-start}} lesson-2-{i}", "```{solution-end}")]
    assert all("remove-output" in lessons.tags(c) for c in page.cells if "answer" in lessons.tags(c))
    assert lessons.outcomes(page) == [] and len({c["id"] for c in page.cells}) == len(page.cells)


def test_lessons_are_planned_for_models_on_disk_only(panel, tmp_path):
    assert [lesson.model for lesson in lessons.plan("mini")] == [
        "pythia-mini", "olmoe-mini", "olmoe-mini", "pythia-mini", "pythia-mini",
    ]  # fmt: skip
    assert {lesson.model for lesson in lessons.plan(panel)} == {next(iter(TINY))}
    content = yaml.safe_load((ROOT / "panels" / "mini.yml").read_text())
    content["models"]["olmo-mini"].pop("path")
    content["models"]["olmo-mini"]["hub"] = "somebody/olmo"
    (tmp_path / "hub.yml").write_text(yaml.safe_dump(content))
    assert lessons.plan(tmp_path / "hub.yml") == []


def test_the_teachers_page_gives_each_lesson_its_title_and_minutes():
    text = (ROOT / "book" / "teachers.md").read_text(encoding="utf-8")
    told = re.findall(r"^### (.*) \((\d+) minutes\)$", text, re.MULTILINE)
    known = [lessons.facts(notebook) for notebook in NOTEBOOKS.values()]
    assert [(title, int(minutes)) for title, minutes in told] == [(title, minutes) for title, minutes, _ in known]
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        assert all(f"- **{word}.**" in part for word in ("Aim", "Confuses", "Discuss"))


def test_a_user_error_has_no_traceback():
    with pytest.raises(UserError, match="cannot be read"):
        lessons.mark(ROOT / "README.md")
