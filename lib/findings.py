"""The five findings: head tables in, numbers and a verdict out.

Each rule stands here once, in words (what the decorator is given) and in code (the
function under it).  A finding function takes

    heads: lib.heads.trajectory, one row a head and revision, of one model
    at: the revision that is judged, in the light of those up to it
    thresholds: lib.panel.Thresholds
    counterpart: the paper's model whose claim applies, or None
    baseline: "paper" or "clean"

and returns a Finding.  Functions are pure; nothing here reads a file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from lib.metrics import CLASSES
from lib.words import join, name_of, percent, plural, times, tokens_text

HOLDS, FAILS, UNDETERMINED = "holds", "fails", "undetermined"
VERDICTS = (HOLDS, FAILS, UNDETERMINED)


@dataclass(frozen=True)
class Finding:
    """What one model shows for one finding at one revision.

    reason: one sentence.  statement: a few sentences of Markdown rendered from the
    numbers.  numbers: plain Python values.  table: what a reader may want to check.
    clean: the verdict and reason under the clean baseline, filled in by evaluate.
    """

    id: str
    verdict: str
    reason: str
    statement: str
    numbers: dict
    table: pd.DataFrame = field(repr=False)
    clean: tuple[str, str] | None = None


@dataclass(frozen=True)
class Rule:
    """A finding's title, the paper's claim, the rule of its verdict in words, and the rule in code."""

    id: str
    title: str
    claim: str
    words: dict[str, str]
    function: Callable


FINDINGS: dict[str, Rule] = {}


def finding(id, title, claim, **words):
    """Register a function as the rule of a finding; words says when it holds, fails and is undetermined."""

    def register(function):
        FINDINGS[id] = Rule(id, title, claim, words, function)
        return function

    return register


def evaluate(id, heads, at, thresholds, counterpart=None):
    """The finding under the paper's baseline, with the verdict under the clean one beside it."""
    function = FINDINGS[id].function
    paper, clean = (
        function(heads, at, thresholds, counterpart=counterpart, baseline=baseline) for baseline in ("paper", "clean")
    )
    return replace(paper, clean=(clean.verdict, clean.reason))


def panel_verdict(findings):
    """One verdict for several models: {model label: Finding at its last revision} -> (verdict, reason).

    Holds if it holds for every model, fails if it fails for any, else undetermined.
    """
    by_verdict = {v: [label for label, f in findings.items() if f.verdict == v] for v in VERDICTS}
    if len(by_verdict[HOLDS]) == len(findings):
        verdict = HOLDS
    else:
        verdict = FAILS if by_verdict[FAILS] else UNDETERMINED
    verb = {HOLDS: "holds", FAILS: "fails", UNDETERMINED: "is undetermined"}
    counts = [f"{verb[v]} for {join(labels)}" for v, labels in by_verdict.items() if labels]
    return verdict, f"It {join(counts)}."


# Counting ------------------------------------------------------------------------


def selectivity_of(heads, cls, baseline="paper"):
    """The selectivity column of a class under a baseline."""
    return heads[f"selectivity_{cls}" if baseline == "paper" else f"selectivity_clean_{cls}"]


def is_bos(heads, thresholds, baseline="paper"):
    """BOS heads as the paper's tables count them: any head with first-token >= 30x."""
    return selectivity_of(heads, "first_token", baseline) >= thresholds.classify


def best_class(heads, thresholds, baseline="paper"):
    """Class of each head as the paper's text defines it: highest selectivity if >= 30x, else unclassified."""
    values = np.stack([selectivity_of(heads, c, baseline) for c in CLASSES], axis=1)
    names = np.array(CLASSES, dtype=object)[values.argmax(axis=1)]
    return pd.Series(np.where(values.max(axis=1) >= thresholds.classify, names, "unclassified"), index=heads.index)


def in_circuit(heads, threshold, baseline="paper", cls="induction"):
    """Heads past the circuit threshold of a class, whatever their best class is."""
    return selectivity_of(heads, cls, baseline) >= threshold


