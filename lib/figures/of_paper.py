"""The paper's 1B panel redrawn from its published counts (lib.paper.published): one figure a finding, models in the paper's order.

Every function takes a lib.paper.published.Published.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from lib import findings, paper
from lib.figures.display import drawn, say, words
from lib.figures.drawing import DASHED, layer_map, plots, recall_against_training, share_axis
from lib.figures.style import BLUE, MODEL_COLOURS, ORANGE, PALETTE, WIDTH, label_ends, short_tokens, training_axis
from lib.formatting import join, percent

MODELS = paper.published.MODELS
COLOURS = dict(zip(MODELS, MODEL_COLOURS))


def bos_by_layer(published):
    """F1: published BOS heads of every layer at every revision, one map a model, coloured by the share of the layer."""
    data = paper.published.bos_by_layer(published)
    fig, (axes,) = plots(1, len(MODELS), 4.0)
    said, floor = [], findings.FLOOR_LAYERS
    for ax, (model, rows) in zip(axes, data.groupby("model", sort=False)):
        counts = rows.pivot(index="layer", columns="step", values="bos_heads")
        heads = rows["heads"].iloc[0]
        tokens = [short_tokens(t) for t in rows.groupby("step")["tokens"].first()]
        layer_map(
            ax, counts / heads, MODELS[model], heads, floor, vmax=1, annot=counts.astype(str),
            annot_kws={"fontsize": 5.5}, xticklabels=tokens, yticklabels=ax is axes[0],
        )  # fmt: skip
        ax.tick_params(axis="x", labelrotation=90, labelsize="x-small")
        ax.tick_params(axis="y", labelrotation=0, labelsize="x-small")
        ax.set_xlabel("tokens")
        ax.title.set_fontsize("small")
        last = counts.iloc[:, -1]
        most = {"floor": counts.loc[list(floor)].to_numpy().max(), "most": last.max()}
        said.append({"label": MODELS[model], **most, "last": last.sum(), "n": len(counts) * heads})
    return drawn(fig, "F1_published", *words("F1_published", said), data)


def bos_curves(published):
    """F2: published BOS fraction over training tokens, one line a model."""
    data = paper.published.curves(published)
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    training_axis(ax, data["tokens"])
    said, ends = [], {1: [], -1: []}  # by side
    for model, curve in data.groupby("model", sort=False):
        label, colour, share = MODELS[model], COLOURS[model], curve["bos_fraction"]
        end, last = curve["tokens"].iloc[-1], share.iloc[-1]
        ax.plot(curve["tokens"], share, "-o", ms=4, color=colour, label=label)
        side = -1 if end < data["tokens"].max() / 10 else 1  # Pythia ends amid the other lines
        ends[side].append((end, last, f"{label} {percent(last)}", colour))
        step = share.diff().idxmax()
        rise = {"first": share.iloc[0], "last": last, "points": 100 * share.diff()[step]}
        said.append({"label": label, **rise, "at": short_tokens(curve.loc[step, "tokens"])})
    ax.axhline(findings.SINK_FRACTION, **DASHED)
    share_axis(ax, ylabel="BOS heads, share of all", ylim=(-0.03, 0.9))
    for side, labels in ends.items():
        label_ends(ax, labels, side=side)
    return drawn(fig, "F2_published", *words("F2_published", said), data)


def order_of_emergence(published):
    """F3: published induction heads (above) and BOS fraction (below) over tokens, one column a model."""
    data = paper.published.curves(published)
    met = paper.published.milestones(published).set_index(["model", "key"])["tokens"]
    fig, axes = plots(2, len(MODELS), 4.4, MODELS.values(), sharey="row")
    said = []
    for (above, below), (model, curve) in zip(axes.T, data.groupby("model", sort=False)):
        x = curve["tokens"]
        above.plot(x, curve["induction_heads_at_30x"], "-o", ms=4, color=BLUE)
        above.plot(x, curve["induction_heads_at_50x"], "--s", ms=3.5, color=BLUE, alpha=0.8)
        below.plot(x, curve["bos_fraction"], "-o", ms=4, color=ORANGE)
        first = [met[model, key] for key in ("induction_3_at_30x", "bos_50")]
        for ax, level in ((above, findings.INDUCTION_HEADS), (below, findings.SINK_FRACTION)):
            ax.axhline(level, **DASHED)
            training_axis(ax, x, "tokens" if ax is below else "", narrow=True)
            for tokens, colour in zip(first, (BLUE, ORANGE)):
                if pd.notna(tokens):
                    ax.axvline(tokens, color=colour, lw=1, ls=":")
        induction, bos = ["never" if pd.isna(tokens) else f"at {short_tokens(tokens)}" for tokens in first]
        said.append({"label": MODELS[model], "induction": induction, "bos": bos})
    axes[0, 0].set_ylabel("induction heads")
    axes[0, 0].yaxis.set_major_locator(MaxNLocator(integer=True))
    share_axis(axes[1, 0], ylabel="BOS heads, share of all")
    for ax, (_, curve) in zip(axes[0], data.groupby("model", sort=False)):
        last = curve.iloc[-1]
        ends = [(last["tokens"], last[f"induction_heads_at_{t}"], t, BLUE) for t in ("30x", "50x")]
        label_ends(ax, ends, fontsize="x-small")
    return drawn(fig, "F3_published", *words("F3_published", said), data)


def recall_curves(published):
    """F4: published recall of the final circuit at 50x and at 30x, against the share of training done."""
    at_50 = paper.published.recall(published, paper.published.CIRCUIT)
    at_30 = paper.published.recall(published, paper.published.CLASSIFY)
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    said, ends = [], []
    for model, label in MODELS.items():
        firsts = []
        for rows, form, style in ((at_50, "-o", {"lw": 1.8, "zorder": 2}), (at_30, "--", {"lw": 1, "zorder": 3})):
            curve = rows[rows["model"] == model]
            ax.plot(curve["training"], curve["recall"], form, ms=4, color=COLOURS[model], **style)
            firsts.append(curve[curve["recall"] >= findings.RECALL - 1e-9].iloc[0])
        first, first_at_30 = firsts
        ends.append((first.training, first.recall, label, COLOURS[model]))
        at = {"at_50": 100 * first.training, "at_30": 100 * first_at_30.training}
        said.append({"label": label, "n": first.final, **at})
    recall_against_training(ax, at_50["training"].min(), findings.EARLY, findings.RECALL, ends, ls=":")
    ticks = 10.0 ** np.arange(-5, 1)
    ax.set_xticks(ticks, [f"{100 * t:g} %" for t in ticks])
    data = at_50.rename(columns={"shared": "past_50x", "recall": "recall_at_50x"})
    data = data.assign(past_30x=at_30["shared"], recall_at_30x=at_30["recall"])
    return drawn(fig, "F4_published", *words("F4_published", said), data)


def pr_and_selectivity(published):
    """F5: published PR (above) and induction selectivity (below) of the listed heads over tokens, one column a model."""
    leads = paper.published.leads(published).query("rule == 'start'").set_index(["model", "name"])
    data = paper.published.elevated(published).assign(induction=published.selectivity["induction"])
    data["in_circuit"] = [key in leads.index for key in zip(data["model"], data["name"])]
    fig, axes = plots(2, len(MODELS), 5.0, MODELS.values(), sharey="row")
    said = []
    for (above, below), (model, rows) in zip(axes.T, data.groupby("model", sort=False)):
        colours = iter([PALETTE[i] for i in (0, 1, 2, 4)])
        for name, head in sorted(rows.groupby("name", sort=False), key=lambda item: item[1]["in_circuit"].iloc[0]):
            inside = head["in_circuit"].iloc[0]
            colour = next(colours) if inside else None
            for ax, values, ls in ((above, head["pr"], "-"), (below, head["induction"].clip(lower=0.1), "--")):
                if not inside:
                    ax.plot(head["tokens"], values, color="0.72", lw=1.2)
                    continue
                ax.plot(head["tokens"], values, color=colour, label=name, ls=ls, lw=1.5)
                lead = leads.loc[model, name]
                crossed, fill = head["step"] == lead["crossed_step"], "white" if lead["left_censored"] else colour
                ax.plot(head["tokens"][crossed], values[crossed], "o", ms=6, mfc=fill, mec=colour, mew=1.5, zorder=4)
        circuit, level = leads.loc[model], paper.published.start_level(published, model)
        readable = circuit[~circuit["left_censored"]]
        led = int((readable["lead"] >= 0).fillna(False).sum())
        above.axhline(level, color=PALETTE[3], ls=":", lw=1.2)
        below.axhline(paper.published.CIRCUIT, **DASHED)
        below.set_yscale("log")
        training_axis(above, rows["tokens"], "", narrow=True)
        training_axis(below, rows["tokens"], "tokens", narrow=True)
        above.legend(fontsize="x-small", frameon=True, loc="upper left", ncols=1 if model != "olmoe-1b-7b-0924" else 2)
        counts = {"led": led, "n": len(readable), "censored": len(circuit) - len(readable)}
        said.append({"label": MODELS[model], "level": level, **counts})
    axes[0, 0].set(ylabel="participation ratio", ylim=(-4, 122))
    axes[1, 0].set_ylabel("induction selectivity")
    axes[1, 0].set_yticks([0.1, 1, 10, 100], ["≤ 0.1x", "1x", "10x", "100x"])
    columns = ["model", "revision", "step", "tokens", "layer", "head", "name", "pr", "induction", "in_circuit"]
    return drawn(fig, "F5_published", *words("F5_published", said), data[columns])


PUBLISHED_FIGURES = {
    "F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_and_selectivity,
}  # fmt: skip


def overview(published, runs):
    """The first page's figure: when induction heads and BOS heads appear, the paper's models above ours.

    runs: lib.report.run_page.Run of up to three models of a panel at their last revisions.
    """
    models = [
        (MODELS[model], curve["tokens"].to_numpy(), curve["induction_heads_at_30x"], curve["bos_heads"], heads)
        for (model, heads), curve in paper.published.curves(published).groupby(["model", "heads"], sort=False)
    ]
    kinds = ("induction", "induction", BLUE), ("first_token", "BOS", ORANGE)
    ours = runs[: len(models)]
    for run in ours:
        heads, threshold = run.trajectory, run.counting.thresholds.classify
        counts = [findings.members(heads, cls, threshold, run.counting).sum(axis=-1) for cls, *_ in kinds]
        models.append((run.spec.label, heads.tokens, *counts, len(heads.layer)))
    fig, axes = plots(2, len(MODELS), 4.6, [label for label, *_ in models], sharey=True)
    said, frames, ends = [], [], []
    for ax, (label, tokens, induction, bos, heads) in zip(axes.flat, models):
        x = training_axis(ax, tokens, "", narrow=True)
        parts = []
        for (cls, name, colour), counts in zip(kinds, (induction, bos)):
            counts = np.asarray(counts)
            most = max(counts.max(), 1)
            ax.plot(x, counts / most, "-o", ms=3.5, color=colour, label=f"{name} heads")
            ends.append((ax, (x[-1], counts[-1] / most, f"{counts[-1]} {name}", colour)))
            frames.append(pd.DataFrame({"model": label, "tokens": tokens, "class": cls, "heads": counts, "of": heads}))
            half = x[np.argmax(counts >= most / 2)]
            parts.append(say("overview", "some" if counts.any() else "zero", name=name, most=most, half=half))
        said.append({"label": label, "said": join(parts)})
    for ax in axes[:, 0]:
        share_axis(ax, ylim=(-0.05, 1.08), ylabel="share of its maximum")
    for ax in axes[-1]:
        ax.set_xlabel("training tokens")
    for ax in axes.flat:
        label_ends(ax, [end for of, end in ends if of is ax], fontsize="x-small")
    sizes = join(dict.fromkeys(str(len(run.trajectory.layer)) for run in ours))
    return drawn(fig, "overview", *words("overview", said, sizes=sizes), pd.concat(frames))
