"""Checks of what the paper states about induction: that it comes first (F3) and that its circuit is found early (F4)."""

import pandas as pd

from lib import formatting as w
from lib.findings import RECALL, SINK_FRACTION
from lib.paper import published as p
from lib.paper.comparing import (
    AGREES,
    APPROXIMATE,
    DISAGREES,
    OLMO,
    OLMOE,
    SHORT,
    UNCHECKED,
    billions,
    check,
    curve_of,
    each,
    final_circuit,
    gaps,
    listed,
    matches,
    milestones,
    nearest_step,
    recall,
    verdict,
)

# Beyond the three tables: read from the author's all-head result files of three revisions (same repository,
# cross_architecture/results/per_revision_mechinterp), induction selectivity of heads past 50x outside the final circuit.
UNLISTED_AT_50X = {
    ("pythia-1b", "step3000"): {"L4H5": 54.7, "L5H7": 164.4, "L6H7": 66.8},
    ("olmo-1b-0724", "step11000-tokens23B"): {"L2H7": 54.8},
    ("olmoe-1b-7b-0924", "step5000-tokens20B"): {"L6H1": 155.8, "L7H15": 164.9, "L10H2": 59.0},
}


def induction_at_50x(published, model, n):
    """When the model first has n heads past 50x: (step from which it is possible, step at which it is known).

    Possible by the upper bound of lib.paper.published.curves, known by the listed heads and UNLISTED_AT_50X; None: never.
    """
    curve = curve_of(published, model)
    extra = curve["revision"].map(lambda r: len(UNLISTED_AT_50X.get((model, r), {})))
    first = lambda mask: int(curve.index[mask][0]) if mask.any() else None
    return first(curve["induction_heads_at_50x_most"] >= n), first(curve["induction_heads_at_50x"] + extra >= n)


def when(curve, step):
    """ "at 6.29B", or "never" for no step."""
    return "never" if step is None or pd.isna(step) else f"at {billions(curve.loc[int(step), 'tokens'])}"


def met(curve, step, printed):
    """Whether a step's tokens agree with a printed milestone (None: a dash)."""
    if step is None or pd.isna(step) or printed is None:
        return (step is None or pd.isna(step)) and printed is None
    return matches(curve.loc[int(step), "tokens"] / 1e9, printed)


def gap_of(published, model):
    """Tokens of BOS 50 % over tokens of three heads past 50x; None where the latter is undecided."""
    curve = curve_of(published, model)
    possible, known = induction_at_50x(published, model, 3)
    half = curve.index[curve["bos_fraction"] >= SINK_FRACTION]
    if possible != known or known is None or half.empty:
        return None
    return float(curve.loc[half[0], "tokens"] / curve.loc[known, "tokens"])


def gaps_at_30x(published):
    """The gap of every model counted at 30x over all heads."""
    return gaps(published).query("criterion == '30x'").set_index("model")["gap"]


# F3 ---------------------------------------------------------------------------------


@check
def induction_is_first(published):
    rows = gaps(published).query("criterion == '30x'")
    ok = bool((rows["induction_tokens"] < rows["bos_tokens"]).fillna(False).all())
    found = {r.model: f"{billions(r.induction_tokens)} against {billions(r.bos_tokens)}" for r in rows.itertuples()}
    return verdict(ok), {"found": each(found)}


@check
def induction_milestone(published, n, printed):
    """printed: {model: tokens in billions, None for a dash}."""
    texts, verdicts, thirty = {}, [], {}
    for model in p.MODELS:
        curve = curve_of(published, model)
        possible, known = induction_at_50x(published, model, n)
        at_30 = curve["induction_heads_at_30x"] >= n
        thirty[model] = when(curve, curve.index[at_30][0] if at_30.any() else None)
        if possible == known:
            texts[model] = when(curve, known)
            verdicts.append(verdict(met(curve, known, printed[model])))
        else:
            texts[model] = f"between {when(curve, possible)[3:]} and {when(curve, known).removeprefix('at ')}"
            verdicts.append(UNCHECKED)
    unlisted = "; ".join(
        f"{SHORT[m]} {r}: " + ", ".join(f"{h} {s}x" for h, s in heads.items())
        for (m, r), heads in UNLISTED_AT_50X.items()
    )
    overall = DISAGREES if DISAGREES in verdicts else UNCHECKED if UNCHECKED in verdicts else AGREES
    return overall, {"found": each(texts), "unlisted": unlisted, "thirty": each(thirty)}


