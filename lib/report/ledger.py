"""The page of the ledger of claims."""

from lib.findings import FINDINGS
from lib.paper import AGREES, DISAGREES, SECTIONS, UNCHECKED, VERDICTS
from lib.paper import published as p
from lib.report.markdown import badge, scrolling, table


def _title(section):
    titles = {"tables": "The paper's tables", "text": "The paper's text"}
    return titles[section] if section in titles else f"{section} · {FINDINGS[section].title}"


def _rules():
    """What "elevated" can mean, as an introduction to F5."""
    rules = "\n".join(f"- *{name}*: {text}" for name, text in p.RULES.items())
    return (
        "The paper sets no threshold from which PR is elevated. Three are tried; where the three disagree about a statement, "
        f"it cannot be checked:\n\n{rules}\n\n"
    )


def page(rows):
    """The ledger as Markdown, from entries(): counts of the verdicts in a sentence, then a section and a table a finding."""
    counts = rows["verdict"].value_counts()
    n = {v: int(counts.get(v, 0)) for v in VERDICTS}
    parts = [
        f"Of **{len(rows)} statements**, {n[AGREES]} agree with the published counts, {n[DISAGREES]} disagree and "
        f"{n[UNCHECKED]} cannot be checked with them."
    ]
    for section in SECTIONS:
        header = ["no.", "The paper says, and where", "Recomputed, and the verdict", "Why"]
        body = [
            [r.id, f"{r.claim} *({r.where})*", f"{badge(r.verdict, VERDICTS[r.verdict])} {r.value}", r.why]
            for r in rows[rows["finding"] == section].itertuples()
        ]
        before = _rules() if section == "F5" else ""
        region = scrolling(table(body, header), f"Statements: {_title(section)}", "evidence")
        parts.append(f"## {_title(section)}\n\n{before}{region}")
    return "\n\n".join(parts)
