"""How heads are counted: the one place where a number makes a head a BOS head or a member of a circuit.

Whatever decides with a ratio can be asked again under another Counting: the clean
baseline, best class, a floor of attention mass, a mass-based criterion, or another
threshold.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from lib.formatting import name_of
from lib.measure import metrics

CLASSES, selectivity_column = metrics.CLASSES, metrics.selectivity_column

SINK_MASS = 0.3  # mean attention of all queries to position 0 (Gu et al., When Attention Sink Emerges)
PREFIX_MATCHING = 0.3  # this project's counterpart for induction: Olsson et al. name no threshold

Column_co = TypeVar("Column_co", np.ndarray, pd.Series, covariant=True)


class Heads(Protocol[Column_co]):
    """Anything with the head table's columns by name: a Trajectory (arrays) or a head table (series)."""

    def __getitem__(self, column: str, /) -> Column_co: ...


class Thresholds(Protocol):
    """From where on a head counts, as a panel says (lib.panels.panel.Thresholds): ratios, and a share of attention."""

    classify: float
    induction_circuit: float
    mass_floor: float
    pr_elevation: float

    def model_copy(self, *, update: dict[str, float]) -> Any:
        """The same thresholds with some changed."""


@dataclass(frozen=True)
class Counting:
    """One way of counting heads.

    baseline: "paper" or "clean".  by: "any" (any head past the threshold, as the
    paper's tables count), "best_class" (only if the class is the head's highest, as
    its text counts), "with_mass" (only with at least the mass floor of attention
    there), "mass" (no ratio at all: sink mass for BOS heads, the prefix-matching score
    for induction).  elevation: the rule for an elevated PR (lib.findings.F5.ELEVATIONS).
    """

    thresholds: Thresholds
    baseline: str = "paper"
    by: str = "any"
    elevation: str = "start"

    def at(self, threshold: str, value: float) -> "Counting":
        """The same counting with one threshold changed."""
        return replace(self, thresholds=self.thresholds.model_copy(update={threshold: float(value)}))


WAYS: dict[str, dict[str, Any]] = {  # what each changes in the paper's Counting
    "paper": {},
    "clean": {"baseline": "clean"},
    **{by: {"by": by} for by in ("best_class", "with_mass", "mass")},
}


def bos_by_way(heads: Heads[Column_co], counting: Counting) -> dict[str, Column_co]:
    """Masks of the BOS heads, counted in each of WAYS."""
    return {way: is_bos(heads, replace(counting, **change)) for way, change in WAYS.items()}


