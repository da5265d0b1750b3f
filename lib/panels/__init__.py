"""Which checkpoints, and where from: panel files, a hub, folders, and the mini models that are trained here.

Takes the name of a panel; hands on its models and revisions, and checkpoints loaded as transformers models.
May import: measure.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["checkpoints", "corpus", "hub", "mini_models", "panel", "recipes", "training"],
    submod_attrs={
        "checkpoints": [
            "ARCHITECTURES",
            "DeviceError",
            "device",
            "half_precision_doubts",
            "load",
            "refuse_other_traits",
            "traits",
            "weight_files",
        ],
        "hub": ["CheckpointError"],
        "recipes": ["is_ours"],
        "panel": ["Panel", "PanelError", "load_panel"],
    },
)
