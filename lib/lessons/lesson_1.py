"""The checkers of lesson 1: attention patterns and the batch."""

import numpy as np

from lib.formatting import percent, plural
from lib.lessons.answers import Hint, as_array, as_number, as_whole, close, exercise, kind_of, look_for, stopped


def _softmax(scores, axis=-1):
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


@exercise("1.1")
def attention_pattern(answer, scores):
    """scores [T, T], query by key: the answer is the causal attention pattern [T, T]."""
    scores = np.asarray(scores, dtype=float)
    allowed = np.tril(np.ones(scores.shape, dtype=bool))
    truth = _softmax(np.where(allowed, scores, -np.inf))
    answer = as_array(answer, scores.shape, "one row a query and one column a key")
    if np.isnan(answer).any():
        raise Hint("Some entries are not a number. Is a whole row masked? A query may always attend to itself.")
    if close(answer, truth):
        return "Every row sums to 1, and no query looks ahead."
    plain = _softmax(scores)
    look_for(
        answer,
        [
            (
                plain,
                "Nothing is masked: a query must not attend to later positions. Mask the scores before the softmax.",
            ),
            (
                _softmax(np.where(allowed, scores, 0.0)),
                "A score of 0 is no mask, since exp(0) is 1. What score becomes 0 after exp?",
            ),
            (
                np.where(allowed, plain, 0.0),
                "The mask came after the softmax, and the rows no longer sum to 1. Mask the scores instead.",
            ),
            (
                _softmax(np.where(allowed, scores, -np.inf), axis=0),
                "The columns sum to 1. It is the rows that must: each query spreads its attention over the keys.",
            ),
            (
                _softmax(np.where(allowed.T, scores, -np.inf)),
                "The mask is the wrong way round: each query sees only later positions. Keep key <= query.",
            ),
            (np.where(allowed, scores, -np.inf), "These are the masked scores. Now the softmax of each row."),
            (np.where(allowed, np.exp(scores), 0.0), "Divide each row by its sum."),
        ],
    )
    if (np.abs(np.triu(answer, 1)) > 1e-9).any():
        raise Hint("There is attention above the diagonal: a query must not attend to later positions.")
    if not close(answer.sum(axis=1), 1.0):
        raise Hint("Each row should sum to 1.")
    raise Hint("Mask and row sums are right, the weights are not: take exp(score), then divide by the row's sum.")


@exercise("1.2")
def sequence_maker(answer):
    """The answer is a function (rng, length, low, high) -> tokens, one sequence of the induction batch."""
    if not callable(answer):
        raise Hint(f"A function is expected; the answer is {kind_of(answer)}.")
    length, low, high = 64, 10, 50  # few tokens: a sequence that keeps a second A or B shows itself
    first, made = set(), []
    for seed in range(60):
        try:
            tokens = answer(np.random.default_rng(seed), length, low, high)
        except Exception as error:  # noqa: BLE001 - the learner's code may do anything
            raise Hint(stopped(error)) from None
        if tokens is None or tokens is ...:
            raise Hint("The function returns nothing yet. End it with `return tokens`.")
        tokens = as_array(tokens, (length,), "one token a position")
        _judge_sequence(tokens, length, low, high)
        first.add(int(np.flatnonzero(tokens == tokens[-1])[0]))
        made.append(tuple(tokens))
    if len(set(made)) == 1:
        raise Hint("All sequences are the same: draw the tokens from `rng`.")
    if len(first) == 1:
        raise Hint("The first A always stands at the same place. A head could learn the place by heart: draw it.")
    return f"In {len(made)} sequences of {length} tokens, only the pair A B tells what comes after the last A."


def _judge_sequence(tokens, length, low, high):
    """Raise a Hint if a sequence is not one of the induction batch."""
    if not (np.isfinite(tokens).all() and (tokens == np.floor(tokens)).all()):
        raise Hint("Tokens are whole numbers.")
    if (tokens < low).any() or (tokens >= high).any():
        raise Hint(f"A token lies outside low <= token < high: with low = {low} and high = {high} there is "
                   f"a {tokens[(tokens < low) | (tokens >= high)][0]:.0f}.")  # fmt: skip
    a = tokens[-1]
    at = np.flatnonzero(tokens[:-1] == a)
    if len(at) == 0:
        raise Hint("The last token does not occur earlier. It should be A again.")
    if len(at) > 1:
        raise Hint(
            f"A stands at {len(at)} places before the end. Redraw every other A; and look again: what you draw "
            "instead may be A once more."
        )
    at = int(at[0])
    if not 20 <= at < length // 2:
        raise Hint(
            f"The first A stands at position {at}. It should be at least 20 and below half the length, {length // 2}."
        )
    b = tokens[at + 1]
    if (tokens == b).sum() > 1:
        raise Hint(
            "B occurs more than once. Redraw every other B, as you did with A, and see that no B or A comes back in "
            "its place."
        )