@check
def bos_milestone(published, share, printed):
    steps = milestones(published).query(f"key == 'bos_{share}'").set_index("model")["step"]
    curves = {m: curve_of(published, m) for m in p.MODELS}
    ok = all(met(curves[m], steps[m], printed[m]) for m in p.MODELS)
    return verdict(ok), {"found": each({m: when(curves[m], steps[m]) for m in p.MODELS})}


@check
def gap_is(published, model, printed):
    gap, thirty = gap_of(published, model), f"{gaps_at_30x(published)[model]:.3g}x"
    if gap is None:
        return UNCHECKED, {"gap": None, "thirty": thirty}
    return verdict(matches(gap, printed)), {"gap": f"{gap:.3g}x", "thirty": thirty}


@check
def gaps_lie_between(published, low, high):
    found = {m: gap_of(published, m) for m in (OLMO, OLMOE)}
    if None in found.values():
        return UNCHECKED, {"found": None}
    ok = min(found.values()) >= low * (1 - APPROXIMATE) and max(found.values()) <= high * (1 + APPROXIMATE)
    found = each({m: f"{g:.3g}x" for m, g in found.items()})
    return verdict(ok), {"found": found, "olmo": f"{gaps_at_30x(published)[OLMO]:.3g}x"}


@check
def appear_together(published, model, printed):
    curve = curve_of(published, model)
    possible, known = induction_at_50x(published, model, 3)
    bos = curve.index[curve["bos_fraction"] >= 0.10]
    facts = {"decided": possible == known, "induction": when(curve, known)}
    facts["bos"] = when(curve, bos[0] if len(bos) else None)
    if not facts["decided"]:
        return UNCHECKED, facts
    return verdict(len(bos) > 0 and known == bos[0] and met(curve, known, printed)), facts


@check
def largest_gap_is(published, model):
    at_30, at_50 = gaps_at_30x(published), {m: gap_of(published, m) for m in p.MODELS}
    known = {m: g for m, g in at_50.items() if g is not None}
    largest = {at_30.idxmax(), max(known, key=known.get) if len(known) == len(at_50) else model}
    return verdict(largest == {model}), {
        "at_50": each({m: "undecided" if g is None else f"{g:.3g}x" for m, g in at_50.items()}),
        "at_30": each({m: f"{g:.3g}x" for m, g in at_30.items()}),
    }


@check
def circuits_stay(published, billion):
    sizes, grown = {}, {}
    for model in p.MODELS:
        curve = curve_of(published, model)
        n = curve["induction_heads_at_30x"]
        early, later = int(n[curve["tokens"] <= billion * 1e9].max()), n[curve["tokens"] > billion * 1e9]
        low, high = int(later.min()), int(later.max())
        then = str(low) if low == high else f"{low} to {high}"
        sizes[model] = f"{early} by {billion}B, then {then}, {int(n.iloc[-1])} at the end"
        if high > early:
            grown[model] = f"from {early} to {high}"
    return verdict(not grown), {"sizes": each(sizes), "grown": each(grown)}


# F4 ---------------------------------------------------------------------------------


def first_recall(published, model, share, threshold):
    """The row of lib.paper.published.recall at which a share of the final circuit is first past a threshold, or None."""
    rows = recall(published, threshold).query("model == @model")
    rows = rows[rows["recall"] >= share - 1e-9]
    return None if rows.empty else rows.iloc[0]


def training_at(published, threshold):
    """{model: share of training after which two thirds of the final circuit are past a threshold, None if never}."""
    rows = {m: first_recall(published, m, RECALL, threshold) for m in p.MODELS}
    return {m: None if row is None else row.training for m, row in rows.items()}


def shares_text(shares):
    """{model: share of training} -> "Pythia 2.1 %; OLMo never"."""
    return each({m: "never" if s is None else f"{100 * s:.2g} %" for m, s in shares.items()})


