"""The checkers of lesson 1: attention patterns and the batch."""

import numpy as np

from lib.formatting import plural
from lib.lessons.answers import (
    Hint,
    as_array,
    as_function,
    as_number,
    as_whole,
    close,
    exercise,
    judged,
    look_for,
    right,
)


def _softmax(scores, axis=-1):
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


@exercise("1.1")
def attention_pattern(answer, scores):
    """scores [T, T], query by key: the answer is the causal attention pattern [T, T]."""
    scores = np.asarray(scores, dtype=float)
    allowed = np.tril(np.ones(scores.shape, dtype=bool))
    masked = np.where(allowed, scores, -np.inf)
    answer = as_array(answer, scores.shape)
    if np.isnan(answer).any():
        raise Hint("not a number")
    plain = _softmax(scores)
    mistakes = {
        "no mask": plain,
        "zero as mask": _softmax(np.where(allowed, scores, 0.0)),
        "mask too late": np.where(allowed, plain, 0.0),
        "columns": _softmax(masked, axis=0),
        "mask the wrong way round": _softmax(np.where(allowed.T, scores, -np.inf)),
        "scores": masked,
        "not divided": np.where(allowed, np.exp(scores), 0.0),
    }
    looks_ahead, sums = (np.abs(np.triu(answer, 1)) > 1e-9).any(), answer.sum(axis=1)
    otherwise = "looks ahead" if looks_ahead else "weights" if close(sums, 1.0) else "row sums"
    return judged(answer, _softmax(masked), mistakes, otherwise=otherwise)


@exercise("1.2")
def sequence_maker(answer):
    """The answer is a function (rng, length, low, high) -> tokens, one sequence of the induction batch."""
    make = as_function(answer)
    length, low, high = 64, 10, 50  # few tokens: a sequence that keeps a second A or B shows itself
    first, made = set(), []
    for seed in range(60):
        tokens = as_array(make(np.random.default_rng(seed), length, low, high), (length,))
        _judge_sequence(tokens, length, low, high)
        first.add(int(np.flatnonzero(tokens == tokens[-1])[0]))
        made.append(tuple(tokens))
    if len(set(made)) == 1:
        raise Hint("always the same")
    if len(first) == 1:
        raise Hint("A always at the same place")
    return right(n=len(made), length=length)


def _judge_sequence(tokens, length, low, high):
    """Raise a Hint if a sequence is not one of the induction batch."""
    if not (np.isfinite(tokens).all() and (tokens == np.floor(tokens)).all()):
        raise Hint("not whole tokens")
    outside = tokens[(tokens < low) | (tokens >= high)]
    if len(outside):
        raise Hint("outside", low=low, high=high, token=outside[0])
    places = np.flatnonzero(tokens[:-1] == tokens[-1])
    if len(places) == 0:
        raise Hint("no A before")
    if len(places) > 1:
        raise Hint("more A", n=len(places))
    at = int(places[0])
    if not 20 <= at < length // 2:
        raise Hint("A at the wrong place", at=at, half=length // 2)
    if (tokens == tokens[at + 1]).sum() > 1:
        raise Hint("more B")


@exercise("1.3")
def other_a(answer, batch):
    """The answer is the number of sequences in which A stands elsewhere than at first_a and at the end."""
    tokens = batch.tokens.numpy()
    is_a = tokens == tokens[:, -1:]
    earlier, everywhere = is_a[:, :-1].sum(axis=1), is_a.sum(axis=1)
    truth = int((earlier != 1).sum())
    mistakes = {
        "the last token counted": (everywhere != 1).sum(),
        "all A before the end": earlier.sum(),
        "all A": everywhere.sum(),
        "the clean sequences": (earlier == 1).sum(),
        "the extra A": (earlier - 1).sum(),
        "a share": (earlier != 1).mean(),
    }
    mistakes = {name: int(value) for name, value in mistakes.items()}
    about = {"found": plural(truth, "sequence").capitalize(), "n": len(tokens), "n_tokens": len(np.unique(tokens))}
    return judged(as_whole(answer), truth, mistakes, same=np.array_equal, **about)


@exercise("1.4")
def induction_positions(answer, batch):
    """The answer is where an induction head looks from the last position: [sequence]."""
    first_a = batch.first_a.numpy()
    seq_len = batch.tokens.shape[1]
    mistakes = {
        "A itself": first_a,
        "one too far": first_a + 2,
        "one before": first_a - 1,
        "the last position": np.full(len(first_a), seq_len - 1),
        "the previous token": np.full(len(first_a), seq_len - 2),
        "tokens": batch.targets.numpy(),
    }
    return judged(as_array(answer, first_a.shape), first_a + 1, mistakes, same=np.array_equal)


@exercise("1.5")
def previous_mass(answer, pattern, head):
    """pattern [sequence, head, query, key]: the answer is what the last query of a head in sequence 0 gives the previous token."""
    pattern = np.asarray(pattern)
    answer = as_number(answer)
    mine = pattern[0, head]
    truth = float(mine[-1, -2])
    if close(answer, truth):
        return right(head=head, mass=truth)
    mistakes = {
        "exchanged": mine[-2, -1],
        "to itself": mine[-1, -1],
        "the last but one query": mine[-2, -2],
        "the first token": mine[-1, 0],
    }
    look_for(answer, mistakes)
    for other, its in enumerate(pattern[0]):
        look_for(answer, {"another head": its[-1, -2]}, other=other, head=head)
    raise Hint("otherwise", head=head)
