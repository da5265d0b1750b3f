"""Head tables: one parquet file a checkpoint, measured once and read everywhere.

results/<panel>/heads/<model>/<revision>.parquet holds what lib.measure.capture.measure_heads
returns, with the prefix-matching score and, in columns replicates_<quantity>, the
bootstrap replicates of every head as lists; its metadata
(DataFrame.attrs["provenance"]) says what it was made from.  A table is measured again
only if that has changed.
"""

import time
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from lib import provenance
from lib.files import atomic, results_dir

MEASURING_CODE = (
    "measure.batch", "measure.metrics", "measure.bootstrap", "measure.attention", "measure.capture", "panels.checkpoints",
)  # fmt: skip
MEASURING_PACKAGES = ("numpy", "torch", "transformers")
REPLICATES = "replicates_"


def n_repeated(panel):
    """Sequences of the prefix-matching score: 200, fewer if the batch has fewer."""
    return min(200, panel.batch.n_sequences)


def table_path(panel, model, revision):
    """File of a head table; all three are given by what lib.panels.panel calls them."""
    return results_dir(panel.name) / "heads" / model / f"{revision}.parquet"


@lru_cache(maxsize=None)
def weights_digest(folder):
    """Hash of a local checkpoint: its config and weights, whatever the files are called."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin"), folder / "config.json"])
    return provenance.digest([provenance.file_digest(f) for f in files if f.is_file()])


def sources(panel, model, revision):
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


def current(panel, model, revision):
    """The provenance of the head table on disk, or None if there is none, it cannot be read or it is stale."""
    told = provenance.of_table(table_path(panel, model, revision))
    return told if told and provenance.unchanged(told["sources"], sources(panel, model, revision)) else None


def read(panel, model, revision):
    """The head table on disk without its replicates, or None where current() is."""
    if current(panel, model, revision) is None:
        return None
    path = table_path(panel, model, revision)
    return pd.read_parquet(path, columns=[c for c in _columns(path) if not c.startswith(REPLICATES)])


def _columns(path):
    return pq.read_schema(path).names


def read_replicates(panel, model, revision):
    """The bootstrap replicates of a head table that is there: {quantity: [replicates, heads]} float32."""
    path = table_path(panel, model, revision)
    columns = [c for c in _columns(path) if c.startswith(REPLICATES)]
    lists = pq.read_table(path, columns=columns)
    return {
        name.removeprefix(REPLICATES): lists[name].combine_chunks().flatten().to_numpy().reshape(len(lists), -1).T
        for name in columns
    }


def measure(panel, model, revision, loaded=None):
    """Load a checkpoint, measure its heads and save the table; returns it.

    loaded: the checkpoint if it is in memory already.  Raises CheckpointError
    (lib.panels.checkpoints) if the checkpoint is not there, or its config is not that of the
    revisions measured before it.
    """
    # Reading tables is by far the common case and must not pay for torch.
    from lib.measure import induction_batch, prefix_matching, repeated_sequences, screen
    from lib.panels import device, load, refuse_other_traits

    spec = panel.model(model)
    spec.revision(revision)
    started = time.perf_counter()
    loaded = load(spec, revision, device(panel.device)) if loaded is None else loaded
    for name, told in measured(panel, model).items():
        if name != revision:
            refuse_other_traits(f"{spec.label} at {revision}", loaded.checkpoint["traits"], told["traits"], name)
    batch = induction_batch(**panel.batch.model_dump())
    table, replicates = screen(loaded, batch)
    b = panel.batch
    repeated = repeated_sequences(b.seq_len, b.vocab_low, b.vocab_high, b.seed, n_repeated(panel))
    prefix, replicates_of_prefix = prefix_matching(loaded, repeated)
    table = table.merge(prefix, on=["layer", "head"])
    replicates |= replicates_of_prefix
    table.attrs["provenance"] = {
        "panel": panel.name,
        "model": model,
        "revision": revision,
        "sources": sources(panel, model, revision),
        "tokens_sha256": provenance.digest(batch.tokens.numpy().astype("<i8").tobytes()),
        "content": content_digest(table),
        **loaded.checkpoint,
        "device": str(loaded.device),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "commit": provenance.commit(),
        "seconds": round(time.perf_counter() - started, 2),
    }
    lists = {f"{REPLICATES}{name}": list(values.T.astype(np.float32)) for name, values in replicates.items()}
    whole = table.assign(**lists)
    whole.attrs = table.attrs
    with atomic(table_path(panel, model, revision)) as path:
        whole.to_parquet(path, index=False)
    return table


def content_digest(table):
    """Hash of a table's numbers, which unlike the file do not hold the seconds taken."""
    return provenance.digest(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())


def measured(panel, model):
    """{revision: provenance} of the head tables of a model that are there and not stale."""
    told = {r.name: current(panel, model, r.name) for r in panel.model(model).revisions}
    return {name: of for name, of in told.items() if of is not None}


def same_weights(panel, model):
    """Revisions of a model that turned out to hold the same weights: a list of lists of names."""
    by_weights = {}
    for name, told in measured(panel, model).items():
        by_weights.setdefault(told["weights_sha256"], []).append(name)
    return [names for names in by_weights.values() if len(names) > 1]


def same_weights_text(label, names):
    """The warning that revisions hold the same weights."""
    return (
        f"{label}: {' and '.join(names)} hold the same weights. At most one of them can be what its name says: "
        "ask where they were published, and leave the others out of the panel"
    )


def head_table(panel, model, revision):
    """The head table of one checkpoint, measured now if it is missing or stale."""
    table = read(panel, model, revision)
    return measure(panel, model, revision) if table is None else table


def trajectory(panel, model):
    """All head tables of a model under one another, in order of training.

    Adds the columns revision, tokens and step (0, 1, ... along the panel).
    """
    parts = []
    for step, revision in enumerate(panel.model(model).revisions):
        table = head_table(panel, model, revision.name)
        parts.append(table.assign(revision=revision.name, tokens=revision.tokens, step=step))
    return pd.concat(parts, ignore_index=True)


def replicates(panel, model):
    """The bootstrap replicates of a model's head tables: {quantity: [replicate, step, head]} float32.

    In the order of trajectory(); call that first, which measures what is missing.
    """
    of = [read_replicates(panel, model, revision.name) for revision in panel.model(model).revisions]
    return {name: np.stack([r[name] for r in of], axis=1) for name in of[0]}
