"""What figures say: the alt texts and captions of words.yml, filled in with the numbers that are drawn."""

import string
from functools import cache
from pathlib import Path

import yaml

from lib.formatting import percent, times, tokens_text

FILE = Path(__file__).with_name("words.yml")


class Formatter(string.Formatter):
    """str.format in which {x:percent}, {x:times} and {x:tokens} write a number as lib.formatting does."""

    ways = {"percent": percent, "times": times, "tokens": tokens_text}

    def format_field(self, value, format_spec):
        return self.ways[format_spec](value) if format_spec in self.ways else super().format_field(value, format_spec)


@cache
def texts():
    """All texts: {kind of figure: {name: text}}."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def say(kind, part, /, **fields):
    """One text of a kind of figure with its fields filled in; raises KeyError for a missing text or field."""
    return Formatter().vformat(texts()[kind][part], (), fields)


def words(kind, each=(), /, **fields):
    """(alt text, caption) of a kind of figure; each: the fields of what the alt text says of every model."""
    known = texts()[kind]
    every = known.get("between", "; ").join(say(kind, "each", **about) for about in each) or known.get("none")
    return tuple(say(kind, part, each=every, **fields) for part in ("alt", "caption"))
