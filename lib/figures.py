"""The figures, one function each: head tables in, a drawn figure with its words out.

Alt texts and captions are written from the numbers that are drawn.  One colour a
model and one a class of heads, from seaborn's colour-blind palette, everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import NullFormatter, NullLocator, PercentFormatter

from lib import findings as f
from lib.display import drawn

PALETTE = sns.color_palette("colorblind")
CLASS_COLOURS = {
    "induction": PALETTE[0],
    "first_token": PALETTE[1],
    "previous_token": PALETTE[2],
    "duplicate_token": PALETTE[3],
    "self": PALETTE[4],
    "local": PALETTE[5],
}
MODEL_COLOURS = [PALETTE[i] for i in (0, 1, 2, 4, 7, 9)]
MUTED = "0.55"
WIDTH = 7.2  # inches: the book's text column

sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85, palette="colorblind")


def training_axis(ax, tokens, label="training tokens"):
    """Make x a log axis of tokens, with step 0 drawn a factor 4 left of the first; returns the x positions."""
    tokens = np.asarray(tokens, dtype=float)
    first = tokens[tokens > 0].min() if (tokens > 0).any() else 1.0
    positions = np.where(tokens > 0, tokens, first / 4)
    ax.set_xscale("log")
    last = max(tokens.max(), first)
    decades = 10.0 ** np.arange(np.ceil(np.log10(first)), np.floor(np.log10(last)) + 1)
    ticks = list(decades) if len(decades) else [first]
    labels = [f.tokens_text(t).removesuffix(" tokens") for t in ticks]
    if (tokens == 0).any():
        ticks, labels = [first / 4, *ticks], ["0", *labels]
    ax.set_xticks(ticks, labels)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(positions.min() / 1.5, max(positions.max(), first) * 1.6)
    ax.set_xlabel(label)
    return positions


def _label_ends(ax, ends):
    """Name the ends of lines, [(x, y, text, colour)], spread a little so that close ends stay legible."""
    for rank, (x, y, text, colour) in enumerate(sorted(ends, key=lambda end: end[1])):
        shift = 8 * (rank - (len(ends) - 1) / 2)
        ax.annotate(text, (x, y), (8, shift), textcoords="offset points", va="center", color=colour, fontsize="small")


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
        f"{per_layer}. Highest: {f.name_of(int(top.layer), int(top['head']))} with "
        f"{f.times(top.selectivity_first_token)} and {f.percent(top.attention_first_token)} of its attention."
    )
    caption = (
        f"First-token selectivity under the paper's baseline, N = {now['n_sequences'].iloc[0]:,}. Framed: 30x or more; "
        f"dotted if the first token gets under {f.percent(thresholds.mass_floor)} of the attention all the same."
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
        "mass": (f"past 30x with {f.percent(thresholds.mass_floor)} of the attention", PALETTE[3], ":", "D"),
    }
    for column, (label, colour, line, marker) in styles.items():
        ax.plot(here, curve[column], line, marker=marker, color=colour, label=label, ms=5)
    if size > 0:
        ax.axvspan(here[end - 1], here[end], color=CLASS_COLOURS["first_token"], alpha=0.12, lw=0)
    ax.set(ylabel="share of all heads", ylim=(-0.03, max(0.3, 1.15 * curve[list(styles)].max().max())))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="x-small", loc="upper left", frameon=True)
    points = ", ".join(f"{f.percent(v)} at {r}" for r, v in zip(curve["revision"], curve["paper"]))
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
        f"{circuit.iloc[-1]} (three or more: {first('induction_3')}), BOS heads end at {f.percent(bos.iloc[-1])} "
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
        f"{'undefined' if pd.isna(v) else f.percent(v)} at {r}"
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
    _pr_plane(ax, history, now, circuit, level, thresholds)
    ax.set_ylabel("participation ratio of z")
    ends = "; ".join(
        f"{f.name_of(layer, head)} from PR {p.pr.iloc[0]:.1f} to {p.pr.iloc[-1]:.1f} and from "
        f"{f.times(p.selectivity_induction.iloc[0])} to {f.times(p.selectivity_induction.iloc[-1])}"
        for layer, head in circuit
        for p in [_path(history, layer, head)]
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


def _path(heads, layer, head):
    return heads[(heads["layer"] == layer) & (heads["head"] == head)]


def _pr_plane(ax, history, now, circuit, level, thresholds):
    """Draw the selectivity-PR plane of one model on an axes."""
    floor = 0.1  # a log axis cannot hold a head that gives the target nothing
    ax.scatter(now["selectivity_induction"].clip(lower=floor), now["pr"], s=14, color=MUTED, alpha=0.5, lw=0)
    ends = []
    for colour, (layer, head) in zip(sns.color_palette("colorblind", max(1, len(circuit))), circuit):
        path = _path(history, layer, head)
        x, y = path["selectivity_induction"].clip(lower=floor), path["pr"]
        ax.plot(x, y, "-o", ms=3, lw=1.2, color=colour)
        ax.plot(x.iloc[-1:], y.iloc[-1:], "o", ms=8, mfc="none", color=colour)
        ends.append((x.iloc[-1], y.iloc[-1], f.name_of(layer, head), colour))
    if len(circuit) <= 8:
        _label_ends(ax, ends)
    ax.axvline(thresholds.induction_circuit, color=MUTED, ls="--", lw=1)
    ax.axhline(level, color=MUTED, ls=":", lw=1.2)
    ax.set_xscale("log")
    ax.set_xlabel("induction selectivity (times the baseline)")
    ax.margins(x=0.12)


# Panels: all models of a panel side by side ---------------------------------------


def bos_by_layer(runs):
    """F1 over a panel: BOS heads of every layer at every revision, one map a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.0), layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        heads = run.heads
        counts = f.is_bos(heads, run.panel.thresholds).groupby([heads["layer"], heads["step"]]).sum().unstack()
        n_heads = heads["head"].nunique()
        sns.heatmap(
            counts,
            vmin=0,
            vmax=n_heads,
            cmap="cividis",
            annot=len(counts) <= 8,
            cbar=False,
            linewidths=0.3,
            ax=ax,
            annot_kws={"fontsize": 7},
        )
        ax.axhline(len(f.FLOOR_LAYERS), color=PALETTE[3], lw=1.5)
        ax.set(
            title=f"{run.spec.label} ({n_heads} a layer)", xlabel="revision", ylabel="layer" if ax is axes[0][0] else ""
        )
        low = int(counts.loc[list(f.FLOOR_LAYERS)].to_numpy().max())
        words.append(
            f"{run.spec.label}: at most {low} in layers 0 and 1, at most {int(counts.to_numpy().max())} in any layer"
        )
        rows.append(counts.stack().rename("bos_heads_at_30x").reset_index().assign(model=run.model))
    alt = f"Maps of BOS heads, layer by revision, for {len(runs)} models. " + "; ".join(words) + "."
    caption = "Heads past 30x on the first token (paper baseline), layer by revision 0 to the last. Red line: the floor of layers 0 and 1."
    return drawn(fig, "F1_panel", alt, caption, pd.concat(rows))


