"""Attention rows for the head explorer: where the last query of every head attends in a few sequences.

results/<panel>/explorer/<model>/<revision>.parquet holds one row a sequence and head, the attention as a list over
positions.
"""

from typing import Any

import numpy as np
import pandas as pd

from lib import measure as measuring
from lib import provenance
from lib.tables import heads
from lib.tables.storage import Kind, Panel, sequences, settings

N_SEQUENCES = 4  # the first of the panel's batch
CODE = ("measure.batch", "measure.attention", "panels.checkpoints", "tables.patterns")


def batch(panel: Panel) -> Any:
    """The sequences that are shown: the first of the panel's batch (lib.measure.batch.InductionBatch)."""
    return sequences(panel, N_SEQUENCES)


def sources(panel: Panel, model: str, revision: str) -> dict:
    """What a table depends on; equal sources give equal tables.  Weights and versions as in lib.tables.heads."""
    return heads.sources(panel, model, revision) | {
        "batch": settings(panel, N_SEQUENCES),
        "code": provenance.code_digest(*CODE),
    }


def _compute(panel: Panel, model: str, revision: str, loaded: Any) -> tuple[pd.DataFrame, dict]:
    """Columns: sequence, layer, head, attention (list over positions, float32, sums to 1).

    Raises ValueError naming layer and head if a row is not finite.
    """
    tokens = batch(panel).tokens
    parts = [
        rows for _, (rows,) in measuring.attention.watch(loaded, tokens, lambda attention: (attention.last_row(),))
    ]
    rows = np.concatenate(parts).astype(np.float32)  # [sequence, layer * head, position]
    rows = rows.reshape(len(rows), loaded.config.num_hidden_layers, -1, rows.shape[-1])
    if not np.isfinite(rows).all():
        _, layer, head, _ = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(f"attention of layer {layer} head {head} holds NaN or infinity: the weights are at fault")
    sequence, layer, head = np.indices(rows.shape[:3]).reshape(3, -1)
    table = pd.DataFrame(
        {"sequence": sequence, "layer": layer, "head": head, "attention": list(rows.reshape(-1, rows.shape[-1]))}
    )
    return table, {"content": provenance.digest(rows.astype("<f4").tobytes())}


PATTERNS = Kind("explorer", sources, _compute)
table_path, current, read, measure = PATTERNS.path, PATTERNS.current, PATTERNS.read, PATTERNS.measure


def rows(table: pd.DataFrame) -> np.ndarray:
    """The attention of a table as an array, [sequence, layer * head, position] float32."""
    n = table["sequence"].max() + 1
    return np.stack(table.sort_values(["sequence", "layer", "head"])["attention"]).reshape(n, len(table) // n, -1)
