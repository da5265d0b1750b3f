"""The checkers of lesson 5: is a ratio evidence?."""

import re

import numpy as np

from lib import measure
from lib.findings import selectivity_column
from lib.formatting import name_of, percent, times
from lib.lessons.answers import TOLERANCE, Hint, as_head, as_number, close, exercise, kind_of, look_for
from lib.measure import CLASSES


@exercise("5.1")
def perfect_reading(answer, batch):
    """The answer is what a perfect induction head reads under the paper's baseline."""
    seq_len, first_a = batch.tokens.shape[1], batch.first_a.numpy()
    truth = float(measure.metrics.paper_baseline_ceiling(seq_len, first_a))
    if isinstance(answer, (float, np.floating)) and np.isinf(answer):
        if np.isinf(truth):
            return "In this batch no baseline position ever is the answer, so there is no ceiling."
        raise Hint("The baseline of a perfect head is not 0: in some sequences the answer is among the 50 positions.")
    answer = as_number(answer, "how many times the baseline")
    if close(answer, truth):
        return f"{times(truth)}: nobody can read more, however good the head. A threshold of 100x would hardly ever be passed."
    hits = np.isin(first_a + 1, measure.metrics.paper_baseline_positions(seq_len))
    look_for(
        answer,
        [
            (
                hits.mean(),
                "This is the share of sequences with the answer among the 50 positions. What is the baseline then?",
            ),
            (hits.mean() / 50, "This is the perfect head's baseline. Its attention is 1: divide."),
            (
                1 / max(hits.mean(), 1e-300),
                "The baseline is a mean over 50 positions, of which one at most gets the attention.",
            ),
            (
                50 / max(np.isin(first_a, measure.metrics.paper_baseline_positions(seq_len)).mean(), 1e-300),
                "You asked where A stands; the head looks at B, one behind.",
            ),
            (seq_len, "That is against an even spread. The paper's baseline is the mean over its 50 positions."),
            (50.0, "That would be so if the answer were among the 50 positions in every sequence. In how many is it?"),
        ],
    )
    raise Hint(
        "A perfect head puts all its attention on B. In which share of the sequences is B's position one of the 50? "
        "The baseline is that share over 50."
    )


def thinnest(table, floor):
    """The highest selectivity in a head table with less than `floor` of the attention: (layer, head, class, selectivity, mass)."""
    found = None
    for cls in CLASSES:
        for row in table.itertuples():
            mass, ratio = getattr(row, f"attention_{cls}"), getattr(row, selectivity_column(cls))
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
        return f"{name_of(layer, head)}: {times(ratio)} for the class {cls.replace('_', '-')}, with {percent(mass)} of the attention."
    highest = {c: table.loc[table[selectivity_column(c)].idxmax()] for c in CLASSES}
    for c, row in highest.items():
        if answer == (row["layer"], row["head"]) and row[f"attention_{c}"] >= floor:
            raise Hint(
                f"{name_of(*answer)} has the highest selectivity for the class {c.replace('_', '-')}, but {percent(row[f'attention_{c}'])} of the "
                f"attention behind it. Leave out whatever has {percent(floor)} or more."
            )
    raise Hint(
        f"For each class keep the heads with less than {percent(floor)} of the attention there; which has the highest ratio?"
    )


@exercise("5.3")
def circuit_cost(answer, whole, without):
    """whole, without: lib.measure.ablation.capability.  The answer is by how much the loss rises."""
    answer = as_number(answer, "a difference of two losses in nats")
    truth = without["loss"] - whole["loss"]
    if abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6):
        return f"{truth:+.3g} nats: the loss goes from {whole['loss']:.3g} to {without['loss']:.3g}."
    look_for(
        answer,
        [
            (-truth, "The sign: what it costs is the loss without the heads minus the loss of the whole model."),
            (without["loss"], "This is the loss without the heads. How much more is it than the whole model's?"),
            (whole["loss"], "This is the whole model's loss."),
            (without["loss"] / whole["loss"], "This is a ratio. The difference is asked."),
            (whole["top1"] - without["top1"], "This is the loss of top-1. The difference of `loss` is asked."),
        ],
    )
    raise Hint("Subtract the whole model's `loss` from the `loss` without the heads.")


