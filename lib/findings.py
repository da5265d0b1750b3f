"""The five findings: trajectories of heads in, numbers and a verdict out.

Each rule stands here once, in words (what the decorator is given) and in code (the
function <finding>_rule, which the published figures of the paper are put through as
well).  A finding function takes

    heads: lib.counting.Trajectory of one model
    at: index of the revision that is judged, in the light of those up to it
    counting: lib.counting.Counting
    counterpart: the paper's model whose claim applies, or None

and returns a Judgement.  evaluate asks it under the paper's counting and again under
every other assumption, and on every resample of the sequences.  Functions are pure;
nothing here reads a file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from lib import bootstrap
from lib.counting import (
    PREFIX_MATCHING,
    SINK_MASS,
    Counting,
    by_layer,
    first_step,
    in_circuit,
    is_bos,
    members,
    selectivity_of,
)
from lib.counting import thin as thin_of
from lib.metrics import selectivity_column
from lib.words import join, name_of, percent, plural, sure, times, tokens_text

HOLDS, FAILS, UNDETERMINED = "holds", "fails", "undetermined"
VERDICTS = (HOLDS, FAILS, UNDETERMINED)


@dataclass(frozen=True)
class Judgement:
    """What a rule finds under one counting.

    reason: one sentence.  gist: the same fact in a few words, whatever was counted.
    numbers: plain Python values; None stands for "never" or "undefined".  write: a
    function of the numbers' intervals that gives the statement (a few sentences of
    Markdown) and the table of what a reader may want to check.
    """

    verdict: str
    reason: str
    gist: str
    numbers: dict
    write: Callable = field(repr=False)


@dataclass(frozen=True)
class Finding:
    """A judgement under the paper's counting, and how sure it is.

    survival: {assumption: (verdict, gist)}, the first being the judgement itself.
    sweeps: one row a threshold and counting, with the verdict.  intervals: {number:
    (low, high)} over resamples, for single numbers and lists.  support: share of the
    resamples with the same verdict, None if there are no resamples.
    """

    id: str
    verdict: str
    reason: str
    gist: str
    statement: str
    numbers: dict
    table: pd.DataFrame = field(repr=False)
    survival: dict = field(repr=False)
    sweeps: pd.DataFrame = field(repr=False)
    intervals: dict = field(repr=False)
    support: float | None


@dataclass(frozen=True)
class Rule:
    """A finding: title, the paper's claim, the rule of its verdict in words, and the function.

    claims: {the paper's model: its part of the claim}.  sweeps: the thresholds that
    decide it, as lib.panel.Thresholds calls them.
    """

    id: str
    title: str
    claim: str
    claims: dict[str, str]
    sweeps: tuple[str, ...]
    words: dict[str, str]
    function: Callable


FINDINGS: dict[str, Rule] = {}


def finding(id, title, claim, claims, sweeps, **words):
    """Register a function as a finding; words says when it holds, fails and is undetermined."""

    def register(function):
        FINDINGS[id] = Rule(id, title, claim, claims, sweeps, words, function)
        return function

    return register


# How sure ----------------------------------------------------------------------------

SWEEP = (10, 15, 20, 30, 40, 50, 70, 100)
SWEPT = {"classify": "first-token threshold", "induction_circuit": "induction threshold"}
COUNTINGS = {
    "as the paper counts": {},
    "clean baseline": {"baseline": "clean"},
    "by best class": {"by": "best_class"},
    "with attention mass": {"by": "with_mass"},
}


def assumptions(id, thresholds):
    """The countings a verdict is asked under: {words: Counting}, the paper's first."""
    base = Counting(thresholds)
    asked = {words: replace(base, **change) for words, change in COUNTINGS.items()}
    asked["mass instead of ratios"] = replace(base, by="mass")
    if id == "F5":
        for rule in list(ELEVATIONS)[1:]:
            asked[f"elevated: {ELEVATIONS[rule].title}"] = replace(base, elevation=rule)
    return asked


def explained(words, thresholds):
    """What an assumption of assumptions() means, in a phrase."""
    floor = percent(thresholds.mass_floor)
    return {
        "as the paper counts": f"paper's baseline; {times(thresholds.classify)} on the first token, "
        f"{times(thresholds.induction_circuit)} for induction",
        "clean baseline": "the same thresholds over positions that are no class's target",
        "by best class": "a head counts only where the class is its highest",
        "with attention mass": f"a head counts only with {floor} of its attention there, too",
        "mass instead of ratios": f"no ratio: sink mass over {SINK_MASS:g}, prefix-matching score over {PREFIX_MATCHING:g}",
    } .get(words) or next(e.text for e in ELEVATIONS.values() if words.endswith(e.title))  # fmt: skip


def evaluate(id, heads, at, thresholds, counterpart=None):
    """The finding at a revision, asked under every assumption.

    heads: Trajectory over the whole training.  at: a revision's name.
    """
    rule, at = FINDINGS[id], heads.step(at)
    ask = lambda heads, counting: rule.function(heads, at, counting, counterpart)  # noqa: E731
    survival = {words: ask(heads, counting) for words, counting in assumptions(id, thresholds).items()}
    judged = next(iter(survival.values()))
    draws = [ask(heads.draw(i), Counting(thresholds)) for i in range(heads.n_replicates)]
    intervals = _intervals(judged.numbers, [d.numbers for d in draws]) if draws else {}
    statement, table = judged.write(intervals)
    return Finding(
        id, judged.verdict, judged.reason, judged.gist, statement, judged.numbers, table,
        {words: (j.verdict, j.gist) for words, j in survival.items()},
        sweep(id, heads, at, thresholds, counterpart), intervals,
        float(np.mean([d.verdict == judged.verdict for d in draws])) if draws else None,
    )  # fmt: skip


def sweep(id, heads, at, thresholds, counterpart=None):
    """The verdict at every threshold from 10x to 100x under every assumption: one row each.

    Columns swept (a field of lib.panel.Thresholds), counting, threshold, verdict.
    """
    rule = FINDINGS[id]
    rows = [
        (swept, words, value, rule.function(heads, at, counting.at(swept, value), counterpart).verdict)
        for swept in rule.sweeps
        for words, counting in assumptions(id, thresholds).items()
        for value in SWEEP
    ]
    return pd.DataFrame(rows, columns=["swept", "counting", "threshold", "verdict"])


def survival_text(finding):
    """Whether a finding's verdict survives other assumptions, thresholds and resamples, in a few sentences."""
    first, *others = finding.survival
    same = [words for words in others if finding.survival[words][0] == finding.verdict]
    parts = []
    if same:
        parts.append(f"The verdict is the same under these assumptions: {join(same)}.")
    for words in others:
        verdict, gist = finding.survival[words]
        if verdict != finding.verdict:
            parts.append(f"Under *{words}* it would read **{verdict}** ({gist}).")
    for swept in finding.sweeps["swept"].unique():
        rows = finding.sweeps[(finding.sweeps["swept"] == swept) & (finding.sweeps["counting"] == first)]
        kept = rows.loc[rows["verdict"] == finding.verdict, "threshold"]
        if len(kept) == len(rows):
            text = f"every {SWEPT[swept]} from {times(SWEEP[0])} to {times(SWEEP[-1])} gives the same"
        else:
            changed = [f"{times(t)} ({v})" for t, v in zip(rows["threshold"], rows["verdict"]) if v != finding.verdict]
            text = f"the {SWEPT[swept]} matters: it would change at {join(changed)}"
        parts.append(f"As the paper counts, {text}.")
    if finding.support is not None:
        parts.append(f"Resampling the sequences gives the same verdict in {percent(finding.support)} of the resamples.")
    return " ".join(parts)


def _intervals(numbers, draws):
    """Percentile intervals of numbers and lists of numbers, None counting as beyond all numbers."""
    tail = (1 - bootstrap.LEVEL) / 2
    intervals = {}
    for name, value in numbers.items():
        drawn = [d[name] if isinstance(value, list) else [d[name]] for d in draws]
        plain = all(v is None or isinstance(v, (int, float)) for d in drawn for v in d)
        if not plain or not drawn[0] or len({len(d) for d in drawn}) != 1:
            continue  # names and other words, or lists whose length is itself uncertain
        table = np.array([[np.inf if v is None else v for v in d] for d in drawn], dtype=float)
        # An observed value, not one between two: counts stay counts, and never stays never.
        low, high = np.quantile(table, [tail, 1 - tail], axis=0, method="inverted_cdf")
        bounds = [[None if np.isinf(v) else float(v) for v in bound] for bound in (low, high)]
        intervals[name] = tuple(bounds) if isinstance(value, list) else (bounds[0][0], bounds[1][0])
    return intervals


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


# F1 ------------------------------------------------------------------------------

FLOOR_LAYERS = (0, 1)


def floor_rule(counts):
    """F1's verdict from BOS heads by revision and layer, [step, layer]: (verdict, gist)."""
    counts = np.asarray(counts)
    floor, deeper = (
        counts[:, : len(FLOOR_LAYERS)].sum(axis=1).max(),
        counts[:, len(FLOOR_LAYERS) :].sum(axis=1).max(initial=0),
    )
    verdict = FAILS if floor else HOLDS if deeper else UNDETERMINED
    return verdict, f"{floor or 'none'} in layers 0 and 1, up to {deeper} deeper"


@finding(
    "F1",
    "The zero-BOS floor",
    "Layers 0 and 1 hold no BOS-attractor head at any of 10 revisions of any of 3 models.",
    claims={m: "no BOS head in layers 0 and 1, at any of 10 revisions" for m in ("pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924")},
    sweeps=("classify",),
    holds="no head of layers 0 and 1 is a BOS head (first-token selectivity of 30x or more) at any revision up to "
    "this one, while at least one deeper head has been",
    fails="a head of layer 0 or 1 is a BOS head at some revision up to this one",
    undetermined="no head of any layer has been a BOS head so far: a floor says nothing before there is a house on it",
)  # fmt: skip
def zero_bos_floor(heads, at, counting, counterpart=None):
    """F1: BOS heads a layer, and whether layers 0 and 1 stay without."""
    history = heads.upto(at)
    floor = np.isin(heads.layer, FLOOR_LAYERS)
    bos = is_bos(history, counting)
    counts = by_layer(heads, bos)
    verdict, gist = floor_rule(counts)
    first = selectivity_of(history, "first_token", counting.baseline)
    step, head = np.unravel_index(np.where(floor, first, -np.inf).argmax(), first.shape)
    highest_text = (
        f"{name_of(heads.layer[head], heads.head[head])} with {times(first[step, head])} "
        f"({percent(heads['attention_first_token'][step, head])} of its attention) at {heads.names[step]}"
    )
    past = times(counting.thresholds.classify)
    if verdict == FAILS:
        n = int((bos & floor).any(axis=0).sum())
        reason = f"In layers 0 and 1, {plural(n, 'head')} passed {past} at some revision up to here, the highest {highest_text}."
    elif verdict == HOLDS:
        reason = f"No head of layers 0 and 1 reached {past} at {plural(at + 1, 'revision')} up to here (highest: {highest_text}), while deeper layers held BOS heads."
    else:
        reason = f"No layer has held a BOS head so far, so that layers 0 and 1 are empty says nothing (highest there: {highest_text})."
    numbers = {
        "bos_heads": int(bos[at].sum()),
        "bos_heads_by_layer": counts[at].tolist(),
        "floor_bos_heads_so_far": int((bos & floor).any(axis=0).sum()),
        "highest_floor_selectivity": float(first[step, head]),
    }

    def write(intervals):
        thresholds = counting.thresholds
        here = heads.upto(at)
        mask = is_bos(here, counting)[at]
        clean = is_bos(here, replace(counting, baseline="clean"))[at]
        of_best = is_bos(here, replace(counting, by="best_class"))[at]
        by_mass = is_bos(here, replace(counting, by="mass"))[at]
        thin = thin_of(here, "first_token", thresholds.classify, counting)[at]
        first, attention = here["selectivity_first_token"][at], here["attention_first_token"][at]
        layers = np.arange(heads.layer.max() + 1)
        bounds = intervals.get("bos_heads_by_layer")
        table = pd.DataFrame(
            {
                "layer": layers,
                "heads": by_layer(heads, np.ones(len(heads.layer))),
                "BOS heads (paper baseline)": [
                    sure(int(n), None if bounds is None else (bounds[0][i], bounds[1][i]))
                    for i, n in enumerate(by_layer(heads, mask))
                ],
                "BOS heads (clean baseline)": by_layer(heads, clean),
                "by best class": by_layer(heads, of_best),
                f"sink mass over {SINK_MASS:g}": by_layer(heads, by_mass),
                f"past {past} with under {percent(thresholds.mass_floor)} of the attention": by_layer(heads, thin),
                "highest selectivity": [times(first[heads.layer == n].max()) for n in layers],
                "highest attention": [percent(attention[heads.layer == n].max()) for n in layers],
            }
        )
        where = [f"layer {layer} holds {n}" for layer, n in enumerate(by_layer(heads, mask)) if n]
        statement = (
            f"At this checkpoint {plural(int(mask.sum()), 'head')} of {len(mask)} "
            f"{'is a BOS head' if mask.sum() == 1 else 'are BOS heads'}{sure('', intervals.get('bos_heads'))}"
            + (f"; {join(where)}" if where else "")
            + f". Under the clean baseline the count is {int(clean.sum())}, by best class {int(of_best.sum())}, "
            f"by sink mass {int(by_mass.sum())}."
        )
        if thin.any():
            statement += (
                f" With under {percent(thresholds.mass_floor)} of its attention on the first token, a ratio past {past} "
                f"says more about a tiny baseline than about a sink: so it is with {join(heads.labels(thin))}."
            )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)


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


