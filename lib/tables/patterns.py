"""Attention rows for the head explorer: where the last query of every head attends in a few sequences.

results/<panel>/explorer/<model>/<revision>.parquet holds one row a sequence and head, the
attention as a list over positions.  As with head tables (lib.tables.heads), its metadata says what it
was made from, and it is measured again only if that has changed.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd

from lib import provenance
from lib.tables import heads, storage

N_SEQUENCES = 4  # the first of the panel's batch
CODE = ("measure.batch", "measure.attention", "panels.checkpoints", "tables.patterns")


def table_path(panel, model: str, revision: str) -> Path:
    """File of a table of attention rows; all three are given by what lib.panels.panel calls them."""
    return storage.table_path("explorer", panel, model, revision)


def batch(panel):
    """The sequences that are shown: the first of the panel's batch (lib.measure.batch.InductionBatch)."""
    return storage.sequences(panel, N_SEQUENCES)


def sources(panel, model: str, revision: str) -> dict:
    """What a table depends on; equal sources give equal tables.  Weights and versions as in lib.tables.heads."""
    return heads.sources(panel, model, revision) | {
        "batch": panel.batch.model_dump() | {"n_sequences": min(N_SEQUENCES, panel.batch.n_sequences)},
        "code": provenance.code_digest(*CODE),
    }


def current(panel, model: str, revision: str) -> dict | None:
    """The provenance of the table on disk, or None if there is none, it cannot be read or it is stale."""
    told = storage.told(table_path(panel, model, revision))
    return told if told and storage.unchanged(told["sources"], sources(panel, model, revision)) else None


def read(panel, model: str, revision: str) -> pd.DataFrame | None:
    """The table on disk, or None where current() is."""
    return None if current(panel, model, revision) is None else pd.read_parquet(table_path(panel, model, revision))


def measure(panel, model: str, revision: str, loaded=None) -> pd.DataFrame:
    """Measure and save the attention rows of one checkpoint; returns the table.

    Columns: sequence, layer, head, attention (list over positions, float32, sums to 1).
    loaded: the checkpoint if it is in memory already.  Raises CheckpointError (lib.panels.checkpoints)
    if the checkpoint is not there, ValueError naming layer and head if a row is not finite.
    """
    from lib.measure import watch  # here, since reading must not pay for torch

    started = time.perf_counter()
    loaded = storage.checkpoint(panel, model, revision, loaded)
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
    storage.save(
        table_path(panel, model, revision), table, (panel, model, revision), sources(panel, model, revision), loaded, started,
        content=provenance.digest(rows.astype("<f4").tobytes()),
    )  # fmt: skip
    return table


def rows(table: pd.DataFrame) -> np.ndarray:
    """The attention of a table as an array, [sequence, layer * head, position] float32."""
    n = table["sequence"].max() + 1
    return np.stack(table.sort_values(["sequence", "layer", "head"])["attention"]).reshape(n, len(table) // n, -1)
