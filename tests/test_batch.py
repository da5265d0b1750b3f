"""The induction batch is the paper's, draw for draw."""

import hashlib
import json

import numpy as np
import pytest
from conftest import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.measure.batch import induction_batch


def sha256(tensor):
    return hashlib.sha256(tensor.numpy().astype("<i8").tobytes()).hexdigest()


def test_paper_batch_has_the_published_hashes():
    batch = induction_batch()
    assert sha256(batch.tokens) == "f363cff3f47768cb6236eaa87807771ac6352847914a495791f45020ca0f90d8"
    assert sha256(batch.targets) == "df7e0d4327c48119b60b35d9b7d49e7bd7f60e2008d235add98cf3b588ce09c4"
    assert sha256(batch.tokens[:500]) == "79c2266aa4e394afe27c13be9974cd481a1401edc2330f155917480fc0b8b401"


@pytest.mark.parametrize("model", ["neox", "olmo", "olmoe"])
def test_golden_batches(model):
    expected = json.loads((GOLDEN / model / "expected.json").read_text())["batch"]
    batch = induction_batch(
        expected["n"], expected["seq_len"], expected["vocab_low"], expected["vocab_high"], expected["seed"]
    )
    assert sha256(batch.tokens) == expected["tokens_sha256"]
    assert sha256(batch.targets) == expected["targets_sha256"]


def test_a_shorter_batch_is_the_beginning_of_a_longer_one():
    long, short = induction_batch(12, 64, 0, 128), induction_batch(5, 64, 0, 128)
    assert (long.tokens[:5] == short.tokens).all() and (long.first_a[:5] == short.first_a).all()


# A redraw may hit A or B again with probability 2 / vocabulary; over 50,000 ids it does not in a few rows.
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), seq_len=st.integers(42, 200))
def test_the_only_earlier_pair_tells_what_comes_next(seed, seq_len):
    batch = induction_batch(2, seq_len, 100, 50_000, seed)
    for tokens, b, at in zip(batch.tokens.numpy(), batch.targets.numpy(), batch.first_a.numpy()):
        a = tokens[-1]
        assert 20 <= at < seq_len // 2 and tokens[at] == a and tokens[at + 1] == b and a != b
        assert np.flatnonzero(tokens == a).tolist() == [at, seq_len - 1]
        assert np.flatnonzero(tokens == b).tolist() == [at + 1]
        assert ((tokens >= 100) & (tokens < 50_000)).all()


def test_sequences_too_short_or_vocabularies_too_small_are_refused():
    with pytest.raises(ValueError, match="at least 42"):
        induction_batch(1, 41)
    with pytest.raises(ValueError, match="at least 3 tokens"):
        induction_batch(1, 64, 5, 7)
