"""The shared library of the executable paper "When do attention circuits form?".

Rooms, each a folder whose docstring says what it is for, and what each may import:
measure <- panels <- tables; measure <- findings <- paper <- figures <- lessons <- report, at the top.  Beside them three small modules that all use: files,
formatting, provenance.
"""

from importlib import import_module

# What notebooks, lessons and people's own scripts use; imported when first asked for, since some of it needs torch.
_PUBLIC = {
    "induction_batch": "lib.measure.batch",
    "participation_ratio": "lib.measure.metrics",
    "measure_heads": "lib.measure.capture",
    "capability": "lib.measure.ablation",
    "load_panel": "lib.panels.panel",
    "head_table": "lib.tables.heads",
    "open_run": "lib.report.run_page",
}
__all__ = list(_PUBLIC)


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
