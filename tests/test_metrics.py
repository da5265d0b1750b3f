"""Participation ratio, baselines and selectivity against closed forms and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lib.measure import metrics
from lib.measure.batch import induction_batch

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 6)),
    elements=st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda v: round(v, 6)),
)


# Participation ratio ---------------------------------------------------------------


def test_one_direction_has_pr_one():
    assert metrics.participation_ratio(np.outer(np.arange(1.0, 9), [3, -1, 2])) == pytest.approx(1)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_equal_orthogonal_directions_have_pr_d(d):
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((20, d)))
    assert metrics.participation_ratio(5 * q) == pytest.approx(d)


def test_two_unequal_directions_have_the_entropy_of_their_squares():
    # Squares 9 and 1: p = 0.9 and 0.1, PR = 0.9^-0.9 * 0.1^-0.1.
    assert metrics.participation_ratio(np.diag([3.0, 1.0])) == pytest.approx(0.9**-0.9 * 0.1**-0.1)


def test_it_is_not_the_ratio_of_moments_of_the_same_name():
    squares = np.array([9.0, 1.0])
    assert metrics.participation_ratio(np.diag([3.0, 1.0])) != pytest.approx(
        squares.sum() ** 2 / (squares**2).sum(), rel=0.1
    )


def test_a_zero_matrix_has_pr_one():
    assert metrics.participation_ratio(np.zeros((4, 3))) == 1
    assert metrics.participation_ratio(np.ones((4, 3)), centred=True) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="NaN or infinity"):
        metrics.participation_ratio([[1.0, bad], [0.0, 1.0]])


@pytest.mark.parametrize("shape", [(3,), (0, 3), (3, 0), (2, 2, 2)])
def test_a_matrix_of_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match="expected"):
        metrics.participation_ratio(np.ones(shape))


def test_entries_whose_squares_overflow_do_not_matter():
    matrix = np.diag([3.0, 1.0])
    for scale in (1e300, 1e-300):
        assert metrics.participation_ratio(scale * matrix) == pytest.approx(metrics.participation_ratio(matrix))


@settings(max_examples=60, deadline=None)
@given(MATRICES, st.floats(1e-6, 1e6), st.integers(0, 2**32 - 1))
def test_pr_is_bounded_and_ignores_scale_rotation_and_order(matrix, scale, seed):
    rng = np.random.default_rng(seed)
    pr = metrics.participation_ratio(matrix)
    assert 1 - 1e-9 <= pr <= min(matrix.shape) + 1e-9
    rotation, _ = np.linalg.qr(rng.standard_normal((matrix.shape[1],) * 2))
    for same in (scale * matrix, matrix @ rotation, matrix[rng.permutation(len(matrix))], -matrix):
        assert metrics.participation_ratio(same) == pytest.approx(pr, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(MATRICES, st.floats(-10, 10))
def test_centred_pr_ignores_a_common_offset(matrix, offset):
    pr = metrics.participation_ratio(matrix, centred=True)
    spread = np.abs(matrix - matrix.mean(axis=0)).max()
    if spread > 1e-3:  # below, the offset itself is rounding noise
        assert metrics.participation_ratio(matrix + offset, centred=True) == pytest.approx(pr, rel=1e-6)


def test_gaussian_ceiling_approaches_the_dimension_from_below():
    few, many = metrics.gaussian_ceiling(64, 16), metrics.gaussian_ceiling(2000, 16)
    assert 8 < few < many < 16
    # To first order in d/n the entropy of the spectrum falls short of ln d by d / 2n.
    assert many == pytest.approx(16 * np.exp(-16 / 4000), rel=1e-3)


# Positions, baselines, selectivity ---------------------------------------------------


def test_paper_baseline_sample():
    positions = metrics.paper_baseline_positions(256)
    assert len(positions) == len(set(positions)) == 50
    assert positions[:8].tolist() == [10, 22, 26, 30, 32, 33, 37, 40]
    assert not set(positions) & {0, *range(250, 256)}


def test_sequences_too_short_for_the_baseline_are_refused():
    with pytest.raises(ValueError, match="at least 57"):
        metrics.paper_baseline_positions(56)


def test_induction_target_is_in_the_sample_in_420_of_the_papers_sequences():
    first_a = induction_batch().first_a.numpy()
    sample = metrics.paper_baseline_positions(256)
    assert np.isin(first_a + 1, sample).sum() == 420
    assert ((sample >= 21) & (sample <= 128)).sum() == 23  # where the target may be


@pytest.mark.parametrize(
    "seq_len, vocabulary, ceiling", [(256, (100, 10_000), 238), (128, (16, 256), 106), (64, (16, 256), 59)]
)
def test_ceiling_of_a_perfect_induction_head(seq_len, vocabulary, ceiling):
    first_a = induction_batch(2000, seq_len, *vocabulary).first_a.numpy()
    assert metrics.paper_baseline_ceiling(seq_len, first_a) == pytest.approx(ceiling, abs=0.6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(58, 90), st.integers(1, 6))
def test_selectivity_against_a_loop(seed, seq_len, n):
    """The definitions of the protocol, position by position."""
    rng = np.random.default_rng(seed)
    pattern = rng.dirichlet(np.ones(seq_len), size=n)  # last row of one head, per sequence
    first_a = rng.integers(20, seq_len // 2, size=n)
    t = seq_len
    targets = [
        {
            "induction": [a + 1],
            "previous_token": [t - 2],
            "duplicate_token": [a],
            "first_token": [0],
            "self": [t - 1],
            "local": [t - 3, t - 4, t - 5, t - 6],
        }
        for a in first_a
    ]
    attention = {
        c: sum(sum(pattern[i][j] for j in targets[i][c]) / len(targets[i][c]) for i in range(n)) / n
        for c in metrics.CLASSES
    }
    clean = 0.0
    for i in range(n):
        used = {j for where in targets[i].values() for j in where}
        rest = [pattern[i][j] for j in range(t) if j not in used]
        clean += sum(rest) / len(rest) / n
    positions = metrics.class_positions(seq_len, first_a)
    mask = metrics.clean_baseline_mask(seq_len, first_a)
    for c in metrics.CLASSES:
        ours = np.take_along_axis(pattern, positions[c], axis=1).mean(axis=1).mean()
        assert ours == pytest.approx(attention[c])
        baseline = (pattern * mask).sum(axis=1) / mask.sum(axis=1)
        assert metrics.selectivity(ours, baseline.mean()) == pytest.approx(attention[c] / clean)


def test_a_baseline_of_zero_is_floored():
    assert metrics.selectivity(np.array([0.5]), np.array([0.0]))[0] == pytest.approx(0.5e8)
