"""The figures of one run: what its notebook shows.

Alt texts and captions are written from the numbers that are drawn.  Every function takes a
lib.report.run_page.Run and returns a lib.figures.display.Figure.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm

from lib import findings
from lib.figures.display import drawn, say, words
from lib.figures.drawing import (
    DASHED,
    INTERVAL,
    THIN,
    named_lines,
    plots,
    recall_frame,
    share_axis,
    strip,
    with_interval,
)
from lib.figures.style import BLUE, MUTED, ORANGE, PALETTE, SEQUENTIAL, WIDTH, label_ends, shade, training_axis
from lib.formatting import join, name_of, percent


def bos_share(heads, counting):
    """BOS heads as a share of all: [..., step]."""
    return findings.is_bos(heads, counting).mean(axis=-1)


def bos_by_layer(heads, counting):
    """BOS heads of every layer: [..., step, layer]."""
    return findings.by_layer(heads, findings.is_bos(heads, counting))


def circuit_size(heads, counting):
    """Heads of the induction circuit: [..., step]."""
    return findings.in_circuit(heads, counting).sum(axis=-1)


def recall_of(heads, counting):
    """Share of the final circuit found at each step, [..., step]; missing where there is no final circuit."""
    found = findings.in_circuit(heads, counting)
    final = found[..., -1:, :]
    return (found & final).sum(axis=-1) / np.where(final.any(axis=-1), final.sum(axis=-1), np.nan)


def first_token_map(run):
    """F1: first-token selectivity of every head at this revision, and BOS heads a layer."""
    thresholds, trajectory, counting = run.panel.thresholds, run.trajectory, run.counting
    now = run.heads[run.heads["revision"] == run.revision]
    grid = now.pivot(index="layer", columns="head", values="selectivity_first_token")
    mass = now.pivot(index="layer", columns="head", values="attention_first_token")
    n_layers, n_heads = grid.shape
    fig, ((left, right),) = plots(1, 2, 0.9 + 0.48 * min(n_layers, 16), width_ratios=[3, 1])
    sns.heatmap(
        grid.clip(lower=0.1), norm=LogNorm(0.1, max(100.0, float(grid.max().max()))), cmap=SEQUENTIAL, ax=left,
        annot=grid.map(lambda v: f"{v:.2g}" if v < 100 else f"{v:.0f}") if n_heads <= 8 else None, fmt="",
        annot_kws={"fontsize": 8}, cbar_kws={"label": "times the baseline"}, linewidths=0.5,
    )  # fmt: skip
    for layer, head in zip(*np.nonzero(grid.to_numpy() >= thresholds.classify)):
        thin = mass.loc[layer, head] < thresholds.mass_floor
        left.add_patch(plt.Rectangle((head, layer), 1, 1, fill=False, ec="0.1", lw=2, ls=":" if thin else "-"))
    left.set(title="First-token selectivity", xlabel="head", ylabel="layer")
    left.tick_params(axis="y", rotation=0)

    ways = {
        "paper baseline": (counting, ORANGE),
        "clean baseline": (replace(counting, baseline="clean"), MUTED),
        "sink mass": (replace(counting, by="mass"), PALETTE[4]),
    }
    y, counts, at = np.arange(n_layers), {}, trajectory.step(run.revision)
    for i, (label, (way, colour)) in enumerate(ways.items()):
        n, low, high = (part[at] for part in with_interval(trajectory, bos_by_layer, way))
        counts[label] = n
        right.barh(
            y + 0.27 * (i - 1), n, 0.25, color=colour, label=label,
            xerr=np.clip([n - low, high - n], 0, None), error_kw={"lw": 1, "ecolor": "0.2"},
        )  # fmt: skip
    right.set(title="BOS heads a layer", xlabel=f"heads of {n_heads}", xlim=(0, n_heads), ylim=(n_layers - 0.5, -0.5))
    right.set_yticks(y)
    right.legend(fontsize="x-small", loc="best", frameon=True)

    per_layer = ", ".join(f"{n} in layer {layer}" for layer, n in enumerate(counts["paper baseline"]))
    top = now.loc[now["selectivity_first_token"].idxmax()]
    name = name_of(int(top["layer"]), int(top["head"]))
    said = words("F1_run", run=run, interval=INTERVAL, n=len(now), per_layer=per_layer, name=name, top=top)
    measured = ("selectivity_first_token", "selectivity_clean_first_token", "attention_first_token", "sink_mass")
    data = now[["layer", "head", *_with_interval(*measured)]]
    return drawn(fig, _name("F1", run), *said, data)


def bos_curve(run):
    """F2: the BOS fraction over training, counted in five ways."""
    trajectory, counting = run.trajectory, run.counting
    history = trajectory.upto(trajectory.step(run.revision))
    curve = findings.fractions_by_counting(history, counting)
    shape, end, size = findings.shape_of(curve["paper"])
    _, low, high = with_interval(history, bos_share, counting)
    ways = {
        "paper": ("paper baseline", ORANGE, "-o"),
        "clean": ("clean baseline", MUTED, "-s"),
        "best_class": ("best class", PALETTE[7], "--^"),
        "with_mass": (f"with {percent(counting.thresholds.mass_floor)} of attention", PALETTE[3], ":D"),
        "mass": (f"sink mass over {findings.SINK_MASS:g}", PALETTE[4], "--v"),
    }
    fig, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    here = training_axis(ax, trajectory.tokens)[: len(curve)]
    share_axis(ax, ylabel="share of all heads", ylim=(-0.03, max(0.3, 1.15 * curve[list(ways)].max().max())))
    named_lines(ax, here, [(curve[way], *drawing) for way, drawing in ways.items()], ms=5)
    shade(ax, here, (low, high), ORANGE)
    if size > 0:
        ax.axvspan(here[end - 1], here[end], color=ORANGE, alpha=0.12, lw=0)
    points = ", ".join(f"{percent(v)} at {r}" for r, v in zip(curve["revision"], curve["paper"]))
    said = words("F2_run", run=run, interval=INTERVAL, n=len(trajectory.layer), points=points, shape=shape)
    return drawn(fig, _name("F2", run), *said, curve.assign(paper_low=low, paper_high=high))


def milestones(run):
    """F3: induction heads above, BOS fraction below, with the first crossing of each milestone."""
    trajectory, counting = run.trajectory, run.counting
    history = trajectory.upto(trajectory.step(run.revision))
    circuit, *circuit_bounds = with_interval(history, circuit_size, counting)
    bos, *bos_bounds = with_interval(history, bos_share, counting)
    clean = circuit_size(history, replace(counting, baseline="clean"))
    by_mass = bos_share(history, replace(counting, by="mass"))
    _, _, (induction, sink), _ = findings.order_rule(circuit, bos, trajectory.tokens)

    fig, ((top,), (bottom,)) = plots(2, 1, 4.6, sharex=True)
    x = training_axis(top, trajectory.tokens, "")
    training_axis(bottom, trajectory.tokens)
    here = x[: len(circuit)]
    most = max(circuit.max(), clean.max())
    top.set(title="Induction circuit", ylabel="heads past 50x", ylim=(-0.3, max(5.5, 1.1 * most)))
    share_axis(bottom, title="BOS heads", ylabel="share of all heads", ylim=(-0.03, max(0.6, 1.1 * bos.max())))
    baselines = (circuit, "paper baseline", BLUE, "-o"), (clean, "clean baseline", MUTED, "--s", THIN)
    sinks = f"sink mass > {findings.SINK_MASS:g}"
    measures = (bos, "past 30x", ORANGE, "-o"), (by_mass, sinks, PALETTE[4], "--v", THIN)
    for ax, lines, bounds, level, step in (
        (top, baselines, circuit_bounds, findings.INDUCTION_HEADS, induction),
        (bottom, measures, bos_bounds, findings.SINK_FRACTION, sink),
    ):
        named_lines(ax, here, lines)
        shade(ax, here, bounds, lines[0][2])
        ax.axhline(level, **DASHED)
        if step is not None:
            ax.axvline(x[step], color=lines[0][2], lw=1.2, alpha=0.6)

    first = ["not reached" if step is None else f"at {trajectory.names[step]}" for step in (induction, sink)]
    said = words("F3_run", run=run, interval=INTERVAL, circuit=circuit[-1], bos=bos[-1], first=first)
    data = {"revision": history.names, "tokens": history.tokens, "induction_heads_at_50x": circuit}
    data |= {"induction_heads_low": circuit_bounds[0], "induction_heads_high": circuit_bounds[1]}
    data |= {"induction_heads_clean": clean, "bos_fraction_at_30x": bos}
    data |= {"bos_fraction_low": bos_bounds[0], "bos_fraction_high": bos_bounds[1], "bos_fraction_sink_mass": by_mass}
    return drawn(fig, _name("F3", run), *said, pd.DataFrame(data))


def recall(run):
    """F4: recall and precision of the circuit against the final one, over training."""
    trajectory, counting = run.trajectory, run.counting
    n = trajectory.step(run.revision) + 1
    at = findings.circuit_recall(trajectory, counting).iloc[:n]
    lower = findings.circuit_recall(trajectory, counting, counting.thresholds.classify).iloc[:n]
    clean = findings.circuit_recall(trajectory, replace(counting, baseline="clean")).iloc[:n]
    _, low, high = (part[:n] for part in with_interval(trajectory, recall_of, counting))
    fig, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    x = training_axis(ax, trajectory.tokens)[:n]
    recall_frame(ax, ax.get_xlim()[0], findings.EARLY * trajectory.tokens.max(), findings.RECALL)
    ax.set_ylabel("share of heads")
    lines = (
        (at["recall"], "recall, 50x", BLUE, "-o"),
        (at["precision"], "precision, 50x", PALETTE[3], ":s"),
        (lower["recall"], "recall, 30x", PALETTE[9], "--^"),
        (clean["recall"], "recall, clean baseline", MUTED, "-.D", THIN),
    )
    named_lines(ax, x, lines)
    shade(ax, x, (low, high), BLUE)
    points = ", ".join(
        f"{'undefined' if pd.isna(v) else percent(v)} at {r}" for r, v in zip(at["revision"], at["recall"])
    )
    said = words("F4_run", run=run, interval=INTERVAL, points=points)
    data = at.assign(recall_low=low, recall_high=high, recall_at_30x=lower["recall"], recall_clean=clean["recall"])
    return drawn(fig, _name("F4", run), *said, data)


def pr_against_selectivity(run):
    """F5: each circuit head's path through training in the plane of selectivity and PR."""
    trajectory, counting = run.trajectory, run.counting
    history = trajectory.upto(trajectory.step(run.revision))
    inside = findings.in_circuit(trajectory, counting)[-1]
    fig, ax = plt.subplots(figsize=(WIDTH, 4.0), layout="constrained")
    level = pr_plane(ax, history, inside, counting, run.baseline_ceiling)
    ax.set_ylabel("participation ratio of z")
    pr, selectivity = history["pr"][[0, -1]], history["selectivity_induction"][[0, -1]]
    paths = [
        {"name": name, "pr": pr[:, i], "selectivity": selectivity[:, i]}
        for name, i in zip(history.labels(inside), np.flatnonzero(inside))
    ]
    said = words("F5_run", paths, run=run, interval=INTERVAL, n=inside.sum(), level=level)
    until = run.heads[run.heads["step"] < len(history.names)]
    is_inside = np.isin([name_of(*h) for h in zip(until["layer"], until["head"])], history.labels(inside))
    columns = ["revision", "tokens", "layer", "head", *_with_interval("selectivity_induction", "pr")]
    columns += ["selectivity_clean_induction", "attention_induction", "pr_centred", "pr_ceiling"]
    return drawn(fig, _name("F5", run), *said, until.loc[is_inside, columns])


