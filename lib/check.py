"""The checkers of the lessons: is an answer right, and if not, what went wrong?

One function an exercise: the learner's answer first, then what it is judged by.  The truth is
computed from the same data as the answer, never written down.  Each returns a Checked, also for
answers that make no sense: a learner never sees a traceback from here.  The hints know the
mistakes that the lessons invite.
"""

import functools
import re
from dataclasses import dataclass
from html import escape

import numpy as np

from lib import metrics
from lib.counting import Counting, in_circuit, members, selectivity_column, selectivity_of
from lib.metrics import CLASSES
from lib.words import name_of, percent, plural, times

CHECK_MIME = "application/vnd.attention-circuits.check+json"
TOLERANCE = 5e-3  # relative: an answer may be rounded to three digits
NOT_YET = "Replace the ... with your answer and run the cell again."


@dataclass(frozen=True)
class Checked:
    """What a checker says of an answer; right is what is counted, text what is read."""

    exercise: str
    right: bool
    text: str

    def __str__(self):
        return f"{'✓ Right.' if self.right else '○ Not yet.'} {self.text}".strip()

    def _repr_mimebundle_(self, include=None, exclude=None):
        colour = "#2e7d32" if self.right else "#b26a00"
        html = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(str(self)))
        html = re.sub(r"\*(\w[^*]*)\*", r"<em>\1</em>", html)
        style = f"border-left:.3rem solid {colour};margin:.4rem 0;padding:.2rem .8rem"
        return {
            "text/plain": str(self),
            "text/html": f'<div class="check" style="{style}">{html}</div>',
            CHECK_MIME: {"exercise": self.exercise, "right": self.right},
        }


class Hint(Exception):
    """Raised within a checker when an answer is not right; says what to look at."""


def exercise(number):
    """Make a checker of a function that raises a Hint or returns what there is to say of a right answer."""

    def decorate(judge):
        @functools.wraps(judge)
        def checked(answer, *given, **named):
            if answer is ...:
                return Checked(number, False, NOT_YET)
            try:
                return Checked(number, True, judge(answer, *given, **named))
            except Hint as hint:
                return Checked(number, False, str(hint))

        return checked

    return decorate


# Reading answers ------------------------------------------------------------------


def _kind(answer):
    """What an answer is, in words: for sentences about a wrong type."""
    return "nothing (None)" if answer is None else f"of type {type(answer).__name__}"


