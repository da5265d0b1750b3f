"""Checks of the paper's claims on BOS heads: the floor (F1) and the sinks (F2)."""

from lib import findings
from lib.paper.comparing import SHORT, matches, nearest_step
from lib.paper.published import LAYERS, MODELS, best_class, bos_by_layer, counts_of, curve_of, last_revision

# F1


def empty_floor(published):
    """No BOS head in layers 0 and 1, at any of 30 revisions."""
    rows = bos_by_layer(published)
    floor = rows[rows["layer"].isin(findings.F1.FLOOR_LAYERS)]
    revisions = len(floor.groupby(["model", "revision"]))
    most = int(floor["bos_heads"].max())
    return most == 0 and revisions == 30, {"most": most, "revisions": revisions}


def floor_from_the_start(published):
    """What the first revisions say of the floor: they can refute it, but start too late to show it."""
    starts = {m: curve_of(published, m).loc[0, "tokens"] for m in MODELS}
    most = {m: int(counts_of(published, m)[list(findings.F1.FLOOR_LAYERS)].to_numpy().max()) for m in MODELS}
    return False if any(most.values()) else None, {"starts": starts, "most": most}


def counts_by_layer(published, model, printed):
    """A printed table of BOS heads; printed: {revision: [heads of layer 0, of layer 1, ...]}."""
    counts = counts_of(published, model)
    cells = [(revision, layer, n) for revision, row in printed.items() for layer, n in enumerate(row)]
    wrong = [
        f"layer {layer} at {revision}: {found}, printed {n}"
        for revision, layer, n in cells
        if (found := int(counts.loc[revision, layer])) != n
    ]
    return not wrong, {"n": len(cells), "wrong": wrong}


def counts_of_a_layer(published, model, layer, printed):
    """BOS heads of one layer; printed: {revision: heads}."""
    found = [int(counts_of(published, model).loc[revision, layer]) for revision in printed]
    return found == list(printed.values()), {"found": found}


def layers_saturate(published, model, first_layer, share):
    """Whether every layer from first_layer on ends with a share of its heads or more."""
    counts = counts_of(published, model)
    heads = int(last_revision(bos_by_layer(published)).query("model == @model")["heads"].iloc[0])
    final = {layer: int(counts.iloc[-1][layer]) for layer in range(first_layer, LAYERS)}
    short = {layer: n for layer, n in final.items() if n < share * heads}
    empty = [layer for layer in range(LAYERS) if counts[layer].max() == 0]
    return not short, {"heads": heads, "final": list(final.values()), "short": short, "empty": empty}


def first_bos_layers(published, models, share, layers):
    """Where the first BOS heads are, once they are a share of all heads; layers: first and last of those looked at."""
    first, ends = {}, {}
    for model in models:
        curve, counts = curve_of(published, model), counts_of(published, model)
        step = curve.index[curve["bos_fraction"] >= share][0]
        early, final = counts.iloc[step], counts.iloc[-1].loc[2:]
        inside = int(early.loc[slice(*layers)].sum())
        first[model] = {"inside": inside, "heads": int(early.sum()), "tokens": curve.loc[step, "tokens"]}
        ends[model] = f"{int(final.min())} to {int(final.max())}"
    return None, {"first": first, "ends": ends}


# F2


def _rise(published, model):
    """(shape, step that ends the largest step, its size, final fraction) of a model's BOS curve."""
    fractions = curve_of(published, model)["bos_fraction"].to_numpy()
    return *findings.F2.shape_of(fractions), fractions[-1]


def bos_fractions(published, model, printed):
    """BOS fractions along training; printed: {tokens in billions: per cent}."""
    curve = curve_of(published, model)
    values = {t: 100 * curve.loc[nearest_step(curve, t), "bos_fraction"] for t in printed}
    wrong = [
        f"{value:.1f} % at {t}B, printed {printed[t]} %"
        for t, value in values.items()
        if not matches(value, printed[t])
    ]
    return not wrong, {"found": [f"{value:.1f}" for value in values.values()], "wrong": wrong}


