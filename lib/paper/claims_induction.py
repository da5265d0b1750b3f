"""Checks of the paper's claims on induction heads: their order with the sinks (F3) and early detection (F4)."""

from fractions import Fraction

from lib import findings
from lib.formatting import times
from lib.paper.comparing import APPROXIMATE, first_step, matches, met_as_printed, nearest_step, when
from lib.paper.published import CIRCUIT, CLASSIFY, MODELS, REVISIONS, curve_of, final_circuit, gaps, head_rows, recall

# F3


def _at_50x(published, model, heads, unlisted):
    """When a model first has so many heads past 50x: (step from which it is possible, step at which it is known).

    Possible by the upper bound of lib.paper.published.curves, known by the listed heads and the unlisted ones
    ({model: {revision: {head: selectivity}}}); None: never.
    """
    curve = curve_of(published, model)
    extra = curve["revision"].map(lambda revision: len(unlisted[model].get(revision, {})))
    possible = first_step(curve["induction_heads_at_50x_most"] >= heads)
    return possible, first_step(curve["induction_heads_at_50x"] + extra >= heads)


def _gap(published, model, unlisted):
    """Tokens of BOS 50 % over tokens of three heads past 50x; None where the latter is undecided."""
    curve = curve_of(published, model)
    possible, known = _at_50x(published, model, 3, unlisted)
    half = first_step(curve["bos_fraction"] >= findings.F3.SINK_FRACTION)
    if possible != known or known is None or half is None:
        return None
    return float(curve.loc[half, "tokens"] / curve.loc[known, "tokens"])


def _gaps_at_30x(published):
    """{model: gap} as a Series, by the criterion 30x."""
    return gaps(published).query("criterion == '30x'").set_index("model")["gap"]


def induction_first(published):
    """Three induction heads at 30x before half of the heads are BOS heads, in every model."""
    rows = gaps(published).query("criterion == '30x'")
    agrees = bool((rows["induction_tokens"] < rows["bos_tokens"]).fillna(False).all())
    return agrees, {"rows": {row.model: row for row in rows.itertuples()}}


def induction_milestone(published, heads, printed, unlisted):
    """When each model has so many heads past 50x; printed: {model: tokens in billions, or None for never}."""
    met, at_30x, agree = {}, {}, []
    for model in MODELS:
        curve = curve_of(published, model)
        possible, known = _at_50x(published, model, heads, unlisted)
        at_30x[model] = when(curve, first_step(curve["induction_heads_at_30x"] >= heads))
        met[model] = when(curve, known)
        if possible != known:
            met[model] = f"between {when(curve, possible)} and {met[model]}".replace("at ", "")
        agree.append(met_as_printed(curve, known, printed[model]) if possible == known else None)
    return False if False in agree else None if None in agree else True, {"met": met, "at_30x": at_30x}


def bos_milestone(published, share, printed):
    """When a share (per cent) of the heads are BOS heads; printed: {model: tokens in billions, or None for never}."""
    curves = {m: curve_of(published, m) for m in MODELS}
    steps = {m: first_step(curve["bos_fraction"] >= share / 100) for m, curve in curves.items()}
    agrees = all(met_as_printed(curves[m], steps[m], printed[m]) for m in MODELS)
    return agrees, {"met": {m: when(curves[m], steps[m]) for m in MODELS}}


def gap(published, model, printed, unlisted):
    """How many times as many tokens half BOS heads take as three induction heads at 50x."""
    found = _gap(published, model, unlisted)
    agrees = None if found is None else matches(found, printed)
    return agrees, {"gap": found, "at_30x": _gaps_at_30x(published)[model]}


def gaps_between(published, models, low, high, unlisted):
    """Whether the gaps of some models lie between two round numbers."""
    found = {m: _gap(published, m, unlisted) for m in models}
    known = None not in found.values()
    low, high = low * (1 - APPROXIMATE), high * (1 + APPROXIMATE)
    agrees = all(low <= gap <= high for gap in found.values()) if known else None
    return agrees, {"gaps": found, "at_30x": _gaps_at_30x(published)}


def at_one_revision(published, model, share, printed, unlisted):
    """Whether three induction heads at 50x and a share of BOS heads come at the same revision."""
    curve = curve_of(published, model)
    possible, known = _at_50x(published, model, 3, unlisted)
    bos = first_step(curve["bos_fraction"] >= share)
    agrees = bos is not None and known == bos and met_as_printed(curve, known, printed)
    found = {"induction": when(curve, known), "bos": when(curve, bos)}
    return agrees if possible == known else None, found


def largest_gap(published, model, unlisted):
    """Whether a model's gap is the largest, at 30x and, if all are decided, at 50x."""
    at_30x = _gaps_at_30x(published)
    found = {m: _gap(published, m, unlisted) for m in MODELS}
    largest = {at_30x.idxmax()}
    if None not in found.values():
        largest.add(max(found, key=found.get))
    return largest == {model}, {"gaps": found, "at_30x": at_30x}


