"""The first page: one figure, a card a finding, the verdicts in a table."""

from lib import figures
from lib.files import ROOT
from lib.findings import FINDINGS, panel_verdict
from lib.formatting import VERDICT_MARKS
from lib.report.markdown import badge, numbered, render, scrolling, table


def overview(report):
    """The figure of the first page."""
    return numbered(figures.of_paper.overview(report.published, list(report.runs.values())), "1")


def cards(report):
    """A card a finding: claim, verdicts, one number, link; and one of the ledger."""
    found = []
    for id in _ids(report):
        rule, by_model = FINDINGS[id], report.final[id]
        found.append(
            {
                "page": _page(id),
                "claim": rule.claim,
                "published": _published_marks(report, id),
                "verdict": panel_verdict(by_model)[0],
                "number": rule.in_a_number and rule.in_a_number({label: x.numbers for label, x in by_model.items()}),
            }
        )
    counts = report.ledger["verdict"].value_counts()
    ledger = [int(counts.get(verdict, 0)) for verdict in ("agrees", "disagrees", "cannot be checked")]
    return render("cards", cards=found, ledger=ledger)


def panel(report):
    """A note for pages that tell of the mini models, if the report is of other ones; else nothing."""
    if report.recipes:
        return ""
    labels = [spec.label for spec in report.panel.models.values()]
    return render("panel_note", title=report.panel.title, labels=labels)


def glance(report):
    """The verdicts on the findings in a table."""
    labels = [run.spec.label for run in report.runs.values()]
    rows = [
        [
            _page(id),
            _published_marks(report, id) or "–",
            badge(panel_verdict(report.final[id])[0]),
            *[badge(report.final[id][label].verdict) for label in labels],
        ]
        for id in _ids(report)
    ]
    rows = table(rows, ["finding", "paper", "this panel", *labels])
    shown = scrolling(rows, "Verdicts of the findings, by model", "dense")
    return render("glance", table=shown, models=report.published.models.values())


def _ids(report):
    return [id for id in FINDINGS if id in report.final]


def _page(id):
    """A finding's name, linked to its page if it has one."""
    name = f"{id} · {FINDINGS[id].title}"
    return f"[{name}]({id}.md)" if (ROOT / "book" / f"{id}.md").is_file() else name


def _published_marks(report, id):
    """The marks of the verdicts on the paper's models, in order; empty if the finding is not the paper's."""
    return "\u00a0".join(VERDICT_MARKS[verdict] for verdict, _ in report.published_verdicts(id).values())