def head_set(rows):
    """{(layer, head)} of some rows."""
    return {(int(layer), int(head)) for layer, head in zip(rows["layer"], rows["head"])}


def by_revision(heads, mask):
    """Count of heads that satisfy a mask at each revision: Series over step."""
    return mask.groupby(heads["step"]).sum().astype(int)


def bos_curve(heads, thresholds):
    """BOS fraction at every revision, counted three ways: one row a revision.

    Columns revision, tokens, heads, and as fractions of all heads: paper, clean
    (any head >= 30x under that baseline), best_class and mass (>= 30x under the
    paper's baseline and at least the mass floor).
    """
    paper = is_bos(heads, thresholds)
    masks = {
        "paper": paper,
        "clean": is_bos(heads, thresholds, "clean"),
        "best_class": best_class(heads, thresholds) == "first_token",
        "mass": paper & (heads["attention_first_token"] >= thresholds.mass_floor),
    }
    steps = heads.groupby("step")
    curve = steps[["revision", "tokens"]].first().assign(heads=steps.size())
    return curve.assign(**{k: m.groupby(heads["step"]).mean() for k, m in masks.items()}).reset_index(drop=True)


def split(heads, at):
    """(history up to and including `at`, rows at `at`, rows at the last revision)."""
    step = heads.loc[heads["revision"] == at, "step"]
    if step.empty:
        raise ValueError(f"no revision {at!r} among {', '.join(heads['revision'].unique())}")
    step = step.iloc[0]
    return heads[heads["step"] <= step], heads[heads["step"] == step], heads[heads["step"] == heads["step"].max()]


# F1 ------------------------------------------------------------------------------

FLOOR_LAYERS = (0, 1)


@finding(
    "F1",
    "The zero-BOS floor",
    "Layers 0 and 1 hold no BOS-attractor head at any of 10 revisions of any of 3 models.",
    holds="no head of layers 0 and 1 is a BOS head (first-token selectivity of 30x or more) at any revision up to "
    "this one, while at least one deeper head has been",
    fails="a head of layer 0 or 1 is a BOS head at some revision up to this one",
    undetermined="no head of any layer has been a BOS head so far: a floor says nothing before there is a house on it",
)
def zero_bos_floor(heads, at, thresholds, *, counterpart=None, baseline="paper"):
    """F1: BOS heads a layer, and whether layers 0 and 1 stay without."""
    history, now, _ = split(heads, at)
    floor = history["layer"].isin(FLOOR_LAYERS)
    bos = is_bos(history, thresholds, baseline)
    first = selectivity_of(history, "first_token", baseline)
    highest = history.loc[first[floor].idxmax()]
    highest_value = first[highest.name]
    highest_text = (
        f"{name_of(highest['layer'], highest['head'])} with {times(highest_value)} "
        f"({percent(highest.attention_first_token)} of its attention) at {highest.revision}"
    )
    n_revisions = history["step"].nunique()
    if (bos & floor).any():
        verdict = FAILS
        n = len(head_set(history[bos & floor]))
        reason = f"In layers 0 and 1, {plural(n, 'head')} passed 30x at some revision up to here, the highest {highest_text}."
    elif bos.any():
        verdict = HOLDS
        reason = f"No head of layers 0 and 1 reached 30x at {plural(n_revisions, 'revision')} up to here (highest: {highest_text}), while deeper layers held BOS heads."
    else:
        verdict = UNDETERMINED
        reason = f"No layer has held a BOS head so far, so that layers 0 and 1 are empty says nothing (highest there: {highest_text})."

    mask, clean = is_bos(now, thresholds), is_bos(now, thresholds, "clean")
    best = best_class(now, thresholds) == "first_token"
    thin = mask & (now["attention_first_token"] < thresholds.mass_floor)
    by_layer = now.groupby("layer")
    table = pd.DataFrame(
        {
            "heads": by_layer.size(),
            "BOS heads (paper baseline)": mask.groupby(now["layer"]).sum(),
            "BOS heads (clean baseline)": clean.groupby(now["layer"]).sum(),
            "by best class": best.groupby(now["layer"]).sum(),
            f"past 30x with under {percent(thresholds.mass_floor)} of the attention": thin.groupby(now["layer"]).sum(),
            "highest selectivity": by_layer["selectivity_first_token"].max().map(times),
            "highest attention": by_layer["attention_first_token"].max().map(percent),
        }
    ).reset_index()
    where = [f"layer {layer} holds {n}" for layer, n in mask.groupby(now["layer"]).sum().items() if n]
    statement = (
        f"At this checkpoint {plural(int(mask.sum()), 'head')} of {len(now)} "
        f"{'is a BOS head' if mask.sum() == 1 else 'are BOS heads'}"
        + (f" ({join(where)})" if where else "")
        + f". Under the clean baseline the count is {int(clean.sum())}, by best class {int(best.sum())}."
    )
    if thin.any():
        names = join(name_of(*h) for h in sorted(head_set(now[thin])))
        statement += (
            f" With under {percent(thresholds.mass_floor)} of its attention on the first token, a ratio past 30x "
            f"says more about a tiny baseline than about a sink: so it is with {names}."
        )
    numbers = {
        "bos_heads": int(is_bos(now, thresholds, baseline).sum()),
        "bos_heads_by_layer": [int(n) for n in is_bos(now, thresholds, baseline).groupby(now["layer"]).sum()],
        "floor_bos_heads_so_far": len(head_set(history[bos & floor])),
        "highest_floor_selectivity": float(highest_value),
        "thin_bos_heads": int(thin.sum()),
    }
    return Finding("F1", verdict, reason, statement, numbers, table)


