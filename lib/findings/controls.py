"""F5 with a null: would heads that never join the circuit have shown the same lead?

For a head of the final circuit that crosses the threshold at revision c, the statistic
is whether its PR was elevated at c or before, and the lead: c less the revision of the
elevation.  A control is a head that never passes the threshold at any revision of the
panel; it is asked the same at the circuit heads' own c, since it has none.  "Never
elevated" counts as the revision after the last one seen.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from lib.findings.counting import Counting, Trajectory, first_step, in_circuit
from lib.findings.F5 import ELEVATIONS, elevation_steps
from lib.formatting import join, percent
from lib.measure import bootstrap

GROUPS = {"same layers": True, "all layers": False}
SEED = 0


def _groups(heads: Trajectory, counting: Counting) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(indices of the final circuit's heads, {group of GROUPS: indices of its controls})."""
    circuit = in_circuit(heads, counting)
    inside, controls = np.flatnonzero(circuit[-1]), np.flatnonzero(~circuit.any(axis=0))
    in_layers = np.isin(heads.layer[controls], heads.layer[inside])
    return inside, {group: controls[in_layers] if same else controls for group, same in GROUPS.items()}


def _statistics(
    steps: tuple[np.ndarray, np.ndarray], layer: np.ndarray, inside: np.ndarray, controls: np.ndarray,
    same_layer: bool, last: int,
) -> dict[str, float]:  # fmt: skip
    """Share and lead of the circuit heads, of the controls, and their difference; empty if no crossing can be read.

    steps: those at which each head was elevated and crossed the threshold, [head] and [head], -1 if never.
    """
    elevated, crossed = steps
    circuit = inside[crossed[inside] > 0]
    if not len(circuit) or not len(controls):
        return {}
    when = np.where(elevated < 0, last + 1, elevated)
    pairs = crossed[circuit][:, None] - when[controls][None, :]  # [circuit head, control]
    weights = layer[circuit][:, None] == layer[controls][None, :] if same_layer else np.ones(pairs.shape, dtype=bool)
    if not weights.any():
        return {}
    own = crossed[circuit] - when[circuit]
    found = {
        "share": (own >= 0).mean(), "share_controls": (pairs >= 0)[weights].mean(),
        "lead": own.mean(), "lead_controls": pairs[weights].mean(),
    }  # fmt: skip
    return found | {f"{name}_difference": found[name] - found[f"{name}_controls"] for name in ("share", "lead")}


def _redrawn(heads: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many heads, with replacement."""
    return rng.choice(heads, len(heads))


def compare(heads: Trajectory, at: int, counting: Counting) -> pd.DataFrame:
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
        seen = [history, *(history.draw(i) for i in range(history.n_replicates))]
        steps, *drawn = [(elevation_steps(h, asked)[0], first_step(in_circuit(h, asked))) for h in seen]
        for group, of in groups.items():
            estimate = _statistics(steps, heads.layer, inside, of, GROUPS[group], at)
            row = {
                "elevation": elevation,
                "controls": group,
                "n_circuit": len(inside),
                "n_controls": len(of),
            } | estimate
            if estimate:
                again = [
                    _statistics(s, heads.layer, _redrawn(inside, rng), _redrawn(of, rng), GROUPS[group], at)
                    for s in drawn
                ]
                for name in ("share_difference", "lead_difference"):
                    differences = [found[name] for found in again if found]
                    if differences:
                        row[f"{name}_low"], row[f"{name}_high"] = bootstrap.interval(np.array(differences))
            rows.append(row)
    columns = ["elevation", "controls", "n_circuit", "n_controls"]
    for name in ("share", "lead"):
        columns += [name, f"{name}_controls", *(f"{name}_difference{end}" for end in ("", "_low", "_high"))]
    return pd.DataFrame(rows).reindex(columns=columns)


def auc(scores: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Probability that a circuit head scores above a control, ties counting half: scores [..., head] -> [...]."""
    x, y = scores[..., inside][..., :, None], scores[..., outside][..., None, :]
    return (x > y).mean(axis=(-2, -1)) + 0.5 * (x == y).mean(axis=(-2, -1))


def separation(heads: Trajectory, at: int, counting: Counting) -> pd.DataFrame:
    """How well PR and induction selectivity tell the final circuit's heads from the controls at each revision.

    The area under the ROC curve (0.5: no better than chance, 1: every circuit head
    above every control).  One row a group and revision; columns controls, step,
    revision, tokens, pr, selectivity, each with _low and _high from resampled
    sequences and heads.  Empty if there is no circuit or no control.
    """
    history = heads.upto(at)
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
                auc(scores, _redrawn(inside, rng), _redrawn(of, rng)) for scores in history.replicates.get(column, ())
            ]
            if draws:
                part[f"{name}_low"], part[f"{name}_high"] = bootstrap.interval(np.array(draws))
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def tells_from(curve: pd.DataFrame, name: str) -> int | None:
    """First step from which on the whole interval of a signal's AUC lies above one half; None if there is none."""
    above = (curve[f"{name}_low"] > 0.5).to_numpy()
    later = np.flip(np.logical_and.accumulate(np.flip(above)))  # above here and ever after
    return int(curve["step"].iloc[later.argmax()]) if later.any() else None


