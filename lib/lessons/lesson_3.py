"""The checkers of lesson 3: the participation ratio."""

import numpy as np

from lib import measure
from lib.formatting import name_of
from lib.lessons.answers import (
    Hint,
    as_array,
    as_head,
    as_number,
    as_whole,
    close,
    exercise,
    kind_of,
    look_for,
    stopped,
    top_head,
)


def _spectrum(matrix):
    s = np.linalg.svd(matrix, compute_uv=False)
    return s, s**2 / (s**2).sum()


def _entropy(p, log=np.log):
    p = p[p > 0]
    return -(p * log(p)).sum()


PR_MISTAKES = {
    "You have used the singular values themselves. Square them first.": lambda m: np.exp(
        _entropy(_spectrum(m)[0] / _spectrum(m)[0].sum())
    ),
    "This is (sum of s²)² / sum of s⁴, the other thing called participation ratio. Here it is exp of an entropy.": (
        lambda m: 1 / (_spectrum(m)[1] ** 2).sum()
    ),
    "You have subtracted the mean row. This is the centred PR; the plain one is asked.": lambda m: (
        measure.metrics.participation_ratio(m, centred=True)
    ),
    "This is the entropy. Take exp of it.": lambda m: _entropy(_spectrum(m)[1]),
    "The entropy is in bits and exp is natural: use the natural logarithm, or 2 to the power.": lambda m: np.exp(
        _entropy(_spectrum(m)[1], np.log2)
    ),
    "The sign of the entropy: -(p * ln p).sum() is positive.": lambda m: np.exp(-_entropy(_spectrum(m)[1])),
    "This is the rank: how many singular values there are, however small. Weigh them by the entropy.": lambda m: float(
        np.linalg.matrix_rank(m)
    ),
    "This is the entropy of the columns' sizes. It changes if the space is turned; singular values do not.": (
        lambda m: np.exp(_entropy((m**2).sum(axis=0) / (m**2).sum()))
    ),
}


@exercise("3.1")
def participation_ratio(answer):
    """The answer is a function: matrix [n, d] -> its participation ratio."""
    if not callable(answer):
        raise Hint(f"A function is expected; the answer is {kind_of(answer)}.")
    rng = np.random.default_rng(3)
    uneven = (rng.standard_normal((60, 6)) * [5, 3, 2, 1, 0.5, 0.1] + [4, 0, 0, 1, 0, 2]) @ np.linalg.qr(
        rng.standard_normal((6, 6))
    )[0]
    cases = [
        ("a cloud of 60 rows and 6 columns", uneven),
        ("the same cloud, ten times as large", 10 * uneven),
        ("three rows of the unit matrix", np.eye(4)[:3]),
        ("a matrix whose rows are all alike", np.tile([3.0, 0.0, 4.0], (5, 1))),
    ]
    for name, matrix in cases:
        try:
            value = answer(matrix.copy())
        except Exception as error:  # noqa: BLE001 - the learner's code may do anything
            raise Hint(stopped(error)) from None
        if value is None or value is ...:
            raise Hint("The function returns nothing yet. End it with a `return`.")
        try:
            value = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise Hint(
                f"The function should return one number; for {name} it returns something {kind_of(value)}."
            ) from None
        if np.isnan(value):
            raise Hint(f"For {name} the result is not a number: 0 · ln 0 counts as 0. Leave out the p that are 0.")
        truth = measure.metrics.participation_ratio(matrix)
        if not close(value, truth):
            look_for(value, [(wrong(matrix), hint) for hint, wrong in PR_MISTAKES.items()])
            raise Hint(f"For {name} the PR is {truth:.4g}; your function gives {value:.4g}. Do the p sum to 1?")
    return "It agrees with `lib.measure.metrics.participation_ratio` on four matrices."


