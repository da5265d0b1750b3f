"""Whether circuits are real: the causal check at the end of training and over it, and independent measures of heads."""

from lib import figures, findings
from lib.formatting import percent
from lib.report.markdown import numbered, render

OVER_TRAINING = ("baseline", "circuit", "previous_token", "final_circuit", "final_random")


def formed(report):
    """The causal check of every model at its last revision, and whether it meets what was asked of its training."""
    models, measured = [], {}
    for name, run in report.runs.items():
        trajectory = report.causal[name]
        final = None if trajectory is None else trajectory[trajectory["revision"] == run.revision]
        if final is None or final.empty:
            continue
        measured = measured or trajectory.attrs
        conditions = final.groupby("condition")
        models.append(
            {
                "label": run.spec.label,
                "circuit": final.loc[final["condition"] == "circuit", "heads"].str.split(" ").explode(),
                "top1": conditions["top1"].agg(["mean", "min", "max"]).to_dict("index"),
                "loss": conditions["loss"].mean().to_dict(),
                "criteria": findings.ablation_effects.formed_as_asked(run.heads, final, report.panel.thresholds),
            }
        )
    return render("formed", models=models, criteria=findings.ablation_effects.CRITERIA, **measured)


def matters(report):
    """When each model's circuit starts to matter: a sentence, a figure and the numbers."""
    models, n_figures = [], 0
    for name, run in report.runs.items():
        label, causal, page = run.spec.label, report.causal[name], {"figure": ""}
        if causal is not None:
            n_figures += 1
            last = causal[causal["step"] == causal["step"].max()]
            shown = [k for k in report.conditions if k in OVER_TRAINING and (causal["condition"] == k).any()]
            page = {
                "sentence": findings.ablation_effects.when_it_matters(causal),
                "figure": numbered(
                    figures.of_ablation.over_training(
                        causal, label, findings.ablation_effects.starts_to_matter(causal)
                    ),
                    f"C.{n_figures}",
                ),
                "revision": last["revision"].iloc[0],
                "at_the_end": _at_the_end(last, report.conditions),
                "conditions": [report.conditions[k] for k in shown],
                "checkpoints": {revision: _means(of, shown) for revision, of in causal.groupby("revision", sort=False)},
            }
        models.append({"label": label, **page})
    return render("matters", models=models)


def _at_the_end(causal, conditions):
    """All measures of every condition at one checkpoint as cells; random draws as mean and range."""
    forms = {"top1": percent, "top5": percent, "loss": "{:.2f}".format, "target_logit": "{:.2f}".format}
    rows = []
    for condition, words in conditions.items():
        of = causal[causal["condition"] == condition]
        if of.empty:
            continue
        one = len(of) == 1
        heads = of["heads"].iloc[0].replace(" ", ", ") if one and of["n_heads"].iloc[0] <= 8 else ""
        rows.append([words, heads or "–"])
        for column, form in forms.items():
            spread = "" if one else f" ({form(of[column].min())} to {form(of[column].max())})"
            rows[-1].append(form(of[column].mean()) + spread)
    return rows


def _means(causal, conditions):
    """Mean loss and top-1 of some conditions at one checkpoint; (None, None) for one that it lacks."""
    means = causal.groupby("condition")[["loss", "top1"]].mean()
    return [tuple(means.loc[k]) if k in means.index else (None, None) for k in conditions]


def checks(report):
    """Prefix matching and sink mass against the screen: rank agreement, and the heads on which they differ."""
    models = {}
    for run in report.runs.values():
        found = findings.crosschecks.agreement(run.heads, report.panel.thresholds)
        models[run.spec.label] = list(found.sort_values("step", kind="stable").itertuples())
    return render("checks", figure=numbered(figures.of_panel.checks(list(report.runs.values())), "X.1"), models=models)
