"""The paper's variational EM: the right function, never above the closed form (theorem 5), and honest about its end."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import recyclegp as rgp
import reference as ref
from cases import (
    cases,
    check_close,
    fixed_case,
    gpytorch_kernel,
    merged,
    modules,
    natural_site,
    slow,
    theorem,
    with_jitter,
)
from recyclegp.baselines import vem
from recyclegp.core import least_squares
from recyclegp.kernels import learned
from recyclegp.kernels.gpytorch_objects import to_gpytorch
from recyclegp.merging.member import stored

EVERYTHING = ("q", "kernel", "points")
OPTIMISERS = ("published", "adam", "lbfgs")


def problem_of(e):
    """What `vem` builds from the same modules."""
    with stored(e._members) as store:
        return vem.Problem(e.mean, tuple(store.packs(len(e._points[0]))))


def sites_of(e):
    return vem.sites_at(problem_of(e), e.kernel_spec, e._points[0])


def random_q(e, seed):
    """Nothing special: far from the prior and from the posterior, with diagonals of either sign."""
    rng = np.random.default_rng(seed)
    M = len(e._points[0])
    root = torch.tensor(0.4 * rng.standard_normal((M, M))).tril()
    signs = torch.tensor(rng.choice([-1.0, 1.0], M))
    return torch.tensor(2 * rng.standard_normal(M)), root + torch.diag(signs * torch.tensor(rng.uniform(0.2, 1.5, M)))


def best_q(e):
    """The closed form as (μ_*, L_*): S_* = L(CCᵀ)⁻¹Lᵀ."""
    L, q = e.basis.L, e.posterior
    half = torch.linalg.solve_triangular(q.C, L.mT, upper=False).mT
    return e.mean + L @ q.v, torch.linalg.cholesky(half @ half.mT)


def numbers(place):
    return place.mu, place.root, place.kernel.theta, place.Z


def climb(case, parts, **options):
    options = {"kernel": gpytorch_kernel(case.kernel), "weights": case.weights, **options}
    return vem.vem(parts, case.Z, **options)


# --- the objective ----------------------------------------------------------------------------


@theorem
@given(case=cases(), seed=st.integers(0, 2**31))
def test_the_objective_is_equation_ensemble(case, seed):
    """Against explicit covariances S_C in NumPy, at a generic q; folding the rows first changes nothing."""
    e = merged(case, modules(case, "exact"), weights=case.weights)
    mu, root = random_q(e, seed)
    natural = [ref.power(natural_site(m.site), m.weight) for m in e._members]
    q = ref.Moments(mu.numpy(), (root @ root.mT).numpy())
    expected = ref.ensemble_bound(q, natural, with_jitter(case.kernel, e), e.mean, case.Z)
    rows, L = sites_of(e)
    check_close(float(vem.ensemble(rows, L, e.mean, mu, root)), expected, 1e-9)
    check_close(float(vem.ensemble(least_squares.compress(rows), L, e.mean, mu, root)), expected, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "collapsed"])
@theorem
@given(case=cases())
def test_the_closed_form_is_its_stationary_point(method, case):
    """At merge's q the objective is merge's bound, and its gradient in μ_*, L_* vanishes."""
    e = merged(case, modules(case, method), weights=case.weights)
    rows, L = sites_of(e)
    mu, root = (t.requires_grad_() for t in best_q(e))
    value = vem.ensemble(rows, L, e.mean, mu, root.tril())
    check_close(float(value.detach()), e.bound, 1e-8)
    for slope in torch.autograd.grad(value, [mu, root]):
        assert float((L.mT @ slope).abs().max()) < 1e-8  # nats per prior deviation of u_*


@theorem
@given(case=cases(), seed=st.integers(0, 2**31), size=st.floats(1e-3, 1.0))
def test_5_no_perturbation_of_q_beats_the_closed_form(case, seed, size):
    """Theorem 5 at fixed ψ*, Z_*: in either part of q or in both."""
    e = merged(case, modules(case, "exact"), weights=case.weights)
    rows, L = sites_of(e)
    rng = np.random.default_rng(seed)
    mu, root = best_q(e)
    for move_mu, move_root in ((1, 0), (0, 1), (1, 1)):
        other_mu = mu + move_mu * size * L @ torch.tensor(rng.standard_normal(len(mu)))
        other_root = root + move_root * size * (L @ torch.tensor(rng.standard_normal(root.shape))).tril()
        value = float(vem.ensemble(rows, L, e.mean, other_mu, other_root.tril()))
        assert value < e.bound


# --- the ascent -------------------------------------------------------------------------------


@slow
@given(case=cases(), seed=st.integers(0, 2**31))
def test_lbfgs_reaches_the_closed_form(case, seed):
    """From the standard start, within a thousandth of a nat, and then predicts the same."""
    parts = modules(case, "exact")
    e = merged(case, parts, weights=case.weights)
    found = climb(case, parts, optimiser="lbfgs", target=e.bound, within=1e-3, max_steps=5000, seed=seed)
    assert found.reached, found
    assert found.stopped == "target"
    assert e.bound - 1e-3 <= found.bound <= e.bound + 1e-9 * abs(e.bound)
    settled = climb(case, parts, optimiser="lbfgs", max_steps=5000, seed=seed)
    assert settled.stopped == "converged"
    assert e.bound - 1e-4 <= settled.bound <= e.bound + 1e-9 * abs(e.bound)
    for one, other in zip(settled.predict(case.Xt), e.predict(case.Xt), strict=True):
        check_close(one, other, 1e-2)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_5_the_ascent_stays_below_the_closed_form(optimiser):
    """Theorem 5 along the whole way, at fixed ψ*, Z_*."""
    case = fixed_case()
    parts = modules(case, "collapsed")
    e = merged(case, parts, weights=case.weights)
    found = climb(case, parts, optimiser=optimiser, max_steps=600, every=1)
    bounds = [s.bound for s in found.trace]
    assert max(bounds) <= e.bound + 1e-9 * abs(e.bound)
    assert bounds[-1] > bounds[0]
    assert [s.steps for s in found.trace] == list(range(1, len(bounds) + 1))
    assert all(a.seconds <= b.seconds for a, b in pairwise(found.trace))


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_5_vem_stays_below_the_closed_form_at_its_own_kernel_and_points(optimiser):
    """Theorem 5: at every recorded step the closed form at the ψ*, Z_* reached is at least as high."""
    case = fixed_case()
    parts = modules(case, "exact")
    gaps, kept = [], []

    def closed_form(step, place):
        kernel = to_gpytorch(place.kernel, start.dimension)
        best = rgp.merge(parts, inducing=place.Z, kernel=kernel, weights=case.weights, learn=False)
        gaps.append(best.bound - step.bound)
        kept.append(place)

    start = merged(case, parts, weights=case.weights)
    # rates of a size at which this small problem moves at all within a second
    rates = vem.Rates(mean=1e-2, root=1e-3, kernel=1e-3, points=1e-3)
    found = climb(
        case, parts, optimiser=optimiser, learn=EVERYTHING, rates=rates, max_steps=150, every=5, watch=closed_form
    )
    assert len(gaps) == len(found.trace) > 20
    assert min(gaps) > -1e-8 * abs(start.bound)
    assert gaps[-1] < 0.5 * gaps[0]
    assert found.bound > found.trace[0].bound
    assert not torch.equal(kept[0].kernel.theta, kept[-1].kernel.theta)
    assert not torch.equal(kept[0].Z, kept[-1].Z)
    check_close(found.kernel_spec.theta, kept[-1].kernel.theta)
    check_close(found.inducing, kept[-1].Z)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_centres_of_linear_kernels_stay(optimiser):
    """They are places, taken from the data: neither positive numbers nor learned."""
    case = fixed_case()
    kept = []
    climb(
        case,
        modules(case, "exact"),
        kernel="rbf + linear",
        optimiser=optimiser,
        learn=EVERYTHING,
        rates=vem.Rates(mean=1e-3, root=1e-4, kernel=1e-4, points=1e-4, ve_steps=2, kernel_steps=2),
        max_steps=12,
        every=1,
        watch=lambda _, place: kept.append(place.kernel),
    )
    moves = torch.tensor(learned(kept[0].structure))
    assert (~moves).sum() == 2
    assert torch.equal(kept[-1].theta[~moves], kept[0].theta[~moves])
    assert (kept[-1].theta[moves] != kept[0].theta[moves]).all()


@pytest.mark.slow
@slow
@given(case=cases())
def test_published_rates_improve_the_bound_or_say_that_they_diverged(case):
    found = climb(case, modules(case, "exact"), learn=EVERYTHING, max_steps=110)
    if found.stopped == "diverged":
        assert not math.isfinite(found.bound)
    else:
        assert found.stopped == "steps"
        assert found.bound > found.trace[0].bound


def test_divergence_is_reported():
    """SGD with momentum β is stable up to a rate of 2(1 + β)/λ: one module that knows too much is enough."""
    case = fixed_case()
    found = climb(case, modules(case, "exact"), weights=[1e6, 1.0, 1.0], max_steps=3000)
    assert found.stopped == "diverged"
    assert not math.isfinite(found.bound)
    assert not found.reached
    assert "diverged" in repr(found)
    assert all(math.isfinite(s.bound) for s in found.trace[:-1])
    mean, variance = found.predict(case.Xt)  # of the last recorded step that had a bound
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()


# --- Algorithm 1 ------------------------------------------------------------------------------


def test_published_is_algorithm_1():
    """VE steps on q, then a VM step on ψ* and one on Z_*, then again: each moves its own parameters only."""
    case = fixed_case()
    rates = vem.PUBLISHED._replace(ve_steps=3, kernel_steps=2, points_steps=1)
    places = []
    climb(
        case,
        modules(case, "exact"),
        learn=EVERYTHING,
        rates=rates,
        max_steps=13,
        every=1,
        watch=lambda _, place: places.append(place),
    )
    moved = [
        "".join(name for name, a, b in zip("mLkZ", numbers(one), numbers(other), strict=True) if not torch.equal(a, b))
        for one, other in pairwise(places)
    ]
    assert moved == ["mL", "mL", "mL", "k", "k", "Z"] * 2


def test_published_steps_are_gradients_with_momentum():
    """w ← w + η(g₁ + βg₀): natural kernel parameters, rates and momentum as in the authors' code."""
    case = fixed_case()
    parts = modules(case, "exact")
    places = []

    def follow(_, place):
        places.append(place)

    options = {"learn": EVERYTHING, "every": 1, "watch": follow, "seed": 5}
    climb(case, parts, rates=vem.PUBLISHED._replace(ve_steps=2, kernel_steps=1), max_steps=4, **options)
    problem = problem_of(merged(case, parts, weights=case.weights))

    def gradient(place):
        leaves = [t.clone().requires_grad_() for t in (place.mu, place.root, place.kernel.theta.exp(), place.Z)]
        mu, root, psi, Z = leaves
        rows, L = vem.sites_at(problem, place.kernel.with_theta(psi.log()), Z)
        return torch.autograd.grad(vem.ensemble(rows, L, problem.mean, mu, root.tril()), leaves)

    g0, g1, g2 = (gradient(p) for p in places[:3])
    check_close(places[0].mu - problem.mean, np.random.default_rng(5).standard_normal(len(case.Z)))
    assert torch.equal(places[0].root, torch.eye(len(case.Z), dtype=torch.float64))
    check_close(places[1].mu, places[0].mu + 1e-3 * g0[0], 1e-12)
    check_close(places[2].mu, places[1].mu + 1e-3 * (g1[0] + 0.9 * g0[0]), 1e-12)
    check_close(places[2].root, places[1].root + 1e-6 * (g1[1] + 0.9 * g0[1]), 1e-12)
    check_close(places[3].kernel.theta.exp(), places[2].kernel.theta.exp() + 1e-8 * g2[2], 1e-14)


