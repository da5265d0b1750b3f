"""Numbers in words, one way everywhere."""


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
