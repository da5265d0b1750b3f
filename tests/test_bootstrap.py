"""Bootstrap intervals against the closed form of a mean's standard error, and what must hold for any resample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lib.measure import bootstrap, metrics


def test_every_resample_draws_as_many_sequences_as_there_are():
    w = bootstrap.weights(50)
    assert w.shape == (bootstrap.REPLICATES, 50)
    assert w.sum(axis=1) == pytest.approx(1) and ((w * 50) % 1).max() == pytest.approx(0, abs=1e-9)
    assert len(np.unique(w, axis=0)) == len(w)


def test_the_spread_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(1).gamma(2.0, size=2000)
    replicates = bootstrap.means(values)
    assert replicates.std() == pytest.approx(values.std() / np.sqrt(2000), rel=0.15)
    low, high = bootstrap.interval(replicates)
    assert (high - low) / 2 == pytest.approx(1.96 * values.std() / np.sqrt(2000), rel=0.2)
    assert low < values.mean() < high


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng, covered = np.random.default_rng(2), 0
    for _ in range(200):
        low, high = bootstrap.interval(bootstrap.means(rng.exponential(size=100)))
        covered += low <= 1 <= high
    assert 0.88 <= covered / 200 <= 0.98


def test_all_statistics_share_the_same_draws():
    a = np.random.default_rng(3).standard_normal(100)
    assert bootstrap.means(np.stack([a, 2 * a + 1], axis=1))[:, 1] == pytest.approx(2 * bootstrap.means(a) + 1)


@pytest.mark.parametrize("centred", [False, True])
def test_replicates_of_a_pr_vary_as_those_of_the_resampled_rows_do(centred):
    """The oracle resamples rows and takes every PR by itself."""
    z = np.random.default_rng(4).standard_normal((400, 4)) * [4, 2, 1, 0.5] + [1, 0, 0, 0]
    counts = np.rint(bootstrap.weights(400) * 400).astype(int)
    drawn = np.array([metrics.participation_ratio(np.repeat(z, k, axis=0), centred) for k in counts])
    estimate, replicates = bootstrap.participation_ratio(z, centred)
    assert estimate == pytest.approx(metrics.participation_ratio(z, centred), rel=1e-12)
    assert replicates.mean() == pytest.approx(estimate)
    assert replicates.std() == pytest.approx(drawn.std(), rel=0.02)
    assert np.corrcoef(replicates, drawn)[0, 1] > 0.995


def test_the_spread_of_a_pr_is_that_of_other_samples():
    """Not of other resamples: many batches are drawn, as no real measurement can."""
    rng, scales = np.random.default_rng(6), np.exp(-np.arange(16) / 4)
    prs = [metrics.participation_ratio(rng.standard_normal((1000, 16)) * scales) for _ in range(200)]
    _, replicates = bootstrap.participation_ratio(rng.standard_normal((1000, 16)) * scales)
    assert replicates.std() == pytest.approx(np.std(prs), rel=0.2)


def test_the_interval_of_a_pr_holds_the_estimate_though_resamples_span_less():
    z = np.random.default_rng(5).standard_normal((60, 24))
    raw = [metrics.participation_ratio(z[np.random.default_rng(i).integers(60, size=60)]) for i in range(50)]
    estimate = metrics.participation_ratio(z)
    assert np.mean(raw) < 0.95 * estimate  # the bias that is taken out
    low, high = bootstrap.interval(bootstrap.participation_ratio(z)[1])
    assert low < estimate < high


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.floats(-100, 100).map(lambda v: round(v, 3))),
    st.booleans(),
)  # fmt: skip
def test_a_pr_stays_between_one_and_the_dimension(z, centred):
    _, replicates = bootstrap.participation_ratio(z, centred)
    assert np.isfinite(replicates).all() and (replicates >= 1).all() and (replicates <= z.shape[1] + 1e-9).all()
