"""Measurements on disk: a head table, a causal table and rows of attention for every checkpoint of a panel.

Takes a panel; measures what is missing or stale, and hands on tables (pandas) that say what they were made from.
May import: measure, panels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["ablations", "causal", "heads", "patterns", "preflight", "storage", "sweep"],
    submod_attrs={"heads": ["head_table"]},
)