# F2 ------------------------------------------------------------------------------

CLAIMED_SHAPE = {"pythia-1b": "ramp", "olmo-1b-0724": "jump", "olmoe-1b-7b-0924": "ramp"}
FLAT_BELOW = 0.10
JUMP_SHARE = 0.5


def shape_of(fractions):
    """Shape of a BOS curve: (shape, index of the revision that ends the largest step, its size).

    flat: the fraction never reaches 10 %.  jump: one step between neighbouring
    revisions makes at least half of the whole rise.  ramp: anything else.  The
    published curves come out as the paper names them: its largest steps make 33 %
    (Pythia), 78 % (OLMo) and 37 % (OLMoE) of the rise.
    """
    fractions = np.asarray(fractions, dtype=float)
    steps = np.diff(fractions)
    if len(steps) == 0:
        return "flat" if fractions.max() < FLAT_BELOW else "ramp", 0, 0.0
    largest = int(steps.argmax())
    if fractions.max() < FLAT_BELOW:
        shape = "flat"
    else:
        rise = fractions.max() - fractions[0]
        shape = "jump" if steps[largest] > 0 and steps[largest] >= JUMP_SHARE * rise else "ramp"
    return shape, largest + 1, float(steps[largest])


@finding(
    "F2",
    "Three shapes of sink growth",
    "The fraction of BOS-attractor heads grows in three shapes: Pythia ramps from 0 to 57.8 %; OLMo jumps from 7.4 % "
    "to 70.3 % between 117B and 264B tokens and ends at 80.9 %; OLMoE ramps from 3.5 % (20B) to 75.8 % (5117B).",
    holds="the curve up to this revision has the shape that the paper gives to the model's counterpart: a jump if one "
    "step between neighbouring revisions makes at least half of the whole rise, a ramp if none does",
    fails="the curve has the other shape",
    undetermined="the fraction has never reached 10 %; or its largest step is the newest and training goes on, so that "
    "nobody can know what follows; or the paper makes no claim about such a model",
)
def sink_shapes(heads, at, thresholds, *, counterpart=None, baseline="paper"):
    """F2: BOS fraction over training, its largest step and its shape."""
    history, _, final = split(heads, at)
    curve = bos_curve(history, thresholds)
    fractions = curve[baseline].to_numpy()
    shape, end, size = shape_of(fractions)
    claimed = CLAIMED_SHAPE.get(counterpart)
    is_last = at == final["revision"].iloc[0]
    step_text = (
        f"from {percent(fractions[end - 1])} to {percent(fractions[end])} between {curve.revision[end - 1]} "
        f"and {curve.revision[end]}"
        if end
        else "none yet"
    )
    if shape == "flat":
        verdict = UNDETERMINED
        reason = f"The fraction has not reached 10 % (highest: {percent(fractions.max())}), too little to have a shape."
    elif end == len(curve) - 1 and not is_last:
        verdict = UNDETERMINED
        reason = f"The largest step is the newest one ({step_text}): whether the rise goes on is not known here."
    elif claimed is None:
        verdict = UNDETERMINED
        reason = f"The curve is a {shape} (largest step {step_text}); the paper makes no claim about such a model."
    else:
        verdict = HOLDS if shape == claimed else FAILS
        rise = fractions.max() - fractions[0]
        reason = (
            f"The paper says {claimed}; here the largest step ({step_text}) makes "
            f"{percent(size / rise) if rise > 0 else 'none'} of the rise: a {shape}."
        )
    table = pd.DataFrame(
        {
            "revision": curve.revision,
            "tokens": curve.tokens.map(tokens_text),
            "BOS heads, paper": curve.paper.map(percent),
            "BOS heads, clean": curve.clean.map(percent),
            "by best class": curve.best_class.map(percent),
            f"past 30x with {percent(thresholds.mass_floor)} of the attention or more": curve.mass.map(percent),
        }
    )
    statement = (
        f"Up to here the fraction of BOS heads has gone from {percent(fractions[0])} to {percent(fractions[-1])}"
        f"{'' if fractions[-1] == fractions.max() else f', with a peak of {percent(fractions.max())}'}. "
        + (f"The largest step between neighbouring revisions is {step_text}. " if size > 0 else "It has not risen. ")
        + f"Counted with the clean baseline it stands at {percent(curve.clean.iloc[-1])}, "
        f"by best class at {percent(curve.best_class.iloc[-1])}."
    )
    numbers = {
        "shape": shape,
        "claimed_shape": claimed,
        "fraction": float(fractions[-1]),
        "peak": float(fractions.max()),
        "largest_step": size,
        "largest_step_to": str(curve.revision[end]),
    }
    return Finding("F2", verdict, reason, statement, numbers, table)


