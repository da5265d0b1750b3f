"""What sets of heads are worth: the model's capability on the batch with their output set to zero.

Plain transformers, not hooks of TransformerLens: the bridge recomputes the layers below the
first ablated head for every set, and its attention is the slow kind.  Here all sets go through
the layers together.  A *stream* is the residual stream of some sequences under one ablation;
it splits at the layer in which sets begin to differ, so that what sets share is computed once.
"""

import numpy as np
import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from lib.measure.attention import attending_with, for_each_head
from lib.measure.batch import InductionBatch
from lib.measure.model import CausalLM, Head, Heads, Part, Split

STREAM_TOKENS = 8_192  # tokens held at any moment over all streams, or one sequence of each: fits caches
MEASURES = ("top1", "top5", "loss", "target_logit")


def capability(model: CausalLM, batch: InductionBatch, ablate: Heads = ()) -> dict[str, float]:
    """How well a model predicts B after the last A, with some heads zeroed.

    model: a transformers causal LM in memory (GPTNeoX, Olmo or Olmoe, see lib.panels.checkpoints),
    wrapped by TransformerLens or not.  ablate: pairs (layer, head) whose slice of z is
    set to zero at all positions.

    Returns a dict of means over sequences: top1, top5 (shares, 0..1), loss (nats)
    and target_logit.  Raises ValueError for a head that the model does not have.
    """
    return capabilities(model, batch, [ablate])[0]


