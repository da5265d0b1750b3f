"""What zeroing a circuit costs: when it starts to matter, and whether circuits have formed at all.

The functions read causal tables (lib.tables.causal): one row a condition and draw, with loss and top-1.
"""

import pandas as pd

from lib.findings.counting import Counting, Thresholds, in_circuit, is_bos
from lib.formatting import join, percent, plural, tokens_text

STARTS_TO_MATTER = ("most", "average")  # dearer than every matched random draw (the rule), than their average


def starts_to_matter(trajectory: pd.DataFrame, against: str = "most") -> int | None:
    """First step from which on, there and ever after, zeroing the final circuit raises the loss by more than draws do.

    trajectory: lib.tables.causal.trajectory.  against: one of STARTS_TO_MATTER.  The loss
    must rise above that of the whole model, too.  None if there is no such step, or
    nothing to compare.
    """
    loss = trajectory.groupby(["condition", "step"])["loss"]
    loss = (loss.max() if against == "most" else loss.mean()).unstack("condition")
    if not {"final_circuit", "final_random"} <= set(loss.columns):
        return None
    matters = loss["final_circuit"] > loss[["baseline", "final_random"]].max(axis=1)
    ever_after = matters[::-1].cummin()[::-1]
    return int(ever_after.idxmax()) if ever_after.any() else None


def when_it_matters(trajectory: pd.DataFrame | None) -> str:
    """starts_to_matter in a few sentences, with what the dearest random draws hit; trajectory may be None."""
    if trajectory is None:
        return "Nothing has been measured."
    conditions = set(trajectory["condition"])
    if "final_circuit" not in conditions:
        return "No induction circuit has formed by the last revision."
    if "final_random" not in conditions:
        return "Too few heads are left to draw random ones from, so nothing can be compared."
    revisions = trajectory.drop_duplicates("step").set_index("step")
    steps = [starts_to_matter(trajectory, against) for against in STARTS_TO_MATTER]
    most, average = (
        None if step is None else f"from {revisions.revision[step]} ({tokens_text(revisions.tokens[step])}) on"
        for step in steps
    )
    last = trajectory[trajectory["step"] == trajectory["step"].max()]
    draws = last.loc[last["condition"] == "final_random", "loss"]
    n = int(trajectory.loc[trajectory["condition"] == "final_random", "draw"].max()) + 1
    rule = f"starts to matter {most}: it costs" if most else "never starts to matter: it does not lastingly cost"
    low_bar = f"It costs more than their average {average}" if average else "Nor does it cost more than their average"
    return (
        f"By the rule the circuit {rule} more than every one of {n} random sets. {low_bar}, a low bar: at the last "
        f"revision {(draws > draws.mean()).sum()} of the {n} sets are above it themselves. {_dearest(last, n)}"
    )


def _dearest(last: pd.DataFrame, n: int) -> str:
    """How many random draws cost as much as the circuit at the last checkpoint, and what they hit."""
    one = last.drop_duplicates("condition").set_index("condition")
    draws = last[last["condition"] == "final_random"]
    circuit = one.loc["final_circuit", "loss"]
    dear = draws[draws["loss"] >= circuit]
    if dear.empty:
        return (
            "(If the circuit were one more draw like the others, it would be the dearest of them at one revision with "
            f"probability 1 in {n + 1}.)"
        )
    text = f"At the last revision {plural(len(dear), 'set')} of {n} cost as much as the circuit or more"
    if "previous_token" not in one.index:
        return text + "."
    previous = set(one.loc["previous_token", "heads"].split())
    hits = draws["heads"].map(lambda heads: bool(previous & set(heads.split())))
    text += (
        f"; {hits[dear.index].sum()} of them hold a head of the previous-token circuit, on which induction is built."
    )
    if hits.all():
        return text
    return (
        f"{text} The {plural(int((~hits).sum()), 'set')} without such a head raise the loss from "
        f"{one.loc['baseline', 'loss']:.2f} to {draws.loc[~hits, 'loss'].mean():.2f} on average, the circuit to {circuit:.2f}."
    )


CRITERIA = (
    "three or more heads past 50x (clean baseline)",
    "top-1 of 40 % or more",
    "the circuit carries four fifths of it",
    "random heads cost far less",
    "first-token attractors exist somewhere",
    "no trajectory is flat",
)


def formed_as_asked(
    heads_trajectory: pd.DataFrame, table: pd.DataFrame, thresholds: Thresholds
) -> list[tuple[bool, str]]:
    """Whether circuits have really formed: one (met, what was found) for each of CRITERIA.

    heads_trajectory: lib.tables.heads.trajectory.  table: the causal table of the last revision.
    "Far less" means that the mean over the random draws costs at most half of what the
    circuit costs.
    """
    steps, paper = heads_trajectory["step"], Counting(thresholds)
    n_clean = int(in_circuit(heads_trajectory[steps == steps.max()], Counting(thresholds, baseline="clean")).sum())
    top1 = table.groupby("condition")["top1"].mean()
    lost = (1 - top1 / top1["baseline"]) if top1["baseline"] else pd.Series(dtype=float)
    circuit, random = lost.get("circuit"), lost.get("random")
    carries = circuit is not None and bool(circuit >= 0.8)
    far_less = circuit is not None and random is not None and bool(random <= circuit / 2)
    masks = {"induction heads": in_circuit(heads_trajectory, paper), "BOS heads": is_bos(heads_trajectory, paper)}
    curves = {name: mask.groupby(steps).sum() for name, mask in masks.items()}
    flat = [name for name, curve in curves.items() if curve.nunique() == 1]
    most = int(curves["BOS heads"].max())
    return [
        (n_clean >= 3, plural(n_clean, "head")),
        (bool(top1["baseline"] >= 0.4), percent(top1["baseline"])),
        (carries, "no circuit" if circuit is None else f"{percent(circuit)} of top-1 is lost"),
        (far_less, "nothing to compare" if random is None else f"{percent(random)} is lost on average"),
        (most > 0, f"at most {plural(most, 'head')} at one revision" if most else "no head at any revision"),
        (not flat, f"{join(flat)} never change" if flat else "both counts change"),
    ]
