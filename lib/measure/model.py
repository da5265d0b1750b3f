"""What this room asks of a model, and the types that its modules share.

They stand here, where no number is made: the hash that tells whether a measurement is stale leaves out
annotations and imports from lib, but not other imports.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from torch import Tensor, device

Part = Any  # a module inside a model: its parts are called differently in each architecture
Head = tuple[int, ...]  # layer, head
Heads = Iterable[Head]
Split = tuple[list[int], list[list[int]]]  # parents, heads zeroed: see lib.measure.ablation.split_by_layer
Summary = dict[str, np.ndarray]  # of quantities by name, the last axis being that of the heads
AttentionFunction = Callable[..., tuple[Tensor, None]]  # see lib.measure.attention.attending_with
Reduction = Callable[[Any], tuple[Tensor, ...]]  # of one layer's lib.measure.attention.Attention
Context = Iterator[None]
Watched = Iterator[tuple[slice, list[np.ndarray]]]


class CausalLM(Protocol):
    """A causal language model: GPTNeoX, Olmo or Olmoe as transformers loads them, or wrapped by TransformerLens in place.

    config: num_hidden_layers and num_attention_heads are read, the attention function is exchanged.
    base_model: the model without its head, called with token ids.
    """

    config: Any
    base_model: Any

    @property
    def device(self) -> device: ...

    def get_input_embeddings(self) -> Part: ...

    def get_output_embeddings(self) -> Part: ...
