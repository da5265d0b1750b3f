"""The published counts of the paper's 1B panel (book/data/published), checked on reading, and what follows from them.

The three tables are facts transcribed from the result files of the paper's author (repository
skydancerosel/spectral-probe-circuits, MIT licence; paper arXiv:2606.02378); book/data/published/README.md describes
them.  Everything below `load` is a pure function of a Published.  Steps count revisions from 0, tokens are tokens
(not billions), selectivities are times the paper's baseline.
"""

import csv
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pandas as pd
import yaml

from lib import findings, measure, panels
from lib.files import ROOT, UserError, nearest
from lib.formatting import name_of

DATA = ROOT / "book" / "data" / "published"

PANEL = yaml.safe_load(Path(__file__).with_name("published.yml").read_text(encoding="utf-8"))
MODELS = {model: spec["label"] for model, spec in PANEL["models"].items()}
SHORT = {model: spec["short"] for model, spec in PANEL["models"].items()}
REVISIONS = {model: spec["revisions"] for model, spec in PANEL["models"].items()}
RULES = PANEL["rules"]
LAYERS = 16
PAPER = panels.panel.Thresholds()  # whose defaults are the paper's
CLASSIFY, CIRCUIT = PAPER.classify, PAPER.induction_circuit
BOS_MILESTONES = (0.10, 0.30, findings.F3.SINK_FRACTION, 0.70)

HEADERS = {
    "published_layer_counts.csv": (
        "model", "revision", "tokens_billion", "layer", "heads_in_layer", "bos_heads_at_30x", "induction_heads_at_30x",
    ),
    "published_selectivity.csv": ("model", "revision", "layer", "head", *measure.metrics.CLASSES),
    "published_pr.csv": ("model", "revision", "layer", "head", "pr"),
}  # fmt: skip


class PublishedError(UserError, ValueError):
    """A published table that cannot be used; the message says file, row, column, what was found and expected."""


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: data frames have no truth value
class Published:
    """The three tables as data frames, rows in the panel's order, each with `step` (0 to 9) and `tokens` added.

    layer_counts: one row a model, revision and layer (480).  selectivity, pr: one row a
    model, revision and listed head (160), with a column `name` ("L4H4").
    """

    layer_counts: pd.DataFrame
    selectivity: pd.DataFrame
    pr: pd.DataFrame


# Many readers start from the same frames: these are computed once a Published, and not to be changed in place.
once = lru_cache(maxsize=16)


# Reading --------------------------------------------------------------------------


def load(folder=DATA):
    """Read and check the three tables of a folder; returns a Published.

    Rows must stand in the panel's order, which is what makes a missing one noticed.  Raises PublishedError for a wrong
    header; rows that are missing, repeated, unknown or out of order; cells that are no finite numbers; counts outside
    0 to heads_in_layer; and tokens that differ within a revision or do not increase.
    """
    revisions = [(model, name, spec) for model, spec in PANEL["models"].items() for name in spec["revisions"]]
    by_layer = [(model, name, str(layer)) for model, name, _ in revisions for layer in range(LAYERS)]
    by_head = [(model, name, *map(str, head)) for model, name, spec in revisions for head in spec["listed"]]
    counts = _read(folder / "published_layer_counts.csv", by_layer)
    _check_tokens(folder / "published_layer_counts.csv", counts)
    steps = {(m, r): step for m, names in REVISIONS.items() for step, r in enumerate(names)}
    tokens = {(m, r): round(t * 1e9) for m, r, t in zip(counts["model"], counts["revision"], counts["tokens_billion"])}
    frames = [counts, *(_read(folder / f"published_{name}.csv", by_head) for name in ("selectivity", "pr"))]
    for frame in frames:
        keys = list(zip(frame["model"], frame["revision"]))
        frame.insert(2, "step", [steps[key] for key in keys])
        frame.insert(3, "tokens", [tokens[key] for key in keys])
        if "head" in frame:
            frame.insert(6, "name", [name_of(*h) for h in zip(frame["layer"], frame["head"])])
    return Published(*frames)


