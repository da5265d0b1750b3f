"""What tables say: pure functions of head and causal tables; no file, no model.

Takes trajectories of heads and causal tables; hands on, for each finding, a claim, a verdict by a rule, and the numbers
that it rests on.  One module a finding: a new F6.py here is found by itself.
May import: measure.
"""

from importlib import import_module
from pkgutil import iter_modules

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["ablation_effects", "controls", "counting", "crosschecks", "judging", "power"],
    submod_attrs={
        "F1": ["FLOOR_LAYERS"],
        "F2": ["fractions_by_counting", "shape_of"],
        "F3": ["INDUCTION_HEADS", "SINK_FRACTION", "milestone_steps", "order_rule"],
        "F4": ["EARLY", "RECALL", "circuit_recall"],
        "F5": ["elevation_steps", "spectral_leads"],
        "ablation_effects": ["starts_to_matter"],
        "controls": ["pr_tells_first"],
        "counting": [
            "Counting",
            "PREFIX_MATCHING",
            "SINK_MASS",
            "by_layer",
            "in_circuit",
            "is_bos",
            "members",
            "selectivity_of",
        ],
        "crosschecks": ["CHECKS"],
        "judging": ["FINDINGS", "SWEPT"],
    },
)

_findings = sorted((m.name for m in iter_modules(__path__) if m.name[1:].isdigit()), key=lambda name: int(name[1:]))
for _name in _findings:  # in order: so they stand in judging.FINDINGS as they are imported
    import_module(f"{__name__}.{_name}")
