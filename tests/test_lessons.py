"""The lessons: solved they pass their checkers, unsolved they do not; every hint meets its mistake."""

import ast
import re
import sys
import warnings

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import ROOT, TINY, panel_content, tiny_model

from lib.figures.display import Figure
from lib.files import UserError
from lib.lessons import check
from lib.lessons import notebooks as lessons
from lib.measure import ablation, capture, metrics
from lib.measure.attention import as_bridge
from lib.measure.batch import induction_batch
from lib.panels.panel import Thresholds

NOTEBOOKS = {path.stem: nbformat.read(path, as_version=4) for path in lessons.notebooks()}
THRESHOLDS = Thresholds()


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
    return [one for one in shown if isinstance(one, check.Checked)]


def exercises(notebook):
    """Numbers of the exercises in a lesson's text."""
    found = [lessons.EXERCISE.search(c.source) for c in notebook.cells if c.cell_type == "markdown"]
    return [match[1].split(" ")[0] for match in found if match]


# Solved and unsolved --------------------------------------------------------------------


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


# Hints ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batch():
    return induction_batch(40, 64, 4, 64)


@pytest.fixture(scope="module")
def measured():
    """A tiny model, its bridge, its batch, the last query's attention [layer, sequence, head, key], and its head table."""
    model = tiny_model("olmo", 1)
    some = induction_batch(40, 64, 4, 64)
    whole = ablation.capability(model, some)
    table = capture.measure_heads(model, some)
    bridge = as_bridge(model)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(some.tokens, names_filter=lambda name: name.endswith("hook_pattern"))
    attention = np.stack([cache[f"blocks.{layer}.attn.hook_pattern"][:, :, -1].numpy() for layer in range(3)])
    return {"model": model, "bridge": bridge, "batch": some, "attention": attention, "table": table, "whole": whole}


@pytest.fixture(scope="module")
def planted(batch):
    """Attention [3, n, 4, T] with one head of each kind: induction L2H1, weaker L2H3, duplicate L0H2, previous L1H0."""
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.ones(64), size=(3, len(batch.tokens), 4))
    n, first_a = np.arange(len(batch.tokens)), batch.first_a.numpy()
    for (layer, head), positions, mass in [
        ((2, 1), first_a + 1, 0.8), ((2, 3), first_a + 1, 0.6), ((0, 2), first_a, 0.7), ((1, 0), np.full(len(n), 62), 0.9),
    ]:  # fmt: skip
        attention[layer, :, head] *= 1 - mass
        attention[layer, n, head, positions] += mass
    return attention


def right(checked):
    assert checked.right and str(checked).startswith("✓ Right."), checked
    return checked.text


def hinted(checked, words):
    assert not checked.right and words in checked.text, checked


def test_hints_of_the_attention_pattern():
    scores = np.random.default_rng(1).normal(size=(6, 6))
    lower = np.tril(np.ones((6, 6), bool))
    # The oracle is PyTorch's.
    truth = torch.softmax(torch.tensor(scores).masked_fill(~torch.tensor(lower), -torch.inf), dim=-1)
    right(check.attention_pattern(truth, scores))
    right(check.attention_pattern(truth.numpy().round(4), scores))
    plain = torch.softmax(torch.tensor(scores), dim=-1).numpy()
    hinted(check.attention_pattern(plain, scores), "Nothing is masked")
    hinted(check.attention_pattern(np.where(lower, plain, 0), scores), "mask came after")
    hinted(check.attention_pattern(torch.softmax(torch.tensor(scores * lower), dim=-1), scores), "0 is no mask")
    masked = np.where(lower, scores, -np.inf)
    columns = np.exp(masked) / np.exp(masked).sum(axis=0)
    hinted(check.attention_pattern(columns, scores), "columns sum to 1")
    hinted(check.attention_pattern(masked, scores), "masked scores")
    hinted(check.attention_pattern(np.exp(masked), scores), "Divide each row")
    hinted(check.attention_pattern(np.triu(plain), scores), "above the diagonal")
    hinted(check.attention_pattern(lower / lower.sum(axis=1, keepdims=True), scores), "the weights are not")
    hinted(check.attention_pattern(np.full((6, 6), np.nan), scores), "not a number")
    hinted(check.attention_pattern(truth[0], scores), "The shape should be 6 x 6")


