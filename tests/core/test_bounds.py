"""The objectives against the least-squares problem they abbreviate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference as ref
from problems import check_close
from recyclegp.core import bounds, least_squares
from recyclegp.core.posterior import basis, features
from recyclegp.kernels import parse
from recyclegp.local.observations import gaussian_rows


def random(*shape, seed=0):
    return torch.tensor(np.random.default_rng([seed, *shape]).normal(size=shape))


def test_collapsed_bound_is_the_least_squares_problem():
    """Value and gradient, with padding, against rows and their solution."""
    B, n, M = 3, 17, 4
    X, y, Z = random(B, n, 2), random(B, n, seed=1), random(B, M, 2, seed=2)
    w = (torch.arange(n) < torch.tensor([17, 11, 14])[:, None]).double()
    theta = (0.3 * random(B, 3, seed=3)).requires_grad_()
    noise, mean = random(B, seed=4).exp().requires_grad_(), random(B, seed=5).requires_grad_()
    base = basis(parse("matern52", 2).with_theta(theta), Z)
    a = bounds.collapsed(features(base, X), base.kernel.diagonal(X), y, mean, noise, w)
    rows = gaussian_rows(base, X, y, noise, marginal=False, w=w)
    b = least_squares.solve(least_squares.centre(rows, mean)).bound
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    grads = [torch.autograd.grad(v.sum(), (theta, noise, mean), retain_graph=True) for v in (a, b)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_log_marginal_is_the_density_of_the_rows_that_count():
    """log N(y; m1, K + σ²I) of three data sets side by side, with padding anywhere and of any value."""
    B, n = 3, 6
    rng = np.random.default_rng(3)
    G = rng.standard_normal((B, n, n))
    K, y, mean, noise = G @ np.swapaxes(G, 1, 2), rng.normal(2, 1, (B, n)), rng.normal(1, 1, B), rng.uniform(0.1, 2, B)
    w = np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0]], dtype=float)
    found = bounds.log_marginal(*(torch.tensor(t) for t in (K, y, mean, noise, w)))
    for i in range(B):
        kept = w[i] == 1
        cov = K[i][np.ix_(kept, kept)] + noise[i] * np.eye(kept.sum())
        expected = ref.log_normal(y[i, kept], np.full(kept.sum(), mean[i]), cov)
        alone = bounds.log_marginal(*(torch.tensor(t[i]) for t in (K, y, mean, noise, w)))
        check_close([float(found[i]), float(alone)], [expected] * 2, 1e-10)


@pytest.mark.parametrize("spare", [1.5, 1e-3])
def test_collapsed_bound_is_titsias(spare):
    """log N(y; m1, VᵀV + σ²I) − tr(K − VᵀV)/2σ², of the rows that count."""
    B, n, M = 2, 7, 3
    rng = np.random.default_rng(4)
    V, y, mean, noise = (
        rng.normal(size=(B, M, n)),
        rng.normal(2, 1, (B, n)),
        rng.normal(1, 1, B),
        rng.uniform(0.1, 2, B),
    )
    k = np.square(V).sum(1) + spare * rng.uniform(0.1, 1.0, (B, n))
    w = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0]], dtype=float)
    found = bounds.collapsed(*(torch.tensor(t) for t in (V, k, y, mean, noise, w)))
    for i in range(B):
        kept = w[i] == 1
        Q = V[i][:, kept].T @ V[i][:, kept]
        density = ref.log_normal(y[i, kept], np.full(kept.sum(), mean[i]), Q + noise[i] * np.eye(kept.sum()))
        expected = density - (k[i, kept] - np.diag(Q)).sum() / (2 * noise[i])
        alone = bounds.collapsed(*(torch.tensor(t[i]) for t in (V, k, y, mean, noise, w)))
        check_close([float(found[i]), float(alone)], [expected] * 2, 1e-10)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_bounds_of_any_gaussian_are_its_expectations(batch):
    """KL to the prior, E_q[log t] of rows, and the sums of both that are (local) and (combined)."""
    M, r, n = 4, 3, 5
    v, C = random(*batch, M, seed=1), random(*batch, M, M, seed=2).tril(-1)
    C = C + torch.diag_embed(random(*batch, M, seed=3).exp())
    rows = least_squares.CentredRows(
        random(*batch, r, M, seed=4), random(*batch, r, seed=5), random(*batch, seed=6), random(*batch, seed=7).exp()
    )
    expected = random(*batch, n, seed=8)
    found = (bounds.kl(v, C), bounds.expected_rows(rows, v, C))
    found += (bounds.local(expected, v, C), bounds.combined(expected, rows, v, C))
    for at in np.ndindex(*batch):
        mu, factor = v[at].numpy(), C[at].numpy()
        S = np.linalg.inv(factor @ factor.T)
        kl = ref.kl(ref.Moments(mu, S), ref.Moments(np.zeros(M), np.eye(M)))
        H, rho, e, slack = (t[at].numpy() for t in rows)
        log_t = e - slack - 0.5 * (((H @ mu - rho) ** 2).sum() + np.trace(H @ S @ H.T))
        data = expected[at].numpy().sum()
        for one, other in zip(found, (kl, log_t, data - kl, data + log_t - kl), strict=True):
            assert one.shape == batch
            check_close(float(one[at]), other, 1e-10)
