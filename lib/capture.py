"""One forward pass a sequence through TransformerLens, reduced on the way to one row a head."""

import gc

import numpy as np
import pandas as pd
import torch
from transformer_lens.model_bridge.sources import build_bridge_from_module

from lib import metrics

MICRO_BATCH_TOKENS = 2_048  # tokens a forward pass: bounds the attention held at any moment, and fits caches


def as_bridge(model):
    """Wrap a transformers causal LM in TransformerLens, in place and once.

    The bridge keeps the raw weights (no folding) and replaces the model's
    submodules, so that a second wrapping would wrap the wrappers: the first
    bridge is remembered on the model.
    """
    if "_bridge" not in model.__dict__:
        bridge = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
        model.__dict__["_bridge"] = bridge.eval()
    return model.__dict__["_bridge"]


def release(model):
    """Forget the bridge of a model; bridges hold cycles that only the collector frees."""
    model.__dict__.pop("_bridge", None)
    gc.collect()


def micro_batches(batch):
    """Split a batch: yields slices of at most MICRO_BATCH_TOKENS tokens, at least one sequence each."""
    n, seq_len = batch.tokens.shape
    step = max(1, MICRO_BATCH_TOKENS // seq_len)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def measure_heads(model, batch):
    """Measure every head of a model on an induction batch.

    model: a transformers causal LM in memory (GPTNeoX, Olmo or Olmoe), wrapped in
    place.  batch: lib.batch.InductionBatch.

    Returns a DataFrame, one row a head: layer, head, attention_<class> (mean
    attention mass of the last query, 0..1), baseline_paper, baseline_clean (mean
    mass a position), selectivity_<class> (paper baseline), selectivity_clean_<class>
    (both "times the baseline"), pr and pr_centred (effective rank of z at the last
    position), pr_ceiling (PR of Gaussian noise of that size) and n_sequences.

    Memory does not grow with the number of sequences: of each micro-batch only
    sums are kept.  Raises ValueError naming layer and head if z or a pattern is
    not finite.
    """
    bridge = as_bridge(model)
    n, seq_len = batch.tokens.shape
    n_layers, n_heads = bridge.cfg.n_layers, bridge.cfg.n_heads
    first_a = batch.first_a.numpy()
    positions = metrics.class_positions(seq_len, first_a)
    paper_positions = metrics.paper_baseline_positions(seq_len)
    clean = metrics.clean_baseline_mask(seq_len, first_a)

    attention = {c: np.zeros((n_layers, n_heads)) for c in metrics.CLASSES}
    baseline = {b: np.zeros((n_layers, n_heads)) for b in metrics.BASELINES}
    gram = total = None
    rows = {}

    def keep_last_pattern_row(pattern, hook):  # [batch, head, query, key]
        rows["pattern", hook.layer()] = pattern[:, :, -1, :].double().numpy(force=True)

    def keep_last_z(z, hook):  # [batch, pos, head, d_head]
        rows["z", hook.layer()] = z[:, -1].double().numpy(force=True)

    hooks = []
    for layer in range(n_layers):
        hooks.append((f"blocks.{layer}.attn.hook_pattern", keep_last_pattern_row))
        hooks.append((f"blocks.{layer}.attn.hook_z", keep_last_z))

    for part in micro_batches(batch):
        rows.clear()
        with torch.no_grad():
            bridge.run_with_hooks(batch.tokens[part].to(bridge.cfg.device), fwd_hooks=hooks, return_type=None)
        pattern = np.stack([rows["pattern", layer] for layer in range(n_layers)])  # [layer, batch, head, key]
        z = np.stack([rows["z", layer] for layer in range(n_layers)])  # [layer, batch, head, d_head]
        _require_finite(pattern, z)
        for name, where in positions.items():
            taken = np.take_along_axis(pattern, where[part][None, :, None, :], axis=-1)
            attention[name] += taken.mean(axis=-1).sum(axis=1)
        baseline["paper"] += pattern[..., paper_positions].mean(axis=-1).sum(axis=1)
        weights = clean[part] / clean[part].sum(axis=1, keepdims=True)
        baseline["clean"] += np.einsum("lbhk,bk->lh", pattern, weights)
        if gram is None:
            gram = np.zeros((n_layers, n_heads, z.shape[-1], z.shape[-1]))
            total = np.zeros((n_layers, n_heads, z.shape[-1]))
        by_head = z.transpose(0, 2, 1, 3)  # [layer, head, batch, d_head]
        gram += by_head.swapaxes(-1, -2) @ by_head
        total += by_head.sum(axis=2)

    layer, head = np.indices((n_layers, n_heads))
    columns = {"layer": layer, "head": head}
    columns |= {f"attention_{c}": attention[c] / n for c in metrics.CLASSES}
    columns |= {f"baseline_{b}": baseline[b] / n for b in metrics.BASELINES}
    for b in metrics.BASELINES:
        prefix = "selectivity_" if b == "paper" else "selectivity_clean_"
        columns |= {
            f"{prefix}{c}": metrics.selectivity(columns[f"attention_{c}"], columns[f"baseline_{b}"])
            for c in metrics.CLASSES
        }
    columns["pr"] = metrics.participation_ratio_from_moments(gram, total, n)
    columns["pr_centred"] = metrics.participation_ratio_from_moments(gram, total, n, centred=True)
    columns["pr_ceiling"] = np.full((n_layers, n_heads), metrics.gaussian_ceiling(n, gram.shape[-1]))
    columns["n_sequences"] = np.full((n_layers, n_heads), n)
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()})


def _require_finite(pattern, z):
    """pattern, z: [layer, batch, head, ...]; raises ValueError naming the first head, in order of layers, that is not finite."""
    for layer in range(len(pattern)):
        for what, values in (("attention", pattern[layer]), ("z", z[layer])):
            finite = np.isfinite(values).all(axis=(0, 2))
            if not finite.all():
                raise ValueError(
                    f"{what} of layer {layer} head {finite.argmin()} holds NaN or infinity: "
                    "the weights or the dtype are at fault"
                )
