"""A model in TransformerLens: what people explore with, and what the measurements are checked against."""

from transformer_lens.model_bridge.sources import build_bridge_from_module


def as_bridge(model):
    """Wrap a transformers causal LM in TransformerLens, in place and once.

    The bridge keeps the raw weights (no folding) and replaces the model's
    submodules, so that a second wrapping would wrap the wrappers: the first
    bridge is remembered on the model.  It has hooks such as blocks.0.attn.hook_pattern
    [batch, head, query, key] and hook_z [batch, pos, head, d_head].
    """
    if "_bridge" not in model.__dict__:
        bridge = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
        model.__dict__["_bridge"] = bridge.eval()
    return model.__dict__["_bridge"]