def pr_plane(ax, history, inside, counting, ceiling):
    """Draw the selectivity-PR plane of one model up to a revision; returns the level of an elevated PR.

    inside: mask [head] of the circuit.  ceiling: what a perfect induction head reads.
    """
    floor = 0.1  # a log axis cannot hold a head that gives the target nothing
    x, y = history["selectivity_induction"].clip(min=floor), history["pr"]
    ax.scatter(x[-1, ~inside], y[-1, ~inside], s=14, color=MUTED, alpha=0.5, lw=0)
    ends = []
    colours = sns.color_palette("colorblind", max(1, inside.sum()))
    for colour, i, name in zip(colours, np.flatnonzero(inside), history.labels(inside)):
        bars = {}
        for axis, column, values in (("xerr", "selectivity_induction", x), ("yerr", "pr", y)):
            low, high = history[f"{column}_low"][:, i], history[f"{column}_high"][:, i]
            bars[axis] = np.clip([values[:, i] - low.clip(min=floor), high - values[:, i]], 0, None)
        ax.errorbar(x[:, i], y[:, i], fmt="-o", ms=3, lw=1.2, color=colour, elinewidth=0.8, **bars)
        ax.plot(x[-1:, i], y[-1:, i], "o", ms=8, mfc="none", color=colour)
        ends.append((x[-1, i], y[-1, i], name, colour))
    if len(ends) <= 8:
        label_ends(ax, ends)
    level = float(findings.elevation_steps(history, counting)[1].min())
    ax.axvline(counting.thresholds.induction_circuit, **DASHED)
    if np.isfinite(ceiling):
        ax.axvline(ceiling, color=PALETTE[3], ls=":", lw=1.2)
    ax.axhline(level, color=MUTED, ls=":", lw=1.2)
    ax.set_xscale("log")
    ax.set_xlabel("induction selectivity (times the baseline)")
    ax.margins(x=0.12)
    return level


