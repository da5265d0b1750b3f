"""Models with random weights in the shapes of the paper's, and the batches that are put through them."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lib.measure.batch import induction_batch
from lib.panels import checkpoints as models
from lib.panels.panel import load_panel

WIDTH = {"vocab_size": 50304, "hidden_size": 2048, "tie_word_embeddings": False, "use_cache": False}
DENSE = WIDTH | {"num_hidden_layers": 16, "intermediate_size": 8192}
SHAPES = {
    "Pythia 1B": ("gpt_neox", DENSE | {"num_attention_heads": 8, "rotary_pct": 0.25, "use_parallel_residual": True}),
    "OLMo 1B": ("olmo", DENSE | {"num_attention_heads": 16, "clip_qkv": 8.0}),
    # The real one has 64 experts and 16 layers: 28 GB in fp32.
    "OLMoE, 16 experts, 4 layers": (
        "olmoe",
        WIDTH
        | {"num_attention_heads": 16, "intermediate_size": 1024, "num_experts": 16, "num_experts_per_tok": 8}
        | {"num_hidden_layers": 4, "norm_topk_prob": False},
    ),
}
N_SEQUENCES = 16  # of 256 tokens, for the large shapes


def random_model(architecture, settings, seed=0):
    """An untrained transformers causal LM in fp32, in evaluation mode."""
    torch.manual_seed(seed)
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = AutoConfig.for_model(architecture, **(special | settings))
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def subject(name):
    """(model, batch) by name: a shape of SHAPES with N_SEQUENCES, or a mini model at its last revision with its panel's batch."""
    if name in SHAPES:
        return random_model(*SHAPES[name]), induction_batch(N_SEQUENCES)
    panel = load_panel("mini")
    spec = panel.model(name)
    return models.load(spec, spec.revisions[-1].name), induction_batch(**panel.batch.model_dump())