@dataclass(frozen=True)
class Trajectory:
    """One model's heads over training, as arrays.

    names, tokens: the revisions' [step].  layer, head: [head].  values: {column of
    the head table: [step, head]}.  replicates: {column: [replicate, step, head]}, for
    columns that have them.
    """

    names: tuple[str, ...]
    tokens: np.ndarray
    layer: np.ndarray
    head: np.ndarray
    values: dict[str, np.ndarray] = field(repr=False)
    replicates: dict[str, np.ndarray] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, frame: pd.DataFrame, replicates: dict[str, np.ndarray] | None = None) -> "Trajectory":
        """From lib.tables.heads.trajectory and lib.tables.heads.replicates."""
        frame = frame.sort_values(["step", "layer", "head"], kind="stable")
        revisions = frame.drop_duplicates("step")
        n = len(revisions)
        first = frame.iloc[: len(frame) // n]
        numbers = frame.select_dtypes("number").columns.difference(["step", "tokens", "layer", "head"])
        values = {c: frame[c].to_numpy().reshape(n, -1) for c in numbers}
        drawn = dict(replicates or {})
        if drawn:
            for c in CLASSES:
                for b in metrics.BASELINES:
                    ratio = metrics.selectivity(drawn[f"attention_{c}"], drawn[f"baseline_{b}"])
                    drawn[selectivity_column(c, b)] = ratio
        names, tokens = tuple(revisions["revision"]), revisions["tokens"].to_numpy()
        return cls(names, tokens, first["layer"].to_numpy(), first["head"].to_numpy(), values, drawn)

    def __getitem__(self, column: str, /) -> np.ndarray:
        return self.values[column]

    @property
    def n_replicates(self) -> int:
        return len(next(iter(self.replicates.values()), ()))

    def draw(self, i: int) -> "Trajectory":
        """The trajectory that the i-th resample of sequences gives."""
        return replace(self, values=self.values | {c: r[i] for c, r in self.replicates.items()}, replicates={})

    def replicated(self) -> "Trajectory":
        """All resamples at once: values are [replicate, step, head] where there are replicates."""
        return replace(self, values=self.values | self.replicates, replicates={})

    def step(self, revision: str) -> int:
        """Index of a revision; raises ValueError if there is none of that name."""
        if revision not in self.names:
            raise ValueError(f"no revision {revision!r} among {', '.join(self.names)}")
        return self.names.index(revision)

    def upto(self, at: int) -> "Trajectory":
        """The revisions from the first to the one of that index."""
        n = at + 1
        values, replicates = ({c: v[..., :n, :] for c, v in of.items()} for of in (self.values, self.replicates))
        return replace(self, names=self.names[:n], tokens=self.tokens[:n], values=values, replicates=replicates)

    def labels(self, mask: np.ndarray) -> list[str]:
        """Names of the heads in a mask [head]: ["L0H1", ...]."""
        return [name_of(layer, head) for layer, head in zip(self.layer[mask], self.head[mask])]


def selectivity_of(heads: Heads[Column_co], cls: str, baseline: str = "paper") -> Column_co:
    """The selectivity of a class under a baseline; heads: a Trajectory or a head table."""
    return heads[selectivity_column(cls, baseline)]


def members(heads: Heads[Column_co], cls: str, threshold: float, counting: Counting) -> Column_co:
    """Mask of the heads that count as of a class from a threshold on, shaped as the columns of heads."""
    if counting.by == "mass":
        column, floor = {
            "first_token": ("sink_mass", SINK_MASS),
            "induction": ("prefix_matching", PREFIX_MATCHING),
        }.get(cls, (f"attention_{cls}", SINK_MASS))
        return heads[column] > floor
    mask = selectivity_of(heads, cls, counting.baseline) >= threshold
    if counting.by == "best_class":
        mask = mask & (best(heads, counting.baseline) == CLASSES.index(cls))
    if counting.by == "with_mass":
        mask = mask & (heads[f"attention_{cls}"] >= counting.thresholds.mass_floor)
    return mask


def is_bos(heads: Heads[Column_co], counting: Counting) -> Column_co:
    """Mask of BOS heads: by default any head with a first-token selectivity of 30x or more."""
    return members(heads, "first_token", counting.thresholds.classify, counting)


def in_circuit(heads: Heads[Column_co], counting: Counting) -> Column_co:
    """Mask of the induction circuit: by default any head with an induction selectivity of 50x or more."""
    return members(heads, "induction", counting.thresholds.induction_circuit, counting)


def best(heads: Heads[Column_co], baseline: str = "paper") -> np.ndarray:
    """Index into CLASSES of each head's highest selectivity."""
    return np.stack([np.asarray(selectivity_of(heads, c, baseline)) for c in CLASSES]).argmax(axis=0)


def thin(heads: Heads[Column_co], cls: str, threshold: float, counting: Counting) -> Column_co:
    """Mask of the heads that pass a ratio with less than the mass floor of attention behind it."""
    past = selectivity_of(heads, cls, counting.baseline) >= threshold
    return past & (heads[f"attention_{cls}"] < counting.thresholds.mass_floor)


def by_layer(trajectory: Trajectory, mask: np.ndarray) -> np.ndarray:
    """Counts of a mask [..., head] by layer: [..., layer]."""
    return mask.astype(int) @ (trajectory.layer[:, None] == np.arange(trajectory.layer.max() + 1))


def first_step(mask: np.ndarray) -> np.ndarray:
    """First step at which each head is in a mask [..., step, head]: [..., head], -1 if never."""
    return np.where(mask.any(axis=-2), mask.argmax(axis=-2), -1)
