"""The figures of one run: what its notebook shows.

Alt texts and captions are written from the numbers that are drawn.  Bands and bars are
bootstrap intervals over sequences (lib.measure.bootstrap).
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import PercentFormatter

from lib import formatting as w
from lib import measure
from lib.figures.display import drawn
from lib.figures.style import (
    CLASS_COLOURS,
    MUTED,
    PALETTE,
    SEQUENTIAL,
    VERDICT_COLOURS,
    WIDTH,
    label_ends,
    shade,
    training_axis,
)
from lib.findings import (
    EARLY,
    INDUCTION_HEADS,
    RECALL,
    SINK_FRACTION,
    SINK_MASS,
    SWEPT,
    by_layer,
    circuit_recall,
    elevation_steps,
    fractions_by_counting,
    in_circuit,
    is_bos,
    order_rule,
    shape_of,
)

INTERVAL = f"{100 * measure.bootstrap.LEVEL:.0f} % bootstrap interval over sequences"


def bounds_of(trajectory, statistic):
    """Interval of a statistic of a trajectory, (low, high): the same function on all resamples at once."""
    return measure.bootstrap.interval(np.asarray(statistic(trajectory.replicated()), dtype=float))


def first_token_map(run):
    """F1: first-token selectivity of every head at this revision, and BOS heads a layer."""
    thresholds, trajectory, counting = run.panel.thresholds, run.trajectory, run.counting
    at = trajectory.step(run.revision)
    now = run.heads[run.heads["revision"] == run.revision]
    grid = now.pivot(index="layer", columns="head", values="selectivity_first_token")
    mass = now.pivot(index="layer", columns="head", values="attention_first_token")
    n_layers, n_heads = grid.shape
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 0.9 + 0.48 * min(n_layers, 16)), width_ratios=[3, 1], layout="constrained"
    )
    high = max(100.0, float(grid.max().max()))
    sns.heatmap(
        grid.clip(lower=0.1),
        norm=LogNorm(0.1, high),
        cmap=SEQUENTIAL,
        annot=grid.map(lambda v: f"{v:.2g}" if v < 100 else f"{v:.0f}") if n_heads <= 8 else None,
        fmt="",
        annot_kws={"fontsize": 8},
        cbar_kws={"label": "times the baseline"},
        linewidths=0.5,
        ax=left,
    )
    for layer in range(n_layers):
        for head in range(n_heads):
            if grid.loc[layer, head] >= thresholds.classify:
                thin = mass.loc[layer, head] < thresholds.mass_floor
                left.add_patch(plt.Rectangle((head, layer), 1, 1, fill=False, ec="0.1", lw=2, ls=":" if thin else "-"))
    left.set(title="First-token selectivity", xlabel="head", ylabel="layer")
    left.tick_params(axis="y", rotation=0)
    count = lambda counting: lambda heads: by_layer(heads, is_bos(heads, counting))[..., at, :]  # noqa: E731
    ways = {
        "paper baseline": (counting, CLASS_COLOURS["first_token"]),
        "clean baseline": (replace(counting, baseline="clean"), MUTED),
        "sink mass": (replace(counting, by="mass"), PALETTE[4]),
    }
    y, counts = np.arange(n_layers), {}
    for i, (label, (way, colour)) in enumerate(ways.items()):
        n = counts[label] = count(way)(trajectory)
        low, high = bounds_of(trajectory, count(way))
        right.barh(
            y + 0.27 * (i - 1), n, 0.25, color=colour, label=label,
            xerr=np.clip([n - low, high - n], 0, None), error_kw={"lw": 1, "ecolor": "0.2"},
        )  # fmt: skip
    right.set(title="BOS heads a layer", xlabel=f"heads of {n_heads}", xlim=(0, n_heads), ylim=(n_layers - 0.5, -0.5))
    right.set_yticks(y)
    right.legend(fontsize="x-small", loc="best", frameon=True)
    per_layer = ", ".join(f"{n} in layer {layer}" for layer, n in enumerate(counts["paper baseline"]))
    top = now.loc[now["selectivity_first_token"].idxmax()]
    alt = (
        f"Heat map of first-token selectivity for {len(now)} heads of {run.title}, and bars of BOS heads a layer: "
        f"{per_layer}. Highest: {w.name_of(int(top.layer), int(top['head']))} with "
        f"{w.times(top.selectivity_first_token)} and {w.percent(top.attention_first_token)} of its attention."
    )
    caption = (
        f"First-token selectivity under the paper's baseline, N = {now['n_sequences'].iloc[0]:,}. Framed: "
        f"{w.times(thresholds.classify)} or more; dotted if the first token gets under "
        f"{w.percent(thresholds.mass_floor)} of the attention all the same. Bars: counts under three criteria, with "
        f"the {INTERVAL}."
    )
    columns = [
        "layer",
        "head",
        "selectivity_first_token",
        "selectivity_clean_first_token",
        "attention_first_token",
        "sink_mass",
    ]
    columns = columns[:2] + [x for name in columns[2:] for x in (name, f"{name}_low", f"{name}_high")]
    return drawn(fig, _name("F1", run), alt, caption, now[columns])


def bos_curve(run):
    """F2: the BOS fraction over training, counted in five ways."""
    trajectory, counting = run.trajectory, run.counting
    history = trajectory.upto(trajectory.step(run.revision))
    curve = fractions_by_counting(history, counting)
    shape, end, size = shape_of(curve["paper"])
    low, high = bounds_of(history, lambda heads: is_bos(heads, counting).mean(axis=-1))
    fig, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    here = training_axis(ax, trajectory.tokens)[: len(curve)]
    styles = {
        "paper": ("paper baseline", CLASS_COLOURS["first_token"], "-", "o"),
        "clean": ("clean baseline", MUTED, "-", "s"),
        "best_class": ("best class", PALETTE[7], "--", "^"),
        "with_mass": (
            f"with {w.percent(counting.thresholds.mass_floor)} of attention",
            PALETTE[3],
            ":",
            "D",
        ),
        "mass": (f"sink mass over {SINK_MASS:g}", PALETTE[4], "--", "v"),
    }
    for column, (label, colour, line, marker) in styles.items():
        ax.plot(here, curve[column], line, marker=marker, color=colour, ms=5)
    shade(ax, here, (low, high), CLASS_COLOURS["first_token"])
    if size > 0:
        ax.axvspan(here[end - 1], here[end], color=CLASS_COLOURS["first_token"], alpha=0.12, lw=0)
    ax.set(ylabel="share of all heads", ylim=(-0.03, max(0.3, 1.15 * curve[list(styles)].max().max())))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_ends(ax, [(here[-1], curve[c_].iloc[-1], s[0], s[1]) for c_, s in styles.items()], fontsize="x-small")
    points = ", ".join(f"{w.percent(v)} at {r}" for r, v in zip(curve["revision"], curve["paper"]))
    alt = f"Line of the BOS fraction of {run.spec.label} against training tokens (log scale): {points}. Shape so far: {shape}."
    caption = (
        f"BOS heads as a share of all {len(trajectory.layer)} heads, up to {run.revision}, counted in five ways: any head past 30x "
        f"under either baseline, by best class, with a floor of attention, and by sink mass alone. Band: {INTERVAL}. "
        "Shaded column: the largest step between neighbouring revisions."
    )
    return drawn(fig, _name("F2", run), alt, caption, curve.assign(paper_low=low, paper_high=high))


def milestones(run):
    """F3: induction heads above, BOS fraction below, with the first crossing of each milestone."""
    trajectory, counting = run.trajectory, run.counting
    history = trajectory.upto(trajectory.step(run.revision))
    of_circuit = lambda heads: in_circuit(heads, counting).sum(axis=-1)  # noqa: E731
    of_bos = lambda heads: is_bos(heads, counting).mean(axis=-1)  # noqa: E731
    circuit, bos = of_circuit(history), of_bos(history)
    circuit_bounds, bos_bounds = bounds_of(history, of_circuit), bounds_of(history, of_bos)
    clean = in_circuit(history, replace(counting, baseline="clean")).sum(axis=-1)
    by_mass = is_bos(history, replace(counting, by="mass")).mean(axis=-1)
    _, _, (induction, sink), _ = order_rule(circuit, bos, trajectory.tokens)
    fig, (top, bottom) = plt.subplots(2, 1, figsize=(WIDTH, 4.6), sharex=True, layout="constrained")
    x = training_axis(top, trajectory.tokens, "")
    training_axis(bottom, trajectory.tokens)
    here = x[: len(circuit)]
    top.plot(here, circuit, "-o", color=CLASS_COLOURS["induction"])
    top.plot(here, clean, "--s", color=MUTED, lw=1, ms=4)
    shade(top, here, circuit_bounds, CLASS_COLOURS["induction"])
    top.axhline(INDUCTION_HEADS, color=MUTED, ls="--", lw=1)
    top.set(
        ylabel="heads past 50x", ylim=(-0.3, max(5.5, 1.1 * max(circuit.max(), clean.max()))), title="Induction circuit"
    )
    bottom.plot(here, bos, "-o", color=CLASS_COLOURS["first_token"])
    bottom.plot(here, by_mass, "--v", color=PALETTE[4], lw=1, ms=4)
    shade(bottom, here, bos_bounds, CLASS_COLOURS["first_token"])
    bottom.axhline(SINK_FRACTION, color=MUTED, ls="--", lw=1)
    bottom.set(ylabel="share of all heads", ylim=(-0.03, max(0.6, 1.1 * bos.max())), title="BOS heads")
    bottom.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for ax, step, colour in ((top, induction, "induction"), (bottom, sink, "first_token")):
        if step is not None:
            ax.axvline(x[step], color=CLASS_COLOURS[colour], lw=1.2, alpha=0.6)
    baselines = (circuit, "paper baseline", CLASS_COLOURS["induction"]), (clean, "clean baseline", MUTED)
    measures = (bos, "past 30x", CLASS_COLOURS["first_token"]), (by_mass, f"sink mass > {SINK_MASS:g}", PALETTE[4])
    for ax, lines in ((top, baselines), (bottom, measures)):
        label_ends(ax, [(here[-1], line[-1], text, colour) for line, text, colour in lines], fontsize="x-small")
    first = lambda step: "not reached" if step is None else f"at {trajectory.names[step]}"  # noqa: E731
    alt = (
        f"Two lines against training tokens for {run.spec.label} up to {run.revision}: heads past 50x induction end at "
        f"{circuit[-1]} (three or more: {first(induction)}), BOS heads end at {w.percent(bos[-1])} "
        f"(half of all: {first(sink)})."
    )
    caption = (
        "Dashed horizontals: three heads, and half of all heads. A vertical line marks the revision that first reaches "
        f"it. Bands: {INTERVAL}."
    )
    data = pd.DataFrame(
        {
            "revision": history.names,
            "tokens": history.tokens,
            "induction_heads_at_50x": circuit,
            "induction_heads_low": circuit_bounds[0],
            "induction_heads_high": circuit_bounds[1],
            "induction_heads_clean": clean,
            "bos_fraction_at_30x": bos,
            "bos_fraction_low": bos_bounds[0],
            "bos_fraction_high": bos_bounds[1],
            "bos_fraction_sink_mass": by_mass,
        }
    )
    return drawn(fig, _name("F3", run), alt, caption, data)


def recall_of(heads, counting):
    """Share of the final circuit found at each step, [..., step]; missing where there is no final circuit."""
    found = in_circuit(heads, counting)
    final = found[..., -1:, :]
    with np.errstate(invalid="ignore"):
        return (found & final).sum(axis=-1) / final.sum(axis=-1)


def recall(run):
    """F4: recall and precision of the circuit against the final one, over training."""
    trajectory, counting = run.trajectory, run.counting
    n = trajectory.step(run.revision) + 1
    at = circuit_recall(trajectory, counting).iloc[:n]
    lower = circuit_recall(trajectory, counting, counting.thresholds.classify).iloc[:n]
    clean = circuit_recall(trajectory, replace(counting, baseline="clean")).iloc[:n]
    low, high = (b[:n] for b in bounds_of(trajectory, lambda heads: recall_of(heads, counting)))
    fig, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    x = training_axis(ax, trajectory.tokens)[:n]
    ax.axvspan(
        ax.get_xlim()[0],
        EARLY * trajectory.tokens.max(),
        color=MUTED,
        alpha=0.15,
        lw=0,
    )
    ax.axhline(RECALL, color=MUTED, ls="--", lw=1)
    ax.plot(x, at["recall"], "-o", color=CLASS_COLOURS["induction"])
    shade(ax, x, (low, high), CLASS_COLOURS["induction"])
    ax.plot(x, at["precision"], "s", ls=":", color=PALETTE[3])
    ax.plot(x, lower["recall"], "--^", color=PALETTE[9])
    ax.plot(x, clean["recall"], "-.D", color=MUTED, ms=4, lw=1)
    ax.set(ylabel="share of heads", ylim=(-0.04, 1.06))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    lines = (
        (at["recall"], "recall, 50x", CLASS_COLOURS["induction"]), (at["precision"], "precision, 50x", PALETTE[3]),
        (lower["recall"], "recall, 30x", PALETTE[9]), (clean["recall"], "recall, clean baseline", MUTED),
    )  # fmt: skip
    label_ends(
        ax, [(x[-1], line.iloc[-1], *rest) for line, *rest in lines if pd.notna(line.iloc[-1])], fontsize="x-small"
    )
    points = ", ".join(
        f"{'undefined' if pd.isna(v) else w.percent(v)} at {r}" for r, v in zip(at["revision"], at["recall"])
    )
    alt = f"Line of the recall of {run.spec.label}'s final induction circuit against training tokens: {points}."
    caption = (
        f"Heads past 50x up to {run.revision} against those of the last revision. Dashed: two thirds. "
        f"Grey: the first 2 % of training. Band: {INTERVAL}."
    )
    data = at.assign(recall_low=low, recall_high=high, recall_at_30x=lower["recall"], recall_clean=clean["recall"])
    return drawn(fig, _name("F4", run), alt, caption, data)


def pr_against_selectivity(run):
    """F5: each circuit head's path through training in the plane of selectivity and PR."""
    trajectory, counting = run.trajectory, run.counting
    history = trajectory.upto(trajectory.step(run.revision))
    inside = in_circuit(trajectory, counting)[-1]
    fig, ax = plt.subplots(figsize=(WIDTH, 4.0), layout="constrained")
    level = pr_plane(ax, history, inside, counting, run.baseline_ceiling)
    ax.set_ylabel("participation ratio of z")
    ends = "; ".join(
        f"{name} from PR {history['pr'][0, i]:.1f} to {history['pr'][-1, i]:.1f} and from "
        f"{w.times(history['selectivity_induction'][0, i])} to {w.times(history['selectivity_induction'][-1, i])}"
        for name, i in zip(history.labels(inside), np.flatnonzero(inside))
    )
    alt = (
        f"Paths of the {inside.sum()} heads of {run.spec.label}'s final induction circuit in the plane of induction "
        f"selectivity and participation ratio, up to {run.revision}" + (f": {ends}." if ends else ": there are none.")
    )
    caption = (
        f"One line a head of the final circuit, one point a revision, a ring at {run.revision}, bars: {INTERVAL}; grey: "
        f"all other heads at {run.revision}. Verticals: 50x, and the ceiling of {w.times(run.baseline_ceiling)} that the "
        f"paper's baseline sets; dotted horizontal: the level from which PR counts as elevated ({level:.1f})."
    )
    names = [f"{q}{end}" for q in ("selectivity_induction", "pr") for end in ("", "_low", "_high")]
    names += ["selectivity_clean_induction", "attention_induction", "pr_centred", "pr_ceiling"]
    until = run.heads[run.heads["step"] < len(history.names)]
    is_inside = np.isin([w.name_of(*h) for h in zip(until["layer"], until["head"])], history.labels(inside))
    return drawn(
        fig, _name("F5", run), alt, caption, until.loc[is_inside, ["revision", "tokens", "layer", "head", *names]]
    )