def shape_rule(fractions, claimed, is_last):
    """F2's verdict from BOS fractions [step] up to now: (verdict, gist)."""
    shape, end, size = shape_of(fractions)
    growing = end == len(fractions) - 1 and not is_last
    gist = f"{shape}, from {percent(fractions[0])} to {percent(fractions[-1])}, largest step {100 * size:.1f} points"
    verdict = UNDETERMINED if shape == "flat" or growing or claimed is None else HOLDS if shape == claimed else FAILS
    return verdict, gist


@finding(
    "F2",
    "Three shapes of sink growth",
    "The fraction of BOS-attractor heads grows in three shapes: Pythia ramps from 0 to 57.8 %; OLMo jumps from 7.4 % "
    "to 70.3 % between 117B and 264B tokens and ends at 80.9 %; OLMoE ramps from 3.5 % (20B) to 75.8 % (5117B).",
    claims={
        "pythia-1b": "ramp from 0 to 57.8 %",
        "olmo-1b-0724": "jump from 7.4 % (117B tokens) to 70.3 % (264B), 80.9 % at the end",
        "olmoe-1b-7b-0924": "ramp from 3.5 % (20B) to 75.8 % (5117B)",
    },
    sweeps=("classify",),
    holds="the curve up to this revision has the shape that the paper gives to the model's counterpart: a jump if one "
    "step between neighbouring revisions makes at least half of the whole rise, a ramp if none does",
    fails="the curve has the other shape",
    undetermined="the fraction has never reached 10 %; or its largest step is the newest and training goes on, so that "
    "nobody can know what follows; or the paper makes no claim about such a model",
)
def sink_shapes(heads, at, counting, counterpart=None):
    """F2: BOS fraction over training, its largest step and its shape."""
    history = heads.upto(at)
    fractions = is_bos(history, counting).mean(axis=-1)
    claimed = CLAIMED_SHAPE.get(counterpart)
    is_last = at == len(heads.names) - 1
    verdict, gist = shape_rule(fractions, claimed, is_last)
    shape, end, size = shape_of(fractions)
    rise = fractions.max() - fractions[0]

    def step_text():
        if not end:
            return "none yet"
        return (
            f"from {percent(fractions[end - 1])} to {percent(fractions[end])} between {heads.names[end - 1]} "
            f"and {heads.names[end]}"
        )

    if shape == "flat":
        reason = f"The fraction has not reached 10 % (highest: {percent(fractions.max())}), too little to have a shape."
    elif end == at and not is_last:
        reason = f"The largest step is the newest one ({step_text()}): whether the rise goes on is not known here."
    elif claimed is None:
        reason = f"The curve is a {shape} (largest step {step_text()}); the paper makes no claim about such a model."
    else:
        reason = (
            f"The paper says {claimed}; here the largest step ({step_text()}) makes "
            f"{percent(size / rise) if rise > 0 else 'none'} of the rise: a {shape}."
        )
    numbers = {
        "shape": shape,
        "claimed_shape": claimed,
        "fraction": float(fractions[-1]),
        "peak": float(fractions.max()),
        "largest_step": size,
        "largest_step_to": heads.names[end],
        "fractions": fractions.tolist(),
    }

    def write(intervals):
        curve = bos_curves(history, counting)
        bounds = intervals.get("fractions")
        table = pd.DataFrame(
            {
                "revision": heads.names[: at + 1],
                "tokens": [tokens_text(t) for t in history.tokens],
                "BOS heads, paper": [
                    sure(percent(v), None if bounds is None else (bounds[0][i], bounds[1][i]), percent)
                    for i, v in enumerate(fractions)
                ],
                "clean baseline": [percent(v) for v in curve["clean"]],
                "by best class": [percent(v) for v in curve["best_class"]],
                f"with {percent(counting.thresholds.mass_floor)} of the attention": [
                    percent(v) for v in curve["with_mass"]
                ],
                f"sink mass over {SINK_MASS:g}": [percent(v) for v in curve["mass"]],
            }
        )
        statement = (
            f"Up to here the fraction of BOS heads has gone from {percent(fractions[0])} to {percent(fractions[-1])}"
            f"{sure('', intervals.get('fraction'), percent)}"
            f"{'' if fractions[-1] == fractions.max() else f', with a peak of {percent(fractions.max())}'}. "
            + (
                f"The largest step between neighbouring revisions is {step_text()}. "
                if size > 0
                else "It has not risen. "
            )
            + f"Counted with the clean baseline it stands at {percent(curve['clean'].iloc[-1])}, "
            f"by best class at {percent(curve['best_class'].iloc[-1])}, by sink mass at {percent(curve['mass'].iloc[-1])}."
        )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)


