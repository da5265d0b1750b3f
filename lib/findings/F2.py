"""Three shapes of sink growth: a ramp, a jump, a ramp (section 6 of the paper)."""

from dataclasses import replace

import numpy as np
import pandas as pd

from lib.findings.counting import SINK_MASS, is_bos
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, finding
from lib.formatting import percent, sure, tokens_text

CLAIMED_SHAPE = {"pythia-1b": "ramp", "olmo-1b-0724": "jump", "olmoe-1b-7b-0924": "ramp"}
FLAT_BELOW = 0.10
JUMP_SHARE = 0.5


def shape_of(fractions):
    """Shape of a BOS curve: (shape, index of the revision that ends the largest step, its size).

    flat: the fraction never reaches 10 %.  jump: one step between neighbouring
    revisions makes at least half of the whole rise.  ramp: anything else.  The
    published curves come out as the paper names them: its largest steps make 33 %
    (Pythia), 78 % (OLMo) and 37 % (OLMoE) of the rise.
    """
    fractions = np.asarray(fractions, dtype=float)
    steps = np.diff(fractions)
    if len(steps) == 0:
        return "flat" if fractions.max() < FLAT_BELOW else "ramp", 0, 0.0
    largest = int(steps.argmax())
    if fractions.max() < FLAT_BELOW:
        shape = "flat"
    else:
        rise = fractions.max() - fractions[0]
        shape = "jump" if steps[largest] > 0 and steps[largest] >= JUMP_SHARE * rise else "ramp"
    return shape, largest + 1, float(steps[largest])


def shape_rule(fractions, claimed, is_last):
    """F2's verdict from BOS fractions [step] up to now: (verdict, gist)."""
    shape, end, size = shape_of(fractions)
    growing = end == len(fractions) - 1 and not is_last
    gist = f"{shape}, from {percent(fractions[0])} to {percent(fractions[-1])}, largest step {100 * size:.1f} points"
    verdict = UNDETERMINED if shape == "flat" or growing or claimed is None else HOLDS if shape == claimed else FAILS
    return verdict, gist


def in_a_number(numbers):
    """The highest final BOS fraction of any model."""
    label = max(numbers, key=lambda label: numbers[label]["fraction"])
    return percent(numbers[label]["fraction"]), f"of {label}'s heads are BOS heads at the end, the most of any model"


@finding(
    "F2",
    "Three shapes of sink growth",
    "The fraction of BOS-attractor heads grows in three shapes: Pythia ramps from 0 to 57.8 %; OLMo jumps from 7.4 % "
    "to 70.3 % between 117B and 264B tokens and ends at 80.9 %; OLMoE ramps from 3.5 % (20B) to 75.8 % (5117B).",
    claims={
        "pythia-1b": "ramp from 0 to 57.8 %",
        "olmo-1b-0724": "jump from 7.4 % (117B tokens) to 70.3 % (264B), 80.9 % at the end",
        "olmoe-1b-7b-0924": "ramp from 3.5 % (20B) to 75.8 % (5117B)",
    },
    sweeps=("classify",),
    in_a_number=in_a_number,
    holds="the curve up to this revision has the shape that the paper gives to the model's counterpart: a jump if one "
    "step between neighbouring revisions makes at least half of the whole rise, a ramp if none does",
    fails="the curve has the other shape",
    undetermined="the fraction has never reached 10 %; or its largest step is the newest and training goes on, so that "
    "nobody can know what follows; or the paper makes no claim about such a model",
)
def sink_shapes(heads, at, counting, counterpart=None):
    """F2: BOS fraction over training, its largest step and its shape."""
    history = heads.upto(at)
    fractions = is_bos(history, counting).mean(axis=-1)
    claimed = CLAIMED_SHAPE.get(counterpart)
    is_last = at == len(heads.names) - 1
    verdict, gist = shape_rule(fractions, claimed, is_last)
    shape, end, size = shape_of(fractions)
    rise = fractions.max() - fractions[0]

    def step_text():
        if not end:
            return "none yet"
        return (
            f"from {percent(fractions[end - 1])} to {percent(fractions[end])} between {heads.names[end - 1]} "
            f"and {heads.names[end]}"
        )

    if shape == "flat":
        reason = f"The fraction has not reached 10 % (highest: {percent(fractions.max())}), too little to have a shape."
    elif end == at and not is_last:
        reason = f"The largest step is the newest one ({step_text()}): whether the rise goes on is not known here."
    elif claimed is None:
        reason = f"The curve is a {shape} (largest step {step_text()}); the paper makes no claim about such a model."
    else:
        reason = (
            f"The paper says {claimed}; here the largest step ({step_text()}) makes "
            f"{percent(size / rise) if rise > 0 else 'none'} of the rise: a {shape}."
        )
    numbers = {
        "shape": shape,
        "claimed_shape": claimed,
        "fraction": float(fractions[-1]),
        "peak": float(fractions.max()),
        "largest_step": size,
        "largest_step_to": heads.names[end],
        "fractions": fractions.tolist(),
    }

    def write(intervals):
        curve = fractions_by_counting(history, counting)
        bounds = intervals.get("fractions")
        table = pd.DataFrame(
            {
                "revision": heads.names[: at + 1],
                "tokens": [tokens_text(t) for t in history.tokens],
                "BOS heads, paper": [
                    sure(percent(v), None if bounds is None else (bounds[0][i], bounds[1][i]), percent)
                    for i, v in enumerate(fractions)
                ],
                "clean baseline": [percent(v) for v in curve["clean"]],
                "by best class": [percent(v) for v in curve["best_class"]],
                f"with {percent(counting.thresholds.mass_floor)} of the attention": [
                    percent(v) for v in curve["with_mass"]
                ],
                f"sink mass over {SINK_MASS:g}": [percent(v) for v in curve["mass"]],
            }
        )
        statement = (
            f"Up to here the fraction of BOS heads has gone from {percent(fractions[0])} to {percent(fractions[-1])}"
            f"{sure('', intervals.get('fraction'), percent)}"
            f"{'' if fractions[-1] == fractions.max() else f', with a peak of {percent(fractions.max())}'}. "
            + (
                f"The largest step between neighbouring revisions is {step_text()}. "
                if size > 0
                else "It has not risen. "
            )
            + f"Counted with the clean baseline it stands at {percent(curve['clean'].iloc[-1])}, "
            f"by best class at {percent(curve['best_class'].iloc[-1])}, by sink mass at {percent(curve['mass'].iloc[-1])}."
        )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)


def fractions_by_counting(heads, counting):
    """BOS fraction at every revision, counted in five ways: one row a revision.

    Columns revision, tokens and, as fractions of all heads: paper, clean, best_class,
    with_mass (at least the mass floor as well), mass (sink mass).
    """
    ways = {
        "paper": counting,
        "clean": replace(counting, baseline="clean"),
        **{by: replace(counting, by=by) for by in ("best_class", "with_mass", "mass")},
    }
    curves = {name: is_bos(heads, way).mean(axis=-1) for name, way in ways.items()}
    return pd.DataFrame({"revision": heads.names, "tokens": heads.tokens, **curves})
