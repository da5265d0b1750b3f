"""How a mini model is trained: what a recipe holds, and the loop that follows it.

Training runs on one core, so that the order of floating-point sums, and with it every bit of the weights, is fixed by
the seed; lib.numerics makes that order the same on other processors.
"""

import math
from dataclasses import dataclass, field

from lib import numerics
from lib.panels.corpus import Corpus

VOCAB_SIZE = 128
REPORT_EVERY = 10  # optimiser steps between two reports of progress

# The three sisters share untied embeddings; there is no BOS, EOS or padding token.
COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "use_cache": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


@dataclass(frozen=True)
class Recipe:
    """How one mini model is made.

    architecture: transformers' model type.  config: what differs from its defaults.
    corpus, vocab_size, seed.  batch_tokens: tokens an optimiser step.  contexts:
    {tokens seen: context length from there on}.  learning_rate (peak), warm_up_steps,
    beta2 and weight_decay (matrices only) of AdamW.
    """

    architecture: str
    config: dict
    corpus: Corpus
    vocab_size: int = VOCAB_SIZE
    seed: int = 0
    batch_tokens: int = 4096
    contexts: dict[float, int] = field(default_factory=lambda: {0: 128})
    learning_rate: float = 3e-3
    warm_up_steps: int = 50
    beta2: float = 0.95
    weight_decay: float = 0.1

    def build(self):
        """The untrained model, random from torch's current seed."""
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(self.architecture, vocab_size=self.vocab_size, **COMMON, **self.config)
        return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()

    def auxiliary_loss(self, model, output):
        """The router's load-balancing loss of a mixture of experts, as transformers weighs it; else 0."""
        if self.architecture != "olmoe":
            return 0.0
        from transformers.models.olmoe.modeling_olmoe import load_balancing_loss_func

        config = model.config
        return config.router_aux_loss_coef * load_balancing_loss_func(
            output.router_logits, config.num_experts, config.num_experts_per_tok
        )


def learning_rate(recipe, step, total_steps):
    """Linear warm-up over the recipe's first steps, times a linear decay to a tenth at the last."""
    return recipe.learning_rate * min(1.0, (step + 1) / recipe.warm_up_steps) * (1.0 - 0.9 * step / total_steps)


def context_at(recipe, tokens):
    """Context length, in tokens, at this point of training: contexts may grow."""
    return max((start, length) for start, length in recipe.contexts.items() if start <= tokens)[1]


def train(recipe, revisions, save, report=lambda **_: None):
    """Train one model from scratch.

    recipe: Recipe.  revisions: lib.panels.panel.Revision in order, the first with
    0 tokens; training stops after the last.  save(model, revision) is called at
    each, report(tokens=..., loss=...) every few steps; loss is nats a token.

    Raises ValueError if a revision does not fall on a whole number of steps.
    """
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = (
        False  # it costs a twentieth, and nothing here reads such memory
    )
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    for revision in revisions:
        if revision.tokens % recipe.batch_tokens:
            raise ValueError(
                f"{revision.name}: {revision.tokens} tokens are no whole number of steps of {recipe.batch_tokens}"
            )
    model = recipe.build()
    numerics.fuse_attention(model.config.hidden_size // model.config.num_attention_heads, max(recipe.contexts.values()))
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, recipe.beta2),
        fused=True,
    )
    total_steps, tokens, step = revisions[-1].tokens // recipe.batch_tokens, 0, 0
    pending = list(revisions)
    while True:
        if pending[0].tokens == tokens:
            save(model, pending.pop(0))
            if not pending:
                return
        length = context_at(recipe, tokens)
        ids, _ = recipe.corpus.sample(rng, recipe.batch_tokens // length, length, recipe.vocab_size)
        ids = torch.from_numpy(ids)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(recipe, step, total_steps)
        output = model(ids)
        loss = cross_entropy(output.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        auxiliary = recipe.auxiliary_loss(model, output)
        optimiser.zero_grad()
        (loss + auxiliary).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        tokens, step = tokens + recipe.batch_tokens, step + 1
        if not math.isfinite(loss.item()):
            raise RuntimeError(f"the loss is {loss.item()} after {tokens} tokens: the learning rate is too high")
        if step % REPORT_EVERY == 0:
            report(tokens=tokens, loss=loss.item())
