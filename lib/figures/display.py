"""What a notebook shows: prose, figures with their words and data, tables, verdicts.

Everything is self-contained HTML or Markdown, so that a page looks the same in
Jupyter and in the book, offline, and one file holds all there is to a run.
"""

import base64
import io
import json
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import yaml
from matplotlib.ticker import PercentFormatter

from lib.formatting import Template, percent


@dataclass(frozen=True, repr=False)
class Prose:
    """Markdown text."""

    text: str

    def __repr__(self):
        return self.text

    def _repr_markdown_(self):
        return self.text


@dataclass(frozen=True, repr=False)
class Table:
    """A small table; wide ones scroll by themselves on a narrow screen."""

    data: pd.DataFrame
    label: str

    def __repr__(self):
        return self.data.to_string(index=False)

    def _repr_html_(self):
        html = self.data.to_html(index=False, border=0, classes="dataframe numbers", justify="left")
        return f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(self.label)}">{html}</div>'


@dataclass(frozen=True, repr=False)
class Figure:
    """A drawn figure: SVG text, alt text and caption written from its numbers, and the numbers themselves.

    points: what can be pointed at, [[line, [[x, y, words], ...]], ...], x and y in per cent of the picture.
    """

    name: str
    svg: str
    alt: str
    caption: str
    data: pd.DataFrame
    points: list = field(default_factory=list)

    def __repr__(self):
        return f"{self.alt} {self.caption}"

    def _repr_html_(self):
        encode = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        csv = encode(self.data.to_csv(index=False, float_format="%.6g"))
        points = f' data-points="{escape(json.dumps(self.points, separators=(",", ":")))}"' if self.points else ""
        return (
            f'<figure class="drawn"{points}><div class="canvas" tabindex="0" role="group" aria-label="Figure">'
            f'<img alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{encode(self.svg)}"></div>'
            f"<figcaption>{escape(self.caption)} "
            f'<a download="{self.name}.csv" href="data:text/csv;base64,{csv}">Data (CSV)</a></figcaption></figure>'
        )


def drawn(figure, name, alt, caption, data):
    """Turn a matplotlib figure into a Figure and close it; the same input gives the same bytes."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    points = points_of(figure)
    plt.close(figure)
    return Figure(name, buffer.getvalue(), alt, caption, data, points)


def points_of(figure):
    """The points of the named lines of a saved matplotlib figure, for Figure.points.

    A line is named by its label (lib.figures.style.label_ends gives one to lines that are labelled directly).
    """
    picture = figure.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])  # inches, as savefig cuts it
    found = []
    for ax in figure.axes:
        said = f" ({ax.get_title()})" if len(figure.axes) > 1 and ax.get_title() else ""
        for line in ax.lines:
            if line.get_label().startswith("_") or line.get_transform() != ax.transData:
                continue
            data = [(x, y) for x, y in np.asarray(line.get_xydata(), dtype=float) if np.isfinite([x, y]).all()]
            at = [
                [round(100 * (x - picture.x0) / picture.width, 1), round(100 * (picture.y1 - y) / picture.height, 1)]
                for x, y in ax.transData.transform(data).reshape(-1, 2) / figure.dpi
            ]
            words = [f"{_say(ax, 'y', y)} at {_say(ax, 'x', x)}" for x, y in data]
            found.append([line.get_label() + said, [[*place, text] for place, text in zip(at, words)]])
    return found


def _say(ax, axis, value):
    """A value of an axis in words: by the axes' own fmt_xdata or fmt_ydata if there is one, else as its ticks are."""
    own = getattr(ax, f"fmt_{axis}data")
    formatter = getattr(ax, f"{axis}axis").get_major_formatter()
    if own is not None:
        return own(value)
    return percent(value / formatter.xmax) if isinstance(formatter, PercentFormatter) else f"{value:.3g}"


# What figures say ------------------------------------------------------------------

WORDS = Path(__file__).with_name("words.yml")  # alt texts and captions, filled in with the numbers that are drawn


@cache
def texts():
    """All texts: {kind of figure: {name: text}}."""
    return yaml.safe_load(WORDS.read_text(encoding="utf-8"))


def say(kind, part, /, **fields):
    """One text of a kind of figure with its fields filled in; raises KeyError for a missing text or field."""
    return Template().vformat(texts()[kind][part], (), fields)


def words(kind, each=(), /, **fields):
    """(alt text, caption) of a kind of figure; each: the fields of what the alt text says of every model."""
    known = texts()[kind]
    every = known.get("between", "; ").join(say(kind, "each", **about) for about in each) or known.get("none")
    return tuple(say(kind, part, each=every, **fields) for part in ("alt", "caption"))