# F3 ------------------------------------------------------------------------------

INDUCTION_HEADS = 3
SINK_FRACTION = 0.50


def milestones(heads, thresholds, baseline="paper"):
    """First revision at which each milestone of the paper is met: one row a milestone.

    Columns key, milestone, step, revision, tokens; the last three are missing where
    it is not met.
    """
    induction = by_revision(heads, in_circuit(heads, thresholds.induction_circuit, baseline))
    bos = is_bos(heads, thresholds, baseline).groupby(heads["step"]).mean()
    previous = by_revision(heads, in_circuit(heads, thresholds.classify, baseline, "previous_token"))
    to_self = by_revision(heads, in_circuit(heads, thresholds.classify, baseline, "self"))
    met = {f"induction_{n}": (f"induction circuit of {n} heads or more", induction >= n) for n in (INDUCTION_HEADS, 5)}
    met |= {
        f"bos_{p}": (f"BOS heads at {p} % or more", bos >= p / 100) for p in (10, 30, round(100 * SINK_FRACTION), 70)
    }
    met["previous_token_30"] = ("30 previous-token heads or more", previous >= 30)
    met["self_30"] = ("30 self heads or more", to_self >= 30)
    revisions = heads.groupby("step")[["revision", "tokens"]].first()
    rows = []
    for key, (text, reached) in met.items():
        step = reached.idxmax() if reached.any() else None
        at = {"revision": None, "tokens": None} if step is None else revisions.loc[step].to_dict()
        rows.append({"key": key, "milestone": text, "step": step, **at})
    return pd.DataFrame(rows).astype({"step": "Int64", "tokens": "Int64"})