@check
def recall_is_reached(published, model, share, printed):
    """share: "third", "two thirds" or "all" of the final circuit.  printed: tokens in billions."""
    share = {"third": 1 / 3, "two thirds": RECALL, "all": 1.0}[share]
    at_50, at_30 = (first_recall(published, model, share, t) for t in (p.CIRCUIT, p.CLASSIFY))
    if at_50 is None:
        return DISAGREES, {"found": "never"}
    curve = curve_of(published, model)
    step = nearest_step(curve, float(printed.lstrip("~")) * 1e9)
    names = final_circuit(published).query("model == @model")["name"]
    reads = [f"{name} {w.times(listed(published, model, name)[0].loc[step, 'induction'])}" for name in names]
    facts = {
        "found": f"{at_50.shared} of {at_50.final} first at {billions(at_50.tokens)}",
        "agrees": matches(at_50.tokens / 1e9, printed),
        "revision": at_50.revision, "final": at_50.final, "reads": ", ".join(reads),
        "printed_revision": curve.loc[step, "revision"],
        "shared": recall(published, p.CIRCUIT).query("model == @model and step == @step")["shared"].iloc[0],
        "at_30": None if at_30 is None else billions(at_30.tokens),
        "true_at_30": at_30 is not None and matches(at_30.tokens / 1e9, printed),
    }  # fmt: skip
    return verdict(facts["agrees"]), facts


@check
def circuit_sizes(published, printed):
    circuit = final_circuit(published)
    names = {m: list(circuit.loc[circuit["model"] == m, "name"]) for m in p.MODELS}
    sizes = {m: len(n) for m, n in names.items()}
    facts = {
        "sizes": each({m: str(n) for m, n in sizes.items()}),
        "names": each({m: w.join(n) for m, n in names.items()}),
    }
    return verdict(sizes == printed), facts


@check
def two_thirds_take(published, printed):
    """printed: {model: per cent of training}."""
    at_50 = training_at(published, p.CIRCUIT)
    bad = [SHORT[m] for m in p.MODELS if at_50[m] is None or not matches(100 * at_50[m], printed[m])]
    facts = {"at_50": shares_text(at_50), "at_30": shares_text(training_at(published, p.CLASSIFY))}
    return verdict(not bad), facts | {"bad": w.join(bad) if bad else ""}


@check
def two_thirds_within(published, low, high):
    """low, high: printed per cent of training, over the models."""

    def span(threshold):
        shares = [None if t is None else 100 * t for t in training_at(published, threshold).values()]
        return None if None in shares else (min(shares), max(shares))

    at_50, at_30 = span(p.CIRCUIT), span(p.CLASSIFY)
    fits = lambda found: found is not None and matches(found[0], low) and matches(found[1], high)
    say = lambda found: "not reached by all" if found is None else f"{found[0]:.2g} to {found[1]:.2g} %"
    return verdict(fits(at_50)), {"at_50": say(at_50), "at_30": say(at_30), "true_at_30": fits(at_30)}


@check
def two_thirds_by(published, share):
    shares = training_at(published, p.CIRCUIT)
    beyond = [SHORT[m] for m, s in shares.items() if s is None or s > share * (1 + APPROXIMATE)]
    return verdict(not beyond), {"found": shares_text(shares), "beyond": w.join(beyond) if beyond else ""}


@check
def some_revision_has_two_thirds(published, low, high):
    """low, high: tokens in billions between which a revision is looked for."""

    def best(threshold):
        rows = recall(published, threshold)
        rows = rows[rows["tokens"].between(low * 1e9, high * 1e9)]
        return rows.loc[rows.groupby("model", sort=False)["recall"].idxmax()]

    at_50, at_30 = best(p.CIRCUIT), best(p.CLASSIFY)
    say = lambda rows: each({r.model: f"{r.shared} of {r.final} at {billions(r.tokens)}" for r in rows.itertuples()})
    return verdict(bool((at_50["recall"] >= RECALL - 1e-9).all())), {"at_50": say(at_50), "at_30": say(at_30)}


@check
def half_is_reached(published, model, printed):
    half = first_recall(published, model, 0.5, p.CIRCUIT)
    found = f"{half.shared} of {half.final} first at {billions(half.tokens)}"
    return verdict(matches(half.tokens / 1e9, printed)), {"found": found, "revision": half.revision}


@check
def all_only_near_the_end(published, printed):
    """printed: how many models recover every head only at the last revision or the one before it."""
    rows = {m: first_recall(published, m, 1.0, p.CIRCUIT) for m in p.MODELS}
    late = [SHORT[m] for m, r in rows.items() if r.step >= len(p.REVISIONS[m]) - 2]
    found = {m: f"{billions(r.tokens)} ({w.percent(r.training)} of training)" for m, r in rows.items()}
    return verdict(len(late) == printed), {"found": each(found), "late": w.join(late)}
