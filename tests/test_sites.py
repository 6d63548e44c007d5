"""Every formula for (R, ρ, e) of the mathematics' table, against dense Gaussian algebra with m ≠ 0."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import reference as ref
from recyclegp import blocks, bounds, dual, kernels, learn, least_squares, likelihoods, linalg, shelf, sites
from recyclegp.posterior import basis

many = settings(max_examples=20, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
SCALE = np.array([0.6, 5.0])


@st.composite
def problems(draw):
    """A kernel, points, data and a prior mean, none of them special."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["rbf", "matern12", "matern32", "matern52"]))
    lengthscales = tuple(s * draw(st.floats(0.3, 0.7)) for s in SCALE)
    kernel = ref.Kernel(kind, lengthscales, draw(st.floats(0.3, 3.0)))
    Z = spread(rng, draw(st.integers(3, 8)))
    n = draw(st.integers(2, 15))
    X = SCALE * rng.uniform(0, 2.5, (n, 2))
    mean, noise = draw(st.floats(-2, 3)), draw(st.floats(0.02, 0.8))
    y = mean + 1.5 * np.sin(X[:, 0] * 3) + math.sqrt(noise) * rng.standard_normal(n)
    return Problem(kernel, Z, X, y, mean, noise)


def spread(rng, count):
    """A perturbed lattice: points far enough apart for explicit inverses."""
    lattice = np.array([(i, j) for i in range(3) for j in range(3)], dtype=float)
    return SCALE * (lattice[rng.permutation(9)[:count]] + rng.uniform(-0.25, 0.25, (count, 2)))


class Problem:
    """The same numbers for the library (a basis) and for the reference (a kernel with the basis' jitter)."""

    def __init__(self, kernel, Z, X, y, mean, noise):
        theta = torch.tensor([kernel.variance, *kernel.lengthscales], dtype=torch.float64).log()
        self.spec = kernels.parse(kernel.kind, 2, (0.0, 0.0)).replace(theta)
        self.base = basis(self.spec.tree, theta, torch.tensor(Z))
        self.kernel = replace(kernel, nugget=float(self.base.jitter))
        self.Z, self.X, self.y, self.mean, self.noise = Z, X, y, mean, noise
        self.args = (self.kernel, Z, X, y, mean, np.full(len(y), noise))

    def __repr__(self):
        return f"Problem({self.kernel}, {len(self.y)} rows, {len(self.Z)} points, m={self.mean}, noise={self.noise})"

    def rows(self, *, marginal):
        X, y, noise = torch.tensor(self.X), torch.tensor(self.y), torch.tensor(self.noise, dtype=torch.float64)
        return least_squares.centre(learn.gaussian_rows(self.base, X, y, noise, marginal=marginal), self.mean)

    def site(self, *, marginal):
        return sites.from_rows(self.base.Z, self.base.L, self.rows(marginal=marginal), self.mean)

    def data(self, likelihood="gaussian", y=None, log_p=None):
        y = self.y if y is None else y
        log_p = torch.tensor([math.log(self.noise)] if log_p is None else log_p, dtype=torch.float64)
        mean = torch.tensor(self.mean, dtype=torch.float64)
        return learn.dual_data(self.base, torch.tensor(self.X), torch.tensor(y), likelihood, log_p, mean)


def check_close(actual, expected, tolerance=1e-8):
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


def log_t(site, u):
    """log t(u) = e − ½‖Rᵀu − ρ‖², as the library defines it."""
    return float(site.e) - 0.5 * float(((site.Rt.numpy() @ u - site.rho.numpy()) ** 2).sum())


def check_site(site, expected, tolerance=1e-7):
    """Λ, λ, and the very value of log t at a few u."""
    Rt, rho = site.Rt.numpy(), site.rho.numpy()
    assert len(Rt) <= len(site.Z)
    check_close(Rt.T @ Rt, expected.Lam, tolerance)
    check_close(Rt.T @ rho, expected.lam, tolerance)
    for u in np.random.default_rng(3).normal(0.4, 1.7, (4, len(expected.lam))):
        check_close(log_t(site, u), expected(u), tolerance)