@finding(
    "F3",
    "Induction comes first",
    "Induction circuits form before attention sinks: at 23B tokens against 264B for half of the heads in OLMo (11.5x), "
    "20B against 419B in OLMoE (21x), about 6B against 300B in Pythia.",
    holds="the induction circuit has 3 heads or more at an earlier revision than the one at which BOS heads make half "
    "of all heads",
    fails="BOS heads make half of all heads at an earlier revision",
    undetermined="only the induction circuit has been reached, or neither, or both at the same revision",
)
def induction_first(heads, at, thresholds, *, counterpart=None, baseline="paper"):
    """F3: which milestones are met up to this revision, and the gap in tokens."""
    history, now, _ = split(heads, at)
    met = milestones(history, thresholds, baseline).set_index("key")
    induction, sink = met.loc[f"induction_{INDUCTION_HEADS}"], met.loc[f"bos_{round(100 * SINK_FRACTION)}"]
    has_induction, has_sink = not pd.isna(induction.step), not pd.isna(sink.step)
    now_tokens = int(now["tokens"].iloc[0])
    gap = None
    if has_induction and has_sink and induction.tokens:
        gap = float(sink.tokens / induction.tokens)
    open_gap = float(now_tokens / induction.tokens) if has_induction and not has_sink and induction.tokens else None
    censored = has_induction and induction.step == 0
    at_least = "at least " if censored else ""
    if has_induction and has_sink:
        where = f"induction at {induction.revision}, half of the heads BOS at {sink.revision}"
        if induction.step < sink.step:
            verdict = HOLDS
            reason = f"Induction came first ({where})" + (f", {at_least}{times(gap)} fewer tokens." if gap else ".")
        elif induction.step > sink.step:
            verdict, reason = FAILS, f"The sinks came first ({where})."
        else:
            verdict, reason = UNDETERMINED, f"Both are first seen at {sink.revision}: the panel cannot order them."
    elif has_sink:
        verdict = FAILS
        reason = f"Half of the heads were BOS heads at {sink.revision}, and no induction circuit of 3 heads has formed."
    elif has_induction:
        verdict = UNDETERMINED
        reason = (
            f"The induction circuit stood at {induction.revision}; BOS heads have not reached half of all heads"
            + (f", so if they ever do, the gap is {open_gap:.3g}x or more." if open_gap and open_gap > 1 else ".")
        )
    else:
        verdict, reason = UNDETERMINED, "Neither an induction circuit of 3 heads nor 50 % of BOS heads has been seen."
    n_heads = len(now)
    table = pd.DataFrame(
        {
            "milestone": met.milestone,
            "first revision": met.revision.fillna("not reached"),
            "tokens": [tokens_text(t) if not pd.isna(t) else "–" for t in met.tokens],
            "after induction": [
                f"{t / induction.tokens:.3g}x" if has_induction and induction.tokens and not pd.isna(t) else "–"
                for t in met.tokens
            ],
        }
    ).reset_index(drop=True)
    n_circuit = int(in_circuit(now, thresholds.induction_circuit, baseline).sum())
    fraction = float(is_bos(now, thresholds, baseline).mean())
    reached = int(met.step.notna().sum())
    statement = (
        f"Milestones reached up to here: {reached} of {len(met)}. At this checkpoint the induction circuit has "
        f"{plural(n_circuit, 'head')} and {percent(fraction)} of the {n_heads} heads are BOS heads."
    )
    if n_heads < 30:
        statement += f" (The two milestones of 30 heads cannot be met by a model of {n_heads} heads.)"
    numbers = {
        "milestones": {k: None if pd.isna(r) else str(r) for k, r in met.revision.items()},
        "gap": gap,
        "open_gap": open_gap,
        "left_censored": bool(censored),
        "induction_heads": n_circuit,
        "bos_fraction": fraction,
    }
    return Finding("F3", verdict, reason, statement, numbers, table)


