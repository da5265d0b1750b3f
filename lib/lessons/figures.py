"""The figures of the lessons: small, and each of what the learner has just computed.

Every function takes plain arrays or tables and returns a drawn figure with its words.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from lib import formatting as w
from lib.figures import CLASS_COLOURS, MUTED, PALETTE, SEQUENTIAL, WIDTH, drawn, label_ends, training_axis
from lib.measure import CLASSES, participation_ratio, selectivity_column


def patterns(pattern, layer, name="lesson-patterns"):
    """Attention patterns of the heads of one layer for one sequence.

    pattern: [head, query, key].
    """
    pattern = np.asarray(pattern)
    n_heads, seq_len = pattern.shape[:2]
    fig, axes = plt.subplots(
        1, n_heads, figsize=(WIDTH, WIDTH / n_heads + 0.7), sharey=True, squeeze=False, layout="constrained"
    )
    for head, ax in enumerate(axes[0]):
        image = ax.imshow(pattern[head], norm=LogNorm(1e-3, 1, clip=True), cmap=SEQUENTIAL, interpolation="nearest")
        ax.set(title=w.name_of(layer, head), xlabel="key", xticks=[0, seq_len - 1], yticks=[0, seq_len - 1])
        ax.grid(False)
    axes[0, 0].set_ylabel("query")
    fig.colorbar(image, ax=axes[0].tolist(), label="attention", shrink=0.8)
    last = pattern[:, -1]
    rows = pd.DataFrame(
        [{"head": w.name_of(layer, head), "key": key, "attention": last[head, key]} for head, key in np.ndindex(last.shape)]
    )  # fmt: skip
    most = ", ".join(
        f"{w.name_of(layer, head)} gives {w.percent(row.max())} to position {row.argmax()}"
        for head, row in enumerate(last)
    )
    alt = f"Attention patterns of {n_heads} heads over {seq_len} positions. From the last position, {most}."
    caption = (
        f"One square a head of layer {layer}, one sequence of {seq_len} tokens: the row is the query, the column the key. "
        "The colours are logarithmic, from 0.1 % of the attention or less to all of it. Above the diagonal there is none."
    )
    return drawn(fig, name, alt, caption, rows)


def last_query(rows, marks, name="lesson-last-query"):
    """How the last position's attention is spread over the sequence.

    rows: {label: [key]}.  marks: {label: position}, marked on the axis.
    """
    fig, axes = plt.subplots(
        len(rows), 1, figsize=(WIDTH, 0.7 + 1.1 * len(rows)), sharex=True, squeeze=False, layout="constrained"
    )
    for ax, (label, row), colour in zip(axes[:, 0], rows.items(), PALETTE):
        ax.bar(np.arange(len(row)), row, width=1.0, color=colour, lw=0)
        ax.set(ylim=(0, 1), xlim=(-1, len(row)), yticks=[0, 0.5, 1])
        ax.set_title(label, loc="left", fontsize="medium")
        for position in marks.values():
            ax.axvline(position, color=MUTED, ls=":", lw=1, zorder=0)
    first = min(marks.values())
    for label, position in marks.items():  # neighbours are named on either side
        side = {"ha": "right", "xytext": (-3, -2)} if position == first else {"ha": "left", "xytext": (3, -2)}
        axes[0, 0].annotate(
            label, (position, 1), textcoords="offset points", va="top", fontsize="small", color="0.25", **side
        )
    axes[-1, 0].set_xlabel("position (key)")
    fig.supylabel("attention", fontsize="medium")
    most = "; ".join(f"{label}: {w.percent(np.max(row))} at position {np.argmax(row)}" for label, row in rows.items())
    alt = f"Bars of the last query's attention over {len(row)} positions. The most, {most}."
    where = ", ".join(f"{label} at {position}" for label, position in marks.items())
    caption = f"Attention of the last position to every position of one sequence. Dotted: {where}."
    data = pd.DataFrame(rows).rename_axis("position").reset_index()
    return drawn(fig, name, alt, caption, data)


def around(rows, name="lesson-around", reach=4):
    """The mean attention near a position that differs between sequences: {label: ([sequence, key], positions)}."""
    offsets = np.arange(-reach, reach + 1)
    fig, axes = plt.subplots(1, len(rows), figsize=(WIDTH, 2.4), sharey=True, squeeze=False, layout="constrained")
    near = {}
    for ax, (label, (attention, positions)), colour in zip(axes[0], rows.items(), PALETTE):
        at = np.asarray(positions)[:, None] + offsets
        near[label] = np.take_along_axis(np.asarray(attention), at, axis=1).mean(axis=0)
        ax.bar(offsets, near[label], color=colour, lw=0)
        ax.set(xlabel="steps from there", xticks=offsets[::2], ylim=(0, 1))
        ax.set_title(label.replace(": ", ":\n"), fontsize="small")
    axes[0, 0].set_ylabel("attention")
    after = "; ".join(f"{label}, {w.percent(values[reach + 1])} one step behind" for label, values in near.items())
    alt = f"Bars of the mean attention up to {reach} steps before and after a position. {after}."
    caption = (
        "Attention of the last query near a position, averaged over the sequences. One step behind is what followed."
    )
    return drawn(fig, name, alt, caption, pd.DataFrame({"steps": offsets} | near))


def grid(values, name="lesson-grid"):
    """The mean attention that each head gives to one place: values [layer, head]."""
    values = np.asarray(values, dtype=float)
    n_layers, n_heads = values.shape
    fig, ax = plt.subplots(figsize=(0.75 * WIDTH, 0.8 + 0.45 * n_layers), layout="constrained")
    sns.heatmap(
        values, cmap=SEQUENTIAL, annot=n_heads <= 8, fmt=".2f", annot_kws={"fontsize": 9}, linewidths=0.5,
        cbar_kws={"label": "attention"}, ax=ax,
    )  # fmt: skip
    ax.set(xlabel="head", ylabel="layer")
    ax.tick_params(axis="y", rotation=0)
    top = np.unravel_index(values.argmax(), values.shape)
    alt = f"Heat map of {n_layers} layers by {n_heads} heads, attention: {values.max():.3g} in {w.name_of(*top)}, the median head {np.median(values):.2g}."
    layer, head = np.indices(values.shape).reshape(2, -1)
    data = pd.DataFrame({"layer": layer, "head": head, "value": values.ravel()})
    return drawn(fig, name, alt, "Mean attention of the last query, one square a head.", data)


def spectra(matrices, name="lesson-spectra"):
    """The weights p_i behind a participation ratio, for a few matrices: {label: [n, d]}."""
    fig, axes = plt.subplots(1, len(matrices), figsize=(WIDTH, 2.3), sharey=True, squeeze=False, layout="constrained")
    rows, said = [], []
    for ax, (label, matrix), colour in zip(axes[0], matrices.items(), PALETTE):
        squared = np.linalg.svd(np.asarray(matrix, dtype=float), compute_uv=False) ** 2
        p = squared / squared.sum() if squared.sum() else squared
        pr = participation_ratio(matrix)
        ax.bar(np.arange(1, len(p) + 1), p, color=colour, lw=0)
        ax.set(xlabel="direction", title=f"{label}\nPR {pr:.1f} of {len(p)}", ylim=(0, 1))
        ax.title.set_fontsize("medium")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        rows += [{"matrix": label, "direction": i + 1, "p": value} for i, value in enumerate(p)]
        said.append(f"{label}: PR {pr:.2f} of {len(p)}, the first direction holds {w.percent(p[0])}")
    axes[0, 0].set_ylabel("share $p_i$")
    caption = "Shares of the squared singular values, largest first. PR is how many equal bars would be as even."
    return drawn(fig, name, f"Bars of the shares of directions. {'; '.join(said)}.", caption, pd.DataFrame(rows))


def pr_against_rows(sizes, measured, ceiling, d, name="lesson-rows"):
    """PR against the number of rows it is computed from: of a head, and of Gaussian noise of that size."""
    fig, ax = plt.subplots(figsize=(0.75 * WIDTH, 2.9), layout="constrained")
    ax.plot(sizes, ceiling, color=MUTED, marker="s", ms=4)
    ax.plot(sizes, measured, color=PALETTE[0], marker="o", ms=4)
    ax.plot(sizes, np.minimum(sizes, d), color="0.2", ls=":", lw=1)
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.set(
        xlabel="rows (sequences)",
        ylabel="participation ratio",
        ylim=(0, 1.08 * d),
        xlim=(sizes[0] / 1.2, sizes[-1] * 2.6),
    )
    label_ends(
        ax,
        [
            (sizes[-1], measured[-1], "the head", PALETTE[0]),
            (sizes[-1], ceiling[-1], "Gaussian noise", "0.4"),
            (sizes[-1], d, "what is possible", "0.2"),
        ],
    )
    alt = (
        f"PR against the number of rows. The head: {measured[0]:.1f} with {sizes[0]} rows, {measured[-1]:.1f} with {sizes[-1]}; "
        f"Gaussian noise: {ceiling[0]:.1f} and {ceiling[-1]:.1f}, of {d} directions."
    )
    caption = "The same head, its PR computed from fewer rows; and the PR of pure noise of that size. Dotted: rows or directions, whichever are fewer."
    data = pd.DataFrame({"rows": sizes, "pr": measured, "pr_gaussian": ceiling})
    return drawn(fig, name, alt, caption, data)


def formation(frames, cls, threshold, name="lesson-formation"):
    """One class' selectivity of every head over training, a panel a model: {label: lib.tables.heads.trajectory}."""
    fig, axes = plt.subplots(1, len(frames), figsize=(WIDTH, 2.9), sharey=True, squeeze=False, layout="constrained")
    column, parts, said = selectivity_column(cls), [], []
    for ax, (label, frame) in zip(axes[0], frames.items()):
        tokens = frame.groupby("step")["tokens"].first().to_numpy()
        x = training_axis(ax, tokens)
        members = []
        for (layer, head), mine in frame.groupby(["layer", "head"]):
            values = np.maximum(mine.sort_values("step")[column].to_numpy(), 0.05)
            member = values[-1] >= threshold
            members += [w.name_of(layer, head)] if member else []
            style = {"color": CLASS_COLOURS[cls], "lw": 1.8, "zorder": 3} if member else {"color": "0.7", "lw": 0.8}
            ax.plot(x, values, **style)
            parts.append(mine.assign(model=label)[["model", "layer", "head", "revision", "tokens", column]])
        ax.axhline(threshold, color="0.2", ls=":", lw=1)
        ax.set(yscale="log", title=f"{label}\n{', '.join(members) or 'no head'}")
        ax.title.set_fontsize("medium")
        ax.tick_params(axis="x", labelsize="small")
        n_heads = len(frame.groupby(["layer", "head"]))
        said.append(f"{label}: {len(members)} of {n_heads} heads end past {w.times(threshold)}")
    axes[0, 0].set_ylabel("times the baseline")
    alt = f"Selectivity of every head for the class {cls} over training. {'; '.join(said)}."
    caption = (
        f"One line a head, {cls.replace('_', '-')} selectivity. Dotted: {w.times(threshold)}; in colour and "
        "named: the heads past it at the end. Step 0 is drawn left of the first tokens."
    )
    return drawn(fig, name, alt, caption, pd.concat(parts, ignore_index=True))