@exercise("1.3")
def other_a(answer, batch):
    """The answer is the number of sequences in which A stands elsewhere than at first_a and at the end."""
    tokens, a = batch.tokens.numpy(), batch.tokens.numpy()[:, -1:]
    earlier = (tokens[:, :-1] == a).sum(axis=1)
    truth = int((earlier != 1).sum())
    answer = as_whole(answer, "how many sequences")
    if answer == truth:
        n = plural(truth, "sequence")
        return (
            f"{n[0].upper() + n[1:]} of {len(tokens):,}. Each extra A is redrawn once only, and with "
            f"{len(np.unique(tokens))} tokens the redraw can be A again. With the paper's 9,900 tokens it hardly ever is."
        )
    everywhere = (tokens == a).sum(axis=1)
    mistakes = [
        ((everywhere != 1).sum(), "The last token is A by construction: leave the last position out, or expect two."),
        (earlier.sum(), "These are all the A before the end. How many sequences have more than one?"),
        (everywhere.sum(), "These are all the A in the batch. How many sequences have more than two?"),
        ((earlier == 1).sum(), "These are the sequences that are as they should be. How many are not?"),
        ((earlier - 1).sum(), "These are the extra A. Count the sequences that have any."),
        ((earlier != 1).mean(), "That is the share. The number of sequences is asked."),
    ]
    look_for(answer, [(int(value), hint) for value, hint in mistakes])
    raise Hint("Compare every token but the last with A, `batch.tokens[:, -1:]`, and count the matches of each row.")


@exercise("1.4")
def induction_positions(answer, batch):
    """The answer is where an induction head looks from the last position: [sequence]."""
    first_a = batch.first_a.numpy()
    seq_len = batch.tokens.shape[1]
    answer = as_array(answer, first_a.shape, "one position a sequence")
    if np.array_equal(answer, first_a + 1):
        return "What followed A last time stands one behind it."
    look_for(
        answer,
        [
            (first_a, "There stands A itself. A head that rests there is a duplicate-token head. What followed it?"),
            (first_a + 2, "One too far: B stands right behind A."),
            (first_a - 1, "One before A. What *followed* A stands on its other side."),
            (np.full(len(first_a), seq_len - 1), "That is where the head looks *from*: its own, last position."),
            (np.full(len(first_a), seq_len - 2), "That is the previous token. What stood there is random."),
            (batch.targets.numpy(), "These are tokens, B of each sequence. Positions are asked: where does B stand?"),
        ],
    )
    raise Hint("`batch.first_a` holds the position of the first A. Where, from there, is what followed it?")


@exercise("1.5")
def previous_mass(answer, pattern, head):
    """pattern [sequence, head, query, key]: the answer is what the last query of a head in sequence 0 gives the previous token."""
    pattern = np.asarray(pattern)
    answer = as_number(answer, "an attention between 0 and 1")
    truth = float(pattern[0, head, -1, -2])
    if close(answer, truth):
        return f"Head {head} puts {percent(truth)} of its last query's attention on the previous token."
    look_for(
        answer,
        [
            (
                pattern[0, head, -2, -1],
                "Query and key are exchanged: the third index is the query, the fourth the key.",
            ),
            (
                pattern[0, head, -1, -1],
                "That is the attention of the last position to itself. The previous is one before.",
            ),
            (pattern[0, head, -2, -2], "That is the last but one query. Take the last query, and the key before it."),
            (pattern[0, head, -1, 0], "That is the attention to the first token, position 0."),
            *((pattern[0, h, -1, -2], f"That is head {h}; head {head} is asked.") for h in range(pattern.shape[1])),
        ],
    )
    raise Hint(f"The indices are sequence 0, head {head}, the last query (-1), and the key before it (-2).")