def capabilities(model: CausalLM, batch: InductionBatch, sets: list[Heads]) -> list[dict[str, float]]:
    """capability for many sets of heads at once: a list of its dicts, one a set, in the order given.

    Equal sets are computed once, and so are the layers below the first in which sets
    differ.  Memory: residual stream and z of STREAM_TOKENS tokens, however many
    sequences there are.  Raises ValueError for a head that the model does not have.
    """
    n_layers, n_heads = model.config.num_hidden_layers, model.config.num_attention_heads
    sets = [frozenset((int(layer), int(head)) for layer, head in heads) for heads in sets]
    for layer, head in sorted(frozenset().union(*sets)):
        if not (0 <= layer < n_layers and 0 <= head < n_heads):
            raise ValueError(f"no head L{layer}H{head}: the model has {n_layers} layers of {n_heads} heads")
    if not sets:
        return []
    splits, streams = split_by_layer(sets, n_layers)
    n, seq_len = batch.tokens.shape
    step = max(1, STREAM_TOKENS // (len(streams) * seq_len))
    sums = np.zeros((len(streams), len(MEASURES)))
    with torch.no_grad(), attending_with(model, _attend):
        for tokens, targets in zip(batch.tokens.split(step), batch.targets.split(step)):
            logits = _last_logits(model, tokens.to(model.device), splits)  # [stream, batch, vocab]
            sums += _measure(logits.double(), targets.to(model.device)).numpy(force=True)
    means = [dict(zip(MEASURES, row)) for row in (sums / n).tolist()]
    return [dict(means[streams.index(heads)]) for heads in sets]  # type: ignore[arg-type]  # frozensets by now


def split_by_layer(sets: list[Heads], n_layers: int) -> tuple[list[Split], list[frozenset[Head]]]:
    """How one stream becomes one stream a distinct set, layer by layer.

    sets: frozensets of (layer, head).  Returns, for every layer, (parents, ablated):
    of each stream that leaves the layer, the index of the stream that enters it and the
    heads zeroed there; and the sets in the order of the streams that leave the last layer.
    """
    streams, splits = [frozenset()], []
    for layer in range(n_layers):
        after = list(dict.fromkeys(frozenset(h for h in heads if h[0] <= layer) for heads in sets))
        parents = [streams.index(frozenset(h for h in heads if h[0] < layer)) for heads in after]
        splits.append((parents, [sorted(head for at, head in heads if at == layer) for heads in after]))
        streams = after
    return splits, streams


def _last_logits(model: CausalLM, tokens: torch.Tensor, splits: list[Split]) -> torch.Tensor:
    """Logits at the last position for every stream that splits describe: [stream, batch, vocab].

    The body of the models' own forward, which is the same in all three architectures
    but for names and for GPT-NeoX computing attention and MLP from the same residual.
    """
    n_heads, base = model.config.num_attention_heads, _plain(model.base_model)
    residual = _plain(model.get_input_embeddings())(tokens)  # [stream * batch, pos, d_model], of one stream yet
    positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
    rotary = _plain(base.rotary_emb)(residual, positions)
    for layer, (block, (parents, ablated)) in enumerate(zip(map(_plain, base.layers), splits)):
        neox = hasattr(block, "attention")
        attention = _plain(block.attention if neox else block.self_attn)
        parallel = neox and block.use_parallel_residual
        # Nothing after the last layer's attention mixes positions (see _attend).
        kept = slice(-1, None) if layer == len(splits) - 1 else slice(None)

        def split(x: torch.Tensor) -> torch.Tensor:
            """[parent * batch, ...] -> [stream * batch, ...]."""
            by_parent = x.view(-1, len(tokens), *x.shape[1:])
            return x if parents == list(range(len(by_parent))) else by_parent[parents].flatten(0, 1)

        def split_z(_: torch.nn.Module, inputs: tuple[torch.Tensor]) -> torch.Tensor:
            z = split(inputs[0][:, kept])  # [stream * batch, pos, head * d_head]
            zeroed = torch.zeros(len(parents), 1, 1, n_heads, 1, dtype=torch.bool, device=z.device)
            for stream, heads in enumerate(ablated):
                zeroed[stream, :, :, heads] = True
            by_head = z.view(len(parents), len(tokens), z.shape[1], n_heads, -1)
            return by_head.masked_fill(zeroed, 0).view(z.shape) if any(ablated) else z

        project = attention.dense if neox else attention.o_proj
        with project.register_forward_pre_hook(split_z):
            normed = _plain(block.input_layernorm)(residual)
            written, _ = attention(normed, attention_mask=None, position_embeddings=rotary)
        norm, mlp = _plain(block.post_attention_layernorm), _plain(block.mlp)
        residual = residual[:, kept]
        if parallel:  # what the MLP writes does not depend on this layer's heads: once a parent
            residual = split(residual + mlp(norm(residual))) + written
        else:
            residual = split(residual) + written
            residual = residual + mlp(norm(residual))
    norm = _plain(base.final_layer_norm if hasattr(base, "final_layer_norm") else base.norm)
    logits = _plain(model.get_output_embeddings())(norm(residual[:, -1]))
    return logits.view(-1, len(tokens), logits.shape[-1])


def _measure(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """logits [stream, batch, vocab], targets [batch] -> sums over the batch of MEASURES, [stream, 4]."""
    best = logits.topk(5, dim=-1).indices == targets[:, None]
    targets = targets.expand(logits.shape[:2])
    loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    target_logit = logits.gather(-1, targets[..., None])[..., 0]
    return torch.stack([best[..., 0], best.any(dim=-1), loss, target_logit], dim=-1).sum(dim=1)


def _plain(module: Part) -> Part:
    """A module as transformers made it, also where TransformerLens has wrapped it in place."""
    return getattr(module, "original_component", module)


def _attend(
    module: Part, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: None,
    scaling: float, dropout: float = 0.0, **_: object,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Fused causal attention; in the last layer for the last query only, since nothing after it mixes positions.

    The fused kernel agrees with eager attention far below 1e-5.
    """
    last = module.layer_idx == module.config.num_hidden_layers - 1
    key, value = for_each_head(key, query), for_each_head(value, query)
    asked = query[:, :, -1:] if last else query
    z = scaled_dot_product_attention(asked, key, value, is_causal=not last, scale=scaling).transpose(1, 2)
    # The module expects as many positions as it gave; only the last one is read.
    return z.expand(-1, query.shape[2], -1, -1), None


def matched_random(circuit: Heads, n_layers: int, n_heads: int, draws: int, seed: int = 123) -> list[list[Head]]:
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

    def one() -> list[Head]:
        taken = []
        for layer in range(n_layers):
            here = [h for h in others if h[0] == layer]
            wanted = sum(h[0] == layer for h in circuit)
            taken += [here[i] for i in rng.choice(len(here), min(wanted, len(here)), replace=False)]
        rest = [h for h in others if h not in taken]
        taken += [rest[i] for i in rng.choice(len(rest), len(circuit) - len(taken), replace=False)]
        return sorted(taken)

    return [one() for _ in range(draws)]
