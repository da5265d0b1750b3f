"""Head tables: one parquet file a checkpoint, measured once and read everywhere.

results/<panel>/heads/<model>/<revision>.parquet holds what lib.measure.capture.measure_heads
returns, with the prefix-matching score and, in columns replicates_<quantity>, the
bootstrap replicates of every head as lists; its metadata
(DataFrame.attrs["provenance"]) says what it was made from.  A table is measured again
only if that has changed.
"""

import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from lib import provenance
from lib.tables import storage

MEASURING_CODE = (
    "measure.batch", "measure.metrics", "measure.bootstrap", "measure.attention", "measure.capture", "panels.checkpoints",
)  # fmt: skip
MEASURING_PACKAGES = ("numpy", "torch", "transformers")
REPLICATES = "replicates_"


def n_repeated(panel) -> int:
    """Sequences of the prefix-matching score: 200, fewer if the batch has fewer."""
    return min(200, panel.batch.n_sequences)


def table_path(panel, model: str, revision: str) -> Path:
    """File of a head table; all three are given by what lib.panels.panel calls them."""
    return storage.table_path("heads", panel, model, revision)


@lru_cache(maxsize=None)
def weights_digest(folder: Path) -> str:
    """Hash of a local checkpoint: its config and weights, whatever the files are called."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin"), folder / "config.json"])
    return provenance.digest([provenance.file_digest(f) for f in files if f.is_file()])


def sources(panel, model: str, revision: str) -> dict:
    """What a head table depends on; equal sources give equal tables.

    The weights of a hub model are named by repository and revision, those of a
    local one by a hash (None if the folder is not on this machine).
    """
    spec = panel.model(model)
    folder = spec.folder(revision)
    if folder is None:
        weights = f"{spec.hub}@{revision}"
    else:
        weights = weights_digest(folder) if (folder / "config.json").is_file() else None
    return {
        "weights": weights,
        "dtype": spec.dtype,
        "batch": panel.batch.model_dump(),
        "code": provenance.code_digest(*MEASURING_CODE),
        "versions": provenance.versions(*MEASURING_PACKAGES),
    }


def current(panel, model: str, revision: str) -> dict | None:
    """The provenance of the head table on disk, or None if there is none, it cannot be read or it is stale."""
    told = storage.told(table_path(panel, model, revision))
    return told if told and storage.unchanged(told["sources"], sources(panel, model, revision)) else None


def read(panel, model: str, revision: str) -> pd.DataFrame | None:
    """The head table on disk without its replicates, or None where current() is."""
    if current(panel, model, revision) is None:
        return None
    path = table_path(panel, model, revision)
    return pd.read_parquet(path, columns=[c for c in pq.read_schema(path).names if not c.startswith(REPLICATES)])


def read_replicates(panel, model: str, revision: str) -> dict[str, np.ndarray]:
    """The bootstrap replicates of a head table that is there: {quantity: [replicates, heads]} float32."""
    path = table_path(panel, model, revision)
    columns = [c for c in pq.read_schema(path).names if c.startswith(REPLICATES)]
    lists = pq.read_table(path, columns=columns)
    return {
        name.removeprefix(REPLICATES): lists[name].combine_chunks().flatten().to_numpy().reshape(len(lists), -1).T
        for name in columns
    }


def measure(panel, model: str, revision: str, loaded=None) -> pd.DataFrame:
    """Load a checkpoint, measure its heads and save the table; returns it.

    loaded: the checkpoint if it is in memory already.  Raises CheckpointError
    (lib.panels.checkpoints) if the checkpoint is not there, or its config is not that of the
    revisions measured before it.
    """
    from lib.measure import prefix_matching, repeated_sequences, screen  # here, since reading must not pay for torch
    from lib.panels import refuse_other_traits

    started = time.perf_counter()
    loaded = storage.checkpoint(panel, model, revision, loaded)
    for name, told in measured(panel, model).items():
        if name != revision:
            what = f"{panel.model(model).label} at {revision}"
            refuse_other_traits(what, loaded.checkpoint["traits"], told["traits"], name)
    batch, b = storage.sequences(panel), panel.batch
    table, replicates = screen(loaded, batch)
    repeated = repeated_sequences(b.seq_len, b.vocab_low, b.vocab_high, b.seed, n_repeated(panel))
    prefix, replicates_of_prefix = prefix_matching(loaded, repeated)
    table = table.merge(prefix, on=["layer", "head"])
    replicates |= replicates_of_prefix
    lists = {f"{REPLICATES}{name}": list(values.T.astype(np.float32)) for name, values in replicates.items()}
    whole = table.assign(**lists)
    storage.save(
        table_path(panel, model, revision), whole, (panel, model, revision), sources(panel, model, revision), loaded, started,
        content=storage.content_digest(table),
        tokens_sha256=provenance.digest(batch.tokens.numpy().astype("<i8").tobytes()),
        **loaded.checkpoint,
    )  # fmt: skip
    table.attrs = whole.attrs
    return table


def measured(panel, model: str) -> dict[str, dict]:
    """{revision: provenance} of the head tables of a model that are there and not stale."""
    told = {r.name: current(panel, model, r.name) for r in panel.model(model).revisions}
    return {name: of for name, of in told.items() if of is not None}


def same_weights(panel, model: str) -> list[list[str]]:
    """Revisions of a model that turned out to hold the same weights: a list of lists of names."""
    by_weights: dict[str, list[str]] = {}
    for name, told in measured(panel, model).items():
        by_weights.setdefault(told["weights_sha256"], []).append(name)
    return [names for names in by_weights.values() if len(names) > 1]


def same_weights_text(label: str, names: list[str]) -> str:
    """The warning that revisions hold the same weights."""
    return (
        f"{label}: {' and '.join(names)} hold the same weights. At most one of them can be what its name says: "
        "ask where they were published, and leave the others out of the panel"
    )


def head_table(panel, model: str, revision: str) -> pd.DataFrame:
    """The head table of one checkpoint, measured now if it is missing or stale."""
    table = read(panel, model, revision)
    return measure(panel, model, revision) if table is None else table


def trajectory(panel, model: str) -> pd.DataFrame:
    """All head tables of a model under one another, in order of training.

    Adds the columns revision, tokens and step (0, 1, ... along the panel).
    """
    parts = []
    for step, revision in enumerate(panel.model(model).revisions):
        table = head_table(panel, model, revision.name)
        parts.append(table.assign(revision=revision.name, tokens=revision.tokens, step=step))
    return pd.concat(parts, ignore_index=True)


def replicates(panel, model: str) -> dict[str, np.ndarray]:
    """The bootstrap replicates of a model's head tables: {quantity: [replicate, step, head]} float32.

    In the order of trajectory(); call that first, which measures what is missing.
    """
    of = [read_replicates(panel, model, revision.name) for revision in panel.model(model).revisions]
    return {name: np.stack([r[name] for r in of], axis=1) for name in of[0]}
