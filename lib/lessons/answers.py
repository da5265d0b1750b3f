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

from lib.formatting import name_of

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


def kind_of(answer):
    """What an answer is, in words: for sentences about a wrong type."""
    return "nothing (None)" if answer is None else f"of type {type(answer).__name__}"


def as_numbers(answer, meaning):
    """The answer as a float64 array of any shape; raises a Hint."""
    if hasattr(answer, "detach"):
        answer = answer.detach()
    try:
        return np.asarray(answer, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Hint(f"An array of numbers is expected, {meaning}; the answer is {kind_of(answer)}.") from None


def as_array(answer, shape, meaning):
    """The answer as a float64 array of that shape; raises a Hint."""
    found = as_numbers(answer, meaning)
    if found.shape != shape:
        wanted = " x ".join(map(str, shape))
        got = " x ".join(map(str, found.shape)) or "a single number"
        raise Hint(f"The shape should be {wanted}, {meaning}; the answer's is {got}.")
    return found


def as_number(answer, meaning):
    """The answer as a float; raises a Hint."""
    if isinstance(answer, (bool, np.bool_, str, bytes)):
        raise Hint(f"A number is expected, {meaning}; the answer is {kind_of(answer)}.")
    try:
        found = float(answer)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Hint(f"A number is expected, {meaning}; the answer is {kind_of(answer)}.") from None
    if not np.isfinite(found):
        raise Hint(f"A finite number is expected, {meaning}; the answer is {found}.")
    return found


def as_whole(answer, meaning):
    """The answer as an int; raises a Hint."""
    found = as_number(answer, meaning)
    if found != int(found):
        raise Hint(f"A whole number is expected, {meaning}; the answer is {found:g}.")
    return int(found)


def as_head(answer, n_layers, n_heads):
    """The answer as (layer, head), given as a pair or as "L1H3"; raises a Hint."""
    if isinstance(answer, str) and re.fullmatch(r"\s*L\d{1,6}H\d{1,6}\s*", answer):
        answer = re.findall(r"\d+", answer)
    try:
        layer, head = answer
        pair = (
            as_whole(layer if not isinstance(layer, str) else int(layer), ""),
            as_whole(head if not isinstance(head, str) else int(head), ""),
        )
    except (TypeError, ValueError, KeyError, Hint):
        raise Hint(f'A head is expected, as (layer, head) or "L1H0"; the answer is {kind_of(answer)}.') from None
    if not (0 <= pair[0] < n_layers and 0 <= pair[1] < n_heads):
        raise Hint(
            f"There is no {name_of(*pair)}: layers are 0 to {n_layers - 1} and heads 0 to {n_heads - 1}, "
            "both counted from 0."
        )
    return pair


def stopped(error):
    """The sentence for a learner's function that raised an exception."""
    return f"Your function stopped with {type(error).__name__}: {str(error)[:150].rstrip('.')}."


def close(a, b):
    """Whether two numbers or arrays agree to about three digits."""
    return bool(np.allclose(a, b, rtol=TOLERANCE, atol=1e-9))


def look_for(answer, mistakes):
    """Raise the Hint of the first mistake, [(what it gives, hint)], that gives just this answer."""
    for value, hint in mistakes:
        if np.shape(value) == np.shape(answer) and close(answer, value):
            raise Hint(hint)


def top_head(grid):
    """Index of the largest entry of a grid [layer, head], as a pair of ints."""
    return tuple(int(i) for i in np.unravel_index(grid.argmax(), grid.shape))
