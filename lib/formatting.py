"""Numbers in words, and the marks of verdicts, one way everywhere."""

import string
from itertools import repeat

VERDICT_MARKS = {"holds": "✓", "fails": "✗", "undetermined": "?"}


def tokens_text(tokens):
    """1234567 -> "1.2M tokens"."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit} tokens"
    return f"{tokens:.0f} tokens"


def times(value):
    """41.83 -> "41.8x"; large values without false precision."""
    return f"{value:.3g}x" if value < 1000 else f"{value:.1e}x" if value >= 1e5 else f"{value:.0f}x"


def percent(value):
    """0.578 -> "57.8 %"."""
    return f"{100 * value:.1f} %".replace(".0 %", " %")


def plural(n, noun):
    """(1, "head") -> "1 head"; (0, "head") -> "no heads"."""
    return f"{n or 'no'} {noun}{'' if n == 1 else 's'}"


def join(items):
    """["a", "b", "c"] -> "a, b and c"."""
    items = list(items)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def name_of(layer, head):
    """(1, 3) -> "L1H3"."""
    return f"L{layer}H{head}"


def sure(text, interval, say=str):
    """A number with its bootstrap interval: (3, (2, 4)) -> "3 (2 to 4, unsettled)"; (3, (3, 3)) -> "3".

    interval: (low, high) as numbers, said by `say`, or None if there is none.  A count
    that changes within its interval is unsettled.
    """
    if interval is None:
        return str(text)
    low, high = (int(v) if isinstance(v, float) and v.is_integer() and say is str else v for v in interval)
    return str(text) if low == high else f"{text} ({say(low)} to {say(high)}, unsettled)"


def sure_each(values, intervals, say=str):
    """sure() for a list of numbers; intervals: (all lows, all highs), or None."""
    each = zip(*intervals) if intervals else repeat(None)
    return [sure(say(value), interval, say) for value, interval in zip(values, each)]


def bytes_text(n):
    """13_838_000_000 -> "13.8 GB"."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 100 * size else f"{n / size:,.0f} {unit}"
    return f"{n:.0f} B"


def duration_text(seconds):
    """5400 -> "1 h 30 min"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 10 and minutes else f"{hours:,} h"


class Template(string.Formatter):
    """str.format in which {x:percent}, {x:times}, {x:tokens} and {head:name} write values as above, a head being a pair."""

    ways = {"percent": percent, "times": times, "tokens": tokens_text, "name": lambda head: name_of(*head)}

    def format_field(self, value, format_spec):
        return self.ways[format_spec](value) if format_spec in self.ways else super().format_field(value, format_spec)
