"""The numbers taken of a head: where its last query attends, against what, and how many directions it writes in.

All statistics are float64.  Formulas and names follow arXiv 2606.02378; "T" is the
sequence length, "a" the index of the first A (see lib.measure.batch).
"""

from functools import lru_cache

import numpy as np

CLASSES = ("induction", "previous_token", "duplicate_token", "first_token", "self", "local")
BASELINES = ("paper", "clean")
BASELINE_FLOOR = 1e-8  # the paper's guard against division by zero


def class_positions(seq_len: int, first_a: np.ndarray) -> dict[str, np.ndarray]:
    """Positions each attention class looks at, for the query at T-1.

    first_a: [n] index of the first A.  Returns {class: [n, k] int array}; k is 1
    except for "local", which averages T-3 .. T-6.
    """
    first_a = np.asarray(first_a)
    fixed = lambda *positions: np.tile(positions, (len(first_a), 1))  # noqa: E731
    return {
        "induction": first_a[:, None] + 1,
        "previous_token": fixed(seq_len - 2),
        "duplicate_token": first_a[:, None],
        "first_token": fixed(0),
        "self": fixed(seq_len - 1),
        "local": fixed(*range(seq_len - 6, seq_len - 2)),
    }


def paper_baseline_positions(seq_len: int) -> np.ndarray:
    """The paper's baseline sample: 50 sorted positions, the same for all sequences.

    Drawn from RandomState(0) over [1, T-1), skipping the fixed targets and
    repeats.  Raises ValueError if the sequence holds fewer than 50 such places.
    """
    excluded = {0} | set(range(seq_len - 6, seq_len))
    if seq_len - len(excluded) < 50:
        raise ValueError(f"seq_len is {seq_len}: the paper's baseline needs at least {50 + len(excluded)}")
    rng, drawn = np.random.RandomState(0), set()
    while len(drawn) < 50:
        position = int(rng.randint(1, seq_len - 1))
        if position not in excluded:
            drawn.add(position)
    return np.array(sorted(drawn))


def clean_baseline_mask(seq_len: int, first_a: np.ndarray) -> np.ndarray:
    """[n, T] bool: positions that are no class's target in that sequence (the clean baseline)."""
    mask = np.ones((len(first_a), seq_len), dtype=bool)
    for positions in class_positions(seq_len, first_a).values():
        np.put_along_axis(mask, positions, False, axis=1)
    return mask


def paper_baseline_ceiling(seq_len: int, first_a: np.ndarray) -> float:
    """The selectivity that a perfect induction head reads under the paper's baseline.

    Its whole attention falls on the induction target, which lies inside the
    baseline sample in some sequences: 238x for the paper's batch.
    """
    hits = np.isin(np.asarray(first_a) + 1, paper_baseline_positions(seq_len)).mean()
    return np.inf if hits == 0 else 50.0 / hits


def participation_ratio(matrix: np.ndarray, centred: bool = False) -> float:
    """Effective rank of a head's output: exp of the entropy of its squared singular values.

    matrix: [n, d_head], one row a sequence (the head's output before the output
    projection, hook_z, at the last position).  PR = exp(-sum p_i ln p_i) with
    p_i = s_i^2 / sum s^2; 1 for a single direction, d_head for an isotropic cloud.
    centred subtracts the mean row first (the paper does not).  A zero matrix has PR 1.
    Raises ValueError if the matrix is not finite: an infinity would become a silent NaN.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"matrix has shape {matrix.shape}: expected [n, d_head] with at least one row and column")
    if not np.isfinite(matrix).all():
        raise ValueError("matrix holds NaN or infinity: no participation ratio")
    largest = np.abs(matrix).max()
    if largest == 0:
        return 1.0
    matrix = matrix / largest  # squares of very large or small entries would overflow or vanish
    if centred:
        matrix = matrix - matrix.mean(axis=0)
    return effective_rank(np.linalg.svd(matrix, compute_uv=False) ** 2)  # type: ignore[return-value]  # of one head


def effective_rank(squared: np.ndarray) -> np.ndarray:
    """exp(entropy) of non-negative weights, [..., d] -> [...]; 1 if they are all zero."""
    total = squared.sum(axis=-1, keepdims=True)
    p = np.divide(squared, total, out=np.zeros_like(squared), where=total > 0)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    rank = np.exp(-(p * logs).sum(axis=-1))
    return rank if rank.ndim else float(rank)  # type: ignore[return-value]  # one head has a number, not an array


@lru_cache(maxsize=None)
def gaussian_ceiling(n: int, d_head: int, draws: int = 8) -> float:
    """The participation ratio of pure Gaussian noise of n rows in d_head dimensions.

    The mean over a few seeded draws; a head's PR divided by this compares heads
    of different sizes.  Below d_head because a finite sample is never isotropic.
    """
    rng = np.random.default_rng(0)
    return float(np.mean([participation_ratio(rng.standard_normal((n, d_head))) for _ in range(draws)]))


def selectivity_column(cls: str, baseline: str = "paper") -> str:
    """The head table's column for the selectivity of a class under a baseline."""
    return f"selectivity_{cls}" if baseline == "paper" else f"selectivity_clean_{cls}"


def selectivity(attention: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """attention / max(baseline, 1e-8): how many times the baseline a class receives."""
    return attention / np.maximum(baseline, BASELINE_FLOOR)
