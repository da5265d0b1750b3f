"""The causal check over training: does a circuit carry the capability that it is named for, and from when on?

results/<panel>/causal/<model>/<revision>.parquet holds, one row a condition, what a checkpoint can do with some heads
zeroed: the circuits of that revision, the circuit of the last one, matched random heads for both.  The paper has the
check at the last revision only.
"""

from typing import Any

import pandas as pd

from lib import provenance
from lib.tables import heads
from lib.tables.ablations import DRAWS, SEED, Heads, capabilities, circuit, conditions, heads_text
from lib.tables.storage import Kind, Panel, over_training, sequences, settings

N_SEQUENCES = 500  # the first of the panel's batch; the screen uses them all
CODE = ("measure.attention", "measure.ablation", "measure.batch", "panels.checkpoints", "tables.ablations")

CONDITIONS = {
    "baseline": "nothing zeroed",
    "circuit": "without this revision's induction circuit",
    "previous_token": "without this revision's previous-token circuit",
    "layers": "without any head of the layers of this revision's induction circuit",
    "random": "without random heads matched to this revision's induction circuit",
    "final_circuit": "without the final induction circuit",
    "final_layers": "without any head of the final induction circuit's layers",
    "final_random": "without random heads matched to the final induction circuit",
}


def _head_tables(panel: Panel, model: str, revision: str, table_of=heads.read) -> list[pd.DataFrame | None]:
    """The head tables of a revision and of the model's last one."""
    return [table_of(panel, model, name) for name in (revision, panel.model(model).revisions[-1].name)]


def _circuits(panel: Panel, table: pd.DataFrame, final_table: pd.DataFrame) -> dict[str, Heads]:
    """What is zeroed as a whole: the circuits of a revision and the induction circuit of the last one."""
    induction, previous_token = panel.thresholds.induction_circuit, panel.thresholds.previous_token_circuit
    return {
        "circuit": circuit(table, "induction", induction),
        "previous_token": circuit(table, "previous_token", previous_token),
        "final_circuit": circuit(final_table, "induction", induction),
    }


def sources(panel: Panel, model: str, revision: str) -> dict | None:
    """What a causal table depends on: head tables of its revision and the last one, circuits, code, sizes.

    None if one of these head tables is missing or stale.
    """
    table, final_table = _head_tables(panel, model, revision)
    if table is None or final_table is None:
        return None
    return {
        "heads": table.attrs["provenance"]["sources"],
        "final_heads": final_table.attrs["provenance"]["sources"],
        **{name: heads_text(zeroed) for name, zeroed in _circuits(panel, table, final_table).items()},
        "code": provenance.code_digest(*CODE),
        "n_sequences": settings(panel, N_SEQUENCES)["n_sequences"],
        "draws": DRAWS,
        "seed": SEED,
    }


def _compute(panel: Panel, model: str, revision: str, loaded: Any) -> tuple[pd.DataFrame, dict]:
    """Columns: condition (a key of CONDITIONS), draw (0, 1, ... for random heads, else -1), heads ("L1H0 L1H2"), n_heads,
    and top1, top5 (shares, 0..1), loss (nats) and target_logit.
    """
    table, final_table = _head_tables(panel, model, revision, heads.head_table)
    assert table is not None and final_table is not None
    found = _circuits(panel, table, final_table)
    n_layers, n_heads = int(table["layer"].max()) + 1, int(table["head"].max()) + 1
    zeroed = conditions(
        found["circuit"], found["previous_token"], found["final_circuit"], n_layers, n_heads, DRAWS, SEED
    )
    batch = sequences(panel, N_SEQUENCES)
    return capabilities(loaded, batch, zeroed), {"n_sequences": len(batch.tokens)}


CAUSAL_TABLES = Kind("causal", sources, _compute)
table_path, current, read = CAUSAL_TABLES.path, CAUSAL_TABLES.current, CAUSAL_TABLES.read


def measure(panel: Panel, model: str, revision: str, loaded: Any = None) -> pd.DataFrame:
    """Measure and save the causal table of one checkpoint, as Kind.measure.

    The head tables of the revision and of the last one are measured first if they are missing.
    """
    _head_tables(panel, model, revision, heads.head_table)
    return CAUSAL_TABLES.measure(panel, model, revision, loaded)


def trajectory(panel: Panel, model: str) -> pd.DataFrame | None:
    """All causal tables of a model under one another, in order of training.

    Adds the columns revision, tokens and step (0, 1, ... along the panel).  Revisions that have no table are left out;
    None if there is none at all.  attrs["n_sequences"] and attrs["draws"] say what the tables were measured on.
    """
    whole = over_training(panel, model, read)
    if whole is not None:
        told = current(panel, model, whole["revision"].iloc[0])
        whole.attrs = {name: told["sources"][name] for name in ("n_sequences", "draws")} if told else {}
    return whole
