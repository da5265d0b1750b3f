"""The head explorer and the index of heads: pages and the small data files that they load.

The data are scripts that hand themselves over (explorer.receive) and not JSON: a page opened
from the disk may load a script that lies beside it, but not fetch a file.
"""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.ticker import PercentFormatter

from lib import findings, tables
from lib import formatting as w
from lib.figures import CLASS_COLOURS, MUTED, WIDTH, drawn
from lib.measure import BASELINES, CLASSES, class_positions, selectivity_column
from lib.report.jobs import notebooks
from lib.report.markdown import scrolling, table

ADJECTIVES = {
    "induction": "induction", "previous_token": "previous-token", "duplicate_token": "duplicate-token",
    "first_token": "BOS", "self": "self", "local": "local",
}  # fmt: skip
TARGETS = {
    "induction": "B, the token after the first A", "previous_token": "the token before",
    "duplicate_token": "the first A", "first_token": "the first token", "self": "the query itself",
    "local": "the tokens two to five back",
}  # fmt: skip
FOLDER = "book/_static/explorer"  # where the data files are put
SCALE = 1000  # attention is written in thousandths


# What a head is ---------------------------------------------------------------------


def classes_of(trajectory, thresholds):
    """The class of every head at every revision: [step][head], a key of CLASSES or None.

    Its class is the one with the highest selectivity (paper baseline), if that is past
    the threshold of the classification.
    """
    best = findings.counting.best(trajectory)
    highest = np.max([trajectory[selectivity_column(cls)] for cls in CLASSES], axis=0)
    return [
        [CLASSES[b] if high >= thresholds.classify else None for b, high in zip(*row)] for row in zip(best, highest)
    ]


def sentence(trajectory, counting, cls, step, head):
    """What a head counts as at a revision, in words; cls: its class, from classes_of."""
    thresholds = counting.thresholds
    if cls is None:
        highest = CLASSES[findings.counting.best(trajectory)[step, head]]
        value = trajectory[selectivity_column(highest)][step, head]
        return (
            f"No class: nothing reaches {w.times(thresholds.classify)} the baseline. "
            f"Highest is {ADJECTIVES[highest]} with {w.times(value)}."
        )
    at = lambda column: trajectory[column][step, head]  # noqa: E731
    parts = [f"{ADJECTIVES[cls].capitalize() if cls != 'first_token' else 'BOS'} head"]
    parts[0] += f": {w.times(at(selectivity_column(cls)))} the baseline on {TARGETS[cls]}."
    others = [
        f"{ADJECTIVES[other]} with {w.times(at(selectivity_column(other)))}"
        for other in CLASSES
        if other != cls and at(selectivity_column(other)) >= thresholds.classify
    ]
    if others:
        parts.append(f"Also past {w.times(thresholds.classify)}: {w.join(others)}.")
    if findings.counting.in_circuit(trajectory, counting)[step, head]:
        parts.append(f"In the induction circuit (past {w.times(thresholds.induction_circuit)}).")
    if findings.counting.thin(trajectory, cls, thresholds.classify, counting)[step, head]:
        parts.append(
            f"Little attention is behind it: {w.percent(at(f'attention_{cls}'))}, under the floor of "
            f"{w.percent(thresholds.mass_floor)}."
        )
    return " ".join(parts)


# The data files ---------------------------------------------------------------------


