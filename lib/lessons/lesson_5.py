"""The checkers of lesson 5: is a ratio evidence?."""

import re

import numpy as np

from lib import measure
from lib.lessons.answers import TOLERANCE, Hint, as_head, as_number, exercise, judged, kind_of, right


@exercise("5.1")
def perfect_reading(answer, batch):
    """The answer is what a perfect induction head reads under the paper's baseline."""
    seq_len, first_a = batch.tokens.shape[1], batch.first_a.numpy()
    truth = float(measure.metrics.paper_baseline_ceiling(seq_len, first_a))
    if isinstance(answer, (float, np.floating)) and np.isinf(answer):
        if np.isinf(truth):
            return right("no ceiling")
        raise Hint("infinite")
    baseline_positions = measure.metrics.paper_baseline_positions(seq_len)
    hits, hits_of_a = (np.isin(positions, baseline_positions).mean() for positions in (first_a + 1, first_a))
    mistakes = {
        "share": hits,
        "baseline": hits / 50,
        "share as baseline": 1 / max(hits, 1e-300),
        "A itself": 50 / max(hits_of_a, 1e-300),
        "even spread": seq_len,
        "every sequence": 50.0,
    }
    return judged(as_number(answer), truth, mistakes, ratio=truth)


def thinnest(table, floor):
    """The highest selectivity in a head table with less than `floor` of the attention: (layer, head, class, selectivity, mass)."""
    found = None
    for cls in measure.CLASSES:
        for row in table.itertuples():
            mass, ratio = getattr(row, f"attention_{cls}"), getattr(row, measure.selectivity_column(cls))
            if mass < floor and (found is None or ratio > found[3]):
                found = (int(row.layer), int(row.head), cls, float(ratio), float(mass))
    return found


@exercise("5.2")
def thin_ratio(answer, table, thresholds):
    """The answer is the head with the highest selectivity of any class that it gives less than the mass floor."""
    floor = thresholds.mass_floor
    layer, head, cls, ratio, mass = thinnest(table, floor)
    answer = as_head(answer, int(table["layer"].max()) + 1, int(table["head"].max()) + 1)
    if answer == (layer, head):
        return right(head=answer, ratio=ratio, cls=cls.replace("_", "-"), mass=mass)
    for cls in measure.CLASSES:
        highest = table.loc[table[measure.selectivity_column(cls)].idxmax()]
        mass = highest[f"attention_{cls}"]
        if answer == (highest["layer"], highest["head"]) and mass >= floor:
            raise Hint("not thin", head=answer, cls=cls.replace("_", "-"), mass=mass, floor=floor)
    raise Hint("otherwise", floor=floor)


def _same_cost(answer, truth):
    return abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6)


@exercise("5.3")
def circuit_cost(answer, whole, without):
    """whole, without: lib.measure.ablation.capability.  The answer is by how much the loss rises."""
    truth = without["loss"] - whole["loss"]
    mistakes = {
        "sign": -truth,
        "loss without": without["loss"],
        "loss of the whole": whole["loss"],
        "ratio": without["loss"] / whole["loss"],
        "top-1": whole["top1"] - without["top1"],
    }
    return judged(as_number(answer), truth, mistakes, same=_same_cost, cost=truth, whole=whole, without=without)


@exercise("5.4")
def control_cost(answer, whole, controls):
    """controls: capabilities without random sets.  The answer is by how much the loss rises on average."""
    losses = np.array([c["loss"] for c in controls])
    if not len(losses):
        return right("no controls")
    costs = losses - whole["loss"]
    truth = costs.mean()
    mistakes = {
        "loss without": losses.mean(),
        "sign": -truth,
        "dearest": costs.max(),
        "cheapest": costs.min(),
        "median": np.median(costs),
        "sum": costs.sum(),
        "first": costs[0],
    }
    about = {"cost": truth, "least": costs.min(), "most": costs.max(), "n": len(costs)}
    return judged(as_number(answer), truth, mistakes, same=_same_cost, **about)


@exercise("5.5")
def thin_head_cost(answer, model, batch, head):
    """The answer is by how much the loss rises without one head (layer, head); negative if it falls."""
    answer = as_number(answer)
    whole, without = measure.capabilities(model, batch, [[], [head]])
    truth = without["loss"] - whole["loss"]
    mistakes = {
        "sign": -truth,
        "loss without": without["loss"],
        "top-1": without["top1"] - whole["top1"],
    }
    said = "better" if truth < 0 else "right"
    return judged(answer, truth, mistakes, same=_same_cost, said=said, whole=whole, without=without)


STATEMENTS = {"a": True, "b": False, "c": False, "d": True, "e": False}  # letter: is it shown?


@exercise("5.6")
def evidence(answer):
    """The answer is the set of letters of the statements that the measurements show."""
    if isinstance(answer, str):
        answer = re.findall(r"[A-Za-z]", answer)
    try:
        given = {str(letter).strip().strip("()").lower() for letter in answer}
    except TypeError:
        raise Hint("no set", kind=kind_of(answer)) from None
    unknown = sorted(given - set(STATEMENTS))
    if unknown:
        raise Hint("no such letter", letter=unknown[0][:20], letters=", ".join(STATEMENTS))
    for letter, shown in STATEMENTS.items():
        if (letter in given) != shown:
            raise Hint(letter)
    return right()