def ratio_against_mass(table, threshold, floor, name="lesson-mass"):
    """Every head and class of a head table: how large the ratio, and how much attention is behind it.

    Heads are not named: to find one is an exercise.
    """
    rows = pd.DataFrame(
        [
            {
                "head": w.name_of(int(row.layer), int(row.head)),
                "class": cls,
                "attention": getattr(row, f"attention_{cls}"),
                "selectivity": getattr(row, selectivity_column(cls)),
            }
            for row in table.itertuples()
            for cls in CLASSES
        ]
    )
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    for cls in CLASSES:
        some = rows[rows["class"] == cls]
        ax.scatter(
            some["attention"].clip(lower=1e-5), some["selectivity"].clip(lower=1e-3), s=22, color=CLASS_COLOURS[cls],
            label=cls.replace("_", "-"), lw=0,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="share of the attention", ylabel="times the baseline", xlim=(7e-6, 1.6))
    ax.axhline(threshold, color="0.2", ls=":", lw=1)
    ax.axvline(floor, color="0.2", ls=":", lw=1)
    ax.legend(fontsize="small", loc="lower right", frameon=True)
    thin = rows[(rows["selectivity"] >= threshold) & (rows["attention"] < floor)]
    high = rows[rows["selectivity"] >= threshold]
    alt = (
        f"Scatter of {len(rows)} ratios against the attention behind them: {len(high)} are {w.times(threshold)} or more, "
        f"{len(thin)} of these with under {w.percent(floor)} of the attention."
    )
    caption = (
        f"One dot a head and class; dotted: {w.times(threshold)} and {w.percent(floor)} of the attention. Upper left: ratios "
        "with little behind them. Values under the axes are drawn at their edge."
    )
    return drawn(fig, name, alt, caption, rows)


def costs(groups, whole, name="lesson-costs"):
    """What it costs to zero sets of heads: {label: [loss, ...]}, against the whole model's loss."""
    fig, ax = plt.subplots(figsize=(WIDTH, 0.9 + 0.42 * len(groups)), layout="constrained")
    rows, said = [], []
    for y, (label, losses) in enumerate(groups.items()):
        losses = np.asarray(losses, dtype=float)
        ax.plot(losses - whole, np.full(len(losses), y), "o", color=PALETTE[y % len(PALETTE)], alpha=0.75, ms=6)
        rows += [{"set": label, "loss": loss, "cost": loss - whole} for loss in losses]
        if len(losses):
            said.append(f"{label} {losses.mean() - whole:+.2f} nats")
    ax.axvline(0, color="0.2", lw=1)
    ax.set_yticks(range(len(groups)), groups)
    ax.set(xlabel="change of the loss (nats)", ylim=(len(groups) - 0.5, -0.5))
    alt = f"What zeroing heads does to the loss of {whole:.2f} nats: {', '.join(said)}."
    caption = "Change of the loss on the batch with some heads zeroed, one dot a set. Right of the line the model is worse, left of it better."
    return drawn(fig, name, alt, caption, pd.DataFrame(rows))