def evidence(site, problem):
    rows = sites.to_rows(site, problem.base.L, problem.mean)
    return float(least_squares.solve(rows, 0.0).bound)


# --- the table --------------------------------------------------------------------------------


@many
@given(problem=problems())
def test_exact_site_is_the_likelihood_of_the_values_at_z(problem):
    """Rᵀ = G⁻¹W, ρ = G⁻¹r, e = −(n/2)log 2π − logdet G is log p(y|u); its integral is log p(y)."""
    site = problem.site(marginal=True)
    check_site(site, ref.exact_site(*problem.args))
    exact = ref.exact_evidence(problem.kernel.smooth(), problem.X, problem.y, problem.mean, problem.args[-1])
    check_close(evidence(site, problem), exact, 1e-7)


@many
@given(problem=problems())
def test_collapsed_site_is_the_variational_likelihood(problem):
    """Rᵀ = W/σ, ρ = r/σ, e = −(n/2)log 2πσ² − tr Q/2σ²; its integral is Titsias' bound."""
    site = problem.site(marginal=False)
    check_site(site, ref.collapsed_site(*problem.args))
    check_close(evidence(site, problem), ref.sgpr_bound(*problem.args), 1e-7)


@many
@given(problem=problems())
def test_streaming_changes_nothing(problem):
    """Folding chunks of data into one triangle is the same site as all data at once."""
    X, y, noise = torch.tensor(problem.X), torch.tensor(problem.y), torch.tensor(problem.noise, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn, "CHUNK", 2)
        rows = learn.stream(problem.base, X, y, noise, problem.mean)
    check_site(sites.from_rows(problem.base.Z, problem.base.L, rows, problem.mean), ref.collapsed_site(*problem.args))


@many
@given(problem=problems())
def test_dual_site_of_gaussian_noise_is_collapsed_after_one_step(problem):
    """α = y/σ², β = 1/σ² from anywhere: one undamped step is the collapsed fit, e included."""
    data = problem.data()
    state = dual.fixed_point(data, steps=1)
    check_close(state.sites.beta, np.full(len(problem.y), 1 / problem.noise))
    check_close(state.sites.alpha, problem.y / problem.noise)
    site = sites.from_rows(problem.base.Z, problem.base.L, dual.rows(data, state), problem.mean)
    check_site(site, ref.collapsed_site(*problem.args))
    check_close(float(state.bound), ref.sgpr_bound(*problem.args), 1e-7)


@pytest.mark.parametrize(
    ("likelihood", "log_p"),
    [("bernoulli", []), ("bernoulli-probit", []), ("poisson", []), ("student-t", [math.log(0.3), math.log(5.0)])],
)
@settings(many, max_examples=6)
@given(problem=problems())
def test_dual_site_is_the_table_entry(likelihood, log_p, problem):
    """Λ = Wᵀdiag(β)W, λ = Wᵀ(α − mβ∘(1 − W1)), and e such that E_q[log t] is the expected log-likelihood."""
    y = labels(problem, likelihood)
    data = problem.data(likelihood, y, log_p)
    state = dual.fixed_point(data)
    site = sites.from_rows(problem.base.Z, problem.base.L, dual.rows(data, state), problem.mean)
    alpha, beta = (t.numpy() for t in state.sites)
    W = problem.kernel.smooth()(problem.X, problem.Z) @ np.linalg.inv(problem.kernel(problem.Z, problem.Z))
    Lam = W.T @ (beta[:, None] * W)
    lam = W.T @ (alpha - problem.mean * beta * (1 - W.sum(1)))
    check_close(site.Rt.T @ site.Rt, Lam, 1e-7)
    check_close(site.Rt.T @ site.rho, lam, 1e-7)
    # the bound of (local), evaluated in NumPy at this q, is the integral of the site
    q = moments_of(problem, state)
    parameters = tuple(math.exp(p) for p in log_p)
    bound = ref.elbo(q, problem.kernel, problem.mean, problem.Z, problem.X, y, likelihood, parameters)
    check_close(float(state.bound), bound, 1e-6)
    check_close(evidence(site, problem), bound, 1e-6)


