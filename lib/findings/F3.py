"""Induction comes first: the circuit stands before half of the heads are BOS heads (section 7 of the paper)."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lib.findings.counting import Counting, Trajectory, in_circuit, is_bos, members, thin
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, Rule
from lib.formatting import join, percent, plural, sure, sure_each, times, tokens_text

INDUCTION_HEADS = 3
SINK_FRACTION = 0.50


def _first(mask: np.ndarray) -> int | None:
    return int(mask.argmax()) if mask.any() else None


def order_rule(
    induction: ArrayLike, bos: ArrayLike, tokens: np.ndarray
) -> tuple[str, str, tuple[int | None, int | None], float | None]:
    """F3's verdict from induction heads and BOS fractions by revision: (verdict, gist, steps, gap).

    induction: counts [step].  bos: fractions [step].  tokens [step].  steps: first
    step with the induction circuit, and with half of all heads BOS (None if never).
    gap: tokens of the second over tokens of the first, None if undefined.
    """
    at_induction, at_sink = _first(np.asarray(induction) >= INDUCTION_HEADS), _first(np.asarray(bos) >= SINK_FRACTION)
    gap = None
    if at_induction is not None and at_sink is not None and tokens[at_induction]:
        gap = float(tokens[at_sink] / tokens[at_induction])
    if at_sink is None or at_sink == at_induction:
        verdict = UNDETERMINED
    else:
        verdict = FAILS if at_induction is None or at_sink < at_induction else HOLDS
    when = ["never" if step is None else f"at {tokens_text(tokens[step])}" for step in (at_induction, at_sink)]
    gist = f"induction {when[0]}, half BOS {when[1]}" + (f" ({times(gap)})" if gap else "")
    return verdict, gist, (at_induction, at_sink), gap


MILESTONES = {  # key: (in words, what is counted, from what on it is met)
    "induction_3": ("induction circuit of 3 heads or more", "induction", INDUCTION_HEADS),
    "induction_5": ("induction circuit of 5 heads or more", "induction", 5),
    "bos_10": ("BOS heads at 10 % or more", "BOS fraction", 0.1),
    "bos_30": ("BOS heads at 30 % or more", "BOS fraction", 0.3),
    "bos_50": ("BOS heads at 50 % or more", "BOS fraction", SINK_FRACTION),
    "bos_70": ("BOS heads at 70 % or more", "BOS fraction", 0.7),
    "previous_token_30": ("30 previous-token heads or more", "previous_token", 30),
    "self_30": ("30 self heads or more", "self", 30),
}


def milestone_steps(heads: Trajectory, counting: Counting) -> dict[str, int | None]:
    """First step at which each milestone of the paper is met: {key: step, None if never}."""
    counted = {"induction": in_circuit(heads, counting).sum(axis=-1)}
    counted["BOS fraction"] = is_bos(heads, counting).mean(axis=-1)
    for cls in ("previous_token", "self"):
        counted[cls] = members(heads, cls, counting.thresholds.classify, counting).sum(axis=-1)
    return {key: _first(counted[what] >= level) for key, (_, what, level) in MILESTONES.items()}


def in_a_number(numbers: dict[str, dict]) -> tuple[str, str]:
    """How many models ever have half of their heads on the first token."""
    reached = sum(n["milestones"]["bos_50"] is not None for n in numbers.values())
    return f"{reached} of {len(numbers)}", "models ever have half of their heads on the first token"


@Rule(
    "F3",
    "Induction comes first",
    "Induction circuits form before attention sinks: at 23B tokens against 264B for half of the heads in OLMo (11.5x), "
    "20B against 419B in OLMoE (21x), about 6B against 300B in Pythia.",
    claims={
        "pythia-1b": "induction at about 6B tokens, half of the heads BOS at 300B",
        "olmo-1b-0724": "induction at 23B tokens, half BOS at 264B (11.5x)",
        "olmoe-1b-7b-0924": "induction at 20B tokens, half BOS at 419B (21x)",
    },
    sweeps=("classify", "induction_circuit"),
    in_a_number=in_a_number,
    words={
        HOLDS: "the induction circuit has 3 heads or more at an earlier revision than the one at which BOS heads make half "
        "of all heads",
        FAILS: "BOS heads make half of all heads at an earlier revision",
        UNDETERMINED: "only the induction circuit has been reached, or neither, or both at the same revision",
    },
)
def induction_first(heads: Trajectory, at: int, counting: Counting, counterpart: str | None = None) -> Judgement:
    """F3: which milestones are met up to this revision, and the gap in tokens."""
    history = heads.upto(at)
    names, tokens = heads.names, heads.tokens
    steps = milestone_steps(history, counting)
    circuit, bos = in_circuit(history, counting).sum(axis=-1), is_bos(history, counting).mean(axis=-1)
    verdict, gist, (induction, sink), gap = order_rule(circuit, bos, tokens)
    is_open = induction is not None and sink is None and tokens[induction]
    open_gap = float(tokens[at] / tokens[induction]) if is_open else None
    if induction is not None and sink is not None:
        where = f"induction at {names[induction]}, half of the heads BOS at {names[sink]}"
        if verdict == HOLDS:
            at_least = "at least " if induction == 0 else ""
            reason = f"Induction came first ({where})" + (f", {at_least}{times(gap)} fewer tokens." if gap else ".")
        elif verdict == FAILS:
            reason = f"The sinks came first ({where})."
        else:
            reason = f"Both are first seen at {names[sink]}: the panel cannot order them."
    elif sink is not None:
        reason = f"Half of the heads were BOS heads at {names[sink]}, and no induction circuit of 3 heads has formed."
    elif induction is not None:
        so_far = f", so if they ever do, the gap is {open_gap:.3g}x or more" if open_gap and open_gap > 1 else ""
        reason = (
            f"The induction circuit stood at {names[induction]}; BOS heads have not reached half of all heads{so_far}."
        )
    else:
        reason = "Neither an induction circuit of 3 heads nor 50 % of BOS heads has been seen."
    numbers = {
        "milestones": {k: None if s is None else names[s] for k, s in steps.items()},
        "milestone_steps": list(steps.values()),
        "gap": gap,
        "open_gap": open_gap,
        "left_censored": induction == 0,
        "induction_heads": int(circuit[at]),
        "bos_fraction": float(bos[at]),
    }

    def write(intervals: dict) -> tuple[str, pd.DataFrame]:
        def name(step: float | None) -> str:
            return "not reached" if step is None else names[int(step)]

        reached = list(steps.values())
        start = tokens[induction] if induction is not None else 0
        table = pd.DataFrame(
            {
                "milestone": [words for words, *_ in MILESTONES.values()],
                "first revision": sure_each(reached, intervals.get("milestone_steps"), name),
                "tokens": ["–" if s is None else tokens_text(tokens[s]) for s in reached],
                "after induction": ["–" if s is None or not start else f"{tokens[s] / start:.3g}x" for s in reached],
            }
        )
        statement = (
            f"Milestones reached up to here: {len(steps) - reached.count(None)} of {len(steps)}. At this checkpoint the "
            f"induction circuit has {plural(int(circuit[at]), 'head')}{sure('', intervals.get('induction_heads'))} and "
            f"{percent(bos[at])} of the {len(heads.layer)} heads are BOS heads"
            f"{sure('', intervals.get('bos_fraction'), percent)}."
        )
        thresholds = counting.thresholds
        without_mass = thin(history, "induction", thresholds.induction_circuit, counting)[at]
        if without_mass.any():
            statement += (
                f" {join(heads.labels(without_mass))} pass {times(thresholds.induction_circuit)} with under "
                f"{percent(thresholds.mass_floor)} of the attention on the target."
            )
        if len(heads.layer) < 30:
            statement += f" (The two milestones of 30 heads cannot be met by a model of {len(heads.layer)} heads.)"
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)
