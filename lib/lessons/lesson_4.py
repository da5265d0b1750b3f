"""The checkers of lesson 4: a circuit over training.

frame: lib.tables.heads.trajectory, the heads of one model at every revision.
"""

import numpy as np

from lib.findings import Counting, in_circuit, members, selectivity_of
from lib.formatting import plural
from lib.lessons.answers import Hint, as_array, exercise, judged, kind_of, right


def _revisions(frame):
    """Names of the revisions, in order of training."""
    return list(frame.drop_duplicates("step").sort_values("step")["revision"])


def _by_step(frame, mask):
    """How many rows of each revision are in a mask, in order of training: [revision]."""
    return mask.groupby(frame["step"]).sum().to_numpy().astype(int)


def _first(names, counts):
    """The name of the first revision with a count that is not 0, or "never"."""
    return next((name for name, count in zip(names, counts) if count), "never")


def _revision(answer, names):
    """The answer as the name of a revision or "never"; raises a Hint."""
    if not isinstance(answer, str):
        raise Hint("no revision", last=names[-1], kind=kind_of(answer))
    answer = answer.strip()
    if answer not in (*names, "never"):
        raise Hint("no such revision", name=answer[:40], names=", ".join(names))
    return answer


@exercise("4.1")
def crossing(answer, frame, thresholds):
    """The answer is the first revision at which the finally strongest induction head passes."""
    names = _revisions(frame)
    answer = _revision(answer, names)
    last = frame[frame["step"] == frame["step"].max()]
    top = last.loc[selectivity_of(last, "induction").idxmax()]
    mine = frame[(frame["layer"] == top["layer"]) & (frame["head"] == top["head"])].sort_values("step")
    values = dict(zip(mine["revision"], selectivity_of(mine, "induction").astype(float)))
    limit = thresholds.induction_circuit
    past = [name for name, value in values.items() if value >= limit]
    truth = past[0] if past else "never"
    about = {"head": (int(top["layer"]), int(top["head"])), "limit": limit, "at": answer}
    if answer == truth == "never":
        return right("never", **about, value=values[names[-1]])
    if answer == truth == names[0]:
        return right("from the start", **about)
    if answer == truth:
        return right(**about, before=names[names.index(truth) - 1])
    if answer == "never":
        raise Hint("not never", **about)
    if answer in past:
        raise Hint("already", **about)
    if answer == _first(values, [value >= thresholds.classify for value in values.values()]):
        raise Hint("classified", **about, lower=thresholds.classify)
    raise Hint("not yet", **about, value=values[answer])


@exercise("4.2")
def circuit_sizes(answer, frame, thresholds):
    """The answer is the number of heads in the induction circuit at each revision: [revision]."""
    limit, lower = thresholds.induction_circuit, thresholds.classify
    induction, bos = (selectivity_of(frame, cls) for cls in ("induction", "first_token"))
    truth = _by_step(frame, in_circuit(frame, Counting(thresholds)))
    answer = as_array(answer, truth.shape)
    clean = in_circuit(frame, Counting(thresholds, baseline="clean"))
    mistakes = {
        "turned round": truth[::-1],
        "clean baseline": _by_step(frame, clean),
        "classified": _by_step(frame, induction >= lower),
        "running totals": np.cumsum(truth),
        "outside": _by_step(frame, induction < limit),
        "BOS heads": _by_step(frame, bos >= lower),
    }
    said = "shrinking" if (np.diff(truth) < 0).any() else "right"
    about = {"first": truth[0], "last": truth[-1], "most": truth.max(), "lower": lower, "limit": limit}
    return judged(answer, truth, mistakes, same=np.array_equal, said=said, **about)


@exercise("4.3")
def recall(answer, frame, thresholds):
    """The answer is, at each revision, the share of the final circuit already past the threshold: [revision]."""
    frame = frame.sort_values(["step", "layer", "head"], kind="stable")
    n = frame["step"].nunique()
    past = in_circuit(frame, Counting(thresholds)).to_numpy().reshape(n, -1)
    final = past[-1]
    answer = as_array(answer, (n,))
    if not final.any():
        if np.nan_to_num(answer).any():
            raise Hint("no circuit")
        return right("no value")
    found, sizes, size = (past & final).sum(axis=1), past.sum(axis=1), final.sum()
    truth = found / size
    mistakes = {
        "size over 1" if (sizes > size).any() else "size": sizes / size,
        "precision": found / np.maximum(sizes, 1),
        "per cent": 100 * truth,
        "counts": found,
        "turned round": truth[::-1],
    }
    otherwise = "no share" if (answer > 1).any() or (answer < 0).any() else "otherwise"
    about = {"share": truth[-2], "heads": plural(int(size), "head")}
    return judged(answer, truth, mistakes, otherwise=otherwise, **about)


@exercise("4.4")
def order(answer, frame, thresholds):
    """The answer is the first revision with a head in the previous-token circuit, and in the induction circuit."""
    names = _revisions(frame)
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise Hint("no pair")
    answer = tuple(_revision(a, names) for a in answer)
    limits = {"previous_token": thresholds.previous_token_circuit, "induction": thresholds.induction_circuit}

    def first(cls, limit):
        return _first(names, _by_step(frame, members(frame, cls, limit, Counting(thresholds))))

    truth = tuple(first(cls, limit) for cls, limit in limits.items())
    if answer == truth:
        return right("together" if truth[0] == truth[1] else "right", previous=truth[0], induction=truth[1])
    if answer == truth[::-1]:
        raise Hint("other way round")
    if answer == tuple(first(cls, thresholds.classify) for cls in limits):
        raise Hint("classified", lower=thresholds.classify, **limits)
    wrong = [what for what, a, b in zip(("previous-token", "induction"), answer, truth) if a != b]
    raise Hint("not the first", wrong=" and ".join(wrong))