def _numbers(answer, meaning):
    """The answer as a float64 array of any shape; raises a Hint."""
    if hasattr(answer, "detach"):
        answer = answer.detach()
    try:
        return np.asarray(answer, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Hint(f"An array of numbers is expected, {meaning}; the answer is {_kind(answer)}.") from None


def _array(answer, shape, meaning):
    """The answer as a float64 array of that shape; raises a Hint."""
    found = _numbers(answer, meaning)
    if found.shape != shape:
        wanted = " x ".join(map(str, shape))
        got = " x ".join(map(str, found.shape)) or "a single number"
        raise Hint(f"The shape should be {wanted}, {meaning}; the answer's is {got}.")
    return found


def _number(answer, meaning):
    """The answer as a float; raises a Hint."""
    if isinstance(answer, (bool, np.bool_, str, bytes)):
        raise Hint(f"A number is expected, {meaning}; the answer is {_kind(answer)}.")
    try:
        found = float(answer)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Hint(f"A number is expected, {meaning}; the answer is {_kind(answer)}.") from None
    if not np.isfinite(found):
        raise Hint(f"A finite number is expected, {meaning}; the answer is {found}.")
    return found


def _whole(answer, meaning):
    """The answer as an int; raises a Hint."""
    found = _number(answer, meaning)
    if found != int(found):
        raise Hint(f"A whole number is expected, {meaning}; the answer is {found:g}.")
    return int(found)


def _head(answer, n_layers, n_heads):
    """The answer as (layer, head), given as a pair or as "L1H3"; raises a Hint."""
    if isinstance(answer, str) and re.fullmatch(r"\s*L\d{1,6}H\d{1,6}\s*", answer):
        answer = re.findall(r"\d+", answer)
    try:
        layer, head = answer
        pair = (
            _whole(layer if not isinstance(layer, str) else int(layer), ""),
            _whole(head if not isinstance(head, str) else int(head), ""),
        )
    except (TypeError, ValueError, KeyError, Hint):
        raise Hint(f'A head is expected, as (layer, head) or "L1H0"; the answer is {_kind(answer)}.') from None
    if not (0 <= pair[0] < n_layers and 0 <= pair[1] < n_heads):
        raise Hint(
            f"There is no {name_of(*pair)}: layers are 0 to {n_layers - 1} and heads 0 to {n_heads - 1}, "
            "both counted from 0."
        )
    return pair


def _stopped(error):
    """The sentence for a learner's function that raised an exception."""
    return f"Your function stopped with {type(error).__name__}: {str(error)[:150].rstrip('.')}."


def _close(a, b):
    """Whether two numbers or arrays agree to about three digits."""
    return bool(np.allclose(a, b, rtol=TOLERANCE, atol=1e-9))


def _look_for(answer, mistakes):
    """Raise the Hint of the first mistake, [(what it gives, hint)], that gives just this answer."""
    for value, hint in mistakes:
        if np.shape(value) == np.shape(answer) and _close(answer, value):
            raise Hint(hint)


# Lesson 1: attention patterns and the batch -----------------------------------------


def _softmax(scores, axis=-1):
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


@exercise("1.1")
def attention_pattern(answer, scores):
    """scores [T, T], query by key: the answer is the causal attention pattern [T, T]."""
    scores = np.asarray(scores, dtype=float)
    allowed = np.tril(np.ones(scores.shape, dtype=bool))
    truth = _softmax(np.where(allowed, scores, -np.inf))
    answer = _array(answer, scores.shape, "one row a query and one column a key")
    if np.isnan(answer).any():
        raise Hint("Some entries are not a number. Is a whole row masked? A query may always attend to itself.")
    if _close(answer, truth):
        return "Every row sums to 1, and no query looks ahead."
    plain = _softmax(scores)
    _look_for(
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
    if not _close(answer.sum(axis=1), 1.0):
        raise Hint("Each row should sum to 1.")
    raise Hint("Mask and row sums are right, the weights are not: take exp(score), then divide by the row's sum.")


@exercise("1.2")
def sequence_maker(answer):
    """The answer is a function (rng, length, low, high) -> tokens, one sequence of the induction batch."""
    if not callable(answer):
        raise Hint(f"A function is expected; the answer is {_kind(answer)}.")
    length, low, high = 64, 10, 50  # few tokens: a sequence that keeps a second A or B shows itself
    first, made = set(), []
    for seed in range(60):
        try:
            tokens = answer(np.random.default_rng(seed), length, low, high)
        except Exception as error:  # noqa: BLE001 - the learner's code may do anything
            raise Hint(_stopped(error)) from None
        if tokens is None or tokens is ...:
            raise Hint("The function returns nothing yet. End it with `return tokens`.")
        tokens = _array(tokens, (length,), "one token a position")
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
    answer = _whole(answer, "how many sequences")
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
    _look_for(answer, [(int(value), hint) for value, hint in mistakes])
    raise Hint("Compare every token but the last with A, `batch.tokens[:, -1:]`, and count the matches of each row.")


@exercise("1.4")
def induction_positions(answer, batch):
    """The answer is where an induction head looks from the last position: [sequence]."""
    first_a = batch.first_a.numpy()
    seq_len = batch.tokens.shape[1]
    answer = _array(answer, first_a.shape, "one position a sequence")
    if np.array_equal(answer, first_a + 1):
        return "What followed A last time stands one behind it."
    _look_for(
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
    answer = _number(answer, "an attention between 0 and 1")
    truth = float(pattern[0, head, -1, -2])
    if _close(answer, truth):
        return f"Head {head} puts {percent(truth)} of its last query's attention on the previous token."
    _look_for(
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


# Lesson 2: an induction head by hand ------------------------------------------------


def _at(attention, positions):
    """Mean over sequences of the attention at one position each: [layer, sequence, head, key] -> [layer, head]."""
    return attention[:, np.arange(attention.shape[1]), :, positions].mean(axis=0)


def _attention(attention, batch):
    """(attention as float64, index of the first A)."""
    return np.asarray(attention, dtype=float), batch.first_a.numpy()


@exercise("2.1")
def induction_mass(answer, attention, batch):
    """attention [layer, sequence, head, key] of the last query: the answer is the mean to the induction position, [layer, head]."""
    attention, first_a = _attention(attention, batch)
    n_layers, n, n_heads, seq_len = attention.shape
    each = attention[:, np.arange(n), :, first_a + 1]  # [sequence, layer, head]
    truth = each.mean(axis=0)
    meaning = "one row a layer and one column a head"
    shape = _numbers(answer, meaning).shape
    if shape in (each.shape, (n_layers, n, n_heads)):
        raise Hint("These are the single sequences. Take the mean over them: one number a layer and head remains.")
    if shape in ((n_layers, n, n_heads, n), (n_layers, n_heads, n)):
        raise Hint("Each sequence was read at every sequence's position. Pair `np.arange(n)` with the positions.")
    if n_layers != n_heads and shape == (n_heads, n_layers):
        raise Hint("Layers and heads are exchanged: one row a layer is expected.")
    answer = _array(answer, truth.shape, meaning)
    if _close(answer, truth):
        return "This is the column `attention_induction` of the head tables, for these sequences."
    _look_for(
        answer,
        [
            (_at(attention, first_a), "This is the attention to A itself, at `first_a`. B stands one behind it."),
            (_at(attention, np.minimum(first_a + 2, seq_len - 1)), "One too far: the attention to the token after B."),
            (truth * n, "These are sums over the sequences. Divide by their number."),
            (truth.T, "Layers and heads are exchanged: one row a layer is expected."),
            (
                attention[..., first_a[0] + 1].mean(axis=1),
                "All sequences were read at the position of the first one. A stands elsewhere in each.",
            ),
            (each.max(axis=0), "These are the largest values. The mean is asked."),
            (np.median(each, axis=0), "These are medians. The mean is asked."),
        ],
    )
    raise Hint(
        "For sequence i take key `first_a[i] + 1`: `attention[:, np.arange(n), :, first_a + 1]` pairs sequences and "
        "positions, and puts the sequences first."
    )


@exercise("2.2")
def induction_head(answer, attention, batch):
    """The answer is the head (layer, head) that gives the induction position most."""
    attention, first_a = _attention(attention, batch)
    n_layers, n, n_heads, seq_len = attention.shape
    grid = _at(attention, first_a + 1)
    truth = _top(grid)
    answer = _head(answer, n_layers, n_heads)
    if answer == truth:
        return f"{name_of(*truth)} puts {percent(grid[truth])} of its attention there, averaged over sequences."
    if answer == truth[::-1]:
        raise Hint("The right numbers in the wrong order: the layer comes first.")
    if answer == (truth[0] + 1, truth[1] + 1):
        raise Hint("Count layers and heads from 0, as the array does.")
    for name, positions in (("previous-token", np.full(n, seq_len - 2)), ("duplicate-token", first_a)):
        if answer == _top(_at(attention, positions)):
            raise Hint(
                f"{name_of(*answer)} is the strongest {name} head. Which gives most to the position after the first A?"
            )
    if grid[answer] >= grid[truth] / 2:
        raise Hint(f"{name_of(*answer)} looks there too, with {percent(grid[answer])}. One head gives it more.")
    raise Hint(
        f"{name_of(*answer)} gives the induction position {percent(grid[answer])}. Look for the largest entry of the "
        "grid of exercise 2.1."
    )


def _top(grid):
    """Index of the largest entry of a grid [layer, head], as a pair of ints."""
    return tuple(int(i) for i in np.unravel_index(grid.argmax(), grid.shape))


@exercise("2.3")
def induction_selectivity(answer, attention, batch, head):
    """The answer is the induction selectivity of a head (layer, head) under the paper's baseline."""
    attention, first_a = _attention(attention, batch)
    seq_len = attention.shape[-1]
    mine = attention[head[0], :, head[1]]  # [sequence, key]
    each = mine[np.arange(len(mine)), first_a + 1]
    per_sequence = mine[:, metrics.paper_baseline_positions(seq_len)].mean(axis=1)
    base = per_sequence.mean()
    clean = np.average(mine, axis=1, weights=metrics.clean_baseline_mask(seq_len, first_a)).mean()
    mass, truth = each.mean(), float(metrics.selectivity(each.mean(), base))
    answer = _number(answer, "how many times the baseline")
    if _close(answer, truth):
        return f"{name_of(*head)}: {times(truth)} the baseline of {base:.3g} a position, with {percent(mass)} of the attention."
    _look_for(
        answer,
        [
            (mass, "This is the attention. Divide it by the baseline."),
            (base, "This is the baseline. Divide the attention by it."),
            (base / max(mass, 1e-300), "Upside down: attention over baseline."),
            (
                mass * seq_len,
                "An even spread, 1/T, is another baseline. The paper's is the mean over its 50 positions.",
            ),
            (mass / clean, "This is against the clean baseline. Here the paper's is asked: its 50 positions."),
            (mass / (50 * base), "The baseline is the mean over the 50 positions, not their sum."),
            (
                np.mean(each / np.maximum(per_sequence, 1e-300)),
                "A mean of ratios is not the ratio of means. Average over sequences first, then divide.",
            ),
            (
                metrics.selectivity(mine[:, first_a].mean(), base),
                "Each sequence has its own position of A: pair sequences with positions.",
            ),
            (
                metrics.selectivity(mine[np.arange(len(mine)), first_a].mean(), base),
                "This is for A itself; B is one on.",
            ),
        ],
    )
    raise Hint(
        "Take the head's mean attention to the induction position, and divide it by its mean over all sequences and the "
        "50 positions."
    )


@exercise("2.4")
def moved_question(answer, bridge, moved, head, asked, batch):
    """In which share of sequences does a head's last query look most behind the token that is now asked for?

    moved: [n, T] tokens that end in the token at position asked [n].
    """
    layer, number = head
    name = f"blocks.{layer}.attn.hook_pattern"
    _, cache = bridge.run_with_cache(moved, names_filter=name)
    rows = cache[name][:, number, -1].numpy(force=True)  # [sequence, key]
    n, top = np.arange(len(rows)), rows.argmax(axis=1)
    truth = (top == asked + 1).mean()
    answer = _number(answer, "a share between 0 and 1")
    if _close(answer, truth):
        said = f"In {percent(truth)} of {len(rows)} sequences {name_of(*head)} looks behind the token asked for."
        return said + (
            " Another question, another answer." if truth > 0.5 else " An induction head would in most: this is none."
        )
    first_a = batch.first_a.numpy()
    _look_for(
        answer,
        [
            (0.0, "Never? `attention` holds the old question: run the bridge again, on `moved`."),
            (truth * len(rows), "That is their number. Divide by the number of sequences."),
            (100 * truth, "A share is between 0 and 1: do not multiply by 100."),
            (
                rows[n, asked + 1].mean(),
                "That is the mean attention. In how many sequences is it the *largest* of its row?",
            ),
            ((top == asked).mean(), "That is at the token asked for. What followed it stands one behind."),
            ((top == first_a + 1).mean(), "That is how often it still looks behind A. Which position is right now?"),
            (1 - truth, "That is the share in which it looks elsewhere."),
        ],
    )
    raise Hint(
        "Run the bridge on `moved` with a cache, take this layer's `hook_pattern` at `[:, head, -1]`, and compare its "
        "`argmax(axis=1)` with `asked + 1`."
    )


# Lesson 3: the participation ratio --------------------------------------------------


def _spectrum(matrix):
    s = np.linalg.svd(matrix, compute_uv=False)
    return s, s**2 / (s**2).sum()


def _entropy(p, log=np.log):
    p = p[p > 0]
    return -(p * log(p)).sum()


PR_MISTAKES = {
    "You have used the singular values themselves. Square them first.": lambda m: np.exp(
        _entropy(_spectrum(m)[0] / _spectrum(m)[0].sum())
    ),
    "This is (sum of s²)² / sum of s⁴, the other thing called participation ratio. Here it is exp of an entropy.": (
        lambda m: 1 / (_spectrum(m)[1] ** 2).sum()
    ),
    "You have subtracted the mean row. This is the centred PR; the plain one is asked.": lambda m: (
        metrics.participation_ratio(m, centred=True)
    ),
    "This is the entropy. Take exp of it.": lambda m: _entropy(_spectrum(m)[1]),
    "The entropy is in bits and exp is natural: use the natural logarithm, or 2 to the power.": lambda m: np.exp(
        _entropy(_spectrum(m)[1], np.log2)
    ),
    "The sign of the entropy: -(p * ln p).sum() is positive.": lambda m: np.exp(-_entropy(_spectrum(m)[1])),
    "This is the rank: how many singular values there are, however small. Weigh them by the entropy.": lambda m: float(
        np.linalg.matrix_rank(m)
    ),
    "This is the entropy of the columns' sizes. It changes if the space is turned; singular values do not.": (
        lambda m: np.exp(_entropy((m**2).sum(axis=0) / (m**2).sum()))
    ),
}


@exercise("3.1")
def participation_ratio(answer):
    """The answer is a function: matrix [n, d] -> its participation ratio."""
    if not callable(answer):
        raise Hint(f"A function is expected; the answer is {_kind(answer)}.")
    rng = np.random.default_rng(3)
    uneven = (rng.standard_normal((60, 6)) * [5, 3, 2, 1, 0.5, 0.1] + [4, 0, 0, 1, 0, 2]) @ np.linalg.qr(
        rng.standard_normal((6, 6))
    )[0]
    cases = [
        ("a cloud of 60 rows and 6 columns", uneven),
        ("the same cloud, ten times as large", 10 * uneven),
        ("three rows of the unit matrix", np.eye(4)[:3]),
        ("a matrix whose rows are all alike", np.tile([3.0, 0.0, 4.0], (5, 1))),
    ]
    for name, matrix in cases:
        try:
            value = answer(matrix.copy())
        except Exception as error:  # noqa: BLE001 - the learner's code may do anything
            raise Hint(_stopped(error)) from None
        if value is None or value is ...:
            raise Hint("The function returns nothing yet. End it with a `return`.")
        try:
            value = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise Hint(
                f"The function should return one number; for {name} it returns something {_kind(value)}."
            ) from None
        if np.isnan(value):
            raise Hint(f"For {name} the result is not a number: 0 · ln 0 counts as 0. Leave out the p that are 0.")
        truth = metrics.participation_ratio(matrix)
        if not _close(value, truth):
            _look_for(value, [(wrong(matrix), hint) for hint, wrong in PR_MISTAKES.items()])
            raise Hint(f"For {name} the PR is {truth:.4g}; your function gives {value:.4g}. Do the p sum to 1?")
    return "It agrees with `lib.metrics.participation_ratio` on four matrices."


@exercise("3.2")
def broken_cloud(answer, cloud):
    """The answer is the cloud [n, d] with one vector added to every row, so that its PR is below 1.5."""
    cloud = np.asarray(cloud, dtype=float)
    answer = _array(answer, cloud.shape, "the cloud with something added")
    if not np.isfinite(answer).all():
        raise Hint("There is an infinity or something that is no number in it.")
    added = answer - cloud
    if not np.abs(added).max() > 1e-12:
        raise Hint("This is the cloud itself. Add the same vector to every row.")
    if np.abs(added - added[0]).max() > 1e-6 * max(1.0, np.abs(added).max()):
        raise Hint(
            "The rows were changed in different ways. Add one and the same vector to every row: `cloud + vector`."
        )
    pr, centred = metrics.participation_ratio(answer), metrics.participation_ratio(answer, centred=True)
    if pr >= 1.5:
        raise Hint(f"The PR is now {pr:.3g}; it should come below 1.5. What if the vector were longer?")
    return (
        f"The PR fell from {metrics.participation_ratio(cloud):.3g} to {pr:.3g}. The cloud only moved: its centred PR is "
        f"{centred:.3g}, as before."
    )


@exercise("3.3")
def fooled_head(answer, z):
    """z [layer, head, sequence, d_head]: the answer is the head with the largest centred PR minus PR."""
    z = np.asarray(z, dtype=float)
    n_layers, n_heads = z.shape[:2]
    of = lambda centred: np.array([[metrics.participation_ratio(m, centred) for m in layer] for layer in z])  # noqa: E731
    plain, centred = of(False), of(True)
    gap = centred - plain
    truth, answer = _top(gap), _head(answer, n_layers, n_heads)
    if answer == truth:
        return f"{name_of(*truth)}: PR {plain[truth]:.3g}, centred {centred[truth]:.3g}, of {z.shape[-1]} directions."
    here = f"{name_of(*answer)} has PR {plain[answer]:.3g}, centred {centred[answer]:.3g}"
    for wrong, hint in (
        (_top(-gap), "there centring changes least, or lowers it"),
        (_top(centred / plain), "the largest *ratio* of the two; the largest difference is asked"),
        (_top(plain), "the highest PR, but not the largest difference"),
        (_top(centred), "the highest centred PR, but not the largest difference"),
        (_top(-plain), "the lowest PR, but not the largest difference"),
        (truth[::-1], "the layer comes first: try the numbers the other way round"),
    ):
        if answer == wrong:
            raise Hint(f"{here}: {hint}.")
    raise Hint(f"{here}. Another head has a larger difference: compute both for every head.")


@exercise("3.4")
def most_directions(answer, n, d):
    """The answer is the largest PR that n rows of d numbers can have."""
    answer, truth = _number(answer, "a PR"), min(n, d)
    if _close(answer, truth):
        return f"{n} rows have at most {truth} singular values that are not 0."
    _look_for(
        answer,
        [
            (d, f"There is room for {d}, but how many directions can {n} rows span?"),
            (n, f"{n} rows, but each has {d} numbers: no more than that many directions are there."),
            (min(n - 1, d), "That would be so after subtracting the mean row, which takes one direction away."),
            (np.log(truth), "This is the largest entropy. Take exp of it."),
            (n * d, "That is the number of entries. How many singular values are there?"),
        ],
    )
    raise Hint("How many singular values does such a matrix have? PR is largest when they are all the same.")


@exercise("3.5")
def untrained(answer, first, last):
    """Head tables before and after training: the answer is how many heads have a PR above half the Gaussian ceiling before."""
    count = lambda table, column, limit: int((table[column] > limit).sum())  # noqa: E731
    half = first["pr_ceiling"].iloc[0] / 2
    truth, answer = count(first, "pr", half), _whole(answer, "how many heads")
    if answer == truth:
        return (
            f"{truth} of {len(first)} heads of a model that has learnt nothing, and {count(last, 'pr', half)} after "
            "training. A high PR alone is no sign of a circuit."
        )
    _look_for(
        answer,
        [
            (count(last, "pr", half), "That is after training. Before it is asked: the first table."),
            (count(first, "pr_centred", half), "These are the centred PR. The plain ones are asked."),
            (count(first, "pr", 2 * half), "That is above the ceiling itself. Half of it is asked."),
            (count(first, "pr", -1), "That is the number of heads. How many pass half the ceiling?"),
            (len(first) - truth, "These are the heads that do *not* pass it."),
        ],
    )
    raise Hint("Compare the column `pr` of the first table with half of its column `pr_ceiling`.")


# Lesson 4: a circuit over training ----------------------------------------------------


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
            f'The name of a revision is expected, such as "{names[-1]}", or "never"; the answer is {_kind(answer)}.'
        )
    answer = answer.strip()
    if answer not in (*names, "never"):
        raise Hint(f'There is no revision "{answer[:40]}". They are {", ".join(names)}; or "never".')
    return answer


@exercise("4.1")
def crossing(answer, frame, thresholds):
    """frame: lib.heads.trajectory.  The answer is the first revision at which the finally strongest induction head passes."""
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
    answer = _array(answer, truth.shape, "one count a revision, in order of training")
    if np.array_equal(answer, truth):
        shrinks = bool((np.diff(truth) < 0).any())
        return f"From {truth[0]} to {truth[-1]}, at most {truth.max()}." + (
            " A count by threshold can fall again." if shrinks else ""
        )
    _look_for(
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
        answer = _array(answer, (n,), "one share a revision, in order of training")
        if np.nan_to_num(answer).any():
            raise Hint("The final circuit is empty: no head can be one of its heads.")
        return "The final circuit is empty, and a share of nothing has no value. Take another model of the panel."
    truth = (past & final).sum(axis=1) / final.sum()
    answer = _array(answer, truth.shape, "one share a revision, in order of training")
    if _close(answer, truth):
        return (
            f"{percent(truth[-2])} of the final {plural(int(final.sum()), 'head')} stand at the last revision but one."
        )
    sizes = past.sum(axis=1)
    _look_for(
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


# Lesson 5: is a ratio evidence? --------------------------------------------------------


@exercise("5.1")
def perfect_reading(answer, batch):
    """The answer is what a perfect induction head reads under the paper's baseline."""
    seq_len, first_a = batch.tokens.shape[1], batch.first_a.numpy()
    truth = float(metrics.paper_baseline_ceiling(seq_len, first_a))
    if isinstance(answer, (float, np.floating)) and np.isinf(answer):
        if np.isinf(truth):
            return "In this batch no baseline position ever is the answer, so there is no ceiling."
        raise Hint("The baseline of a perfect head is not 0: in some sequences the answer is among the 50 positions.")
    answer = _number(answer, "how many times the baseline")
    if _close(answer, truth):
        return f"{times(truth)}: nobody can read more, however good the head. A threshold of 100x would hardly ever be passed."
    hits = np.isin(first_a + 1, metrics.paper_baseline_positions(seq_len))
    _look_for(
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
                50 / max(np.isin(first_a, metrics.paper_baseline_positions(seq_len)).mean(), 1e-300),
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
    answer = _head(answer, int(table["layer"].max()) + 1, int(table["head"].max()) + 1)
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
    """whole, without: lib.ablation.capability.  The answer is by how much the loss rises."""
    answer = _number(answer, "a difference of two losses in nats")
    truth = without["loss"] - whole["loss"]
    if abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6):
        return f"{truth:+.3g} nats: the loss goes from {whole['loss']:.3g} to {without['loss']:.3g}."
    _look_for(
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
    answer = _number(answer, "a difference of losses in nats")
    costs = losses - whole["loss"]
    truth = costs.mean()
    if abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6):
        return f"{truth:+.3g} nats on average, from {costs.min():+.3g} to {costs.max():+.3g}, over {len(costs)} random sets."
    _look_for(
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
    from lib.ablation import capabilities  # only here, so that lessons on head tables need no torch

    answer = _number(answer, "a difference of two losses in nats")
    whole, without = capabilities(model, batch, [[], [head]])
    truth = without["loss"] - whole["loss"]
    if abs(answer - truth) <= max(TOLERANCE * abs(truth), 1e-6):
        done = f"The loss goes from {whole['loss']:.3g} to {without['loss']:.3g}, top-1 from {percent(whole['top1'])} to {percent(without['top1'])}."
        return done + (" The model does the task *better* without this head." if truth < 0 else "")
    _look_for(
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
        raise Hint(f'A set of letters is expected, such as {{"a", "e"}}; the answer is {_kind(answer)}.') from None
    unknown = sorted(given - set(STATEMENTS))
    if unknown:
        raise Hint(f"There is no statement {unknown[0][:20]!r}: the letters are {', '.join(STATEMENTS)}.")
    for letter, (shown, hint) in STATEMENTS.items():
        if (letter in given) != shown:
            raise Hint(f"Think again of {hint}")
    return "A ratio tells where to look. Mass says how much is there, an intervention with controls what it is worth."
