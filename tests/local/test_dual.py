"""Inference for any likelihood: pseudo-observations, their fixed point, and the site it makes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference as ref
from problems import check_close, check_site, evidence, many, observe, problems
from recyclegp.core import bounds, sites
from recyclegp.core.posterior import basis
from recyclegp.kernels import parse
from recyclegp.likelihoods import named
from recyclegp.local import dual


@many
@given(problem=problems())
def test_dual_site_of_gaussian_noise_is_collapsed_after_one_step(problem):
    """α = y/σ², β = 1/σ² from anywhere: one undamped step is the collapsed fit, e included."""
    data = problem.data()
    state = dual.fixed_point(data, steps=1)
    check_close(state.observed.beta, np.full(len(problem.y), 1 / problem.noise))
    check_close(state.observed.alpha, problem.y / problem.noise)
    site = sites.from_rows(problem.base.Z, problem.base.L, dual.rows(data, state), problem.mean)
    check_site(site, ref.collapsed_site(*problem.args))
    check_close(float(state.bound), ref.sgpr_bound(*problem.args), 1e-7)


@pytest.mark.parametrize(
    ("likelihood", "parameters"),
    [("bernoulli", ()), ("bernoulli-probit", ()), ("poisson", ()), ("student-t", (0.3, 5.0)), ("survival", (0.3,))],
)
@settings(many, max_examples=6)
@given(problem=problems())
def test_dual_site_is_the_table_entry(likelihood, parameters, problem):
    """Λ = Wᵀdiag(β)W, λ = Wᵀ(α − mβ∘(1 − W1)), and e such that E_q[log t] is the expected log-likelihood."""
    y = labels(problem, likelihood)
    data = problem.data(likelihood, y, parameters)
    state = dual.fixed_point(data)
    site = sites.from_rows(problem.base.Z, problem.base.L, dual.rows(data, state), problem.mean)
    alpha, beta = (t.numpy() for t in dual.bounded(data, state))
    W = problem.kernel.smooth()(problem.X, problem.Z) @ np.linalg.inv(problem.kernel(problem.Z, problem.Z))
    Lam = W.T @ (beta[:, None] * W)
    lam = W.T @ (alpha - problem.mean * beta * (1 - W.sum(1)))
    check_close(site.Rt.T @ site.Rt, Lam, 1e-7)
    check_close(site.Rt.T @ site.rho, lam, 1e-7)
    # the bound of (local), evaluated in NumPy at this q, is the integral of the site
    q = moments_of(problem, state)
    bound = ref.elbo(q, problem.kernel, problem.mean, problem.Z, problem.X, y, likelihood, parameters)
    check_close(float(state.bound), bound, 1e-6)
    if likelihood != "student-t":  # whose outliers are given more precision than q has
        check_close(evidence(site, problem), bound, 1e-6)


def test_an_outlier_is_no_unbounded_tilt():
    """Its pseudo-observation stays within three residuals, the mean of q where it was, and the rest untouched."""
    rng = np.random.default_rng(4)
    X = np.sort(rng.uniform(0, 2.5, (12, 1)) * [[1.0]], axis=0)
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.standard_normal(12)
    y[5] += 6.0
    kernel = parse("rbf", 1).with_theta(torch.tensor([0.2, -0.7], dtype=torch.float64))
    base = basis(kernel, torch.linspace(0, 2.5, 7, dtype=torch.float64)[:, None])
    mean = torch.tensor(0.3, dtype=torch.float64)
    data = dual.whiten(base, torch.tensor(X), torch.tensor(y), named("student-t", [0.01, 4.0]), mean)
    state = dual.fixed_point(data)
    before, after = state.observed, dual.bounded(data, state)
    m, _ = dual.marginals(data, state.v, state.C)
    residual = data.y - m
    assert float(before.alpha[5] / before.beta[5] - m[5]) > 1e3 * float(residual[5])
    assert (after.alpha / after.beta - m).abs().le(3.0001 * residual.abs()).all()
    torch.testing.assert_close(after.alpha - after.beta * m, before.alpha - before.beta * m)
    v, _ = dual.posterior(data, after, None)
    old, _ = dual.posterior(data, before, None)
    # the same slopes at the same mean: v̂ solves both problems
    torch.testing.assert_close(v, old, rtol=1e-5, atol=1e-6)


def labels(problem, likelihood):
    """Targets the likelihood accepts, from the same data."""
    y = problem.y - problem.mean
    if likelihood == "poisson":
        return np.round(np.exp(np.clip(y, -2, 2)))
    if likelihood == "survival":  # every third is censored
        return np.where(np.arange(len(y)) % 3 == 1, -1.0, 1.0) * np.exp(np.clip(problem.y, -3, 3))
    return (y > 0).astype(float) if likelihood.startswith("bernoulli") else problem.y


def moments_of(problem, state):
    """q(u) = N(m + Lv, L(CCᵀ)⁻¹Lᵀ)."""
    L = problem.base.L.numpy()
    half = L @ np.linalg.inv(state.C.numpy()).T
    return ref.Moments(problem.mean + L @ state.v.numpy(), half @ half.T)


@pytest.mark.parametrize(
    ("likelihood", "parameters"), [("bernoulli", ()), ("bernoulli-probit", ()), ("poisson", ()), ("survival", (0.3,))]
)
@settings(many, max_examples=4)
@given(problem=problems(), seed=st.integers(0, 2**31))
def test_dual_fixed_point_is_stationary(likelihood, parameters, problem, seed):
    """The NumPy ELBO does not rise in any direction of q's mean or covariance."""
    y = labels(problem, likelihood)
    state = dual.fixed_point(problem.data(likelihood, y, parameters), tolerance=1e-13)
    assert state.converged
    q = moments_of(problem, state)
    rng = np.random.default_rng(seed)
    half = np.linalg.cholesky(q.cov)
    M = len(problem.Z)

    def elbo(mean, factor):
        moved = ref.Moments(mean, factor @ factor.T)
        return ref.elbo(moved, problem.kernel, problem.mean, problem.Z, problem.X, y, likelihood, parameters, 0.1)

    best = elbo(q.mean, half)
    for _ in range(3):
        d, D, t = rng.standard_normal(M), np.tril(rng.standard_normal((M, M))), 1e-3
        towards = [elbo(q.mean + s * t * half @ d, half) for s in (1, -1)]
        around = [elbo(q.mean, half @ (np.eye(M) + s * t * D)) for s in (1, -1)]
        for up, down in (towards, around):
            assert abs(up - down) / (2 * t) < 1e-4
            assert max(up, down) <= best + 1e-9


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
@settings(many, max_examples=4)
@given(problem=problems(), other=problems())
def test_dual_fixed_point_beside_known_rows_is_stationary(likelihood, problem, other):
    """eq. (combined): with rows of modules already known, the bound is stationary in q as well."""
    base = observe(problem.base, other.site(marginal=True), problem.mean, marginal=False)
    data = problem.data(likelihood, labels(problem, likelihood), [])
    state = dual.fixed_point(data, base=base, tolerance=1e-13)
    v, C = state.v.clone().requires_grad_(), state.C.clone().requires_grad_()
    m, s2 = dual.marginals(data, v, C)
    expected = data.likelihood.expected_log_prob(data.y, m, s2)
    value = bounds.combined(expected, base, v, C)
    by_v, by_C = torch.autograd.grad(value, (v, C))
    check_close(float(value.detach()), float(state.bound), 1e-10)
    assert float(by_v.abs().max()) < 1e-4
    assert float(by_C.tril().abs().max()) < 1e-4


