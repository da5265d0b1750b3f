"""When a recomputed number agrees with a printed one, and what many checks of claims look up."""

from decimal import Decimal

from lib.formatting import tokens_text

APPROXIMATE = 0.10  # how far a number may be from one that the paper calls approximate


def matches(value, printed):
    """Whether a recomputed number agrees with a printed one: "57.8" to half of its last digit, "~6" to 10 %."""
    if printed.startswith("~"):
        return abs(value - float(printed[1:])) <= APPROXIMATE * abs(float(printed[1:]))
    number = Decimal(printed)
    half = 0.5 * 10.0 ** number.as_tuple().exponent
    return abs(value - float(number)) <= half * (1 + 1e-9)


def billions(tokens):
    """6291456000 -> "6.29B"; 1350000000000 -> "1350B", as the paper counts."""
    if tokens < 1e8:
        return tokens_text(tokens).removesuffix(" tokens")
    return f"{tokens / 1e9:.3g}B" if tokens < 1e12 else f"{tokens / 1e9:.0f}B"


def nearest_step(curve, tokens):
    """The step of a curve whose tokens, in billions, are nearest to a number the paper gives, by ratio."""
    ratio = curve["tokens"] / (tokens * 1e9)
    return ratio.where(ratio >= 1, 1 / ratio).idxmin()


def first_step(mask):
    """The first step at which a mask over the steps of a curve is true; None: never."""
    return int(mask.index[mask][0]) if mask.any() else None


def when(curve, step):
    """A step (None: never) as its tokens in words."""
    return "never" if step is None else f"at {billions(curve.loc[step, 'tokens'])}"


def met_as_printed(curve, step, printed):
    """Whether a step's tokens agree with a printed milestone, in billions (None on either side: never met)."""
    if step is None or printed is None:
        return step is None and printed is None
    return matches(curve.loc[step, "tokens"] / 1e9, printed)