def labels(problem, likelihood):
    """Targets the likelihood accepts, from the same data."""
    y = problem.y - problem.mean
    if likelihood == "poisson":
        return np.round(np.exp(np.clip(y, -2, 2)))
    return (y > 0).astype(float) if likelihood.startswith("bernoulli") else problem.y


def moments_of(problem, state):
    """q(u) = N(m + Lv, L(CCᵀ)⁻¹Lᵀ)."""
    L = problem.base.L.numpy()
    half = L @ np.linalg.inv(state.C.numpy()).T
    return ref.Moments(problem.mean + L @ state.v.numpy(), half @ half.T)


@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit", "poisson"])
@settings(many, max_examples=4)
@given(problem=problems(), seed=st.integers(0, 2**31))
def test_dual_fixed_point_is_stationary(likelihood, problem, seed):
    """The NumPy ELBO does not rise in any direction of q's mean or covariance."""
    y = labels(problem, likelihood)
    state = dual.fixed_point(problem.data(likelihood, y, []), tolerance=1e-13)
    assert state.converged
    q = moments_of(problem, state)
    rng = np.random.default_rng(seed)
    half = np.linalg.cholesky(q.cov)
    M = len(problem.Z)

    def elbo(mean, factor):
        moved = ref.Moments(mean, factor @ factor.T)
        return ref.elbo(moved, problem.kernel, problem.mean, problem.Z, problem.X, y, likelihood, (), 0.1)

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
    base = blocks.observe(problem.base, other.site(marginal=True), problem.mean, marginal=False)
    data = problem.data(likelihood, labels(problem, likelihood), [])
    state = dual.fixed_point(data, base=base, tolerance=1e-13)
    v, C = state.v.clone().requires_grad_(), state.C.clone().requires_grad_()
    m, s2 = dual.marginals(data, v, C)
    expected = likelihoods.expected_log_prob(likelihood, data.y, m, s2, data.log_p)
    value = bounds.combined(expected, base, v, C)
    by_v, by_C = torch.autograd.grad(value, (v, C))
    check_close(float(value.detach()), float(state.bound), 1e-10)
    assert float(by_v.abs().max()) < 1e-4
    assert float(by_C.tril().abs().max()) < 1e-4


@many
@given(problem=problems(), claimed=st.floats(-60, 10))
def test_site_from_moments_is_the_ratio(problem, claimed):
    """Λ = S⁻¹ − K⁻¹, λ = S⁻¹μ − K⁻¹m, without ever subtracting inverses."""
    source = ref.exact_site(*problem.args)
    K_inv = np.linalg.inv(problem.kernel(problem.Z, problem.Z))
    S = np.linalg.inv(K_inv + source.Lam)
    mu = S @ (K_inv @ np.full(len(S), problem.mean) + source.lam)
    site, floored = sites.from_moments(
        problem.base.Z, problem.base.L, problem.mean, torch.tensor(mu), torch.tensor(0.5 * (S + S.T))
    )
    assert floored == 0
    assert float(site.e) == 0
    check_close(site.Rt.T @ site.Rt, source.Lam, 1e-5)
    check_close(site.Rt.T @ site.rho, source.lam, 1e-5)
    # e = their ELBO − log∫t dp
    scaled = site._replace(e=site.e + claimed - evidence(site, problem))
    check_close(evidence(scaled, problem), claimed, 1e-9)
    expected = ref.moments_site(problem.kernel, problem.Z, problem.mean, ref.Moments(mu, S), claimed)
    check_close(log_t(scaled, mu), expected(mu), 1e-5)