@exercise("5.4")
def control_cost(answer, whole, controls):
    """controls: capabilities without random sets.  The answer is by how much the loss rises on average."""
    losses = np.array([c["loss"] for c in controls])
    if not len(losses):
        return "Too few heads are left to draw random sets from, so nothing can be compared. Take another model."
    answer = as_number(answer, "a difference of losses in nats")
    costs = losses - whole["loss"]
    truth = costs.mean()
    if abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6):
        return f"{truth:+.3g} nats on average, from {costs.min():+.3g} to {costs.max():+.3g}, over {len(costs)} random sets."
    look_for(
        answer,
        [
            (losses.mean(), "This is their mean loss. How much more is it than the whole model's?"),
            (-truth, "The sign: the loss without the heads minus the loss of the whole model."),
            (costs.max(), "This is the dearest set. The mean is asked."),
            (costs.min(), "This is the cheapest set. The mean is asked."),
            (np.median(costs), "This is the median. The mean is asked."),
            (costs.sum(), "This is the sum. Divide by the number of sets."),
            (costs[0], "This is the first set only. The mean over all is asked."),
        ],
    )
    raise Hint("For each random set subtract the whole model's loss from its loss, then take the mean.")


@exercise("5.5")
def thin_head_cost(answer, model, batch, head):
    """The answer is by how much the loss rises without one head (layer, head); negative if it falls."""
    from lib.measure import capabilities  # only here, so that lessons on head tables need no torch

    answer = as_number(answer, "a difference of two losses in nats")
    whole, without = capabilities(model, batch, [[], [head]])
    truth = without["loss"] - whole["loss"]
    if abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6):
        done = f"The loss goes from {whole['loss']:.3g} to {without['loss']:.3g}, top-1 from {percent(whole['top1'])} to {percent(without['top1'])}."
        return done + (" The model does the task *better* without this head." if truth < 0 else "")
    look_for(
        answer,
        [
            (-truth, "The sign: the loss without the head minus the loss of the whole model. It may be negative."),
            (without["loss"], "This is the loss without the head. How does it differ from the whole model's?"),
            (without["top1"] - whole["top1"], "This is the change of top-1. The difference of `loss` is asked."),
        ],
    )
    raise Hint("Call `capability` with the head of exercise 5.2 in `ablate`, and subtract the whole model's loss.")


STATEMENTS = {  # letter: (is it shown?, hint for who gets it wrong)
    "a": (True, "(a) is what a selectivity is: a ratio of two attentions, measured."),
    "b": (False, "(b): a ratio says nothing of the amount. 300 times next to nothing is next to nothing."),
    "c": (
        False,
        "(c): a head can look somewhere without the model using it, or against its use. Only an intervention tells.",
    ),
    "d": (True, "(d): zeroing is an intervention, and the random sets show what zeroing so many heads costs anyway."),
    "e": (False, "(e): one model, one seed, one small task. That other models have such heads must be measured there."),
}


@exercise("5.6")
def evidence(answer):
    """The answer is the set of letters of the statements that the measurements show."""
    if isinstance(answer, str):
        answer = re.findall(r"[A-Za-z]", answer)
    try:
        given = {str(letter).strip().strip("()").lower() for letter in answer}
    except TypeError:
        raise Hint(f'A set of letters is expected, such as {{"a", "e"}}; the answer is {kind_of(answer)}.') from None
    unknown = sorted(given - set(STATEMENTS))
    if unknown:
        raise Hint(f"There is no statement {unknown[0][:20]!r}: the letters are {', '.join(STATEMENTS)}.")
    for letter, (shown, hint) in STATEMENTS.items():
        if (letter in given) != shown:
            raise Hint(f"Think again of {hint}")
    return "A ratio tells where to look. Mass says how much is there, an intervention with controls what it is worth."
