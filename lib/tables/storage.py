"""What the three kinds of tables share: one parquet file a checkpoint, which says in its metadata what it was made from.

results/<panel>/<kind>/<model>/<revision>.parquet; the metadata is DataFrame.attrs["provenance"].  A table is measured again
only if what it was made from has changed.
"""

import json
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from lib import provenance
from lib.files import atomic, results_dir


def table_path(kind: str, panel, model: str, revision: str) -> Path:
    """File of a table; kind: "heads", "causal" or "explorer"; the others are given by what lib.panels.panel calls them."""
    return results_dir(panel.name) / kind / model / f"{revision}.parquet"


def told(path: Path) -> dict | None:
    """What a parquet table says it was made from, without reading its numbers; None if there is none that can be read."""
    try:
        return json.loads(pq.read_schema(path).metadata[b"PANDAS_ATTRS"])["provenance"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def unchanged(recorded: dict, expected: dict) -> bool:
    """Whether a table's sources are what they would be now.

    Weights that are not on this machine (None) are not asked for: the table could not be measured again.
    """
    return all(recorded.get(k) == v for k, v in expected.items() if (k, v) != ("weights", None))


def checkpoint(panel, model: str, revision: str, loaded=None):
    """The checkpoint as a transformers model on the panel's device; loaded: the same, if it is in memory already.

    Raises lib.panels.PanelError for a revision that the panel does not have, CheckpointError if it cannot be loaded.
    """
    from lib.panels import device, load  # reading tables is by far the common case and must not pay for torch

    spec = panel.model(model)
    spec.revision(revision)
    return load(spec, revision, device(panel.device)) if loaded is None else loaded


def sequences(panel, at_most: int | None = None):
    """The panel's batch, or the first sequences of it (lib.measure.batch.InductionBatch)."""
    from lib.measure import induction_batch

    n = panel.batch.n_sequences
    return induction_batch(**panel.batch.model_dump() | {"n_sequences": min(at_most or n, n)})


def save(
    path: Path, table: pd.DataFrame, place: tuple, sources: dict, loaded, started: float, content: str, **more
) -> None:
    """Write a table with what it was made from, which it carries from now on (attrs).

    place: (panel, model, revision).  loaded: the checkpoint that was measured.  started: time.perf_counter() when it began.
    content: hash of the numbers.  more: what else the metadata says.
    """
    panel, model, revision = place
    table.attrs["provenance"] = {
        "panel": panel.name,
        "model": model,
        "revision": revision,
        "sources": sources,
        "content": content,
        **more,
        "device": str(loaded.device),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "commit": provenance.commit(),
        "seconds": round(time.perf_counter() - started, 2),
    }
    with atomic(path) as temporary:
        table.to_parquet(temporary, index=False)


def content_digest(table: pd.DataFrame) -> str:
    """Hash of a table's numbers, which unlike the file do not hold the seconds taken."""
    return provenance.digest(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