def pr_plane(ax, history, inside, counting, ceiling):
    """Draw the selectivity-PR plane of one model up to a revision; returns the level of an elevated PR.

    inside: mask [head] of the circuit.  ceiling: what a perfect induction head reads.
    """
    floor = 0.1  # a log axis cannot hold a head that gives the target nothing
    x, y = history["selectivity_induction"].clip(min=floor), history["pr"]
    ax.scatter(x[-1, ~inside], y[-1, ~inside], s=14, color=MUTED, alpha=0.5, lw=0)
    ends = []
    for colour, i, name in zip(
        sns.color_palette("colorblind", max(1, inside.sum())), np.flatnonzero(inside), history.labels(inside)
    ):
        bars = {}
        for axis, column, values in (("xerr", "selectivity_induction", x), ("yerr", "pr", y)):
            low, high = history[f"{column}_low"][:, i], history[f"{column}_high"][:, i]
            bars[axis] = np.clip([values[:, i] - low.clip(min=floor), high - values[:, i]], 0, None)
        ax.errorbar(x[:, i], y[:, i], fmt="-o", ms=3, lw=1.2, color=colour, elinewidth=0.8, **bars)
        ax.plot(x[-1:, i], y[-1:, i], "o", ms=8, mfc="none", color=colour)
        ends.append((x[-1, i], y[-1, i], name, colour))
    if len(ends) <= 8:
        label_ends(ax, ends)
    _, level = elevation_steps(history, counting)
    ax.axvline(counting.thresholds.induction_circuit, color=MUTED, ls="--", lw=1)
    if np.isfinite(ceiling):
        ax.axvline(ceiling, color=PALETTE[3], ls=":", lw=1.2)
    ax.axhline(level.min(), color=MUTED, ls=":", lw=1.2)
    ax.set_xscale("log")
    ax.set_xlabel("induction selectivity (times the baseline)")
    ax.margins(x=0.12)
    return float(level.min())