def bos_curves(heads, counting):
    """BOS fraction at every revision, counted in five ways: one row a revision.

    Columns revision, tokens and, as fractions of all heads: paper, clean, best_class,
    with_mass (at least the mass floor as well), mass (sink mass).
    """
    ways = {
        "paper": counting,
        "clean": replace(counting, baseline="clean"),
        **{by: replace(counting, by=by) for by in ("best_class", "with_mass", "mass")},
    }
    curves = {name: is_bos(heads, way).mean(axis=-1) for name, way in ways.items()}
    return pd.DataFrame({"revision": heads.names, "tokens": heads.tokens, **curves})


# F3 ------------------------------------------------------------------------------

INDUCTION_HEADS = 3
SINK_FRACTION = 0.50


def order_rule(induction, bos, tokens):
    """F3's verdict from induction heads and BOS fractions by revision: (verdict, gist, steps, gap).

    induction: counts [step].  bos: fractions [step].  tokens [step].  steps: first
    step with the induction circuit, and with half of all heads BOS (None if never).
    gap: tokens of the second over tokens of the first, None if undefined.
    """
    first = lambda mask: int(mask.argmax()) if mask.any() else None  # noqa: E731
    at_induction, at_sink = first(np.asarray(induction) >= INDUCTION_HEADS), first(np.asarray(bos) >= SINK_FRACTION)
    gap = None
    if at_induction is not None and at_sink is not None and tokens[at_induction]:
        gap = float(tokens[at_sink] / tokens[at_induction])
    if at_sink is None:
        verdict = UNDETERMINED
    elif at_induction is None or at_sink < at_induction:
        verdict = FAILS
    else:
        verdict = HOLDS if at_induction < at_sink else UNDETERMINED
    when = lambda step: "never" if step is None else f"at {tokens_text(tokens[step])}"  # noqa: E731
    gist = f"induction {when(at_induction)}, half BOS {when(at_sink)}" + (f" ({times(gap)})" if gap else "")
    return verdict, gist, (at_induction, at_sink), gap


