"""Criteria for a panel that can decide: they see what they name, and no claim."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.findings import power
from lib.findings.counting import CLASSES, Counting, Trajectory, selectivity_column
from lib.panels.panel import Thresholds

COUNTING = Counting(Thresholds())
TOKENS = np.array([0, 5, 10, 20, 40, 60, 80, 100])


def model(induction, first_token=0.0, layers=8, heads=4, architecture="a", seed=0):
    """A model in which the first of its heads attend by these shares [step, k] to the target, [k] to the first token."""
    n, baseline = layers * heads, 0.005
    attention = {c: np.zeros((len(TOKENS), n)) for c in CLASSES}
    induction = np.asarray(induction, dtype=float)
    attention["induction"][:, : induction.shape[1]] = induction
    attention["first_token"][:, n - np.size(first_token) :] = first_token
    values = {f"attention_{c}": a for c, a in attention.items()}
    values |= {selectivity_column(c, "paper"): a / baseline for c, a in attention.items()}
    layer, head = np.divmod(np.arange(n), heads)
    names = tuple(f"step{t}" for t in TOKENS)
    return power.Trained(architecture, "c", seed, 16, Trajectory(names, TOKENS, layer, head, values))


GROWTH = np.array([0, 0, 0.05, 0.3, 0.5, 0.85, 0.85, 1.0])[:, None] * np.ones(3)


def test_a_model_must_have_room():
    assert power.too_small(model(GROWTH)) == ""
    assert power.too_small(model(GROWTH, layers=4)) == "16 heads of 32, 4 layers of 6"


def test_the_circuit_is_early_from_its_third_head_on():
    two = GROWTH.copy()
    two[:, 2] = 0
    assert power.circuit_by(model(GROWTH).heads, COUNTING) == 0.2  # 0.3 / 0.005 = 60x after 20 of 100 tokens
    assert power.circuit_by(model(two).heads, COUNTING) == math.inf


def test_revisions_are_counted_while_the_circuit_grows_and_after():
    # 0.3, 0.5, 0.85 and 0.85 lie between a tenth and nine tenths of the last value, 1.
    assert power.revisions_of_growth(model(GROWTH).heads, COUNTING) == (4, 1, 2)
    assert power.revisions_of_growth(model(np.zeros((8, 3))).heads, COUNTING) == (0, 0, 2)


def test_a_sink_counts_by_ratio_and_by_mass_only():
    sinks = model(GROWTH, [0.04, 0.2, 0.2, 0.2])  # the first has a ratio of 8x, and too little mass
    assert power.sink_share(sinks.heads, COUNTING) == 3 / 32


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (9, 10), (30, 30), (3, 7)])
def test_exact_intervals_solve_their_equations(k, n):
    low, high = power.interval(k, n)

    def at_least(k, p):
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))

    assert low == 0 if k == 0 else at_least(k, low) == pytest.approx(0.025)
    assert high == 1 if k == n else 1 - at_least(k + 1, high) == pytest.approx(0.025)


@given(st.integers(1, 40))
def test_the_fewest_that_tell_from_chance_do_and_one_less_does_not(n):
    k = power.smallest_telling(n)
    if k is None:
        assert power.interval(n, n)[0] <= 0.5
    else:
        assert power.interval(k, n)[0] > 0.5 and (k - 1 <= n / 2 or power.interval(k - 1, n)[0] <= 0.5)


def test_five_seeds_alone_cannot_tell_from_chance_and_six_can():
    assert power.smallest_telling(5) is None and power.smallest_telling(6) == 6


def test_what_a_panel_misses_is_named():
    early = GROWTH[[0, 3, 4, 5, 6, 7, 7, 7]]
    good = [model(early, [0.2] * 4, architecture=a, seed=s) for a in "ab" for s in range(5)]
    found = power.missed(good, COUNTING)
    assert found["size"] == found["induction"] == found["sinks"] == ""
    late = power.missed([model(GROWTH, architecture="a", seed=s) for s in range(5)], COUNTING)
    assert late["induction"] == "a, c: 0 of 5 seeds" and late["sinks"].startswith("at the end, in the median: a 0.0 %")
    assert late["revisions"].startswith("a, c, seed 0: 4 while it grows, 1 after, 2 in the last third")


def outcomes(**by_cell):
    """a_x="hhf" -> the verdicts of three models of architecture a on corpus x."""
    words = {"h": "holds", "f": "fails", "u": "undetermined"}
    return [(*cell.split("_"), words[letter]) for cell, letters in by_cell.items() for letter in letters]


@pytest.mark.parametrize(
    ("models", "verdict"),
    [
        (outcomes(a_x="hhhhh", b_x="hhhhf"), "holds at this scale"),
        (outcomes(a_x="fffff", b_x="fffhf"), "fails at this scale"),
        (outcomes(a_x="hhhhh", b_x="fffff"), "undetermined"),  # five seeds a level cannot tell from chance
        (outcomes(a_x="hhhhh", a_y="hhhhh", b_x="fffff", b_y="fffff"), "depends on architecture"),
        (outcomes(a_x="hhhhh", a_y="fffff", b_x="hhhhh", b_y="fffff"), "depends on corpus"),
        (outcomes(a_x="hhhuu", b_x="hhuuh"), "undetermined"),  # six of ten decide
        (outcomes(a_x="hfhfh", b_x="hfhff"), "undetermined"),
        ([], "undetermined"),
    ],
)
def test_the_verdict_on_a_claim_follows_its_rule(models, verdict):
    assert power.verdict_on_claim(models) == verdict
