"""Prefix matching and sink mass: brute force, perfect heads, and where they disagree with the screen."""

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_model
from test_findings import THRESHOLDS, give, trajectory

from lib.findings import crosschecks
from lib.measure.batch import induction_batch, repeated_sequences
from lib.measure.capture import measure_heads, prefix_matching


def patterns(model, tokens):
    """transformers' own attention: [layer, batch, head, query, key]."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return torch.stack(model(tokens, output_attentions=True).attentions).double()


def test_repeated_sequences_hold_every_token_twice():
    tokens = repeated_sequences(64, 4, 60, seed=1, n_sequences=5).numpy()
    assert tokens.shape == (5, 64) and tokens.min() >= 4 and tokens.max() < 60
    assert (tokens[:, :32] == tokens[:, 32:]).all()
    assert all(len(set(row)) == 32 for row in tokens)
    with pytest.raises(ValueError, match="at least 32 tokens"):
        repeated_sequences(64, 0, 31, seed=1, n_sequences=1)


@pytest.mark.parametrize("architecture", ["gpt_neox", "olmo"])
def test_scores_are_what_the_definitions_say(architecture):
    """Prefix matching: from each token of the second half to the one after its first occurrence."""
    tokens = repeated_sequences(64, 0, 64, seed=1, n_sequences=3)
    table, _ = prefix_matching(tiny_model(architecture, 5), tokens)
    attention = patterns(tiny_model(architecture, 5), tokens)
    expected = torch.stack([attention[..., q, q - 32 + 1] for q in range(32, 64)]).mean(dim=(0, 2))
    assert table["prefix_matching"].to_numpy() == pytest.approx(expected.flatten().numpy(), abs=1e-6)

    batch = induction_batch(5, 64, 0, 64)
    sink = patterns(tiny_model(architecture, 5), batch.tokens)[..., 0].mean(dim=(1, 3))
    measured = measure_heads(tiny_model(architecture, 5), batch)["sink_mass"]
    assert measured.to_numpy() == pytest.approx(sink.flatten().numpy(), abs=1e-6)


def test_the_detection_pattern_gives_a_perfect_induction_head_the_score_one():
    from transformer_lens.head_detector import get_induction_head_detection_pattern

    tokens = repeated_sequences(64, 0, 64, seed=1, n_sequences=1)
    perfect = torch.eye(64)
    for query in range(32, 64):
        perfect[query] = torch.nn.functional.one_hot(torch.tensor(query - 31), 64)
    query, key = get_induction_head_detection_pattern(tokens).nonzero(as_tuple=True)
    assert perfect[query, key].mean() == 1 and len(query) == 32


def test_heads_past_one_threshold_only_are_named():
    heads = give(trajectory(2), [1], [(0, 0), (0, 1)], "induction")
    heads.loc[(heads["step"] == 1) & (heads["layer"] == 0) & (heads["head"] == 1), "prefix_matching"] = 0.1
    heads.loc[(heads["step"] == 1) & (heads["layer"] == 3) & (heads["head"] == 2), "prefix_matching"] = 0.9
    found = crosschecks.agreement(heads, THRESHOLDS).set_index(["check", "step"])
    assert found.loc[("induction", 1), ["both", "screen_only", "check_only"]].to_list() == [
        ["L0H0"],
        ["L0H1"],
        ["L3H2"],
    ]
    assert found.loc[("first_token", 1), "both"] == [] and np.isnan(found.loc[("first_token", 1), "spearman"])


def test_rank_agreement_sees_order_only():
    a = pd.Series([1.0, 2, 3, 4, 5])
    assert crosschecks.rank_agreement(a, np.exp(a)) == pytest.approx(1)
    assert crosschecks.rank_agreement(a, -(a**3)) == pytest.approx(-1)
    assert crosschecks.rank_agreement(a, pd.Series([2.0, 1, 4, 3, 5])) == pytest.approx(1 - 6 * 4 / (5 * 24))