MILESTONES = {
    **{f"induction_{n}": f"induction circuit of {n} heads or more" for n in (INDUCTION_HEADS, 5)},
    **{f"bos_{p}": f"BOS heads at {p} % or more" for p in (10, 30, round(100 * SINK_FRACTION), 70)},
    "previous_token_30": "30 previous-token heads or more",
    "self_30": "30 self heads or more",
}


def milestone_steps(heads, counting):
    """First step at which each milestone of the paper is met: {key: step, None if never}."""
    induction = in_circuit(heads, counting).sum(axis=-1)
    bos = is_bos(heads, counting).mean(axis=-1)
    reached = {f"induction_{n}": induction >= n for n in (INDUCTION_HEADS, 5)}
    reached |= {f"bos_{p}": bos >= p / 100 for p in (10, 30, round(100 * SINK_FRACTION), 70)}
    for cls in ("previous_token", "self"):
        reached[f"{cls}_30"] = members(heads, cls, counting.thresholds.classify, counting).sum(axis=-1) >= 30
    return {key: int(mask.argmax()) if mask.any() else None for key, mask in reached.items()}


@finding(
    "F3",
    "Induction comes first",
    "Induction circuits form before attention sinks: at 23B tokens against 264B for half of the heads in OLMo (11.5x), "
    "20B against 419B in OLMoE (21x), about 6B against 300B in Pythia.",
    claims={
        "pythia-1b": "induction at about 6B tokens, half of the heads BOS at 300B",
        "olmo-1b-0724": "induction at 23B tokens, half BOS at 264B (11.5x)",
        "olmoe-1b-7b-0924": "induction at 20B tokens, half BOS at 419B (21x)",
    },
    sweeps=("classify", "induction_circuit"),
    holds="the induction circuit has 3 heads or more at an earlier revision than the one at which BOS heads make half "
    "of all heads",
    fails="BOS heads make half of all heads at an earlier revision",
    undetermined="only the induction circuit has been reached, or neither, or both at the same revision",
)
def induction_first(heads, at, counting, counterpart=None):
    """F3: which milestones are met up to this revision, and the gap in tokens."""
    history = heads.upto(at)
    names, tokens = heads.names, heads.tokens
    steps = milestone_steps(history, counting)
    circuit, bos = in_circuit(history, counting).sum(axis=-1), is_bos(history, counting).mean(axis=-1)
    verdict, gist, (induction, sink), gap = order_rule(circuit, bos, tokens)
    open_gap = None
    if induction is not None and sink is None and tokens[induction]:
        open_gap = float(tokens[at] / tokens[induction])
    censored = induction == 0
    if induction is not None and sink is not None:
        where = f"induction at {names[induction]}, half of the heads BOS at {names[sink]}"
        if verdict == HOLDS:
            at_least = "at least " if censored else ""
            reason = f"Induction came first ({where})" + (f", {at_least}{times(gap)} fewer tokens." if gap else ".")
        elif verdict == FAILS:
            reason = f"The sinks came first ({where})."
        else:
            reason = f"Both are first seen at {names[sink]}: the panel cannot order them."
    elif sink is not None:
        reason = f"Half of the heads were BOS heads at {names[sink]}, and no induction circuit of 3 heads has formed."
    elif induction is not None:
        reason = f"The induction circuit stood at {names[induction]}; BOS heads have not reached half of all heads" + (
            f", so if they ever do, the gap is {open_gap:.3g}x or more." if open_gap and open_gap > 1 else "."
        )
    else:
        reason = "Neither an induction circuit of 3 heads nor 50 % of BOS heads has been seen."
    numbers = {
        "milestones": {k: None if s is None else names[s] for k, s in steps.items()},
        "milestone_steps": list(steps.values()),
        "gap": gap,
        "open_gap": open_gap,
        "left_censored": bool(censored),
        "induction_heads": int(circuit[at]),
        "bos_fraction": float(bos[at]),
    }

    def write(intervals):
        bounds = intervals.get("milestone_steps")
        name = lambda step: "not reached" if step is None else names[int(step)]  # noqa: E731
        rows = []
        for i, (key, step) in enumerate(steps.items()):
            related = induction is not None and tokens[induction] and step is not None
            rows.append(
                {
                    "milestone": MILESTONES[key],
                    "first revision": sure(name(step), None if bounds is None else (bounds[0][i], bounds[1][i]), name),
                    "tokens": "–" if step is None else tokens_text(tokens[step]),
                    "after induction": f"{tokens[step] / tokens[induction]:.3g}x" if related else "–",
                }
            )
        reached = sum(step is not None for step in steps.values())
        statement = (
            f"Milestones reached up to here: {reached} of {len(steps)}. At this checkpoint the induction circuit has "
            f"{plural(int(circuit[at]), 'head')}{sure('', intervals.get('induction_heads'))} and {percent(bos[at])} "
            f"of the {len(heads.layer)} heads are BOS heads{sure('', intervals.get('bos_fraction'), percent)}."
        )
        thin = thin_of(history, "induction", counting.thresholds.induction_circuit, counting)[at]
        if thin.any():
            statement += (
                f" {join(heads.labels(thin))} pass {times(counting.thresholds.induction_circuit)} with under "
                f"{percent(counting.thresholds.mass_floor)} of the attention on the target."
            )
        if len(heads.layer) < 30:
            statement += f" (The two milestones of 30 heads cannot be met by a model of {len(heads.layer)} heads.)"
        return statement, pd.DataFrame(rows)

    return Judgement(verdict, reason, gist, numbers, write)