# F4 ------------------------------------------------------------------------------

RECALL = 2 / 3
EARLY = 0.02


def circuit_recall(heads, threshold, baseline="paper"):
    """Recall and precision of the induction circuit against the last revision's, one row a revision.

    Columns revision, tokens, training (share of the panel's last tokens), circuit
    (heads past the threshold), shared (also in the last circuit), recall, precision
    (missing where the circuit is empty).
    """
    circuits = {step: head_set(rows[in_circuit(rows, threshold, baseline)]) for step, rows in heads.groupby("step")}
    final = circuits[max(circuits)]
    out = heads.groupby("step")[["revision", "tokens"]].first()
    out["training"] = out.tokens / out.tokens.max()
    out["circuit"] = [len(circuits[s]) for s in out.index]
    out["shared"] = [len(circuits[s] & final) for s in out.index]
    out["recall"] = out.shared / len(final) if final else np.nan
    out["precision"] = out.shared / out.circuit.where(out.circuit > 0)
    return out


@finding(
    "F4",
    "The circuit is found early",
    "Two thirds of the final induction circuit is found within 0.3 to 2 % of training: OLMo at 10B tokens, OLMoE at "
    "41B, Pythia at 6B.",
    holds="recall of the final induction circuit (the heads past 50x at the last revision) reaches two thirds at a "
    "revision within the first 2 % of training",
    fails="it is reached only later, or 2 % of training has passed without it",
    undetermined="the final circuit has fewer than 3 heads, or neither has happened yet",
)
def early_circuit(heads, at, thresholds, *, counterpart=None, baseline="paper"):
    """F4: recall and precision of this revision's circuit against the final one."""
    history, now, final = split(heads, at)
    curve = circuit_recall(heads, thresholds.induction_circuit, baseline)
    lower = circuit_recall(heads, thresholds.classify, baseline)
    n_final = int(curve.shared.iloc[-1])
    here = curve.loc[now["step"].iloc[0]]
    so_far = curve.loc[: now["step"].iloc[0]]
    reached = so_far[so_far.recall >= RECALL - 1e-9]
    first = reached.iloc[0] if len(reached) else None
    if n_final < INDUCTION_HEADS:
        verdict = UNDETERMINED
        reason = f"The final circuit has {plural(n_final, 'head')}: fewer than 3 cannot tell two thirds from one."
    elif first is not None:
        verdict = HOLDS if first.training <= EARLY else FAILS
        reason = (
            f"Recall reached {first.shared} of {n_final} heads at {first.revision}, "
            f"after {percent(first.training)} of training ({'within' if verdict == HOLDS else 'not within'} 2 %)."
        )
    elif here.training > EARLY:
        verdict = FAILS
        reason = f"After {percent(here.training)} of training the highest recall is {int(so_far.shared.max())} of {n_final} heads, below two thirds."
    else:
        verdict = UNDETERMINED
        reason = (
            f"Recall is {here.shared} of {n_final} heads, and only {percent(here.training)} of training has passed."
        )
    table = pd.DataFrame(
        {
            "revision": curve.revision,
            "training": curve.training.map(percent),
            "heads past 50x": curve.circuit,
            "of the final circuit": [f"{s} of {n_final}" for s in curve.shared],
            "recall": curve.recall.map(lambda v: "–" if pd.isna(v) else percent(v)),
            "precision": curve.precision.map(lambda v: "–" if pd.isna(v) else percent(v)),
            "recall at 30x": lower.recall.map(lambda v: "–" if pd.isna(v) else percent(v)),
        }
    ).loc[so_far.index]
    names = [name_of(*h) for h in sorted(head_set(final[in_circuit(final, thresholds.induction_circuit, baseline)]))]
    statement = (
        f"The final circuit has {plural(n_final, 'head')}" + (f" ({join(names)})" if names else "") + ". "
        f"After {percent(here.training)} of training {plural(int(here.circuit), 'head')} "
        f"{'is' if here.circuit == 1 else 'are'} past 50x"
        + (
            f", {here.shared} of them in the final circuit: recall {percent(here.recall)}, "
            f"precision {percent(here.precision)}."
            if here.circuit and n_final
            else "."
        )
    )
    numbers = {
        "final_circuit": names,
        "recall": None if pd.isna(here.recall) else float(here.recall),
        "precision": None if pd.isna(here.precision) else float(here.precision),
        "training": float(here.training),
        "reached_at": None if first is None else str(first.revision),
        "reached_training": None if first is None else float(first.training),
    }
    return Finding("F4", verdict, reason, statement, numbers, table.reset_index(drop=True))


