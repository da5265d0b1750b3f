"""The zero-BOS floor: layers 0 and 1 never hold a BOS head (section 5 of the paper)."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lib.findings.counting import SINK_MASS, Counting, Trajectory, bos_by_way, by_layer, is_bos, selectivity_of, thin
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, Rule
from lib.formatting import join, name_of, percent, plural, sure, sure_each, times

FLOOR_LAYERS = (0, 1)


def floor_rule(counts: ArrayLike) -> tuple[str, str]:
    """F1's verdict from BOS heads by revision and layer, [step, layer]: (verdict, gist)."""
    on_floor, above = np.split(np.asarray(counts), [len(FLOOR_LAYERS)], axis=1)
    floor, deeper = on_floor.sum(axis=1).max(), above.sum(axis=1).max(initial=0)
    verdict = FAILS if floor else HOLDS if deeper else UNDETERMINED
    return verdict, f"{floor or 'none'} in layers 0 and 1, up to {deeper} deeper"


def in_a_number(numbers: dict[str, dict]) -> tuple[int, str]:
    """BOS heads on the floor, over all models."""
    on_floor = sum(n["floor_bos_heads_so_far"] for n in numbers.values())
    return on_floor, "heads of layers 0 and 1 are BOS heads at some checkpoint"


@Rule(
    "F1",
    "The zero-BOS floor",
    "Layers 0 and 1 hold no BOS-attractor head at any of 10 revisions of any of 3 models.",
    claims=dict.fromkeys(
        ("pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924"), "no BOS head in layers 0 and 1, at any of 10 revisions"
    ),
    sweeps=("classify",),
    in_a_number=in_a_number,
    words={
        HOLDS: "no head of layers 0 and 1 is a BOS head (first-token selectivity of 30x or more) at any revision up to "
        "this one, while at least one deeper head has been",
        FAILS: "a head of layer 0 or 1 is a BOS head at some revision up to this one",
        UNDETERMINED: "no head of any layer has been a BOS head so far: a floor says nothing before there is a house on it",
    },
)
def zero_bos_floor(heads: Trajectory, at: int, counting: Counting, counterpart: str | None = None) -> Judgement:
    """F1: BOS heads a layer, and whether layers 0 and 1 stay without."""
    history = heads.upto(at)
    floor = np.isin(heads.layer, FLOOR_LAYERS)
    bos = is_bos(history, counting)
    counts = by_layer(heads, bos)
    verdict, gist = floor_rule(counts)
    n_broken = int((bos & floor).any(axis=0).sum())
    selectivity = selectivity_of(history, "first_token", counting.baseline)
    step, head = np.unravel_index(np.where(floor, selectivity, -np.inf).argmax(), selectivity.shape)
    highest = (
        f"{name_of(heads.layer[head], heads.head[head])} with {times(selectivity[step, head])} "
        f"({percent(heads['attention_first_token'][step, head])} of its attention) at {heads.names[step]}"
    )
    past = times(counting.thresholds.classify)
    if verdict == FAILS:
        reason = (
            f"In layers 0 and 1, {plural(n_broken, 'head')} passed {past} at some revision up to here, "
            f"the highest {highest}."
        )
    elif verdict == HOLDS:
        reason = (
            f"No head of layers 0 and 1 reached {past} at {plural(at + 1, 'revision')} up to here (highest: {highest}), "
            "while deeper layers held BOS heads."
        )
    else:
        reason = (
            "No layer has held a BOS head so far, so that layers 0 and 1 are empty says nothing "
            f"(highest there: {highest})."
        )
    numbers = {
        "bos_heads": int(bos[at].sum()),
        "bos_heads_by_layer": counts[at].tolist(),
        "floor_bos_heads_so_far": n_broken,
        "highest_floor_selectivity": float(selectivity[step, head]),
    }

    def write(intervals: dict) -> tuple[str, pd.DataFrame]:
        under = percent(counting.thresholds.mass_floor)
        ways = {way: mask[at] for way, mask in bos_by_way(history, counting).items()}
        without_mass = thin(history, "first_token", counting.thresholds.classify, counting)[at]
        layers = np.arange(heads.layer.max() + 1)
        ratios, attention = history["selectivity_first_token"][at], history["attention_first_token"][at]
        table = pd.DataFrame(
            {
                "layer": layers,
                "heads": by_layer(heads, np.ones(len(heads.layer))),
                "BOS heads (paper baseline)": sure_each(counts[at], intervals.get("bos_heads_by_layer")),
                "BOS heads (clean baseline)": by_layer(heads, ways["clean"]),
                "by best class": by_layer(heads, ways["best_class"]),
                f"sink mass over {SINK_MASS:g}": by_layer(heads, ways["mass"]),
                f"past {past} with under {under} of the attention": by_layer(heads, without_mass),
                "highest selectivity": [times(ratios[heads.layer == n].max()) for n in layers],
                "highest attention": [percent(attention[heads.layer == n].max()) for n in layers],
            }
        )
        n = numbers["bos_heads"]
        where = [f"layer {layer} holds {held}" for layer, held in enumerate(counts[at]) if held]
        statement = (
            f"At this checkpoint {plural(n, 'head')} of {len(heads.layer)} {'is a BOS head' if n == 1 else 'are BOS heads'}"
            f"{sure('', intervals.get('bos_heads'))}{f'; {join(where)}' if where else ''}. "
            f"Under the clean baseline the count is {ways['clean'].sum()}, by best class {ways['best_class'].sum()}, "
            f"by sink mass {ways['mass'].sum()}."
        )
        if without_mass.any():
            statement += (
                f" With under {under} of its attention on the first token, a ratio past {past} says more about a tiny "
                f"baseline than about a sink: so it is with {join(heads.labels(without_mass))}."
            )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)