def pr_tells_first(curves: pd.DataFrame, group: str = "all layers") -> str:
    """Does PR tell circuit heads from others before selectivity does?  A clause from separation()."""
    if curves.empty or "pr_low" not in curves or not (curves["controls"] == group).any():
        return "there is no circuit, or no head outside it, to ask of"
    curve = curves[curves["controls"] == group].set_index("step", drop=False)
    steps = {signal: tells_from(curve, signal.lower()) for signal in ("PR", "selectivity")}
    told = {signal: step for signal, step in steps.items() if step is not None}
    since = {signal: f"from {curve.loc[step, 'revision']} on" for signal, step in told.items()}
    if not told:
        return "neither PR nor selectivity tells the circuit's heads apart up to here"
    if steps["PR"] == steps["selectivity"]:
        return f"no, both tell the circuit's heads apart {since['PR']}"
    first = min(told, key=lambda signal: told[signal])
    second = "selectivity" if first == "PR" else "PR"
    verdict = "no" if first == "selectivity" else "yes" if second in told else "so far yes"
    text = f"{verdict}, {first} tells the circuit's heads apart {since[first]}, {second} {since.get(second, 'not up to here')}"
    if "PR" not in told:
        share = percent(curve["pr"].iloc[-1])
        text += f" (at the end a circuit head has the higher PR in {share} of the pairs; chance is 50 %)"
    return text


def table(comparison: pd.DataFrame) -> pd.DataFrame:
    """compare() in words, for a reader."""
    compared = comparison[comparison["n_controls"] > 0]

    def column(name: str, say: Callable[[float], str]) -> pd.Series:
        return compared[name].map(lambda value: "–" if pd.isna(value) else say(value))

    def difference(name: str, say: Callable[[float], str], unit: str) -> list[str]:
        ends = compared[[f"{name}_difference{end}" for end in ("", "_low", "_high")]].to_numpy()
        return [
            "–" if pd.isna(low) else f"{say(middle)}{unit} ({say(low)} to {say(high)})" for middle, low, high in ends
        ]

    revisions = "{:+.1f}".format
    return pd.DataFrame(
        {
            "elevated": [ELEVATIONS[rule].title for rule in compared["elevation"]],
            "controls": [f"{n}, {group}" for n, group in zip(compared["n_controls"], compared["controls"])],
            "circuit heads, by the crossing": column("share", percent),
            "controls, by then": column("share_controls", percent),
            "difference": difference("share", lambda share: f"{100 * share:+.0f}", " points"),
            "lead (revisions)": column("lead", revisions),
            "lead of controls": column("lead_controls", revisions),
            "difference in lead": difference("lead", revisions, ""),
        }
    )


def summary(comparison: pd.DataFrame) -> str:
    """What compare() says, in a sentence: under which rules circuit heads differ from controls."""
    shown = comparison[comparison["share_difference_low"].notna()]
    if shown.empty:
        return "There is nothing to compare: no head of the circuit has crossed up to here, or no head stays outside."
    more = shown[shown["share_difference_low"] > 0]
    rules = [f"{ELEVATIONS[rule].title} ({group})" for rule, group in zip(more["elevation"], more["controls"])]
    return (
        "Circuit heads were elevated by their crossing more often than controls, by more than the interval, in "
        f"{len(more)} of {len(shown)} comparisons{': ' if rules else ''}{join(rules) if rules else ''}."
    )


def spoken(curves: pd.DataFrame, comparison: pd.DataFrame) -> str:
    """The answer for both groups of controls, then what the comparison says."""
    answers = [
        f"Does PR tell circuit heads from others before selectivity does? Against all other heads, {pr_tells_first(curves)}."
    ]
    if not curves.empty and (curves["controls"] == "same layers").any():
        answers.append(f"Against other heads of the same layers, {pr_tells_first(curves, 'same layers')}.")
    elif not curves.empty:
        answers.append("Its layers hold no head that stays outside, so there is no control from the same layers.")
    return " ".join([*answers, summary(comparison)])
