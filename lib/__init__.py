"""The shared library of the executable paper "When do attention circuits form?".

Eight rooms, each a folder whose docstring says what it is for and which others it may import:
measure, panels, tables, findings, paper, figures, lessons, report.  A room is entered by its face: `from lib import tables`,
then `tables.heads.current(...)`.  Beside them stand four small modules that every room uses (files, formatting,
numerics, provenance), the commands (run, book, train) and old addresses that people's scripts import.
"""

import lazy_loader

# What notebooks, lessons and people's own scripts use; imported when first asked for, since some of it needs torch.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "panels", "tables", "findings", "paper", "figures", "lessons", "report"],
    submod_attrs={
        "measure": ["induction_batch", "participation_ratio", "measure_heads", "capability"],
        "panels": ["load_panel"],
        "tables": ["head_table"],
        "report": ["open_run"],
    },
)
