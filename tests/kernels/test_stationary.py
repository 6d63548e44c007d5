"""Correlations of the distance: fixed points and moving ones, few columns and many, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference as ref
from recyclegp.kernels.stationary import FEW_COLUMNS, Form, correlation, covariance, squared_distance

NU = {Form.MATERN12: 0.5, Form.MATERN32: 1.5, Form.MATERN52: 2.5}
forms = pytest.mark.parametrize("form", list(Form))
widths = pytest.mark.parametrize("D", [1, 2, FEW_COLUMNS + 3])


def formula(form, X1, X2, lengthscales):
    return ref.rbf(X1, X2, lengthscales) if form is Form.RBF else ref.matern(X1, X2, lengthscales, NU[form])


def generic(D, seed=0):
    """Two sets of points, none at the origin, and a lengthscale for each column."""
    rng = np.random.default_rng([seed, D])
    lengthscales = np.sqrt(D) * rng.uniform(0.5, 2.0, D)
    return rng.normal(0.7, 1.0, (6, D)), rng.normal(-0.2, 1.3, (4, D)), lengthscales


@forms
@widths
@pytest.mark.parametrize("moving", ["none", "first", "second"])
def test_points_that_move_have_the_same_correlation(form, D, moving):
    """The formula for autograd and the one for fixed points are one function."""
    X1, X2, lengthscales = generic(D)
    first, second = torch.tensor(X1), torch.tensor(X2)
    first.requires_grad_(moving == "first")
    second.requires_grad_(moving == "second")
    found = correlation(form, torch.tensor(lengthscales).log(), first, second)
    assert found.requires_grad == (moving != "none")
    np.testing.assert_allclose(found.detach(), formula(form, X1, X2, lengthscales), rtol=1e-12, atol=1e-13)


@forms
@widths
@pytest.mark.parametrize("moving", [False, True])
def test_derivative_by_lengthscales_is_the_slope_of_the_formula(form, D, moving):
    """Against central differences of NumPy's values; a lengthscale for each column, and one for all."""
    X1, X2, lengthscales = generic(D, seed=1)
    weights = np.random.default_rng(2).standard_normal((6, 4))
    for start in (np.log(lengthscales), np.log(lengthscales[:1])):
        theta = torch.tensor(start, requires_grad=True)
        points = torch.tensor(X1, requires_grad=moving)
        total = (torch.tensor(weights) * correlation(form, theta, points, torch.tensor(X2))).sum()
        (found,) = torch.autograd.grad(total, theta)
        for i, step in enumerate(1e-5 * np.eye(len(start))):
            up, down = ((weights * formula(form, X1, X2, np.exp(start + s * step))).sum() for s in (1, -1))
            assert float(found[i]) == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-8)


@forms
@widths
def test_a_variance_is_a_factor_and_the_derivative_by_its_logarithm_the_matrix(form, D):
    """Two models with variances of their own, and with equal lengthscales or their own."""
    X1, X2, lengthscales = generic(D, seed=5)
    log_variance = torch.tensor([[-3.0], [4.0]], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor(np.random.default_rng(6).standard_normal((2, 6, 4)))
    for theta in (torch.tensor(lengthscales).log(), torch.tensor(np.stack([lengthscales, 2 * lengthscales])).log()):
        theta = theta.expand(2, -1).clone().requires_grad_()
        found = covariance(form, log_variance, theta, torch.tensor(X1), torch.tensor(X2))
        expected = log_variance.exp()[..., None] * correlation(form, theta, torch.tensor(X1), torch.tensor(X2))
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-14)
        both = [torch.autograd.grad((weights * K).sum(), (log_variance, theta)) for K in (found, expected)]
        for one, other in zip(*both, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)
    moving = covariance(form, log_variance, theta, torch.tensor(X1, requires_grad=True), torch.tensor(X2))
    torch.testing.assert_close(moving, found, rtol=1e-12, atol=1e-12)


@forms
@widths
def test_models_of_a_batch_that_share_parameters_add_their_derivatives(form, D):
    """Many sets of points, one variance and one vector of lengthscales."""
    rng = np.random.default_rng(D)
    X1, X2, weights = (torch.tensor(rng.normal(size=shape)) for shape in ((3, 5, D), (3, 4, D), (3, 5, 4)))
    log_variance, theta = torch.tensor([0.7]).double().requires_grad_(), torch.zeros(D).double().requires_grad_()
    both = (log_variance, theta)
    together = torch.autograd.grad((weights * covariance(form, *both, X1, X2)).sum(), both)
    alone = [
        torch.autograd.grad((weights[i] * covariance(form, *both, X1[i], X2[i])).sum(), both) for i in range(len(X1))
    ]
    for found, parts in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(found, sum(parts), rtol=1e-10, atol=1e-11)


@forms
def test_a_point_that_meets_itself_has_correlation_one_and_no_slope(form):
    """Also where distances are roots, whose derivative at zero is infinite."""
    X, _, lengthscales = generic(3)
    points, theta = torch.tensor(X, requires_grad=True), torch.tensor(lengthscales).log().requires_grad_()
    for found in (
        correlation(form, theta, points, torch.tensor(X)),
        correlation(form, theta, points.detach(), torch.tensor(X)),
    ):
        np.testing.assert_allclose(found.detach().diagonal(), np.ones(len(X)), atol=1e-7)
        inputs = [theta, points] if found.grad_fn.name() != "_CovarianceBackward" else [theta]
        for gradient in torch.autograd.grad(found.diagonal().sum(), inputs):
            np.testing.assert_allclose(gradient, np.zeros(gradient.shape), atol=1e-6)


@forms
@widths
def test_no_correlation_exceeds_one(form, D):
    """Where points are a million lengthscales apart rounding errors of squared distances are not small."""
    X = np.random.default_rng(D).uniform(-1e4, 1e4, (40, D))
    found = correlation(form, torch.full((D,), np.log(1e-2)), torch.tensor(X), torch.tensor(X)).numpy()
    assert np.isfinite(found).all()
    assert found.max() <= 1
    assert found.min() >= 0


@widths
def test_squared_distances(D):
    """‖a − b‖², never negative."""
    X1, X2, _ = generic(D, seed=4)
    found = squared_distance(torch.tensor(X1), torch.tensor(X2))
    np.testing.assert_allclose(found, ((X1[:, None] - X2) ** 2).sum(-1), rtol=1e-12, atol=1e-13)
    far = torch.tensor(1e6 * np.random.default_rng(D).standard_normal((40, D)))
    assert float(squared_distance(far, far).min()) >= 0


@forms
@widths
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("moving", [False, True])
def test_many_sets_of_points_side_by_side(form, D, n, moving):
    """Each with its own lengthscales; a set may be a single point."""
    rng = np.random.default_rng([D, n])
    X1, X2, lengthscales = rng.normal(0, 1, (3, n, D)), rng.normal(0, 1, (3, 4, D)), rng.uniform(1, 4, (3, D))
    points = torch.tensor(X1, requires_grad=moving)
    found = correlation(form, torch.tensor(lengthscales).log(), points, torch.tensor(X2)).detach()
    for i in range(3):
        np.testing.assert_allclose(found[i], formula(form, X1[i], X2[i], lengthscales[i]), rtol=1e-12, atol=1e-13)
