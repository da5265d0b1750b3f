"""Each finding's rule on hand-made trajectories: when it holds, fails and is undetermined."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib import formatting as w
from lib.findings import F2, F5, judging
from lib.findings import counting as c
from lib.measure.metrics import CLASSES
from lib.panels.panel import Thresholds

THRESHOLDS = Thresholds()
PAPER = c.Counting(THRESHOLDS)
TOKENS = [0, 1_000, 10_000, 100_000, 1_000_000]


def trajectory(revisions=5, layers=4, heads=4, tokens=TOKENS, pr=2.0, ceiling=16.0):
    """Heads that attend to nothing in particular: selectivity 1 for every class, under both baselines."""
    rows = []
    for step in range(revisions):
        for layer in range(layers):
            for head in range(heads):
                row = {"step": step, "revision": f"r{step}", "tokens": tokens[step], "layer": layer, "head": head}
                row |= {f"selectivity_{c}": 1.0 for c in CLASSES} | {f"selectivity_clean_{c}": 1.0 for c in CLASSES}
                row |= {f"attention_{c}": 0.01 for c in CLASSES} | {"sink_mass": 0.01, "prefix_matching": 0.01}
                rows.append(row | {"pr": pr, "pr_centred": pr, "pr_ceiling": ceiling, "n_sequences": 100})
    return pd.DataFrame(rows)


def give(heads, steps, where, cls="first_token", value=60.0, mass=0.5, baselines=("paper", "clean")):
    """Set the selectivity of some heads, [(layer, head)], at some steps."""
    at = heads["step"].isin(steps) & np.array([h in where for h in zip(heads["layer"], heads["head"])])
    for baseline in baselines:
        heads.loc[at, f"selectivity_{'clean_' if baseline == 'clean' else ''}{cls}"] = value
    heads.loc[at, f"attention_{cls}"] = mass
    if cls in MASS:
        heads.loc[at, MASS[cls]] = mass
    return heads


MASS = {"first_token": "sink_mass", "induction": "prefix_matching"}


def every(n, layers=4, heads=4):
    """The first n heads of the model."""
    return [(i // heads, i % heads) for i in range(layers * heads)][:n]


def verdict(id, heads, at="r4", counterpart=None, replicates=None):
    return judging.evaluate(id, c.Trajectory.of(heads, replicates), at, THRESHOLDS, counterpart)


# Counting ---------------------------------------------------------------------------


def test_bos_heads_are_counted_by_any_class_and_by_best_class():
    heads = give(trajectory(1), [0], [(0, 0), (0, 1)], value=40)
    heads = give(heads, [0], [(0, 1)], "self", 90)
    by_best = replace(PAPER, by="best_class")
    assert c.is_bos(heads, PAPER).sum() == 2
    assert c.is_bos(heads, by_best).sum() == 1 and c.members(heads, "self", 30, by_best).sum() == 1


def test_thresholds_are_inclusive():
    heads = give(trajectory(1), [0], [(0, 0)], value=30.0)
    heads = give(heads, [0], [(1, 0)], "induction", 50.0)
    assert c.is_bos(heads, PAPER).sum() == 1 and c.in_circuit(heads, PAPER).sum() == 1


def test_a_ratio_without_attention_does_not_count_with_mass_nor_by_mass():
    heads = give(trajectory(1), [0], [(0, 0)], mass=0.04)
    heads = give(heads, [0], [(0, 1)], value=10.0, mass=0.5)
    assert c.thin(heads, "first_token", 30, PAPER).tolist() == [True] + [False] * 15
    assert not c.is_bos(heads, replace(PAPER, by="with_mass")).any()
    assert c.is_bos(heads, replace(PAPER, by="mass")).tolist() == [False, True] + [False] * 14


def test_counting_is_the_same_on_tables_trajectories_and_replicates():
    heads = give(give(trajectory(), [3, 4], [(2, 0), (3, 1)]), [2, 4], every(5), "induction")
    arrays = c.Trajectory.of(heads)
    stacked = replace(arrays, values={k: np.stack([v, v]) for k, v in arrays.values.items()})
    for by in ("any", "best_class", "with_mass", "mass"):
        way = replace(PAPER, by=by)
        for mask in (c.is_bos, c.in_circuit):
            expected = mask(heads, way).to_numpy().reshape(5, 16)
            assert (mask(arrays, way) == expected).all() and (mask(stacked, way)[1] == expected).all()


def test_counts_by_layer_and_first_steps():
    arrays = c.Trajectory.of(give(trajectory(), [3, 4], [(2, 0), (2, 1), (3, 1)]))
    mask = c.is_bos(arrays, PAPER)
    assert c.by_layer(arrays, mask)[4].tolist() == [0, 0, 2, 1]
    assert sorted(c.first_step(mask)) == [-1] * 13 + [3] * 3


# F1 ---------------------------------------------------------------------------------


def test_f1_holds_if_only_deeper_layers_have_bos_heads():
    heads = give(trajectory(), [3, 4], [(2, 0), (3, 1)])
    assert verdict("F1", heads).verdict == "holds"
    assert verdict("F1", heads).numbers["bos_heads_by_layer"] == [0, 0, 1, 1]


def test_f1_fails_for_good_once_the_floor_was_broken():
    heads = give(trajectory(), [2], [(1, 3)])
    assert verdict("F1", heads, "r1").verdict == "undetermined"
    assert verdict("F1", heads, "r2").verdict == "fails"
    assert verdict("F1", heads, "r4").verdict == "fails" and "L1H3" in verdict("F1", heads, "r4").reason


def test_f1_is_undetermined_without_any_bos_head():
    assert verdict("F1", trajectory()).verdict == "undetermined"


def test_f1_tells_ratios_without_attention_apart_and_gives_the_clean_verdict():
    heads = give(trajectory(), [4], [(0, 2)], mass=0.001, baselines=("paper",))
    result = verdict("F1", heads)
    survival = {words: verdict for words, (verdict, _) in result.survival.items()}
    assert survival == {
        "as the paper counts": "fails", "clean baseline": "undetermined", "by best class": "fails",
        "with attention mass": "undetermined", "mass instead of ratios": "undetermined",
    }  # fmt: skip
    assert "L0H2" in result.statement
    assert "Under *clean baseline* it would read **undetermined**" in judging.survival_text(result)


# F2 ---------------------------------------------------------------------------------


def test_published_curves_have_the_shapes_that_the_paper_names():
    # Fractions recomputed from the author's result files (any head past 30x).
    published = {
        "ramp": [
            [0, 0, 0, 0, 0, 0, 10.9, 29.7, 46.1, 57.8],
            [3.5, 15.6, 42.2, 43.4, 50.8, 69.9, 71.5, 73.0, 74.2, 75.8],
        ],
        "jump": [[0, 0, 0.4, 0, 0, 7.4, 70.3, 77.7, 80.9, 80.9]],
    }
    for shape, curves in published.items():
        for curve in curves:
            assert F2.shape_of(np.array(curve) / 100)[0] == shape


@pytest.mark.parametrize(
    "fractions, shape, end",
    [
        ([0, 0.02, 0.05], "flat", 2),
        ([0, 0, 0.6, 0.7], "jump", 2),
        ([0, 0.2, 0.4, 0.6], "ramp", 1),
        ([0.5, 0.4, 0.2], "ramp", 1),
        ([0.4], "ramp", 0),
    ],
)
def test_shapes(fractions, shape, end):
    assert F2.shape_of(fractions)[:2] == (shape, end)


def bos_counts(counts):
    heads = trajectory()
    for step, n in enumerate(counts):
        give(heads, [step], every(n))
    return heads


def test_f2_holds_and_fails_by_the_counterparts_shape():
    ramp, jump = bos_counts([0, 4, 8, 12, 16]), bos_counts([0, 0, 14, 15, 16])
    assert verdict("F2", ramp, counterpart="pythia-1b").verdict == "holds"
    assert verdict("F2", ramp, counterpart="olmo-1b-0724").verdict == "fails"
    assert verdict("F2", jump, counterpart="olmo-1b-0724").verdict == "holds"
    assert verdict("F2", jump, counterpart="olmoe-1b-7b-0924").verdict == "fails"
    assert verdict("F2", jump).numbers["largest_step_to"] == "r2"


def test_f2_is_undetermined_while_flat_while_the_rise_is_new_and_without_a_claim():
    assert verdict("F2", bos_counts([0, 0, 1, 1, 1]), counterpart="pythia-1b").verdict == "undetermined"
    assert verdict("F2", bos_counts([0, 0, 14, 15, 16]), "r2", "olmo-1b-0724").verdict == "undetermined"
    assert verdict("F2", bos_counts([0, 0, 0, 0, 14]), "r4", "olmo-1b-0724").verdict == "holds"
    assert verdict("F2", bos_counts([0, 4, 8, 12, 16])).verdict == "undetermined"


# F3 ---------------------------------------------------------------------------------


def test_f3_holds_if_induction_comes_first_and_measures_the_gap():
    heads = give(trajectory(), [1, 2, 3, 4], every(3), "induction")
    heads = give(heads, [3, 4], every(8))
    result = verdict("F3", heads)
    assert result.verdict == "holds" and result.numbers["gap"] == pytest.approx(100)
    assert result.numbers["milestones"] == {
        "induction_3": "r1", "induction_5": None, "bos_10": "r3", "bos_30": "r3", "bos_50": "r3", "bos_70": None,
        "previous_token_30": None, "self_30": None,
    }  # fmt: skip


def test_f3_fails_if_sinks_come_first():
    heads = give(trajectory(), [2, 3, 4], every(8))
    assert verdict("F3", heads).verdict == "fails"
    assert verdict("F3", give(heads, [4], every(3), "induction")).verdict == "fails"


def test_f3_is_undetermined_if_only_one_or_none_or_both_at_once():
    assert verdict("F3", trajectory()).verdict == "undetermined"
    only = give(trajectory(), [1, 2, 3, 4], every(3), "induction")
    assert verdict("F3", only).verdict == "undetermined" and verdict("F3", only).numbers["open_gap"] == pytest.approx(
        1000
    )
    both = give(give(trajectory(), [2], every(3), "induction"), [2], every(8))
    assert verdict("F3", both).verdict == "undetermined"


def test_f3_says_when_induction_was_there_from_the_first_revision():
    heads = give(trajectory(tokens=[5_000, 10_000, 20_000, 40_000, 80_000]), [0, 1, 2, 3, 4], every(3), "induction")
    result = verdict("F3", give(heads, [4], every(8)))
    assert result.numbers["left_censored"] and "at least" in result.reason


# F4 ---------------------------------------------------------------------------------


def circuit(*sets):
    """A trajectory whose circuit at each step is given."""
    heads = trajectory()
    for step, members in enumerate(sets):
        give(heads, [step], members, "induction")
    return heads


FINAL = every(3)


def test_f4_holds_if_two_thirds_are_found_within_two_per_cent():
    heads = circuit([], [], FINAL[:2] + [(3, 3)], FINAL, FINAL)  # step 2 is 1 % of training
    result = verdict("F4", heads, "r2")
    assert result.verdict == "holds"
    assert result.numbers["recall"] == pytest.approx(2 / 3) and result.numbers["precision"] == pytest.approx(2 / 3)
    assert verdict("F4", heads, "r4").verdict == "holds"


def test_f4_fails_if_two_per_cent_pass_without_it():
    heads = circuit([], [], FINAL[:1], FINAL, FINAL)
    assert verdict("F4", heads, "r3").verdict == "fails"
    assert verdict("F4", circuit([], [], [], FINAL[:1], FINAL), "r3").verdict == "fails"


def test_f4_is_undetermined_early_on_or_for_a_final_circuit_too_small():
    assert verdict("F4", circuit([], [], FINAL[:1], FINAL, FINAL), "r2").verdict == "undetermined"
    assert verdict("F4", circuit([], [], FINAL[:2], FINAL[:2], FINAL[:2])).verdict == "undetermined"
    assert verdict("F4", trajectory()).verdict == "undetermined"


# F5 ---------------------------------------------------------------------------------


def raise_pr(heads, steps, where, value=8.0):
    at = heads["step"].isin(steps) & np.array([h in where for h in zip(heads["layer"], heads["head"])])
    heads.loc[at, "pr"] = value
    return heads


def test_f5_holds_if_pr_rises_at_or_before_the_crossing():
    heads = circuit([], [], [], FINAL, FINAL)
    heads = raise_pr(raise_pr(heads, [1, 2, 3, 4], FINAL[:2]), [3, 4], FINAL[2:])
    result = verdict("F5", heads)
    assert result.verdict == "holds" and result.numbers["leads"] == {"L0H0": 2, "L0H1": 2, "L0H2": 0}
    assert result.numbers["elevated_outside"] == 0
    arrays = c.Trajectory.of(heads)
    assert F5.elevation_steps(arrays, PAPER)[1].item() == pytest.approx(4.0)
    assert F5.spectral_leads(arrays, PAPER)["lead_tokens"][0] == pytest.approx(100)


def test_f5_fails_if_a_head_crosses_with_pr_not_elevated():
    heads = raise_pr(circuit([], [], [], FINAL, FINAL), [1, 2, 3, 4], FINAL[:2])
    assert verdict("F5", heads).verdict == "fails" and "L0H2" in verdict("F5", heads).reason
    late = raise_pr(heads, [4], FINAL[2:])
    assert verdict("F5", late).verdict == "fails" and verdict("F5", late).numbers["leads"]["L0H2"] == -1


def test_f5_is_undetermined_before_a_crossing_at_the_ceiling_without_a_circuit_and_if_censored():
    heads = raise_pr(circuit([], [], [], FINAL, FINAL), [1, 2, 3, 4], FINAL)
    assert verdict("F5", heads, "r2").verdict == "undetermined"
    assert verdict("F5", trajectory()).verdict == "undetermined"
    assert verdict("F5", circuit(FINAL, FINAL, FINAL, FINAL, FINAL)).verdict == "undetermined"
    near_ceiling = trajectory(pr=12.0)
    assert verdict("F5", give(near_ceiling, [3, 4], FINAL, "induction")).verdict == "undetermined"


def elevated_heads(heads, elevation):
    steps, _ = F5.elevation_steps(c.Trajectory.of(heads), replace(PAPER, elevation=elevation))
    return {int(head): int(steps[head]) for head in np.flatnonzero(steps >= 0)}


def test_the_three_rules_for_an_elevated_pr():
    """Head 0 goes from 2 to 8, head 1 has 7 all along, the other heads have 2, which is the median at the start."""
    heads = raise_pr(raise_pr(trajectory(), [3, 4], every(1)), [0, 1, 2, 3, 4], [(0, 1)], 7.0)
    assert elevated_heads(heads, "start") == {0: 3, 1: 0}
    assert elevated_heads(heads, "own") == {0: 3}
    heads["pr"] = (4 * heads["layer"] + heads["head"]) / 10  # 16 heads of different PR: the top quarter are four
    assert elevated_heads(heads, "peers") == {12: 0, 13: 0, 14: 0, 15: 0}


# How sure ---------------------------------------------------------------------------


def replicates_of(heads, n=40, noise=0.0, seed=0):
    """Replicates of a hand-made trajectory: attention scaled by a random factor, baselines fixed at 1."""
    rng = np.random.default_rng(seed)
    arrays = c.Trajectory.of(heads)
    shape = (n, *arrays["pr"].shape)
    factor = np.exp(noise * rng.standard_normal(shape))
    made = {f"attention_{k}": arrays[f"selectivity_{k}"] * factor for k in CLASSES}
    return made | {"baseline_paper": np.ones(shape), "baseline_clean": np.ones(shape), "pr": arrays["pr"] * factor}


def test_without_noise_everything_is_settled():
    heads = give(trajectory(), [3, 4], [(2, 0), (3, 1)])
    result = verdict("F1", heads, replicates=replicates_of(heads))
    assert result.support == 1 and result.intervals["bos_heads"] == (2, 2)
    assert result.intervals["bos_heads_by_layer"] == ([0, 0, 1, 1], [0, 0, 1, 1])
    assert "unsettled" not in result.statement + result.table.to_string()


def test_a_count_close_to_its_threshold_is_unsettled_and_the_verdict_with_it():
    heads = give(trajectory(), [4], [(2, 0)], value=30.1)
    result = verdict("F1", heads, replicates=replicates_of(heads, n=200, noise=0.1))
    assert result.intervals["bos_heads"] == (0, 1)
    assert "1 head of 16 is a BOS head (0 to 1, unsettled)" in result.statement
    assert 0.35 < result.support < 0.65 and "of the resamples" in judging.survival_text(result)


def test_a_milestone_that_a_resample_never_reaches_has_an_open_interval():
    heads = give(trajectory(), [4], every(3), "induction", value=50.1)
    result = verdict("F3", heads, replicates=replicates_of(heads, n=200, noise=0.1))
    low, high = result.intervals["milestone_steps"]
    assert low[0] == 4 and high[0] is None
    assert "r4 (r4 to not reached, unsettled)" in result.table["first revision"].to_list()


def test_sweeps_ask_every_threshold_under_every_assumption():
    heads = give(give(trajectory(), [3, 4], [(2, 0)], value=45.0), [4], [(0, 0)], value=12.0, baselines=("clean",))
    sweep = verdict("F1", heads).sweeps.pivot(index="counting", columns="threshold", values="verdict")
    assert sweep.loc["as the paper counts"].to_list() == ["holds"] * 5 + ["undetermined"] * 3
    assert sweep.loc["clean baseline"].to_list() == ["fails"] + ["holds"] * 4 + ["undetermined"] * 3
    assert sweep.loc["mass instead of ratios"].nunique() == 1
    assert set(verdict("F3", heads).sweeps["swept"]) == {"classify", "induction_circuit"}


# All --------------------------------------------------------------------------------


@pytest.mark.parametrize("id", judging.FINDINGS)
def test_every_finding_speaks_in_sentences_and_plain_values(id):
    import json

    for heads in (trajectory(), give(circuit([], [], FINAL, FINAL, FINAL), [3, 4], every(9))):
        result = verdict(id, heads, counterpart="olmo-1b-0724")
        assert result.verdict in judging.VERDICTS
        assert result.reason.endswith(".") and result.reason[0].isupper() and "nan" not in result.reason
        assert "nan" not in result.statement.lower() and list(result.table.columns)
        json.dumps([result.numbers, result.survival], allow_nan=False)
        assert set(judging.FINDINGS[id].words) == set(judging.VERDICTS)


@pytest.mark.parametrize("id", judging.FINDINGS)
def test_findings_do_not_look_ahead_except_at_the_final_circuit(id):
    """Later revisions must not change what F1 to F3 say of an earlier one."""
    heads = give(circuit([], [], FINAL, FINAL, FINAL), [3, 4], every(9))
    changed = give(heads.copy(), [4], [(0, 0), (3, 3)], value=500.0)
    assert verdict(id, heads, "r2").verdict == verdict(id, changed, "r2").verdict
    assert verdict(id, heads, "r2").reason == verdict(id, changed, "r2").reason


def test_an_unknown_revision_is_refused():
    with pytest.raises(ValueError, match="no revision 'r9' among r0"):
        verdict("F1", trajectory(), "r9")


@pytest.mark.parametrize(
    "verdicts, expected",
    [
        (("holds", "holds"), "holds"),
        (("holds", "fails"), "fails"),
        (("holds", "undetermined"), "undetermined"),
        (("fails", "undetermined"), "fails"),
    ],
)
def test_panel_verdicts(verdicts, expected):
    made = {
        f"model {i}": judging.Finding("F1", v, "Because.", "", "", {}, pd.DataFrame(), {}, pd.DataFrame(), {}, None)
        for i, v in enumerate(verdicts)
    }
    assert judging.panel_verdict(made)[0] == expected


def test_numbers_in_words():
    assert w.tokens_text(0) == "0 tokens" and w.tokens_text(1_234_567) == "1.23M tokens"
    assert w.percent(0.578) == "57.8 %" and w.percent(1.0) == "100 %"
    assert w.times(41.83) == "41.8x" and w.times(2_500_000.0) == "2.5e+06x"
    assert w.join(["a"]) == "a" and w.join("abc") == "a, b and c" and w.join([]) == "none"