def sensitivity(run, finding):
    """The verdict under every assumption and threshold: a strip a threshold that decides it."""
    sweeps = finding.sweeps
    fig, axes = plots(1, sweeps["swept"].nunique(), 0.75 + 0.26 * sweeps["counting"].nunique(), sharey=True)
    strips(axes[0], finding, run.panel.thresholds, "times the baseline")
    said = strip_words({run.spec.label: finding})
    return drawn(fig, f"{_name(finding.id, run)}_assumptions", *said, sweeps)


def strips(axes, finding, thresholds, unit):
    """Draw a finding's verdicts, a strip on each of the axes for a threshold that decides it."""
    for ax, (name, sweep) in zip(axes, finding.sweeps.groupby("swept", sort=False)):
        strip(ax, sweep, getattr(thresholds, name))
        ax.set_xlabel(f"{findings.SWEPT[name]} ({unit})", fontsize="small")


def strip_words(by_model):
    """(alt text, caption) of the strips of {model label: lib.findings.Finding}."""
    models = []
    for label, finding in by_model.items():
        verdicts = finding.sweeps["verdict"]
        counts = join(f"{n} {verdict}" for verdict, n in verdicts.value_counts().items())
        same = (verdicts == finding.verdict).mean()
        models.append({"label": label, "counts": counts, "n": len(verdicts), "verdict": finding.verdict, "same": same})
    return words("assumptions", models, same=" ".join(say("assumptions", "same", **about) for about in models))


def _with_interval(*columns):
    """Each of the columns with the two of its interval behind it."""
    return [f"{column}{end}" for column in columns for end in ("", "_low", "_high")]


def _name(finding, run):
    """File name of a figure's data."""
    return f"{finding}_{run.model}_{run.revision}"
