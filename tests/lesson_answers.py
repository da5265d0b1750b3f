"""What the tests of the lessons' checkers share: what answers are judged by, and how they are read."""

import functools

import numpy as np
import pandas as pd
import torch
from conftest import tiny_model

from lib.measure import ablation, as_bridge, capture, induction_batch
from lib.panels.panel import Thresholds

THRESHOLDS = Thresholds()


@functools.cache
def batch():
    """40 sequences of 64 tokens."""
    return induction_batch(40, 64, 4, 64)


@functools.cache
def measured():
    """A tiny model, its bridge, its batch, the last query's attention [layer, sequence, head, key], and its head table."""
    model = tiny_model("olmo", 1)
    some = batch()
    whole = ablation.capability(model, some)
    table = capture.measure_heads(model, some)
    bridge = as_bridge(model)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(some.tokens, names_filter=lambda name: name.endswith("hook_pattern"))
    attention = np.stack([cache[f"blocks.{layer}.attn.hook_pattern"][:, :, -1].numpy() for layer in range(3)])
    return {"model": model, "bridge": bridge, "batch": some, "attention": attention, "table": table, "whole": whole}


@functools.cache
def planted():
    """Attention [3, n, 4, T] with one head of each kind: induction L2H1, weaker L2H3, duplicate L0H2, previous L1H0."""
    rng, some = np.random.default_rng(0), batch()
    attention = rng.dirichlet(np.ones(64), size=(3, len(some.tokens), 4))
    n, first_a = np.arange(len(some.tokens)), some.first_a.numpy()
    for (layer, head), positions, mass in [
        ((2, 1), first_a + 1, 0.8), ((2, 3), first_a + 1, 0.6), ((0, 2), first_a, 0.7), ((1, 0), np.full(len(n), 62), 0.9),
    ]:  # fmt: skip
        attention[layer, :, head] *= 1 - mass
        attention[layer, n, head, positions] += mass
    return attention


@functools.cache
def frame():
    """A trajectory of three heads: one enters the circuit early and stays, one late, one comes and goes."""
    induction = {"s0": (1, 1, 1), "s1": (35, 1, 55), "s2": (60, 20, 70), "s3": (90, 51, 40)}
    rows = [
        {
            "revision": name, "step": step, "tokens": 10**step, "layer": 1, "head": head, "selectivity_induction": value,
            "selectivity_clean_induction": 0.9 * value, "selectivity_previous_token": [0, 40, 0, 120][step] * (head == 1),
            "selectivity_first_token": 31 * (step == 2 and head == 0), "attention_induction": 0.5,
        }
        for step, (name, values) in enumerate(induction.items()) for head, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def right(checked):
    assert checked.right and str(checked).startswith("✓ Right."), checked
    return checked.text


def hinted(checked, words):
    assert not checked.right and words in checked.text, checked
