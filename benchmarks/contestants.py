"""Ways of taking the measurements of one checkpoint, and the forward pass they all contain.

Each takes (model, batch), runs micro-batches of the same size, and returns what it
found, so that the contestants can be held against one another:
attention_<class> and pr [layer * head], top1.
"""

import numpy as np
import torch

from lib.measure import capture, metrics
from lib.measure.attention import MICRO_BATCH_TOKENS, as_bridge


def parts(batch):
    """Tokens, targets and first_a in micro-batches as the capture's."""
    step = max(1, MICRO_BATCH_TOKENS["cpu"] // batch.tokens.shape[1])
    return zip(*(x.split(step) for x in (batch.tokens, batch.targets, batch.first_a)))


def ours(model, batch):
    """Everything in the head table: both baselines, sink mass, PR, 200 bootstrap replicates; no accuracy."""
    table = capture.screen(model, batch)[0]
    return {name: table[name].to_numpy() for name in (*_attention_columns(), "pr")}


def forward_only(model, batch):
    """The bare forward pass with fused attention, logits at all positions, nothing captured."""
    model.config._attn_implementation = "sdpa"
    correct = []
    with torch.inference_mode():
        for tokens, targets, _ in parts(batch):
            correct += (model(tokens).logits[:, -1].argmax(dim=-1) == targets).tolist()
    return {"top1": np.mean(correct)}


def three_passes(model, batch):
    """The paper's protocol, plainly: z by forward hooks, attention with output_attentions, accuracy."""
    n_heads = model.config.num_attention_heads
    z = {}

    def keep(layer):
        return lambda _, inputs: z.setdefault(layer, []).append(inputs[0][:, -1].unflatten(-1, (n_heads, -1)))

    hooks = [p.register_forward_pre_hook(keep(layer)) for layer, p in enumerate(_projections(model))]
    forward_only(model, batch)
    for hook in hooks:
        hook.remove()
    pr = _participation_ratios([torch.cat(z[layer]) for layer in sorted(z)])

    model.config._attn_implementation = "eager"
    rows = []
    with torch.inference_mode():
        for tokens, _, first_a in parts(batch):
            attentions = model(tokens, output_attentions=True).attentions
            rows.append(_class_attention(attentions, first_a))
    return _mean(rows) | {"pr": pr} | forward_only(model, batch)


def cache_everything(model, batch):
    """TransformerLens' run_with_cache without a filter: one pass that keeps every activation."""
    names = "hook_pattern", "hook_z"

    def run(bridge, tokens):
        logits, cache = bridge.run_with_cache(tokens)
        layers = range(bridge.cfg.n_layers)
        return logits, [[cache[f"blocks.{layer}.attn.{name}"] for layer in layers] for name in names]

    return _through_bridge(model, batch, run)


def hooks_only(model, batch):
    """TransformerLens with hooks on pattern and z alone, reduced on the way: this project's capture until it left hooks."""

    def run(bridge, tokens):
        seen = {"hook_pattern": [], "hook_z": []}

        def last_row(x, hook):
            seen["hook_pattern"].append(x[:, :, -1:].clone())

        def last_position(x, hook):
            seen["hook_z"].append(x[:, -1:].clone())

        hooks = [
            (f"blocks.{layer}.attn.{name}", see)
            for layer in range(bridge.cfg.n_layers)
            for name, see in (("hook_pattern", last_row), ("hook_z", last_position))
        ]
        return bridge.run_with_hooks(tokens, fwd_hooks=hooks), list(seen.values())

    return _through_bridge(model, batch, run)


CONTESTANTS = {
    "(a) ours": ours,
    "(b) three passes": three_passes,
    "(c) run_with_cache": cache_everything,
    "(c') hooks on pattern and z": hooks_only,
    "(d) forward only": forward_only,
}


def _attention_columns():
    return [f"attention_{c}" for c in metrics.CLASSES]


def _through_bridge(model, batch, run):
    """A contestant that looks at patterns and z of TransformerLens: run(bridge, tokens) -> logits, [patterns, zs]."""
    bridge, rows, z, correct = as_bridge(model), [], [], []
    with torch.inference_mode():
        for tokens, targets, first_a in parts(batch):
            logits, (patterns, zs) = run(bridge, tokens)
            rows.append(_class_attention(patterns, first_a))
            z.append([layer[:, -1].clone() for layer in zs])
            correct += (logits[:, -1].argmax(dim=-1) == targets).tolist()
    pr = _participation_ratios([torch.cat(of_layer) for of_layer in zip(*z)])
    return _mean(rows) | {"pr": pr, "top1": np.mean(correct)}


def _class_attention(patterns, first_a):
    """patterns: of every layer [batch, head, query, key] -> {attention_<class>: [batch, layer * head]}."""
    last = torch.cat([pattern[:, :, -1] for pattern in patterns], dim=1).double().numpy()
    where = metrics.class_positions(last.shape[-1], first_a.numpy())
    taken = {name: np.take_along_axis(last, at[:, None, :], axis=-1).mean(axis=-1) for name, at in where.items()}
    return {f"attention_{name}": values for name, values in taken.items()}


def _mean(parts):
    """Mean over the sequences of all micro-batches: [{name: [batch, ...]}] -> {name: [...]}."""
    return {name: np.concatenate([part[name] for part in parts]).mean(axis=0) for name in parts[0]}


def _participation_ratios(z):
    """z: of every layer [n, head, d_head] -> [layer * head]."""
    heads = [layer[:, head].double().numpy() for layer in z for head in range(layer.shape[1])]
    return np.array([metrics.participation_ratio(head) for head in heads])


def _projections(model):
    """The output projection of every layer's attention: what it takes in is z."""
    for layer in model.base_model.layers:
        yield layer.attention.dense if hasattr(layer, "attention") else layer.self_attn.o_proj