def sequence(rng, length, low, high, **broken):
    """A sequence of the batch, with one thing wrong if asked for."""
    a, b = rng.choice(np.arange(low, high), 2, replace=False)
    others = np.setdiff1d(np.arange(low, high), [a, b])
    tokens = rng.choice([a, *others] if "others" in broken else others, size=length)
    at = broken.get("at", rng.integers(20, length // 2))
    tokens[at], tokens[at + 1] = a, b
    tokens[-1] = broken.get("last", a)
    if "again" in broken:
        tokens[at + 5] = b
    return tokens


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda r, n, lo, hi: None, "returns nothing"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, others=True), "Redraw every other A"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, again=True), "B occurs more than once"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, last=-1), "outside"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, at=3), "at least 20"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, at=45), "below half the length, 32"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, at=25), "same place"),
        (lambda r, n, lo, hi: sequence(np.random.default_rng(0), n, lo, hi), "All sequences are the same"),
        (lambda r, n, lo, hi: sequence(r, n + 1, lo, hi), "The shape should be 64"),
        (lambda r, n, lo, hi: np.r_[np.arange(lo, lo + 20), np.full(43, lo + 21), lo + 30], "does not occur earlier"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi) + 0.5, "whole numbers"),
        (lambda r, n, lo, hi: 1 / 0, "stopped with ZeroDivisionError"),
        (lambda r, n: None, "stopped with TypeError"),
        (lambda r, n, lo, hi: "A B", "array of numbers"),
    ],
)
def test_hints_of_the_sequence(make, words):
    right(check.sequence_maker(sequence))
    hinted(check.sequence_maker(make), words)


def test_hints_of_the_batch(batch):
    tokens, first_a = batch.tokens, batch.first_a
    a = tokens[:, -1:]
    # One sequence after another, by Python's own counting.
    truth = sum(row.tolist()[:-1].count(row.tolist()[-1]) != 1 for row in tokens)
    assert truth > 0, "the batch of the test should show the matter"
    assert str(truth) in right(check.other_a(truth, batch))
    hinted(check.other_a(len(tokens), batch), "leave the last position out")
    hinted(check.other_a(int((tokens[:, :-1] == a).sum()), batch), "all the A before the end")
    hinted(check.other_a(len(tokens) - truth, batch), "as they should be")
    hinted(check.other_a(1.5, batch), "whole number")
    right(check.induction_positions(first_a + 1, batch))
    assert all(row[i] == b for row, i, b in zip(tokens, first_a + 1, batch.targets))
    hinted(check.induction_positions(first_a, batch), "duplicate-token")
    hinted(check.induction_positions(first_a + 2, batch), "One too far")
    hinted(check.induction_positions(first_a - 1, batch), "One before A")
    hinted(check.induction_positions(np.full(40, 63), batch), "looks *from*")
    hinted(check.induction_positions(np.full(40, 62), batch), "previous token")
    hinted(check.induction_positions(batch.targets, batch), "These are tokens")
    hinted(check.induction_positions(int(first_a[0]) + 1, batch), "a single number")


def test_hints_of_reading_a_pattern():
    pattern = np.random.default_rng(0).dirichlet(np.ones(8), size=(1, 3, 8))
    right(check.previous_mass(pattern[0, 1, 7, 6], pattern, 1))
    hinted(check.previous_mass(pattern[0, 1, 6, 7], pattern, 1), "exchanged")
    hinted(check.previous_mass(pattern[0, 1, 7, 7], pattern, 1), "to itself")
    hinted(check.previous_mass(pattern[0, 1, 6, 6], pattern, 1), "last but one query")
    hinted(check.previous_mass(pattern[0, 2, 7, 6], pattern, 1), "That is head 2")
    hinted(check.previous_mass(pattern[0, 1, 7, 0], pattern, 1), "first token")


def test_attention_and_selectivity_of_lesson_2_are_those_of_the_head_tables(measured):
    table, given = measured["table"], (measured["attention"], measured["batch"])
    grid = table.pivot(index="layer", columns="head", values="attention_induction")
    right(check.induction_mass(grid, *given))
    top = table.loc[table["attention_induction"].idxmax()]
    head = int(top["layer"]), int(top["head"])
    right(check.induction_head(head, *given))
    right(check.induction_head("L%dH%d" % head, *given))
    right(check.induction_selectivity(top["selectivity_induction"], *given, head))
    hinted(check.induction_selectivity(top["selectivity_clean_induction"], *given, head), "clean baseline")


