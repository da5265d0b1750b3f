"""How sure a number is: the bootstrap over sequences.

The batch is a sample; with other sequences every mean would come out a little
different.  A replicate draws as many sequences from the batch, with replacement, and
takes every statistic again.  All heads, classes and checkpoints of a panel share the
same draws, so that counts and differences have replicates too (Efron and Tibshirani,
An Introduction to the Bootstrap, 1993).
"""

from functools import lru_cache

import numpy as np

from lib.measure import metrics

REPLICATES = 200
LEVEL = 0.95
SEED = 0


@lru_cache(maxsize=4)
def weights(n: int, replicates: int = REPLICATES, seed: int = SEED) -> np.ndarray:
    """How often each of n sequences is drawn, as a share of n: [replicates, n]; each row sums to 1."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=replicates)
    return drawn / n


def means(values: np.ndarray) -> np.ndarray:
    """Replicates of the mean over sequences: [n, ...] -> [replicates, ...]."""
    values = np.asarray(values)
    w = weights(len(values))
    return (w @ values.reshape(len(values), -1)).reshape(len(w), *values.shape[1:])


def participation_ratio(z: np.ndarray, centred: bool = False) -> tuple[float, np.ndarray]:
    """One head's participation ratio and its replicates: z [n, d_head] -> (float, [replicates]).

    The estimate is metrics.participation_ratio, from the Gram matrix if that is smaller.  A
    replicate takes the variance of the resample along the batch's own eigenvectors for
    its eigenvalues, which is right to first order: one decomposition serves all replicates.  The
    second order is mostly a bias (a resample repeats sequences and so seems to spread over fewer
    directions) and would be taken out anyway: the replicates are shifted to have
    the estimate as their mean, so that they show how far it varies.
    """
    z = np.asarray(z, dtype=np.float64)
    n, d = z.shape
    largest = np.abs(z).max()
    z = z / largest if largest else z  # as in lib.measure.metrics: squares must not overflow
    if centred:
        z = z - z.mean(axis=0)
    if n < d:
        u, singular, _ = np.linalg.svd(z, full_matrices=False)
        along, eigenvalues = u * singular, singular**2 / n
    else:
        eigenvalues, directions = np.linalg.eigh(z.T @ z / n)
        along = z @ directions
    w = weights(n)
    drawn = w @ along**2
    if centred:
        drawn -= (w @ along) ** 2
    estimate = metrics.effective_rank(eigenvalues.clip(min=0.0))
    drawn = metrics.effective_rank(drawn.clip(min=0.0))
    return estimate, (drawn + estimate - drawn.mean()).clip(1.0, d)  # type: ignore[return-value]  # of one head


def interval(replicates: np.ndarray, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The percentile interval of LEVEL: (low, high), each without the replicates' axis."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=axis)
    return low, high
