"""Every formula for (R, ρ, e) of the mathematics' table, against dense Gaussian algebra with m ≠ 0."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference as ref
from problems import check_close, check_site, evidence, log_t, many, problems
from recyclegp.core import least_squares, sites
from recyclegp.core.posterior import basis
from recyclegp.kernels.units import InputUnits
from recyclegp.local import observations

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
    base = basis(other.spec, problem.base.Z)
    X, y = torch.tensor(other.X), torch.tensor(other.y)
    rows = observations.gaussian_rows(base, X, y, torch.tensor(other.noise, dtype=torch.float64), marginal=True)
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


def test_moved_site_is_about_the_function_of_inputs_in_other_units():
    """f((x − c)/a): the same numbers at a∘Z + c."""
    rng = np.random.default_rng(4)
    site = sites.Site(*(torch.tensor(rng.standard_normal(shape)) for shape in ((5, 2), (3, 5), (3,), ())))
    shift = torch.tensor([0.3, -7.0], dtype=torch.float64)
    scale = torch.tensor([2.5, 0.1], dtype=torch.float64)
    moved = sites.moved(site, InputUnits(scale, shift))
    np.testing.assert_allclose(moved.Z, scale * site.Z + shift, rtol=1e-14)
    assert all(torch.equal(a, b) for a, b in zip(moved[1:], site[1:], strict=True))


def test_wide_directions_are_floored_within_reach():
    """S_w = U diag(s) U': precision 1/s − 1, or where s > 1 (μ/reach)² between the floor and one; the mean is kept."""
    rng = np.random.default_rng(6)
    s, moved = np.array([0.2, 0.7, 1.5, 4.0, 3.0]), np.array([0.4, -1.1, 2.0, -30.0, 1e-9])
    U = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    L = np.tril(rng.standard_normal((5, 5)), -1) + np.diag(rng.uniform(0.5, 2.0, 5))
    Z, mean = rng.standard_normal((5, 2)), -0.9
    mu_w, S_w = U @ moved, (U * s) @ U.T
    skew = rng.standard_normal((5, 5))
    Zt, Lt, mu_t = (torch.tensor(t) for t in (Z, L, mu_w))
    for reach, expected in (
        (5.0, [4.0, 1 / 0.7 - 1, 0.16, 1.0, sites.FLOOR]),
        (math.inf, [4.0, 1 / 0.7 - 1, *[sites.FLOOR] * 3]),
    ):
        of_v = sites.from_whitened(Zt, Lt, mean, mu_t, torch.tensor(S_w + skew - skew.T), reach)
        of_u = sites.from_moments(Zt, Lt, mean, torch.tensor(mean + L @ mu_w), torch.tensor(L @ S_w @ L.T), reach)
        for site, floored in (of_v, of_u):
            assert floored == 3
            assert float(site.e) == 0
            half = site.Rt.numpy() @ L
            P = (U * expected) @ U.T
            np.testing.assert_allclose(half.T @ half, P, rtol=0, atol=1e-12)
            target = site.rho.numpy() - mean * site.Rt.numpy().sum(1)
            np.testing.assert_allclose(half.T @ target, (np.eye(5) + P) @ mu_w, rtol=1e-10)


def test_moments_as_wide_as_the_prior_are_not_floored():
    """A direction about which nothing was learned has s = 1 up to rounding, and is no failure of the fit."""
    L = torch.eye(3, dtype=torch.float64)
    S = torch.diag(torch.tensor([1.0, 1.0 + 1e-9, 1.0 + 1e-3], dtype=torch.float64))
    assert sites.from_whitened(torch.zeros(3, 1), L, 0.0, torch.zeros(3).double(), S).floored == 1


def test_stacked_sites_have_weights_of_their_own():
    rng = np.random.default_rng(7)
    stacked = sites.Site(*(torch.tensor(rng.standard_normal(shape)) for shape in ((3, 4, 2), (3, 2, 4), (3, 2), (3,))))
    weights = torch.tensor([0.3, 1.0, 5.0], dtype=torch.float64)
    power = sites.weighted(stacked, weights)
    for k, weight in enumerate(weights.tolist()):
        one, other = (sites.Site(*(t[k] for t in site)) for site in (power, stacked))
        for u in rng.standard_normal((3, 4)):
            check_close(log_t(one, u), weight * log_t(other, u), 1e-12)