def test_hints_of_lesson_2(planted, batch):
    n, first_a = np.arange(40), batch.first_a.numpy()
    given = (planted, batch)
    each = planted[:, n, :, first_a + 1]
    grid = each.mean(axis=0)
    right(check.induction_mass(grid, *given))
    hinted(check.induction_mass(planted[:, n, :, first_a].mean(axis=0), *given), "A itself")
    hinted(check.induction_mass(planted[:, n, :, first_a + 2].mean(axis=0), *given), "One too far")
    hinted(check.induction_mass(each, *given), "single sequences")
    hinted(check.induction_mass(planted[:, :, :, first_a + 1].mean(axis=1), *given), "every sequence's position")
    hinted(check.induction_mass(each.sum(axis=0), *given), "sums")
    hinted(check.induction_mass(each.max(axis=0), *given), "largest")
    hinted(check.induction_mass(grid.T, *given), "exchanged")
    hinted(check.induction_mass(planted[..., first_a[0] + 1].mean(axis=1), *given), "position of the first one")
    hinted(check.induction_mass(grid[0], *given), "The shape should be 3 x 4")

    right(check.induction_head((2, 1), *given))
    right(check.induction_head(np.array([2, 1]), *given))
    hinted(check.induction_head((1, 2), *given), "the layer comes first")
    hinted(check.induction_head((2, 3), *given), "looks there too")
    hinted(check.induction_head((0, 2), *given), "strongest duplicate-token head")
    hinted(check.induction_head((1, 0), *given), "strongest previous-token head")
    hinted(check.induction_head((0, 0), *given), "largest entry")
    hinted(check.induction_head((3, 0), *given), "layers are 0 to 2 and heads 0 to 3")

    mine = planted[2, :, 1]
    mass, base = mine[n, first_a + 1].mean(), mine[:, metrics.paper_baseline_positions(64)].mean()
    given = (*given, (2, 1))
    right(check.induction_selectivity(mass / base, *given))
    right(check.induction_selectivity(float(f"{mass / base:.3g}"), *given))
    hinted(check.induction_selectivity(mass, *given), "This is the attention")
    hinted(check.induction_selectivity(base, *given), "This is the baseline")
    hinted(check.induction_selectivity(base / mass, *given), "Upside down")
    hinted(check.induction_selectivity(mass * 64, *given), "even spread")
    hinted(check.induction_selectivity(mass / (50 * base), *given), "not their sum")
    ratios = mine[n, first_a + 1] / mine[:, metrics.paper_baseline_positions(64)].mean(axis=1)
    hinted(check.induction_selectivity(ratios.mean(), *given), "mean of ratios")
    hinted(check.induction_selectivity(0.0, *given), "divide it by its mean")


def test_hints_of_the_moved_question(measured):
    batch, bridge = measured["batch"], measured["bridge"]
    n, asked = np.arange(len(batch.tokens)), np.full(len(batch.tokens), 50)
    moved = batch.tokens.clone()
    moved[:, -1] = moved[:, 50]
    given = (bridge, moved, (2, 0), asked, batch)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(moved, names_filter="blocks.2.attn.hook_pattern")
    rows = cache["blocks.2.attn.hook_pattern"][:, 0, -1].numpy()
    truth = sum(int(row.argmax()) == 51 for row in rows) / len(rows)
    assert "this is none" in right(check.moved_question(truth, *given))  # untrained
    if truth:
        hinted(check.moved_question(0, *given), "run the bridge again")
    hinted(check.moved_question(rows[n, 51].mean(), *given), "mean attention")
    hinted(check.moved_question(1 - truth, *given), "elsewhere")
    hinted(check.moved_question(0.123, *given), "compare its")


class Copier:
    """A bridge whose head 1 of layer 0 does induction, but in the first sequence."""

    def run_with_cache(self, tokens, names_filter):
        pattern = torch.zeros(len(tokens), 2, tokens.shape[1], tokens.shape[1])
        for i, row in enumerate(tokens.tolist()):
            pattern[i, 1, -1, row.index(row[-1]) + 1 if i else 7] = 1
        return None, {names_filter: pattern}


