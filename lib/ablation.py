"""What a set of heads is worth: the model's capability on the batch with their output set to zero."""

from collections import defaultdict

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from lib.capture import as_bridge, micro_batches


def capability(model, batch, ablate=()):
    """How well a model predicts B after the last A, with some heads zeroed.

    model: a transformers causal LM in memory, wrapped in place.  ablate: pairs
    (layer, head) whose slice of z is set to zero at all positions.

    Returns a dict of means over sequences: top1, top5 (shares, 0..1), loss (nats)
    and target_logit.  Raises ValueError for a head that the model does not have.
    """
    bridge = as_bridge(model)
    heads_of = defaultdict(list)
    for layer, head in ablate:
        if not (0 <= layer < bridge.cfg.n_layers and 0 <= head < bridge.cfg.n_heads):
            raise ValueError(
                f"no head L{layer}H{head}: the model has {bridge.cfg.n_layers} layers of {bridge.cfg.n_heads} heads"
            )
        heads_of[layer].append(head)

    def zero(heads):
        def hook_z(z, hook):  # [batch, pos, head, d_head]
            z = z.clone()
            z[:, :, heads] = 0
            return z

        return hook_z

    hooks = [(f"blocks.{layer}.attn.hook_z", zero(heads)) for layer, heads in heads_of.items()]
    sums = defaultdict(float)
    for part in micro_batches(batch):
        targets = batch.targets[part].to(bridge.cfg.device)
        with torch.no_grad():
            logits = bridge.run_with_hooks(batch.tokens[part].to(bridge.cfg.device), fwd_hooks=hooks)[:, -1].double()
        target_logit = logits.gather(1, targets[:, None])
        best = logits.topk(5, dim=-1).indices == targets[:, None]
        sums["top1"] += best[:, 0].sum().item()
        sums["top5"] += best.any(dim=-1).sum().item()
        sums["loss"] += cross_entropy(logits, targets, reduction="sum").item()
        sums["target_logit"] += target_logit.sum().item()
    return {name: value / len(batch.targets) for name, value in sums.items()}


def matched_random(circuit, n_layers, n_heads, draws, seed=123):
    """Random sets of heads to hold a circuit against: same layers, same count a layer, no overlap.

    circuit: pairs (layer, head); the model has n_layers layers of n_heads heads.
    Where a layer has too few other heads, all of them are taken and the rest comes
    from the other layers, so that a set always has the circuit's size.  Returns
    `draws` sorted lists of pairs; empty if fewer heads are left than the circuit has.
    """
    rng = np.random.default_rng(seed)
    circuit = {tuple(h) for h in circuit}
    others = [(layer, head) for layer in range(n_layers) for head in range(n_heads) if (layer, head) not in circuit]
    if len(others) < len(circuit):
        return []

    def one():
        taken = []
        for layer in range(n_layers):
            here = [h for h in others if h[0] == layer]
            wanted = sum(h[0] == layer for h in circuit)
            taken += [here[i] for i in rng.choice(len(here), min(wanted, len(here)), replace=False)]
        rest = [h for h in others if h not in taken]
        taken += [rest[i] for i in rng.choice(len(rest), len(circuit) - len(taken), replace=False)]
        return sorted(taken)

    return [one() for _ in range(draws)]
