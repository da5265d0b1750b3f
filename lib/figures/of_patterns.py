"""What stands in for the head explorer where there is no JavaScript."""

import numpy as np
import pandas as pd

from lib import measure
from lib.figures.display import drawn, words
from lib.figures.drawing import plots, share_axis
from lib.figures.style import CLASS_COLOURS, MUTED
from lib.formatting import join, percent

MARKS = {  # class: what is written under its target, and on which side
    "first_token": ("first", "center"),
    "duplicate_token": ("A", "right"),
    "induction": ("B", "left"),
    "previous_token": ("before ", "right"),
    "self": (" self", "left"),
}


def last_query(run, label, rows, batch):
    """The last query's attention of one head in a few sequences, with the classes' targets marked.

    run: lib.report.run_page.Run.  label: "L1H3".  rows: attention, [sequence, layer * head, position].
    batch: the sequences (lib.measure.InductionBatch).
    """
    names = run.trajectory.labels(np.ones(len(run.trajectory.layer), dtype=bool))
    rows = rows[:, names.index(label)]  # [sequence, position]
    n, seq_len = rows.shape
    places = measure.class_positions(seq_len, batch.first_a.numpy())
    targets = {cls: places[cls][:, 0] for cls in MARKS}
    fig, axes = plots(n, 1, 0.6 + 0.95 * n, sharex=True, sharey=True)
    for i, ax in enumerate(axes[:, 0]):
        colours = [MUTED] * seq_len
        for cls, (mark, side) in MARKS.items():
            at = int(targets[cls][i])
            colours[at] = CLASS_COLOURS[cls]
            ax.annotate(
                mark, (at, 0), (0, -3), textcoords="offset points", va="top", ha=side, color="0.2", fontsize="x-small",
                annotation_clip=False,
            )  # fmt: skip
        ax.bar(range(seq_len), rows[i], color=colours, width=1.0)
        share_axis(ax, ylim=(0, 1.02), xlim=(-1, seq_len), ylabel=f"sequence {i + 1}", xticks=[])
        ax.grid(False, axis="x")
    on = {cls: rows[np.arange(n), at] for cls, at in targets.items()}
    induction = join(percent(value) for value in on["induction"])
    said = words(
        "explorer", run=run, label=label, seq_len=seq_len, n=n, induction=induction, first=on["first_token"].max()
    )
    sequence, position = np.indices(rows.shape).reshape(2, -1)
    data = {"sequence": sequence + 1, "position": position, "token": batch.tokens.numpy().ravel()}
    data = pd.DataFrame(data | {"attention": rows.ravel()})
    return drawn(fig, f"explorer_{run.model}_{run.revision}_{label}", *said, data)
