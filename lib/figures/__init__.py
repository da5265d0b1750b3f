"""Figures: numbers in, a drawn picture with its alt text, caption and data out.

Takes trajectories of heads, causal tables and published tables; what notebooks draw with is exported by name.
May import: measure, findings, paper.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["display", "drawing", "of_ablation", "of_panel", "of_paper", "of_patterns", "of_run", "style"],
    submod_attrs={
        "display": ["drawn"],
        "of_run": ["bos_curve", "first_token_map", "milestones", "pr_against_selectivity", "recall", "sensitivity"],
        "style": ["CLASS_COLOURS", "MUTED", "PALETTE", "SEQUENTIAL", "WIDTH", "label_ends", "training_axis"],
    },
)