def model_data(report, name):
    """All that the explorer says of a model but its attention rows, as plain values."""
    run, spec, panel = report.runs[name], report.panel.models[name], report.panel
    heads, counting = run.trajectory, run.counting
    classes = classes_of(heads, panel.thresholds)
    labels = heads.labels(np.ones(len(heads.layer), dtype=bool))
    number = lambda values: [float(f"{v:.4g}") for v in values]  # noqa: E731
    steps, batch = range(len(heads.names)), tables.patterns.batch(panel)
    return {
        "label": spec.label,
        "layers": int(heads.layer.max()) + 1,
        "heads": int(heads.head.max()) + 1,
        "sequences": int(run.heads["n_sequences"].iloc[0]),
        "prCeiling": float(f"{heads['pr_ceiling'][0, 0]:.4g}"),
        "thresholds": {"class": panel.thresholds.classify, "circuit": panel.thresholds.induction_circuit},
        "classes": {
            cls: {"name": ADJECTIVES[cls], "target": TARGETS[cls], "colour": to_hex(CLASS_COLOURS[cls])}
            for cls in CLASSES
        },
        "revisions": [
            {
                "name": r.name,
                "tokens": w.tokens_text(r.tokens),
                "attention": tables.patterns.current(panel, name, r.name) is not None,
                "runs": [id for id in notebooks() if (id, name, r.name) in _present(report)],
            }
            for r in spec.revisions
        ],
        "shown": [
            {"tokens": tokens.tolist(), "a": int(a)} for tokens, a in zip(batch.tokens, batch.first_a)
        ],
        "numbers": {
            label: {
                "said": [sentence(heads, counting, classes[step][i], step, i) for step in steps],
                "class": [classes[step][i] for step in steps],
                "attention": {cls: number(heads[f"attention_{cls}"][:, i]) for cls in CLASSES},
                **{
                    baseline: {cls: number(heads[selectivity_column(cls, baseline)][:, i]) for cls in CLASSES}
                    for baseline in BASELINES
                },
                **{
                    column: number(heads[column][:, i])
                    for column in ("pr", "pr_centred", "sink_mass", "prefix_matching")
                },
            }
            for i, label in enumerate(labels)
        },
    }  # fmt: skip


def _present(report):
    return {(job.finding, job.model, job.revision) for job, status in report.status.items() if status}


def attention_data(table):
    """The attention rows of a checkpoint in thousandths: [sequence][layer * head][position]."""
    return np.rint(tables.patterns.rows(table) * SCALE).astype(int).tolist()


def script(name, data):
    """A data file: a script that hands its data over under a name."""
    return f"explorer.receive({json.dumps(name)}, {json.dumps(data, separators=(',', ':'))});\n"


def files(report):
    """{path in the site: text} of all data files: one a model, and one a checkpoint that was measured."""
    found = {}
    for name, spec in report.panel.models.items():
        found[f"{FOLDER}/{name}.js"] = script(name, model_data(report, name))
        for revision in spec.revisions:
            rows = tables.patterns.read(report.panel, name, revision.name)
            if rows is not None:
                key = f"{name}/{revision.name}"
                found[f"{FOLDER}/{key}.js"] = script(key, attention_data(rows))
    return found


# The pages --------------------------------------------------------------------------


def link(model, revision, head, text=None):
    """Link from a page of book/ to the explorer at a model, revision and head ("L1H3")."""
    return f'<a href="explorer.html#model={model}&amp;revision={revision}&amp;head={head}">{text or head}</a>'


def strongest(report):
    """The head the explorer opens with: (model, head index) of the highest induction attention at the end of training."""
    best = {name: run.trajectory["attention_induction"][-1] for name, run in report.runs.items()}
    name = max(best, key=lambda name: best[name].max())
    return name, int(best[name].argmax())


def page(report):
    """The place of the explorer: what stands there without JavaScript, and what it starts from."""
    models = report.panel.models
    missing = [
        f"{spec.label} at {r.name}"
        for name, spec in models.items()
        for r in spec.revisions
        if tables.patterns.current(report.panel, name, r.name) is None
    ]
    name, head = strongest(report)
    run = report.runs[name]
    label = w.name_of(run.trajectory.layer[head], run.trajectory.head[head])
    rows = tables.patterns.read(report.panel, name, run.revision)
    parts = []
    if missing:
        parts.append(
            f"The attention rows of {w.join(missing)} have not been measured, so that only the numbers of their heads "
            f"are shown. `python -m lib.run --panel {report.panel_argument}` measures what is missing."
        )
    batch = tables.patterns.batch(report.panel)
    standing = "" if rows is None else _standing(run, label, rows, batch)._repr_html_()
    start = {"models": {name: spec.label for name, spec in models.items()}, "model": name, "head": label}
    # JSON in an attribute: only what HTML needs is escaped.
    escaped = json.dumps(start).replace("&", "&amp;").replace("'", "&#39;")
    parts.append(
        "```{raw} html\n"
        '<link rel="stylesheet" href="../_static/explorer.css">\n'
        f"<div id=\"explorer\" data-start='{escaped}'>{standing}</div>\n"
        '<script src="../_static/explorer.js"></script>\n'
        "```"
    )
    return "\n\n".join(parts)


