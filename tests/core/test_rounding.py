"""Numbers with fewer digits, against what Python writes when it is asked for so many."""

import numpy as np
import pytest
import torch

from recyclegp.core import rounding

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("digits", [1, 2, 5, 12])
def test_significant_digits_are_those_of_format(digits):
    values = RNG.normal(size=200) * 10.0 ** RNG.integers(-12, 12, 200)
    wanted = [float(f"{value:.{digits - 1}e}") for value in values]
    np.testing.assert_allclose(rounding.significant(torch.tensor(values), digits), wanted, rtol=1e-13)


def test_zero_stays():
    assert rounding.significant(torch.tensor([0.0, 0.0123], dtype=torch.float64), 1).tolist() == [0.0, 0.01]


def test_columns_are_rounded_by_their_spread():
    """The first varies by about 30 and is far away, the second by about 0.03, the third not at all."""
    Z = np.c_[RNG.uniform(-50, 50, 40) + 1e6, RNG.uniform(-0.05, 0.05, 40), np.full(40, 123.456)]
    short = rounding.by_column(torch.tensor(Z), 3).numpy()
    np.testing.assert_allclose(short[:, 0], np.round(Z[:, 0], 1), rtol=1e-15)
    np.testing.assert_allclose(short[:, 1], np.round(Z[:, 1], 4), atol=1e-15)
    assert set(short[:, 2]) == {123.0}


def test_points_that_coincide_are_one_and_keep_their_order():
    Z = torch.tensor([[3.02, 1.0], [1.01, 2.0], [2.98, 1.0], [2.0, 5.0]], dtype=torch.float64)
    assert rounding.by_column(Z, 1).tolist() == [[3.0, 1.0], [1.0, 2.0], [2.0, 5.0]]
