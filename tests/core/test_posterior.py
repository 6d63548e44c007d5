"""Bases and predictions against dense Gaussian algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference as ref
from problems import SCALE, Problem, check_close, spread
from recyclegp.core import least_squares, linalg, posterior
from recyclegp.core.posterior import Posterior, basis, features
from recyclegp.kernels import parse


def problem(seed=5):
    rng = np.random.default_rng(seed)
    X = SCALE * rng.uniform(0, 2.5, (9, 2))
    y = 1.3 + np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(9)
    return Problem(ref.Kernel("matern32", tuple(0.6 * SCALE), 1.7), spread(rng, 6), X, y, -0.8, 0.15)


def fitted(p):
    """The library's posterior, and the site it is made of in the reference."""
    v, C, _ = least_squares.solve(p.rows(marginal=True))
    mean = torch.tensor(p.mean, dtype=torch.float64)
    return Posterior(p.base, mean, v, C), ref.exact_site(*p.args)


def test_predictions_in_chunks_are_the_dense_conditional(monkeypatch):
    p = problem()
    found, site = fitted(p)
    Xt = SCALE * np.random.default_rng(6).uniform(-0.5, 3, (11, 2))
    expected = ref.site_posterior(site, p.kernel, p.mean, Xt)
    for points in (posterior.POINTS, 4, 1):
        monkeypatch.setattr(posterior, "POINTS", points)
        mean, variance = found.predict(torch.tensor(Xt))
        check_close(mean, expected.mean, 1e-8)
        check_close(variance, np.diag(expected.cov), 1e-8)


def test_joint_predictions_of_a_batch_are_the_dense_conditionals():
    """Covariances between the rows of one set, none between sets."""
    p = problem()
    found, site = fitted(p)
    Xt = SCALE * np.random.default_rng(7).uniform(-0.5, 3, (2, 3, 5, 2))
    mean, covariance = found.joint(torch.tensor(Xt))
    assert mean.shape == (2, 3, 5)
    assert covariance.shape == (2, 3, 5, 5)
    for at in np.ndindex(2, 3):
        expected = ref.site_posterior(site, p.kernel, p.mean, Xt[at])
        check_close(mean[at], expected.mean, 1e-8)
        check_close(covariance[at], expected.cov, 1e-8)


def test_a_variance_is_never_negative():
    """Where everything is known rounding may leave either sign; here a factor that is a little short says so."""
    p = problem()
    short = p.base._replace(L=0.99 * p.base.L)
    certain = Posterior(short, short.L.new_zeros(()), short.L.new_zeros(6), 1e9 * torch.eye(6, dtype=torch.float64))
    left = p.spec.diagonal(p.base.Z) - features(short, p.base.Z).square().sum(0)
    assert float(left.max()) < 0  # otherwise nothing is tested
    assert certain.predict(p.base.Z).variance.tolist() == [0.0] * 6


def test_a_basis_takes_the_smallest_jitter_or_the_one_it_is_given():
    """Relative to the mean of the diagonal, which is not the same everywhere."""
    rng = np.random.default_rng(3)
    Z = spread(rng, 5)
    theta = torch.tensor([0.4, *np.log(0.5 * SCALE), *np.log([0.3, 0.05]), 0.2, -0.1], dtype=torch.float64)
    kernel = parse("rbf + linear", 2).with_theta(theta)
    K = np.exp(0.4) * ref.rbf(Z, Z, 0.5 * SCALE) + ref.linear(Z, Z, (0.3, 0.05), (0.2, -0.1))
    for given, expected in ((None, linalg.RELATIVE_JITTER * np.diag(K).mean()), (0.03, 0.03), (0.0, 0.0)):
        base = basis(kernel, torch.tensor(Z), given)
        assert float(base.jitter) == pytest.approx(expected, rel=1e-12)
        check_close(base.L @ base.L.mT, K + expected * np.eye(5), 1e-13)


def test_padding_is_worth_nothing():
    """Two models of unlike size: the real points' factor and features are theirs alone, padding has no features."""
    rng = np.random.default_rng(4)
    Z, X, counts = np.stack([spread(rng, 7), spread(rng, 7)]), SCALE * rng.uniform(0, 2, (2, 4, 2)), (4, 7)
    theta = torch.tensor(np.log([[1.3, *(0.5 * SCALE)], [0.4, *(0.8 * SCALE)]]))
    kernel = parse("rbf", 2).with_theta(theta)
    real = torch.arange(7) < torch.tensor(counts)[:, None]
    base = basis(kernel, torch.tensor(Z), 1e-3, real)
    V = features(base, torch.tensor(X)).numpy()
    deeper = basis(kernel.with_theta(theta[None]), torch.tensor(Z)[None], 1e-3, real[None])  # one more leading axis
    check_close(deeper.L[0], base.L.numpy(), 1e-13)
    check_close(features(deeper, torch.tensor(X)[None])[0], V, 1e-13)
    for i, (n, variance, lengths) in enumerate(zip(counts, (1.3, 0.4), (0.5 * SCALE, 0.8 * SCALE), strict=True)):
        K = variance * ref.rbf(Z[i, :n], Z[i, :n], lengths) + 1e-3 * np.eye(n)
        L = np.linalg.cholesky(K)
        check_close(base.L[i, :n, :n], L, 1e-12)
        assert (base.L[i, n:, :n] == 0).all()
        check_close(V[i, :n], np.linalg.solve(L, variance * ref.rbf(Z[i, :n], X[i], lengths)), 1e-11)
        assert (V[i, n:] == 0).all()


def test_a_copy_may_be_written_to():
    found, _ = fitted(problem())
    found = found._replace(basis=found.basis._replace(real=torch.ones(6, dtype=torch.bool)))

    def tensors(q):
        base = q.basis
        return [*q[1:], base.Z, base.L, base.jitter, base.kernel.theta, base.real]

    before = [t.clone() for t in tensors(found)]
    copied = found.copy()
    for t, same in zip(tensors(copied), before, strict=True):
        assert torch.equal(t, same)
        t.zero_()
    assert all(torch.equal(t, same) for t, same in zip(tensors(found), before, strict=True))
