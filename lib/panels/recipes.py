"""The mini models: the architectures of the paper's three models at a size that trains on a laptop.

Each keeps its big sister's traits and transformers' own code; what is scaled down is the size.  The corpora are synthetic
(lib.panels.corpus): a heterogeneous mixture of domains where the paper has the Pile, one filtered distribution where it
has DCLM.
"""

from lib.panels.corpus import Corpus, Domain
from lib.panels.training import Recipe

# In both corpora most copies come from far enough away not to overlap themselves: near
# ones make any recent word a good guess, and models without biases stay with that.
FAR = {"near_share": 0.0, "least_distance": 12}

PILE_LIKE = Corpus(
    "pile-like",
    {
        # Uniform words, short copies, a title that comes again: half of the mixture.
        "prose": Domain(share=0.5, copy_start=0.15, span=(4, 20), title=0.12, **FAR),
        # Half of the vocabulary, long and frequent copies.
        "code": Domain(share=0.2, vocabulary=(0.0, 0.5), copy_start=0.2, title=0.06, **FAR),
        # Zipfian words, few copies.
        "web": Domain(share=0.2, zipf=1.0, copy_start=0.06, title=0.12),
        # Every other word is the fixed successor of the one before it.
        "dialogue": Domain(share=0.1, bigram=0.5),
    },
)

DCLM_LIKE = Corpus("dclm-like", {"filtered": Domain(copy_start=0.2, title=0.06, **FAR)})

M = 1_000_000

RECIPES = {
    # LayerNorm with biases, parallel residual, partial rotary: half of a head of 16
    # rather than a quarter, which would leave 4 rotary dimensions.
    "pythia-mini": Recipe(
        "gpt_neox",
        {
            "intermediate_size": 256,
            "use_parallel_residual": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
        },
        PILE_LIKE,
        contexts={0: 16, 0.8 * M: 64, 2.5 * M: 128},
        learning_rate=4e-3,
        beta2=0.98,
    ),
    # LayerNorm without weights, clip_qkv, SwiGLU, no biases.  A slow rotation leaves
    # more of a head's 16 dimensions to what stands at a position than 1e4 would.
    "olmo-mini": Recipe(
        "olmo",
        {
            "intermediate_size": 160,
            "clip_qkv": 8.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
        },
        DCLM_LIKE,
        contexts={0: 32, 1 * M: 64, 2.5 * M: 128},
        learning_rate=5e-3,
        beta2=0.98,
        weight_decay=0.0,
    ),
    # RMSNorm, also on q and k; 8 experts, 2 a token, gates not renormalised.  Dropout of
    # attention, in training only and not a trait of the big sister, gives several heads
    # a reason to learn induction; a recipe without it ended with two.
    "olmoe-mini": Recipe(
        "olmoe",
        {
            "intermediate_size": 64,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "norm_topk_prob": False,
            "output_router_logits": True,
            "router_aux_loss_coef": 0.01,
            "attention_dropout": 0.1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
        },
        DCLM_LIKE,
        contexts={0: 32, 1 * M: 64, 2.5 * M: 128},
        learning_rate=5e-3,
        beta2=0.98,
        weight_decay=0.0,
    ),
}


def is_ours(name, spec):
    """Whether a model of a panel (lib.panels.panel.Model) is trained here, in float32, by the recipe of its name."""
    return bool(spec.path) and name in RECIPES and spec.dtype == "float32"
