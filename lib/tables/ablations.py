"""What a causal table zeroes, and what is left of the capability then: all of it that decides a number.

The code here is part of what causal tables are made from; how they are stored is not (lib.tables.causal).
"""

from typing import Any

import pandas as pd

from lib import measure
from lib.formatting import name_of

DRAWS = 20  # sets of matched random heads; the paper uses one
SEED = 123  # the paper's

Heads = list[tuple[int, int]]  # sorted pairs (layer, head)


def circuit(table: pd.DataFrame, cls: str, threshold: float) -> Heads:
    """The heads of a head table whose selectivity of a class (paper baseline) is at a threshold or past it."""
    heads = table[table[measure.selectivity_column(cls)] >= threshold]
    return sorted((int(layer), int(head)) for layer, head in zip(heads["layer"], heads["head"]))


def conditions(
    own: Heads, previous_token: Heads, final: Heads, n_layers: int, n_heads: int, draws: int = DRAWS, seed: int = SEED
) -> list[tuple[str, int, Heads]]:
    """What is zeroed in a causal table: [(condition, draw, heads)], draw -1 but for random heads.

    own, previous_token, final: circuits.  A condition whose circuit is empty is left out, and so are random heads where
    too few are left to draw from.
    """
    found: list[tuple[str, int, Heads]] = [("baseline", -1, [])]
    if previous_token:
        found.append(("previous_token", -1, previous_token))
    for prefix, heads in (("", own), ("final_", final)):
        if heads:
            layers = sorted({layer for layer, _ in heads})
            found.append((f"{prefix}circuit", -1, heads))
            found.append((f"{prefix}layers", -1, [(layer, head) for layer in layers for head in range(n_heads)]))
            random = measure.matched_random(heads, n_layers, n_heads, draws, seed)
            found += [(f"{prefix}random", draw, random_heads) for draw, random_heads in enumerate(random)]
    return found


def heads_text(heads: Heads) -> str:
    """[(1, 0), (1, 2)] -> "L1H0 L1H2"."""
    return " ".join(name_of(*head) for head in heads)


def capabilities(loaded: Any, batch: Any, zeroed: list[tuple[str, int, Heads]]) -> pd.DataFrame:
    """One row a condition: condition, draw, heads, n_heads, and the columns of lib.measure.ablation.capability.

    loaded: a checkpoint in memory.  batch: lib.measure.batch.InductionBatch.
    """
    found = measure.capabilities(loaded, batch, [heads for _, _, heads in zeroed])
    return pd.DataFrame(
        [
            {"condition": condition, "draw": draw, "heads": heads_text(heads), "n_heads": len(heads), **capability}
            for (condition, draw, heads), capability in zip(zeroed, found)
        ]
    )
