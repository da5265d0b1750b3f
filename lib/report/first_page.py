"""The first page: the figure of all models, a card a finding, and the verdicts at a glance."""

from lib import figures, findings
from lib.files import ROOT
from lib.formatting import VERDICT_MARKS
from lib.report.markdown import numbered, render


def overview(report):
    """The figure of the first page."""
    return numbered(figures.of_paper.overview(report.published, list(report.runs.values())), "1")


def panel(report):
    """A note for pages that tell of the mini models, if the report is of other ones; else nothing."""
    return "" if report.recipes else render("panel", panel=report.panel)


def cards(report):
    """A card a finding (claim, verdicts, one number, link), and one of the ledger."""
    return render("cards", cards=_rows(report), ledger=report.ledger["verdict"].value_counts())


def glance(report):
    """The verdicts on the findings in a table."""
    labels = [run.spec.label for run in report.runs.values()]
    return render("glance", rows=_rows(report), labels=labels, published_models=report.published_models.values())


def _rows(report):
    """What is said of each finding: its title, with a link if it has a page, claim, marks of the paper's models, verdicts."""
    rows = []
    for id, by_model in report.final.items():
        rule = findings.judging.FINDINGS[id]
        title, numbers = f"{id} · {rule.title}", {label: x.numbers for label, x in by_model.items()}
        marks = [VERDICT_MARKS[verdict] for verdict, _ in report.judged[id].values()]
        rows.append(
            {
                "title": f"[{title}]({id}.md)" if (ROOT / "book" / f"{id}.md").is_file() else title,
                "claim": rule.claim,
                "published": "\u00a0".join(marks),
                "verdict": findings.judging.panel_verdict(by_model)[0],
                "models": by_model.values(),
                "number": rule.in_a_number(numbers) if rule.in_a_number else None,
            }
        )
    return rows
