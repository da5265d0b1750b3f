"""What stands in for the head explorer where there is no JavaScript."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from lib import formatting as w
from lib.figures.display import drawn
from lib.figures.style import CLASS_COLOURS, MUTED, WIDTH
from lib.measure import class_positions


def last_query(run, label, rows, batch):
    """The last query's attention of one head in a few sequences, with the classes' targets marked.

    run: lib.report.run_page.Run.  label: "L1H3".  rows: attention, [sequence, layer * head, position].  batch: the sequences.
    """
    names = run.trajectory.labels(np.ones(len(run.trajectory.layer), dtype=bool))
    rows = rows[:, names.index(label)]  # [sequence, position]
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