def sensitivity(run, finding):
    """The verdict under every assumption and threshold: a strip a threshold that decides it."""
    swept = list(finding.sweeps["swept"].unique())
    n_rows = finding.sweeps["counting"].nunique()
    fig, axes = plt.subplots(
        1, len(swept), figsize=(WIDTH, 0.75 + 0.26 * n_rows), sharey=True, layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], swept):
        strip(ax, finding.sweeps[finding.sweeps["swept"] == name], getattr(run.panel.thresholds, name))
        ax.set_xlabel(f"{SWEPT[name]} (times the baseline)", fontsize="small")
    alt, caption = strip_words({run.spec.label: finding})
    return drawn(fig, f"{_name(finding.id, run)}_assumptions", alt, caption, finding.sweeps)


def strip(ax, sweep, at):
    """One strip on an axes: rows are countings, columns thresholds; the column of `at` is framed."""
    table = sweep.pivot(index="counting", columns="threshold", values="verdict").reindex(sweep["counting"].unique())
    for row, verdicts in enumerate(table.to_numpy()):
        for column, verdict in enumerate(verdicts):
            face, ink = VERDICT_COLOURS[verdict]
            ax.add_patch(plt.Rectangle((column, row), 1, 1, fc=face, ec="white", lw=1.5))
            ax.text(column + 0.5, row + 0.5, w.VERDICT_MARKS[verdict], ha="center", va="center", color=ink, fontsize=8)
    if at in table.columns:
        column = list(table.columns).index(at)
        ax.add_patch(plt.Rectangle((column, 0), 1, len(table), fill=False, ec="0.25", lw=1.3, clip_on=False))
    ax.set(xlim=(0, table.shape[1]), ylim=(len(table), 0))
    ax.set_xticks(np.arange(table.shape[1]) + 0.5, [f"{t:g}" for t in table.columns], fontsize="x-small")
    ax.set_yticks(np.arange(len(table)) + 0.5, table.index, fontsize="x-small")
    ax.grid(False)
    ax.tick_params(length=0, pad=2)
    sns.despine(ax=ax, left=True, bottom=True)


def strip_words(findings):
    """(alt text, caption) of the strips of {model label: Finding}."""
    parts = []
    for label, finding in findings.items():
        counts = finding.sweeps["verdict"].value_counts()
        said = w.join(f"{n} {verdict}" for verdict, n in counts.items())
        parts.append(f"{label}: {said} of {len(finding.sweeps)} combinations, {finding.verdict} as the paper counts")
    alt = "Strips of verdicts, assumptions by thresholds from 10x to 100x. " + "; ".join(parts) + "."
    caption = (
        "What the verdict would be (✓ holds, ✗ fails, ? undetermined) under each assumption, at thresholds from 10x to "
        "100x; framed: the panel's threshold. "
        + " ".join(
            f"{label}: the same verdict in {w.percent((x.sweeps['verdict'] == x.verdict).mean())} of the cells."
            for label, x in findings.items()
        )
    )
    return alt, caption


def _name(finding, run):
    """File name of a figure's data."""
    return f"{finding}_{run.model}_{run.revision}"
