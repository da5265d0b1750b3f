"""The five findings: trajectories of heads in, numbers and a verdict out.

Each rule stands here once, in words (what the decorator is given) and in code (the
function <finding>_rule, which the published figures of the paper are put through as
well).  A finding function takes

    heads: lib.findings.counting.Trajectory of one model
    at: index of the revision that is judged, in the light of those up to it
    counting: lib.findings.counting.Counting
    counterpart: the paper's model whose claim applies, or None

and returns a Judgement.  evaluate asks it under the paper's counting and again under
every other assumption, and on every resample of the sequences.  Functions are pure;
nothing here reads a file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from lib.findings.counting import PREFIX_MATCHING, SINK_MASS, WAYS, Counting, Thresholds, Trajectory
from lib.formatting import join, percent, times
from lib.measure import bootstrap

HOLDS, FAILS, UNDETERMINED = "holds", "fails", "undetermined"
VERDICTS = (HOLDS, FAILS, UNDETERMINED)


@dataclass(frozen=True)
class Judgement:
    """What a rule finds under one counting.

    reason: one sentence.  gist: the same fact in a few words, whatever was counted.
    numbers: plain Python values; None stands for "never" or "undefined".  write: a
    function of the numbers' intervals that gives the statement (a few sentences of
    Markdown) and the table of what a reader may want to check.
    """

    verdict: str
    reason: str
    gist: str
    numbers: dict
    write: Callable[[dict], tuple[str, pd.DataFrame]] = field(repr=False)


@dataclass(frozen=True)
class Finding:
    """A judgement under the paper's counting, and how sure it is.

    survival: {assumption: (verdict, gist)}, the first being the judgement itself.
    sweeps: one row a threshold and counting, with the verdict.  intervals: {number:
    (low, high)} over resamples, for single numbers and lists.  support: share of the
    resamples with the same verdict, None if there are no resamples.
    """

    id: str
    verdict: str
    reason: str
    gist: str
    statement: str
    numbers: dict
    table: pd.DataFrame = field(repr=False)
    survival: dict[str, tuple[str, str]] = field(repr=False)
    sweeps: pd.DataFrame = field(repr=False)
    intervals: dict[str, tuple] = field(repr=False)
    support: float | None


@dataclass
class Rule:
    """A finding: title, the paper's claim and the rule of its verdict in words; decorates the function that judges.

    claims: {the paper's model: its part of the claim}.  sweeps: the thresholds that
    decide it, as lib.panels.panel.Thresholds calls them.  words: when each verdict is given.
    in_a_number: {model label: Finding.numbers} -> (a number that sums it up, what it
    counts), None if there is none.  assumptions: countings that only this finding is
    asked under, {words: (what changes in Counting, explanation)}.
    """

    id: str
    title: str
    claim: str
    claims: dict[str, str]
    sweeps: tuple[str, ...]
    words: dict[str, str]
    in_a_number: Callable[[dict[str, dict]], tuple[object, str]] | None = None
    assumptions: dict[str, tuple[dict, str]] = field(default_factory=dict)

    def __call__(self, function: Callable[..., Judgement]) -> Callable[..., Judgement]:
        self.function, FINDINGS[self.id] = function, self
        return function


FINDINGS: dict[str, Rule] = {}


# How sure ----------------------------------------------------------------------------

SWEEP = (10, 15, 20, 30, 40, 50, 70, 100)
SWEPT = {"classify": "first-token threshold", "induction_circuit": "induction threshold"}
ASSUMPTIONS = {  # {words: (what changes in Counting, explanation)}, for every finding
    "as the paper counts": ({}, "paper's baseline; {classify} on the first token, {induction} for induction"),
    "clean baseline": (WAYS["clean"], "the same thresholds over positions that are no class's target"),
    "by best class": (WAYS["best_class"], "a head counts only where the class is its highest"),
    "with attention mass": (WAYS["with_mass"], "a head counts only with {floor} of its attention there, too"),
    "mass instead of ratios": (
        WAYS["mass"],
        f"no ratio: sink mass over {SINK_MASS:g}, prefix-matching score over {PREFIX_MATCHING:g}",
    ),
}


def assumptions(id: str, thresholds: Thresholds) -> dict[str, Counting]:
    """The countings a verdict is asked under: {words: Counting}, the paper's first."""
    asked = ASSUMPTIONS | FINDINGS[id].assumptions
    return {words: replace(Counting(thresholds), **change) for words, (change, _) in asked.items()}


def explained(id: str, words: str, thresholds: Thresholds) -> str:
    """What an assumption of assumptions() means, in a phrase."""
    _, explanation = (ASSUMPTIONS | FINDINGS[id].assumptions)[words]
    return explanation.format(
        classify=times(thresholds.classify),
        induction=times(thresholds.induction_circuit),
        floor=percent(thresholds.mass_floor),
    )


def evaluate(id: str, heads: Trajectory, at: str, thresholds: Thresholds, counterpart: str | None = None) -> Finding:
    """The finding at a revision, asked under every assumption.

    heads: Trajectory over the whole training.  at: a revision's name.
    """
    step = heads.step(at)

    def ask(heads: Trajectory, counting: Counting) -> Judgement:
        return FINDINGS[id].function(heads, step, counting, counterpart)

    judgements = {words: ask(heads, counting) for words, counting in assumptions(id, thresholds).items()}
    judged = next(iter(judgements.values()))
    draws = [ask(heads.draw(i), Counting(thresholds)) for i in range(heads.n_replicates)]
    intervals = _intervals(judged.numbers, [d.numbers for d in draws]) if draws else {}
    statement, table = judged.write(intervals)
    survival = {words: (j.verdict, j.gist) for words, j in judgements.items()}
    sweeps = sweep(id, heads, step, thresholds, counterpart)
    support = float(np.mean([d.verdict == judged.verdict for d in draws])) if draws else None
    return Finding(
        id, judged.verdict, judged.reason, judged.gist, statement, judged.numbers, table, survival, sweeps, intervals,
        support,
    )  # fmt: skip


def sweep(id: str, heads: Trajectory, at: int, thresholds: Thresholds, counterpart: str | None = None) -> pd.DataFrame:
    """The verdict at every threshold from 10x to 100x under every assumption: one row each.

    Columns swept (a field of lib.panels.panel.Thresholds), counting, threshold, verdict.
    """
    rule = FINDINGS[id]
    rows = [
        (swept, words, value, rule.function(heads, at, counting.at(swept, value), counterpart).verdict)
        for swept in rule.sweeps
        for words, counting in assumptions(id, thresholds).items()
        for value in SWEEP
    ]
    return pd.DataFrame(rows, columns=["swept", "counting", "threshold", "verdict"])


def survival_text(finding: Finding) -> str:
    """Whether a finding's verdict survives other assumptions, thresholds and resamples, in a few sentences."""
    paper, *others = finding.survival
    same = [words for words in others if finding.survival[words][0] == finding.verdict]
    parts = [f"The verdict is the same under these assumptions: {join(same)}."] if same else []
    for words in others:
        verdict, gist = finding.survival[words]
        if verdict != finding.verdict:
            parts.append(f"Under *{words}* it would read **{verdict}** ({gist}).")
    for swept in finding.sweeps["swept"].unique():
        rows = finding.sweeps[(finding.sweeps["swept"] == swept) & (finding.sweeps["counting"] == paper)]
        kept = rows.loc[rows["verdict"] == finding.verdict, "threshold"]
        if len(kept) == len(rows):
            text = f"every {SWEPT[swept]} from {times(SWEEP[0])} to {times(SWEEP[-1])} gives the same"
        else:
            changed = [f"{times(t)} ({v})" for t, v in zip(rows["threshold"], rows["verdict"]) if v != finding.verdict]
            text = f"the {SWEPT[swept]} matters: it would change at {join(changed)}"
        parts.append(f"As the paper counts, {text}.")
    if finding.support is not None:
        parts.append(f"Resampling the sequences gives the same verdict in {percent(finding.support)} of the resamples.")
    return " ".join(parts)


def how_sure(finding: Finding) -> str:
    """How sure a verdict is, in a phrase: resamples, other assumptions, thresholds."""
    words = []
    if finding.support is not None:
        words.append(f"same in {percent(finding.support)} of resamples")
    changed = [f"{a} ({v})" for a, (v, _) in finding.survival.items() if v != finding.verdict]
    words.append(f"changes under {join(changed)}" if changed else "same under every assumption")
    kept = (finding.sweeps["verdict"] == finding.verdict).mean()
    words.append(f"same in {percent(kept)} of the cells of the strip below")
    return "; ".join(words)


def _intervals(numbers: dict, draws: list[dict]) -> dict[str, tuple]:
    """Percentile intervals of numbers and lists of numbers, None counting as beyond all numbers."""
    tail = (1 - bootstrap.LEVEL) / 2
    intervals = {}
    for name, value in numbers.items():
        drawn = [d[name] if isinstance(value, list) else [d[name]] for d in draws]
        plain = all(v is None or isinstance(v, (int, float)) for d in drawn for v in d)
        if not plain or not drawn[0] or len({len(d) for d in drawn}) != 1:
            continue  # names and other words, or lists whose length is itself uncertain
        table = np.array([[np.inf if v is None else v for v in d] for d in drawn], dtype=float)
        # An observed value, not one between two: counts stay counts, and never stays never.
        low, high = np.quantile(table, [tail, 1 - tail], axis=0, method="inverted_cdf")
        bounds = [[None if np.isinf(v) else float(v) for v in bound] for bound in (low, high)]
        intervals[name] = tuple(bounds) if isinstance(value, list) else (bounds[0][0], bounds[1][0])
    return intervals


def panel_verdict(findings: dict[str, Finding]) -> tuple[str, str]:
    """One verdict for several models: {model label: Finding at its last revision} -> (verdict, reason).

    Holds if it holds for every model, fails if it fails for any, else undetermined.
    """
    by_verdict = {v: [label for label, f in findings.items() if f.verdict == v] for v in VERDICTS}
    verdict = HOLDS if len(by_verdict[HOLDS]) == len(findings) else FAILS if by_verdict[FAILS] else UNDETERMINED
    verb = {HOLDS: "holds", FAILS: "fails", UNDETERMINED: "is undetermined"}
    counts = [f"{verb[v]} for {join(labels)}" for v, labels in by_verdict.items() if labels]
    return verdict, f"It {join(counts)}."
