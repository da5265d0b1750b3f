"""Lessons 3 to 5: right answers pass, and every hint meets its mistake."""

import lesson_answers
import numpy as np
import pandas as pd
import pytest
import torch
from lesson_answers import THRESHOLDS, hinted, right

from lib.lessons import lesson_3, lesson_4, lesson_5
from lib.measure import ablation, metrics


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
        hinted(lesson_3.participation_ratio(function), words)
        right(lesson_3.participation_ratio(lambda m: np.exp(-(spectrum(m)[1] * np.log(spectrum(m)[1])).sum())))
        right(lesson_3.participation_ratio(lambda m: torch.tensor(metrics.participation_ratio(m))))


def test_hints_of_breaking_it():
    cloud = np.random.default_rng(1).normal(size=(200, 8))
    text = right(lesson_3.broken_cloud(cloud - 50 * np.eye(8)[3], cloud))
    assert f"{metrics.participation_ratio(cloud, centred=True):.3g}, as before" in text
    hinted(lesson_3.broken_cloud(cloud, cloud), "the cloud itself")
    hinted(lesson_3.broken_cloud(cloud + 0.1, cloud), "What if the vector were longer")
    hinted(lesson_3.broken_cloud(3 * cloud, cloud), "different ways")
    hinted(lesson_3.broken_cloud(cloud[:1], cloud), "The shape should be 200 x 8")
    hinted(lesson_3.broken_cloud(cloud * np.inf, cloud), "infinity")

    rng = np.random.default_rng(2)
    z = rng.normal(size=(2, 2, 50, 6))
    z[1, 0] += 30  # fooled by its constant part
    z[1, 1] += 0.2
    z[0, 0, 25:] = -z[0, 0, :25]  # no constant part at all
    z[0] *= [1, 1, 0.5, 0.5, 0.5, 0.5]
    right(lesson_3.fooled_head((1, 0), z))
    gap = {
        i: metrics.participation_ratio(z[i], centred=True) - metrics.participation_ratio(z[i]) for i in np.ndindex(2, 2)
    }
    hinted(lesson_3.fooled_head(min(gap, key=gap.get), z), "there centring changes least")
    hinted(lesson_3.fooled_head((1, 1), z), "the highest PR")

    right(lesson_3.most_directions(10, 10, 16))
    hinted(lesson_3.most_directions(16, 10, 16), "how many directions can 10 rows span")
    hinted(lesson_3.most_directions(9, 10, 16), "subtracting the mean row")
    hinted(lesson_3.most_directions(np.log(10), 10, 16), "largest entropy")
    hinted(lesson_3.most_directions(160, 10, 16), "number of entries")
    hinted(lesson_3.most_directions(10, 10, 4), "each has 4 numbers")
    # No matrix beats the bound, and one reaches it.
    assert metrics.participation_ratio(rng.normal(size=(10, 16))) < 10
    assert metrics.participation_ratio(np.eye(16)[:10]) == pytest.approx(10)

    first = pd.DataFrame({"pr": [9.0, 8.5, 3, 2], "pr_centred": [9.0, 9, 9, 2], "pr_ceiling": 16.0})
    last = first.assign(pr=[1.0, 1, 1, 9])
    right(lesson_3.untrained(2, first, last))
    hinted(lesson_3.untrained(1, first, last), "after training")
    hinted(lesson_3.untrained(3, first, last), "centred")
    hinted(lesson_3.untrained(4, first, last), "number of heads")
    hinted(lesson_3.untrained(0, first, last), "ceiling itself")


def test_hints_of_lesson_4():
    frame = lesson_answers.frame()
    given = (frame, THRESHOLDS)
    assert "between s1 and s2" in right(lesson_4.crossing("s2", *given))
    hinted(lesson_4.crossing("s3", *given), "has passed already")
    hinted(lesson_4.crossing("s1", *given), "passes 30x")
    hinted(lesson_4.crossing("s0", *given), "reads 1x: not yet 50x")
    hinted(lesson_4.crossing("never", *given), "does pass")
    hinted(lesson_4.crossing("s7", *given), 'no revision "s7". They are s0, s1, s2, s3')
    hinted(lesson_4.crossing(2, *given), "The name of a revision")

    assert "can fall again" not in right(lesson_4.circuit_sizes([0, 1, 2, 2], *given))
    hinted(lesson_4.circuit_sizes([2, 2, 1, 0], *given), "turned round")
    hinted(lesson_4.circuit_sizes([0, 2, 2, 3], *given), "30x")
    hinted(lesson_4.circuit_sizes([0, 0, 2, 1], *given), "clean baseline")
    hinted(lesson_4.circuit_sizes([0, 1, 3, 5], *given), "running totals")
    hinted(lesson_4.circuit_sizes([3, 2, 1, 1], *given), "outside")
    hinted(lesson_4.circuit_sizes([0, 0, 1, 0], *given), "BOS heads")
    hinted(lesson_4.circuit_sizes([0, 1], *given), "The shape should be 4")

    right(lesson_4.recall([0, 0, 0.5, 1], *given))
    hinted(lesson_4.recall([0, 0.5, 1, 1], *given), "Count only heads that are in the final circuit")
    hinted(lesson_4.recall([0, 0, 0.5, 1][::-1], *given), "turned round")
    hinted(lesson_4.recall([0, 0, 50, 100], *given), "multiply by 100")
    hinted(lesson_4.recall([0, 0, 1, 2], *given), "These are counts")
    hinted(lesson_4.recall([0, 0, 0.4, 1], *given), "Of the heads in the last revision's circuit")
    hinted(lesson_4.recall([0, 0, 0, 1.5], *given), "between 0 and 1")
    shrinking = frame.assign(selectivity_induction=[1, 1, 1, 60, 60, 60, 60, 60, 60, 60, 60, 1])
    assert "can fall again" in right(lesson_4.circuit_sizes([0, 3, 3, 2], shrinking, THRESHOLDS))
    hinted(lesson_4.recall([0, 1.5, 1.5, 1], shrinking, THRESHOLDS), "a share never is")
    hinted(lesson_4.recall([0, 2 / 3, 2 / 3, 1], shrinking, THRESHOLDS), "precision")
    empty = frame.assign(selectivity_induction=1)
    assert "no value" in right(lesson_4.recall([np.nan] * 4, empty, THRESHOLDS))
    hinted(lesson_4.recall([0, 0, 0, 1], empty, THRESHOLDS), "empty")
    assert "under 50x" in right(lesson_4.crossing("never", empty, THRESHOLDS))

    right(lesson_4.order(("s3", "s1"), *given))
    hinted(lesson_4.order(("s1", "s3"), *given), "other way round")
    hinted(lesson_4.order(("s1", "s1"), *given), "You counted from 30x")
    hinted(lesson_4.order(("s3", "s2"), *given), "Not the first revision for induction:")
    hinted(lesson_4.order(("never", "s2"), *given), "previous-token and induction")
    hinted(lesson_4.order("s3", *given), "Two names")


