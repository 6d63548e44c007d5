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


@pytest.mark.parametrize("own", [False, True])
def test_collapsed_bound_is_the_least_squares_problem(own):
    """Value and gradient, with padding and with noises of their own, against rows and their solution."""
    B, n, M = 3, 17, 4
    X, y, Z = random(B, n, 2), random(B, n, seed=1), random(B, M, 2, seed=2)
    w = (torch.arange(n) < torch.tensor([17, 11, 14])[:, None]).double()
    w = w * random(B, n, seed=6).exp() if own else w
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
    """log N(y; m1, K + σ²W⁻²) of four data sets side by side, with padding anywhere and of any value."""
    B, n = 4, 6
    rng = np.random.default_rng(3)
    G = rng.standard_normal((B, n, n))
    K, y, mean, noise = G @ np.swapaxes(G, 1, 2), rng.normal(2, 1, (B, n)), rng.normal(1, 1, B), rng.uniform(0.1, 2, B)
    w = [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0], [0.2, 0, 1, 3.1, 0.7, 0]]
    w = np.array(w, dtype=float)
    found = bounds.log_marginal(*(torch.tensor(t) for t in (K, y, mean, noise, w)))
    for i in range(B):
        kept = w[i] > 0
        cov = K[i][np.ix_(kept, kept)] + np.diag(noise[i] / w[i, kept] ** 2)
        expected = ref.log_normal(y[i, kept], np.full(kept.sum(), mean[i]), cov)
        alone = bounds.log_marginal(*(torch.tensor(t[i]) for t in (K, y, mean, noise, w)))
        check_close([float(found[i]), float(alone)], [expected] * 2, 1e-10)


def padded_batch(own=False, B=4, n=9, seed=6):
    """K, y, m, σ² and w of B models; padding anywhere and of any value, one model without and one with a single row.

    With `own`, rows have noises of their own.
    """
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((B, n, n + 2))
    w = (rng.uniform(size=(B, n)) < 0.6).astype(float)
    w[0], w[1], w[1, 4] = 1.0, 0.0, 1.0
    known = G @ np.swapaxes(G, 1, 2), rng.normal(2, 1, (B, n)), rng.normal(1, 1, B), rng.uniform(0.1, 2, B)
    return *known, w * rng.uniform(0.3, 3, (B, n)) if own else w


def by_autograd(K, y, mean, noise, w):
    """The same density with every step left to autograd."""
    real = (w > 0).double()
    A = real[..., :, None] * K * real[..., None, :]
    A = A + torch.diag_embed(real * noise[..., None] / torch.where(w > 0, w, 1.0).square() + (1 - real))
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(y), A)
    return normal.log_prob(real * (y - mean[..., None])) + 0.5 * (1 - real).sum(-1) * np.log(2 * np.pi)


@pytest.mark.parametrize("own", [False, True])
def test_derivatives_of_log_marginal_are_those_of_autograd(own):
    """By K, y, m and σ², each model weighted differently; any leading axes."""
    K, y, mean, noise, w = (torch.tensor(t) for t in padded_batch(own))
    for shape in [(4,), (2, 2), ()]:
        *inputs, kept = (t[0] if shape == () else t.reshape(*shape, *t.shape[1:]) for t in (K, y, mean, noise, w))
        weights = random(*shape, seed=1)
        grads = []
        for f in (bounds.log_marginal, by_autograd):
            leaves = [t.clone().requires_grad_() for t in inputs]
            grads.append(torch.autograd.grad((weights * f(*leaves, kept)).sum(), leaves))
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("own", [False, True])
def test_derivatives_of_log_marginal_are_the_slopes_of_the_density(own):
    """Central differences of NumPy's log N(y; m1, K + σ²W⁻²), of the rows that count alone."""
    K, y, mean, noise, w = padded_batch(own)
    leaves = [torch.tensor(t, requires_grad=True) for t in (K, mean, noise)]
    value = bounds.log_marginal(leaves[0], torch.tensor(y), *leaves[1:], torch.tensor(w))
    by_K, by_mean, by_noise = (g.numpy() for g in torch.autograd.grad(value.sum(), leaves))
    rng = np.random.default_rng(7)
    for i in range(len(K)):
        kept = w[i] > 0

        def density(turn, i=i, kept=kept):
            cov = (K[i] + turn[0])[np.ix_(kept, kept)] + np.diag((noise[i] + turn[2]) / w[i, kept] ** 2)
            return ref.log_normal(y[i, kept], np.full(kept.sum(), mean[i] + turn[1]), cov)

        D = rng.standard_normal(K[i].shape)
        D = D + D.T  # what moves a covariance is symmetric
        for turn, found in (((D, 0, 0), (by_K[i] * D).sum()), ((0, 1, 0), by_mean[i]), ((0, 0, 1), by_noise[i])):
            up, down = (density([s * 1e-5 * t for t in turn]) for s in (1, -1))
            assert found == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-7)