def _read(path, keys):
    """One table as a data frame; keys are the (model, revision, layer[, head]) of its rows, in order."""
    header = HEADERS[path.name]
    try:
        with open(path, encoding="utf-8", newline="") as file:
            found_header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PublishedError(f"{path.name}: cannot be read ({error}); expected {path}, a CSV file in UTF-8") from None
    for i in range(max(len(header), len(found_header))):
        found, expected = (names[i] if i < len(names) else "nothing" for names in (found_header, header))
        if found != expected:
            raise _refuse(path, 1, f"{i + 1} of the header", found, expected)
    key_columns = [header.index(c) for c in ("model", "revision", "layer", "head") if c in header]
    rows, seen = [], set()
    for line, cells in enumerate(lines, start=2):
        if len(cells) != len(header):
            column = header[min(len(cells), len(header) - 1)]
            raise _refuse(path, line, column, f"{len(cells)} cells in the row", f"{len(header)}")
        key = tuple(cells[i] for i in key_columns)
        wanted = keys[line - 2] if line - 2 < len(keys) else None
        if key != wanted:
            raise _misplaced(path, line, [header[i] for i in key_columns], key, wanted, keys, seen)
        seen.add(key)
        rows.append([_cell(path, line, column, text, key[0]) for column, text in zip(header, cells)])
    if len(rows) < len(keys):
        raise _refuse(path, len(rows) + 2, "model", "the end of the file", " ".join(keys[len(rows)]))
    return pd.DataFrame(rows, columns=list(header))


def _refuse(path, line, column, found, expected, more=""):
    """The error of one cell."""
    return PublishedError(f"{path.name}, row {line}, column {column}: found {found}; expected {expected}{more}")


def _misplaced(path, line, columns, key, wanted, keys, seen):
    """The error of a row that is not the one due here: repeated, unknown, or after a gap."""
    if wanted is None or key in seen:
        again = ("again", "once") if key in seen else ("after the last row", f"no more than {len(keys)} rows")
        return _refuse(path, line, columns[-1], f"{' '.join(key)} {again[0]}", again[1])
    i = next(i for i in range(len(key)) if key[i] != wanted[i])
    known = sorted({k[i] for k in keys if k[:i] == wanted[:i]})
    more = " (rows are missing here or out of order)" if key[i] in known else f". {nearest(key[i], known)}"
    return _refuse(path, line, columns[i], repr(key[i]), repr(wanted[i]), more)


def _cell(path, line, column, text, model):
    """One cell as text, an integer or a finite number."""
    if column in ("model", "revision"):
        return text
    if column in ("layer", "head") or column.endswith(("_at_30x", "_in_layer")):
        if not (text.isascii() and text.isdigit()):
            raise _refuse(path, line, column, repr(text), "a whole number, 0 or more")
        most = PANEL["models"][model]["heads_in_layer"]
        if column == "heads_in_layer" and int(text) != most:
            raise _refuse(path, line, column, text, f"{most}, the heads a layer of {model}")
        if column.endswith("_at_30x") and int(text) > most:
            raise _refuse(path, line, column, text, f"at most heads_in_layer, {most}")
        return int(text)
    least = 1.0 if column == "pr" else 0.0  # exp(entropy) of a spectrum is at least 1
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        raise _refuse(path, line, column, repr(text), f"a finite number, {least:g} or more")
    return value


def _check_tokens(path, counts):
    """One number of tokens a revision, more at every next one."""
    before = None
    for line, row in enumerate(counts.itertuples(), start=2):
        if row.layer == 0:
            if before is not None and row.model == before.model and row.tokens_billion <= before.tokens_billion:
                expected = f"more than the {before.tokens_billion:g} of {before.revision}"
                raise _refuse(path, line, "tokens_billion", f"{row.tokens_billion:g}", expected)
            before = row
        elif row.tokens_billion != before.tokens_billion:
            expected = f"{before.tokens_billion:g}, as in layer 0 of {row.revision}"
            raise _refuse(path, line, "tokens_billion", f"{row.tokens_billion:g}", expected)


# F1, F2 ---------------------------------------------------------------------------


@once
def bos_by_layer(published):
    """F1: head counts of every layer at every revision, one row a model, revision and layer (480 rows).

    Columns model, revision, step, tokens, layer, heads (in the layer), bos_heads (any head with first-token selectivity
    of 30x or more, whatever its highest class), induction_heads_at_30x.  Source: published_layer_counts.csv.
    """
    names = {"heads_in_layer": "heads", "bos_heads_at_30x": "bos_heads"}
    columns = ["model", "revision", "step", "tokens", "layer", "heads", "bos_heads", "induction_heads_at_30x"]
    return published.layer_counts.rename(columns=names)[columns]


