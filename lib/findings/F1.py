"""The zero-BOS floor: layers 0 and 1 never hold a BOS head (section 5 of the paper)."""

from dataclasses import replace

import numpy as np
import pandas as pd

from lib.findings.counting import SINK_MASS, by_layer, is_bos, selectivity_of
from lib.findings.counting import thin as thin_of
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, finding
from lib.formatting import join, name_of, percent, plural, sure, times

FLOOR_LAYERS = (0, 1)


def floor_rule(counts):
    """F1's verdict from BOS heads by revision and layer, [step, layer]: (verdict, gist)."""
    counts = np.asarray(counts)
    floor, deeper = (
        counts[:, : len(FLOOR_LAYERS)].sum(axis=1).max(),
        counts[:, len(FLOOR_LAYERS) :].sum(axis=1).max(initial=0),
    )
    verdict = FAILS if floor else HOLDS if deeper else UNDETERMINED
    return verdict, f"{floor or 'none'} in layers 0 and 1, up to {deeper} deeper"


def in_a_number(numbers):
    """BOS heads on the floor, over all models."""
    return (
        sum(n["floor_bos_heads_so_far"] for n in numbers.values()),
        "heads of layers 0 and 1 are BOS heads at some checkpoint",
    )


@finding(
    "F1",
    "The zero-BOS floor",
    "Layers 0 and 1 hold no BOS-attractor head at any of 10 revisions of any of 3 models.",
    claims={m: "no BOS head in layers 0 and 1, at any of 10 revisions" for m in ("pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924")},
    sweeps=("classify",),
    in_a_number=in_a_number,
    holds="no head of layers 0 and 1 is a BOS head (first-token selectivity of 30x or more) at any revision up to "
    "this one, while at least one deeper head has been",
    fails="a head of layer 0 or 1 is a BOS head at some revision up to this one",
    undetermined="no head of any layer has been a BOS head so far: a floor says nothing before there is a house on it",
)  # fmt: skip
def zero_bos_floor(heads, at, counting, counterpart=None):
    """F1: BOS heads a layer, and whether layers 0 and 1 stay without."""
    history = heads.upto(at)
    floor = np.isin(heads.layer, FLOOR_LAYERS)
    bos = is_bos(history, counting)
    counts = by_layer(heads, bos)
    verdict, gist = floor_rule(counts)
    first = selectivity_of(history, "first_token", counting.baseline)
    step, head = np.unravel_index(np.where(floor, first, -np.inf).argmax(), first.shape)
    highest_text = (
        f"{name_of(heads.layer[head], heads.head[head])} with {times(first[step, head])} "
        f"({percent(heads['attention_first_token'][step, head])} of its attention) at {heads.names[step]}"
    )
    past = times(counting.thresholds.classify)
    if verdict == FAILS:
        n = int((bos & floor).any(axis=0).sum())
        reason = f"In layers 0 and 1, {plural(n, 'head')} passed {past} at some revision up to here, the highest {highest_text}."
    elif verdict == HOLDS:
        reason = f"No head of layers 0 and 1 reached {past} at {plural(at + 1, 'revision')} up to here (highest: {highest_text}), while deeper layers held BOS heads."
    else:
        reason = f"No layer has held a BOS head so far, so that layers 0 and 1 are empty says nothing (highest there: {highest_text})."
    numbers = {
        "bos_heads": int(bos[at].sum()),
        "bos_heads_by_layer": counts[at].tolist(),
        "floor_bos_heads_so_far": int((bos & floor).any(axis=0).sum()),
        "highest_floor_selectivity": float(first[step, head]),
    }

    def write(intervals):
        thresholds = counting.thresholds
        here = heads.upto(at)
        mask = is_bos(here, counting)[at]
        clean = is_bos(here, replace(counting, baseline="clean"))[at]
        of_best = is_bos(here, replace(counting, by="best_class"))[at]
        by_mass = is_bos(here, replace(counting, by="mass"))[at]
        thin = thin_of(here, "first_token", thresholds.classify, counting)[at]
        first, attention = here["selectivity_first_token"][at], here["attention_first_token"][at]
        layers = np.arange(heads.layer.max() + 1)
        bounds = intervals.get("bos_heads_by_layer")
        table = pd.DataFrame(
            {
                "layer": layers,
                "heads": by_layer(heads, np.ones(len(heads.layer))),
                "BOS heads (paper baseline)": [
                    sure(int(n), None if bounds is None else (bounds[0][i], bounds[1][i]))
                    for i, n in enumerate(by_layer(heads, mask))
                ],
                "BOS heads (clean baseline)": by_layer(heads, clean),
                "by best class": by_layer(heads, of_best),
                f"sink mass over {SINK_MASS:g}": by_layer(heads, by_mass),
                f"past {past} with under {percent(thresholds.mass_floor)} of the attention": by_layer(heads, thin),
                "highest selectivity": [times(first[heads.layer == n].max()) for n in layers],
                "highest attention": [percent(attention[heads.layer == n].max()) for n in layers],
            }
        )
        where = [f"layer {layer} holds {n}" for layer, n in enumerate(by_layer(heads, mask)) if n]
        statement = (
            f"At this checkpoint {plural(int(mask.sum()), 'head')} of {len(mask)} "
            f"{'is a BOS head' if mask.sum() == 1 else 'are BOS heads'}{sure('', intervals.get('bos_heads'))}"
            + (f"; {join(where)}" if where else "")
            + f". Under the clean baseline the count is {int(clean.sum())}, by best class {int(of_best.sum())}, "
            f"by sink mass {int(by_mass.sum())}."
        )
        if thin.any():
            statement += (
                f" With under {percent(thresholds.mass_floor)} of its attention on the first token, a ratio past {past} "
                f"says more about a tiny baseline than about a sink: so it is with {join(heads.labels(thin))}."
            )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)
