"""What the checkers of all lessons share: reading an answer, recognising a mistake, saying what is to be said.

A checker is one function an exercise, in lesson_1 to lesson_5: the learner's answer first, then what it is judged by.
The truth is computed from the same data as the answer, never written down.  Each returns a Checked, also for answers
that make no sense: a learner never sees a traceback from here.  What is said stands in hints.yml, by exercise and name.
"""

import functools
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import yaml

from lib.formatting import Template

CHECK_MIME = "application/vnd.attention-circuits.check+json"
TOLERANCE = 5e-3  # relative: an answer may be rounded to three digits
FOLDER = Path(__file__).parent


def read(name):
    """The groups of texts in a file of this folder: {group: {name: text}}."""
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


class Texts(Template):
    """A group of texts, {name: text}; a name in braces that is no field is that of another text of the group."""

    def __init__(self, texts):
        self.texts = texts

    def say(self, name, /, **fields):
        """A text with its fields filled in; raises KeyError if one is missing."""
        return self.vformat(self.texts[name], (), fields)

    def get_value(self, key, args, kwargs):
        return kwargs[key] if key in kwargs else self.say(key, **kwargs)


HINTS = read("hints.yml")  # {exercise, or "any": {name: text}}


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
    """Raised within a checker when an answer is not right: the name of a text in hints.yml, and its fields."""

    def __init__(self, name, /, **fields):
        super().__init__(name)
        self.name, self.fields = name, fields


def right(name="right", /, **fields):
    """What a checker returns for a right answer: the name of a text in hints.yml, and its fields."""
    return name, fields


def exercise(number):
    """Make a checker of a function that raises a Hint, or returns right(...)."""

    texts = Texts(HINTS["any"] | HINTS[number])

    def decorate(judge):
        @functools.wraps(judge)
        def checked(answer, *given, **named):
            if answer is ...:
                return Checked(number, False, texts.say("unanswered"))
            try:
                name, fields = judge(answer, *given, **named)
            except Hint as hint:
                return Checked(number, False, texts.say(hint.name, **hint.fields))
            return Checked(number, True, texts.say(name, **fields))

        return checked

    return decorate


# Reading answers: each raises a Hint.  {expected} in these hints is the exercise's own text of that name. -------------


def kind_of(answer):
    """What an answer is, in words: for sentences about a wrong type."""
    return "nothing (None)" if answer is None else f"of type {type(answer).__name__}"


def as_numbers(answer):
    """The answer as a float64 array of any shape."""
    if hasattr(answer, "detach"):
        answer = answer.detach()
    try:
        return np.asarray(answer, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Hint("no array", kind=kind_of(answer)) from None


def as_array(answer, shape):
    """The answer as a float64 array of that shape."""
    found = as_numbers(answer)
    if found.shape != shape:
        wanted, got = (" x ".join(map(str, sizes)) for sizes in (shape, found.shape))
        raise Hint("shape", wanted=wanted, got=got or "a single number")
    return found


def as_number(answer):
    """The answer as a float."""
    if isinstance(answer, (bool, np.bool_, str, bytes)):
        raise Hint("no number", kind=kind_of(answer))
    try:
        found = float(answer)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Hint("no number", kind=kind_of(answer)) from None
    if not np.isfinite(found):
        raise Hint("not finite", value=found)
    return found


def as_whole(answer):
    """The answer as an int."""
    found = as_number(answer)
    if found != int(found):
        raise Hint("not whole", value=found)
    return int(found)


def as_head(answer, n_layers, n_heads):
    """The answer as (layer, head), given as a pair or as "L1H3"."""
    if isinstance(answer, str) and re.fullmatch(r"\s*L\d{1,6}H\d{1,6}\s*", answer):
        answer = re.findall(r"\d+", answer)
    try:
        layer, head = (as_whole(int(part) if isinstance(part, str) else part) for part in answer)
    except (TypeError, ValueError, KeyError, Hint):
        raise Hint("no head", kind=kind_of(answer)) from None
    if not (0 <= layer < n_layers and 0 <= head < n_heads):
        raise Hint("no such head", head=(layer, head), last_layer=n_layers - 1, last_head=n_heads - 1)
    return layer, head


def as_function(answer):
    """The answer as a function that raises a Hint where the learner's stops or returns nothing."""
    if not callable(answer):
        raise Hint("no function", kind=kind_of(answer))

    def called(*given):
        try:
            value = answer(*given)
        except Exception as error:  # noqa: BLE001 - the learner's code may do anything
            raise Hint("stopped", error=type(error).__name__, message=str(error)[:150].rstrip(".")) from None
        if value is None or value is ...:
            raise Hint("returns nothing")
        return value

    return called


# Judging answers ----------------------------------------------------------------------------------------------------


def close(a, b):
    """Whether two numbers or arrays agree to about three digits."""
    return bool(np.allclose(a, b, rtol=TOLERANCE, atol=1e-9))


def look_for(answer, mistakes, **fields):
    """Raise the Hint of the first mistake, {its name: what it gives}, that gives just this answer.

    Heads, as pairs of ints, must be the same, all else about the same.
    """
    same = np.array_equal if isinstance(answer, tuple) else close
    for name, value in mistakes.items():
        if np.shape(value) == np.shape(answer) and same(answer, value):
            raise Hint(name, **fields)


def judged(answer, truth, mistakes, same=close, said="right", otherwise="otherwise", **fields):
    """What a checker returns if the answer is the truth; else the Hint of its mistake is raised.

    mistakes: as in look_for.  said, otherwise: names of the texts for the truth and for what is none of the mistakes.
    """
    if same(answer, truth):
        return right(said, **fields)
    look_for(answer, mistakes, **fields)
    raise Hint(otherwise, **fields)


def top_head(grid):
    """Index of the largest entry of a grid [layer, head], as a pair of ints."""
    return tuple(int(i) for i in np.unravel_index(grid.argmax(), grid.shape))
