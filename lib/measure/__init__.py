"""The paper's method: the batch, what is measured of a head, and what a set of heads is worth.

Takes a transformers causal language model in memory and a batch of token ids; hands on tables (pandas) and numbers.
Knows nothing of panels, files or pages: the folder can be lifted into another project.
May import: no other room.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["ablation", "attention", "batch", "bootstrap", "capture", "metrics", "model"],
    submod_attrs={
        "ablation": ["capabilities", "capability", "matched_random"],
        "attention": ["as_bridge", "watch"],
        "batch": ["InductionBatch", "induction_batch", "repeated_sequences"],
        "capture": ["measure_heads", "prefix_matching", "screen"],
        "metrics": ["BASELINES", "CLASSES", "class_positions", "participation_ratio", "selectivity_column"],
    },
)
