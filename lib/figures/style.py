"""What all figures share: colours, the width of the book's column, the axis of training, labels.

One colour a class of heads, from seaborn's colour-blind palette, and one a family of models (Pythia, OLMo,
OLMoE), darker and of other hues, so that no colour means two things.  Lines are named where they
end rather than in a legend.
"""

import numpy as np
import seaborn as sns
from matplotlib.colors import to_rgb
from matplotlib.ticker import NullFormatter, NullLocator

from lib.formatting import tokens_text

PALETTE = sns.color_palette("colorblind")
CLASS_COLOURS = {
    "induction": PALETTE[0],
    "first_token": PALETTE[1],
    "previous_token": PALETTE[2],
    "duplicate_token": PALETTE[3],
    "self": PALETTE[4],
    "local": PALETTE[5],
}
BLUE, ORANGE = CLASS_COLOURS["induction"], CLASS_COLOURS["first_token"]
# In the order of a panel's models.  The first three are dark enough for text on white (over 4.5 to 1).
MODEL_COLOURS = ["#332288", "#882255", "#6b6b16", "#117733", "#661100", "#444444"]
MUTED = "0.55"
SEQUENTIAL = "Oranges"  # light for low: turned over for dark pages (report.css), low stays close to the page
WIDTH = 7.2  # inches: the book's text column
VERDICT_COLOURS = {
    "holds": ("#d5ecd9", "#0b5520"),
    "fails": ("#fbdcd3", "#8a1f06"),
    "undetermined": ("#e4e6ea", "#3b4350"),
}

sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85, palette="colorblind")


def short_tokens(tokens):
    """1234567 -> "1.2M"."""
    return tokens_text(tokens).removesuffix(" tokens")


def training_axis(ax, tokens, label="training tokens", narrow=False):
    """Make x a log axis of tokens, with step 0 drawn a factor 4 left of the first; returns the x positions.

    narrow: where there are more than four ticks, only every second is labelled.
    """
    tokens = np.asarray(tokens, dtype=float)
    first = tokens[tokens > 0].min() if (tokens > 0).any() else 1.0
    positions = np.where(tokens > 0, tokens, first / 4)
    ax.set_xscale("log")
    last = max(tokens.max(), first)
    decades = 10.0 ** np.arange(np.ceil(np.log10(first)), np.floor(np.log10(last)) + 1)
    ticks = list(decades) if len(decades) else [first]
    labels = [short_tokens(t) for t in ticks]
    if (tokens == 0).any():
        ticks, labels = [first / 4, *ticks], ["0", *labels]
    if narrow and len(ticks) > 4:
        labels = [text if i % 2 == 0 else "" for i, text in enumerate(labels)]
    ax.set_xticks(ticks, labels)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(positions.min() / 1.5, max(positions.max(), first) * 1.6)
    ax.set_xlabel(label)
    at = ax.__dict__.setdefault("_tokens_at", {})  # models that share the axes may have other first checkpoints
    at.update(zip(positions, tokens))
    ax.fmt_xdata = lambda x: tokens_text(at.get(x, x))
    return positions


def ink(colour):
    """A colour dark enough for small text on white."""
    return tuple(0.7 * part for part in to_rgb(colour))


def label_ends(ax, ends, gap=10, fontsize="small", side=1):
    """Name the ends of lines, [(x, y, text, colour)], once the axes have their limits.

    Labels keep gap points from one another; those that would overlap move apart around their middle.
    side: 1 for labels to the right of their points, -1 to the left.
    """
    for x, y, text, _ in ends:
        for line in ax.lines:  # a line that is labelled directly has that name for lib.figures.display.points_of, too
            if line.get_label().startswith("_") and (np.asarray(line.get_xydata()) == (x, y)).all(axis=-1).any():
                line.set_label(text)
    points = 72 / ax.figure.dpi
    ends = sorted((ax.transData.transform((x, y))[1] * points, x, y, text, colour) for x, y, text, colour in ends)
    stacks = []  # [bottom, labels]: labels that touch form a stack, centred on the mean of their ends
    for end in ends:
        stacks.append([end[0], [end]])
        while len(stacks) > 1 and stacks[-1][0] - stacks[-2][0] < gap * len(stacks[-2][1]):
            labels = stacks[-2][1] + stacks[-1][1]
            middle = sum(label[0] for label in labels) / len(labels)
            stacks[-2:] = [[middle - gap * (len(labels) - 1) / 2, labels]]
    for bottom, labels in stacks:
        for rank, (height, x, y, text, colour) in enumerate(labels):
            shift = bottom + gap * rank - height
            ax.annotate(
                text, (x, y), (7 * side, shift), textcoords="offset points", va="center",
                ha="left" if side > 0 else "right", color=ink(colour), fontsize=fontsize,
            )  # fmt: skip


def shade(ax, x, bounds, colour):
    """The band of a bootstrap interval (low, high) around a line."""
    ax.fill_between(x, *bounds, color=colour, alpha=0.18, lw=0)
