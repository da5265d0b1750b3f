"""The checkers of lesson 4: a circuit over training."""

import numpy as np

from lib.findings import Counting, in_circuit, members, selectivity_of
from lib.formatting import name_of, percent, plural, times
from lib.lessons.answers import Hint, as_array, close, exercise, kind_of, look_for


def _by_step(frame, mask):
    """Counts of a mask by revision, in order of training: {revision: count}."""
    counts = mask.groupby(frame["step"]).sum()
    names = frame.drop_duplicates("step").set_index("step")["revision"]
    return {names[step]: int(count) for step, count in counts.sort_index().items()}


def _first(counts):
    """The first revision with a count that is not 0, or "never"."""
    return next((name for name, count in counts.items() if count), "never")


def _revision(answer, names):
    """The answer as the name of a revision or "never"; raises a Hint."""
    if not isinstance(answer, str):
        raise Hint(
            f'The name of a revision is expected, such as "{names[-1]}", or "never"; the answer is {kind_of(answer)}.'
        )
    answer = answer.strip()
    if answer not in (*names, "never"):
        raise Hint(f'There is no revision "{answer[:40]}". They are {", ".join(names)}; or "never".')
    return answer


@exercise("4.1")
def crossing(answer, frame, thresholds):
    """frame: lib.tables.heads.trajectory.  The answer is the first revision at which the finally strongest induction head passes."""
    names = list(frame.drop_duplicates("step").sort_values("step")["revision"])
    answer = _revision(answer, names)
    last = frame[frame["step"] == frame["step"].max()]
    top = last.loc[selectivity_of(last, "induction").idxmax()]
    mine = frame[(frame["layer"] == top["layer"]) & (frame["head"] == top["head"])].sort_values("step")
    limit, name = thresholds.induction_circuit, name_of(int(top["layer"]), int(top["head"]))
    first_past = lambda limit: next(iter(mine.loc[selectivity_of(mine, "induction") >= limit, "revision"]), "never")  # noqa: E731
    truth = first_past(limit)
    if answer == truth:
        if truth == "never":
            return f"{name} reads {times(float(top['selectivity_induction']))} at the end, under {times(limit)}."
        before = names[names.index(truth) - 1] if truth != names[0] else None
        return f"{name} passes {times(limit)} at {truth}." + (
            f" It happened somewhere between {before} and {truth}: in between, nobody has looked." if before else ""
        )
    if answer == "never":
        raise Hint(f"{name} does pass {times(limit)}. Filter the frame by layer and head, then by the threshold.")
    past = set(mine.loc[selectivity_of(mine, "induction") >= limit, "revision"])
    if answer in past:
        raise Hint(f"At {answer} it has passed already. When for the first time?")
    if answer == first_past(thresholds.classify):
        raise Hint(f"There {name} passes {times(thresholds.classify)}; {times(limit)} is asked.")
    value = float(mine.loc[mine["revision"] == answer, "selectivity_induction"].iloc[0])
    raise Hint(f"At {answer} {name} reads {times(value)}: not yet {times(limit)}.")


@exercise("4.2")
def circuit_sizes(answer, frame, thresholds):
    """The answer is the number of heads in the induction circuit at each revision: [revision]."""
    counting = Counting(thresholds)
    sizes = lambda mask: np.array(list(_by_step(frame, mask).values()))  # noqa: E731
    limit = thresholds.induction_circuit
    truth = sizes(in_circuit(frame, counting))
    answer = as_array(answer, truth.shape, "one count a revision, in order of training")
    if np.array_equal(answer, truth):
        shrinks = bool((np.diff(truth) < 0).any())
        return f"From {truth[0]} to {truth[-1]}, at most {truth.max()}." + (
            " A count by threshold can fall again." if shrinks else ""
        )
    look_for(
        answer,
        [
            (truth[::-1], "The order is turned round: the first revision comes first."),
            (sizes(in_circuit(frame, Counting(thresholds, baseline="clean"))), "Counted with the clean baseline."),
            (
                sizes(selectivity_of(frame, "induction") >= thresholds.classify),
                f"Counted from {times(thresholds.classify)}; a circuit begins at {times(limit)}.",
            ),
            (np.cumsum(truth), "These are running totals. Count each revision by itself."),
            (
                sizes(selectivity_of(frame, "induction") < limit),
                "These are the heads outside the circuit.",
            ),
            (sizes(selectivity_of(frame, "first_token") >= thresholds.classify), "These are the BOS heads."),
        ],
    )
    raise Hint(f"At each revision, count the rows with `selectivity_induction` of {limit:g} or more.")


