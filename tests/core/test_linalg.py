"""The one Cholesky and the one QR."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from problems import check_close
from recyclegp.core import linalg
from recyclegp.errors import NotPositiveDefiniteError, RecycleGPError


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (3, 4), (4, 4), (5, 4), (40, 4), (7, 1), (0, 3)])
def test_compress_keeps_every_value(rows, columns):
    """‖Av − b‖² = ‖Tv − c‖² + residual for every v, in at most M rows."""
    rng = np.random.default_rng(rows * 10 + columns)
    A, b = torch.tensor(rng.standard_normal((rows, columns))), torch.tensor(rng.standard_normal(rows))
    small = linalg.compress(A, b)
    assert small.T.shape[0] <= min(rows, columns)
    for v in torch.tensor(rng.standard_normal((5, columns))):
        before, after = (A @ v - b).square().sum(), (small.T @ v - small.c).square().sum() + small.residual
        check_close(float(after), float(before), 1e-12)


def test_compress_of_a_rank_deficient_problem_keeps_every_value():
    """Repeated columns and rows that explain nothing are no exception."""
    rng = np.random.default_rng(0)
    column = torch.tensor(rng.standard_normal((9, 1)))
    A, b = torch.cat([column, 2 * column, torch.zeros(9, 1, dtype=torch.float64)], 1), torch.tensor(rng.normal(size=9))
    small = linalg.compress(A, b)
    for v in torch.tensor(rng.standard_normal((5, 3))):
        before, after = (A @ v - b).square().sum(), (small.T @ v - small.c).square().sum() + small.residual
        check_close(float(after), float(before), 1e-12)


def test_one_hopeless_matrix_among_many_is_nan():
    good = torch.eye(3, dtype=torch.float64)
    bad = -good
    L, jitter = linalg.cholesky(torch.stack([4 * good, bad, good]))
    assert torch.isnan(L[1]).all()
    torch.testing.assert_close(L[0], 2 * good)
    assert jitter[0] == jitter[2] == 0
    indefinite = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
    assert torch.isnan(linalg.cholesky(torch.stack([indefinite, good[:2, :2]])).L[0]).all()
    with pytest.raises(NotPositiveDefiniteError, match="jitter"):
        linalg.cholesky(indefinite)
    assert issubclass(NotPositiveDefiniteError, RecycleGPError)
