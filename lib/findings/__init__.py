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
    submodules=["ablation_effects", "controls", "counting", "crosschecks", "judging"],
    submod_attrs={
        "F1": ["FLOOR_LAYERS", "floor_rule"],
        "F2": ["CLAIMED_SHAPE", "fractions_by_counting", "shape_of", "shape_rule"],
        "F3": ["INDUCTION_HEADS", "SINK_FRACTION", "milestone_steps", "order_rule"],
        "F4": ["EARLY", "RECALL", "circuit_recall", "recall_rule"],
        "F5": ["OWN_ELEVATION", "PEERS", "elevation_steps", "lead_rule", "spectral_leads"],
        "ablation_effects": ["CRITERIA", "formed_as_asked", "starts_to_matter", "when_it_matters"],
        "controls": ["pr_tells_first"],
        "counting": [
            "Counting",
            "PREFIX_MATCHING",
            "SINK_MASS",
            "Trajectory",
            "best",
            "by_layer",
            "in_circuit",
            "is_bos",
            "members",
            "selectivity_column",
            "selectivity_of",
            "thin",
        ],
        "crosschecks": ["CHECKS", "agreement"],
        "judging": [
            "FINDINGS",
            "SWEPT",
            "assumptions",
            "evaluate",
            "explained",
            "how_sure",
            "panel_verdict",
            "survival_text",
        ],
    },
)

_findings = sorted((m.name for m in iter_modules(__path__) if m.name[1:].isdigit()), key=lambda name: int(name[1:]))
for _name in _findings:  # in order: so they stand in judging.FINDINGS as they are imported
    import_module(f"{__name__}.{_name}")
