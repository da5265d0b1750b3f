"""F5 with a null: would heads that never join the circuit have shown the same lead?

For a head of the final circuit that crosses the threshold at revision c, the statistic
is whether its PR was elevated at c or before, and the lead: c less the revision of the
elevation.  A control is a head that never passes the threshold at any revision of the
panel; it is asked the same at the circuit heads' own c, since it has none.  "Never
elevated" counts as the revision after the last one seen.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from lib import measure
from lib.findings.counting import first_step, in_circuit
from lib.findings.F5 import ELEVATIONS
from lib.formatting import join, percent

GROUPS = {"same layers": True, "all layers": False}
SEED = 0


def _groups(heads, counting):
    """(indices of the final circuit's heads, {group of GROUPS: indices of its controls})."""
    circuit = in_circuit(heads, counting)
    inside, controls = np.flatnonzero(circuit[-1]), np.flatnonzero(~circuit.any(axis=0))
    in_layers = np.isin(heads.layer[controls], heads.layer[inside])
    return inside, {group: controls[in_layers] if same else controls for group, same in GROUPS.items()}


def _steps(heads, counting):
    """(elevated, crossed): first steps [head], -1 if never."""
    pr = heads["pr"]
    level = ELEVATIONS[counting.elevation].level(pr, counting.thresholds)
    return first_step(pr >= level), first_step(in_circuit(heads, counting))


def _statistics(elevated, crossed, layer, inside, controls, same_layer, last):
    """(share, lead) of the circuit heads and of the controls, from arrays [head]; None if no crossing can be read."""
    circuit = inside[crossed[inside] > 0]
    if not len(circuit) or not len(controls):
        return None
    when = np.where(elevated < 0, last + 1, elevated)
    pairs = crossed[circuit][:, None] - when[controls][None, :]  # [circuit head, control]
    weights = layer[circuit][:, None] == layer[controls][None, :] if same_layer else np.ones(pairs.shape, dtype=bool)
    if not weights.any():
        return None
    own = crossed[circuit] - when[circuit]
    return (own >= 0).mean(), own.mean(), (pairs >= 0)[weights].mean(), pairs[weights].mean()


def compare(heads, at, counting):
    """Circuit heads against controls at a revision, under every rule for "elevated": one row a rule and group.

    heads: Trajectory with replicates.  at: index of the revision.  Columns elevation,
    controls (group), n_circuit, n_controls, share, share_controls, share_difference
    with _low and _high, lead, lead_controls (revisions), lead_difference with _low and
    _high.  The interval resamples sequences (with all that follows from them) and heads
    at once; missing where nothing can be compared.
    """
    history = heads.upto(at)
    inside, groups = _groups(heads, counting)
    rng = np.random.default_rng(SEED)
    rows = []
    for elevation in ELEVATIONS:
        asked = replace(counting, elevation=elevation)
        drawn = [_steps(history.draw(i), asked) for i in range(history.n_replicates)]
        for group, of in groups.items():
            same_layer = GROUPS[group]
            estimate = _statistics(*_steps(history, asked), heads.layer, inside, of, same_layer, at)
            row = {"elevation": elevation, "controls": group, "n_circuit": len(inside), "n_controls": len(of)}
            if estimate is not None:
                share, lead, share_of, lead_of = estimate
                row |= {"share": share, "share_controls": share_of, "share_difference": share - share_of}
                row |= {"lead": lead, "lead_controls": lead_of, "lead_difference": lead - lead_of}
                again = [
                    _statistics(
                        elevated, crossed, heads.layer, rng.choice(inside, len(inside)), rng.choice(of, len(of)), same_layer, at
                    )
                    for elevated, crossed in drawn
                ]  # fmt: skip
                differences = np.array([(a[0] - a[2], a[1] - a[3]) for a in again if a is not None])
                if len(differences):
                    low, high = measure.bootstrap.interval(differences)
                    row |= {"share_difference_low": low[0], "share_difference_high": high[0]}
                    row |= {"lead_difference_low": low[1], "lead_difference_high": high[1]}
            rows.append(row)
    columns = ["elevation", "controls", "n_circuit", "n_controls"]
    for name in ("share", "lead"):
        columns += [name, f"{name}_controls", *(f"{name}_difference{end}" for end in ("", "_low", "_high"))]
    return pd.DataFrame(rows).reindex(columns=columns)


def auc(scores, inside, outside):
    """Probability that a circuit head scores above a control, ties counting half: scores [..., head] -> [...]."""
    x, y = scores[..., inside][..., :, None], scores[..., outside][..., None, :]
    return (x > y).mean(axis=(-2, -1)) + 0.5 * (x == y).mean(axis=(-2, -1))


def separation(heads, at, counting):
    """How well PR and induction selectivity tell the final circuit's heads from the controls at each revision.

    The area under the ROC curve (0.5: no better than chance, 1: every circuit head
    above every control).  One row a group and revision; columns controls, step,
    revision, tokens, pr, selectivity, each with _low and _high from resampled
    sequences and heads.  Empty if there is no circuit or no control.
    """
    history = heads.upto(at)
    replicated = history.replicated()
    inside, groups = _groups(heads, counting)
    rng = np.random.default_rng(SEED)
    parts = []
    for group, of in groups.items():
        if not len(inside) or not len(of):
            continue
        part = {"controls": group, "step": range(at + 1), "revision": history.names, "tokens": history.tokens}
        for name, column in (("pr", "pr"), ("selectivity", "selectivity_induction")):
            part[name] = auc(history[column], inside, of)
            draws = [
                auc(replicated[column][i], rng.choice(inside, len(inside)), rng.choice(of, len(of)))
                for i in range(history.n_replicates)
            ]
            if draws:
                part[f"{name}_low"], part[f"{name}_high"] = measure.bootstrap.interval(np.array(draws))
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def tells_from(curve, name):
    """First step from which on the whole interval of a signal's AUC lies above one half; None if there is none."""
    above = (curve[f"{name}_low"] > 0.5).to_numpy()
    later = np.flip(np.logical_and.accumulate(np.flip(above)))  # above here and ever after
    return int(curve["step"].iloc[later.argmax()]) if later.any() else None


def pr_tells_first(curves, group="all layers"):
    """Does PR tell circuit heads from others before selectivity does?  A clause from separation()."""
    if curves.empty or "pr_low" not in curves or not (curves["controls"] == group).any():
        return "there is no circuit, or no head outside it, to ask of"
    curve = curves[curves["controls"] == group].reset_index(drop=True)
    pr, selectivity = (tells_from(curve, name) for name in ("pr", "selectivity"))
    where = lambda step: curve.loc[curve["step"] == step, "revision"].iloc[0]  # noqa: E731
    if pr is None and selectivity is None:
        return "neither PR nor selectivity tells the circuit's heads apart up to here"
    if pr is None:
        return (
            f"no, selectivity tells the circuit's heads apart from {where(selectivity)} on, PR not up to here (at the end a "
            f"circuit head has the higher PR in {percent(curve['pr'].iloc[-1])} of the pairs; chance is 50 %)"
        )
    if selectivity is None:
        return f"so far yes, PR tells the circuit's heads apart from {where(pr)} on, selectivity not up to here"
    if pr == selectivity:
        return f"no, both tell the circuit's heads apart from {where(pr)} on"
    if pr < selectivity:
        return f"yes, PR tells the circuit's heads apart from {where(pr)} on, selectivity from {where(selectivity)} on"
    return f"no, selectivity tells the circuit's heads apart from {where(selectivity)} on, PR from {where(pr)} on"


def table(comparison):
    """compare() in words, for a reader."""
    share = lambda v: "–" if pd.isna(v) else percent(v)  # noqa: E731
    lead = lambda v: "–" if pd.isna(v) else f"{v:+.1f}"  # noqa: E731

    def difference(row, name, scale, form, unit):
        middle, low, high = (row[f"{name}_difference{end}"] for end in ("", "_low", "_high"))
        if pd.isna(low):
            return "–"
        return f"{scale * middle:{form}}{unit} ({scale * low:{form}} to {scale * high:{form}})"

    comparison = comparison[comparison["n_controls"] > 0]
    rows = [row for _, row in comparison.iterrows()]
    return pd.DataFrame(
        {
            "elevated": [ELEVATIONS[e].title for e in comparison["elevation"]],
            "controls": [f"{n}, {g}" for n, g in zip(comparison["n_controls"], comparison["controls"])],
            "circuit heads, by the crossing": comparison["share"].map(share),
            "controls, by then": comparison["share_controls"].map(share),
            "difference": [difference(r, "share", 100, "+.0f", " points") for r in rows],
            "lead (revisions)": comparison["lead"].map(lead),
            "lead of controls": comparison["lead_controls"].map(lead),
            "difference in lead": [difference(r, "lead", 1, "+.1f", "") for r in rows],
        }
    )


def summary(comparison):
    """What compare() says, in a sentence: under which rules circuit heads differ from controls."""
    shown = comparison[comparison["share_difference_low"].notna()]
    if shown.empty:
        return "There is nothing to compare: no head of the circuit has crossed up to here, or no head stays outside."
    more = shown[shown["share_difference_low"] > 0]
    text = (
        f"Circuit heads were elevated by their crossing more often than controls, by more than the interval, in "
        f"{len(more)} of {len(shown)} comparisons"
    )
    if len(more):
        rules = dict.fromkeys(f"{ELEVATIONS[r.elevation].title} ({r.controls})" for r in more.itertuples())
        text += f": {join(rules)}"
    return text + "."


def spoken(curves, comparison):
    """The answer for both groups of controls, then what the comparison says."""
    groups = [g for g in GROUPS if not curves.empty and (curves["controls"] == g).any()]
    answers = [
        f"Does PR tell circuit heads from others before selectivity does? Against all other heads, {pr_tells_first(curves)}."
    ]
    if "same layers" in groups:
        answers.append(f"Against other heads of the same layers, {pr_tells_first(curves, 'same layers')}.")
    elif not curves.empty:
        answers.append("Its layers hold no head that stays outside, so there is no control from the same layers.")
    return " ".join([*answers, summary(comparison)])
