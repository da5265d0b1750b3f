"""Head tables: what lib.measure.capture.measure_heads returns, with the prefix-matching score, for every checkpoint.

results/<panel>/heads/<model>/<revision>.parquet also holds, in columns replicates_<quantity>, the bootstrap replicates
of every head as lists.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from lib import measure as measuring
from lib import panels, provenance
from lib.panels import Panel
from lib.tables.storage import REPLICATES, Kind, over_training, sequences

MEASURING_CODE = (
    "measure.batch", "measure.metrics", "measure.bootstrap", "measure.attention", "measure.capture", "panels.checkpoints",
)  # fmt: skip
MEASURING_PACKAGES = ("numpy", "torch", "transformers")


def n_repeated(panel: Panel) -> int:
    """Sequences of the prefix-matching score: 200, fewer if the batch has fewer."""
    return min(200, panel.batch.n_sequences)


@cache
def weights_digest(folder: Path) -> str:
    """Hash of a local checkpoint: its config and weights, whatever the files are called."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin"), folder / "config.json"])
    return provenance.digest([provenance.file_digest(f) for f in files if f.is_file()])


def sources(panel: Panel, model: str, revision: str) -> dict:
    """What a head table depends on; equal sources give equal tables.

    The weights of a hub model are named by repository and revision, those of a local one by a hash (None if the folder
    is not on this machine).
    """
    spec = panel.model(model)
    folder = spec.folder(revision)
    weights: str | None = f"{spec.hub}@{revision}"
    if folder is not None:
        weights = weights_digest(folder) if (folder / "config.json").is_file() else None
    return {
        "weights": weights,
        "dtype": spec.dtype,
        "batch": panel.batch.model_dump(),
        "code": provenance.code_digest(*MEASURING_CODE),
        "versions": provenance.versions(*MEASURING_PACKAGES),
    }


def _compute(panel: Panel, model: str, revision: str, loaded: Any) -> tuple[pd.DataFrame, dict]:
    """Screen and prefix-matching score.  Raises CheckpointError for a config unlike that of revisions measured before."""
    label, traits = panel.model(model).label, loaded.checkpoint["traits"]
    for name, told in measured(panel, model).items():
        if name != revision:
            panels.refuse_other_traits(f"{label} at {revision}", traits, told["traits"], name)
    b = panel.batch
    batch = sequences(panel)
    table, replicates = measuring.screen(loaded, batch)
    repeated = measuring.repeated_sequences(b.seq_len, b.vocab_low, b.vocab_high, b.seed, n_repeated(panel))
    prefix, replicates_of_prefix = measuring.prefix_matching(loaded, repeated)
    lists = {
        f"{REPLICATES}{name}": list(values.T.astype(np.float32))
        for name, values in (replicates | replicates_of_prefix).items()
    }
    tokens = provenance.digest(batch.tokens.numpy().astype("<i8").tobytes())
    return table.merge(prefix, on=["layer", "head"]).assign(**lists), {"tokens_sha256": tokens, **loaded.checkpoint}


HEAD_TABLES = Kind("heads", sources, _compute)
table_path, current, read, measure = HEAD_TABLES.path, HEAD_TABLES.current, HEAD_TABLES.read, HEAD_TABLES.measure


def read_replicates(panel: Panel, model: str, revision: str) -> dict[str, np.ndarray]:
    """The bootstrap replicates of a head table that is there: {quantity: [replicates, heads]} float32."""
    path = table_path(panel, model, revision)
    columns = [name for name in pq.read_schema(path).names if name.startswith(REPLICATES)]
    lists = pq.read_table(path, columns=columns)
    return {
        name.removeprefix(REPLICATES): lists[name].combine_chunks().flatten().to_numpy().reshape(len(lists), -1).T
        for name in columns
    }


def measured(panel: Panel, model: str) -> dict[str, dict]:
    """{revision: provenance} of the head tables of a model that are there and not stale."""
    told = {r.name: current(panel, model, r.name) for r in panel.model(model).revisions}
    return {name: of for name, of in told.items() if of is not None}


def same_weights(panel: Panel, model: str) -> list[list[str]]:
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


def head_table(panel: Panel, model: str, revision: str) -> pd.DataFrame:
    """The head table of one checkpoint, measured now if it is missing or stale."""
    table = read(panel, model, revision)
    return measure(panel, model, revision) if table is None else table


def trajectory(panel: Panel, model: str) -> pd.DataFrame:
    """All head tables of a model under one another, in order of training, measured where they are missing.

    Adds the columns revision, tokens and step (0, 1, ... along the panel).
    """
    whole = over_training(panel, model, head_table)
    assert whole is not None  # a model has two revisions at least
    return whole


def replicates(panel: Panel, model: str) -> dict[str, np.ndarray]:
    """The bootstrap replicates of a model's head tables: {quantity: [replicate, step, head]} float32.

    In the order of trajectory(); call that first, which measures what is missing.
    """
    of = [read_replicates(panel, model, revision.name) for revision in panel.model(model).revisions]
    return {name: np.stack([r[name] for r in of], axis=1) for name in of[0]}