def _standing(run, label, table, batch):
    """The last query's attention of one head in a few sequences, with the classes' targets marked.

    run: lib.report.run_page.Run.  label: "L1H3".  table: its attention rows (lib.tables.patterns).  batch: the sequences.
    """
    names = run.trajectory.labels(np.ones(len(run.trajectory.layer), dtype=bool))
    rows = tables.patterns.rows(table)[:, names.index(label)]  # [sequence, position]
    n, seq_len = rows.shape
    targets = {cls: where[:, 0] for cls, where in class_positions(seq_len, batch.first_a.numpy()).items()}
    marks = {
        "first_token": "first",
        "duplicate_token": "A",
        "induction": "B",
        "previous_token": "before ",
        "self": " self",
    }
    aligned = {"duplicate_token": "right", "induction": "left", "previous_token": "right", "self": "left"}
    fig, axes = plt.subplots(n, 1, figsize=(WIDTH, 0.6 + 0.95 * n), sharex=True, sharey=True, layout="constrained")
    for i, ax in enumerate(np.atleast_1d(axes)):
        colours = [MUTED] * seq_len
        for cls, mark in marks.items():
            at = int(targets[cls][i])
            colours[at] = CLASS_COLOURS[cls]
            ax.annotate(
                mark, (at, 0), (0, -3), textcoords="offset points", va="top", ha=aligned.get(cls, "center"),
                color="0.2", fontsize="x-small", annotation_clip=False,
            )  # fmt: skip
        ax.bar(range(seq_len), rows[i], color=colours, width=1.0)
        ax.set(ylim=(0, 1.02), xlim=(-1, seq_len), ylabel=f"sequence {i + 1}")
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set_xticks([])
        ax.grid(False, axis="x")
    on = {cls: rows[np.arange(n), at] for cls, at in targets.items()}
    per_sequence = w.join(w.percent(value) for value in on["induction"])
    alt = (
        f"Bars of the attention of the last query of {label} of {run.title} over {seq_len} positions, for {n} sequences. "
        f"On B, the token after the first A: {per_sequence}; on the first token at most {w.percent(on['first_token'].max())}."
    )
    caption = (
        f"Attention of the last query, an A, of head {label} of {run.title} in the first {n} sequences of the batch. "
        "Marked: the first token, the first A, B behind it, the token before the query, the query itself."
    )
    data = pd.DataFrame(
        {
            "sequence": np.repeat(np.arange(1, n + 1), seq_len),
            "position": np.tile(np.arange(seq_len), n),
            "token": batch.tokens.numpy().ravel(),
            "attention": rows.ravel(),
        }
    )
    return drawn(fig, f"explorer_{run.model}_{run.revision}_{label}", alt, caption, data)


def heads_page(report):
    """Every head of every model with its class over training, leading to the explorer."""
    parts = []
    for name, spec in report.panel.models.items():
        trajectory = report.runs[name].trajectory
        classes = classes_of(trajectory, report.panel.thresholds)
        labels = trajectory.labels(np.ones(len(trajectory.layer), dtype=bool))
        rows = [
            [link(name, trajectory.names[-1], label)]
            + [
                link(name, revision, label, ADJECTIVES[classes[step][i]]) if classes[step][i] else "–"
                for step, revision in enumerate(trajectory.names)
            ]
            for i, label in enumerate(labels)
        ]
        parts.append(
            f"## Heads of {spec.label}\n\n"
            + scrolling(table(rows, ["head", *trajectory.names]), f"Heads of {spec.label}, by revision", "dense")
        )
    return "\n\n".join(parts)
