"""Whether a panel's models can decide the claims: criteria that were fixed before the models were trained."""

from lib import findings, tables
from lib.report.markdown import render

TELLING = (3, 5, 6, 10, 15, 30)  # numbers of models


def trained(report):
    """The panel's models as lib.findings.power.Trained; a model without a recipe is a cell of its own."""
    found = []
    for name, run in report.runs.items():
        traits = tables.heads.current(report.panel, name, run.revision)["traits"]
        recipe = report.recipes.get(name)
        found.append(
            findings.power.Trained(
                architecture=traits["model_type"],
                corpus=recipe.corpus.name if recipe else name,
                seed=recipe.seed if recipe else 0,
                head_width=traits["hidden_size"] // traits["num_attention_heads"],
                heads=run.trajectory,
            )
        )
    return found


def power(report):
    """The criteria, what this panel misses each by, and how many models tell a claim from chance."""
    counting = next(iter(report.runs.values())).counting
    telling = {n: findings.power.smallest_telling(n) for n in TELLING}
    return render(
        "power",
        title=report.panel.title,
        missed=findings.power.missed(trained(report), counting),
        telling={
            n: (k, findings.power.interval(n, n), k and findings.power.interval(k, n)) for n, k in telling.items()
        },
        claim_words=findings.power.CLAIM_WORDS,
    )