def test_hints_of_lesson_5():
    batch, measured = lesson_answers.batch(), lesson_answers.measured()
    ceiling = metrics.paper_baseline_ceiling(64, batch.first_a.numpy())
    perfect = np.zeros((len(batch.tokens), 64))
    perfect[np.arange(len(perfect)), batch.first_a + 1] = 1  # the head itself, read as heads are
    baseline = perfect[:, metrics.paper_baseline_positions(64)].mean()
    assert ceiling == pytest.approx(1 / baseline)
    right(lesson_5.perfect_reading(1 / baseline, batch))
    hinted(lesson_5.perfect_reading(np.inf, batch), "not 0")
    hinted(lesson_5.perfect_reading(50 * baseline, batch), "share of sequences")
    hinted(lesson_5.perfect_reading(baseline, batch), "divide")
    hinted(lesson_5.perfect_reading(1 / (50 * baseline), batch), "one at most")
    hinted(lesson_5.perfect_reading(50, batch), "In how many is it")

    columns = {f"attention_{c}": 0.2 for c in metrics.CLASSES} | {f"selectivity_{c}": 1.0 for c in metrics.CLASSES}
    table = pd.DataFrame(
        [{"layer": 0, "head": 0, **columns}, {"layer": 0, "head": 1, **columns}, {"layer": 1, "head": 0, **columns}]
    )
    table.loc[0, ["attention_previous_token", "selectivity_previous_token"]] = 0.99, 9000
    table.loc[1, ["attention_local", "selectivity_local"]] = 0.01, 40
    table.loc[2, ["attention_self", "selectivity_self"]] = 0.001, 3
    assert "40x for the class local, with 1 %" in right(lesson_5.thin_ratio((0, 1), table, THRESHOLDS))
    hinted(lesson_5.thin_ratio((0, 0), table, THRESHOLDS), "Leave out whatever has 5 % or more")
    hinted(lesson_5.thin_ratio((1, 0), table, THRESHOLDS), "which has the highest ratio")

    whole, without = {"loss": 2.0, "top1": 0.6}, {"loss": 4.5, "top1": 0.1}
    right(lesson_5.circuit_cost(2.5, whole, without))
    hinted(lesson_5.circuit_cost(-2.5, whole, without), "The sign")
    hinted(lesson_5.circuit_cost(4.5, whole, without), "without the heads")
    hinted(lesson_5.circuit_cost(2.25, whole, without), "ratio")
    hinted(lesson_5.circuit_cost(0.5, whole, without), "top-1")
    controls = [{"loss": 2.1}, {"loss": 2.2}, {"loss": 3.5}]
    right(lesson_5.control_cost(0.6, whole, controls))
    hinted(lesson_5.control_cost(2.6, whole, controls), "mean loss")
    hinted(lesson_5.control_cost(1.5, whole, controls), "dearest")
    hinted(lesson_5.control_cost(0.1, whole, controls), "cheapest")
    hinted(lesson_5.control_cost(1.8, whole, controls), "sum")
    hinted(lesson_5.control_cost(0.2, whole, controls), "median")
    assert "nothing can be compared" in right(lesson_5.control_cost(0, whole, []))

    given = (measured["model"], measured["batch"], (1, 1))
    cost = ablation.capability(*given[:2], ablate=[(1, 1)])["loss"] - measured["whole"]["loss"]
    text = right(lesson_5.thin_head_cost(cost, *given))
    assert ("*better*" in text) == (cost < 0)
    hinted(lesson_5.thin_head_cost(-cost, *given), "The sign")
    hinted(lesson_5.thin_head_cost(measured["whole"]["loss"] + cost, *given), "This is the loss without")

    right(lesson_5.evidence({"a", "d"}))
    right(lesson_5.evidence(["D", "(a)"]))
    right(lesson_5.evidence("a, d"))
    for wrong, words in (
        ("a b d", "(b)"),
        ("a c d", "(c)"),
        ("d", "(a)"),
        ("a d e", "(e)"),
        ("a", "(d)"),
        ("x", "no statement 'x'"),
    ):
        hinted(lesson_5.evidence(wrong), words)
