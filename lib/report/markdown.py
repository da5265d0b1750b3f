"""Markdown of the generated pages: tables, verdicts, figures, and the templates in lib/report/templates.

In templates the words about a page stand as they are read; rows and numbers are handed in.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lib import formatting


def table(rows, header):
    """A Markdown table from rows of cells."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [header, *rows]]
    lines.insert(1, "|" + "---|" * len(header))
    return "\n".join(lines)


def turned(markdown):
    """A Markdown table with rows and columns exchanged: few long rows become a narrow table."""
    header, _, *rows = (
        line.removeprefix("| ").removesuffix(" |").split(" | ") for line in markdown.strip().splitlines()
    )
    first, *rest = zip(header, *rows, strict=True)
    return table(rest, first)


def scrolling(markdown, label, kind=""):
    """A table in a region that scrolls by itself on a narrow screen and can take the focus."""
    classes = f"table-scroll {kind}".strip()
    return f'<div class="{classes}" tabindex="0" role="region" aria-label="{label}">\n\n{markdown.strip()}\n\n</div>'


def badge(verdict, colour=None):
    """A verdict as a coloured word; colour: the verdict of lib.findings.judging whose colour it takes, itself if None."""
    return f"[{verdict}]{{.verdict .{colour or verdict}}}"


def numbered(figure, number):
    """A lib.figures.display.Figure with a number such as "F2.1"; pages refer to it as [Figure F2.1](#figure-F2.1)."""
    figure = replace(figure, caption=f"Figure {number}. {figure.caption}")
    return f"(figure-{number})=\n\n```{{raw}} html\n{figure._repr_html_()}\n```"


def plain(value):
    """A config's value as a reader would write it; 1 and 0 are numbers, not yes and no."""
    return {"True": "yes", "False": "no", "None": "–"}.get(str(value), value)


def number(value, form):
    """A number in a format such as ",.0f"; a dash if it is missing."""
    return "–" if pd.isna(value) else format(value, form)


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
SAYING = (formatting.bytes_text, formatting.duration_text, formatting.percent, formatting.times)
for _filter in (badge, number, plain, scrolling, turned, *SAYING):
    TEMPLATES.filters[_filter.__name__] = _filter
TEMPLATES.filters |= {"listed": formatting.join, "tokens": formatting.tokens_text}


def render(template, **values):
    """A template, by its name without ".md", filled in; without blank lines around it.

    Raises jinja2.UndefinedError for a name that the template uses and values lack.
    """
    return TEMPLATES.get_template(f"{template}.md").render(values).strip()