def counted_by_best_class(published, printed, by_best_class):
    """Whether the final fractions printed are those of heads whose highest class is first-token.

    proof: layers whose count cannot be reached without a head of another highest class.
    """
    final = {m: curve_of(published, m)["bos_fraction"].iloc[-1] for m in MODELS}
    counted_by_best, counted_by_any = (
        all(matches(100 * fractions[m], printed[m]) for m in MODELS) for fractions in (by_best_class, final)
    )
    last = last_revision(published.selectivity)
    others = last[best_class(last) != "first_token"].groupby(["model", "layer"]).size()
    counts = last_revision(bos_by_layer(published)).set_index(["model", "layer"])
    proof = [
        f"{SHORT[model]} layer {layer}"
        for (model, layer), n in others.items()
        if counts.loc[(model, layer), "bos_heads"] > counts.loc[(model, layer), "heads"] - n
    ]
    found = {"final": final, "counted_by_any": counted_by_any, "proof": proof}
    return counted_by_best and not proof, found


def none_through(published, model, through):
    """No BOS head at any revision up to a number of tokens, in billions."""
    curve, counts = curve_of(published, model), counts_of(published, model)
    early = curve[curve["tokens"] <= through * 1e9]
    above = [
        {
            "heads": int(row.bos_heads),
            "fraction": row.bos_fraction,
            "layers": list(counts.columns[counts.loc[row.revision] > 0]),
            "tokens": row.tokens,
        }
        for row in early[early["bos_heads"] > 0].itertuples()
    ]
    return not above, {"most": int(early["bos_heads"].max()), "above": above, "others": len(early) - len(above)}


def rise_between(published, model, low, high, printed):
    """Rise of the BOS fraction between two revisions, given by tokens in billions; printed: in points."""
    curve = curve_of(published, model)
    before, after = (curve.loc[nearest_step(curve, t), "bos_fraction"] for t in (low, high))
    return matches(100 * (after - before), printed), {"rise": after - before, "before": before, "after": after}


def neighbours_in_the_panel(published, model, low, high):
    """Whether two revisions, given by tokens in billions, follow each other in the panel; of others nothing is known."""
    before, after = (nearest_step(curve_of(published, model), t) for t in (low, high))
    return None, {"neighbours": after - before == 1}


def shape_of_the_rise(published, model):
    """The shape of a BOS curve, by F2's rule."""
    curve = curve_of(published, model)
    fractions = curve["bos_fraction"].to_numpy()
    shape, end, size, _ = _rise(published, model)
    monotonic = bool((fractions[1:] >= fractions[:-1]).all())
    claimed = findings.F2.CLAIMED_SHAPE[model]
    share = size / (fractions.max() - fractions[0])
    found = {"shape": shape, "monotonic": monotonic, "size": size, "share": share, "tokens": curve.loc[end, "tokens"]}
    return shape == claimed and (monotonic or claimed == "jump"), found


def ends_apart(published, higher, lower, printed, by_best_class):
    """How far the final BOS fractions of two models are apart, in points; by_best_class is only told."""
    ends = {m: curve_of(published, m)["bos_fraction"].iloc[-1] for m in (higher, lower)}
    apart = ends[higher] - ends[lower]
    return matches(100 * apart, printed), {"apart": apart}


def smoother(published, rough, smooth):
    """Whether the largest step of one model is smaller than another's."""
    steps = {m: _rise(published, m)[2] for m in (rough, smooth)}
    return steps[smooth] < steps[rough], {"steps": steps}


def sharper_and_higher(published, model, than):
    """Whether a model's largest step and final BOS fraction are both larger than another's."""
    rises = {}
    for m in (than, model):
        _, _, step, end = _rise(published, m)
        rises[m] = {"step": step, "end": end, "tokens": curve_of(published, m)["tokens"].iloc[-1]}
    return all(rises[model][k] > rises[than][k] for k in ("step", "end")), {"rises": rises}
