"""The weighted median by its definition."""

from __future__ import annotations

import numpy as np
import pytest

from recyclegp.kernels import weighted_median


@pytest.mark.parametrize("count", [1, 2, 3, 6, 9])
def test_weighted_median_has_half_of_the_weight_on_either_side(count):
    """It minimises Σ w|v − m|, over values in any order and weights of any size."""
    rng = np.random.default_rng(count)
    for _ in range(20):
        values, weights = rng.normal(0, 3, count), rng.uniform(0.01, 5, count) ** 3
        cost = (weights * np.abs(values[:, None] - values)).sum(1)
        assert weighted_median(values, weights) == values[cost.argmin()]


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([3.0, 1.0], [1, 1], 2.0),
        ([5.0, 1.0, 2.0], [2, 1, 1], 3.5),
        ([5.0, 1.0, 2.0, 9.0], [0.1, 0.1, 0.1, 0.3], 7.0),
        ([4.0, 8.0], [0, 1], 8.0),
        ([4.0, 8.0], [1, 0], 4.0),
        ([1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.15, 0.15], 2.5),
    ],
)
def test_weighted_median_on_a_border_is_half_way(values, weights, expected):
    assert weighted_median(values, weights) == pytest.approx(expected, rel=1e-12)
