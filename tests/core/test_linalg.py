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
    small = linalg.compress(linalg.Equations(A, b))
    assert small.T.shape[0] <= min(rows, columns)
    for v in torch.tensor(rng.standard_normal((5, columns))):
        before, after = (A @ v - b).square().sum(), (small.T @ v - small.c).square().sum() + small.residual
        check_close(float(after), float(before), 1e-12)


@pytest.mark.parametrize("leading", [(), (3,)])
def test_compress_of_parts_is_that_of_all_below_each_other(leading):
    rng = np.random.default_rng(5)
    parts = [
        linalg.Equations(*(torch.tensor(rng.standard_normal((*leading, n, *more))) for more in ((4,), ())))
        for n in (3, 0, 7, 1)
    ]
    whole = linalg.Equations(torch.cat([p.A for p in parts], -2), torch.cat([p.b for p in parts], -1))
    small = linalg.compress(*parts)
    v = torch.tensor(rng.standard_normal((*leading, 4, 1)))
    before = ((whole.A @ v)[..., 0] - whole.b).square().sum(-1)
    after = ((small.T @ v)[..., 0] - small.c).square().sum(-1) + small.residual
    np.testing.assert_allclose(after, before, rtol=1e-12)
    assert small.T.shape == (*leading, 4, 4)


def test_compress_of_a_rank_deficient_problem_keeps_every_value():
    """Repeated columns and rows that explain nothing are no exception."""
    rng = np.random.default_rng(0)
    column = torch.tensor(rng.standard_normal((9, 1)))
    A, b = torch.cat([column, 2 * column, torch.zeros(9, 1, dtype=torch.float64)], 1), torch.tensor(rng.normal(size=9))
    small = linalg.compress(linalg.Equations(A, b))
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


def nearly_definite(smallest, size, seed=0):
    """Eigenvalues around `size` but for one; the mean of the diagonal is their mean."""
    rng = np.random.default_rng(seed)
    values = np.array([smallest, 0.3, 0.9, 1.4, 2.2])
    U = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    A = size * (U * values) @ U.T
    return 0.5 * (A + A.T), size * values.mean()


@pytest.mark.parametrize("size", [1e-6, 1.0, 4e7])
@pytest.mark.parametrize(
    ("smallest", "first", "factor"), [(-3e-11, 0.0, 1e-10), (-2e-8, 0.0, 1e-7), (-2e-8, 3e-9, 3e-8)]
)
def test_jitter_grows_tenfold_from_what_is_given(size, smallest, first, factor):
    """From 1e-10 of the mean diagonal where none is given; the least of these that succeeds is added, and no more."""
    A, scale = nearly_definite(smallest, size)
    L, jitter = linalg.cholesky(torch.tensor(A), first * scale)
    assert float(jitter) == pytest.approx(factor * scale, rel=1e-9)
    np.testing.assert_allclose(L @ L.mT, A + factor * scale * np.eye(5), rtol=0, atol=1e-14 * scale)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_pivot_that_fails_anywhere_is_mended(place):
    """Also the very first."""
    values = np.array([1.0, 2.0, 3.0])
    values[place] = -2e-11
    L, jitter = linalg.cholesky(torch.tensor(np.diag(values)))
    assert float(jitter) == pytest.approx(1e-10 * values.mean(), rel=1e-9)
    np.testing.assert_allclose((L @ L.mT).diagonal(), values + float(jitter), rtol=0, atol=1e-15)


def test_jitter_is_added_only_to_those_that_need_it():
    cases = [(0.5, 0.0), (-2e-8, 1e-7), (-3e-11, 1e-10)]
    several = [nearly_definite(smallest, 3.0, seed=i)[0] for i, (smallest, _) in enumerate(cases)]
    L, jitter = linalg.cholesky(torch.tensor(np.stack(several)[None]))  # with two leading axes
    assert jitter.shape == (1, 3)
    for A, (smallest, factor), one, found in zip(several, cases, L[0], jitter[0], strict=True):
        expected = factor * nearly_definite(smallest, 3.0)[1]
        assert float(found) == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(one @ one.mT, A + expected * np.eye(5), rtol=0, atol=1e-14)


def test_a_matrix_that_needs_a_thousandth_of_its_diagonal_is_no_covariance():
    """Just below it is mended, just above it is refused, though a little more would have mended it."""
    A, scale = nearly_definite(-6e-4, 2.0)
    assert float(linalg.cholesky(torch.tensor(A), 9e-5 * scale).jitter) == pytest.approx(9e-4 * scale, rel=1e-9)
    with pytest.raises(NotPositiveDefiniteError, match="even with jitter"):
        linalg.cholesky(torch.tensor(A), 1.5e-4 * scale)


@pytest.mark.parametrize("diagonal", [0.0, -1.0, np.inf, np.nan])
def test_a_diagonal_that_is_not_positive_and_finite_is_refused_at_once(diagonal):
    with pytest.raises(NotPositiveDefiniteError, match="not positive and finite"):
        linalg.cholesky(diagonal * torch.ones(2, 2, dtype=torch.float64))


def test_triangular_solves():
    """L⁻¹B, L⁻ᵀB, BL⁻¹ and log det L, one by one and many at once."""
    rng = np.random.default_rng(1)
    L = np.tril(rng.standard_normal((3, 4, 4)), -1) + np.eye(4) * rng.uniform(0.5, 2.0, (3, 4))[:, None]
    B = rng.standard_normal((3, 4, 4))
    for l, b in ((L, B), (L[0], B[0])):
        lower, right = torch.tensor(l), torch.tensor(b)
        check_close(linalg.solve_lower(lower, right), np.linalg.inv(l) @ b, 1e-12)
        check_close(linalg.solve_upper(lower, right), np.linalg.inv(np.swapaxes(l, -1, -2)) @ b, 1e-12)
        check_close(linalg.solve_right(lower, right), b @ np.linalg.inv(l), 1e-12)
        check_close(linalg.logdet(lower), np.linalg.slogdet(l).logabsdet, 1e-12)


@pytest.mark.parametrize("rows", [0, 2, 5, 9])
def test_compress_of_many_problems_is_compress_of_each(rows):
    rng = np.random.default_rng(rows)
    A, b = torch.tensor(rng.standard_normal((2, 3, rows, 5))), torch.tensor(rng.standard_normal((2, 3, rows)))
    T, c, residual = linalg.compress(linalg.Equations(A, b))
    assert T.shape == (2, 3, min(rows, 5), 5)
    assert residual.shape == (2, 3)
    for v in torch.tensor(rng.standard_normal((4, 5))):
        before, after = (A @ v - b).square().sum(-1), (T @ v - c).square().sum(-1) + residual
        check_close(after, before.numpy(), 1e-12)


@pytest.mark.parametrize(("rows", "small"), [(1, 1), (2, 1), (7, 3), (40, 7), (40, 64)])
def test_inverse_by_halves_is_the_inverse(rows, small):
    """Also of a matrix with eigenvalues from 1 to 1e6, as covariances of pseudo-observations have them."""
    rng = np.random.default_rng(rows)
    Q = np.linalg.qr(rng.standard_normal((rows, rows)))[0]
    A = torch.tensor((Q * np.geomspace(1, 1e6, rows)) @ Q.T)
    L = torch.linalg.cholesky(A)
    found = linalg.inverse_by_halves(L, small)
    check_close(found, torch.cholesky_inverse(L).numpy(), 1e-10)
    check_close(found, found.mT.numpy(), 1e-12)
    check_close(linalg.inverse(L), torch.cholesky_inverse(L).numpy(), 0)