def test_log_marginal_of_a_model_without_a_density_leaves_the_others_alone():
    K, y, mean, noise, w = (torch.tensor(t) for t in padded_batch())
    K[2] = -K[2]
    K.requires_grad_()
    value = bounds.log_marginal(K, y, mean, noise, w)
    assert torch.isfinite(value).tolist() == [True, True, False, True]
    (slope,) = torch.autograd.grad(value[[0, 1, 3]].sum(), K)
    alone = K.detach()[[0, 1, 3]].requires_grad_()
    others = [t[[0, 1, 3]] for t in (y, mean, noise, w)]
    (expected,) = torch.autograd.grad(bounds.log_marginal(alone, *others).sum(), alone)
    torch.testing.assert_close(slope[[0, 1, 3]], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spare", [1.5, 1e-3])
def test_collapsed_bound_is_titsias(spare):
    """log N(y; m1, VᵀV + σ²W⁻²) − tr W²(K − VᵀV)/2σ², of the rows that count."""
    B, n, M = 3, 7, 3
    rng = np.random.default_rng(4)
    V, y, mean, noise = (
        rng.normal(size=(B, M, n)),
        rng.normal(2, 1, (B, n)),
        rng.normal(1, 1, B),
        rng.uniform(0.1, 2, B),
    )
    k = np.square(V).sum(1) + spare * rng.uniform(0.1, 1.0, (B, n))
    w = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0], [0.4, 2.2, 0, 1, 0.9, 0, 0.1]], dtype=float)
    found = bounds.collapsed(*(torch.tensor(t) for t in (V, k, y, mean, noise, w)))
    for i in range(B):
        kept = w[i] > 0
        Q, own = V[i][:, kept].T @ V[i][:, kept], noise[i] / w[i, kept] ** 2
        density = ref.log_normal(y[i, kept], np.full(kept.sum(), mean[i]), Q + np.diag(own))
        expected = density - ((k[i, kept] - np.diag(Q)) / (2 * own)).sum()
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


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_collapsed_bound_has_its_closed_form_gradient(padded, own):
    """Against finite differences, in everything that is learned."""
    rng = np.random.default_rng(4)
    V, y, mean = 0.4 * rng.normal(size=(3, 4, 9)), rng.normal(size=(3, 9)), rng.normal(size=3)
    k, noise = (V**2).sum(1) + rng.uniform(0.3, 1.3, (3, 9)), rng.uniform(0.2, 1.2, 3)
    w = torch.tensor((rng.uniform(size=(3, 9)) > 0.3) if padded else np.ones((3, 9)), dtype=torch.float64)
    w = w * torch.tensor(rng.uniform(0.3, 2.0, (3, 9))) if own else w
    values = [torch.tensor(t, requires_grad=True) for t in (V, k, y, mean, noise)]
    assert torch.autograd.gradcheck(lambda *t: bounds.collapsed(*t, w), values)
