"""One forward pass a sequence through TransformerLens, reduced on the way to one row a head."""

import gc

import numpy as np
import pandas as pd
import torch
from transformer_lens.head_detector import get_induction_head_detection_pattern
from transformer_lens.model_bridge.sources import build_bridge_from_module

from lib import bootstrap, metrics

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
    """Split a batch or its tokens [n, T]: yields slices of at most MICRO_BATCH_TOKENS tokens, at least one sequence each."""
    n, seq_len = getattr(batch, "tokens", batch).shape
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
    (both "times the baseline"), sink_mass (mean attention of all queries to position
    0; Gu et al., When Attention Sink Emerges), pr and pr_centred (effective rank of z
    at the last position), pr_ceiling (PR of Gaussian noise of that size),
    induction_ceiling (induction selectivity of a perfect head under the paper's
    baseline) and n_sequences.  Columns <quantity>_low and <quantity>_high are bootstrap intervals
    over sequences (lib.bootstrap).

    Raises ValueError naming layer and head if z or a pattern is not finite.
    """
    return screen(model, batch)[0]


def screen(model, batch):
    """measure_heads with its replicates: (DataFrame, {quantity: [replicates, heads]}).

    The replicates, one column a row of the table, are of attention_<class>,
    baseline_<baseline>, sink_mass, pr and pr_centred; those of a selectivity are a
    quotient of two of them.  Of each sequence only what the statistics need is kept: a
    dozen numbers and z at the last position a head, in fp32.
    """
    bridge = as_bridge(model)
    n, seq_len = batch.tokens.shape
    n_layers, n_heads = bridge.cfg.n_layers, bridge.cfg.n_heads
    first_a = batch.first_a.numpy()
    positions = metrics.class_positions(seq_len, first_a)
    paper_positions = metrics.paper_baseline_positions(seq_len)
    clean = metrics.clean_baseline_mask(seq_len, first_a)

    per_sequence = {}  # {quantity: [n, layer * head]}, z: [n, layer * head, d_head]

    def keep(name, part, layer, values):  # values: [batch, head] or, for z, [batch, head, d_head]
        if name not in per_sequence:
            dtype = np.float32 if name == "z" else np.float64
            per_sequence[name] = np.empty((n, n_layers * n_heads, *values.shape[2:]), dtype)
        per_sequence[name][part, layer * n_heads : (layer + 1) * n_heads] = values

    for part in micro_batches(batch):
        weights = clean[part] / clean[part].sum(axis=1, keepdims=True)

        def reduce_pattern(pattern, hook, part=part, weights=weights):  # [batch, head, query, key]
            layer = hook.layer()
            keep("sink_mass", part, layer, pattern[..., 0].double().mean(dim=-1).numpy(force=True))
            last = pattern[:, :, -1, :].double().numpy(force=True)
            _require_finite("attention", layer, last)
            for name, where in positions.items():
                taken = np.take_along_axis(last, where[part][:, None, :], axis=-1)
                keep(f"attention_{name}", part, layer, taken.mean(axis=-1))
            keep("baseline_paper", part, layer, last[..., paper_positions].mean(axis=-1))
            keep("baseline_clean", part, layer, np.einsum("bhk,bk->bh", last, weights))

        def keep_last_z(z, hook, part=part):  # [batch, pos, head, d_head]
            last = z[:, -1].float().numpy(force=True)
            _require_finite("z", hook.layer(), last)
            keep("z", part, hook.layer(), last)

        _run(bridge, batch.tokens[part], n_layers, {"hook_pattern": reduce_pattern, "hook_z": keep_last_z})

    z = per_sequence.pop("z")
    estimates = {name: values.mean(axis=0) for name, values in per_sequence.items()}
    replicates = {name: bootstrap.means(values) for name, values in per_sequence.items()}
    for name, centred in (("pr", False), ("pr_centred", True)):
        of_heads = range(z.shape[1])
        estimates[name] = np.array([metrics.participation_ratio(z[:, i], centred) for i in of_heads])
        replicates[name] = np.stack([bootstrap.participation_ratios(z[:, i], centred) for i in of_heads], axis=1)
    constants = {
        "pr_ceiling": metrics.gaussian_ceiling(n, z.shape[-1]),
        "induction_ceiling": metrics.paper_baseline_ceiling(seq_len, first_a),
        "n_sequences": n,
    }
    return _table(estimates, replicates, n_layers, n_heads, constants), replicates


def _run(bridge, tokens, n_layers, hooks):
    """One forward pass with the same hooks at every layer, {"hook_z": function}."""
    at_layers = [(f"blocks.{layer}.attn.{name}", hook) for layer in range(n_layers) for name, hook in hooks.items()]
    with torch.no_grad():
        bridge.run_with_hooks(tokens.to(bridge.cfg.device), fwd_hooks=at_layers, return_type=None)


def _table(estimates, replicates, n_layers, n_heads, constants):
    """The head table: estimates, what is the same for all heads, and the intervals."""
    estimates, replicates = dict(estimates), dict(replicates)
    for b in metrics.BASELINES:
        for c in metrics.CLASSES:
            name = f"selectivity_{c}" if b == "paper" else f"selectivity_clean_{c}"
            of = f"attention_{c}", f"baseline_{b}"
            estimates[name] = metrics.selectivity(*(estimates[k] for k in of))
            replicates[name] = metrics.selectivity(*(replicates[k] for k in of))
    layer, head = np.indices((n_layers, n_heads)).reshape(2, -1)
    columns = {"layer": layer, "head": head}
    columns |= {f"attention_{c}": estimates[f"attention_{c}"] for c in metrics.CLASSES}
    columns |= {f"baseline_{b}": estimates[f"baseline_{b}"] for b in metrics.BASELINES}
    columns |= {name: values for name, values in estimates.items() if name.startswith("selectivity_")}
    columns |= {name: estimates[name] for name in ("sink_mass", "pr", "pr_centred")}
    columns |= {name: np.full(len(layer), value) for name, value in constants.items()}
    for name in [c for c in columns if c in replicates]:
        columns[f"{name}_low"], columns[f"{name}_high"] = bootstrap.interval(replicates[name])
    return pd.DataFrame(columns)


def prefix_matching(model, tokens):
    """How strongly each head attends to what followed the current token last time, on repeated sequences.

    model: as for measure_heads.  tokens: [n, T] from lib.batch.repeated_sequences.

    The score (Olsson et al., In-context Learning and Induction Heads) is the mean
    attention, 0..1, from each token of the second half to the token after its first
    occurrence.  Those pairs of positions are TransformerLens' own detection pattern.

    Returns (DataFrame with layer, head, prefix_matching and its interval,
    {"prefix_matching": [replicates, heads]}).
    """
    bridge = as_bridge(model)
    n, seq_len = tokens.shape
    n_layers, n_heads = bridge.cfg.n_layers, bridge.cfg.n_heads
    # No token comes twice in a half, so that the pattern is the same for all sequences.
    query, key = get_induction_head_detection_pattern(tokens[:1]).nonzero(as_tuple=True)
    scores = np.empty((n, n_layers * n_heads))
    for part in micro_batches(tokens):

        def reduce_pattern(pattern, hook, part=part):  # [batch, head, query, key]
            at = slice(hook.layer() * n_heads, (hook.layer() + 1) * n_heads)
            scores[part, at] = pattern[:, :, query, key].double().mean(dim=-1).numpy(force=True)

        _run(bridge, tokens[part], n_layers, {"hook_pattern": reduce_pattern})
    replicates = bootstrap.means(scores)
    low, high = bootstrap.interval(replicates)
    layer, head = np.indices((n_layers, n_heads)).reshape(2, -1)
    table = pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "prefix_matching": scores.mean(axis=0),
            "prefix_matching_low": low,
            "prefix_matching_high": high,
        }
    )
    return table, {"prefix_matching": replicates}


def _require_finite(what, layer, values):
    """values: [batch, head, ...]; raises ValueError naming the first head that is not finite."""
    finite = np.isfinite(values).all(axis=(0, 2))
    if not finite.all():
        raise ValueError(
            f"{what} of layer {layer} head {finite.argmin()} holds NaN or infinity: the weights or the dtype are at fault"
        )
