"""The paper's 1B panel redrawn from its published counts (lib.paper.published): one figure a finding, models in the paper's order."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lib import formatting as w
from lib import paper
from lib.figures.display import drawn
from lib.figures.style import (
    CLASS_COLOURS,
    MODEL_COLOURS,
    MUTED,
    PALETTE,
    SEQUENTIAL,
    WIDTH,
    label_ends,
    thin_ticks,
    training_axis,
)
from lib.findings import EARLY, FLOOR_LAYERS, RECALL, SINK_FRACTION, members

COLOURS = dict(zip(paper.published.MODELS, MODEL_COLOURS))
TWO_ROWS = 4.4  # inches


def _short(tokens):
    return w.tokens_text(tokens).removesuffix(" tokens")


def _grid(rows, height, **options):
    """Rows of plots, a column a model, titled with its name."""
    fig, axes = plt.subplots(
        rows, len(paper.published.MODELS), figsize=(WIDTH, height), layout="constrained", squeeze=False, **options
    )
    for ax, label in zip(axes[0], paper.published.MODELS.values()):
        ax.set_title(label)
    return fig, axes


def _tokens_axis(ax, tokens, label):
    """training_axis for a narrow plot."""
    training_axis(ax, tokens, label)
    thin_ticks(ax)


def bos_by_layer(published):
    """F1: published BOS heads of every layer at every revision, one map a model, coloured by the share of the layer."""
    data = paper.published.bos_by_layer(published)
    fig, axes = _grid(1, 4.0)
    words = []
    for ax, (model, rows) in zip(axes[0], data.groupby("model", sort=False)):
        counts = rows.pivot(index="layer", columns="step", values="bos_heads")
        heads = rows["heads"].iloc[0]
        tokens = rows.groupby("step")["tokens"].first()
        sns.heatmap(
            counts / heads, vmin=0, vmax=1, cmap=SEQUENTIAL, cbar=False, linewidths=0.3, ax=ax, annot=counts, fmt="d",
            annot_kws={"fontsize": 5.5}, xticklabels=[_short(t) for t in tokens], yticklabels=ax is axes[0][0],
        )  # fmt: skip
        ax.tick_params(axis="x", labelrotation=90, labelsize="x-small")
        ax.tick_params(axis="y", labelrotation=0, labelsize="x-small")
        ax.axhline(len(FLOOR_LAYERS), color=PALETTE[3], lw=1.5)
        ax.set(
            title=f"{paper.published.MODELS[model]} ({heads} a layer)",
            xlabel="tokens",
            ylabel="layer" if ax is axes[0][0] else "",
        )
        ax.title.set_fontsize("small")
        low, last = int(counts.loc[list(FLOOR_LAYERS)].to_numpy().max()), counts.iloc[:, -1]
        words.append(
            f"{paper.published.MODELS[model]}: at most {low} in layers 0 and 1; at the end {int(last.sum())} of {len(counts) * heads}, "
            f"up to {int(last.max())} in a layer"
        )
    alt = "Maps of published BOS heads, layer by revision, for 3 models. " + ". ".join(words) + "."
    caption = (
        "The paper's 1B panel (published counts, redrawn). Heads past 30x on the first token, layer by tokens; the colour is "
        "their share of the layer. Red line: the floor of layers 0 and 1."
    )
    return drawn(fig, "F1_published", alt, caption, data)


def bos_curves(published):
    """F2: published BOS fraction over training tokens, one line a model."""
    data = paper.published.curves(published)
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    words, ends = [], {False: [], True: []}
    training_axis(ax, data["tokens"])
    for model, curve in data.groupby("model", sort=False):
        ax.plot(
            curve["tokens"],
            curve["bos_fraction"],
            "-o",
            ms=4,
            color=COLOURS[model],
            label=paper.published.MODELS[model],
        )
        end = curve.iloc[-1]
        # Pythia ends amid the other lines: its label goes to the left.
        ends[end["tokens"] < data["tokens"].max() / 10].append(
            (
                end["tokens"],
                end["bos_fraction"],
                f"{paper.published.MODELS[model]} {w.percent(end['bos_fraction'])}",
                COLOURS[model],
            )
        )
        step = curve["bos_fraction"].diff().idxmax()
        words.append(
            f"{paper.published.MODELS[model]} goes from {w.percent(curve['bos_fraction'].iloc[0])} to {w.percent(curve['bos_fraction'].iloc[-1])}, "
            f"its largest step {100 * curve['bos_fraction'].diff()[step]:.1f} points at {_short(curve.loc[step, 'tokens'])}"
        )
    ax.axhline(SINK_FRACTION, color=MUTED, ls="--", lw=1)
    ax.set(ylabel="BOS heads, share of all", ylim=(-0.03, 0.9))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_ends(ax, ends[False])
    label_ends(ax, ends[True], side=-1)
    alt = "Lines of the published BOS fraction against training tokens. " + "; ".join(words) + "."
    caption = "The paper's 1B panel (published counts, redrawn). Share of heads past 30x on the first token, whatever their highest class. Dashed: half."
    return drawn(fig, "F2_published", alt, caption, data)


def order_of_emergence(published):
    """F3: published induction heads (above) and BOS fraction (below) over tokens, one column a model."""
    data = paper.published.curves(published)
    met = paper.published.milestones(published).set_index(["model", "key"])["tokens"]
    fig, axes = _grid(2, TWO_ROWS, sharey="row")
    words = []
    for (above, below), (model, curve) in zip(axes.T, data.groupby("model", sort=False)):
        x, blue = curve["tokens"], CLASS_COLOURS["induction"]
        above.plot(x, curve["induction_heads_at_30x"], "-o", ms=4, color=blue)
        above.plot(x, curve["induction_heads_at_50x"], "--s", ms=3.5, color=blue, alpha=0.8)
        below.plot(x, curve["bos_fraction"], "-o", ms=4, color=CLASS_COLOURS["first_token"])
        for ax, level in ((above, 3), (below, SINK_FRACTION)):
            ax.axhline(level, color=MUTED, ls="--", lw=1)
        for ax in (above, below):
            _tokens_axis(ax, x, "tokens" if ax is below else "")
            for key, cls in (("induction_3_at_30x", "induction"), ("bos_50", "first_token")):
                if not pd.isna(met[(model, key)]):
                    ax.axvline(met[(model, key)], color=CLASS_COLOURS[cls], lw=1, ls=":")
        when = lambda key: "never" if pd.isna(met[(model, key)]) else f"at {_short(met[(model, key)])}"  # noqa: E731
        words.append(
            f"{paper.published.MODELS[model]}: three induction heads {when('induction_3_at_30x')}, half of the heads BOS {when('bos_50')}"
        )
    axes[0][0].set_ylabel("induction heads")
    axes[0][0].yaxis.set_major_locator(MaxNLocator(integer=True))
    axes[1][0].set_ylabel("BOS heads, share of all")
    axes[1][0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for ax, (_, curve) in zip(axes[0], data.groupby("model", sort=False)):
        last = curve.iloc[-1]
        ends = [
            (last["tokens"], last[f"induction_heads_at_{t}"], t, CLASS_COLOURS["induction"]) for t in ("30x", "50x")
        ]
        label_ends(ax, ends, fontsize="x-small")
    alt = (
        "Lines of published induction heads and BOS fraction against training tokens, for 3 models. "
        + "; ".join(words)
        + "."
    )
    caption = (
        "The paper's 1B panel (published counts, redrawn). Above: heads past 30x induction (solid), and past 50x among those of the "
        "final circuit (dashed), the only ones listed. Below: share of heads past 30x on the first token. Dotted: the tokens at "
        "which there are three induction heads at 30x (blue) and half of the heads are BOS heads (orange)."
    )
    return drawn(fig, "F3_published", alt, caption, data)


def recall_curves(published):
    """F4: published recall of the final circuit at 50x and at 30x, against the share of training done."""
    at_50, at_30 = (paper.published.recall(published, t) for t in (paper.published.CIRCUIT, paper.published.CLASSIFY))
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    words, ends = [], []
    for model in paper.published.MODELS:
        firsts = []
        for rows, style in ((at_50, "-o"), (at_30, "--")):
            curve = rows[rows["model"] == model]
            thin = style == "--"
            ax.plot(
                curve["training"],
                curve["recall"],
                style,
                ms=4,
                lw=1 if thin else 1.8,
                color=COLOURS[model],
                zorder=3 if thin else 2,
            )
            firsts.append(curve[curve["recall"] >= RECALL - 1e-9].iloc[0])
        ends.append((firsts[0].training, firsts[0].recall, paper.published.MODELS[model], COLOURS[model]))
        words.append(
            f"{paper.published.MODELS[model]}, final circuit of {firsts[0].final}: two thirds after {100 * firsts[0].training:.2g} % of training at 50x, "
            f"{100 * firsts[1].training:.2g} % at 30x"
        )
    left = at_50["training"].min() / 1.5
    ax.set_xscale("log")
    ax.axvspan(left, EARLY, color=MUTED, alpha=0.15, lw=0)
    ax.axhline(RECALL, color=MUTED, ls=":", lw=1)
    ax.set(xlabel="share of training done", ylabel="recall of the final circuit", ylim=(-0.04, 1.06), xlim=(left, 1.3))
    ticks = 10.0 ** np.arange(-5, 1)
    ax.set_xticks(ticks, [f"{100 * t:g} %" for t in ticks])
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_ends(ax, ends, side=-1)
    alt = (
        "Lines of the published recall of the final induction circuit against the share of training done. "
        + "; ".join(words)
        + "."
    )
    caption = (
        "The paper's 1B panel (published values, redrawn). Share of the final circuit (past 50x at the last revision) that is past 50x "
        "(solid) and past 30x (dashed). Dotted: two thirds; grey: the first 2 % of training."
    )
    data = at_50.rename(columns={"shared": "past_50x", "recall": "recall_at_50x"})
    return drawn(
        fig, "F4_published", alt, caption, data.assign(past_30x=at_30["shared"], recall_at_30x=at_30["recall"])
    )


def pr_and_selectivity(published):
    """F5: published PR (above) and induction selectivity (below) of the listed heads over tokens, one column a model."""
    leads = paper.published.leads(published).query("rule == 'start'").set_index(["model", "name"])
    data = paper.published.elevated(published).assign(induction=published.selectivity["induction"])
    data["in_circuit"] = [key in leads.index for key in zip(data["model"], data["name"])]
    fig, axes = _grid(2, 5.0, sharey="row")
    words = []
    for (above, below), (model, rows) in zip(axes.T, data.groupby("model", sort=False)):
        colours = iter([PALETTE[i] for i in (0, 1, 2, 4)])
        for name, head in sorted(rows.groupby("name", sort=False), key=lambda item: item[1]["in_circuit"].iloc[0]):
            inside = bool(head["in_circuit"].iloc[0])
            colour = next(colours) if inside else "0.72"
            for ax, values in ((above, head["pr"]), (below, head["induction"].clip(lower=0.1))):
                style = {"ls": "-" if ax is above or not inside else "--", "lw": 1.5 if inside else 1.2}
                ax.plot(head["tokens"], values, color=colour, label=name if inside else None, **style)
                if inside:
                    crossed = head["step"] == leads.loc[(model, name), "crossed_step"]
                    fill = "white" if leads.loc[(model, name), "left_censored"] else colour
                    ax.plot(
                        head["tokens"][crossed], values[crossed], "o", ms=6, mfc=fill, mec=colour, mew=1.5, zorder=4
                    )
        circuit = leads.loc[model]
        readable = circuit[~circuit["left_censored"]]
        led = int((readable["lead"] >= 0).fillna(False).sum())
        above.axhline(paper.published.start_level(published, model), color=PALETTE[3], ls=":", lw=1.2)
        below.axhline(paper.published.CIRCUIT, color=MUTED, ls="--", lw=1)
        below.set_yscale("log")
        for ax in (above, below):
            _tokens_axis(ax, rows["tokens"], "tokens" if ax is below else "")
        above.legend(fontsize="x-small", frameon=True, loc="upper left", ncols=1 if model != "olmoe-1b-7b-0924" else 2)
        words.append(
            f"{paper.published.MODELS[model]}, level {paper.published.start_level(published, model):.1f}: PR elevated at or before the crossing in {led} of "
            f"{len(readable)} circuit heads, {len(circuit) - len(readable)} past 50x from the first revision"
        )
    axes[0][0].set(ylabel="participation ratio", ylim=(-4, 122))
    axes[1][0].set_ylabel("induction selectivity")
    axes[1][0].set_yticks([0.1, 1, 10, 100], ["≤ 0.1x", "1x", "10x", "100x"])
    alt = (
        "Lines of published PR and induction selectivity of 16 heads against training tokens, for 3 models. "
        + "; ".join(words)
        + "."
    )
    caption = (
        "The paper's 1B panel (published values, redrawn). PR above, induction selectivity below. Heads of the final induction circuits in "
        "colour, the listed heads of other classes in grey. Points: the first revision past 50x (grey dashes); hollow where that is the first revision there is, so "
        "that no lead can be read. Dotted: twice the median PR of the listed heads at the first revision."
    )
    columns = ["model", "revision", "step", "tokens", "layer", "head", "name", "pr", "induction", "in_circuit"]
    return drawn(fig, "F5_published", alt, caption, data[columns])


def overview(published, runs):
    """The first page's figure: when induction heads and BOS heads appear, the paper's models above ours.

    runs: lib.report.run_page.Run of up to three models of a panel at their last revisions.
    """
    rows = [
        (
            paper.published.MODELS[model],
            curve["tokens"].to_numpy(),
            curve["induction_heads_at_30x"],
            curve["bos_heads"],
            heads,
        )
        for (model, heads), curve in paper.published.curves(published).groupby(["model", "heads"], sort=False)
    ]
    for run in runs[: len(rows)]:
        counts = [
            members(run.trajectory, cls, run.counting.thresholds.classify, run.counting).sum(axis=-1)
            for cls in ("induction", "first_token")
        ]
        rows.append((run.spec.label, run.trajectory.tokens, *counts, len(run.trajectory.layer)))
    fig, axes = plt.subplots(2, len(paper.published.MODELS), figsize=(WIDTH, 4.6), layout="constrained", sharey=True)
    words, frames, ends = [], [], []
    for ax, (label, tokens, induction, bos, heads) in zip(axes.flat, rows):
        x = training_axis(ax, tokens, "")
        thin_ticks(ax)
        ax.set_title(label)
        for cls, name, counts in (("induction", "induction", induction), ("first_token", "BOS", bos)):
            counts = np.asarray(counts)
            most = max(counts.max(), 1)
            ax.plot(x, counts / most, "-o", ms=3.5, color=CLASS_COLOURS[cls], label=f"{name} heads")
            ends.append((ax, x[-1], counts[-1] / most, f"{counts[-1]} {name}", CLASS_COLOURS[cls]))
            frames.append(pd.DataFrame({"model": label, "tokens": tokens, "class": cls, "heads": counts, "of": heads}))
        half = lambda counts, x=tokens: w.tokens_text(x[np.argmax(np.asarray(counts) >= max(np.max(counts), 1) / 2)])  # noqa: E731
        said = [
            f"{np.max(counts)} {name} heads at most, half of them by {half(counts)}"
            if np.max(counts)
            else f"no {name} head"
            for name, counts in (("induction", induction), ("BOS", bos))
        ]
        words.append(f"{label}: {w.join(said)}")
    for ax in axes[:, 0]:
        ax.set(ylim=(-0.05, 1.08), ylabel="share of its maximum")
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for ax in axes[-1]:
        ax.set_xlabel("training tokens")
    for ax in axes.flat:
        label_ends(ax, [end[1:] for end in ends if end[0] is ax], fontsize="x-small")
    alt = "Lines of the numbers of induction heads and BOS heads against training tokens. " + "; ".join(words) + "."
    caption = (
        "Heads past 30x on the induction target (blue) and on the first token (orange), each as a share of the most that the model "
        "ever has (in a small model a head or two can be all of it); the numbers are those at the end. Above: the paper's models, from its published counts. Below: the models of this "
        f"book, with {w.join(dict.fromkeys(str(row[-1]) for row in rows[len(paper.published.MODELS) :]))} heads each, measured here."
    )
    return drawn(fig, "overview", alt, caption, pd.concat(frames))


PUBLISHED_FIGURES = {
    "F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_and_selectivity,
}  # fmt: skip
