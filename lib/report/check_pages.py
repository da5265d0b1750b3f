"""What checks the screen: circuits taken out over training, other measures of the same heads, and the ledger of claims."""

import pandas as pd

from lib import figures
from lib.findings import FINDINGS, agreement, starts_to_matter, when_it_matters
from lib.formatting import percent
from lib.paper import RULES, SECTIONS, VERDICTS
from lib.report.markdown import badge, numbered, render, scrolling, table
from lib.tables import CONDITIONS


def matters(report):
    """When each model's circuit starts to matter: a sentence, a figure and the numbers."""
    parts, n_figures = [], 0
    for name, run in report.runs.items():
        tables = report.causal[name]
        parts.append(f"## {run.spec.label}")
        if tables is None:
            parts.append("No causal table of this model has been measured.")
            continue
        figure = figures.of_ablation.over_training(tables, run.spec.label, starts_to_matter(tables))
        parts += [when_it_matters(tables), numbered(figure, f"C.{n_figures + 1}")]
        n_figures += 1
        last = tables[tables["step"] == tables["step"].max()]
        parts.append(
            f"At {last['revision'].iloc[0]}:\n\n"
            + scrolling(_effects(last), f"Causal table of {run.spec.label} at the end")
        )
        every = tables[
            tables["condition"].isin(["baseline", "final_circuit", "final_random", "circuit", "previous_token"])
        ]
        parts.append(
            ":::{dropdown} Every checkpoint\n"
            + scrolling(_losses(every), f"Loss and top-1 of {run.spec.label} at every checkpoint", "dense")
            + "\n:::"
        )
    return "\n\n".join(parts)


def _effects(tables):
    """All measures of every condition at one checkpoint; random draws as mean and range."""
    rows = []
    for condition, text in CONDITIONS.items():
        of = tables[tables["condition"] == condition]
        if of.empty:
            continue
        say = {"top1": percent, "top5": percent, "loss": "{:.2f}".format, "target_logit": "{:.2f}".format}
        cells = [
            form(of[k].iloc[0])
            if len(of) == 1
            else f"{form(of[k].mean())} ({form(of[k].min())} to {form(of[k].max())})"
            for k, form in say.items()
        ]
        heads_ = of["heads"].iloc[0] if len(of) == 1 and of["n_heads"].iloc[0] <= 8 else ""
        rows.append([text, heads_.replace(" ", ", ") or "–", *cells])
    return table(rows, ["condition", "heads", "top-1", "top-5", "loss (nats)", "logit of B"])


def _losses(tables):
    """Loss and top-1 of some conditions, a row a checkpoint."""
    conditions = [k for k in CONDITIONS if (tables["condition"] == k).any()]
    rows = []
    for revision, of in tables.groupby("revision", sort=False):
        cells = []
        for condition in conditions:
            at = of[of["condition"] == condition]
            cells.append("–" if at.empty else f"{at['loss'].mean():.2f} ({percent(at['top1'].mean())})")
        rows.append([revision, *cells])
    return table(rows, ["loss (top-1)", *[CONDITIONS[k] for k in conditions]])


def checks(report):
    """Prefix matching and sink mass against the screen: rank agreement, and the heads on which they differ."""
    parts = [numbered(figures.of_panel.checks(list(report.runs.values())), "X.1")]
    titles = {"induction": "prefix matching", "first_token": "sink mass"}
    for run in report.runs.values():
        found = agreement(run.heads, report.panel.thresholds)
        rows = []
        for revision, of in found.groupby("revision", sort=False):
            of = of.set_index("check")
            row = [revision]
            for check in titles:
                at = of.loc[check]
                rank = "–" if pd.isna(at["spearman"]) else f"{at['spearman']:+.2f}"
                row += [
                    rank,
                    len(at["both"]),
                    ", ".join(at["screen_only"]) or "none",
                    ", ".join(at["check_only"]) or "none",
                ]
            rows.append(row)
        header = ["revision"]
        for title in titles.values():
            header += [f"{title}: rank agreement", "heads past both", "screen only", f"{title} only"]
        parts.append(
            f"## {run.spec.label}\n\n" + scrolling(table(rows, header), f"Cross-checks of {run.spec.label}", "dense")
        )
    return "\n\n".join(parts)


def ledger(rows):
    """The ledger, from lib.paper.ledger.entries: counts of the verdicts in a sentence, then a section and a table a finding."""
    titles = {"tables": "The paper's tables", "text": "The paper's text"}
    header = ["no.", "The paper says, and where", "Recomputed, and the verdict", "Why"]
    sections = []
    for id in SECTIONS.values():
        title = titles.get(id) or f"{id} · {FINDINGS[id].title}"
        body = [
            [r.id, f"{r.claim} *({r.where})*", f"{badge(r.verdict, VERDICTS[r.verdict])} {r.value}", r.why]
            for r in rows[rows["finding"] == id].itertuples()
        ]
        shown = scrolling(table(body, header), f"Statements: {title}", "evidence")
        sections.append({"id": id, "title": title, "table": shown})
    agree, disagree, unchecked = (int((rows["verdict"] == verdict).sum()) for verdict in VERDICTS)
    facts = {"agree": agree, "disagree": disagree, "unchecked": unchecked, "total": len(rows)}
    return render("ledger", sections=sections, rules=RULES, **facts)
