"""How sure a number is: the bootstrap over sequences.

The batch is a sample; with other sequences every mean would come out a little
different.  A replicate draws as many sequences from the batch, with replacement, and
takes every statistic again.  All heads, classes and checkpoints of a panel share the
same draws, so that counts and differences have replicates too (Efron and Tibshirani,
An Introduction to the Bootstrap, 1993).
"""

from functools import lru_cache

import numpy as np

from lib import metrics

REPLICATES = 200
LEVEL = 0.95
SEED = 0


@lru_cache(maxsize=4)
def weights(n, replicates=REPLICATES, seed=SEED):
    """How often each of n sequences is drawn, as a share of n: [replicates, n]; each row sums to 1."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=replicates)
    return drawn / n


def means(values):
    """Replicates of the mean over sequences: [n, ...] -> [replicates, ...]."""
    values = np.asarray(values)
    w = weights(len(values))
    return (w @ values.reshape(len(values), -1)).reshape(len(w), *values.shape[1:])


def participation_ratios(z, centred=False):
    """Replicates of one head's participation ratio: z [n, d_head] -> [replicates].

    A resample repeats sequences and so spans fewer directions than the batch: its PR
    is lower on average.  The replicates are shifted to have the estimate as their
    mean, so that they show how far it varies and not this bias.
    """
    z = np.asarray(z, dtype=np.float64)
    n, d = z.shape
    largest = np.abs(z).max()
    z = z / largest if largest else z  # as in lib.metrics: squares must not overflow
    w = weights(n)
    upper = np.triu_indices(d)
    packed = np.zeros((len(w), len(upper[0])))
    for start in range(0, n, 256):  # bounds the memory of the outer products
        part = z[start : start + 256]
        packed += w[:, start : start + 256] @ (part[:, upper[0]] * part[:, upper[1]])
    gram = np.empty((len(w), d, d))
    gram[:, upper[0], upper[1]] = gram[:, upper[1], upper[0]] = packed
    total = w @ z
    drawn = metrics.participation_ratio_from_moments(gram, total, 1, centred)
    estimate = metrics.participation_ratio(z, centred)
    return (drawn + estimate - drawn.mean()).clip(1.0, d)


def interval(replicates, axis=0):
    """The percentile interval of LEVEL: (low, high), each without the replicates' axis."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=axis)
    return low, high
