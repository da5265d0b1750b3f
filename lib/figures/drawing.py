"""What the figures of a run, of a panel and of the paper have in common: plots, lines with bands, maps, frames.

Bands and bars are bootstrap intervals over sequences (lib.measure.bootstrap).
"""

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.ticker import PercentFormatter

from lib import measure
from lib.figures.style import MUTED, PALETTE, SEQUENTIAL, VERDICT_COLOURS, WIDTH, label_ends
from lib.formatting import VERDICT_MARKS

INTERVAL = f"{100 * measure.bootstrap.LEVEL:.0f} % bootstrap interval over sequences"  # what bands and bars are
DASHED = {"color": MUTED, "ls": "--", "lw": 1}  # a threshold
THIN = {"ms": 4, "lw": 1}  # a line beside the main one


def plots(rows, columns, height, titles=(), **options):
    """Plots that share the text's width, in inches high, titled row by row: (figure, axes [row, column])."""
    fig, axes = plt.subplots(rows, columns, figsize=(WIDTH, height), layout="constrained", squeeze=False, **options)
    for ax, title in zip(axes.flat, titles):
        ax.set_title(title)
    return fig, axes


def share_axis(ax, **properties):
    """Make y an axis of shares, in per cent; properties are those of ax.set."""
    ax.set(**properties)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


def with_interval(trajectory, statistic, counting):
    """A statistic of heads, a function of heads and counting, with its interval: (values, low, high).

    The interval is of the same function on all resamples at once.
    """
    replicates = np.asarray(statistic(trajectory.replicated(), counting), dtype=float)
    return statistic(trajectory, counting), *measure.bootstrap.interval(replicates)


def named_lines(ax, x, lines, **style):
    """Draw lines, [(values, name, colour, format[, style])], and name each where it ends, if it ends in a number.

    The axes have their limits before: names keep clear of one another.
    """
    ends = []
    for values, name, colour, form, *own in lines:
        values = np.asarray(values, dtype=float)
        ax.plot(x, values, form, color=colour, **style, **(own[0] if own else {}))
        if np.isfinite(values[-1]):
            ends.append((x[-1], values[-1], name, colour))
    label_ends(ax, ends, fontsize="x-small")


def layer_map(ax, counts, label, n_heads, floor, **options):
    """Map of counts [layer, revision] of a model with n_heads heads a layer; a line below the layers of the floor."""
    sns.heatmap(counts, cmap=SEQUENTIAL, cbar=False, linewidths=0.3, vmin=0, fmt="", ax=ax, **options)
    ax.axhline(len(floor), color=PALETTE[3], lw=1.5)
    ax.set(title=f"{label} ({n_heads} a layer)", ylabel="layer" if ax.get_subplotspec().is_first_col() else "")


def recall_frame(ax, left, early, recall, ls="--"):
    """Make y an axis of recall: the early part of training, from the left edge on, is grey, and a line is at recall."""
    ax.axvspan(left, early, color=MUTED, alpha=0.15, lw=0)
    ax.axhline(recall, color=MUTED, ls=ls, lw=1)
    share_axis(ax, ylim=(-0.04, 1.06))


def recall_against_training(ax, first, early, recall, ends, **style):
    """recall_frame with x a log axis of the share of training done, from just before the first; names lines at ends."""
    left = first / 1.5
    ax.set(xscale="log", xlim=(left, 1.3), xlabel="share of training done", ylabel="recall of the final circuit")
    recall_frame(ax, left, early, recall, **style)
    label_ends(ax, ends, side=-1)


def strip(ax, sweep, at):
    """Verdicts of one threshold: rows are countings, columns values of the threshold; the column of `at` is framed."""
    table = sweep.pivot(index="counting", columns="threshold", values="verdict").reindex(sweep["counting"].unique())
    for row, verdicts in enumerate(table.to_numpy()):
        for column, verdict in enumerate(verdicts):
            face, ink = VERDICT_COLOURS[verdict]
            ax.add_patch(plt.Rectangle((column, row), 1, 1, fc=face, ec="white", lw=1.5))
            ax.text(column + 0.5, row + 0.5, VERDICT_MARKS[verdict], ha="center", va="center", color=ink, fontsize=8)
    if at in table.columns:
        column = list(table.columns).index(at)
        ax.add_patch(plt.Rectangle((column, 0), 1, len(table), fill=False, ec="0.25", lw=1.3, clip_on=False))
    ax.set(xlim=(0, table.shape[1]), ylim=(len(table), 0))
    ax.set_xticks(np.arange(table.shape[1]) + 0.5, [f"{t:g}" for t in table.columns], fontsize="x-small")
    ax.set_yticks(np.arange(len(table)) + 0.5, table.index, fontsize="x-small")
    ax.grid(False)
    ax.tick_params(length=0, pad=2)
    sns.despine(ax=ax, left=True, bottom=True)