@exercise("4.3")
def recall(answer, frame, thresholds):
    """The answer is, at each revision, the share of the final circuit already past the threshold: [revision]."""
    frame = frame.sort_values(["step", "layer", "head"], kind="stable")
    n = frame["step"].nunique()
    past = in_circuit(frame, Counting(thresholds)).to_numpy().reshape(n, -1)
    final = past[-1]
    if not final.any():
        answer = as_array(answer, (n,), "one share a revision, in order of training")
        if np.nan_to_num(answer).any():
            raise Hint("The final circuit is empty: no head can be one of its heads.")
        return "The final circuit is empty, and a share of nothing has no value. Take another model of the panel."
    truth = (past & final).sum(axis=1) / final.sum()
    answer = as_array(answer, truth.shape, "one share a revision, in order of training")
    if close(answer, truth):
        return (
            f"{percent(truth[-2])} of the final {plural(int(final.sum()), 'head')} stand at the last revision but one."
        )
    sizes = past.sum(axis=1)
    look_for(
        answer,
        [
            (
                sizes / final.sum(),
                "You divide the size of the circuit now by its final size"
                + (": at one revision that is over 1, and a share never is. " if (sizes > final.sum()).any() else ". ")
                + "Count only heads that are in the final circuit too.",
            ),
            (
                (past & final).sum(axis=1) / np.maximum(sizes, 1),
                "You divide by the size of the circuit *now*: that is the precision. Recall divides by the final size.",
            ),
            (100 * truth, "A share is between 0 and 1: do not multiply by 100."),
            ((past & final).sum(axis=1), "These are counts. Divide by the size of the final circuit."),
            (truth[::-1], "The order is turned round: the first revision comes first."),
        ],
    )
    if (answer > 1).any() or (answer < 0).any():
        raise Hint("A share lies between 0 and 1.")
    raise Hint(
        "Of the heads in the last revision's circuit, how many pass at this revision? Divide by how many there are."
    )


@exercise("4.4")
def order(answer, frame, thresholds):
    """The answer is the first revision with a head in the previous-token circuit, and in the induction circuit."""
    names = list(frame.drop_duplicates("step").sort_values("step")["revision"])
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise Hint("Two names of revisions are expected, (previous-token, induction).")
    answer = tuple(_revision(a, names) for a in answer)
    counting = Counting(thresholds)
    limits = {"previous_token": thresholds.previous_token_circuit, "induction": thresholds.induction_circuit}
    truth = tuple(_first(_by_step(frame, members(frame, c, limit, counting))) for c, limit in limits.items())
    if answer == truth:
        if truth[0] == truth[1]:
            return "By these thresholds and revisions, neither comes first: the measurement cannot tell them apart."
        return f"Previous-token: {truth[0]}; induction: {truth[1]}."
    if answer == truth[::-1]:
        raise Hint("The other way round: previous-token first, then induction.")
    low = tuple(_first(_by_step(frame, members(frame, c, thresholds.classify, counting))) for c in limits)
    wrong = [what for what, a, b in zip(("previous-token", "induction"), answer, truth) if a != b]
    if answer == low:
        raise Hint(f"You counted from {times(thresholds.classify)}. The circuits begin at {times(limits['previous_token'])} "
                   f"and {times(limits['induction'])}.")  # fmt: skip
    raise Hint(f"Not the first revision for {' and '.join(wrong)}: any head counts, and the threshold must be reached.")
