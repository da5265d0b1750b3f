"""Checks of the paper's claims on BOS heads: the floor (F1) and the sinks (F2)."""

from lib import findings
from lib.paper.comparing import matches, nearest_step
from lib.paper.published import LAYERS, MODELS, SHORT, best_class, bos_by_layer, counts_of, curve_of, last_revision

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


def counts_by_layer(published, model, printed, layers=range(LAYERS)):
    """BOS heads of some layers, by default all; printed: {revision: [heads of the first of these layers, ...]}."""
    counts = counts_of(published, model)
    cells = [(revision, layer, n) for revision, row in printed.items() for layer, n in zip(layers, row)]
    found = [int(counts.loc[revision, layer]) for revision, layer, _ in cells]
    wrong = [
        f"layer {layer} at {revision}: {n}, printed {cell}"
        for (revision, layer, cell), n in zip(cells, found)
        if n != cell
    ]
    return not wrong, {"found": found, "wrong": wrong}


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
    """A model's BOS curve: its largest step and its final fraction, at so many tokens."""
    curve = curve_of(published, model)
    fractions = curve["bos_fraction"].to_numpy()
    return {"step": findings.F2.shape_of(fractions)[2], "end": fractions[-1], "tokens": curve["tokens"].iloc[-1]}


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


def rise_between(published, model, low, high, printed=None):
    """Rise of the BOS fraction between two revisions, given by tokens in billions; printed: in points.

    Whether they are neighbours is known of the panel only, not of what was published: without `printed`, undecided.
    """
    curve = curve_of(published, model)
    steps = [nearest_step(curve, tokens) for tokens in (low, high)]
    before, after = curve["bos_fraction"][steps]
    agrees = matches(100 * (after - before), printed) if printed else None
    return agrees, {"rise": after - before, "before": before, "after": after, "neighbours": steps[1] - steps[0] == 1}


def shape_of_the_rise(published, model):
    """The shape of a BOS curve, by F2's rule."""
    curve = curve_of(published, model)
    fractions = curve["bos_fraction"].to_numpy()
    shape, end, size = findings.F2.shape_of(fractions)
    monotonic = bool((fractions[1:] >= fractions[:-1]).all())
    claimed = findings.F2.CLAIMED_SHAPE[model]
    share = size / (fractions.max() - fractions[0])
    found = {"shape": shape, "monotonic": monotonic, "size": size, "share": share, "tokens": curve.loc[end, "tokens"]}
    return shape == claimed and (monotonic or claimed == "jump"), found


def ends_apart(published, higher, lower, printed, by_best_class):
    """How far the final BOS fractions of two models are apart, in points; by_best_class is only told."""
    apart = _rise(published, higher)["end"] - _rise(published, lower)["end"]
    return matches(100 * apart, printed), {"apart": apart}


def rises_compared(published, more, less, by):
    """Whether a model's largest step (by: step) or final BOS fraction (end), or both, are larger than another's."""
    rises = {m: _rise(published, m) for m in MODELS if m in (more, less)}
    return all(rises[more][what] > rises[less][what] for what in by), {"rises": rises}