# F5 ------------------------------------------------------------------------------


def spectral_leads(heads, thresholds, baseline="paper"):
    """When each head's PR is first elevated and its induction selectivity first passes 50x: one row a head.

    A head's PR is elevated from the first revision at which it is at least
    `pr_elevation` (2) times the median PR of all heads at the model's first
    revision.  Columns layer, head, elevated and crossed (step, missing if never),
    lead (revisions, negative if PR came later), lead_tokens (ratio of tokens at the
    crossing to tokens at the elevation, missing if that is undefined).
    """
    start = heads[heads["step"] == heads["step"].min()]
    level = thresholds.pr_elevation * start["pr"].median()
    tokens = heads.groupby("step")["tokens"].first()
    rows = []
    for (layer, head), rows_of in heads.groupby(["layer", "head"]):
        first = lambda mask: rows_of.loc[mask, "step"].min() if mask.any() else None  # noqa: E731
        elevated = first(rows_of["pr"] >= level)
        crossed = first(in_circuit(rows_of, thresholds.induction_circuit, baseline))
        lead = ratio = None
        if elevated is not None and crossed is not None:
            lead = crossed - elevated
            if tokens[elevated] > 0:
                ratio = tokens[crossed] / tokens[elevated]
        rows.append([layer, head, elevated, crossed, lead, ratio])
    leads = pd.DataFrame(rows, columns=["layer", "head", "elevated", "crossed", "lead", "lead_tokens"])
    return leads.astype({"elevated": "Int64", "crossed": "Int64", "lead": "Int64", "lead_tokens": "Float64"}), float(
        level
    )


