"""What all kinds of tables share: one parquet file a checkpoint, measured once and read everywhere.

results/<panel>/<folder>/<model>/<revision>.parquet says in its metadata (DataFrame.attrs["provenance"]) what it was
made from, and is measured again only if that has changed.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from lib import measure, numerics, panels, provenance
from lib.files import atomic, results_dir
from lib.panels import Panel

REPLICATES = "replicates_"  # columns of bootstrap replicates: in the file, but not in the table that is handed on


@dataclass(frozen=True)
class Kind:
    """One kind of table; panels, models and revisions are given by what lib.panels.panel calls them.

    folder: where its files lie among the results of a panel.
    sources(panel, model, revision): what a table depends on, as JSON has it; equal sources give equal tables.  None if
    that cannot be known yet.
    compute(panel, model, revision, loaded): (table, what its provenance says besides), from a checkpoint in memory.
    """

    folder: str
    sources: Callable[[Panel, str, str], dict | None]
    compute: Callable[[Panel, str, str, Any], tuple[pd.DataFrame, dict]]

    def path(self, panel: Panel, model: str, revision: str) -> Path:
        """File of a table."""
        return results_dir(panel.name) / self.folder / model / f"{revision}.parquet"

    def current(self, panel: Panel, model: str, revision: str) -> dict | None:
        """The provenance of the table on disk, or None if there is none, it cannot be read or it is stale."""
        told = made_from(self.path(panel, model, revision))
        expected = self.sources(panel, model, revision) if told else None
        return told if told and expected and unchanged(told["sources"], expected) else None

    def read(self, panel: Panel, model: str, revision: str) -> pd.DataFrame | None:
        """The table on disk without its replicates, or None where current() is."""
        if self.current(panel, model, revision) is None:
            return None
        path = self.path(panel, model, revision)
        return pd.read_parquet(path, columns=without_replicates(pq.read_schema(path).names))

    def measure(self, panel: Panel, model: str, revision: str, loaded: Any = None) -> pd.DataFrame:
        """Measure and save the table of one checkpoint; returns it without its replicates.

        loaded: the checkpoint if it is in memory already.  Raises PanelError for a revision that the panel does not
        have, CheckpointError (lib.panels.hub) if the checkpoint is not there.
        """
        spec = panel.model(model)
        spec.revision(revision)
        started = time.perf_counter()
        if loaded is None:
            loaded = panels.load(spec, revision, panels.device(panel.device))
        whole, told = self.compute(panel, model, revision, loaded)
        table = whole[without_replicates(whole.columns)]
        if "content" not in told:
            told["content"] = content_digest(table)
        table.attrs["provenance"] = {
            "panel": panel.name,
            "model": model,
            "revision": revision,
            "sources": self.sources(panel, model, revision),
            **told,
            "device": str(loaded.device),
            "numerics": numerics.told(),
            "dtype": str(loaded.dtype).removeprefix("torch."),
            "commit": provenance.commit(),
            "seconds": round(time.perf_counter() - started, 2),
        }
        whole.attrs = table.attrs
        with atomic(self.path(panel, model, revision)) as path:
            whole.to_parquet(path, index=False)
        return table


def made_from(path: Path) -> dict | None:
    """The provenance of a table, without reading its numbers; None if there is none that can be read."""
    try:
        return json.loads(pq.read_schema(path).metadata[b"PANDAS_ATTRS"])["provenance"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def unchanged(recorded: dict, expected: dict) -> bool:
    """Whether a table's sources are what they would be now.

    Weights that are not on this machine (None) are not asked for: the table could not be measured again.
    """
    return all(recorded.get(k) == v for k, v in expected.items() if (k, v) != ("weights", None))


def sequences(panel: Panel, at_most: int | None = None) -> Any:
    """The panel's batch, or its first sequences (lib.measure.batch.InductionBatch)."""
    return measure.induction_batch(**settings(panel, at_most))


def settings(panel: Panel, at_most: int | None = None) -> dict:
    """Parameters of the panel's batch, or of its first sequences."""
    n = panel.batch.n_sequences
    return panel.batch.model_dump() | {"n_sequences": min(at_most or n, n)}


def without_replicates(columns) -> list[str]:
    """The columns of a table that are not bootstrap replicates."""
    return [name for name in columns if not name.startswith(REPLICATES)]


def content_digest(table: pd.DataFrame) -> str:
    """Hash of a table's numbers, which unlike the file do not hold the seconds taken."""
    return provenance.digest(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())


def over_training(
    panel: Panel, model: str, table_of: Callable[[Panel, str, str], pd.DataFrame | None]
) -> pd.DataFrame | None:
    """The tables of a model under one another, in order of training; None if there are none.

    table_of: reads or measures one; revisions of which it has none are left out.  Adds the columns revision, tokens
    and step (0, 1, ... along the panel).
    """
    parts = []
    for step, revision in enumerate(panel.model(model).revisions):
        table = table_of(panel, model, revision.name)
        if table is not None:
            parts.append(table.assign(revision=revision.name, tokens=revision.tokens, step=step))
            parts[-1].attrs = {}  # they differ, and would be compared one by one
    return pd.concat(parts, ignore_index=True) if parts else None
