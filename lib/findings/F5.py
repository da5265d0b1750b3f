"""The spectral lead: PR rises at or before the moment a head becomes selective (section 9 of the paper)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.findings.counting import Counting, Thresholds, Trajectory, first_step, in_circuit, selectivity_column
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, Rule
from lib.formatting import join, percent, sure, times


@dataclass(frozen=True)
class Elevation:
    """A rule for "elevated"; level(pr, thresholds) gives what a PR must reach, broadcast against pr [step, head]."""

    title: str
    text: str
    level: Callable[[np.ndarray, Thresholds], np.ndarray]


OWN_ELEVATION = 1.5
PEERS = 0.75
UNTRAINED = 0.95

ELEVATIONS = {
    "start": Elevation(
        "against all heads at the start",
        "at least 2 times the median PR of all heads at the first revision",
        lambda pr, thresholds: np.full((1, 1), thresholds.pr_elevation * np.median(pr[0])),
    ),
    "untrained": Elevation(
        "against what untrained heads reach",
        f"at least the PR that {100 * UNTRAINED:g} % of all heads stay under at the first revision, which some head there attains",
        lambda pr, thresholds: np.full((1, 1), np.quantile(pr[0], UNTRAINED)),
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


def lead_rule(elevated: np.ndarray, crossed: np.ndarray, attainable: bool) -> tuple[str, str, np.ndarray, np.ndarray]:
    """F5's verdict from the steps at which each head of the final circuit was elevated and crossed 50x.

    elevated, crossed: [head] steps, -1 if never.  attainable: whether a PR can be
    elevated at all.  Returns (verdict, gist, led, behind), the last two masks [head]
    of the heads whose lead can be read.
    """
    readable = crossed > 0  # at step 0 nothing came before
    led = readable & (elevated >= 0) & (elevated <= crossed)
    behind = readable & ~led
    verdict = UNDETERMINED if not attainable or not readable.any() else FAILS if behind.any() else HOLDS
    if not len(crossed):
        gist = "no circuit"
    elif not attainable:
        gist = "no PR can reach the level"
    else:
        gist = f"elevated by the crossing in {led.sum()} of {readable.sum()} heads"
        if (crossed == 0).any():
            gist += f", {(crossed == 0).sum()} censored"
    return verdict, gist, led, behind


def elevation_steps(heads: Trajectory, counting: Counting) -> tuple[np.ndarray, np.ndarray]:
    """(first step at which each head's PR is elevated [head], -1 if never; the level [step or 1, head or 1])."""
    level = ELEVATIONS[counting.elevation].level(heads["pr"], counting.thresholds)
    return first_step(heads["pr"] >= level), level


def spectral_leads(heads: Trajectory, counting: Counting) -> pd.DataFrame:
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
    return pd.DataFrame(
        {
            "layer": heads.layer,
            "head": heads.head,
            "elevated": pd.Series(elevated, dtype="Int64").where(elevated >= 0),
            "crossed": pd.Series(crossed, dtype="Int64").where(crossed >= 0),
            "lead": pd.Series(crossed - elevated, dtype="Int64").where(both),
            "lead_tokens": pd.Series(ratio, dtype="Float64").where(both & np.isfinite(ratio)),
        }
    )


def in_a_number(numbers: dict[str, dict]) -> tuple[str, str]:
    """How many circuit heads led, of those that crossed."""
    led, crossed = (sum(n[count] for n in numbers.values()) for count in ("led", "crossed"))
    return f"{led} of {crossed}", "circuit heads have an elevated PR when they cross 50x, or before"


@Rule(
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
    words={
        HOLDS: "every head of the final circuit that has crossed 50x up to this revision had its PR elevated (at least 2 "
        "times the median of all heads at the first revision) at that revision or before",
        FAILS: "one of them crossed 50x while its PR was not elevated",
        UNDETERMINED: "no head of the final circuit has crossed yet; or all had at the first revision, where no lead can be "
        "read; or the elevated level lies above what Gaussian noise reaches, so that no head can attain it",
    },
)
def spectral_lead(heads: Trajectory, at: int, counting: Counting, counterpart: str | None = None) -> Judgement:
    """F5: PR against selectivity for the final circuit's heads, the lead, and the same for all other heads."""
    history = heads.upto(at)
    inside = in_circuit(heads, counting)[-1]
    n_inside, n_outside = int(inside.sum()), int((~inside).sum())
    all_elevated, level = elevation_steps(history, counting)
    elevated, crossed = all_elevated[inside], first_step(in_circuit(history, counting))[inside]
    ceiling, lowest = float(heads["pr_ceiling"][at, 0]), float(np.min(level))
    attainable = lowest <= ceiling
    verdict, gist, led, behind = lead_rule(elevated, crossed, attainable)
    has_crossed = crossed >= 0
    n_readable = int((crossed > 0).sum())
    labels = heads.labels(inside)
    past = times(counting.thresholds.induction_circuit)
    outside = float((all_elevated[~inside] >= 0).mean()) if n_outside else None
    control = ""
    if outside is not None:
        control = (
            f"; of the {n_outside} heads outside the circuit {percent(outside)} were elevated by this revision too"
        )

    def names(mask: np.ndarray) -> str:
        return join(np.array(labels)[mask])

    if not n_inside:
        reason = "The final induction circuit is empty: there is no head to follow."
    elif not attainable:
        reason = (
            f"Elevated would mean {lowest:.1f} or more ({ELEVATIONS[counting.elevation].text}), above the "
            f"{ceiling:.1f} of Gaussian noise in so few dimensions: no head's PR can count as elevated."
        )
    elif not has_crossed.any():
        reason = f"None of the {n_inside} heads of the final circuit has crossed {past} yet."
    elif not n_readable:
        reason = f"{names(has_crossed)} had crossed {past} at the first revision already, where no lead can be read."
    elif verdict == FAILS:
        but = f"{led.sum()} of {n_readable} did lead{control}"
        reason = f"{names(behind)} crossed {past} while PR was not elevated ({but})."
    else:
        reason = (
            f"PR was elevated at or before the crossing in all {n_readable} heads that crossed up to here{control}."
        )
    both = (elevated >= 0) & has_crossed
    numbers = {
        "level": lowest,
        "ceiling": ceiling,
        "circuit": labels,
        "crossed": int(has_crossed.sum()),
        "led": int(led.sum()),
        "behind": int(behind.sum()),
        "left_censored": int((crossed == 0).sum()),
        "elevated_outside": outside,
        "leads": {name: int(n) if known else None for name, n, known in zip(labels, crossed - elevated, both)},
    }

    def here(column: str, say: Callable[[float], str]) -> list[str]:
        """A column's values of the circuit's heads at this revision, with their intervals if it has some."""
        columns = [heads[c][at, inside] for c in (column, f"{column}_low", f"{column}_high") if c in heads.values]
        values = [[say(value) for value in of_heads] for of_heads in columns]
        return [f"{said} ({' to '.join(interval)})" if interval else said for said, *interval in zip(*values)]

    def write(intervals: dict) -> tuple[str, pd.DataFrame]:
        when = {-1: "–"} | dict(enumerate(heads.names))
        leads = spectral_leads(history, counting)[inside]
        table = pd.DataFrame(
            {
                "head": labels,
                "selectivity here": here(selectivity_column("induction", counting.baseline), times),
                "attention on the target": [percent(v) for v in heads["attention_induction"][at, inside]],
                "PR here": here("pr", "{:.2f}".format),
                "PR centred": [f"{pr:.2f}" for pr in heads["pr_centred"][at, inside]],
                "share of ceiling": [percent(pr / ceiling) for pr in heads["pr"][at, inside]],
                "PR elevated at": [when[step] for step in elevated],
                f"crossed {past} at": [when[step] + (" (or before)" if step == 0 else "") for step in crossed],
                "lead, revisions": ["–" if pd.isna(v) else str(v) for v in leads["lead"]],
                "lead, tokens": ["–" if pd.isna(v) else f"{v:.3g}x" for v in leads["lead_tokens"]],
            }
        )
        statement = (
            f"Heads of the final circuit: {n_inside}; crossed {past} up to here: {numbers['crossed']}"
            f"{sure('', intervals.get('crossed'))}; with elevated PR up to here: {(elevated >= 0).sum()}."
        )
        if attainable:
            statement += (
                f" Elevated means {lowest:.2f} or more, {counting.thresholds.pr_elevation:g} times the "
                f"median of all heads at the first revision; Gaussian noise of this size would read {ceiling:.2f}."
            )
        if outside is not None and control not in reason:
            statement += f" Among the {n_outside} heads outside the circuit, {percent(outside)} were elevated too."
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)