@once
def curves(published):
    """F2, F3: head counts of the whole model, one row a model and revision (30 rows).

    Columns model, step, revision, tokens, heads (in the model), bos_heads (past 30x on the first token, any class),
    bos_fraction (of all heads, 0 to 1), induction_heads_at_30x (of all heads) and induction_heads_at_50x.  The last
    counts among the heads of the final circuit only, since no others' selectivities are in the tables: it is a LOWER
    BOUND of the heads past 50x, exact at the last revision.  induction_heads_at_50x_most is the upper bound that the
    tables give: heads past 30x less those listed that are past 30x but not past 50x (at the last revision both agree).
    Source: published_layer_counts.csv, published_selectivity.csv.
    """
    keys = ["model", "step", "revision", "tokens"]
    sums = bos_by_layer(published).groupby(keys, sort=False)[["heads", "bos_heads", "induction_heads_at_30x"]].sum()
    out = sums.reset_index()
    out.insert(6, "bos_fraction", out["bos_heads"] / out["heads"])
    listed = published.selectivity
    past = listed["induction"] >= CIRCUIT
    between = (listed["induction"] >= CLASSIFY) & ~past
    at = pd.MultiIndex.from_frame(out[["model", "step"]])

    def count(mask):
        return mask.groupby([listed["model"], listed["step"]]).sum().loc[at].to_numpy()

    out["induction_heads_at_50x"] = count(past & _in_final_circuit(listed))
    most = out["induction_heads_at_30x"] - count(between)
    last = out["step"] == out.groupby("model")["step"].transform("max")
    return out.assign(induction_heads_at_50x_most=most.where(~last, out["induction_heads_at_50x"]))


@once
def curve_of(published, model):
    """The rows of `curves` of one model, indexed by step."""
    rows = curves(published)
    return rows[rows["model"] == model].set_index("step")


@once
def counts_of(published, model):
    """BOS heads of one model: rows are its revisions in order, columns its layers."""
    rows = bos_by_layer(published)
    rows = rows[rows["model"] == model]
    return rows.pivot(index="step", columns="layer", values="bos_heads").set_axis(list(REVISIONS[model]))


# F3 -------------------------------------------------------------------------------

MILESTONES = {
    "induction_3_at_30x": "induction ≥ 3 heads at 30x (all heads)",
    "induction_5_at_30x": "induction ≥ 5 heads at 30x (all heads)",
    "induction_3_at_50x": "induction ≥ 3 heads at 50x (heads of the final circuit)",
    **{f"bos_{round(100 * x)}": f"BOS ≥ {round(100 * x)} % of heads at 30x" for x in BOS_MILESTONES},
}


@once
def milestones(published):
    """F3: the first revision at which each milestone is met, one row a model and milestone (21 rows).

    Columns model, key, milestone (in words), step, revision, tokens; the last three are missing where no revision meets
    it.  Keys as in MILESTONES.  At 50x only heads of the final circuit are counted, so that the true milestone may be
    earlier, never later.  Source: `curves`.
    """
    rows = []
    for model in MODELS:
        curve = curve_of(published, model)
        met = {f"induction_{n}_at_30x": curve["induction_heads_at_30x"] >= n for n in (3, 5)}
        met["induction_3_at_50x"] = curve["induction_heads_at_50x"] >= 3
        met |= {f"bos_{round(100 * x)}": curve["bos_fraction"] >= x for x in BOS_MILESTONES}
        rows += [
            [model, key, MILESTONES[key], *_first(curve.reset_index(), mask.to_numpy())] for key, mask in met.items()
        ]
    out = pd.DataFrame(rows, columns=["model", "key", "milestone", "step", "revision", "tokens"])
    return out.astype({"step": "Int64", "tokens": "Int64"})