@finding(
    "F5",
    "The spectral lead",
    "For each head of the final induction circuit, the participation ratio (PR) of its output is elevated at or before "
    "the revision where its selectivity crosses 50x (Pythia L4H4: 0.54B against 6.3B tokens, 12x).",
    holds="every head of the final circuit that has crossed 50x up to this revision had its PR elevated (at least 2 "
    "times the median of all heads at the first revision) at that revision or before",
    fails="one of them crossed 50x while its PR was not elevated",
    undetermined="no head of the final circuit has crossed yet; or all had at the first revision, where no lead can be "
    "read; or the elevated level lies above what Gaussian noise reaches, so that no head can attain it",
)
def spectral_lead(heads, at, thresholds, *, counterpart=None, baseline="paper"):
    """F5: PR against selectivity for the final circuit's heads, the lead, and the same for all other heads."""
    history, now, final = split(heads, at)
    leads, level = spectral_leads(history, thresholds, baseline)
    circuit = head_set(final[in_circuit(final, thresholds.induction_circuit, baseline)])
    inside = pd.Series([h in circuit for h in zip(leads["layer"], leads["head"])], index=leads.index)
    of_circuit, others = leads[inside], leads[~inside]
    ceiling = float(now["pr_ceiling"].iloc[0])
    crossed = of_circuit[of_circuit["crossed"].notna()]
    readable = crossed[crossed["crossed"] > 0]
    led = readable[(readable["lead"] >= 0).fillna(False)]
    behind = readable.drop(led.index)
    names = lambda rows: join(name_of(r.layer, r.head) for r in rows.itertuples())  # noqa: E731
    raised_others = float(others["elevated"].notna().mean()) if len(others) else None
    control = (
        f"; of the {len(others)} heads outside the circuit {percent(raised_others)} were elevated by this revision too"
        if raised_others is not None
        else ""
    )
    if not circuit:
        verdict, reason = UNDETERMINED, "The final induction circuit is empty: there is no head to follow."
    elif level > ceiling:
        verdict = UNDETERMINED
        reason = (
            f"At the first revision the median PR is already {level / thresholds.pr_elevation:.1f}; twice that is above "
            f"the {ceiling:.1f} of Gaussian noise in so few dimensions, so no head's PR can count as elevated."
        )
    elif crossed.empty:
        verdict, reason = UNDETERMINED, f"None of the {len(circuit)} heads of the final circuit has crossed 50x yet."
    elif readable.empty:
        verdict = UNDETERMINED
        reason = f"{names(crossed)} had crossed 50x at the first revision already, where no lead can be read."
    elif len(behind):
        verdict = FAILS
        reason = (
            f"{names(behind)} crossed 50x while PR was not elevated ({len(led)} of {len(readable)} did lead{control})."
        )
    else:
        verdict = HOLDS
        reason = (
            f"PR was elevated at or before the crossing in all {len(readable)} heads that crossed up to here{control}."
        )
    revision_of = history.groupby("step")["revision"].first()
    label = lambda step: "–" if pd.isna(step) else revision_of[step]  # noqa: E731
    here = now.set_index(["layer", "head"])
    at_head = [here.loc[(r.layer, r.head)] for r in of_circuit.itertuples()]
    column = "selectivity_induction" if baseline == "paper" else "selectivity_clean_induction"
    table = pd.DataFrame(
        {
            "head": [name_of(r.layer, r.head) for r in of_circuit.itertuples()],
            "selectivity here": [times(r[column]) for r in at_head],
            "PR here": [f"{r.pr:.2f}" for r in at_head],
            "PR centred": [f"{r.pr_centred:.2f}" for r in at_head],
            "share of ceiling": [percent(r.pr / r.pr_ceiling) for r in at_head],
            "PR elevated at": of_circuit["elevated"].map(label).to_list(),
            "crossed 50x at": of_circuit["crossed"].map(label).to_list(),
            "lead, revisions": ["–" if pd.isna(v) else str(v) for v in of_circuit["lead"]],
            "lead, tokens": ["–" if pd.isna(v) else f"{v:.3g}x" for v in of_circuit["lead_tokens"]],
        }
    )
    statement = (
        f"Heads of the final circuit: {len(circuit)}; crossed 50x up to here: {len(crossed)}; with elevated PR up to "
        f"here: {int(of_circuit['elevated'].notna().sum())}. Elevated means {level:.2f} or more, "
        f"{thresholds.pr_elevation:g} times the median of all heads at the first revision; "
        f"Gaussian noise of this size would read {ceiling:.2f}."
    )
    if raised_others is not None:
        statement += f" Among the {len(others)} heads outside the circuit, {percent(raised_others)} were elevated too."
    numbers = {
        "level": level,
        "ceiling": ceiling,
        "circuit": [name_of(*h) for h in sorted(circuit)],
        "crossed": len(crossed),
        "led": len(led),
        "behind": len(behind),
        "left_censored": len(crossed) - len(readable),
        "elevated_outside": raised_others,
        "leads": {name_of(r.layer, r.head): None if pd.isna(r.lead) else int(r.lead) for r in of_circuit.itertuples()},
    }
    return Finding("F5", verdict, reason, statement, numbers, table)
