"""Induction comes first: the circuit stands before half of the heads are BOS heads (section 7 of the paper)."""

import numpy as np
import pandas as pd

from lib.findings.counting import in_circuit, is_bos, members
from lib.findings.counting import thin as thin_of
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, finding
from lib.formatting import join, percent, plural, sure, times, tokens_text

INDUCTION_HEADS = 3
SINK_FRACTION = 0.50


def order_rule(induction, bos, tokens):
    """F3's verdict from induction heads and BOS fractions by revision: (verdict, gist, steps, gap).

    induction: counts [step].  bos: fractions [step].  tokens [step].  steps: first
    step with the induction circuit, and with half of all heads BOS (None if never).
    gap: tokens of the second over tokens of the first, None if undefined.
    """
    first = lambda mask: int(mask.argmax()) if mask.any() else None  # noqa: E731
    at_induction, at_sink = first(np.asarray(induction) >= INDUCTION_HEADS), first(np.asarray(bos) >= SINK_FRACTION)
    gap = None
    if at_induction is not None and at_sink is not None and tokens[at_induction]:
        gap = float(tokens[at_sink] / tokens[at_induction])
    if at_sink is None:
        verdict = UNDETERMINED
    elif at_induction is None or at_sink < at_induction:
        verdict = FAILS
    else:
        verdict = HOLDS if at_induction < at_sink else UNDETERMINED
    when = lambda step: "never" if step is None else f"at {tokens_text(tokens[step])}"  # noqa: E731
    gist = f"induction {when(at_induction)}, half BOS {when(at_sink)}" + (f" ({times(gap)})" if gap else "")
    return verdict, gist, (at_induction, at_sink), gap


MILESTONES = {
    **{f"induction_{n}": f"induction circuit of {n} heads or more" for n in (INDUCTION_HEADS, 5)},
    **{f"bos_{p}": f"BOS heads at {p} % or more" for p in (10, 30, round(100 * SINK_FRACTION), 70)},
    "previous_token_30": "30 previous-token heads or more",
    "self_30": "30 self heads or more",
}


def milestone_steps(heads, counting):
    """First step at which each milestone of the paper is met: {key: step, None if never}."""
    induction = in_circuit(heads, counting).sum(axis=-1)
    bos = is_bos(heads, counting).mean(axis=-1)
    reached = {f"induction_{n}": induction >= n for n in (INDUCTION_HEADS, 5)}
    reached |= {f"bos_{p}": bos >= p / 100 for p in (10, 30, round(100 * SINK_FRACTION), 70)}
    for cls in ("previous_token", "self"):
        reached[f"{cls}_30"] = members(heads, cls, counting.thresholds.classify, counting).sum(axis=-1) >= 30
    return {key: int(mask.argmax()) if mask.any() else None for key, mask in reached.items()}


def in_a_number(numbers):
    """How many models ever have half of their heads on the first token."""
    return (
        f"{sum(n['milestones']['bos_50'] is not None for n in numbers.values())} of {len(numbers)}",
        "models ever have half of their heads on the first token",
    )


@finding(
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
    holds="the induction circuit has 3 heads or more at an earlier revision than the one at which BOS heads make half "
    "of all heads",
    fails="BOS heads make half of all heads at an earlier revision",
    undetermined="only the induction circuit has been reached, or neither, or both at the same revision",
)
def induction_first(heads, at, counting, counterpart=None):
    """F3: which milestones are met up to this revision, and the gap in tokens."""
    history = heads.upto(at)
    names, tokens = heads.names, heads.tokens
    steps = milestone_steps(history, counting)
    circuit, bos = in_circuit(history, counting).sum(axis=-1), is_bos(history, counting).mean(axis=-1)
    verdict, gist, (induction, sink), gap = order_rule(circuit, bos, tokens)
    open_gap = None
    if induction is not None and sink is None and tokens[induction]:
        open_gap = float(tokens[at] / tokens[induction])
    censored = induction == 0
    if induction is not None and sink is not None:
        where = f"induction at {names[induction]}, half of the heads BOS at {names[sink]}"
        if verdict == HOLDS:
            at_least = "at least " if censored else ""
            reason = f"Induction came first ({where})" + (f", {at_least}{times(gap)} fewer tokens." if gap else ".")
        elif verdict == FAILS:
            reason = f"The sinks came first ({where})."
        else:
            reason = f"Both are first seen at {names[sink]}: the panel cannot order them."
    elif sink is not None:
        reason = f"Half of the heads were BOS heads at {names[sink]}, and no induction circuit of 3 heads has formed."
    elif induction is not None:
        reason = f"The induction circuit stood at {names[induction]}; BOS heads have not reached half of all heads" + (
            f", so if they ever do, the gap is {open_gap:.3g}x or more." if open_gap and open_gap > 1 else "."
        )
    else:
        reason = "Neither an induction circuit of 3 heads nor 50 % of BOS heads has been seen."
    numbers = {
        "milestones": {k: None if s is None else names[s] for k, s in steps.items()},
        "milestone_steps": list(steps.values()),
        "gap": gap,
        "open_gap": open_gap,
        "left_censored": bool(censored),
        "induction_heads": int(circuit[at]),
        "bos_fraction": float(bos[at]),
    }

    def write(intervals):
        bounds = intervals.get("milestone_steps")
        name = lambda step: "not reached" if step is None else names[int(step)]  # noqa: E731
        rows = []
        for i, (key, step) in enumerate(steps.items()):
            related = induction is not None and tokens[induction] and step is not None
            rows.append(
                {
                    "milestone": MILESTONES[key],
                    "first revision": sure(name(step), None if bounds is None else (bounds[0][i], bounds[1][i]), name),
                    "tokens": "–" if step is None else tokens_text(tokens[step]),
                    "after induction": f"{tokens[step] / tokens[induction]:.3g}x" if related else "–",
                }
            )
        reached = sum(step is not None for step in steps.values())
        statement = (
            f"Milestones reached up to here: {reached} of {len(steps)}. At this checkpoint the induction circuit has "
            f"{plural(int(circuit[at]), 'head')}{sure('', intervals.get('induction_heads'))} and {percent(bos[at])} "
            f"of the {len(heads.layer)} heads are BOS heads{sure('', intervals.get('bos_fraction'), percent)}."
        )
        thin = thin_of(history, "induction", counting.thresholds.induction_circuit, counting)[at]
        if thin.any():
            statement += (
                f" {join(heads.labels(thin))} pass {times(counting.thresholds.induction_circuit)} with under "
                f"{percent(counting.thresholds.mass_floor)} of the attention on the target."
            )
        if len(heads.layer) < 30:
            statement += f" (The two milestones of 30 heads cannot be met by a model of {len(heads.layer)} heads.)"
        return statement, pd.DataFrame(rows)

    return Judgement(verdict, reason, gist, numbers, write)
