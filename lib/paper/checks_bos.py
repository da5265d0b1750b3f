"""Checks of what the paper states about BOS heads: the floor (F1) and the growth of their fraction (F2)."""

from lib import findings
from lib import formatting as w
from lib.paper import published as p
from lib.paper.comparing import (
    DISAGREES,
    OLMO,
    OLMOE,
    PYTHIA,
    SHORT,
    UNCHECKED,
    billions,
    bos_by_layer,
    check,
    counts_of,
    curve_of,
    each,
    last_rows,
    matches,
    nearest_step,
    points,
    verdict,
)

FLOOR = list(findings.FLOOR_LAYERS)
EARLY_BOS = 0.05  # share of heads from which the first BOS heads are looked at, by layer


@check
def floor_is_empty(published):
    rows = bos_by_layer(published)
    floor = rows[rows["layer"].isin(FLOOR)]
    n, most = len(floor.groupby(["model", "revision"])), int(floor["bos_heads"].max())
    return verdict(most == 0 and n == 30), {"most": most, "n": n}


@check
def floor_from_the_start(published):
    starts = {m: curve_of(published, m).loc[0, "tokens"] for m in p.MODELS}
    floor = {m: int(counts_of(published, m)[FLOOR].to_numpy().max()) for m in p.MODELS}
    facts = {"starts": each({m: f"at {billions(t)} tokens" for m, t in starts.items()}), "broken": any(floor.values())}
    facts |= {"floor": each({m: str(n) for m, n in floor.items()})}
    facts |= {"olmo": billions(starts[OLMO]), "olmoe": billions(starts[OLMOE])}
    return (DISAGREES if facts["broken"] else UNCHECKED), facts


@check
def counts_by_layer(published, model, printed):
    """printed: {revision: BOS heads of every layer}."""
    counts = counts_of(published, model)
    cells = [
        (revision, layer, number, int(counts.loc[revision, layer]))
        for revision, row in printed.items()
        for layer, number in enumerate(row)
    ]
    wrong = [f"layer {layer} at {revision}: {found}, printed {n}" for revision, layer, n, found in cells if n != found]
    return verdict(not wrong), {"equal": len(cells) - len(wrong), "n": len(cells), "wrong": wrong}


@check
def counts_of_a_layer(published, model, layer, printed):
    """printed: {revision: BOS heads}."""
    found = [int(counts_of(published, model).loc[revision, layer]) for revision in printed]
    return verdict(found == list(printed.values())), {"found": w.join(map(str, found))}


@check
def layers_saturate(published, model, first):
    counts, heads = counts_of(published, model), p.HEADS_IN_LAYER[model]
    final = counts.iloc[-1]
    short = [layer for layer in range(first, p.LAYERS) if final[layer] < 0.75 * heads]
    empty = [layer for layer in range(p.LAYERS) if counts[layer].max() == 0]
    return verdict(not short), {
        "low": int(final.loc[first:].min()), "high": int(final.loc[first:].max()), "heads": heads,
        "short": w.join(map(str, short)) if short else "", "of_short": w.join(str(int(final[layer])) for layer in short),
        "empty": w.join(map(str, empty)), "n_empty": len(empty),
    }  # fmt: skip


@check
def layers_fill_alike(published):
    first, ends = {}, {}
    for model in (OLMO, OLMOE):
        curve, counts = curve_of(published, model), counts_of(published, model)
        step = curve.index[curve["bos_fraction"] >= EARLY_BOS][0]
        inside, total = int(counts.iloc[step].loc[2:5].sum()), int(counts.iloc[step].sum())
        first[model] = f"{inside} of {total} at {billions(curve.loc[step, 'tokens'])}"
        deep = counts.iloc[-1].loc[2:]
        ends[model] = f"{int(deep.min())} to {int(deep.max())}"
    return UNCHECKED, {"first": each(first), "olmo": ends[OLMO], "olmoe": ends[OLMOE]}


@check
def fractions(published, model, printed):
    """printed: {tokens in billions: per cent}."""
    curve = curve_of(published, model)
    found = {t: 100 * curve.loc[nearest_step(curve, t * 1e9), "bos_fraction"] for t in printed}
    wrong = [f"{found[t]:.1f} % at {t}B, printed {n} %" for t, n in printed.items() if not matches(found[t], n)]
    return verdict(not wrong), {"found": ", ".join(f"{v:.1f}" for v in found.values()), "wrong": wrong}


