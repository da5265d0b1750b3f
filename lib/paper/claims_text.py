"""Checks of what the paper says of itself, in its tables and text, and of what no table can decide."""

from lib.formatting import percent
from lib.paper.comparing import APPROXIMATE, billions, matches
from lib.paper.published import CIRCUIT, CLASSIFY, MODELS, SHORT, curve_of, curves, last_revision, null_leads


def not_in_the_tables(published):
    """What the tables cannot decide, whatever they hold."""
    return None, {}


# Tables


def _labels(published, model):
    """{label without its tokens: row of lib.paper.published.curves} of a model's revisions."""
    return {row.revision.split("-")[0]: row for row in curve_of(published, model).itertuples()}


def revisions_of_each(published, printed):
    """Number of revisions of every model."""
    found = {m: len(curve_of(published, m)) for m in MODELS}
    return set(found.values()) == {printed}, {"found": found}


def table_1_is_complete(published, table):
    """Whether table 1 has a row a run; table: {model: {label: [tokens, share of training]}}."""
    rows = {m: len(table[m]) for m in MODELS}
    missing = {m: [label for label in _labels(published, m) if label not in table[m]] for m in MODELS}
    runs = len(curves(published))
    agrees = sum(rows.values()) == runs and not any(missing.values())
    return agrees, {"rows": rows, "runs": runs, "missing": missing}


def revision_exists(published, model, label, table):
    """Whether a label of table 1 is one of the files'; if not, the revision nearest in tokens."""
    text, _ = table[model][label]
    printed, labels = float(text), _labels(published, model)
    nearest = min(labels, key=lambda k: max(labels[k].tokens / printed, printed / labels[k].tokens))
    tokens = labels[nearest].tokens
    found = {"nearest": nearest, "nearest_tokens": tokens, "tokens": printed, "same": matches(tokens, text)}
    return label in labels, found


def table_1_column(published, column, table):
    """A column of table 1, "tokens" or "share" (of training), where the label exists."""
    wrong, n = [], 0
    for model, printed in table.items():
        found, last = _labels(published, model), curve_of(published, model)["tokens"].iloc[-1]
        for label in printed.keys() & found.keys():
            n += 1
            if column == "tokens":
                value, text, say = found[label].tokens, printed[label][0], lambda tokens: f"{tokens / 1e9:.3g}B"
            else:
                value, text, say = found[label].tokens / last, printed[label][1], "{:.1e}".format
            if not matches(value, text):
                wrong.append(f"{SHORT[model]} {label}: {say(value)}, printed {say(float(text))}")
    return not wrong, {"n": n, "wrong": wrong}


def dashes(published, rows):
    """Whether a model with a dash has no revision in a row's range of tokens."""
    wrong = []
    for name, row in rows.items():
        low, high = row["between"]
        for model in row["dashes"]:
            curve = curve_of(published, model)
            wrong += [
                f"row {name}: {SHORT[model]} has {r.revision} at {billions(r.tokens)}, with {percent(r.bos_fraction)} BOS heads"
                for r in curve[curve["tokens"].between(low * 1e9, high * 1e9)].itertuples()
            ]
    return not wrong, {"n": sum(len(row["dashes"]) for row in rows.values()), "wrong": wrong}


# Text


def revisions_sampled(published, model, printed, table):
    """Number of revisions of a model; left_out: tokens of those before the last that table 1 does not list."""
    *labels, _ = _labels(published, model).items()
    left_out = [row.tokens for label, row in labels if label not in table[model]]
    n = len(curve_of(published, model))
    return n == printed, {"n": n, "left_out": left_out}


def training_covered(published, printed):
    """Tokens of the first and last revisions; printed: {model: [first, last]} in billions."""
    covered = {m: curve_of(published, m)["tokens"].iloc[[0, -1]].to_list() for m in MODELS}
    agrees = all(matches(t / 1e9, text) for m in MODELS for t, text in zip(covered[m], printed[m]))
    return agrees, {"covered": covered}


def _formation(published):
    """{model: (share of training at 50x of the top induction head, at 30x of the listed BOS head)}."""
    bos = null_leads(published).query("best_class == 'first_token'").groupby("model")["name"].first()
    out = {}
    for model in MODELS:
        rows = published.selectivity[published.selectivity["model"] == model]
        last = last_revision(rows).set_index("name")
        events = ((last["induction"].idxmax(), "induction", CIRCUIT), (bos[model], "first_token", CLASSIFY))
        out[model] = tuple(
            rows.loc[(rows["name"] == name) & (rows[cls] >= threshold), "tokens"].min() / rows["tokens"].max()
            for name, cls, threshold in events
        )
    return out


def induction_forms(published, printed):
    """Share of training until the top induction head passes 50x; printed: [least, most] per cent."""
    shares = {m: induction for m, (induction, _) in _formation(published).items()}
    ends = 100 * min(shares.values()), 100 * max(shares.values())
    return all(map(matches, ends, printed)), {"shares": shares}


def bos_forms_later(published):
    """Whether the listed BOS heads pass 30x after induction, at shares of training that differ tenfold."""
    found = _formation(published)
    shares = {m: bos for m, (_, bos) in found.items()}
    ratio = max(shares.values()) / min(shares.values())
    agrees = all(bos > induction for induction, bos in found.values()) and ratio >= 10 * (1 - APPROXIMATE)
    return agrees, {"shares": shares, "ratio": ratio}
