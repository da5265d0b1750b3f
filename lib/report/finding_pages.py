"""The pages of the findings: claim, evidence side by side, figures, assumptions.

A finding that nothing was published of, or that has no figure of its own, has these parts, too; they say so.
"""

from itertools import count

from lib import figures, findings, paper
from lib.formatting import percent
from lib.report.first_page import panel
from lib.report.markdown import badge, numbered, render, scrolling, table

SWEPT = {
    "classify": ("first_token", "on the first token"),
    "induction_circuit": ("induction", "on the induction target"),
}
COMPARED = {"agrees": "agree", "disagrees": "disagree", "cannot be checked": "cannot be checked"}  # statements, counted


def parts(report, id):
    """{name: Markdown} of what book/<finding>.md includes; figures are numbered in the order of the page."""
    numbers = (f"{id}.{i}" for i in count(1))

    def number(figure):
        return numbered(figure, next(numbers))

    page = {
        f"{id}_claim": claim(report, id),
        f"{id}_evidence": evidence(report, id),
        f"{id}_published": redrawn(report, id, number),
        f"{id}_panel": measured(report, id, number),
    }
    page |= {name: part(report, number) for name, part in OWN_PARTS.get(id, {}).items()}
    return page | {f"{id}_assumptions": assumptions(report, id, number)}


def claim(report, id):
    """The paper's claim and the panel's verdict."""
    rule = findings.judging.FINDINGS[id]
    verdict, reason = findings.judging.panel_verdict(report.final[id])
    return render("claim", rule=rule, panel=report.panel, verdict=verdict, reason=reason, note=panel(report))


def evidence(report, id):
    """The four columns of evidence, a row a model: claim, published figures, our measurement, how sure."""
    counts = report.ledger.loc[report.ledger["finding"] == id, "verdict"].value_counts()
    return render(
        "evidence",
        rule=findings.judging.FINDINGS[id],
        models=[(run.spec, report.final[id][run.spec.label]) for run in report.runs.values()],
        how_sure=findings.judging.how_sure,
        published_models=report.published_models,
        judged=report.judged[id],
        statements=counts.sum(),
        compared=[f"{counts[verdict]} {words}" for verdict, words in COMPARED.items() if verdict in counts],
    )


def redrawn(report, id, number):
    """The paper's 1B panel, drawn from its published figures."""
    drawn = figures.of_paper.PUBLISHED_FIGURES.get(id)
    return number(drawn(report.published)) if drawn else "The paper published no numbers that bear on this finding."


def measured(report, id, number):
    """Figure and reasons that compare the models at their last revisions."""
    drawn = figures.of_panel.PANEL_FIGURES.get(id)
    said = [f"**{label}** {badge(x.verdict)} {x.reason} {x.statement}" for label, x in report.final[id].items()]
    return "\n\n".join([*([number(drawn(list(report.runs.values())))] if drawn else []), *said])


def controls(report, number):
    """F5's controls: does PR tell circuit heads from others before selectivity does?"""
    runs = list(report.runs.values())
    leads = paper.published.null_leads(report.published)
    leads = leads[leads["rule"] == "start"].groupby("model")[["led", "crossings"]].sum().astype(int)
    return render(
        "controls",
        figure=number(figures.of_panel.separations(runs)),
        runs=runs,
        pairs=[f"{report.published_models[of.Index]} {of.led} of {of.crossings}" for of in leads.itertuples()],
    )


OWN_PARTS = {"F5": {"controls": controls}}  # {finding: {name: a part that only its page has, before the assumptions}}


def assumptions(report, id, number):
    """What the verdicts rest on: every assumption, every threshold, resamples, and ratios without attention."""
    by_model, thresholds, runs = report.final[id], report.panel.thresholds, list(report.runs.values())
    rule, judging = findings.judging.FINDINGS[id], findings.judging
    asked = {words: judging.explained(id, words, thresholds) for words in judging.assumptions(id, thresholds)}
    swept = [(getattr(thresholds, name), *of) for name, of in SWEPT.items() if name in rule.sweeps]
    return render(
        "assumptions",
        id=id,
        asked=asked,
        by_model=by_model,
        figure=number(figures.of_panel.sensitivities(runs, by_model)) if rule.sweeps else "",
        replicates=runs[0].trajectory.n_replicates,
        support=[f"{label} {percent(x.support)}" for label, x in by_model.items() if x.support is not None],
        thin=[(threshold, where, _thin(runs, cls, threshold)) for threshold, cls, where in swept],
        floor=thresholds.mass_floor,
    )


def _thin(runs, cls, threshold):
    """Heads that pass a ratio at some revision with hardly any attention behind it."""
    return [
        f"{run.spec.label} {name} at {revision}"
        for run in runs
        for revision, heads in zip(
            run.trajectory.names, findings.counting.thin(run.trajectory, cls, threshold, run.counting)
        )
        for name in run.trajectory.labels(heads)
    ]


# The ledger --------------------------------------------------------------------------

TITLES = {"tables": "The paper's tables", "text": "The paper's text"}
LEDGER_HEADER = ["no.", "The paper says, and where", "Recomputed, and the verdict", "Why"]


def ledger(rows):
    """The ledger as Markdown, from lib.paper.ledger.entries.

    Counts of the verdicts in a sentence, then a section and a table a finding, the paper's tables and its text.
    """
    colours = paper.ledger.VERDICTS
    sections = []
    for id in paper.ledger.SECTIONS:
        title = TITLES.get(id) or f"{id} · {findings.FINDINGS[id].title}"
        body = [
            [r.id, f"{r.claim} *({r.where})*", f"{badge(r.verdict, colours[r.verdict])} {r.value}", r.why]
            for r in rows[rows["finding"] == id].itertuples()
        ]
        shown = scrolling(table(body, LEDGER_HEADER), f"Statements: {title}", "evidence")
        sections.append({"id": id, "title": title, "table": shown})
    agree, disagree, unchecked = (int((rows["verdict"] == verdict).sum()) for verdict in colours)
    counts = {"total": len(rows), "agree": agree, "disagree": disagree, "unchecked": unchecked}
    return render("ledger", sections=sections, rules=paper.published.RULES, **counts)
