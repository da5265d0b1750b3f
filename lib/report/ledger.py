"""The page of the ledger of claims: the paper's statements, section by section, with what was recomputed."""

from lib import findings, paper
from lib.report.markdown import badge, render, scrolling, table

TITLES = {"tables": "The paper's tables", "text": "The paper's text"}
HEADER = ["no.", "The paper says, and where", "Recomputed, and the verdict", "Why"]


def page(rows):
    """The ledger as Markdown, from lib.paper.ledger.entries.

    Counts of the verdicts in a sentence, then a section and a table a finding, the paper's tables and its text.
    """
    colours = paper.ledger.VERDICTS
    sections = []
    for id in paper.ledger.SECTIONS.values():
        title = TITLES.get(id) or f"{id} · {findings.FINDINGS[id].title}"
        body = [
            [r.id, f"{r.claim} *({r.where})*", f"{badge(r.verdict, colours[r.verdict])} {r.value}", r.why]
            for r in rows[rows["finding"] == id].itertuples()
        ]
        shown = scrolling(table(body, HEADER), f"Statements: {title}", "evidence")
        sections.append({"id": id, "title": title, "table": shown})
    agree, disagree, unchecked = (int((rows["verdict"] == verdict).sum()) for verdict in colours)
    counts = {"total": len(rows), "agree": agree, "disagree": disagree, "unchecked": unchecked}
    return render("ledger", sections=sections, rules=paper.published.RULES, **counts)
