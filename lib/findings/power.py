"""What a panel must be to decide the five claims: criteria fixed before the models that they judge were trained.

A claim that no model of a panel could have failed, or none fulfilled, is not tested by it.  The criteria ask for room
(heads, layers, revisions) and for the phenomena themselves (a circuit, sinks), never for a claim to come true.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from lib.findings.counting import Counting, Trajectory, in_circuit, members, thin
from lib.findings.judging import FAILS, HOLDS

HEADS, LAYERS, WIDTH = 32, 6, 8
CIRCUIT, EARLY, SEEDS = 3, 0.15, (4, 5)  # heads past the circuit threshold; share of the tokens; seeds of a cell
GROWING, GROWN, FORMING = 3, 4, (0.1, 0.9)  # revisions; shares of the final circuit's attention on its target
LAST_THIRD = 2 / 3
SINKS, ARCHITECTURES = 0.10, 2
CONFIDENCE = 0.95
CHANCE = 0.5


@dataclass(frozen=True)
class Trained:
    """One model of a panel.  head_width: dimensions of a head.  heads: its head tables over training."""

    architecture: str
    corpus: str
    seed: int
    head_width: int
    heads: Trajectory

    @property
    def cell(self) -> str:
        """What models that differ in nothing but the seed share."""
        return f"{self.architecture}, {self.corpus}"


def too_small(model: Trained) -> str:
    """What of a model's size misses the criterion, "" if nothing does."""
    layers, heads = int(model.heads.layer.max()) + 1, len(model.heads.layer)
    found = {"heads": (heads, HEADS), "layers": (layers, LAYERS), "dimensions a head": (model.head_width, WIDTH)}
    return ", ".join(f"{n} {what} of {least}" for what, (n, least) in found.items() if n < least)


def circuit_by(heads: Trajectory, counting: Counting) -> float:
    """Share of the tokens after which the circuit has CIRCUIT heads, infinite if it never has."""
    there = in_circuit(heads, counting).sum(axis=-1) >= CIRCUIT
    return float(heads.tokens[there.argmax()] / heads.tokens[-1]) if there.any() else np.inf


def revisions_of_growth(heads: Trajectory, counting: Counting) -> tuple[int, int, int]:
    """Revisions (while the circuit grows, after it, in the last third of training).

    It grows while the attention of the final circuit's heads on their target, averaged, lies between FORMING of what it
    is at the last revision; it has grown from where it stays above.  Without a final circuit: (0, 0, ...).
    """
    late = int((heads.tokens > LAST_THIRD * heads.tokens[-1]).sum())
    final = in_circuit(heads, counting)[-1]
    if not final.any():
        return 0, 0, late
    strength = heads["attention_induction"][:, final].mean(axis=-1)
    low, high = (share * strength[-1] for share in FORMING)
    grown = np.flip(np.logical_and.accumulate(np.flip(strength > high)))
    return int(((strength > low) & ~grown).sum()), int(grown.sum()), late


def sink_share(heads: Trajectory, counting: Counting) -> float:
    """Share of the heads that at the last revision are first-token heads by ratio and by mass."""
    threshold = counting.thresholds.classify
    by_ratio = members(heads, "first_token", threshold, counting)[-1]
    return float((by_ratio & ~thin(heads, "first_token", threshold, counting)[-1]).mean())


def interval(k: int, n: int) -> tuple[float, float]:
    """Exact interval (Clopper and Pearson) of a share seen k times in n, at CONFIDENCE."""
    low, high = proportion_confint(k, n, alpha=1 - CONFIDENCE, method="beta")
    return float(low), float(high)


def smallest_telling(n: int, chance: float = CHANCE) -> int | None:
    """Fewest of n models that must agree for the exact interval to leave chance behind; None if not even n do."""
    return next((k for k in range(n + 1) if k > chance * n and interval(k, n)[0] > chance), None)


def by_cell(models: list[Trained], met: Callable[[Trained], bool]) -> dict[str, tuple[int, int]]:
    """{cell: (models that meet something, models)}."""
    found: dict[str, tuple[int, int]] = {}
    for model in models:
        k, n = found.get(model.cell, (0, 0))
        found[model.cell] = (k + met(model), n + 1)
    return found


def missed(models: list[Trained], counting: Counting) -> dict[str, str]:
    """{criterion: what a panel's models miss it by, "" where it is met}; criteria: size, induction, revisions, sinks."""
    small = {m.cell: too_small(m) for m in models if too_small(m)}
    cells = by_cell(models, lambda m: circuit_by(m.heads, counting) <= EARLY)
    late = {cell: (k, n) for cell, (k, n) in cells.items() if k * SEEDS[1] < n * SEEDS[0]}
    growth = [revisions_of_growth(m.heads, counting) for m in models]
    blind = [
        f"{m.cell}, seed {m.seed}: {growing} while it grows, {grown} after, {last} in the last third"
        for m, (growing, grown, last) in zip(models, growth)
        if growing < GROWING or grown < GROWN or not last
    ]
    shares: dict[str, list[float]] = {}
    for m in models:
        shares.setdefault(m.architecture, []).append(sink_share(m.heads, counting))
    with_sinks = [a for a, of in shares.items() if np.median(of) > SINKS]
    medians = [f"{a} {100 * np.median(of):.1f} %" for a, of in shares.items()]
    return {
        "size": "; ".join(f"{cell}: {text}" for cell, text in small.items()),
        "induction": "; ".join(f"{cell}: {k} of {n} seeds" for cell, (k, n) in late.items()),
        "revisions": "; ".join(blind),
        "sinks": "" if len(with_sinks) >= ARCHITECTURES else "at the end, in the median: " + ", ".join(medians),
    }


DECIDED = 2 / 3
CLAIM_WORDS = {
    "undetermined": "fewer than two thirds of the models decide, or those that do agree too little to tell",
    "depends on": "within one level of a factor (an architecture, a corpus) the exact interval of the share that holds lies "
    "above one half, within another below it",
    "holds at this scale": "the exact interval of the share of models in which it holds, among those that decide, lies above one half",
    "fails at this scale": "that interval lies below one half",
}


def side(verdicts: list[str]) -> int:
    """1 if the share of "holds" among "holds" and "fails" lies above one half by its exact interval, -1 if below, else 0."""
    n = sum(v in (HOLDS, FAILS) for v in verdicts)
    if not n:
        return 0
    low, high = interval(verdicts.count(HOLDS), n)
    return 1 if low > CHANCE else -1 if high < CHANCE else 0


def verdict_on_claim(models: list[tuple[str, str, str]]) -> str:
    """The verdict on a claim as a whole, by CLAIM_WORDS, from (architecture, corpus, final verdict) of every model.

    Counts models as independent draws; those that share a corpus or an architecture share more than chance, which is what
    "depends on" is asked first for.
    """
    verdicts = [verdict for *_, verdict in models]
    if sum(v in (HOLDS, FAILS) for v in verdicts) < DECIDED * len(verdicts) or not verdicts:
        return "undetermined"
    on = []
    for position, factor in enumerate(("architecture", "corpus")):
        levels = {m[position] for m in models}
        sides = {side([m[2] for m in models if m[position] == level]) for level in levels}
        if {1, -1} <= sides:
            on.append(factor)
    if on:
        return f"depends on {' and '.join(on)}"
    return {1: "holds at this scale", -1: "fails at this scale", 0: "undetermined"}[side(verdicts)]
