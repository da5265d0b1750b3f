"""What all figures share: colours, the width of the book's column, the axis of training, labels.

One colour a model and one a class of heads, from seaborn's colour-blind palette, everywhere.
"""

import numpy as np
import seaborn as sns
from matplotlib.ticker import NullFormatter, NullLocator

from lib import words as w

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
SEQUENTIAL = "Oranges"  # light for low: turned over for dark pages (report.css), low stays close to the page
WIDTH = 7.2  # inches: the book's text column
VERDICT_COLOURS = {
    "holds": ("#d5ecd9", "#0b5520"),
    "fails": ("#fbdcd3", "#8a1f06"),
    "undetermined": ("#e4e6ea", "#3b4350"),
}
VERDICT_MARKS = {"holds": "✓", "fails": "✗", "undetermined": "?"}

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
    labels = [w.tokens_text(t).removesuffix(" tokens") for t in ticks]
    if (tokens == 0).any():
        ticks, labels = [first / 4, *ticks], ["0", *labels]
    ax.set_xticks(ticks, labels)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(positions.min() / 1.5, max(positions.max(), first) * 1.6)
    ax.set_xlabel(label)
    return positions


def label_ends(ax, ends):
    """Name the ends of lines, [(x, y, text, colour)], spread a little so that close ends stay legible."""
    for rank, (x, y, text, colour) in enumerate(sorted(ends, key=lambda end: end[1])):
        shift = 8 * (rank - (len(ends) - 1) / 2)
        ax.annotate(text, (x, y), (8, shift), textcoords="offset points", va="center", color=colour, fontsize="small")


def shade(ax, x, bounds, colour):
    """The band of a bootstrap interval (low, high) around a line."""
    ax.fill_between(x, *bounds, color=colour, alpha=0.18, lw=0)
