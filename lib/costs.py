"""What the measurements cost: the tables that the benchmarks saved, for the book."""

import pandas as pd
import yaml

from lib.paths import ROOT

FOLDER = ROOT / "book" / "data" / "benchmarks"


def read(name):
    """A saved table and the machine it was measured on: (DataFrame, dict), None if it was never saved."""
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        return None
    return pd.read_csv(path), yaml.safe_load(path.with_suffix(".yml").read_text(encoding="utf-8"))