# --- many problems side by side ---


def random(*shape, seed=0):
    return torch.tensor(np.random.default_rng([seed, *shape]).normal(size=shape))


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "student-t", "gaussian"])
def test_fixed_points_are_those_of_each_problem_alone(likelihood):
    B, n, M = 4, 25, 3
    sizes = torch.tensor([25, 12, 19, 25])
    w = (torch.arange(n) < sizes[:, None]).double()
    X, Z, theta = random(B, n, 1), random(B, M, 1, seed=1), 0.5 * random(B, 2, seed=2)
    y = (random(B, n, seed=3) > 0).double() if likelihood != "poisson" else random(B, n, seed=3).abs().round()
    parameters = {"gaussian": 1, "student-t": 2}.get(likelihood, 0)
    observed = named(likelihood).with_logs(random(B, parameters, seed=4))
    mean = random(B, seed=5)
    data = dual.whiten(basis(parse("rbf", 1).with_theta(theta), Z), X, y, observed, mean, w)
    many = dual.fixed_points(data)
    rows = dual.rows(data, many)
    for i, size in enumerate(sizes.tolist()):
        one = data.select(i)
        one = one._replace(V=one.V[:, :size], spare=one.spare[:size], y=one.y[:size], w=one.w[:size])
        alone = dual.fixed_point(one)
        assert bool(many.converged[i])
        assert float(many.bound[i]) == pytest.approx(float(alone.bound), abs=1e-6)
        torch.testing.assert_close(many.v[i], alone.v, rtol=1e-3, atol=1e-3)
        assert float(rows.e[i]) == pytest.approx(float(dual.rows(one, alone).e), rel=1e-3, abs=1e-3)


def test_an_overflowing_problem_does_not_stop_the_others():
    """exp(f) overflows in one model; the other ends where it would end alone."""
    X = random(2, 10, 1)
    base = basis(parse("rbf", 1).with_theta(torch.zeros(2, 2, dtype=torch.float64)), X[:, :3])
    y = torch.ones(2, 10, dtype=torch.float64)
    mean = torch.tensor([0.3, 2000.0], dtype=torch.float64)
    many = dual.fixed_points(dual.whiten(base, X, y, named("poisson"), mean))
    assert bool(many.converged[0])
    assert not bool(torch.isfinite(many.bound[1]))
