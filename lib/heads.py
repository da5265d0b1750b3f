"""Head tables: one parquet file a checkpoint, measured once and read everywhere.

results/<panel>/heads/<model>/<revision>.parquet holds what lib.capture.measure_heads
returns; its metadata (DataFrame.attrs["provenance"]) says what it was made from.
A table is measured again only if that has changed.
"""

import time
from functools import lru_cache

import pandas as pd

from lib import provenance
from lib.paths import atomic, results_dir

MEASURING_CODE = ("batch", "metrics", "capture", "models")
MEASURING_PACKAGES = ("numpy", "torch", "transformers", "transformer-lens")


def table_path(panel, model, revision):
    """File of a head table; all three are given by what lib.panel calls them."""
    return results_dir(panel.name) / "heads" / model / f"{revision}.parquet"


@lru_cache(maxsize=None)
def weights_digest(folder):
    """Hash of a local checkpoint: its config and weights, whatever the files are called."""
    files = sorted([*folder.glob("*.safetensors"), folder / "config.json"])
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
        "batch": panel.batch.model_dump(),
        "code": provenance.code_digest(*MEASURING_CODE),
        "versions": provenance.versions(*MEASURING_PACKAGES),
    }


def read(panel, model, revision):
    """The head table on disk, or None if there is none or it is stale.

    A table whose weights are not on this machine is taken as it is: it could not
    be measured again.
    """
    path = table_path(panel, model, revision)
    if not path.is_file():
        return None
    table = pd.read_parquet(path)
    expected = sources(panel, model, revision)
    if expected["weights"] is None:
        expected.pop("weights")
    recorded = table.attrs["provenance"]["sources"]
    return table if all(recorded.get(k) == v for k, v in expected.items()) else None


def measure(panel, model, revision):
    """Load a checkpoint, measure its heads and save the table; returns it.

    Raises CheckpointError (lib.models) if the checkpoint is not there.
    """
    # Reading tables is by far the common case and must not pay for torch.
    from lib.batch import induction_batch
    from lib.capture import measure_heads, release
    from lib.models import load

    spec = panel.model(model)
    spec.revision(revision)
    started = time.perf_counter()
    loaded = load(spec, revision)
    batch = induction_batch(**panel.batch.model_dump())
    table = measure_heads(loaded, batch)
    table.attrs["provenance"] = {
        "panel": panel.name,
        "model": model,
        "revision": revision,
        "sources": sources(panel, model, revision),
        "tokens_sha256": provenance.digest(batch.tokens.numpy().astype("<i8").tobytes()),
        "content": content_digest(table),
        "device": str(loaded.device),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "commit": provenance.commit(),
        "seconds": round(time.perf_counter() - started, 2),
    }
    release(loaded)
    with atomic(table_path(panel, model, revision)) as path:
        table.to_parquet(path, index=False)
    return table


def content_digest(table):
    """Hash of a table's numbers, which unlike the file do not hold the seconds taken."""
    return provenance.digest(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())


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
