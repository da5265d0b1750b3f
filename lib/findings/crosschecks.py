"""Two independent measures of the same heads, and where they disagree with the screen.

The screen looks at the last query of a batch of lookups and divides by a baseline.  The
prefix-matching score looks at half of all queries of repeated sequences; sink mass at
all queries of the batch.  Neither divides by anything.
"""

import numpy as np
import pandas as pd

from lib.findings.counting import Counting, Thresholds, in_circuit, is_bos
from lib.formatting import name_of

CHECKS = {
    "induction": ("selectivity_induction", "prefix_matching", in_circuit),
    "first_token": ("selectivity_first_token", "sink_mass", is_bos),
}


def rank_agreement(a: pd.Series, b: pd.Series) -> float:
    """Spearman's rank correlation of two columns; missing if one of them is constant."""
    a, b = a.rank(), b.rank()
    return a.corr(b) if a.nunique() > 1 and b.nunique() > 1 else float("nan")


def agreement(heads: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """Screen against check at every revision: one row a check and revision.

    heads: lib.tables.heads.trajectory of one model.  Columns check ("induction" or
    "first_token"), step, revision, spearman, both, screen_only, check_only (lists of
    head names past the screen's threshold, past the check's, or past both).
    """
    rows = []
    by_ratio, by_mass = Counting(thresholds), Counting(thresholds, by="mass")
    for check, (screened, checked, mask) in CHECKS.items():
        for (step, revision), now in heads.groupby(["step", "revision"], sort=False):
            screen, other = np.asarray(mask(now, by_ratio)), np.asarray(mask(now, by_mass))
            names = np.array([name_of(*head) for head in zip(now["layer"], now["head"])])
            row = {"check": check, "step": step, "revision": revision}
            row["spearman"] = rank_agreement(now[screened], now[checked])
            named = {"both": screen & other, "screen_only": screen & ~other, "check_only": other & ~screen}
            rows.append(row | {which: names[heads_].tolist() for which, heads_ in named.items()})
    return pd.DataFrame(rows)
