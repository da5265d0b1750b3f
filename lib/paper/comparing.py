"""What the checks of the ledger share: frames of the published tables, comparing a number with a printed one, saying it.

A check is a function of the published tables and of what the claim's entry gives it; it returns a verdict and the facts
that the entry's sentences are filled with.
"""

from decimal import Decimal
from functools import lru_cache

from lib import formatting as w
from lib.paper import published as p

AGREES, DISAGREES, UNCHECKED = "agrees", "disagrees", "cannot be checked"
PYTHIA, OLMO, OLMOE = p.MODELS
SHORT = dict(zip(p.MODELS, ("Pythia", "OLMo", "OLMoE")))
APPROXIMATE = 0.10  # how far a number may be from one that the paper calls approximate

CHECKS = {}


def check(function):
    """Register a function as a check that entries of claims.yml may name."""
    CHECKS[function.__name__] = function
    return function


# Many claims start from the same frames: each is computed once a Published, and not to be changed in place.
curves, gaps, leads, milestones, null_leads, bos_by_layer, final_circuit, recall = (
    lru_cache(maxsize=8)(f)
    for f in (p.curves, p.gaps, p.leads, p.milestones, p.null_leads, p.bos_by_layer, p.final_circuit, p.recall)
)


@check
def uncheckable(published):
    """For a statement that the tables say nothing about."""
    return UNCHECKED, {}


def matches(value, printed):
    """Whether a recomputed number agrees with a printed one: "57.8" to half of its last digit, "~6" to 10 %."""
    if printed.startswith("~"):
        return abs(value - float(printed[1:])) <= APPROXIMATE * abs(float(printed[1:]))
    number = Decimal(printed)
    half = 0.5 * 10.0 ** number.as_tuple().exponent
    return abs(value - float(number)) <= half * (1 + 1e-9)


def verdict(agrees):
    """True -> "agrees", False -> "disagrees"."""
    return AGREES if agrees else DISAGREES


def billions(tokens):
    """6291456000 -> "6.29B"; 1350000000000 -> "1350B", as the paper counts."""
    if tokens < 1e8:
        return w.tokens_text(tokens).removesuffix(" tokens")
    return f"{tokens / 1e9:.3g}B" if tokens < 1e12 else f"{tokens / 1e9:.0f}B"


def each(values):
    """{model: text} -> "Pythia ...; OLMo ...; OLMoE ..."."""
    return "; ".join(f"{SHORT[model]} {text}" for model, text in values.items())


def points(fraction):
    """0.629 -> "62.9 points"."""
    return f"{100 * fraction:.1f} points"


@lru_cache(maxsize=8)
def curve_of(published, model):
    """The model's rows of lib.paper.published.curves, indexed by step."""
    rows = curves(published)
    return rows[rows["model"] == model].set_index("step")


def counts_of(published, model):
    """BOS heads of a model: rows revisions in order, columns layers."""
    rows = bos_by_layer(published)
    rows = rows[rows["model"] == model]
    return rows.pivot(index="step", columns="layer", values="bos_heads").set_axis(list(p.REVISIONS[model]))


def nearest_step(curve, tokens):
    """The step of a curve whose tokens are nearest to a number the paper gives, by ratio."""
    ratio = curve["tokens"] / tokens
    return ratio.where(ratio >= 1, 1 / ratio).idxmin()


def listed(published, model, name):
    """(selectivity rows, PR rows) of a listed head, indexed by step."""
    pick = lambda frame: frame[(frame["model"] == model) & (frame["name"] == name)].set_index("step")
    return pick(published.selectivity), pick(published.pr)


def last_rows(frame):
    """The rows of a table by head at the last revisions."""
    return frame[frame["step"] == frame["step"].max()]
