"""Texts of the lessons with fields to fill in, kept in YAML files beside the code."""

import string
from pathlib import Path

import yaml

from lib.formatting import name_of, percent, times

FOLDER = Path(__file__).parent


def read(name):
    """The groups of texts in a file of this folder: {group: {name: text}}."""
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


class Texts(string.Formatter):
    """A group of texts, {name: text}, as templates of str.format.

    {x:percent}, {x:times} and {head:name} write values as lib.formatting says them, head being a pair.  A name in braces
    that is no field is that of another text of the group.
    """

    ways = {"percent": percent, "times": times, "name": lambda head: name_of(*head)}

    def __init__(self, texts):
        self.texts = texts

    def say(self, name, /, **fields):
        """A text with its fields filled in; raises KeyError if one is missing."""
        return self.vformat(self.texts[name], (), fields)

    def get_value(self, key, args, kwargs):
        return kwargs[key] if key in kwargs else self.say(key, **kwargs)

    def format_field(self, value, format_spec):
        return self.ways[format_spec](value) if format_spec in self.ways else super().format_field(value, format_spec)
