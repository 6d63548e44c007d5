"""Metrics of numbers."""

import numpy as np
import pytest
from scipy import stats

import recyclegp as rgp
from recyclegp import metrics

RNG = np.random.default_rng(3)


def test_coverage_counts_the_ends_of_the_interval():
    assert metrics.coverage([0.0, 0.026, 0.5, 0.98], [0.024, 0.026, 0.5, 1.0]) == 0.5
    assert metrics.coverage([0.0, 0.96], [0.04, 0.99]) == 1.0  # a discrete y straddling an end lies within
    assert metrics.coverage([0.2, 0.26, 0.7, 0.76], [0.2, 0.26, 0.7, 0.76], 0.5) == 0.5


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(rgp.RecycleGPError, match="shape"):
        metrics.rmse(np.zeros(3), np.zeros((3, 1)))


def test_pit_of_numbers_is_a_histogram():
    u = RNG.uniform(size=1000) ** 2
    assert metrics.pit_histogram(u, u, 8) == pytest.approx(np.histogram(u, 8, (0, 1))[0] / 1000)
    ends = np.array([0.0, 1.0])
    assert metrics.pit_histogram(ends, ends, 4).tolist() == [0.5, 0, 0, 0.5]


def test_pit_of_counts_is_flat_where_they_are_right():
    rate = RNG.uniform(0.2, 4, 40_000)
    y = RNG.poisson(rate)
    below, up_to = stats.poisson.cdf(y - 1, rate), stats.poisson.cdf(y, rate)
    found = metrics.pit_histogram(below, up_to)
    assert found.sum() == pytest.approx(1)
    assert found == pytest.approx(0.1, abs=0.004)
    # by spreading one count by hand: P(Y < y) = 0.15 and P(Y ≤ y) = 0.35
    assert metrics.pit_histogram([0.15], [0.35]) == pytest.approx([0, 0.25, 0.5, 0.25, *[0] * 6])
    sure = metrics.pit_histogram(stats.poisson.cdf(y - 1, rate**0.5), stats.poisson.cdf(y, rate**0.5))
    assert sure[-1] > 0.2