# F4 ------------------------------------------------------------------------------

RECALL = 2 / 3
EARLY = 0.02


def recall_rule(shared, n_final, training):
    """F4's verdict from heads of the final circuit found by revision: (verdict, gist, step that reached it).

    shared: counts [step] up to now.  n_final: size of the final circuit.  training:
    share of all tokens [step].
    """
    shared, training = np.asarray(shared), np.asarray(training)
    if n_final < INDUCTION_HEADS:
        return UNDETERMINED, f"a final circuit of {plural(n_final, 'head')}", None
    reached = shared >= RECALL * n_final - 1e-9
    if reached.any():
        step = int(reached.argmax())
        verdict = HOLDS if training[step] <= EARLY else FAILS
        return verdict, f"{shared[step]} of {n_final} after {100 * training[step]:.3g} % of training", step
    verdict = FAILS if training[len(shared) - 1] > EARLY else UNDETERMINED
    return (
        verdict,
        f"at most {shared.max()} of {n_final} after {percent(training[len(shared) - 1])} of training",
        None,
    )


def circuit_recall(heads, counting, threshold=None):
    """Recall and precision of the induction circuit against the last revision's, one row a revision.

    threshold: of the circuit found on the way; the final one is always defined by the
    counting.  Columns revision, tokens, training (share of the panel's last tokens),
    circuit (heads found), shared (also in the last circuit), recall, precision (missing
    where undefined).
    """
    final = in_circuit(heads, counting)[-1]
    found = in_circuit(heads, counting if threshold is None else counting.at("induction_circuit", threshold))
    shared, n = (found & final).sum(axis=-1), found.sum(axis=-1)
    return pd.DataFrame(
        {
            "revision": heads.names,
            "tokens": heads.tokens,
            "training": heads.tokens / heads.tokens.max(),
            "circuit": n,
            "shared": shared,
            "recall": shared / final.sum() if final.any() else np.nan,
            "precision": shared / np.where(n > 0, n, np.nan),
        }
    )