@exercise("3.2")
def broken_cloud(answer, cloud):
    """The answer is the cloud [n, d] with one vector added to every row, so that its PR is below 1.5."""
    cloud = np.asarray(cloud, dtype=float)
    answer = as_array(answer, cloud.shape, "the cloud with something added")
    if not np.isfinite(answer).all():
        raise Hint("There is an infinity or something that is no number in it.")
    added = answer - cloud
    if not np.abs(added).max() > 1e-12:
        raise Hint("This is the cloud itself. Add the same vector to every row.")
    if np.abs(added - added[0]).max() > 1e-6 * max(1.0, np.abs(added).max()):
        raise Hint(
            "The rows were changed in different ways. Add one and the same vector to every row: `cloud + vector`."
        )
    pr, centred = measure.metrics.participation_ratio(answer), measure.metrics.participation_ratio(answer, centred=True)
    if pr >= 1.5:
        raise Hint(f"The PR is now {pr:.3g}; it should come below 1.5. What if the vector were longer?")
    return (
        f"The PR fell from {measure.metrics.participation_ratio(cloud):.3g} to {pr:.3g}. The cloud only moved: its centred PR is "
        f"{centred:.3g}, as before."
    )


@exercise("3.3")
def fooled_head(answer, z):
    """z [layer, head, sequence, d_head]: the answer is the head with the largest centred PR minus PR."""
    z = np.asarray(z, dtype=float)
    n_layers, n_heads = z.shape[:2]
    of = lambda centred: np.array([[measure.metrics.participation_ratio(m, centred) for m in layer] for layer in z])  # noqa: E731
    plain, centred = of(False), of(True)
    gap = centred - plain
    truth, answer = top_head(gap), as_head(answer, n_layers, n_heads)
    if answer == truth:
        return f"{name_of(*truth)}: PR {plain[truth]:.3g}, centred {centred[truth]:.3g}, of {z.shape[-1]} directions."
    here = f"{name_of(*answer)} has PR {plain[answer]:.3g}, centred {centred[answer]:.3g}"
    for wrong, hint in (
        (top_head(-gap), "there centring changes least, or lowers it"),
        (top_head(centred / plain), "the largest *ratio* of the two; the largest difference is asked"),
        (top_head(plain), "the highest PR, but not the largest difference"),
        (top_head(centred), "the highest centred PR, but not the largest difference"),
        (top_head(-plain), "the lowest PR, but not the largest difference"),
        (truth[::-1], "the layer comes first: try the numbers the other way round"),
    ):
        if answer == wrong:
            raise Hint(f"{here}: {hint}.")
    raise Hint(f"{here}. Another head has a larger difference: compute both for every head.")


@exercise("3.4")
def most_directions(answer, n, d):
    """The answer is the largest PR that n rows of d numbers can have."""
    answer, truth = as_number(answer, "a PR"), min(n, d)
    if close(answer, truth):
        return f"{n} rows have at most {truth} singular values that are not 0."
    look_for(
        answer,
        [
            (d, f"There is room for {d}, but how many directions can {n} rows span?"),
            (n, f"{n} rows, but each has {d} numbers: no more than that many directions are there."),
            (min(n - 1, d), "That would be so after subtracting the mean row, which takes one direction away."),
            (np.log(truth), "This is the largest entropy. Take exp of it."),
            (n * d, "That is the number of entries. How many singular values are there?"),
        ],
    )
    raise Hint("How many singular values does such a matrix have? PR is largest when they are all the same.")


@exercise("3.5")
def untrained(answer, first, last):
    """Head tables before and after training: the answer is how many heads have a PR above half the Gaussian ceiling before."""
    count = lambda table, column, limit: int((table[column] > limit).sum())  # noqa: E731
    half = first["pr_ceiling"].iloc[0] / 2
    truth, answer = count(first, "pr", half), as_whole(answer, "how many heads")
    if answer == truth:
        return (
            f"{truth} of {len(first)} heads of a model that has learnt nothing, and {count(last, 'pr', half)} after "
            "training. A high PR alone is no sign of a circuit."
        )
    look_for(
        answer,
        [
            (count(last, "pr", half), "That is after training. Before it is asked: the first table."),
            (count(first, "pr_centred", half), "These are the centred PR. The plain ones are asked."),
            (count(first, "pr", 2 * half), "That is above the ceiling itself. Half of it is asked."),
            (count(first, "pr", -1), "That is the number of heads. How many pass half the ceiling?"),
            (len(first) - truth, "These are the heads that do *not* pass it."),
        ],
    )
    raise Hint("Compare the column `pr` of the first table with half of its column `pr_ceiling`.")