def size_reached_by(published, billions):
    """Whether the number of induction heads at 30x does not grow after a number of tokens."""
    sizes = {}
    for model in MODELS:
        curve = curve_of(published, model)
        n, late = curve["induction_heads_at_30x"], curve["tokens"] > billions * 1e9
        early, low, high = int(n[~late].max()), int(n[late].min()), int(n[late].max())
        sizes[model] = {"early": early, "low": low, "high": high, "final": int(n.iloc[-1])}
    grown = {m: size for m, size in sizes.items() if size["high"] > size["early"]}
    return not grown, {"sizes": sizes, "grown": grown}


# F4


def _first_recall(published, model, share, threshold):
    """The row of lib.paper.published.recall at which a share of the final circuit is first past a threshold, or None."""
    rows = recall(published, threshold).query("model == @model")
    rows = rows[rows["recall"] >= share - 1e-9]
    return None if rows.empty else rows.iloc[0]


def _training(published, threshold):
    """{model: share of training at which two thirds of its final circuit are past a threshold, None for never}."""
    rows = {m: _first_recall(published, m, findings.F4.RECALL, threshold) for m in MODELS}
    return {m: None if row is None else row.training for m, row in rows.items()}


def recall_reached(published, model, share, printed):
    """When a share of the final circuit is past 50x; if not when printed, what is past 50x there, and when it is at 30x."""
    first, at_30x = (_first_recall(published, model, float(Fraction(share)), t) for t in (CIRCUIT, CLASSIFY))
    if first is None:
        return False, {"first": None}
    curve = curve_of(published, model)
    step = nearest_step(curve, float(printed.lstrip("~")))
    circuit = final_circuit(published).query("model == @model")["name"]
    reads = {name: head_rows(published.selectivity, model, name).loc[step, "induction"] for name in circuit}
    return matches(first.tokens / 1e9, printed), {
        "first": first,
        "there": curve.loc[step],
        "shared_there": sum(selectivity >= CIRCUIT for selectivity in reads.values()),
        "reads": [f"{name} {times(selectivity)}" for name, selectivity in reads.items()],
        "at_30x": at_30x,
        "agrees_at_30x": at_30x is not None and matches(at_30x.tokens / 1e9, printed),
    }


def circuit_sizes(published, printed):
    """Heads of the final circuits; printed: {model: number}."""
    circuit = final_circuit(published)
    circuits = {m: list(circuit.loc[circuit["model"] == m, "name"]) for m in MODELS}
    return {m: len(names) for m, names in circuits.items()} == printed, {"circuits": circuits}


def training_at_two_thirds(published, printed):
    """Share of training until two thirds of the final circuit are past 50x; printed: {model: per cent}."""
    at_50x, at_30x = _training(published, CIRCUIT), _training(published, CLASSIFY)
    off = [m for m, share in at_50x.items() if share is None or not matches(100 * share, printed[m])]
    return not off, {"at_50x": at_50x, "at_30x": at_30x, "off": off}


def training_span_at_two_thirds(published, printed):
    """The same from the earliest to the latest model; printed: [least, most] per cent."""

    def span(threshold):
        shares = _training(published, threshold).values()
        return None if None in shares else (100 * min(shares), 100 * max(shares))

    def fits(found):
        return found is not None and all(map(matches, found, printed))

    at_50x, at_30x = span(CIRCUIT), span(CLASSIFY)
    return fits(at_50x), {"at_50x": at_50x, "at_30x": at_30x, "agrees_at_30x": fits(at_30x)}


def two_thirds_within(published, share):
    """Whether two thirds of every final circuit are past 50x within about a share of training."""
    shares = _training(published, CIRCUIT)
    beyond = [m for m, found in shares.items() if found is None or found > share * (1 + APPROXIMATE)]
    return not beyond, {"shares": shares, "beyond": beyond}


def best_recall_between(published, low, high):
    """Whether some revision between two numbers of tokens, in billions, has two thirds of the circuit, in each model."""

    def best(threshold):
        rows = recall(published, threshold)
        rows = rows[rows["tokens"].between(low * 1e9, high * 1e9)]
        return rows.loc[rows.groupby("model", sort=False)["recall"].idxmax()]

    at_50x, at_30x = ({row.model: row for row in best(t).itertuples()} for t in (CIRCUIT, CLASSIFY))
    agrees = all(row.recall >= findings.F4.RECALL - 1e-9 for row in at_50x.values())
    return agrees, {"at_50x": at_50x, "at_30x": at_30x}


def all_heads_late(published, printed):
    """Number of models whose whole circuit is past 50x only at the last revision or the one before."""
    rows = {m: _first_recall(published, m, 1.0, CIRCUIT) for m in MODELS}
    late = [m for m, row in rows.items() if row.step >= len(REVISIONS[m]) - 2]
    return len(late) == printed, {"rows": rows, "late": late}