@once
def gaps(published):
    """F3: tokens at which half of the heads are BOS heads over tokens at which induction has 3 heads.

    One row a model and induction criterion (6 rows).  Columns model, criterion ("30x": all heads; "50x": heads of the
    final circuit), induction_revision, induction_tokens, bos_revision, bos_tokens, gap (a ratio; below 1 where BOS came
    first) and at_least: the gap may be larger, because induction was met at the first revision already or because the
    criterion is 50x, which counts only part of the heads.  Source: `milestones`.
    """
    met = milestones(published).set_index(["model", "key"])
    rows = []
    for model in MODELS:
        bos = met.loc[(model, f"bos_{round(100 * findings.F3.SINK_FRACTION)}")]
        for criterion in ("30x", "50x"):
            induction = met.loc[(model, f"induction_3_at_{criterion}")]
            gap = bos["tokens"] / induction["tokens"]
            at_least = criterion == "50x" or (not pd.isna(induction["step"]) and induction["step"] == 0)
            dates = [event[field] for event in (induction, bos) for field in ("revision", "tokens")]
            rows.append([model, criterion, *dates, math.nan if pd.isna(gap) else float(gap), at_least])
    columns = [f"{event}_{field}" for event in ("induction", "bos") for field in ("revision", "tokens")]
    return pd.DataFrame(rows, columns=["model", "criterion", *columns, "gap", "at_least"])


# F4 -------------------------------------------------------------------------------


def last_revision(rows):
    """The rows of a table that are of the last revision."""
    return rows[rows["step"] == rows["step"].max()]


def head_rows(rows, model, name):
    """The rows of a table by head that are of one head, indexed by step."""
    return rows[(rows["model"] == model) & (rows["name"] == name)].set_index("step", drop=False)


def best_class(selectivity):
    """The class of the highest selectivity in each row of a table of selectivities."""
    return selectivity[list(measure.metrics.CLASSES)].idxmax(axis=1)


def _in_final_circuit(listed):
    """Mask over rows of a table by head: the head is past 50x induction at its model's last revision."""
    last = last_revision(listed)
    members = set(last.loc[last["induction"] >= CIRCUIT, ["model", "name"]].itertuples(index=False, name=None))
    return pd.Series([key in members for key in zip(listed["model"], listed["name"])], index=listed.index)


@once
def final_circuit(published):
    """The induction circuit of the last revision, one row a head past 50x (10 rows): columns model, layer, head, name.

    Source: published_selectivity.csv, which lists every such head.
    """
    listed = published.selectivity
    members = last_revision(listed[_in_final_circuit(listed)])
    return members[["model", "layer", "head", "name"]].reset_index(drop=True)


@once
def recall(published, threshold):
    """F4: share of the final circuit that is past a threshold (times the baseline), one row a model and revision.

    Columns model, step, revision, tokens, training (share of the last revision's tokens, 0 to 1), shared (heads of the
    final circuit past `threshold` at this revision), final (heads of the final circuit: past 50x at the last revision,
    whatever `threshold` is) and recall (shared / final).  Source: published_selectivity.csv.
    """
    listed = published.selectivity[_in_final_circuit(published.selectivity)]
    keys = ["model", "step", "revision", "tokens"]
    out = (listed["induction"] >= threshold).groupby([listed[k] for k in keys], sort=False).agg(["sum", "size"])
    out = out.set_axis(["shared", "final"], axis=1).reset_index()
    out.insert(4, "training", out["tokens"] / out.groupby("model")["tokens"].transform("max"))
    return out.assign(recall=out["shared"] / out["final"])


# F5 -------------------------------------------------------------------------------


def start_level(published, model):
    """The PR from which the rule `start` calls a head of this model elevated."""
    first = published.pr[(published.pr["model"] == model) & (published.pr["step"] == 0)]
    return PAPER.pr_elevation * float(first["pr"].median())


def elevated(published):
    """Whether each listed head's PR is elevated at each revision under each rule: published.pr with a column a rule.

    The paper sets no threshold for "elevated"; the rules are those of RULES, all relative to the 5 or 6 listed heads of
    a model, the only ones with a published PR.  Source: published_pr.csv.
    """
    pr = published.pr
    first = pr[pr["step"] == 0].set_index(["model", "name"])["pr"]
    own = first.loc[list(zip(pr["model"], pr["name"]))].to_numpy()
    peers = pr.groupby(["model", "step"])["pr"].transform(lambda values: values.quantile(findings.F5.PEERS))
    levels = pr["model"].map({model: start_level(published, model) for model in MODELS})
    return pr.assign(start=pr["pr"] >= levels, own=pr["pr"] >= findings.F5.OWN_ELEVATION * own, peers=pr["pr"] >= peers)


