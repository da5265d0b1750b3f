"""The causal check over training: does a circuit carry the capability that it is named for, and from when on?

results/<panel>/causal/<model>/<revision>.parquet holds, one row a condition, what a
checkpoint can do with some heads zeroed: the circuits of that revision, the circuit of the
last one, matched random heads for both.  As with head tables (lib.tables.heads), its metadata says
what it was made from, and it is measured again only if that has changed.  The paper has
the check at the last revision only.
"""

import time
from pathlib import Path

import pandas as pd

from lib import provenance
from lib.formatting import name_of
from lib.tables import heads, storage

N_SEQUENCES = 500  # the first of the panel's batch; the screen uses them all
DRAWS = 20  # sets of matched random heads; the paper uses one
SEED = 123  # the paper's
CODE = ("measure.attention", "measure.ablation", "measure.batch", "panels.checkpoints", "tables.causal")

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


def table_path(panel, model: str, revision: str) -> Path:
    """File of a causal table; all three are given by what lib.panels.panel calls them."""
    return storage.table_path("causal", panel, model, revision)


def circuit(table: pd.DataFrame, thresholds, cls: str = "induction") -> list[tuple[int, int]]:
    """The heads of a head table past a circuit's threshold (paper baseline): sorted [(layer, head)].

    cls: "induction" or "previous_token".
    """
    past = table[table[f"selectivity_{cls}"] >= getattr(thresholds, f"{cls}_circuit")]
    return sorted((int(layer), int(head)) for layer, head in zip(past["layer"], past["head"]))


def conditions(
    own: list, previous_token: list, final: list, n_layers: int, n_heads: int, draws: int = DRAWS, seed: int = SEED
) -> list[tuple[str, int, list]]:
    """What is zeroed in a causal table: [(condition, draw, heads)], draw -1 but for random heads.

    own, previous_token, final: circuits as sorted [(layer, head)].  A condition whose
    circuit is empty is left out, and so are random heads where too few are left to draw from.
    """
    from lib.measure import matched_random

    found: list[tuple[str, int, list]] = [("baseline", -1, [])]
    if previous_token:
        found.append(("previous_token", -1, previous_token))
    for prefix, heads_ in (("", own), ("final_", final)):
        if heads_:
            layers = sorted({layer for layer, _ in heads_})
            found.append((f"{prefix}circuit", -1, heads_))
            found.append((f"{prefix}layers", -1, [(layer, head) for layer in layers for head in range(n_heads)]))
            random = matched_random(heads_, n_layers, n_heads, draws, seed)
            found += [(f"{prefix}random", draw, random_heads) for draw, random_heads in enumerate(random)]
    return found


def heads_text(heads_: list[tuple[int, int]]) -> str:
    """[(1, 0), (1, 2)] -> "L1H0 L1H2"."""
    return " ".join(name_of(*head) for head in heads_)


def sources(panel, table: pd.DataFrame, final_table: pd.DataFrame) -> dict:
    """What a causal table depends on: head tables of its revision and the last one, circuits, code, sizes."""
    return {
        "heads": table.attrs["provenance"]["sources"],
        "final_heads": final_table.attrs["provenance"]["sources"],
        "circuit": heads_text(circuit(table, panel.thresholds)),
        "previous_token": heads_text(circuit(table, panel.thresholds, "previous_token")),
        "final_circuit": heads_text(circuit(final_table, panel.thresholds)),
        "code": provenance.code_digest(*CODE),
        "n_sequences": min(N_SEQUENCES, panel.batch.n_sequences),
        "draws": DRAWS,
        "seed": SEED,
    }


def current(panel, model: str, revision: str) -> dict | None:
    """The provenance of the causal table on disk, or None if there is none, it cannot be read or it is stale.

    It is stale without the head tables of its revision and of the last one.
    """
    told = storage.told(table_path(panel, model, revision))
    if told is None:
        return None
    tables = [heads.read(panel, model, name) for name in (revision, panel.model(model).revisions[-1].name)]
    if any(table is None for table in tables):
        return None
    return told if told["sources"] == sources(panel, *tables) else None


def read(panel, model: str, revision: str) -> pd.DataFrame | None:
    """The causal table on disk, or None where current() is."""
    return None if current(panel, model, revision) is None else pd.read_parquet(table_path(panel, model, revision))


def measure(panel, model: str, revision: str, loaded=None) -> pd.DataFrame:
    """Measure and save the causal table of one checkpoint; returns it.

    Columns: condition (a key of CONDITIONS), draw (0, 1, ... for random heads, else -1),
    heads ("L1H0 L1H2"), n_heads, and top1, top5 (shares, 0..1), loss (nats) and
    target_logit as lib.measure.ablation.capability gives them.  loaded: the checkpoint if it is in
    memory already.  The head tables of the revision and of the last one are measured first if they are missing.
    Raises CheckpointError (lib.panels.checkpoints) if a checkpoint is not there.
    """
    from lib.measure import capabilities  # here, since reading must not pay for torch

    names = revision, panel.model(model).revisions[-1].name
    panel.model(model).revision(revision)
    table, final_table = (heads.head_table(panel, model, name) for name in names)
    started = time.perf_counter()
    zeroed = conditions(
        circuit(table, panel.thresholds),
        circuit(table, panel.thresholds, "previous_token"),
        circuit(final_table, panel.thresholds),
        n_layers=int(table["layer"].max()) + 1,
        n_heads=int(table["head"].max()) + 1,
    )
    loaded = storage.checkpoint(panel, model, revision, loaded)
    found = capabilities(loaded, storage.sequences(panel, N_SEQUENCES), [heads_ for _, _, heads_ in zeroed])
    result = pd.DataFrame(
        [
            {"condition": condition, "draw": draw, "heads": heads_text(heads_), "n_heads": len(heads_), **measured}
            for (condition, draw, heads_), measured in zip(zeroed, found)
        ]
    )
    made_from, content = sources(panel, table, final_table), storage.content_digest(result)
    storage.save(
        table_path(panel, model, revision), result, (panel, model, revision), made_from, loaded, started, content,
        n_sequences=made_from["n_sequences"],
    )  # fmt: skip
    return result


def trajectory(panel, model: str) -> pd.DataFrame | None:
    """All causal tables of a model under one another, in order of training.

    Adds the columns revision, tokens and step (0, 1, ... along the panel).  Revisions
    that have no table are left out; None if there is none at all.  attrs["n_sequences"]
    and attrs["draws"] say what the tables were measured on.
    """
    parts = []
    for step, revision in enumerate(panel.model(model).revisions):
        table = read(panel, model, revision.name)
        if table is not None:
            parts.append(table.assign(revision=revision.name, tokens=revision.tokens, step=step))
    if not parts:
        return None
    measured = parts[0].attrs["provenance"]["sources"]
    for part in parts:
        part.attrs = {}  # they differ, and would be compared one by one
    whole = pd.concat(parts, ignore_index=True)
    whole.attrs = {name: measured[name] for name in ("n_sequences", "draws")}
    return whole
