"""The figures of one run: what its notebook shows.

Alt texts and captions are written from the numbers that are drawn.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import PercentFormatter

from lib import findings as f
from lib import words as w
from lib.display import drawn
from lib.figures.style import CLASS_COLOURS, MUTED, PALETTE, WIDTH, label_ends, training_axis


def first_token_map(run):
    """F1: first-token selectivity of every head at this revision, and BOS heads a layer."""
    thresholds = run.panel.thresholds
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
        cmap="cividis",
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
                left.add_patch(
                    plt.Rectangle((head, layer), 1, 1, fill=False, ec=PALETTE[3], lw=2, ls=":" if thin else "-")
                )
    left.set(title="First-token selectivity", xlabel="head", ylabel="layer")
    left.tick_params(axis="y", rotation=0)
    bos = f.is_bos(now, thresholds)
    counts = pd.DataFrame(
        {
            "paper": bos.groupby(now["layer"]).sum(),
            "clean": f.is_bos(now, thresholds, "clean").groupby(now["layer"]).sum(),
        }
    )
    y = np.arange(n_layers)
    right.barh(y - 0.2, counts["paper"], 0.38, color=CLASS_COLOURS["first_token"], label="paper baseline")
    right.barh(y + 0.2, counts["clean"], 0.38, color=MUTED, label="clean baseline")
    right.set(title="BOS heads a layer", xlabel=f"heads of {n_heads}", xlim=(0, n_heads), ylim=(n_layers - 0.5, -0.5))
    right.set_yticks(y)
    right.legend(fontsize="x-small", loc="best", frameon=True)
    per_layer = ", ".join(f"{n} in layer {layer}" for layer, n in counts["paper"].items())
    top = now.loc[now["selectivity_first_token"].idxmax()]
    alt = (
        f"Heat map of first-token selectivity for {len(now)} heads of {run.title}, and bars of BOS heads a layer: "
        f"{per_layer}. Highest: {w.name_of(int(top.layer), int(top['head']))} with "
        f"{w.times(top.selectivity_first_token)} and {w.percent(top.attention_first_token)} of its attention."
    )
    caption = (
        f"First-token selectivity under the paper's baseline, N = {now['n_sequences'].iloc[0]:,}. Framed: 30x or more; "
        f"dotted if the first token gets under {w.percent(thresholds.mass_floor)} of the attention all the same."
    )
    columns = ["layer", "head", "selectivity_first_token", "selectivity_clean_first_token", "attention_first_token"]
    return drawn(fig, _name("F1", run), alt, caption, now[columns])


def bos_curve(run):
    """F2: the BOS fraction over training, counted in four ways."""
    thresholds = run.panel.thresholds
    history, _, _ = f.split(run.heads, run.revision)
    everything = f.bos_curve(run.heads, thresholds)
    curve = everything.iloc[: history["step"].nunique()]
    shape, end, size = f.shape_of(curve["paper"])
    fig, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    x = training_axis(ax, everything["tokens"])
    here = x[: len(curve)]
    styles = {
        "paper": ("any head past 30x, paper baseline", CLASS_COLOURS["first_token"], "-", "o"),
        "clean": ("any head past 30x, clean baseline", MUTED, "-", "s"),
        "best_class": ("by best class", PALETTE[7], "--", "^"),
        "mass": (f"past 30x with {w.percent(thresholds.mass_floor)} of the attention", PALETTE[3], ":", "D"),
    }
    for column, (label, colour, line, marker) in styles.items():
        ax.plot(here, curve[column], line, marker=marker, color=colour, label=label, ms=5)
    if size > 0:
        ax.axvspan(here[end - 1], here[end], color=CLASS_COLOURS["first_token"], alpha=0.12, lw=0)
    ax.set(ylabel="share of all heads", ylim=(-0.03, max(0.3, 1.15 * curve[list(styles)].max().max())))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="x-small", loc="upper left", frameon=True)
    points = ", ".join(f"{w.percent(v)} at {r}" for r, v in zip(curve["revision"], curve["paper"]))
    alt = f"Line of the BOS fraction of {run.spec.label} against training tokens (log scale): {points}. Shape so far: {shape}."
    caption = (
        f"BOS heads as a share of all {curve['heads'].iloc[0]} heads, up to {run.revision}. "
        "Shaded: the largest step between neighbouring revisions."
    )
    return drawn(fig, _name("F2", run), alt, caption, curve)


def milestones(run):
    """F3: induction heads above, BOS fraction below, with the first crossing of each milestone."""
    thresholds = run.panel.thresholds
    history, _, _ = f.split(run.heads, run.revision)
    tokens = run.heads.groupby("step")["tokens"].first()
    circuit = f.by_revision(history, f.in_circuit(history, thresholds.induction_circuit))
    bos = f.is_bos(history, thresholds).groupby(history["step"]).mean()
    met = f.milestones(history, thresholds).set_index("key")
    fig, (top, bottom) = plt.subplots(2, 1, figsize=(WIDTH, 4.6), sharex=True, layout="constrained")
    x = pd.Series(training_axis(top, tokens, ""), index=tokens.index)
    training_axis(bottom, tokens)
    top.plot(x[circuit.index], circuit, "-o", color=CLASS_COLOURS["induction"])
    top.axhline(f.INDUCTION_HEADS, color=MUTED, ls="--", lw=1)
    top.set(ylabel="heads past 50x", ylim=(-0.3, max(5.5, 1.1 * circuit.max())), title="Induction circuit")
    bottom.plot(x[bos.index], bos, "-o", color=CLASS_COLOURS["first_token"])
    bottom.axhline(f.SINK_FRACTION, color=MUTED, ls="--", lw=1)
    bottom.set(ylabel="share of heads past 30x", ylim=(-0.03, max(0.6, 1.1 * bos.max())), title="BOS heads")
    bottom.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for ax, key, colour in ((top, "induction_3", "induction"), (bottom, "bos_50", "first_token")):
        if not pd.isna(met.step[key]):
            ax.axvline(x[met.step[key]], color=CLASS_COLOURS[colour], lw=1.2, alpha=0.6)
    first = lambda key: "not reached" if pd.isna(met.step[key]) else f"at {met.revision[key]}"  # noqa: E731
    alt = (
        f"Two lines against training tokens for {run.spec.label} up to {run.revision}: heads past 50x induction end at "
        f"{circuit.iloc[-1]} (three or more: {first('induction_3')}), BOS heads end at {w.percent(bos.iloc[-1])} "
        f"(half of all: {first('bos_50')})."
    )
    caption = "Dashed: three heads, and half of all heads. A vertical line marks the revision that first reaches it."
    data = pd.DataFrame(
        {
            "revision": history.groupby("step")["revision"].first(),
            "tokens": tokens[bos.index],
            "induction_heads_at_50x": circuit,
            "bos_fraction_at_30x": bos,
        }
    )
    return drawn(fig, _name("F3", run), alt, caption, data)


def recall(run):
    """F4: recall and precision of the circuit against the final one, over training."""
    thresholds = run.panel.thresholds
    at = f.circuit_recall(run.heads, thresholds.induction_circuit)
    lower = f.circuit_recall(run.heads, thresholds.classify)
    steps = at.index[: list(at["revision"]).index(run.revision) + 1]
    fig, ax = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    x = pd.Series(training_axis(ax, at["tokens"]), index=at.index)
    ax.axvspan(
        ax.get_xlim()[0], f.EARLY * at["tokens"].max(), color=MUTED, alpha=0.15, lw=0, label="first 2 % of training"
    )
    ax.axhline(f.RECALL, color=MUTED, ls="--", lw=1)
    ax.plot(x[steps], at["recall"][steps], "-o", color=CLASS_COLOURS["induction"], label="recall, 50x")
    ax.plot(x[steps], at["precision"][steps], "s", ls=":", color=PALETTE[3], label="precision, 50x")
    ax.plot(x[steps], lower["recall"][steps], "--^", color=PALETTE[9], label="recall, 30x")
    ax.set(ylabel="share of heads", ylim=(-0.04, 1.06))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="x-small", loc="best", frameon=True)
    points = ", ".join(
        f"{'undefined' if pd.isna(v) else w.percent(v)} at {r}"
        for r, v in zip(at["revision"][steps], at["recall"][steps])
    )
    alt = f"Line of the recall of {run.spec.label}'s final induction circuit against training tokens: {points}."
    caption = (
        f"Heads past 50x up to {run.revision} against those of the last revision. Dashed: two thirds. "
        "Grey: the first 2 % of training."
    )
    data = at.assign(recall_at_30x=lower["recall"]).loc[steps]
    return drawn(fig, _name("F4", run), alt, caption, data)


def pr_against_selectivity(run):
    """F5: each circuit head's path through training in the plane of selectivity and PR."""
    thresholds = run.panel.thresholds
    history, now, final = f.split(run.heads, run.revision)
    circuit = sorted(f.head_set(final[f.in_circuit(final, thresholds.induction_circuit)]))
    _, level = f.spectral_leads(history, thresholds)
    fig, ax = plt.subplots(figsize=(WIDTH, 4.0), layout="constrained")
    pr_plane(ax, history, now, circuit, level, thresholds)
    ax.set_ylabel("participation ratio of z")
    ends = "; ".join(
        f"{w.name_of(layer, head)} from PR {p.pr.iloc[0]:.1f} to {p.pr.iloc[-1]:.1f} and from "
        f"{w.times(p.selectivity_induction.iloc[0])} to {w.times(p.selectivity_induction.iloc[-1])}"
        for layer, head in circuit
        for p in [path_of(history, layer, head)]
    )
    alt = (
        f"Paths of the {len(circuit)} heads of {run.spec.label}'s final induction circuit in the plane of induction "
        f"selectivity and participation ratio, up to {run.revision}" + (f": {ends}." if ends else ": there are none.")
    )
    caption = (
        f"One line a head of the final circuit, one point a revision, a ring at {run.revision}; grey: all other heads "
        f"at {run.revision}. Vertical: 50x; horizontal: the level from which PR counts as elevated ({level:.1f})."
    )
    inside = pd.Series(list(zip(history["layer"], history["head"])), index=history.index).isin(circuit)
    columns = [
        "revision",
        "tokens",
        "layer",
        "head",
        "selectivity_induction",
        "selectivity_clean_induction",
        "pr",
        "pr_centred",
        "pr_ceiling",
    ]
    return drawn(fig, _name("F5", run), alt, caption, history.loc[inside, columns])