@check
def fractions_by_best_class(published, printed, by_best_class):
    """printed: {model: final per cent}.  by_best_class: {model: final fraction in the author's all-head files}."""
    final = {m: curve_of(published, m)["bos_fraction"].iloc[-1] for m in p.MODELS}
    by_best = all(matches(100 * by_best_class[m], printed[m]) for m in p.MODELS)
    by_any = all(matches(100 * final[m], printed[m]) for m in p.MODELS)
    last = last_rows(published.selectivity)
    other = last[last[list(p.CLASSES)].idxmax(axis=1) != "first_token"].groupby(["model", "layer"])["name"].agg(list)
    counts = bos_by_layer(published).query("step == step.max()").set_index(["model", "layer"])
    proof = [
        f"{SHORT[m]} layer {layer}"
        for (m, layer), names in other.items()
        if counts.loc[(m, layer), "bos_heads"] > counts.loc[(m, layer), "heads"] - len(names)
    ]
    return verdict(by_best and not proof), {
        "final": each({m: w.percent(v) for m, v in final.items()}), "by_any": by_any, "proof": proof,
        "best": each({m: w.percent(v) for m, v in by_best_class.items()}),
    }  # fmt: skip


@check
def no_bos_head_until(published, model, billion):
    counts, early = counts_of(published, model), curve_of(published, model).query("tokens <= @billion * 1e9")
    above = early[early["bos_heads"] > 0]
    where = "; ".join(
        f"{w.plural(int(row.bos_heads), 'head')} ({w.percent(row.bos_fraction)}, layer "
        f"{w.join(str(x) for x in counts.columns[counts.loc[row.revision] > 0])}) at {billions(row.tokens)}"
        for row in above.itertuples()
    )
    facts = {"most": w.plural(int(early["bos_heads"].max()), "head"), "n": len(early), "empty": len(early) - len(above)}
    return verdict(above.empty), facts | {"where": where[:1].upper() + where[1:]}


@check
def rises_by(published, model, start, end, printed):
    """start, end: tokens in billions.  printed: percentage points."""
    curve = curve_of(published, model)
    low, high = (curve.loc[nearest_step(curve, t * 1e9), "bos_fraction"] for t in (start, end))
    facts = {"rise": points(high - low), "low": w.percent(low), "high": w.percent(high)}
    return verdict(matches(100 * (high - low), printed)), facts


@check
def are_adjacent(published, model, start, end):
    curve = curve_of(published, model)
    low, high = (nearest_step(curve, t * 1e9) for t in (start, end))
    return UNCHECKED, {"neighbours": "adjacent in the panel" if high - low == 1 else "not adjacent in the panel"}


@check
def has_the_claimed_shape(published, model):
    curve = curve_of(published, model)
    values, claimed = curve["bos_fraction"].to_numpy(), findings.CLAIMED_SHAPE[model]
    shape, end, size = findings.shape_of(values)
    monotonic = bool((values[1:] >= values[:-1]).all())
    return verdict(shape == claimed and (monotonic or claimed == "jump")), {
        "shape": shape, "monotonic": "monotonic" if monotonic else "not monotonic", "size": points(size),
        "end": billions(curve.loc[end, "tokens"]), "share": w.percent(size / (values.max() - values[0])),
    }  # fmt: skip


@check
def final_difference(published, dense, experts, printed, by_best_class):
    """By how many points the mixture of experts ends lower."""
    difference = (
        curve_of(published, dense)["bos_fraction"].iloc[-1] - curve_of(published, experts)["bos_fraction"].iloc[-1]
    )
    return verdict(matches(100 * difference, printed)), {
        "difference": points(difference), "best": points(by_best_class[dense] - by_best_class[experts]),
        "best_dense": w.percent(by_best_class[dense]), "best_experts": w.percent(by_best_class[experts]),
    }  # fmt: skip


@check
def is_smoother(published):
    steps = {m: findings.shape_of(curve_of(published, m)["bos_fraction"].to_numpy())[2] for m in (OLMO, OLMOE)}
    return verdict(steps[OLMOE] < steps[OLMO]), {"steps": each({m: points(s) for m, s in steps.items()})}


@check
def is_sharper_and_higher(published):
    curves = {m: curve_of(published, m) for m in (PYTHIA, OLMO)}
    steps = {m: findings.shape_of(c["bos_fraction"].to_numpy())[2] for m, c in curves.items()}
    ends = {m: c["bos_fraction"].iloc[-1] for m, c in curves.items()}
    return verdict(steps[OLMO] > steps[PYTHIA] and ends[OLMO] > ends[PYTHIA]), {
        "found": each({m: f"largest step {points(steps[m])}, end {w.percent(ends[m])}" for m in curves}),
        "pythia": billions(curves[PYTHIA]["tokens"].iloc[-1]), "olmo": billions(curves[OLMO]["tokens"].iloc[-1]),
    }  # fmt: skip
