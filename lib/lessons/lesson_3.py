"""The checkers of lesson 3: the participation ratio."""

import numpy as np

from lib import measure
from lib.lessons.answers import (
    Hint,
    as_array,
    as_function,
    as_head,
    as_number,
    as_whole,
    close,
    exercise,
    judged,
    kind_of,
    look_for,
    right,
    top_head,
)


def _entropy(p, log=np.log):
    p = p[p > 0]
    return -(p * log(p)).sum()


def _wrong_ratios(matrix):
    """What mistakes make of the participation ratio of a matrix: {name of the hint: value}."""
    s = np.linalg.svd(matrix, compute_uv=False)
    p = s**2 / (s**2).sum()
    return {
        "not squared": np.exp(_entropy(s / s.sum())),
        "the other definition": 1 / (p**2).sum(),
        "centred": measure.participation_ratio(matrix, centred=True),
        "no exp": _entropy(p),
        "bits": np.exp(_entropy(p, np.log2)),
        "sign": np.exp(-_entropy(p)),
        "rank": float(np.linalg.matrix_rank(matrix)),
        "columns": np.exp(_entropy((matrix**2).sum(axis=0) / (matrix**2).sum())),
    }


@exercise("3.1")
def participation_ratio(answer):
    """The answer is a function: matrix [n, d] -> its participation ratio."""
    ratio = as_function(answer)
    rng = np.random.default_rng(3)
    uneven = rng.standard_normal((60, 6)) * [5, 3, 2, 1, 0.5, 0.1] + [4, 0, 0, 1, 0, 2]
    uneven = uneven @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    cases = {
        "a cloud of 60 rows and 6 columns": uneven,
        "the same cloud, ten times as large": 10 * uneven,
        "three rows of the unit matrix": np.eye(4)[:3],
        "a matrix whose rows are all alike": np.tile([3.0, 0.0, 4.0], (5, 1)),
    }
    for name, matrix in cases.items():
        value = ratio(matrix.copy())
        try:
            value = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise Hint("not one number", matrix=name, kind=kind_of(value)) from None
        if np.isnan(value):
            raise Hint("not a number", matrix=name)
        truth = measure.participation_ratio(matrix)
        if not close(value, truth):
            look_for(value, _wrong_ratios(matrix))
            raise Hint("another value", matrix=name, truth=truth, value=value)
    return right()


@exercise("3.2")
def broken_cloud(answer, cloud):
    """The answer is the cloud [n, d] with one vector added to every row, so that its PR is below 1.5."""
    cloud = np.asarray(cloud, dtype=float)
    answer = as_array(answer, cloud.shape)
    if not np.isfinite(answer).all():
        raise Hint("infinite")
    added = answer - cloud
    if not np.abs(added).max() > 1e-12:
        raise Hint("nothing added")
    if np.abs(added - added[0]).max() > 1e-6 * max(1.0, np.abs(added).max()):
        raise Hint("different vectors")
    pr = measure.participation_ratio(answer)
    if pr >= 1.5:
        raise Hint("too short", pr=pr)
    return right(
        before=measure.participation_ratio(cloud), pr=pr, centred=measure.participation_ratio(answer, centred=True)
    )


@exercise("3.3")
def fooled_head(answer, z):
    """z [layer, head, sequence, d_head]: the answer is the head with the largest centred PR minus PR."""
    z = np.asarray(z, dtype=float)
    n_layers, n_heads, _, d_head = z.shape
    plain, centred = (
        np.array([[measure.participation_ratio(m, c) for m in layer] for layer in z]) for c in (False, True)
    )
    gap = centred - plain
    truth, answer = top_head(gap), as_head(answer, n_layers, n_heads)
    here = {"head": answer, "pr": plain[answer], "centred": centred[answer], "d": d_head}
    mistakes = {
        "least changed": top_head(-gap),
        "ratio": top_head(centred / plain),
        "highest PR": top_head(plain),
        "highest centred PR": top_head(centred),
        "lowest PR": top_head(-plain),
        "exchanged": truth[::-1],
    }
    return judged(answer, truth, mistakes, same=np.array_equal, **here)


@exercise("3.4")
def most_directions(answer, n, d):
    """The answer is the largest PR that n rows of d numbers can have."""
    most = min(n, d)
    mistakes = {
        "directions": d,
        "rows": n,
        "mean subtracted": min(n - 1, d),
        "entropy": np.log(most),
        "entries": n * d,
    }
    return judged(as_number(answer), most, mistakes, n=n, d=d, most=most)


@exercise("3.5")
def untrained(answer, first, last):
    """Head tables before and after training: the answer is how many heads have a PR above half the Gaussian ceiling before."""
    half = first["pr_ceiling"].iloc[0] / 2
    truth, after = int((first["pr"] > half).sum()), int((last["pr"] > half).sum())
    mistakes = {
        "after training": after,
        "centred": (first["pr_centred"] > half).sum(),
        "the ceiling itself": (first["pr"] > 2 * half).sum(),
        "all heads": (first["pr"] > -1).sum(),
        "those below": len(first) - truth,
    }
    return judged(as_whole(answer), truth, mistakes, same=np.array_equal, before=truth, n=len(first), after=after)
