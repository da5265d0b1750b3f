"""The induction batch: random tokens in which only one earlier pair tells what comes next."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class InductionBatch:
    """Sequences that end in A and once, earlier, hold the pair A B.

    tokens: [n, T] int64 token ids; there is no BOS token.
    targets: [n] int64, the token B that an induction head predicts.
    first_a: [n] int64, the index of the first A; B stands at first_a + 1.
    """

    tokens: torch.Tensor
    targets: torch.Tensor
    first_a: torch.Tensor


def induction_batch(
    n_sequences: int = 2000, seq_len: int = 256, vocab_low: int = 100, vocab_high: int = 10000, seed: int = 42
) -> InductionBatch:
    """Build the paper's batch, draw for draw (arXiv 2606.02378, methods).

    Each sequence is seq_len uniform ids in [vocab_low, vocab_high).  Two distinct
    tokens A and B are drawn; A is put at an index drawn uniformly from
    [20, seq_len // 2), B right behind it.  Any other A, then any other B, is
    redrawn once, and the last token is set to A.  The order of the draws from
    NumPy's legacy stream is part of the definition: the first sequences of a
    longer batch are the shorter batch.

    Returns an InductionBatch.  Raises ValueError if the sequences are too short
    for a place to be drawn or the vocabulary holds fewer than three tokens.
    """
    if seq_len // 2 <= 20:
        raise ValueError(f"seq_len is {seq_len}: at least 42, since A is placed from index 20 to half the length")
    if vocab_high - vocab_low < 3:
        raise ValueError(f"vocabulary [{vocab_low}, {vocab_high}) is too small: at least 3 tokens (A, B and another)")
    rng = np.random.RandomState(seed)
    vocabulary = np.arange(vocab_low, vocab_high)
    tokens = np.empty((n_sequences, seq_len), dtype=np.int64)
    targets = np.empty(n_sequences, dtype=np.int64)
    first_a = np.empty(n_sequences, dtype=np.int64)
    for i in range(n_sequences):
        sequence = rng.randint(vocab_low, vocab_high, size=seq_len)
        a, b = rng.choice(vocabulary, 2, replace=False)
        at = rng.randint(20, seq_len // 2)
        sequence[at], sequence[at + 1] = a, b
        for token, keep in ((a, at), (b, at + 1)):
            for position in range(seq_len):
                if position != keep and sequence[position] == token:
                    sequence[position] = rng.randint(vocab_low, vocab_high)
        sequence[-1] = a
        tokens[i], targets[i], first_a[i] = sequence, b, at
    return InductionBatch(*(torch.from_numpy(x) for x in (tokens, targets, first_a)))


def repeated_sequences(seq_len: int, vocab_low: int, vocab_high: int, seed: int, n_sequences: int) -> torch.Tensor:
    """Random sequences that come twice, for the prefix-matching score: [n_sequences, 2 * (seq_len // 2)] int64.

    The first half holds seq_len // 2 different ids in [vocab_low, vocab_high), the
    second half repeats it.  Raises ValueError if the vocabulary has fewer ids.
    """
    half = seq_len // 2
    if vocab_high - vocab_low < half:
        raise ValueError(
            f"vocabulary [{vocab_low}, {vocab_high}) is too small: at least {half} tokens for half a sequence"
        )
    rng = np.random.default_rng(seed)
    vocabulary = np.arange(vocab_low, vocab_high)
    halves = np.stack([rng.choice(vocabulary, half, replace=False) for _ in range(n_sequences)])
    return torch.from_numpy(np.concatenate([halves, halves], axis=1))
