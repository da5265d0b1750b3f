"""Attention rows for the head explorer: where the last query of every head attends in a few sequences.

results/<panel>/explorer/<model>/<revision>.parquet holds one row a sequence and head, the
attention as a list over positions.  As with head tables (lib.tables.heads), its metadata says what it
was made from, and it is measured again only if that has changed.
"""

import time

import numpy as np
import pandas as pd

from lib import provenance
from lib.files import atomic, results_dir
from lib.tables import heads

N_SEQUENCES = 4  # the first of the panel's batch
CODE = ("measure.batch", "measure.attention", "panels.checkpoints", "tables.patterns")


def table_path(panel, model, revision):
    """File of a table of attention rows; all three are given by what lib.panels.panel calls them."""
    return results_dir(panel.name) / "explorer" / model / f"{revision}.parquet"


def settings(panel):
    """The panel's batch with as many sequences as are shown."""
    return panel.batch.model_dump() | {"n_sequences": min(N_SEQUENCES, panel.batch.n_sequences)}


def batch(panel):
    """The sequences that are shown: the first of the panel's batch (lib.measure.batch.InductionBatch)."""
    from lib.measure import induction_batch

    return induction_batch(**settings(panel))


def sources(panel, model, revision):
    """What a table depends on; equal sources give equal tables.  Weights and versions as in lib.tables.heads."""
    return heads.sources(panel, model, revision) | {
        "batch": settings(panel),
        "code": provenance.code_digest(*CODE),
    }


def current(panel, model, revision):
    """The provenance of the table on disk, or None if there is none, it cannot be read or it is stale."""
    told = provenance.of_table(table_path(panel, model, revision))
    return told if told and provenance.unchanged(told["sources"], sources(panel, model, revision)) else None


def read(panel, model, revision):
    """The table on disk, or None where current() is."""
    if current(panel, model, revision) is None:
        return None
    return pd.read_parquet(table_path(panel, model, revision))


def measure(panel, model, revision, loaded=None):
    """Measure and save the attention rows of one checkpoint; returns the table.

    Columns: sequence, layer, head, attention (list over positions, float32, sums to 1).
    loaded: the checkpoint if it is in memory already.  Raises CheckpointError (lib.panels.checkpoints)
    if the checkpoint is not there, ValueError naming layer and head if a row is not finite.
    """
    # Reading tables is by far the common case and must not pay for torch.
    from lib.measure import watch
    from lib.panels import device, load

    spec = panel.model(model)
    spec.revision(revision)
    started = time.perf_counter()
    loaded = load(spec, revision, device(panel.device)) if loaded is None else loaded
    parts = [rows for _, (rows,) in watch(loaded, batch(panel).tokens, lambda attention: (attention.last_row(),))]
    rows = np.concatenate(parts).astype(np.float32)  # [sequence, layer * head, position]
    rows = rows.reshape(len(rows), loaded.config.num_hidden_layers, -1, rows.shape[-1])
    if not np.isfinite(rows).all():
        _, layer, head, _ = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(f"attention of layer {layer} head {head} holds NaN or infinity: the weights are at fault")
    sequence, layer, head = np.indices(rows.shape[:3]).reshape(3, -1)
    table = pd.DataFrame(
        {"sequence": sequence, "layer": layer, "head": head, "attention": list(rows.reshape(-1, rows.shape[-1]))}
    )
    table.attrs["provenance"] = {
        "panel": panel.name,
        "model": model,
        "revision": revision,
        "sources": sources(panel, model, revision),
        "content": provenance.digest(rows.astype("<f4").tobytes()),
        "device": str(loaded.device),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "commit": provenance.commit(),
        "seconds": round(time.perf_counter() - started, 2),
    }
    with atomic(table_path(panel, model, revision)) as path:
        table.to_parquet(path, index=False)
    return table


def rows(table):
    """The attention of a table as an array, [sequence, layer * head, position] float32."""
    n = table["sequence"].max() + 1
    return np.stack(table.sort_values(["sequence", "layer", "head"])["attention"]).reshape(n, len(table) // n, -1)
