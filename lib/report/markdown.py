"""Small pieces of Markdown that the generated pages are written with."""


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
    """A verdict as a coloured word; colour: the verdict of lib.findings.judging whose colour it takes, itself if None."""
    return f"[{verdict}]{{.verdict .{colour or verdict}}}"