def bos_curves(runs):
    """F2 over a panel: one curve a model, with the clean baseline as a thin line."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    rows, words = [], []
    limits = []
    for colour, run in zip(MODEL_COLOURS, runs):
        curve = f.bos_curve(run.heads, run.panel.thresholds)
        x = training_axis(ax, curve["tokens"])
        limits.append(ax.get_xlim())
        ax.plot(x, curve["paper"], "-o", color=colour, label=run.spec.label)
        ax.plot(x, curve["clean"], "--", color=colour, lw=1)
        shape, _, size = f.shape_of(curve["paper"])
        words.append(
            f"{run.spec.label} ends at {f.percent(curve['paper'].iloc[-1])} ({shape}, largest step {100 * size:.1f} points)"
        )
        rows.append(curve.assign(model=run.model))
    ax.set_xlim(min(a for a, _ in limits), max(b for _, b in limits))
    ax.set(ylabel="BOS heads, share of all", ylim=(-0.03, None))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="small", frameon=True, loc="upper left")
    alt = "Lines of the BOS fraction against training tokens. " + "; ".join(words) + "."
    caption = "Share of heads past 30x on the first token. Solid: the paper's baseline; dashed: the clean baseline."
    return drawn(fig, "F2_panel", alt, caption, pd.concat(rows))


def order_of_emergence(runs):
    """F3 over a panel: induction heads and BOS heads as shares of all heads, one plot a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.0), sharey=True, layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        heads, thresholds = run.heads, run.panel.thresholds
        steps = heads.groupby("step")
        x = training_axis(ax, steps["tokens"].first(), "tokens")
        circuit = f.in_circuit(heads, thresholds.induction_circuit)
        lines = {
            "induction": circuit.groupby(heads["step"]).mean(),
            "first_token": f.is_bos(heads, thresholds).groupby(heads["step"]).mean(),
        }
        for cls, line in lines.items():
            ax.plot(
                x,
                line,
                "-o",
                ms=4,
                color=CLASS_COLOURS[cls],
                label={"induction": "induction, 50x", "first_token": "BOS, 30x"}[cls],
            )
        ax.axhline(f.SINK_FRACTION, color=MUTED, ls="--", lw=1)
        ax.set_title(run.spec.label)
        met = f.milestones(heads, thresholds).set_index("key")
        when = lambda key: "never" if pd.isna(met.tokens[key]) else f"at {f.tokens_text(met.tokens[key])}"  # noqa: E731
        words.append(
            f"{run.spec.label}: {f.percent(lines['induction'].iloc[-1])} induction heads at the end (three {when('induction_3')}), {f.percent(lines['first_token'].iloc[-1])} BOS heads (half {when('bos_50')})"
        )
        rows.append(
            pd.DataFrame(
                {
                    "model": run.model,
                    "revision": steps["revision"].first(),
                    "tokens": steps["tokens"].first(),
                    "induction_fraction_at_50x": lines["induction"],
                    "bos_fraction_at_30x": lines["first_token"],
                }
            )
        )
    axes[0][0].set_ylabel("share of all heads")
    axes[0][0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0][0].legend(fontsize="x-small", frameon=True, loc="upper left")
    alt = "Lines of the shares of induction heads and BOS heads against training tokens. " + "; ".join(words) + "."
    caption = (
        "Heads past 50x induction and past 30x on the first token, as shares of all heads. Dashed: half of all heads."
    )
    return drawn(fig, "F3_panel", alt, caption, pd.concat(rows))


