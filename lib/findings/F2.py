"""Three shapes of sink growth: a ramp, a jump, a ramp (section 6 of the paper)."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lib.findings.counting import SINK_MASS, Counting, Trajectory, bos_by_way, is_bos
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, Rule
from lib.formatting import percent, sure, sure_each, tokens_text

CLAIMED_SHAPE = {"pythia-1b": "ramp", "olmo-1b-0724": "jump", "olmoe-1b-7b-0924": "ramp"}
FLAT_BELOW = 0.10
JUMP_SHARE = 0.5


def shape_of(fractions: ArrayLike) -> tuple[str, int, float]:
    """Shape of a BOS curve: (shape, index of the revision that ends the largest step, its size).

    flat: the fraction never reaches 10 %.  jump: one step between neighbouring
    revisions makes at least half of the whole rise.  ramp: anything else.  The
    published curves come out as the paper names them: its largest steps make 33 %
    (Pythia), 78 % (OLMo) and 37 % (OLMoE) of the rise.
    """
    fractions = np.asarray(fractions, dtype=float)
    end, size = 0, 0.0
    if len(fractions) > 1:
        steps = np.diff(fractions)
        end, size = int(steps.argmax()) + 1, float(steps.max())
    if fractions.max() < FLAT_BELOW:
        return "flat", end, size
    rise = fractions.max() - fractions[0]
    return "jump" if size > 0 and size >= JUMP_SHARE * rise else "ramp", end, size


def shape_rule(fractions: np.ndarray, claimed: str | None, is_last: bool) -> tuple[str, str]:
    """F2's verdict from BOS fractions [step] up to now: (verdict, gist)."""
    shape, end, size = shape_of(fractions)
    growing = end == len(fractions) - 1 and not is_last
    gist = f"{shape}, from {percent(fractions[0])} to {percent(fractions[-1])}, largest step {100 * size:.1f} points"
    verdict = UNDETERMINED if shape == "flat" or growing or claimed is None else HOLDS if shape == claimed else FAILS
    return verdict, gist


def in_a_number(numbers: dict[str, dict]) -> tuple[str, str]:
    """The highest final BOS fraction of any model."""
    label = max(numbers, key=lambda label: numbers[label]["fraction"])
    return percent(numbers[label]["fraction"]), f"of {label}'s heads are BOS heads at the end, the most of any model"


@Rule(
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
    words={
        HOLDS: "the curve up to this revision has the shape that the paper gives to the model's counterpart: a jump if one "
        "step between neighbouring revisions makes at least half of the whole rise, a ramp if none does",
        FAILS: "the curve has the other shape",
        UNDETERMINED: "the fraction has never reached 10 %; or its largest step is the newest and training goes on, so that "
        "nobody can know what follows; or the paper makes no claim about such a model",
    },
)
def sink_shapes(heads: Trajectory, at: int, counting: Counting, counterpart: str | None = None) -> Judgement:
    """F2: BOS fraction over training, its largest step and its shape."""
    history = heads.upto(at)
    fractions = is_bos(history, counting).mean(axis=-1)
    claimed = CLAIMED_SHAPE.get(counterpart or "")
    is_last = at == len(heads.names) - 1
    verdict, gist = shape_rule(fractions, claimed, is_last)
    shape, end, size = shape_of(fractions)
    rise = fractions.max() - fractions[0]
    step = "none yet"
    if end:
        before, after = heads.names[end - 1 : end + 1]
        step = f"from {percent(fractions[end - 1])} to {percent(fractions[end])} between {before} and {after}"
    if shape == "flat":
        reason = f"The fraction has not reached 10 % (highest: {percent(fractions.max())}), too little to have a shape."
    elif end == at and not is_last:
        reason = f"The largest step is the newest one ({step}): whether the rise goes on is not known here."
    elif claimed is None:
        reason = f"The curve is a {shape} (largest step {step}); the paper makes no claim about such a model."
    else:
        share = percent(size / rise) if rise > 0 else "none"
        reason = f"The paper says {claimed}; here the largest step ({step}) makes {share} of the rise: a {shape}."
    numbers = {
        "shape": shape,
        "claimed_shape": claimed,
        "fraction": float(fractions[-1]),
        "peak": float(fractions.max()),
        "largest_step": size,
        "largest_step_to": heads.names[end],
        "fractions": fractions.tolist(),
    }

    def write(intervals: dict) -> tuple[str, pd.DataFrame]:
        curves = fractions_by_counting(history, counting)
        columns = {
            "clean": "clean baseline",
            "best_class": "by best class",
            "with_mass": f"with {percent(counting.thresholds.mass_floor)} of the attention",
            "mass": f"sink mass over {SINK_MASS:g}",
        }
        table = pd.DataFrame(
            {
                "revision": history.names,
                "tokens": [tokens_text(t) for t in history.tokens],
                "BOS heads, paper": sure_each(fractions, intervals.get("fractions"), percent),
                **{column: curves[way].map(percent) for way, column in columns.items()},
            }
        )
        peak = "" if fractions[-1] == fractions.max() else f", with a peak of {percent(fractions.max())}"
        growth = f"The largest step between neighbouring revisions is {step}." if size > 0 else "It has not risen."
        now = curves.iloc[-1]
        statement = (
            f"Up to here the fraction of BOS heads has gone from {percent(fractions[0])} to {percent(fractions[-1])}"
            f"{sure('', intervals.get('fraction'), percent)}{peak}. {growth} "
            f"Counted with the clean baseline it stands at {percent(now['clean'])}, by best class at "
            f"{percent(now['best_class'])}, by sink mass at {percent(now['mass'])}."
        )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)


def fractions_by_counting(heads: Trajectory, counting: Counting) -> pd.DataFrame:
    """BOS fraction at every revision, counted in five ways: one row a revision.

    Columns revision, tokens and, as fractions of all heads: paper, clean, best_class,
    with_mass (at least the mass floor as well), mass (sink mass).
    """
    curves = {way: mask.mean(axis=-1) for way, mask in bos_by_way(heads, counting).items()}
    return pd.DataFrame({"revision": heads.names, "tokens": heads.tokens, **curves})