# --- operations -------------------------------------------------------------------------------


@many
@given(problem=problems(), other=problems())
def test_log_integral_of_a_site_is_its_evidence(problem, other):
    """log∫ t(u) N(u; m, K) du under the site's own prior, for a site of somebody else's data too."""
    check_close(
        evidence(other.site(marginal=True), other),
        ref.log_integral(ref.exact_site(*other.args), other.kernel, other.mean),
        1e-7,
    )
    foreign = ref.exact_site(other.kernel, problem.Z, other.X, other.y, other.mean, other.args[-1])
    base = basis(other.spec.tree, other.spec.tensor(), problem.base.Z)
    X, y = torch.tensor(other.X), torch.tensor(other.y)
    rows = learn.gaussian_rows(base, X, y, torch.tensor(other.noise, dtype=torch.float64), marginal=True)
    site = sites.from_rows(base.Z, base.L, least_squares.centre(rows, other.mean), other.mean)
    # a site is about f: any prior may be put in front of it
    check_close(evidence(site, problem), ref.log_integral(foreign, problem.kernel, problem.mean), 1e-6)


@many
@given(problem=problems())
def test_rows_and_sites_are_one_thing_in_two_coordinates(problem):
    """to_rows(from_rows(·)) is the compressed original: u = m1 + Lv."""
    small = least_squares.compress(problem.rows(marginal=True))
    again = sites.to_rows(problem.site(marginal=True), problem.base.L, problem.mean)
    check_close(again.H, small.H.numpy(), 1e-9)
    check_close(again.rho, small.rho.numpy(), 1e-8)
    check_close(float(again.e - again.slack), float(small.e - small.slack), 1e-12)


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


@many
@given(problem=problems(), weight=st.floats(0.0, 7.0))
def test_weighted_site_is_its_power(problem, weight):
    """t^w: √w R, √w ρ, w e."""
    site = problem.site(marginal=True)
    power = sites.weighted(site, torch.tensor(weight, dtype=torch.float64))
    for u in np.random.default_rng(1).normal(0, 2, (3, len(problem.Z))):
        check_close(log_t(power, u), weight * log_t(site, u), 1e-10)


@many
@given(problem=problems(), scale=st.floats(0.05, 20).map(lambda s: -s if s < 1 else s), shift=st.floats(-9, 9))
def test_site_in_other_units_is_the_site_of_the_transformed_data(problem, scale, shift):
    """t'(su + b) = t(u)/|s|ⁿ: the density of sy + b."""
    n = len(problem.y)
    site = problem.site(marginal=True)
    other = sites.in_units(site, scale, shift, n)
    for u in np.random.default_rng(2).normal(0, 2, (3, len(problem.Z))):
        check_close(log_t(other, scale * u + shift), log_t(site, u) - n * math.log(abs(scale)), 1e-8)
    kernel = replace(
        problem.kernel, variance=scale**2 * problem.kernel.variance, nugget=scale**2 * problem.kernel.nugget
    )
    mean, noise = scale * problem.mean + shift, np.full(n, scale**2 * problem.noise)
    expected = ref.exact_site(kernel, problem.Z, problem.X, scale * problem.y + shift, mean, noise)
    size = np.abs(expected.Lam).max()
    np.testing.assert_allclose(other.Rt.T @ other.Rt, expected.Lam, rtol=1e-6, atol=1e-7 * size)
    np.testing.assert_allclose(other.Rt.T @ other.rho, expected.lam, rtol=1e-6, atol=1e-7 * np.abs(expected.lam).max())


