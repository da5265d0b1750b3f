"""Checks of the paper's own tables of revisions, and of what its text says in passing."""

from lib import formatting as w
from lib.paper import published as p
from lib.paper.comparing import (
    AGREES,
    APPROXIMATE,
    DISAGREES,
    SHORT,
    billions,
    check,
    curve_of,
    curves,
    each,
    last_rows,
    matches,
    null_leads,
    verdict,
)


def labels_of(published, model):
    """{label without its tokens: row of lib.paper.published.curves} of a model's revisions."""
    return {row.revision.split("-")[0]: row for row in curve_of(published, model).itertuples()}


@check
def number_of_revisions(published, printed):
    n = {m: len(curve_of(published, m)) for m in p.MODELS}
    return verdict(n == printed), {"found": each({m: str(k) for m, k in n.items()})}


@check
def table_lists_all(published, printed):
    """printed: the paper's table 1, {model: {label: [tokens, share of training]}}."""
    rows = {m: len(printed[m]) for m in p.MODELS}
    missing = {m: [k for k in labels_of(published, m) if k not in printed[m]] for m in p.MODELS}
    total, runs = sum(rows.values()), len(curves(published))
    return verdict(total == runs and not any(missing.values())), {
        "total": total, "runs": runs, "rows": each({m: str(n) for m, n in rows.items()}),
        "missing": each({m: w.join(names) for m, names in missing.items()}),
    }  # fmt: skip


@check
def label_exists(published, model, label, printed):
    """printed: tokens."""
    found, tokens = labels_of(published, model), float(printed)
    if label in found:
        return AGREES, {"there": True, "label": label}
    near, row = min(found.items(), key=lambda item: max(item[1].tokens / tokens, tokens / item[1].tokens))
    facts = {"there": False, "label": near, "printed": billions(tokens), "tokens": billions(row.tokens)}
    return DISAGREES, facts | {"same": "the same" if matches(row.tokens, printed) else "not the same"}


@check
def column_of_revisions(published, which, printed):
    """which: "tokens" or "share" (of training), where the label exists.  printed: as for table_lists_all."""
    wrong, n = [], 0
    say = (lambda v: f"{v / 1e9:.3g}B") if which == "tokens" else (lambda v: f"{v:.1e}")
    for model, rows in printed.items():
        found, last = labels_of(published, model), curve_of(published, model)["tokens"].iloc[-1]
        for label in rows.keys() & found.keys():
            n += 1
            tokens = found[label].tokens
            value, text = (tokens, rows[label][0]) if which == "tokens" else (tokens / last, rows[label][1])
            if not matches(value, text):
                wrong.append(f"{SHORT[model]} {label}: {say(value)}, printed {say(float(text))}")
    return verdict(not wrong), {"equal": n - len(wrong), "n": n, "wrong": sorted(wrong)}


@check
def dashes_are_missing_revisions(published, printed):
    """printed: {row of table 4: {between: [low, high] tokens in billions, dash: models}}."""
    wrong, n = [], 0
    for row, of in printed.items():
        low, high = of["between"]
        for model in of["dash"]:
            n += 1
            curve = curve_of(published, model)
            inside = curve[(curve["tokens"] >= low * 1e9) & (curve["tokens"] <= high * 1e9)]
            wrong += [
                f"row {row}: {SHORT[model]} has {r.revision} at {billions(r.tokens)}, with {w.percent(r.bos_fraction)} BOS heads"
                for r in inside.itertuples()
            ]
    return verdict(not wrong), {"right": n - len(wrong), "n": n, "wrong": wrong}


@check
def sampled_revisions(published, model, n, listed, last):
    """listed: labels of the paper's table 1.  last: the label that stands for another."""
    left_out = [row for label, row in labels_of(published, model).items() if label not in listed and label != last]
    found = len(curve_of(published, model))
    return verdict(found == n), {"found": found, "left_out": w.join(billions(row.tokens) for row in left_out)}


@check
def training_covered(published, printed):
    """printed: {model: [first, last] tokens in billions}."""
    ends = {m: curve_of(published, m)["tokens"].iloc[[0, -1]].to_list() for m in p.MODELS}
    ok = all(matches(t / 1e9, text) for m in p.MODELS for t, text in zip(ends[m], printed[m]))
    return verdict(ok), {"found": each({m: f"{billions(a)} to {billions(b)}" for m, (a, b) in ends.items()})}


def formation(published):
    """{model: (share of training at 50x of the top induction head, at 30x of the listed BOS head)}."""
    out = {}
    for model in p.MODELS:
        rows = published.selectivity[published.selectivity["model"] == model]
        last = last_rows(rows).set_index("name")
        bos = null_leads(published).query("model == @model and best_class == 'first_token'")["name"].iloc[0]
        heads = ((last["induction"].idxmax(), "induction", p.CIRCUIT), (bos, "first_token", p.CLASSIFY))
        first = (rows.loc[(rows["name"] == name) & (rows[cls] >= t), "tokens"].min() for name, cls, t in heads)
        out[model] = tuple(tokens / rows["tokens"].max() for tokens in first)
    return out


@check
def induction_forms_within(published, low, high):
    """low, high: printed per cent of training."""
    shares = {m: 100 * s for m, (s, _) in formation(published).items()}
    ok = matches(min(shares.values()), low) and matches(max(shares.values()), high)
    return verdict(ok), {"found": each({m: f"{s:.2g} %" for m, s in shares.items()})}


@check
def bos_heads_form_later(published, fold):
    found = formation(published)
    shares = [bos for _, bos in found.values()]
    ratio = max(shares) / min(shares)
    ok = all(bos > induction for induction, bos in found.values()) and ratio >= fold * (1 - APPROXIMATE)
    said = each({m: f"{100 * bos:.2g} %" for m, (_, bos) in found.items()})
    return verdict(ok), {"found": said, "ratio": f"{ratio:.3g}"}
