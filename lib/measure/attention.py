"""A model's attention, watched or changed while the model runs its own forward.

Of a pattern only one row is wanted whole, the last query's; of the others, the attention to
one key each.  Both need no pattern: attention from a query to a key is exp(q k scale - lse),
where lse, the log of the softmax's denominator, is what fused attention computes anyway.  So
a model runs with fused attention, registered with transformers' interface for attention functions, and
stops after the last layer's: nothing beyond is measured.
"""

import contextlib
import warnings

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from lib.measure.model import AttentionFunction, CausalLM, Context, Part, Reduction, Watched

# Tokens a forward pass: bounds what is held at any moment; on a CPU it fits the caches, a GPU wants more to do.
MICRO_BATCH_TOKENS = {"cpu": 2_048, "other": 16_384}


@contextlib.contextmanager
def attending_with(model: CausalLM, function: AttentionFunction) -> Context:
    """Let a model use an attention function of transformers' interface, and give it back as it was.

    function(module, query, key, value, attention_mask, scaling, dropout, **kwargs): query [batch, head,
    pos, d_head], key and value with as many heads as share them; attention_mask is None, which
    means causal.  Returns (z [batch, pos, head, d_head], None).
    """
    before, name = model.config._attn_implementation, "lib.measure.attention"
    AttentionInterface.register(name, function)
    model.config._attn_implementation = name
    try:
        yield
    finally:
        model.config._attn_implementation = before


def for_each_head(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values [batch, group, pos, d_head] repeated for the heads that share them; itself if none do."""
    groups = query.shape[1] // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)


class Attention:
    """One layer's attention for some sequences, as its parts.

    query, key: [batch, head, pos, d_head], after rotary embedding.  lse: [batch, head, pos],
    log of the softmax's denominator.  z: [batch, head, pos, d_head], the heads' output before the
    output projection.  scale: what a product of query and key is multiplied with.
    """

    def __init__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> None:
        self.query, self.key, self.scale = query, key, scale
        attend = _attend_on_cpu if query.device.type == "cpu" else _attend_elsewhere
        self.z, self.lse = attend(query, key, value, scale)

    def last_row(self) -> torch.Tensor:
        """What the last query attends to: [batch, head, key], float64; each row sums to 1."""
        products = (self.key.float() @ self.query[:, :, -1, :, None].float())[..., 0]
        return (self.scale * products.double()).softmax(dim=-1)

    def between(self, queries: np.ndarray, keys: np.ndarray) -> torch.Tensor:
        """Attention from some queries to one key each: indices [k] and [k] -> [batch, head, k], float64."""
        products = (self.query[:, :, queries].float() * self.key[:, :, keys].float()).sum(dim=-1)
        return (self.scale * products.double() - self.lse[:, :, queries].double()).exp()

    def to_first(self) -> torch.Tensor:
        """Attention from every query to position 0: [batch, head, pos], float64."""
        products = (self.query.float() @ self.key[:, :, 0, :, None].float())[..., 0]
        return (self.scale * products.double() - self.lse.double()).exp()


def _attend_on_cpu(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(z, lse) of the kernel under scaled_dot_product_attention, which keeps the denominator to itself."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, True, scale=scale)


def _attend_elsewhere(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(z, lse) where each kind of device has kernels of its own: the denominator is computed beside the kernel."""
    z = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    scores = (query.float() @ key.float().transpose(-1, -2)).mul_(scale)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
    return z, scores.masked_fill_(future, -torch.inf).logsumexp(dim=-1)


def watch(model: CausalLM, tokens: torch.Tensor, see: Reduction) -> Watched:
    """Run a model on tokens [n, T] in micro-batches and reduce each layer's Attention with see.

    see(attention): a tuple of tensors [batch, head, ...].  Yields (slice of the sequences, a list of them
    as arrays of all layers, [batch, layer * head, ...]).  A micro-batch that
    the device has no memory for is halved, with a warning.  Raises ValueError if the model's
    attention does not go through transformers' interface, as when TransformerLens has wrapped it.
    """
    n, seq_len = tokens.shape
    budget = MICRO_BATCH_TOKENS["cpu" if model.device.type == "cpu" else "other"]
    size, start = max(1, budget // seq_len), 0
    while start < n:
        part = slice(start, min(start + size, n))
        try:
            seen = _forward(model, tokens[part].to(model.device), see)
        except RuntimeError as error:
            if size == 1 or not _is_out_of_memory(error):
                raise
            size //= 2
            warnings.warn(f"out of memory on {model.device}: going on with {size} sequences at a time", stacklevel=2)
            if model.device.type == "cuda":
                torch.cuda.empty_cache()
            continue
        yield part, seen
        start = part.stop


def _is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)  # the second: MPS


class _AllSeen(Exception):
    """Ends a forward pass in which nothing more is to be measured."""


def _forward(model: CausalLM, tokens: torch.Tensor, see: Reduction) -> list[np.ndarray]:
    """One micro-batch: what see finds, of all layers."""
    n_layers, n_seen, seen = model.config.num_hidden_layers, 0, []

    def attend(
        module: Part, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: None,
        scaling: float, dropout: float = 0.0, **_: object,
    ) -> tuple[torch.Tensor, None]:  # fmt: skip
        nonlocal n_seen
        attention = Attention(query, for_each_head(key, query), for_each_head(value, query), scaling)
        found = [x.numpy(force=True) for x in see(attention)]
        if not seen:
            # All at once: small arrays that stay, made between large ones that go, leave the allocator holes that
            # the next large ones do not fit in, and the process would grow with every layer.
            seen.extend(np.empty((len(x), n_layers, *x.shape[1:]), x.dtype) for x in found)
        for whole, x in zip(seen, found):
            whole[:, n_seen] = x
        n_seen += 1
        if n_seen == n_layers:
            raise _AllSeen
        return attention.z.transpose(1, 2), None

    with torch.inference_mode(), attending_with(model, attend), contextlib.suppress(_AllSeen):
        model.base_model(tokens, use_cache=False)
    if n_seen != n_layers:
        raise ValueError(
            f"the attention of {type(model).__name__} could be watched in {n_seen} of {n_layers} layers; "
            "expected a model as transformers loads it, not wrapped by TransformerLens"
        )
    return [whole.reshape(len(whole), -1, *whole.shape[3:]) for whole in seen]


def as_bridge(model: CausalLM) -> Part:
    """Wrap a transformers causal LM in TransformerLens, in place and once.

    The bridge keeps the raw weights (no folding) and replaces the model's
    submodules, so that a second wrapping would wrap the wrappers: the first
    bridge is remembered on the model.  It has hooks such as blocks.0.attn.hook_pattern
    [batch, head, query, key] and hook_z [batch, pos, head, d_head].
    """
    if "_bridge" not in model.__dict__:
        from transformer_lens.model_bridge.sources import build_bridge_from_module  # takes seconds to import

        bridge = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)  # type: ignore[arg-type]  # a Module, too
        model.__dict__["_bridge"] = bridge.eval()
    return model.__dict__["_bridge"]
