"""The page of a finding: claim, evidence, what the verdicts rest on, controls, and every run of it."""

from lib import figures
from lib.findings import FINDINGS, assumptions, explained, how_sure, panel_verdict, thin
from lib.formatting import percent
from lib.report.first_page import panel as panel_note
from lib.report.markdown import badge, numbered, render, scrolling, table
from lib.report.status_page import run_cell

HOW_MANY_AGREE = {"agrees": "agree", "disagrees": "disagree", "cannot be checked": "cannot be checked"}
WHERE = {"first_token": "on the first token", "induction": "on the induction target"}
DECIDED_BY = {"classify": "first_token", "induction_circuit": "induction"}  # a threshold, and the class it is of


def claim(report, id):
    """The paper's claim and the panel's verdict."""
    verdict, reason = panel_verdict(report.final[id])
    facts = {"rule": FINDINGS[id], "title": report.panel.title, "note": panel_note(report)}
    return render("claim", verdict=verdict, reason=reason, **facts)


def evidence(report, id):
    """The four columns of evidence, a row a model: claim, published figures, our measurement, how sure."""
    rule, rows = FINDINGS[id], []
    judged = report.published_verdicts(id)
    for run in report.runs.values():
        finding, counterpart = report.final[id][run.spec.label], run.spec.counterpart
        verdict, gist = judged.get(counterpart, (None, None))
        rows.append(
            [
                f"{report.published.models.get(counterpart, '–')} and {run.spec.label}",
                rule.claims.get(counterpart, "no claim about such a model"),
                f"{badge(verdict)} {gist}" if verdict else "–",
                f"{badge(finding.verdict)} {finding.gist}",
                how_sure(finding),
            ]
        )
    header = ["", "The paper claims", "Its published figures, recomputed", "Measured here", "How sure that is"]
    shown = scrolling(table(rows, header), f"{id}: the evidence side by side", "evidence")
    counts = report.ledger.loc[report.ledger["finding"] == id, "verdict"].value_counts()
    said = [f"{counts[verdict]} {words}" for verdict, words in HOW_MANY_AGREE.items() if verdict in counts]
    return render("evidence", table=shown, said=said, n=counts.sum(), id=id)


def published(report, id):
    """The paper's 1B panel, drawn from its published figures; nothing if the finding is not the paper's."""
    draw = figures.of_paper.PUBLISHED_FIGURES.get(id)
    return numbered(draw(report.published), f"{id}.1") if draw else ""


def panel(report, id):
    """Figure and reasons that compare the models at their last revisions."""
    draw, parts = figures.of_panel.PANEL_FIGURES.get(id), []
    if draw:
        parts.append(numbered(draw(list(report.runs.values())), f"{id}.2"))
    parts += [f"**{label}** {badge(x.verdict)} {x.reason} {x.statement}" for label, x in report.final[id].items()]
    return "\n\n".join(parts)


def assumptions_of(report, id):
    """What the verdicts rest on: every assumption, every threshold, resamples, and ratios without attention."""
    by_model, thresholds = report.final[id], report.panel.thresholds
    rows = [
        [
            f"**{words}** ({explained(id, words, thresholds)})",
            *[f"{badge(x.survival[words][0])} {x.survival[words][1]}" for x in by_model.values()],
        ]
        for words in assumptions(id, thresholds)
    ]
    strips = figures.of_panel.sensitivities(list(report.runs.values()), by_model)
    shares = [f"{label} {percent(x.support)}" for label, x in by_model.items() if x.support is not None]
    parts = [
        scrolling(table(rows, ["assumption", *by_model]), f"{id}: the verdict under other assumptions"),
        numbered(strips, f"{id}.{4 if id in CONTROLLED else 3}"),
        render("resampled", n=next(iter(report.runs.values())).trajectory.n_replicates, shares=shares),
    ]
    for swept in FINDINGS[id].sweeps:
        parts.append(_without_attention(report, DECIDED_BY[swept], getattr(thresholds, swept)))
    return "\n\n".join(parts)


def _without_attention(report, cls, threshold):
    """Heads that pass a ratio at some revision with hardly any attention behind it."""
    found = []
    for run in report.runs.values():
        mask = thin(run.trajectory, cls, threshold, run.counting)
        for step, of in enumerate(mask):
            found += [f"{run.spec.label} {name} at {run.trajectory.names[step]}" for name in run.trajectory.labels(of)]
    floor = report.panel.thresholds.mass_floor
    return render("thin", found=found, threshold=threshold, what=WHERE[cls], floor=floor)


def controls(report):
    """F5's controls: does PR tell circuit heads from others before selectivity does?"""
    runs = list(report.runs.values())
    parts = [numbered(figures.of_panel.separations(runs), "F5.3")]
    for run in runs:
        parts += [f"**{run.spec.label}.** {run.controls().text}", run.controls_table()._repr_html_()]
    led = report.published_controls
    led = led[led["rule"] == "start"].groupby("model")[["led", "crossings"]].sum()
    pairs = [f"{report.published.models[model]} {int(r.led)} of {int(r.crossings)}" for model, r in led.iterrows()]
    return "\n\n".join([*parts, render("controls_of_the_paper", pairs=pairs)])


CONTROLLED = ("F5",)  # findings whose page shows controls, as its third figure


def runs(report, id):
    """Every run of a finding: a column a model, a row a place in training."""
    models = report.panel.models
    rows = [
        [
            run_cell(report, id, name, spec.revisions[i].name, f"{spec.revisions[i].name} ")
            if i < len(spec.revisions)
            else ""
            for name, spec in models.items()
        ]
        for i in range(max(len(spec.revisions) for spec in models.values()))
    ]
    return scrolling(table(rows, [spec.label for spec in models.values()]), f"Runs of {id}")
