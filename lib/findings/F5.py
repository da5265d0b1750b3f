"""The spectral lead: PR rises at or before the moment a head becomes selective (section 9 of the paper)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.findings.counting import first_step, in_circuit, selectivity_column
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, finding
from lib.formatting import join, percent, sure, times


@dataclass(frozen=True)
class Elevation:
    """A rule for "elevated"; level(pr, thresholds) gives what a PR must reach, broadcast against pr [step, head]."""

    title: str
    text: str
    level: Callable


OWN_ELEVATION = 1.5
PEERS = 0.75

ELEVATIONS = {
    "start": Elevation(
        "against all heads at the start",
        "at least 2 times the median PR of all heads at the first revision",
        lambda pr, thresholds: np.full((1, 1), thresholds.pr_elevation * np.median(pr[0])),
    ),
    "own": Elevation(
        "against its own start",
        f"at least {OWN_ELEVATION:g} times the head's own PR at the first revision",
        lambda pr, thresholds: OWN_ELEVATION * pr[:1],
    ),
    "peers": Elevation(
        "against its peers",
        "in the top quarter of all heads at the same revision",
        lambda pr, thresholds: np.quantile(pr, PEERS, axis=1, keepdims=True),
    ),
}


def lead_rule(elevated, crossed, attainable):
    """F5's verdict from the steps at which each head of the final circuit was elevated and crossed 50x.

    elevated, crossed: [head] steps, -1 if never.  attainable: whether a PR can be
    elevated at all.  Returns (verdict, gist, led, behind), the last two masks [head]
    of the heads whose lead can be read.
    """
    readable = crossed > 0  # at step 0 nothing came before
    led = readable & (elevated >= 0) & (elevated <= crossed)
    behind = readable & ~led
    if not attainable:
        verdict = UNDETERMINED
    elif not readable.any():
        verdict = UNDETERMINED
    else:
        verdict = FAILS if behind.any() else HOLDS
    if not len(crossed):
        gist = "no circuit"
    elif not attainable:
        gist = "no PR can reach the level"
    else:
        gist = f"elevated by the crossing in {led.sum()} of {readable.sum()} heads"
        if (crossed == 0).any():
            gist += f", {(crossed == 0).sum()} censored"
    return verdict, gist, led, behind


def elevation_steps(heads, counting):
    """(first step at which each head's PR is elevated [head], -1 if never; the level [step or 1, head or 1])."""
    level = ELEVATIONS[counting.elevation].level(heads["pr"], counting.thresholds)
    return first_step(heads["pr"] >= level), level


def spectral_leads(heads, counting):
    """When each head's PR is first elevated and its induction selectivity first passes 50x: one row a head.

    Columns layer, head, elevated and crossed (step, missing if never), lead (revisions,
    negative if PR came later), lead_tokens (ratio of tokens at the crossing to tokens
    at the elevation, missing if that is undefined).
    """
    elevated, _ = elevation_steps(heads, counting)
    crossed = first_step(in_circuit(heads, counting))
    both = (elevated >= 0) & (crossed >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = heads.tokens[crossed] / heads.tokens[elevated]
    leads = pd.DataFrame({"layer": heads.layer, "head": heads.head, "elevated": elevated, "crossed": crossed})
    leads = leads.astype({"elevated": "Int64", "crossed": "Int64"})
    leads["lead"] = (leads["crossed"] - leads["elevated"]).where(both)
    for column in ("elevated", "crossed"):
        leads[column] = leads[column].where(leads[column] >= 0)
    leads["lead_tokens"] = pd.Series(np.where(both & np.isfinite(ratio), ratio, np.nan), dtype="Float64")
    return leads


def in_a_number(numbers):
    """How many circuit heads led, of those that crossed."""
    return (
        f"{sum(n['led'] for n in numbers.values())} of {sum(n['crossed'] for n in numbers.values())}",
        "circuit heads have an elevated PR when they cross 50x, or before",
    )


@finding(
    "F5",
    "The spectral lead",
    "For each head of the final induction circuit, the participation ratio (PR) of its output is elevated at or before "
    "the revision where its selectivity crosses 50x (Pythia L4H4: 0.54B against 6.3B tokens, 12x).",
    claims={
        "pythia-1b": "PR elevated at or before the crossing in L4H4 (12x in tokens), L7H1 and L7H0",
        "olmo-1b-0724": "the same in L2H11, L4H12 and L12H8",
        "olmoe-1b-7b-0924": "the same in L7H0, L9H8, L5H10 and L12H14",
    },
    sweeps=("induction_circuit",),
    assumptions={
        f"elevated: {elevation.title}": ({"elevation": rule}, elevation.text)
        for rule, elevation in ELEVATIONS.items()
        if rule != "start"
    },
    in_a_number=in_a_number,
    holds="every head of the final circuit that has crossed 50x up to this revision had its PR elevated (at least 2 "
    "times the median of all heads at the first revision) at that revision or before",
    fails="one of them crossed 50x while its PR was not elevated",
    undetermined="no head of the final circuit has crossed yet; or all had at the first revision, where no lead can be "
    "read; or the elevated level lies above what Gaussian noise reaches, so that no head can attain it",
)
def spectral_lead(heads, at, counting, counterpart=None):
    """F5: PR against selectivity for the final circuit's heads, the lead, and the same for all other heads."""
    history = heads.upto(at)
    inside = in_circuit(heads, counting)[-1]
    elevated, level = elevation_steps(history, counting)
    crossed = first_step(in_circuit(history, counting))
    ceiling = float(heads["pr_ceiling"][at, 0])
    attainable = bool(np.min(level) <= ceiling)
    verdict, gist, led, behind = lead_rule(elevated[inside], crossed[inside], attainable)
    past = times(counting.thresholds.induction_circuit)
    names = lambda mask: join(np.array(heads.labels(inside))[mask])  # noqa: E731
    has_crossed = crossed[inside] >= 0
    n_readable = int((crossed[inside] > 0).sum())
    outside = float((elevated[~inside] >= 0).mean()) if (~inside).any() else None
    control = (
        f"; of the {int((~inside).sum())} heads outside the circuit {percent(outside)} were elevated by this revision too"
        if outside is not None
        else ""
    )
    if not inside.any():
        reason = "The final induction circuit is empty: there is no head to follow."
    elif not attainable:
        reason = (
            f"Elevated would mean {np.min(level):.1f} or more ({ELEVATIONS[counting.elevation].text}), above the "
            f"{ceiling:.1f} of Gaussian noise in so few dimensions: no head's PR can count as elevated."
        )
    elif not has_crossed.any():
        reason = f"None of the {int(inside.sum())} heads of the final circuit has crossed {past} yet."
    elif not n_readable:
        reason = f"{names(has_crossed)} had crossed {past} at the first revision already, where no lead can be read."
    elif verdict == FAILS:
        reason = f"{names(behind)} crossed {past} while PR was not elevated ({int(led.sum())} of {n_readable} did lead{control})."
    else:
        reason = (
            f"PR was elevated at or before the crossing in all {n_readable} heads that crossed up to here{control}."
        )
    both = (elevated[inside] >= 0) & has_crossed
    leads = np.where(both, crossed[inside] - elevated[inside], 0)
    numbers = {
        "level": float(np.min(level)),
        "ceiling": ceiling,
        "circuit": heads.labels(inside),
        "crossed": int(has_crossed.sum()),
        "led": int(led.sum()),
        "behind": int(behind.sum()),
        "left_censored": int((crossed[inside] == 0).sum()),
        "elevated_outside": outside,
        "leads": {name: int(lead) if known else None for name, lead, known in zip(heads.labels(inside), leads, both)},
    }

    def write(intervals):
        label = lambda step: "–" if step < 0 else heads.names[step]  # noqa: E731
        column = selectivity_column("induction", counting.baseline)
        with_interval = lambda c, i, text: (
            text(heads[c][at, i])
            + (  # noqa: E731
                f" ({text(heads[c + '_low'][at, i])} to {text(heads[c + '_high'][at, i])})"
                if f"{c}_low" in heads.values
                else ""
            )
        )
        lead_of = spectral_leads(history, counting)[inside]
        of = np.flatnonzero(inside)
        table = pd.DataFrame(
            {
                "head": heads.labels(inside),
                "selectivity here": [with_interval(column, i, times) for i in of],
                "attention on the target": [percent(heads["attention_induction"][at, i]) for i in of],
                "PR here": [with_interval("pr", i, "{:.2f}".format) for i in of],
                "PR centred": [f"{heads['pr_centred'][at, i]:.2f}" for i in of],
                "share of ceiling": [percent(heads["pr"][at, i] / ceiling) for i in of],
                "PR elevated at": [label(s) for s in elevated[inside]],
                f"crossed {past} at": [
                    label(s) + (" (or before)" if s == 0 else "") for s in crossed[inside]
                ],
                "lead, revisions": ["–" if pd.isna(v) else str(v) for v in lead_of["lead"]],
                "lead, tokens": ["–" if pd.isna(v) else f"{v:.3g}x" for v in lead_of["lead_tokens"]],
            }
        )  # fmt: skip
        statement = (
            f"Heads of the final circuit: {int(inside.sum())}; crossed {past} up to here: {int(has_crossed.sum())}"
            f"{sure('', intervals.get('crossed'))}; with elevated PR up to here: {int((elevated[inside] >= 0).sum())}."
        )
        if attainable:
            statement += (
                f" Elevated means {float(np.min(level)):.2f} or more, {counting.thresholds.pr_elevation:g} times the "
                f"median of all heads at the first revision; Gaussian noise of this size would read {ceiling:.2f}."
            )
        if outside is not None and control not in reason:
            statement += (
                f" Among the {int((~inside).sum())} heads outside the circuit, {percent(outside)} were elevated too."
            )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)