@finding(
    "F4",
    "The circuit is found early",
    "Two thirds of the final induction circuit is found within 0.3 to 2 % of training: OLMo at 10B tokens, OLMoE at "
    "41B, Pythia at 6B.",
    claims={
        "pythia-1b": "two thirds at 6B tokens, about 2 % of training",
        "olmo-1b-0724": "two thirds at 10B tokens, about 0.3 % of training",
        "olmoe-1b-7b-0924": "two thirds at 41B tokens, about 0.8 % of training",
    },
    sweeps=("induction_circuit",),
    holds="recall of the final induction circuit (the heads past 50x at the last revision) reaches two thirds at a "
    "revision within the first 2 % of training",
    fails="it is reached only later, or 2 % of training has passed without it",
    undetermined="the final circuit has fewer than 3 heads, or neither has happened yet",
)
def early_circuit(heads, at, counting, counterpart=None):
    """F4: recall and precision of this revision's circuit against the final one."""
    found = in_circuit(heads, counting)
    final = found[-1]
    n_final = int(final.sum())
    shared, training = (found & final).sum(axis=-1)[: at + 1], heads.tokens / heads.tokens.max()
    verdict, gist, step = recall_rule(shared, n_final, training)
    if n_final < INDUCTION_HEADS:
        reason = f"The final circuit has {plural(n_final, 'head')}: fewer than 3 cannot tell two thirds from one."
    elif step is not None:
        reason = (
            f"Recall reached {shared[step]} of {n_final} heads at {heads.names[step]}, "
            f"after {percent(training[step])} of training ({'within' if verdict == HOLDS else 'not within'} 2 %)."
        )
    elif verdict == FAILS:
        reason = f"After {percent(training[at])} of training the highest recall is {int(shared.max())} of {n_final} heads, below two thirds."
    else:
        reason = f"Recall is {shared[at]} of {n_final} heads, and only {percent(training[at])} of training has passed."
    n_here = int(found[at].sum())
    numbers = {
        "final_circuit": heads.labels(final),
        "final_heads": n_final,
        "circuit_heads": n_here,
        "recall": float(shared[at] / n_final) if n_final else None,
        "precision": float(shared[at] / n_here) if n_here else None,
        "training": float(training[at]),
        "reached_at": None if step is None else heads.names[step],
        "reached_training": None if step is None else float(training[step]),
        "recalls": [float(s / n_final) if n_final else None for s in shared],
    }

    def write(intervals):
        curve = circuit_recall(heads, counting).iloc[: at + 1]
        lower = circuit_recall(heads, counting, counting.thresholds.classify).iloc[: at + 1]
        bounds = intervals.get("recalls")
        share = lambda v: "–" if v is None or pd.isna(v) else percent(v)  # noqa: E731
        past = times(counting.thresholds.induction_circuit)
        table = pd.DataFrame(
            {
                "revision": curve.revision,
                "training": curve.training.map(percent),
                f"heads past {past}": curve.circuit,
                "of the final circuit": [f"{s} of {n_final}" for s in curve.shared],
                "recall": [
                    sure(share(v), None if bounds is None else (bounds[0][i], bounds[1][i]), share)
                    for i, v in enumerate(curve.recall)
                ],
                "precision": curve.precision.map(share),
                f"recall at {times(counting.thresholds.classify)}": lower.recall.map(share),
            }
        )
        names = heads.labels(final)
        statement = (
            f"The final circuit has {plural(n_final, 'head')}{sure('', intervals.get('final_heads'))}"
            + (f": {join(names)}" if names else "")
            + f". After {percent(training[at])} of training {plural(n_here, 'head')} "
            f"{'is' if n_here == 1 else 'are'} past {past}{sure('', intervals.get('circuit_heads'))}"
            + (
                f", {shared[at]} of them in the final circuit: recall {share(numbers['recall'])}, "
                f"precision {share(numbers['precision'])}."
                if n_here and n_final
                else "."
            )
        )
        return statement, table.reset_index(drop=True)

    return Judgement(verdict, reason, gist, numbers, write)