def test_moved_site_is_about_the_shifted_function():
    """f(x − c): the same numbers at Z + c."""
    rng = np.random.default_rng(4)
    site = sites.Site(*(torch.tensor(rng.standard_normal(shape)) for shape in ((5, 2), (3, 5), (3,), ())))
    shift = torch.tensor([0.3, -7.0], dtype=torch.float64)
    moved = sites.moved(site, shift)
    assert torch.equal(moved.Z, site.Z + shift)
    assert all(torch.equal(a, b) for a, b in zip(moved[1:], site[1:], strict=True))


@many
@given(problem=problems(), other=problems())
def test_observing_a_site_from_another_basis(problem, other):
    """One site on another kernel's points: by Jensen (expect) or exactly (publish), as in the reference."""
    source = other.site(marginal=True)
    truth = ref.exact_site(*other.args)
    for marginal, move in ((True, ref.publish), (False, ref.expect)):
        rows = blocks.observe(problem.base, source, problem.mean, marginal=marginal)
        site = sites.from_rows(problem.base.Z, problem.base.L, rows, problem.mean)
        check_site(site, move(truth, problem.kernel, problem.mean, problem.Z), 1e-6)


def test_batched_sites_are_the_sites_one_by_one():
    """Equal sizes are batched, short ones padded with zero rows, chunks split: all exact."""
    rng = np.random.default_rng(8)
    several = [
        sites.Site(
            torch.tensor(SCALE * rng.uniform(0, 2, (M, 2))),
            torch.tensor(rng.standard_normal((r, M))),
            torch.tensor(rng.standard_normal(r)),
            torch.tensor(rng.standard_normal()),
        )
        for M, r in ((4, 4), (4, 2), (5, 5), (4, 1), (5, 3))
    ]
    kernel = ref.Kernel("rbf", tuple(0.5 * SCALE), 1.3)
    problem = Problem(kernel, spread(rng, 6), SCALE * rng.uniform(0, 2, (3, 2)), rng.standard_normal(3), 0.4, 0.1)

    def solution(groups, marginal):
        parts = [least_squares.gather(*blocks.project(problem.base, g), marginal=marginal) for g in groups]
        return least_squares.solve(least_squares.stack(parts), problem.mean)

    with shelf.Shelf() as packed:
        for i, site in enumerate(several):
            packed.put(site, 1.0, i)
        grouped = list(packed.blocks(6))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "CHUNK", 48)
            chunked = list(packed.blocks(6))
    assert len(grouped) == 2
    assert len(chunked) > 2
    for groups in (grouped, chunked):
        counts = {i: n for g in groups for i, n in zip(g.members, g.counts, strict=True)}
        assert counts == dict(enumerate((4, 2, 5, 1, 3)))
    alone = [blocks.block([s], [i]) for i, s in enumerate(several)]
    for marginal in (True, False):
        expected = solution(alone, marginal)
        for groups in (grouped, chunked):
            found = solution(groups, marginal)
            check_close(float(found.bound), float(expected.bound), 1e-11)
            check_close(found.v, expected.v.numpy(), 1e-10)


def test_points_shared_with_the_basis_cost_no_slack():
    """The jitter is part of the kernel wherever a point meets itself: identical points leave no slack."""
    rng = np.random.default_rng(9)
    problem = Problem(
        ref.Kernel("rbf", (30.0, 200.0), 2.0),
        spread(rng, 8),
        SCALE * rng.uniform(0, 2, (20, 2)),
        rng.standard_normal(20),
        0.7,
        0.05,
    )
    assert problem.base.jitter > 0
    certain = sites.Site(
        problem.base.Z,
        1e3 * torch.eye(8, dtype=torch.float64),
        torch.ones(8, dtype=torch.float64),
        torch.zeros((), dtype=torch.float64),
    )
    shared = blocks.observe(problem.base, certain, problem.mean, marginal=False)
    assert float(shared.slack) < 1e-6
    check_close(
        float(problem.base.L.mT.diagonal().sum()),
        np.trace(np.linalg.cholesky(problem.kernel(problem.Z, problem.Z))),
        1e-5,
    )
