"""F5's null: what a lead and a separation look like when they are there, and when they are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_findings import FINAL, PAPER, circuit, every, raise_pr, replicates_of, trajectory

from lib.findings import controls
from lib.findings import counting as c


def arrays(heads, n=30, noise=0.02):
    return c.Trajectory.of(heads, replicates_of(heads, n, noise))


def row(comparison, elevation="start", group="all layers"):
    return comparison.set_index(["elevation", "controls"]).loc[(elevation, group)]


def test_circuit_heads_that_alone_are_elevated_differ_from_controls():
    heads = raise_pr(circuit([], [], [], FINAL, FINAL), [2, 3, 4], FINAL)
    found = row(controls.compare(arrays(heads), 4, PAPER))
    assert (found["share"], found["share_controls"], found["share_difference"]) == (1, 0, 1)
    assert found["lead"] == 1 and found["lead_controls"] == pytest.approx(3 - 5)  # never counts as after the last
    assert found["share_difference_low"] > 0 and found["n_controls"] == 13
    assert "against all heads at the start (all layers)" in controls.summary(controls.compare(arrays(heads), 4, PAPER))


def test_if_all_heads_rise_together_there_is_no_difference():
    heads = raise_pr(circuit([], [], [], FINAL, FINAL), [2, 3, 4], every(16))
    found = row(controls.compare(arrays(heads), 4, PAPER))
    assert found["share"] == found["share_controls"] == 1 and found["lead_difference"] == 0
    assert found["share_difference_low"] <= 0 <= found["share_difference_high"]


def test_heads_that_once_were_in_a_circuit_are_no_controls():
    heads = circuit([], [], every(4), FINAL, FINAL)
    assert row(controls.compare(arrays(heads), 4, PAPER))["n_controls"] == 12
    assert row(controls.compare(arrays(heads), 4, PAPER), group="same layers")["n_controls"] == 0


def test_without_a_circuit_or_a_readable_crossing_nothing_is_compared():
    for heads in (trajectory(), circuit(FINAL, FINAL, FINAL, FINAL, FINAL)):
        comparison = controls.compare(arrays(heads), 4, PAPER)
        assert comparison["share"].isna().all() and "nothing to compare" in controls.summary(comparison)
    assert controls.separation(arrays(trajectory()), 4, PAPER).empty


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.data())
def test_the_area_is_the_share_of_pairs_in_order(scores, data):
    n = data.draw(st.integers(1, len(scores) - 1))
    inside, outside = np.arange(n), np.arange(n, len(scores))
    pairs = [(scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]) for i in inside for j in outside]
    assert controls.auc(np.array(scores, dtype=float), inside, outside) == pytest.approx(np.mean(pairs))


def test_the_answer_says_which_signal_comes_first():
    rng = np.random.default_rng(0)

    def spread(heads):  # different PRs, so that no signal tells the heads apart by itself
        heads["pr"] = 2 + 0.1 * rng.permutation(len(heads)) / len(heads)
        return heads

    def asked(heads):
        return controls.pr_tells_first(controls.separation(arrays(heads), 4, PAPER))

    late = [[], [], [], FINAL, FINAL]
    assert asked(raise_pr(spread(circuit(*late)), [1, 2, 3, 4], FINAL)).startswith(
        "yes, PR tells the circuit's heads apart from r1 on"
    )
    assert asked(raise_pr(spread(circuit(*late)), [4], FINAL)).startswith(
        "no, selectivity tells the circuit's heads apart from r3 on"
    )
    assert (
        asked(raise_pr(spread(circuit(*late)), [3, 4], FINAL)) == "no, both tell the circuit's heads apart from r3 on"
    )
    # A lead that is lost again is none.
    assert "PR not up to here" in asked(raise_pr(spread(circuit(*late)), [1, 2, 3], FINAL))