# F5 ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Elevation:
    """A rule for "elevated"; level(pr, thresholds) gives what a PR must reach, broadcast against pr [step, head]."""

    title: str
    text: str
    level: Callable


OWN_ELEVATION = 1.5
PEERS = 0.75

ELEVATIONS = {
    "start": Elevation(
        "against all heads at the start",
        "at least 2 times the median PR of all heads at the first revision",
        lambda pr, thresholds: np.full((1, 1), thresholds.pr_elevation * np.median(pr[0])),
    ),
    "own": Elevation(
        "against its own start",
        f"at least {OWN_ELEVATION:g} times the head's own PR at the first revision",
        lambda pr, thresholds: OWN_ELEVATION * pr[:1],
    ),
    "peers": Elevation(
        "against its peers",
        "in the top quarter of all heads at the same revision",
        lambda pr, thresholds: np.quantile(pr, PEERS, axis=1, keepdims=True),
    ),
}


def lead_rule(elevated, crossed, attainable):
    """F5's verdict from the steps at which each head of the final circuit was elevated and crossed 50x.

    elevated, crossed: [head] steps, -1 if never.  attainable: whether a PR can be
    elevated at all.  Returns (verdict, gist, led, behind), the last two masks [head]
    of the heads whose lead can be read.
    """
    readable = crossed > 0  # at step 0 nothing came before
    led = readable & (elevated >= 0) & (elevated <= crossed)
    behind = readable & ~led
    if not attainable:
        verdict = UNDETERMINED
    elif not readable.any():
        verdict = UNDETERMINED
    else:
        verdict = FAILS if behind.any() else HOLDS
    if not len(crossed):
        gist = "no circuit"
    elif not attainable:
        gist = "no PR can reach the level"
    else:
        gist = f"elevated by the crossing in {led.sum()} of {readable.sum()} heads"
        if (crossed == 0).any():
            gist += f", {(crossed == 0).sum()} censored"
    return verdict, gist, led, behind


def elevation_steps(heads, counting):
    """(first step at which each head's PR is elevated [head], -1 if never; the level [step or 1, head or 1])."""
    level = ELEVATIONS[counting.elevation].level(heads["pr"], counting.thresholds)
    return first_step(heads["pr"] >= level), level