# --- the result -------------------------------------------------------------------------------


def test_predictions_are_those_of_its_own_q():
    """Wherever it stopped: mean and variance of q(f(X)) = ∫p(f(X)|u_*)q(u_*)du_*, and of y with the noise."""
    case = fixed_case()
    parts = modules(case, "exact")
    found = climb(case, parts, optimiser="adam", max_steps=30)
    e = merged(case, parts, weights=case.weights)
    q = ref.Moments(found.place.mu.numpy(), (found.place.root @ found.place.root.mT).numpy())
    expected = ref.pushed(q, replace(case.kernel, nugget=e.jitter), e.mean, case.Z, case.Xt)
    mean, variance = found.predict(case.Xt)
    check_close(mean, expected.mean)
    check_close(variance, np.diag(expected.cov) - e.jitter)
    y = np.linspace(-1, 2, len(case.Xt))
    noisy = variance + e.noise
    check_close(found.log_density(case.Xt, y), -0.5 * (np.log(2 * np.pi * noisy) + (y - mean) ** 2 / noisy))
    assert found.bound < e.bound


def test_it_stops_when_told():
    case = fixed_case()
    parts = modules(case, "exact")
    assert climb(case, parts, max_steps=7).trace[-1].steps == 7
    timed = climb(case, parts, seconds=0.05)
    assert timed.stopped == "seconds"
    assert 0.05 <= timed.trace[-1].seconds < 5
    at_once = climb(case, parts, target=timed.trace[0].bound, within=0.0)
    assert at_once.reached
    assert len(at_once.trace) == 1


def test_what_it_cannot_do_is_refused():
    case = fixed_case()
    parts = modules(case, "exact")
    with pytest.raises(rgp.RecycleGPError, match="published, adam, lbfgs"):
        climb(case, parts, optimiser="newton")
    for learn in (("kernel",), ("q", "noise")):
        with pytest.raises(rgp.RecycleGPError, match="learn="):
            climb(case, parts, learn=learn)