def recall_curves(runs):
    """F4 over a panel: recall of the final circuit against the share of training done."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    rows, words = [], []
    shares = []
    for colour, run in zip(MODEL_COLOURS, runs):
        curve = f.circuit_recall(run.heads, run.panel.thresholds.induction_circuit)
        trained = curve[curve["training"] > 0]
        shares.append(trained["training"].min())
        ax.plot(trained["training"], trained["recall"], "-o", color=colour, label=run.spec.label)
        reached = curve[curve["recall"] >= f.RECALL - 1e-9]
        words.append(
            f"{run.spec.label}, final circuit of {curve['shared'].iloc[-1]}: "
            + (
                f"two thirds after {f.percent(reached['training'].iloc[0])} of training"
                if len(reached)
                else "two thirds never reached"
            )
        )
        rows.append(curve.assign(model=run.model))
    ax.set_xscale("log")
    ax.axvspan(min(shares) / 1.5, f.EARLY, color=MUTED, alpha=0.15, lw=0)
    ax.axhline(f.RECALL, color=MUTED, ls="--", lw=1)
    ax.set(
        xlabel="share of training done",
        ylabel="recall of the final circuit",
        ylim=(-0.04, 1.06),
        xlim=(min(shares) / 1.5, 1.3),
    )
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="small", frameon=True, loc="center left")
    alt = (
        "Lines of the recall of the final induction circuit against the share of training done. "
        + "; ".join(words)
        + "."
    )
    caption = "Share of the final induction circuit past 50x. Dashed: two thirds; grey: the first 2 % of training. The untrained step 0 is left out."
    return drawn(fig, "F4_panel", alt, caption, pd.concat(rows))


def pr_planes(runs):
    """F5 over a panel: the selectivity-PR plane of each model at its last revision."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.2), layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        heads, thresholds = run.heads, run.panel.thresholds
        final = heads[heads["step"] == heads["step"].max()]
        circuit = sorted(f.head_set(final[f.in_circuit(final, thresholds.induction_circuit)]))
        leads, level = f.spectral_leads(heads, thresholds)
        _pr_plane(ax, heads, final, circuit, level, thresholds)
        ax.set(title=run.spec.label, xlabel="induction selectivity")
        mine = leads[[h in circuit for h in zip(leads["layer"], leads["head"])]]
        words.append(
            f"{run.spec.label}: {len(circuit)} circuit heads, PR ever elevated in {int(mine['elevated'].notna().sum())} of them"
        )
        rows.append(mine.assign(model=run.model))
    axes[0][0].set_ylabel("participation ratio of z")
    alt = (
        "Paths of the final circuits' heads in the plane of induction selectivity and participation ratio. "
        + "; ".join(words)
        + "."
    )
    caption = "One line a head of the final circuit, rings at the last revision; grey: all other heads. Vertical: 50x; dotted: the level from which PR counts as elevated."
    return drawn(fig, "F5_panel", alt, caption, pd.concat(rows))


PANEL_FIGURES = {"F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_planes}


def _name(finding, run):
    """File name of a figure's data."""
    return f"{finding}_{run.model}_{run.revision}"