def spectral_leads(heads, counting):
    """When each head's PR is first elevated and its induction selectivity first passes 50x: one row a head.

    Columns layer, head, elevated and crossed (step, missing if never), lead (revisions,
    negative if PR came later), lead_tokens (ratio of tokens at the crossing to tokens
    at the elevation, missing if that is undefined).
    """
    elevated, _ = elevation_steps(heads, counting)
    crossed = first_step(in_circuit(heads, counting))
    both = (elevated >= 0) & (crossed >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = heads.tokens[crossed] / heads.tokens[elevated]
    leads = pd.DataFrame({"layer": heads.layer, "head": heads.head, "elevated": elevated, "crossed": crossed})
    leads = leads.astype({"elevated": "Int64", "crossed": "Int64"})
    leads["lead"] = (leads["crossed"] - leads["elevated"]).where(both)
    for column in ("elevated", "crossed"):
        leads[column] = leads[column].where(leads[column] >= 0)
    leads["lead_tokens"] = pd.Series(np.where(both & np.isfinite(ratio), ratio, np.nan), dtype="Float64")
    return leads


@finding(
    "F5",
    "The spectral lead",
    "For each head of the final induction circuit, the participation ratio (PR) of its output is elevated at or before "
    "the revision where its selectivity crosses 50x (Pythia L4H4: 0.54B against 6.3B tokens, 12x).",
    claims={
        "pythia-1b": "PR elevated at or before the crossing in L4H4 (12x in tokens), L7H1 and L7H0",
        "olmo-1b-0724": "the same in L2H11, L4H12 and L12H8",
        "olmoe-1b-7b-0924": "the same in L7H0, L9H8, L5H10 and L12H14",
    },
    sweeps=("induction_circuit",),
    holds="every head of the final circuit that has crossed 50x up to this revision had its PR elevated (at least 2 "
    "times the median of all heads at the first revision) at that revision or before",
    fails="one of them crossed 50x while its PR was not elevated",
    undetermined="no head of the final circuit has crossed yet; or all had at the first revision, where no lead can be "
    "read; or the elevated level lies above what Gaussian noise reaches, so that no head can attain it",
)
def spectral_lead(heads, at, counting, counterpart=None):
    """F5: PR against selectivity for the final circuit's heads, the lead, and the same for all other heads."""
    history = heads.upto(at)
    inside = in_circuit(heads, counting)[-1]
    elevated, level = elevation_steps(history, counting)
    crossed = first_step(in_circuit(history, counting))
    ceiling = float(heads["pr_ceiling"][at, 0])
    attainable = bool(np.min(level) <= ceiling)
    verdict, gist, led, behind = lead_rule(elevated[inside], crossed[inside], attainable)
    past = times(counting.thresholds.induction_circuit)
    names = lambda mask: join(np.array(heads.labels(inside))[mask])  # noqa: E731
    has_crossed = crossed[inside] >= 0
    n_readable = int((crossed[inside] > 0).sum())
    outside = float((elevated[~inside] >= 0).mean()) if (~inside).any() else None
    control = (
        f"; of the {int((~inside).sum())} heads outside the circuit {percent(outside)} were elevated by this revision too"
        if outside is not None
        else ""
    )
    if not inside.any():
        reason = "The final induction circuit is empty: there is no head to follow."
    elif not attainable:
        reason = (
            f"Elevated would mean {np.min(level):.1f} or more ({ELEVATIONS[counting.elevation].text}), above the "
            f"{ceiling:.1f} of Gaussian noise in so few dimensions: no head's PR can count as elevated."
        )
    elif not has_crossed.any():
        reason = f"None of the {int(inside.sum())} heads of the final circuit has crossed {past} yet."
    elif not n_readable:
        reason = f"{names(has_crossed)} had crossed {past} at the first revision already, where no lead can be read."
    elif verdict == FAILS:
        reason = f"{names(behind)} crossed {past} while PR was not elevated ({int(led.sum())} of {n_readable} did lead{control})."
    else:
        reason = (
            f"PR was elevated at or before the crossing in all {n_readable} heads that crossed up to here{control}."
        )
    both = (elevated[inside] >= 0) & has_crossed
    leads = np.where(both, crossed[inside] - elevated[inside], 0)
    numbers = {
        "level": float(np.min(level)),
        "ceiling": ceiling,
        "circuit": heads.labels(inside),
        "crossed": int(has_crossed.sum()),
        "led": int(led.sum()),
        "behind": int(behind.sum()),
        "left_censored": int((crossed[inside] == 0).sum()),
        "elevated_outside": outside,
        "leads": {name: int(lead) if known else None for name, lead, known in zip(heads.labels(inside), leads, both)},
    }

    def write(intervals):
        label = lambda step: "–" if step < 0 else heads.names[step]  # noqa: E731
        column = selectivity_column("induction", counting.baseline)
        with_interval = lambda c, i, text: text(heads[c][at, i]) + (  # noqa: E731
            f" ({text(heads[c + '_low'][at, i])} to {text(heads[c + '_high'][at, i])})"
            if f"{c}_low" in heads.values
            else ""
        )
        lead_of = spectral_leads(history, counting)[inside]
        of = np.flatnonzero(inside)
        table = pd.DataFrame(
            {
                "head": heads.labels(inside),
                "selectivity here": [with_interval(column, i, times) for i in of],
                "attention on the target": [percent(heads["attention_induction"][at, i]) for i in of],
                "PR here": [with_interval("pr", i, "{:.2f}".format) for i in of],
                "PR centred": [f"{heads['pr_centred'][at, i]:.2f}" for i in of],
                "share of ceiling": [percent(heads["pr"][at, i] / ceiling) for i in of],
                "PR elevated at": [label(s) for s in elevated[inside]],
                f"crossed {past} at": [
                    label(s) + (" (or before)" if s == 0 else "") for s in crossed[inside]
                ],
                "lead, revisions": ["–" if pd.isna(v) else str(v) for v in lead_of["lead"]],
                "lead, tokens": ["–" if pd.isna(v) else f"{v:.3g}x" for v in lead_of["lead_tokens"]],
            }
        )  # fmt: skip
        statement = (
            f"Heads of the final circuit: {int(inside.sum())}; crossed {past} up to here: {int(has_crossed.sum())}"
            f"{sure('', intervals.get('crossed'))}; with elevated PR up to here: {int((elevated[inside] >= 0).sum())}."
        )
        if attainable:
            statement += (
                f" Elevated means {float(np.min(level)):.2f} or more, {counting.thresholds.pr_elevation:g} times the "
                f"median of all heads at the first revision; Gaussian noise of this size would read {ceiling:.2f}."
            )
        if outside is not None and control not in reason:
            statement += (
                f" Among the {int((~inside).sum())} heads outside the circuit, {percent(outside)} were elevated too."
            )
        return statement, table

    return Judgement(verdict, reason, gist, numbers, write)
