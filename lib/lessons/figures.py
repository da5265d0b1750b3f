"""The figures of the lessons: small, and each of what the learner has just computed.

Every function takes plain arrays or tables and returns a drawn figure; its words are in figures.yml.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from lib.figures import CLASS_COLOURS, MUTED, PALETTE, SEQUENTIAL, WIDTH, drawn, label_ends, training_axis
from lib.formatting import name_of
from lib.lessons.answers import Texts, read
from lib.measure import CLASSES, participation_ratio, selectivity_column

TEXTS = {kind: Texts(texts) for kind, texts in read("figures.yml").items()}
DOTTED = {"color": "0.2", "ls": ":", "lw": 1}


def _drawn(fig, kind, data, **fields):
    texts = TEXTS[kind]
    return drawn(fig, f"lesson-{kind}", texts.say("alt", **fields), texts.say("caption", **fields), data)


def _side_by_side(n, height):
    """A figure as wide as the column with n axes that share y."""
    fig, axes = plt.subplots(1, n, figsize=(WIDTH, height), sharey=True, squeeze=False, layout="constrained")
    return fig, axes[0]


def patterns(pattern, layer):
    """Attention patterns of the heads of one layer for one sequence.

    pattern: [head, query, key].
    """
    pattern = np.asarray(pattern)
    n_heads, seq_len = pattern.shape[:2]
    fig, axes = _side_by_side(n_heads, WIDTH / n_heads + 0.7)
    for head, ax in enumerate(axes):
        image = ax.imshow(pattern[head], norm=LogNorm(1e-3, 1, clip=True), cmap=SEQUENTIAL, interpolation="nearest")
        ax.set(title=name_of(layer, head), xlabel="key", xticks=[0, seq_len - 1], yticks=[0, seq_len - 1])
        ax.grid(False)
    axes[0].set_ylabel("query")
    fig.colorbar(image, ax=axes.tolist(), label="attention", shrink=0.8)
    last = pattern[:, -1]
    head, key = np.indices(last.shape).reshape(2, -1)
    rows = pd.DataFrame({"head": [name_of(layer, h) for h in head], "key": key, "attention": last.ravel()})
    most = ", ".join(
        TEXTS["patterns"].say("each", head=(layer, head), share=row.max(), position=row.argmax())
        for head, row in enumerate(last)
    )
    return _drawn(fig, "patterns", rows, layer=layer, n_heads=n_heads, seq_len=seq_len, most=most)


def last_query(rows, marks):
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
    for label, position in marks.items():  # neighbours are named on either side
        side, shift = ("right", -3) if position == min(marks.values()) else ("left", 3)
        axes[0, 0].annotate(
            label, (position, 1), (shift, -2), textcoords="offset points", va="top", ha=side, fontsize="small", color="0.25"
        )  # fmt: skip
    axes[-1, 0].set_xlabel("position (key)")
    fig.supylabel("attention", fontsize="medium")
    most = "; ".join(
        TEXTS["last-query"].say("each", label=label, share=np.max(row), position=np.argmax(row))
        for label, row in rows.items()
    )
    where = ", ".join(f"{label} at {position}" for label, position in marks.items())
    data = pd.DataFrame(rows).rename_axis("position").reset_index()
    return _drawn(fig, "last-query", data, n=len(row), most=most, marks=where)


def around(rows, reach=4):
    """The mean attention near a position that differs between sequences: {label: ([sequence, key], positions)}."""
    offsets = np.arange(-reach, reach + 1)
    fig, axes = _side_by_side(len(rows), 2.4)
    near = {}
    for ax, (label, (attention, positions)), colour in zip(axes, rows.items(), PALETTE):
        at = np.asarray(positions)[:, None] + offsets
        near[label] = np.take_along_axis(np.asarray(attention), at, axis=1).mean(axis=0)
        ax.bar(offsets, near[label], color=colour, lw=0)
        ax.set(xlabel="steps from there", xticks=offsets[::2], ylim=(0, 1))
        ax.set_title(label.replace(": ", ":\n"), fontsize="small")
    axes[0].set_ylabel("attention")
    after = "; ".join(TEXTS["around"].say("each", label=label, share=row[reach + 1]) for label, row in near.items())
    return _drawn(fig, "around", pd.DataFrame({"steps": offsets} | near), reach=reach, after=after)


def grid(values):
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
    layer, head = np.indices(values.shape).reshape(2, -1)
    data = pd.DataFrame({"layer": layer, "head": head, "value": values.ravel()})
    top = np.unravel_index(values.argmax(), values.shape)
    about = {"head": top, "most": values.max(), "median": np.median(values)}
    return _drawn(fig, "grid", data, n_layers=n_layers, n_heads=n_heads, **about)


def spectra(matrices):
    """The weights p_i behind a participation ratio, for a few matrices: {label: [n, d]}."""
    fig, axes = _side_by_side(len(matrices), 2.3)
    rows, said = [], []
    for ax, (label, matrix), colour in zip(axes, matrices.items(), PALETTE):
        squared = np.linalg.svd(np.asarray(matrix, dtype=float), compute_uv=False) ** 2
        p = squared / squared.sum() if squared.sum() else squared
        pr = participation_ratio(matrix)
        ax.bar(np.arange(1, len(p) + 1), p, color=colour, lw=0)
        ax.set(xlabel="direction", title=f"{label}\nPR {pr:.1f} of {len(p)}", ylim=(0, 1))
        ax.title.set_fontsize("medium")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        rows += [{"matrix": label, "direction": i + 1, "p": value} for i, value in enumerate(p)]
        said.append(TEXTS["spectra"].say("each", label=label, pr=pr, n=len(p), share=p[0]))
    axes[0].set_ylabel("share $p_i$")
    return _drawn(fig, "spectra", pd.DataFrame(rows), said="; ".join(said))


def pr_against_rows(sizes, measured, ceiling, d):
    """PR against the number of rows it is computed from: of a head, and of Gaussian noise of that size."""
    fig, ax = plt.subplots(figsize=(0.75 * WIDTH, 2.9), layout="constrained")
    ax.plot(sizes, ceiling, color=MUTED, marker="s", ms=4)
    ax.plot(sizes, measured, color=PALETTE[0], marker="o", ms=4)
    ax.plot(sizes, np.minimum(sizes, d), **DOTTED)
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.set(xlabel="rows (sequences)", ylabel="participation ratio")
    ax.set(ylim=(0, 1.08 * d), xlim=(sizes[0] / 1.2, sizes[-1] * 2.6))
    ends = {
        "the head": (measured[-1], PALETTE[0]),
        "Gaussian noise": (ceiling[-1], "0.4"),
        "what is possible": (d, "0.2"),
    }
    label_ends(ax, [(sizes[-1], y, text, colour) for text, (y, colour) in ends.items()])
    data = pd.DataFrame({"rows": sizes, "pr": measured, "pr_gaussian": ceiling})
    head, noise, rows = ((values[0], values[-1]) for values in (measured, ceiling, sizes))
    return _drawn(fig, "rows", data, head=head, noise=noise, rows=rows, d=d)


def formation(frames, cls, threshold):
    """One class' selectivity of every head over training, a panel a model: {label: lib.tables.heads.trajectory}."""
    fig, axes = _side_by_side(len(frames), 2.9)
    column, parts, said = selectivity_column(cls), [], []
    for ax, (label, frame) in zip(axes, frames.items()):
        x = training_axis(ax, frame.groupby("step")["tokens"].first().to_numpy())
        heads, members = frame.groupby(["layer", "head"]), []
        for (layer, head), mine in heads:
            values = np.maximum(mine.sort_values("step")[column].to_numpy(), 0.05)
            if values[-1] >= threshold:
                members.append(name_of(layer, head))
                ax.plot(x, values, color=CLASS_COLOURS[cls], lw=1.8, zorder=3)
            else:
                ax.plot(x, values, color="0.7", lw=0.8)
            parts.append(mine.assign(model=label)[["model", "layer", "head", "revision", "tokens", column]])
        ax.axhline(threshold, **DOTTED)
        ax.set(yscale="log", title=f"{label}\n{', '.join(members) or 'no head'}")
        ax.title.set_fontsize("medium")
        ax.tick_params(axis="x", labelsize="small")
        about = {"label": label, "members": len(members), "n": len(heads), "threshold": threshold}
        said.append(TEXTS["formation"].say("each", **about))
    axes[0].set_ylabel("times the baseline")
    about = {"cls": cls, "hyphened": cls.replace("_", "-"), "threshold": threshold}
    return _drawn(fig, "formation", pd.concat(parts, ignore_index=True), said="; ".join(said), **about)