def event_leads(published, names, cls, threshold):
    """How far elevated PR comes before a class's selectivity passes a threshold, one row a head and rule.

    names: (model, name) pairs.  Columns model, layer, head, name, rule; elevated_step, elevated_revision,
    elevated_tokens (first revision with elevated PR); crossed_step, crossed_revision, crossed_tokens (first revision
    past the threshold), all missing if never; lead (revisions from elevation to crossing, negative if PR came later),
    lead_tokens (ratio of tokens), both missing if undefined; left_censored (past the threshold at the first revision
    already, so that no lead can be read and none is given); pr_from_start (elevated at the first revision already, so
    that the lead may be longer).
    """
    raised = elevated(published)
    rows = []
    for model, name in names:
        pr, selectivity = head_rows(raised, model, name), head_rows(published.selectivity, model, name)
        crossed = _first(selectivity, selectivity[cls] >= threshold)
        censored = crossed[0] == 0
        for rule in RULES:
            up = _first(pr, pr[rule])
            known = up[0] is not None and crossed[0] is not None and not censored
            lead, ratio = (crossed[0] - up[0], crossed[2] / up[2]) if known else (None, None)
            place = [model, *pr[["layer", "head"]].iloc[0], name, rule]
            rows.append([*place, *up, *crossed, lead, ratio, censored, up[0] == 0])
    columns = ["model", "layer", "head", "name", "rule"]
    columns += [f"{what}_{field}" for what in ("elevated", "crossed") for field in ("step", "revision", "tokens")]
    columns += ["lead", "lead_tokens", "left_censored", "pr_from_start"]
    whole = ["elevated_step", "elevated_tokens", "crossed_step", "crossed_tokens", "lead"]
    return pd.DataFrame(rows, columns=columns).astype({c: "Int64" for c in whole} | {"lead_tokens": "Float64"})


def _first(rows, mask):
    """(step, revision, tokens) of the first row in a mask, three times None if there is none."""
    if not mask.any():
        return None, None, None
    row = rows[mask].iloc[0]
    return int(row["step"]), row["revision"], int(row["tokens"])


@once
def leads(published):
    """F5: lead of elevated PR over induction selectivity of 50x for the ten heads of the final circuits (30 rows).

    Columns as in `event_leads`, one row a head and rule.  Source: published_pr.csv, published_selectivity.csv.
    """
    circuit = final_circuit(published)
    return event_leads(published, list(zip(circuit["model"], circuit["name"])), "induction", CIRCUIT)


@once
def null_leads(published):
    """F5: the same question for the six listed heads outside the final circuits, one row a head and rule (18 rows).

    Columns model, layer, head, name, best_class (highest class at the last revision), rule, elevated_step,
    elevated_revision, elevated_tokens (missing if never), crossings (circuit heads of the model whose crossing of 50x
    can be dated) and led: how many of these came no earlier than this head's elevation, that is, before how many
    crossings its PR too was elevated "at or before".  These six were picked as the most selective of their class: they
    are no random sample of other heads.  Source: published_pr.csv, published_selectivity.csv.
    """
    crossed = leads(published).query("rule == 'start' and not left_censored")
    raised = elevated(published)
    last = last_revision(published.selectivity)
    last = last.assign(best_class=best_class(last))
    rows = []
    for head in last[~_in_final_circuit(published.selectivity)[last.index]].itertuples():
        mine = head_rows(raised, head.model, head.name)
        crossings = crossed.loc[crossed["model"] == head.model, "crossed_step"]
        for rule in RULES:
            up = _first(mine, mine[rule])
            led = 0 if up[0] is None else int((crossings >= up[0]).sum())
            rows.append([head.model, head.layer, head.head, head.name, head.best_class, rule, *up, len(crossings), led])
    columns = ["model", "layer", "head", "name", "best_class", "rule"]
    columns += ["elevated_step", "elevated_revision", "elevated_tokens", "crossings", "led"]
    return pd.DataFrame(rows, columns=columns).astype({"elevated_step": "Int64", "elevated_tokens": "Int64"})
