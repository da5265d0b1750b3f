"""Print hashes of what a recipe's first steps make of the weights, and of a head table measured on them.

    python tests/bits.py MODEL STEPS BATCH_TOKENS

As a process of its own, pinned as training and measuring are; tests/test_numerics.py compares what it prints under
other settings and, by QEMU, on other processors.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lib import numerics

numerics.pin()

from lib import measure, provenance  # noqa: E402 - numpy and torch are imported when they are pinned
from lib.panels.panel import Revision  # noqa: E402
from lib.panels.recipes import RECIPES  # noqa: E402
from lib.panels.training import train  # noqa: E402


def main(name, steps, batch_tokens):
    recipe = replace(RECIPES[name], batch_tokens=batch_tokens, contexts={0: 128})
    ends = [Revision(name="start", tokens=0), Revision(name="end", tokens=steps * batch_tokens)]
    print(name, numerics.told())
    train(recipe, ends, lambda model, revision: show(model, recipe) if revision.tokens else None)


def show(model, recipe):
    """The hashes of a trained model."""
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    batch = measure.induction_batch(n_sequences=2, seq_len=64, vocab_low=0, vocab_high=recipe.vocab_size, seed=42)
    model.eval().set_attn_implementation("eager")
    table = measure.measure_heads(model, batch)
    print("weights", provenance.digest(weights))
    print("heads", provenance.digest(table.to_numpy(float).tobytes()))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
