"""What the generated pages are written with: templates of Markdown (templates/), tables, badges, figures."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lib import formatting


def render(template, **facts):
    """A template of lib/report/templates, filled with facts; without the line break at its end."""
    return _templates().get_template(f"{template}.md").render(**facts)


@cache
def _templates():
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters |= {"percent": formatting.percent, "times": formatting.times, "words": formatting.join}
    templates.filters |= {"badge": badge, "tokens": formatting.tokens_text}
    return templates


def table(rows, header):
    """A Markdown table from rows of cells."""
    lines = ["| " + " | ".join(str(c) for c in row) + " |" for row in [header, *rows]]
    lines.insert(1, "|" + "---|" * len(header))
    return "\n".join(lines)


def turned(rows, header):
    """The same table with rows and columns exchanged: few long rows become a narrow table."""
    first, *rest = zip(header, *rows)
    return table(rest, first)


def scrolling(markdown, label, kind=""):
    """A table in a region that scrolls by itself on a narrow screen and can take the focus."""
    classes = f"table-scroll {kind}".strip()
    return f'<div class="{classes}" tabindex="0" role="region" aria-label="{label}">\n\n{markdown}\n\n</div>'


def badge(verdict, colour=None):
    """A verdict as a coloured word; colour: the verdict on a finding whose colour it takes, itself if None."""
    return f"[{verdict}]{{.verdict .{colour or verdict}}}"


def numbered(figure, number):
    """A drawn figure with a number such as "F2.1", which pages refer to as [Figure F2.1](#figure-F2.1)."""
    figure = replace(figure, caption=f"Figure {number}. {figure.caption}")
    return f"(figure-{number})=\n\n```{{raw}} html\n{figure._repr_html_()}\n```"