def test_hints_of_the_moved_question_to_a_head_that_does_induction(batch):
    tokens = batch.tokens.clone()
    tokens[:, 50] = 999  # once in each sequence
    moved = tokens.clone()
    moved[:, -1] = 999
    given = (Copier(), moved, (0, 1), np.full(40, 50), batch)
    assert "Another question, another answer" in right(check.moved_question(39 / 40, *given))
    hinted(check.moved_question(39, *given), "their number")
    hinted(check.moved_question(97.5, *given), "multiply by 100")
    hinted(check.moved_question(1 / 40, *given), "elsewhere")
    hinted(check.moved_question(0, *given), "run the bridge again, on `moved`")


def spectrum(m):
    s = np.linalg.svd(m, compute_uv=False)
    p = s**2 / (s**2).sum()
    return s, p[p > 0]


@pytest.mark.parametrize(
    "function, words",
    [
        (
            lambda m: np.exp(-((q := spectrum(m)[0] / spectrum(m)[0].sum())[q > 0] * np.log(q[q > 0])).sum()),
            "Square them",
        ),
        (lambda m: 1 / (spectrum(m)[1] ** 2).sum(), "the other thing called"),
        (lambda m: metrics.participation_ratio(m, centred=True), "subtracted the mean row"),
        (lambda m: -(spectrum(m)[1] * np.log(spectrum(m)[1])).sum(), "Take exp"),
        (lambda m: np.exp(-(spectrum(m)[1] * np.log2(spectrum(m)[1])).sum()), "in bits"),
        (lambda m: np.exp((spectrum(m)[1] * np.log(spectrum(m)[1])).sum()), "The sign"),
        (lambda m: np.linalg.matrix_rank(m), "This is the rank"),
        (lambda m: np.exp(-((q := (m**2).sum(0) / (m**2).sum())[q > 0] * np.log(q[q > 0])).sum()), "columns' sizes"),
        (lambda m: np.nan, "Leave out the p that are 0"),
        (lambda m: 17.0, "your function gives 17"),
        (lambda m: None, "returns nothing"),
        (lambda m: m, "should return one number"),
        (lambda m: m.no_such_thing, "stopped with AttributeError"),
        (3.2, "A function is expected"),
    ],
)
def test_hints_of_the_participation_ratio(function, words):
    with np.errstate(all="ignore"):
        hinted(check.participation_ratio(function), words)
        right(check.participation_ratio(lambda m: np.exp(-(spectrum(m)[1] * np.log(spectrum(m)[1])).sum())))
        right(check.participation_ratio(lambda m: torch.tensor(metrics.participation_ratio(m))))


def test_hints_of_breaking_it():
    cloud = np.random.default_rng(1).normal(size=(200, 8))
    text = right(check.broken_cloud(cloud - 50 * np.eye(8)[3], cloud))
    assert f"{metrics.participation_ratio(cloud, centred=True):.3g}, as before" in text
    hinted(check.broken_cloud(cloud, cloud), "the cloud itself")
    hinted(check.broken_cloud(cloud + 0.1, cloud), "What if the vector were longer")
    hinted(check.broken_cloud(3 * cloud, cloud), "different ways")
    hinted(check.broken_cloud(cloud[:1], cloud), "The shape should be 200 x 8")
    hinted(check.broken_cloud(cloud * np.inf, cloud), "infinity")

    rng = np.random.default_rng(2)
    z = rng.normal(size=(2, 2, 50, 6))
    z[1, 0] += 30  # fooled by its constant part
    z[1, 1] += 0.2
    z[0, 0, 25:] = -z[0, 0, :25]  # no constant part at all
    z[0] *= [1, 1, 0.5, 0.5, 0.5, 0.5]
    right(check.fooled_head((1, 0), z))
    gap = {
        i: metrics.participation_ratio(z[i], centred=True) - metrics.participation_ratio(z[i]) for i in np.ndindex(2, 2)
    }
    hinted(check.fooled_head(min(gap, key=gap.get), z), "there centring changes least")
    hinted(check.fooled_head((1, 1), z), "the highest PR")

    right(check.most_directions(10, 10, 16))
    hinted(check.most_directions(16, 10, 16), "how many directions can 10 rows span")
    hinted(check.most_directions(9, 10, 16), "subtracting the mean row")
    hinted(check.most_directions(np.log(10), 10, 16), "largest entropy")
    hinted(check.most_directions(160, 10, 16), "number of entries")
    hinted(check.most_directions(10, 10, 4), "each has 4 numbers")
    # No matrix beats the bound, and one reaches it.
    assert metrics.participation_ratio(rng.normal(size=(10, 16))) < 10
    assert metrics.participation_ratio(np.eye(16)[:10]) == pytest.approx(10)

    first = pd.DataFrame({"pr": [9.0, 8.5, 3, 2], "pr_centred": [9.0, 9, 9, 2], "pr_ceiling": 16.0})
    last = first.assign(pr=[1.0, 1, 1, 9])
    right(check.untrained(2, first, last))
    hinted(check.untrained(1, first, last), "after training")
    hinted(check.untrained(3, first, last), "centred")
    hinted(check.untrained(4, first, last), "number of heads")
    hinted(check.untrained(0, first, last), "ceiling itself")


