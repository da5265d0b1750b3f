"""The head explorer and the index of heads: pages and the small data files that they load.

The data are scripts that hand themselves over (explorer.receive) and not JSON: a page opened
from the disk may load a script that lies beside it, but not fetch a file.
"""

import json

import numpy as np
from matplotlib.colors import to_hex

from lib import figures, findings, measure
from lib.formatting import name_of, times, tokens_text
from lib.report.markdown import render

WORDS = {  # {class: (the kind of head, what it looks at)}, in the order of lib.measure.metrics.CLASSES
    "induction": ("induction", "B, the token after the first A"),
    "previous_token": ("previous-token", "the token before"),
    "duplicate_token": ("duplicate-token", "the first A"),
    "first_token": ("BOS", "the first token"),
    "self": ("self", "the query itself"),
    "local": ("local", "the tokens two to five back"),
}
FOLDER = "book/_static/explorer"  # where the data files are put
SCALE = 1000  # attention is written in thousandths


# What a head is ---------------------------------------------------------------------


def selectivity(trajectory, cls, baseline="paper"):
    """The selectivity of every head at every revision, [step, head]."""
    return trajectory[measure.metrics.selectivity_column(cls, baseline)]


def classes_of(trajectory, thresholds):
    """The class of every head at every revision: [step][head], a key of WORDS or None.

    Its class is the one with the highest selectivity (paper baseline), if that is past
    the threshold of the classification.
    """
    best = findings.counting.best(trajectory)
    highest = np.max([selectivity(trajectory, cls) for cls in measure.metrics.CLASSES], axis=0)
    return [
        [measure.metrics.CLASSES[b] if high >= thresholds.classify else None for b, high in zip(*row)]
        for row in zip(best, highest)
    ]


def sentence(trajectory, counting, cls, step, head):
    """What a head counts as at a revision, in words; cls: its class, from classes_of."""
    counts, thresholds = findings.counting, counting.thresholds
    values = {other: selectivity(trajectory, other)[step, head] for other in WORDS}
    phrases = {other: f"{WORDS[other][0]} with {times(value)}" for other, value in values.items()}
    if cls is None:
        highest = measure.metrics.CLASSES[counts.best(trajectory)[step, head]]
        return render("head", cls=None, thresholds=thresholds, highest=phrases[highest])
    return render(
        "head",
        cls=WORDS[cls],
        value=values[cls],
        thresholds=thresholds,
        others=[phrases[other] for other in WORDS if other != cls and values[other] >= thresholds.classify],
        in_circuit=counts.in_circuit(trajectory, counting)[step, head],
        thin=counts.thin(trajectory, cls, thresholds.classify, counting)[step, head],
        attention=trajectory[f"attention_{cls}"][step, head],
    )


def labels_of(trajectory):
    """The names of all heads, "L0H0" first."""
    return trajectory.labels(np.ones(len(trajectory.layer), dtype=bool))


# The data files ---------------------------------------------------------------------


def model_data(report, name):
    """All that the explorer says of a model but its attention rows, as plain values."""
    run, spec, thresholds = report.runs[name], report.panel.models[name], report.panel.thresholds
    heads, classes = run.trajectory, classes_of(run.trajectory, thresholds)
    done = {(job.finding, job.revision) for job, status in report.status.items() if status and job.model == name}

    def numbers(values, i):
        return [float(f"{value:.4g}") for value in values[:, i]]

    def by_class(values_of, i):
        return {cls: numbers(values_of(cls), i) for cls in measure.metrics.CLASSES}

    return {
        "label": spec.label,
        "layers": int(heads.layer.max()) + 1,
        "heads": int(heads.head.max()) + 1,
        "sequences": int(run.heads["n_sequences"].iloc[0]),
        "prCeiling": float(f"{heads['pr_ceiling'][0, 0]:.4g}"),
        "thresholds": {"class": thresholds.classify, "circuit": thresholds.induction_circuit},
        "classes": {
            cls: {"name": kind, "target": target, "colour": to_hex(figures.style.CLASS_COLOURS[cls])}
            for cls, (kind, target) in WORDS.items()
        },
        "revisions": [
            {
                "name": r.name,
                "tokens": tokens_text(r.tokens),
                "attention": report.attention[name, r.name] is not None,
                "runs": [id for id in report.final if (id, r.name) in done],
            }
            for r in spec.revisions
        ],
        "shown": [
            {"tokens": tokens.tolist(), "a": int(a)} for tokens, a in zip(report.shown.tokens, report.shown.first_a)
        ],
        "numbers": {
            label: {
                "said": [sentence(heads, run.counting, of[i], step, i) for step, of in enumerate(classes)],
                "class": [of[i] for of in classes],
                "attention": by_class(lambda cls: heads[f"attention_{cls}"], i),
                "paper": by_class(lambda cls: selectivity(heads, cls, "paper"), i),
                "clean": by_class(lambda cls: selectivity(heads, cls, "clean"), i),
                **{
                    column: numbers(heads[column], i) for column in ("pr", "pr_centred", "sink_mass", "prefix_matching")
                },
            }
            for i, label in enumerate(labels_of(heads))
        },
    }


def script(name, data):
    """A data file: a script that hands its data over under a name."""
    return f"explorer.receive({json.dumps(name)}, {json.dumps(data, separators=(',', ':'))});\n"


def files(report):
    """{path in the site: text} of all data files: one a model, and one a checkpoint that was measured.

    The latter hold attention in thousandths, [sequence][layer * head][position].
    """
    found = {f"{FOLDER}/{name}.js": script(name, model_data(report, name)) for name in report.panel.models}
    for (name, revision), rows in report.attention.items():
        if rows is not None:
            key = f"{name}/{revision}"
            found[f"{FOLDER}/{key}.js"] = script(key, np.rint(rows * SCALE).astype(int).tolist())
    return found


# The pages --------------------------------------------------------------------------


def page(report):
    """The place of the explorer: what stands there without JavaScript, and what it starts from.

    It opens with the head of the highest induction attention at the end of training.
    """
    models = report.panel.models
    at_the_end = {name: run.trajectory["attention_induction"][-1] for name, run in report.runs.items()}
    name = max(at_the_end, key=lambda name: at_the_end[name].max())
    run, best = report.runs[name], int(at_the_end[name].argmax())
    head = name_of(run.trajectory.layer[best], run.trajectory.head[best])
    rows = report.attention[name, run.revision]
    start = {"models": {name: spec.label for name, spec in models.items()}, "model": name, "head": head}
    return render(
        "explorer",
        missing=[
            f"{models[name].label} at {revision}" for (name, revision), of in report.attention.items() if of is None
        ],
        panel_argument=report.panel_argument,
        # JSON in an attribute: only what HTML needs is escaped.
        start=json.dumps(start).replace("&", "&amp;").replace("'", "&#39;"),
        standing="" if rows is None else figures.of_patterns.last_query(run, head, rows, report.shown)._repr_html_(),
    )


def heads_page(report):
    """Every head of every model with its class over training, leading to the explorer."""
    models = []
    for name, run in report.runs.items():
        classes = classes_of(run.trajectory, report.panel.thresholds)
        kinds = [[WORDS[of[i]][0] if of[i] else None for of in classes] for i in range(len(run.trajectory.layer))]
        heads = dict(zip(labels_of(run.trajectory), kinds))
        models.append({"name": name, "label": run.spec.label, "revisions": run.trajectory.names, "heads": heads})
    return render("heads", models=models)