def _name(finding, run):
    """File name of a figure's data."""
    return f"{finding}_{run.model}_{run.revision}"


def path_of(heads, layer, head):
    return heads[(heads["layer"] == layer) & (heads["head"] == head)]


def pr_plane(ax, history, now, circuit, level, thresholds):
    """Draw the selectivity-PR plane of one model on an axes."""
    floor = 0.1  # a log axis cannot hold a head that gives the target nothing
    ax.scatter(now["selectivity_induction"].clip(lower=floor), now["pr"], s=14, color=MUTED, alpha=0.5, lw=0)
    ends = []
    for colour, (layer, head) in zip(sns.color_palette("colorblind", max(1, len(circuit))), circuit):
        path = path_of(history, layer, head)
        x, y = path["selectivity_induction"].clip(lower=floor), path["pr"]
        ax.plot(x, y, "-o", ms=3, lw=1.2, color=colour)
        ax.plot(x.iloc[-1:], y.iloc[-1:], "o", ms=8, mfc="none", color=colour)
        ends.append((x.iloc[-1], y.iloc[-1], w.name_of(layer, head), colour))
    if len(circuit) <= 8:
        label_ends(ax, ends)
    ax.axvline(thresholds.induction_circuit, color=MUTED, ls="--", lw=1)
    ax.axhline(level, color=MUTED, ls=":", lw=1.2)
    ax.set_xscale("log")
    ax.set_xlabel("induction selectivity (times the baseline)")
    ax.margins(x=0.12)
