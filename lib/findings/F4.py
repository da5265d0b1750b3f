"""The circuit is found early: two thirds of it within 2 % of training (section 8 of the paper)."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lib.findings.counting import Counting, Trajectory, in_circuit
from lib.findings.F3 import INDUCTION_HEADS
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, Rule
from lib.formatting import join, percent, plural, sure, sure_each, times

RECALL = 2 / 3
EARLY = 0.02


def recall_rule(shared: ArrayLike, n_final: int, training: ArrayLike) -> tuple[str, str, int | None]:
    """F4's verdict from heads of the final circuit found by revision: (verdict, gist, step that reached it).

    shared: counts [step] up to now.  n_final: size of the final circuit.  training:
    share of all tokens [step].
    """
    shared, training = np.asarray(shared), np.asarray(training)
    if n_final < INDUCTION_HEADS:
        return UNDETERMINED, f"a final circuit of {plural(n_final, 'head')}", None
    reached = shared >= RECALL * n_final - 1e-9
    if reached.any():
        step = int(reached.argmax())
        verdict = HOLDS if training[step] <= EARLY else FAILS
        return verdict, f"{shared[step]} of {n_final} after {100 * training[step]:.3g} % of training", step
    now = training[len(shared) - 1]
    gist = f"at most {shared.max()} of {n_final} after {percent(now)} of training"
    return FAILS if now > EARLY else UNDETERMINED, gist, None


def circuit_recall(heads: Trajectory, counting: Counting, threshold: float | None = None) -> pd.DataFrame:
    """Recall and precision of the induction circuit against the last revision's, one row a revision.

    threshold: of the circuit found on the way; the final one is always defined by the
    counting.  Columns revision, tokens, training (share of the panel's last tokens),
    circuit (heads found), shared (also in the last circuit), recall, precision (missing
    where undefined).
    """
    final = in_circuit(heads, counting)[-1]
    found = in_circuit(heads, counting if threshold is None else counting.at("induction_circuit", threshold))
    shared, n = (found & final).sum(axis=-1), found.sum(axis=-1)
    return pd.DataFrame(
        {
            "revision": heads.names,
            "tokens": heads.tokens,
            "training": heads.tokens / heads.tokens.max(),
            "circuit": n,
            "shared": shared,
            "recall": shared / final.sum() if final.any() else np.nan,
            "precision": shared / np.where(n > 0, n, np.nan),
        }
    )


def in_a_number(numbers: dict[str, dict]) -> tuple[str, str]:
    """The earliest share of training at which two thirds of a final circuit are there."""
    reached = [n["reached_training"] for n in numbers.values() if n["reached_training"] is not None]
    if not reached:
        return "Never", "are two thirds of a final circuit there"
    return percent(min(reached)), "of training is done when two thirds of a final circuit are there, at the earliest"


@Rule(
    "F4",
    "The circuit is found early",
    "Two thirds of the final induction circuit is found within 0.3 to 2 % of training: OLMo at 10B tokens, OLMoE at "
    "41B, Pythia at 6B.",
    claims={
        "pythia-1b": "two thirds at 6B tokens, about 2 % of training",
        "olmo-1b-0724": "two thirds at 10B tokens, about 0.3 % of training",
        "olmoe-1b-7b-0924": "two thirds at 41B tokens, about 0.8 % of training",
    },
    sweeps=("induction_circuit",),
    in_a_number=in_a_number,
    words={
        HOLDS: "recall of the final induction circuit (the heads past 50x at the last revision) reaches two thirds at a "
        "revision within the first 2 % of training",
        FAILS: "it is reached only later, or 2 % of training has passed without it",
        UNDETERMINED: "the final circuit has fewer than 3 heads, or neither has happened yet",
    },
)
def early_circuit(heads: Trajectory, at: int, counting: Counting, counterpart: str | None = None) -> Judgement:
    """F4: recall and precision of this revision's circuit against the final one."""
    found = in_circuit(heads, counting)
    final = found[-1]
    n_final = int(final.sum())
    shared, training = (found & final).sum(axis=-1)[: at + 1], heads.tokens / heads.tokens.max()
    verdict, gist, step = recall_rule(shared, n_final, training)
    if n_final < INDUCTION_HEADS:
        reason = f"The final circuit has {plural(n_final, 'head')}: fewer than 3 cannot tell two thirds from one."
    elif step is not None:
        reason = (
            f"Recall reached {shared[step]} of {n_final} heads at {heads.names[step]}, "
            f"after {percent(training[step])} of training ({'within' if verdict == HOLDS else 'not within'} 2 %)."
        )
    elif verdict == FAILS:
        highest = f"{shared.max()} of {n_final} heads"
        reason = f"After {percent(training[at])} of training the highest recall is {highest}, below two thirds."
    else:
        reason = f"Recall is {shared[at]} of {n_final} heads, and only {percent(training[at])} of training has passed."
    n_here, names = int(found[at].sum()), heads.labels(final)
    recalls = [float(n / n_final) if n_final else None for n in shared]
    precision = float(shared[at] / n_here) if n_here else None
    numbers = {
        "final_circuit": names,
        "final_heads": n_final,
        "circuit_heads": n_here,
        "recall": recalls[at],
        "precision": precision,
        "training": float(training[at]),
        "reached_at": None if step is None else heads.names[step],
        "reached_training": None if step is None else float(training[step]),
        "recalls": recalls,
    }

    def share(value: float | None) -> str:
        return "–" if pd.isna(value) else percent(value)

    def write(intervals: dict) -> tuple[str, pd.DataFrame]:
        curve = circuit_recall(heads, counting).iloc[: at + 1]
        lower = circuit_recall(heads, counting, counting.thresholds.classify).iloc[: at + 1]
        past = times(counting.thresholds.induction_circuit)
        table = pd.DataFrame(
            {
                "revision": curve.revision,
                "training": curve.training.map(percent),
                f"heads past {past}": curve.circuit,
                "of the final circuit": [f"{s} of {n_final}" for s in curve.shared],
                "recall": sure_each(curve.recall, intervals.get("recalls"), share),
                "precision": curve.precision.map(share),
                f"recall at {times(counting.thresholds.classify)}": lower.recall.map(share),
            }
        )
        statement = (
            f"The final circuit has {plural(n_final, 'head')}{sure('', intervals.get('final_heads'))}"
            f"{f': {join(names)}' if names else ''}. After {percent(training[at])} of training "
            f"{plural(n_here, 'head')} {'is' if n_here == 1 else 'are'} past {past}"
            f"{sure('', intervals.get('circuit_heads'))}"
        )
        if n_here and n_final:
            both = f"recall {share(recalls[at])}, precision {share(precision)}"
            statement += f", {shared[at]} of them in the final circuit: {both}"
        return statement + ".", table

    return Judgement(verdict, reason, gist, numbers, write)
