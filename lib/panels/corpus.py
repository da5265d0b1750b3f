"""Synthetic corpora: random tokens with copied spans, in one or several domains.

A sequence is a stream of tokens in which, at every position that is not already
inside a copy, a copy may start: a span of earlier tokens of the same sequence is
repeated.  Inside a copy the next token can be predicted by induction (find the
previous occurrence, take what followed it) and by nothing else; outside a copy it
can be predicted only as well as the domain's unigram and bigram statistics allow.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Domain:
    """The statistics of one kind of text.

    share: weight of the domain in its corpus; shares are normalised by the corpus.
    copy_start: probability that a copy starts at a position outside any copy.
    span: shortest and longest copied span, in tokens (uniform, both included).
    near_mean: mean, in tokens, of the geometric part of the source distance.
    near_share: share of copies whose distance is geometric; the rest are uniform
        over everything before the position.
    least_distance: shortest source distance, in tokens.
    vocabulary: first token id, and one past the last, as fractions of the corpus'
        vocabulary; a domain may use only part of it.
    zipf: exponent of the rank-frequency law of fresh tokens (0: uniform).
    bigram: probability that a fresh token is the fixed successor of the token
        before it (0: no bigram structure).
    title: probability that a fresh token repeats the sequence's first token, as the
        word of a title comes again in the text (0: none).  Predicting it takes
        attention to position 0, whatever stands there.
    skip: probability that a fresh token is a fixed function of the token two
        before it, as words agree across a word in between (0: none).  Predicting it
        takes attention to the previous position, at every position.
    """

    share: float = 1.0
    copy_start: float = 0.12
    span: tuple[int, int] = (8, 32)
    near_mean: float = 16.0
    near_share: float = 0.5
    least_distance: int = 1
    vocabulary: tuple[float, float] = (0.0, 1.0)
    zipf: float = 0.0
    bigram: float = 0.0
    skip: float = 0.0
    title: float = 0.0


@dataclass(frozen=True)
class Corpus:
    """A named mixture of domains; every sequence comes from one of them."""

    name: str
    domains: dict[str, Domain]

    def sample(self, rng: np.random.Generator, n: int, length: int, vocab_size: int):
        """Draw token ids [n, length], int64, and the mask of copied positions.

        Returns (tokens [n, length], copied [n, length] bool).
        """
        shares = np.array([d.share for d in self.domains.values()])
        counts = rng.multinomial(n, shares / shares.sum())
        parts = [
            sample_domain(domain, rng, count, length, vocab_size)
            for domain, count in zip(self.domains.values(), counts)
            if count
        ]
        order = rng.permutation(n)
        tokens, copied = (np.concatenate(p)[order] for p in zip(*parts))
        return tokens, copied


def sample_domain(domain: Domain, rng: np.random.Generator, n: int, length: int, vocab_size: int):
    """Draw n sequences of one domain: (tokens [n, length], copied [n, length])."""
    low, high = (round(f * vocab_size) for f in domain.vocabulary)
    if domain.zipf:
        weight = 1.0 / np.arange(1, high - low + 1) ** domain.zipf
        tokens = low + rng.choice(high - low, size=(n, length), p=weight / weight.sum())
    else:
        tokens = rng.integers(low, high, size=(n, length))
    # Successor tables are fixed by the range and not by the training seed.
    tables = np.random.default_rng([low, high])
    after_one, after_two = (tables.permutation(np.arange(low, high)) for _ in range(2))
    rule = rng.random((n, length))
    follows, skips, titles = np.diff(
        [rule < p for p in np.cumsum([0, domain.bigram, domain.skip, domain.title])], axis=0
    )
    starts = rng.random((n, length)) < domain.copy_start
    spans = rng.integers(domain.span[0], domain.span[1] + 1, size=(n, length))
    near = rng.geometric(1.0 / domain.near_mean, size=(n, length))
    anywhere = rng.random((n, length))
    is_near = rng.random((n, length)) < domain.near_share

    rows = np.arange(n)
    copied = np.zeros((n, length), dtype=bool)
    remaining = np.zeros(n, dtype=int)
    distance = np.ones(n, dtype=int)
    least = domain.least_distance
    for t in range(1, length):
        begin = (remaining == 0) & starts[:, t] & (t >= least)
        far = least + (anywhere[:, t] * (t - least + 1)).astype(int)
        drawn = np.where(is_near[:, t], np.clip(near[:, t], least, max(t, least)), far)
        distance = np.where(begin, drawn, distance)
        remaining = np.where(begin, spans[:, t], remaining)
        inside = remaining > 0
        fresh = np.where(follows[:, t], after_one[tokens[:, t - 1] - low], tokens[:, t])
        fresh = np.where(titles[:, t], tokens[:, 0], fresh)
        if t > 1:
            fresh = np.where(skips[:, t], after_two[tokens[:, t - 2] - low], fresh)
        tokens[:, t] = np.where(inside, tokens[rows, t - distance], fresh)
        copied[:, t] = inside
        remaining = np.maximum(remaining - 1, 0)
    return tokens, copied
