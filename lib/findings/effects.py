"""What causal tables say: when a circuit starts to matter, and whether circuits have formed at all."""

import pandas as pd

from lib.findings.counting import Counting, in_circuit, is_bos
from lib.formatting import join, percent, plural, tokens_text

STARTS_TO_MATTER = ("most", "average")  # dearer than every matched random draw (the rule), than their average


def starts_to_matter(trajectory, against="most"):
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


def when_it_matters(trajectory):
    """starts_to_matter in a few sentences, with what the dearest random draws hit; trajectory may be None."""
    if trajectory is None:
        return "Nothing has been measured."
    conditions = set(trajectory["condition"])
    if "final_circuit" not in conditions:
        return "No induction circuit has formed by the last revision."
    if "final_random" not in conditions:
        return "Too few heads are left to draw random ones from, so nothing can be compared."
    n = int(trajectory.loc[trajectory["condition"] == "final_random", "draw"].max()) + 1
    when = {}
    for against in STARTS_TO_MATTER:
        step = starts_to_matter(trajectory, against)
        if step is not None:
            start = trajectory[trajectory["step"] == step].iloc[0]
            when[against] = f"from {start['revision']} ({tokens_text(start['tokens'])}) on"
    if "most" in when:
        parts = [
            f"By the rule the circuit starts to matter {when['most']}: it costs more than every one of {n} random sets."
        ]
    else:
        parts = [
            f"By the rule the circuit never starts to matter: it does not lastingly cost more than every one of {n} random sets."
        ]
    last = trajectory[trajectory["step"] == trajectory["step"].max()]
    draws = last.loc[last["condition"] == "final_random", "loss"]
    above = int((draws > draws.mean()).sum())
    weaker = (
        f"It costs more than their average {when['average']}"
        if "average" in when
        else "Nor does it cost more than their average"
    )
    parts.append(f"{weaker}, a low bar: at the last revision {above} of the {n} sets are above it themselves.")
    return " ".join([*parts, _dearest(last, n)])


def _dearest(tables, n):
    """How many random draws cost as much as the circuit at the last checkpoint, and what they hit."""
    one = tables.drop_duplicates("condition").set_index("condition")
    draws = tables[tables["condition"] == "final_random"]
    circuit = one.loc["final_circuit", "loss"]
    dear = draws[draws["loss"] >= circuit]
    if dear.empty:
        return (
            f"(If the circuit were one more draw like the others, it would be the dearest of them at one revision with "
            f"probability 1 in {n + 1}.)"
        )
    text = f"At the last revision {plural(len(dear), 'set')} of {n} cost as much as the circuit or more"
    if "previous_token" in one.index:
        previous = set(one.loc["previous_token", "heads"].split())
        hits = draws["heads"].map(lambda heads: bool(previous & set(heads.split())))
        text += f"; {int(hits[dear.index].sum())} of them hold a head of the previous-token circuit, on which induction is built"
        if not hits.all():
            text += (
                f". The {plural(int((~hits).sum()), 'set')} without such a head raise the loss from "
                f"{one.loc['baseline', 'loss']:.2f} to {draws.loc[~hits, 'loss'].mean():.2f} on average, the circuit to {circuit:.2f}"
            )
    return text + "."


CRITERIA = (
    "three or more heads past 50x (clean baseline)",
    "top-1 of 40 % or more",
    "the circuit carries four fifths of it",
    "random heads cost far less",
    "first-token attractors exist somewhere",
    "no trajectory is flat",
)


def formed_as_asked(heads_trajectory, table, thresholds):
    """Whether circuits have really formed: one (met, what was found) for each of CRITERIA.

    heads_trajectory: lib.tables.heads.trajectory.  table: the causal table of the last revision.
    "Far less" means that the mean over the random draws costs at most half of what the
    circuit costs.
    """
    final = heads_trajectory[heads_trajectory["step"] == heads_trajectory["step"].max()]
    n_clean = int(in_circuit(final, Counting(thresholds, baseline="clean")).sum())
    top1 = table.groupby("condition")["top1"].mean()
    lost = (1 - top1 / top1["baseline"]) if top1["baseline"] else pd.Series(dtype=float)
    circuit_loses, random_loses = lost.get("circuit"), lost.get("random")
    counts = {
        "induction heads": in_circuit(heads_trajectory, Counting(thresholds)),
        "BOS heads": is_bos(heads_trajectory, Counting(thresholds)),
    }
    curves = {name: met.groupby(heads_trajectory["step"]).sum() for name, met in counts.items()}
    flat = [name for name, curve in curves.items() if curve.nunique() == 1]
    most = int(curves["BOS heads"].max())
    return [
        (n_clean >= 3, plural(n_clean, "head")),
        (bool(top1["baseline"] >= 0.4), percent(top1["baseline"])),
        (
            circuit_loses is not None and bool(circuit_loses >= 0.8),
            "no circuit" if circuit_loses is None else f"{percent(circuit_loses)} of top-1 is lost",
        ),
        (
            circuit_loses is not None and random_loses is not None and bool(random_loses <= circuit_loses / 2),
            "nothing to compare" if random_loses is None else f"{percent(random_loses)} is lost on average",
        ),
        (most > 0, f"at most {plural(most, 'head')} at one revision" if most else "no head at any revision"),
        (not flat, "both counts change" if not flat else f"{join(flat)} never change"),
    ]