@pytest.fixture(scope="module")
def frame():
    """A trajectory of three heads: one enters the circuit early and stays, one late, one comes and goes."""
    induction = {"s0": (1, 1, 1), "s1": (35, 1, 55), "s2": (60, 20, 70), "s3": (90, 51, 40)}
    rows = [
        {
            "revision": name, "step": step, "tokens": 10**step, "layer": 1, "head": head, "selectivity_induction": value,
            "selectivity_clean_induction": 0.9 * value, "selectivity_previous_token": [0, 40, 0, 120][step] * (head == 1),
            "selectivity_first_token": 31 * (step == 2 and head == 0), "attention_induction": 0.5,
        }
        for step, (name, values) in enumerate(induction.items()) for head, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_hints_of_lesson_4(frame):
    given = (frame, THRESHOLDS)
    assert "between s1 and s2" in right(check.crossing("s2", *given))
    hinted(check.crossing("s3", *given), "has passed already")
    hinted(check.crossing("s1", *given), "passes 30x")
    hinted(check.crossing("s0", *given), "reads 1x: not yet 50x")
    hinted(check.crossing("never", *given), "does pass")
    hinted(check.crossing("s7", *given), 'no revision "s7". They are s0, s1, s2, s3')
    hinted(check.crossing(2, *given), "The name of a revision")

    assert "can fall again" not in right(check.circuit_sizes([0, 1, 2, 2], *given))
    hinted(check.circuit_sizes([2, 2, 1, 0], *given), "turned round")
    hinted(check.circuit_sizes([0, 2, 2, 3], *given), "30x")
    hinted(check.circuit_sizes([0, 0, 2, 1], *given), "clean baseline")
    hinted(check.circuit_sizes([0, 1, 3, 5], *given), "running totals")
    hinted(check.circuit_sizes([3, 2, 1, 1], *given), "outside")
    hinted(check.circuit_sizes([0, 0, 1, 0], *given), "BOS heads")
    hinted(check.circuit_sizes([0, 1], *given), "The shape should be 4")

    right(check.recall([0, 0, 0.5, 1], *given))
    hinted(check.recall([0, 0.5, 1, 1], *given), "Count only heads that are in the final circuit")
    hinted(check.recall([0, 0, 0.5, 1][::-1], *given), "turned round")
    hinted(check.recall([0, 0, 50, 100], *given), "multiply by 100")
    hinted(check.recall([0, 0, 1, 2], *given), "These are counts")
    hinted(check.recall([0, 0, 0.4, 1], *given), "Of the heads in the last revision's circuit")
    hinted(check.recall([0, 0, 0, 1.5], *given), "between 0 and 1")
    shrinking = frame.assign(selectivity_induction=[1, 1, 1, 60, 60, 60, 60, 60, 60, 60, 60, 1])
    assert "can fall again" in right(check.circuit_sizes([0, 3, 3, 2], shrinking, THRESHOLDS))
    hinted(check.recall([0, 1.5, 1.5, 1], shrinking, THRESHOLDS), "a share never is")
    hinted(check.recall([0, 2 / 3, 2 / 3, 1], shrinking, THRESHOLDS), "precision")
    empty = frame.assign(selectivity_induction=1)
    assert "no value" in right(check.recall([np.nan] * 4, empty, THRESHOLDS))
    hinted(check.recall([0, 0, 0, 1], empty, THRESHOLDS), "empty")
    assert "under 50x" in right(check.crossing("never", empty, THRESHOLDS))

    right(check.order(("s3", "s1"), *given))
    hinted(check.order(("s1", "s3"), *given), "other way round")
    hinted(check.order(("s1", "s1"), *given), "You counted from 30x")
    hinted(check.order(("s3", "s2"), *given), "Not the first revision for induction:")
    hinted(check.order(("never", "s2"), *given), "previous-token and induction")
    hinted(check.order("s3", *given), "Two names")


def test_hints_of_lesson_5(batch, measured):
    ceiling = metrics.paper_baseline_ceiling(64, batch.first_a.numpy())
    perfect = np.zeros((len(batch.tokens), 64))
    perfect[np.arange(len(perfect)), batch.first_a + 1] = 1  # the head itself, read as heads are
    baseline = perfect[:, metrics.paper_baseline_positions(64)].mean()
    assert ceiling == pytest.approx(1 / baseline)
    right(check.perfect_reading(1 / baseline, batch))
    hinted(check.perfect_reading(np.inf, batch), "not 0")
    hinted(check.perfect_reading(50 * baseline, batch), "share of sequences")
    hinted(check.perfect_reading(baseline, batch), "divide")
    hinted(check.perfect_reading(1 / (50 * baseline), batch), "one at most")
    hinted(check.perfect_reading(50, batch), "In how many is it")

    columns = {f"attention_{c}": 0.2 for c in metrics.CLASSES} | {f"selectivity_{c}": 1.0 for c in metrics.CLASSES}
    table = pd.DataFrame(
        [{"layer": 0, "head": 0, **columns}, {"layer": 0, "head": 1, **columns}, {"layer": 1, "head": 0, **columns}]
    )
    table.loc[0, ["attention_previous_token", "selectivity_previous_token"]] = 0.99, 9000
    table.loc[1, ["attention_local", "selectivity_local"]] = 0.01, 40
    table.loc[2, ["attention_self", "selectivity_self"]] = 0.001, 3
    assert "40x for the class local, with 1 %" in right(check.thin_ratio((0, 1), table, THRESHOLDS))
    hinted(check.thin_ratio((0, 0), table, THRESHOLDS), "Leave out whatever has 5 % or more")
    hinted(check.thin_ratio((1, 0), table, THRESHOLDS), "which has the highest ratio")

    whole, without = {"loss": 2.0, "top1": 0.6}, {"loss": 4.5, "top1": 0.1}
    right(check.circuit_cost(2.5, whole, without))
    hinted(check.circuit_cost(-2.5, whole, without), "The sign")
    hinted(check.circuit_cost(4.5, whole, without), "without the heads")
    hinted(check.circuit_cost(2.25, whole, without), "ratio")
    hinted(check.circuit_cost(0.5, whole, without), "top-1")
    controls = [{"loss": 2.1}, {"loss": 2.2}, {"loss": 3.5}]
    right(check.control_cost(0.6, whole, controls))
    hinted(check.control_cost(2.6, whole, controls), "mean loss")
    hinted(check.control_cost(1.5, whole, controls), "dearest")
    hinted(check.control_cost(0.1, whole, controls), "cheapest")
    hinted(check.control_cost(1.8, whole, controls), "sum")
    hinted(check.control_cost(0.2, whole, controls), "median")
    assert "nothing can be compared" in right(check.control_cost(0, whole, []))

    given = (measured["model"], measured["batch"], (1, 1))
    cost = ablation.capability(*given[:2], ablate=[(1, 1)])["loss"] - measured["whole"]["loss"]
    text = right(check.thin_head_cost(cost, *given))
    assert ("*better*" in text) == (cost < 0)
    hinted(check.thin_head_cost(-cost, *given), "The sign")
    hinted(check.thin_head_cost(measured["whole"]["loss"] + cost, *given), "This is the loss without")

    right(check.evidence({"a", "d"}))
    right(check.evidence(["D", "(a)"]))
    right(check.evidence("a, d"))
    for wrong, words in (
        ("a b d", "(b)"),
        ("a c d", "(c)"),
        ("d", "(a)"),
        ("a d e", "(e)"),
        ("a", "(d)"),
        ("x", "no statement 'x'"),
    ):
        hinted(check.evidence(wrong), words)


# Answers that make no sense ------------------------------------------------------------------

ZOO = [
    None, "three", "", b"x", True, float("nan"), -1, 10**400, 1j, [], [[1], [1, 2]], (), (1, 2, 3), ("a", "b"), {}, set(),
    object(), lambda: 3, lambda *a: "x", lambda *a: [[1], 2], type, range(3), np.array([]), np.array(["a"]), np.array([None, 1]),
    torch.ones(2, 2, requires_grad=True), torch.tensor([]), pd.DataFrame({"a": ["x"]}), pd.Series([1, 2]), [..., ...], (..., ...),
    {"a": 1}, "L1", "L99H99", "L1H" + "9" * 5000,
]  # fmt: skip


def test_no_answer_of_any_type_is_answered_with_a_traceback_or_called_right(batch, planted, measured, frame):
    scores = np.random.default_rng(1).normal(size=(6, 6))
    pattern = np.random.default_rng(0).dirichlet(np.ones(8), size=(1, 3, 8))
    table = measured["table"]
    capability = {"loss": 2.25, "top1": 0.5}
    calls = {
        check.attention_pattern: (scores,), check.sequence_maker: (), check.other_a: (batch,),
        check.induction_positions: (batch,), check.previous_mass: (pattern, 1), check.induction_mass: (planted, batch),
        check.induction_head: (planted, batch), check.induction_selectivity: (planted, batch, (2, 1)),
        check.moved_question: (measured["bridge"], batch.tokens, (2, 0), batch.first_a.numpy(), batch), check.participation_ratio: (),
        check.broken_cloud: (np.random.default_rng(1).normal(size=(20, 4)),),
        check.fooled_head: (np.random.default_rng(1).normal(size=(2, 2, 9, 3)),), check.most_directions: (10, 16),
        check.untrained: (table, table), check.crossing: (frame, THRESHOLDS), check.circuit_sizes: (frame, THRESHOLDS),
        check.recall: (frame, THRESHOLDS), check.order: (frame, THRESHOLDS), check.perfect_reading: (batch,),
        check.thin_ratio: (table, THRESHOLDS), check.circuit_cost: (capability, {"loss": 3.75, "top1": 0.1}),
        check.control_cost: (capability, [{"loss": 2.5}, {"loss": 3.0}]),
        check.thin_head_cost: (measured["model"], batch, (1, 1)), check.evidence: (),
    }  # fmt: skip
    assert len(calls) == sum(len(exercises(notebook)) for notebook in NOTEBOOKS.values())
    for checker, given in calls.items():
        assert checker(..., *given).text == check.NOT_YET
        for answer in ZOO:
            checked = checker(answer, *given)
            assert not checked.right and checked.text.endswith((".", "?", ". ")) and len(checked.text) > 20, (
                checker,
                answer,
            )
            assert "object at 0x" not in checked.text and len(checked.text) < 400


def test_what_a_checker_says_is_readable_everywhere_and_counted():
    shown = check.Checked("2.2", True, "L1H0 <b>")._repr_mimebundle_()
    assert shown["text/plain"] == "✓ Right. L1H0 <b>" and "L1H0 &lt;b&gt;" in shown["text/html"]
    assert shown[check.CHECK_MIME] == {"exercise": "2.2", "right": True}


# Copies, marks, pages --------------------------------------------------------------------------


def test_copies_are_unsolved_and_nobodys_work_is_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lessons, "ROOT", tmp_path)
    folder = tmp_path / "notebooks" / "mine"
    assert lessons.main(["copy", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == [f"{name}.ipynb" for name in NOTEBOOKS]
    mine = folder / "2_find_an_induction_head.ipynb"
    nbformat.validate(nbformat.read(mine, as_version=4))
    mine.write_text("my answers")
    capsys.readouterr()
    assert lessons.main(["copy", str(folder)]) == 2
    assert "already" in capsys.readouterr().err and mine.read_text() == "my answers"
    assert lessons.main(["copy", str(tmp_path / "elsewhere")]) == 2
    assert "two folders up" in capsys.readouterr().err and not (tmp_path / "elsewhere").exists()


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
        "display_data", {"text/html": "x", check.CHECK_MIME: {"exercise": "2.1", "right": False}}
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