def ratio_against_mass(table, threshold, floor):
    """Every head and class of a head table: how large the ratio, and how much attention is behind it.

    Heads are not named: to find one is an exercise.
    """
    rows = pd.DataFrame(
        [
            {
                "head": name_of(int(row.layer), int(row.head)),
                "class": cls,
                "attention": getattr(row, f"attention_{cls}"),
                "selectivity": getattr(row, selectivity_column(cls)),
            }
            for row in table.itertuples()
            for cls in CLASSES
        ]
    )
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    for cls, some in rows.groupby("class", sort=False):
        x, y = some["attention"].clip(lower=1e-5), some["selectivity"].clip(lower=1e-3)
        ax.scatter(x, y, s=22, color=CLASS_COLOURS[cls], label=cls.replace("_", "-"), lw=0)
    ax.set(xscale="log", yscale="log", xlabel="share of the attention", ylabel="times the baseline", xlim=(7e-6, 1.6))
    ax.axhline(threshold, **DOTTED)
    ax.axvline(floor, **DOTTED)
    ax.legend(fontsize="small", loc="lower right", frameon=True)
    high = rows["selectivity"] >= threshold
    about = {"n": len(rows), "high": high.sum(), "thin": (high & (rows["attention"] < floor)).sum()}
    return _drawn(fig, "mass", rows, **about, threshold=threshold, floor=floor)


def costs(groups, whole):
    """What it costs to zero sets of heads: {label: [loss, ...]}, against the whole model's loss."""
    fig, ax = plt.subplots(figsize=(WIDTH, 0.9 + 0.42 * len(groups)), layout="constrained")
    rows, said = [], []
    for y, (label, losses) in enumerate(groups.items()):
        losses = np.asarray(losses, dtype=float)
        ax.plot(losses - whole, np.full(len(losses), y), "o", color=PALETTE[y % len(PALETTE)], alpha=0.75, ms=6)
        rows += [{"set": label, "loss": loss, "cost": loss - whole} for loss in losses]
        if len(losses):
            said.append(TEXTS["costs"].say("each", label=label, cost=losses.mean() - whole))
    ax.axvline(0, color="0.2", lw=1)
    ax.set_yticks(range(len(groups)), groups)
    ax.set(xlabel="change of the loss (nats)", ylim=(len(groups) - 0.5, -0.5))
    return _drawn(fig, "costs", pd.DataFrame(rows), whole=whole, said=", ".join(said))
