"""What a notebook shows: prose, figures with their words and data, tables, verdicts.

Everything is self-contained HTML or Markdown, so that a page looks the same in
Jupyter and in the book, offline, and one file holds all there is to a run.
"""

import base64
import io
from dataclasses import asdict, dataclass
from html import escape

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd

from lib.findings import FINDINGS, survival_text

RECORD_MIME = "application/vnd.attention-circuits.record+json"


@dataclass(frozen=True)
class Prose:
    """Markdown text."""

    text: str

    def _repr_markdown_(self):
        return self.text


@dataclass(frozen=True)
class Table:
    """A small table; wide ones scroll by themselves on a narrow screen."""

    data: pd.DataFrame
    label: str

    def _repr_html_(self):
        html = self.data.to_html(index=False, border=0, classes="dataframe numbers", justify="left")
        return f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(self.label)}">{html}</div>'


@dataclass(frozen=True)
class Figure:
    """A drawn figure: SVG text, alt text and caption written from its numbers, and the numbers themselves."""

    name: str
    svg: str
    alt: str
    caption: str
    data: pd.DataFrame

    def _repr_html_(self):
        encode = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        csv = encode(self.data.to_csv(index=False, float_format="%.6g"))
        return (
            f'<figure class="drawn"><div class="canvas" tabindex="0" role="group" aria-label="Figure">'
            f'<img alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{encode(self.svg)}"></div>'
            f"<figcaption>{escape(self.caption)} "
            f'<a download="{self.name}.csv" href="data:text/csv;base64,{csv}">Data (CSV)</a></figcaption></figure>'
        )


def drawn(figure, name, alt, caption, data):
    """Turn a matplotlib figure into a Figure and close it; the same input gives the same bytes."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return Figure(name, buffer.getvalue(), alt, caption, data)


@dataclass(frozen=True)
class Verdict:
    """A finding's verdict in words; carries the run's record for the status page."""

    finding: object
    record: dict

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/markdown": verdict_markdown(self.finding), RECORD_MIME: self.record}


def verdict_markdown(finding):
    """The verdict, its reason, what it survives, and the rule it follows."""
    words = " ".join(f"*{verdict.capitalize()}* if {text}." for verdict, text in FINDINGS[finding.id].words.items())
    return (
        f"**{finding.verdict.capitalize()}.** {finding.reason}\n\nWhat it rests on: {survival_text(finding)}\n\n"
        f"The rule: {words}"
    )


def record(finding, panel, model, revision):
    """The plain values that the book reads from an executed notebook."""
    values = asdict(finding)
    values.pop("table")
    values.pop("sweeps")
    return {"panel": panel, "model": model, "revision": revision, **values}
