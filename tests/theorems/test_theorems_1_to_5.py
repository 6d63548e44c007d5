"""Merging and theorems 1 to 5 of the mathematics, with generic values, against dense Gaussian algebra in NumPy.

Theorems 6 to 8 are in test_identities_continued.py, the problems themselves in cases.py.
"""

from __future__ import annotations

from dataclasses import replace

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
    check_predictions,
    check_same_models,
    merged,
    module,
    modules,
    natural_site,
    reference_sites,
    slow,
    spec,
    theorem,
    whitened,
    with_jitter,
)
from recyclegp.core import bounds, least_squares, posterior
from recyclegp.core.packing import pack, project

# --- merging itself ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "collapsed"])
@theorem
@given(case=cases())
def test_merge_is_the_gaussian_algebra(method, case):
    """The closed form, L_E, E and the slack, with local kernels, means, points and weights all different."""
    parts = modules(case, method)
    e = merged(case, parts, weights=case.weights)
    k = with_jitter(case.kernel, e)
    truths = [ref.power(s, w) for s, w in zip(reference_sites(case, parts, method), case.weights, strict=True)]
    joint = ref.ensemble(truths, k, e.mean, case.Z)
    check_predictions(e, ref.site_posterior(joint, k, e.mean, case.Xt), case.Xt, 1e-7)
    check_close(e.bound, ref.log_integral(joint, k, e.mean), 1e-7)
    marginal = ref.block_marginal(truths, k, e.mean, case.Z)
    check_close(e.evidence, ref.log_integral(marginal, k, e.mean), 1e-7)
    check_close(e.slack, ref.slack(truths, k, e.mean, case.Z), 1e-7)
    assert e.evidence >= e.bound - 1e-9 * abs(e.bound)


@theorem
@given(case=cases())
def test_block_marginal_solution_is_the_gaussian_algebra(case):
    """Merging by E instead: the posterior of the marginalised sites."""
    parts = modules(case, "exact")
    e = merged(case, parts)
    k = with_jitter(case.kernel, e)
    joint = ref.block_marginal(reference_sites(case, parts, "exact"), k, e.mean, case.Z)
    expected = ref.site_posterior(joint, k, e.mean, case.Xt)
    mean, variance = by_evidence(e, case.Xt)
    check_close(mean, expected.mean, 1e-7)
    check_close(variance, np.diag(expected.cov), 1e-7)


def by_evidence(e, Xt):
    """Predictions of the maximiser of E, which the public surface does not use for predicting."""
    solution = least_squares.solve(e.groups[0].with_evidence.marginal)
    post = posterior.Posterior(e.basis, torch.tensor(e.mean), solution.v, solution.C)
    return [t.numpy() for t in post.predict(torch.tensor(Xt))]


@theorem
@given(case=cases(), guess=st.floats(-4, 4))
def test_profiled_mean_maximises_the_evidence(case, guess):
    """m̂ is one more, unpenalised, column: no other constant mean has a larger E."""
    active = [m.site for m in modules(case, "exact")]
    base = posterior.basis(spec(case.kernel), torch.tensor(case.Z))
    rows = stacked([as_rows(base, s, marginal=True) for s in active])
    mean = least_squares.best_mean(rows)
    best = least_squares.solve(least_squares.centre(rows, mean))
    k = replace(case.kernel, nugget=float(base.jitter))
    natural = [natural_site(s) for s in active]

    def evidence(m):
        return ref.log_integral(ref.block_marginal(natural, k, m, case.Z), k, m)

    m = float(mean)
    check_close(float(best.bound), evidence(m), 1e-7)
    assert evidence(guess) <= float(best.bound) + 1e-8 * abs(float(best.bound))
    assert abs(evidence(m + 1e-4) - evidence(m - 1e-4)) < 1e-6 * (1 + abs(float(best.bound)))


def as_rows(base, site, *, marginal):
    return project(base, pack([site], [0])).rows(marginal=marginal)


def stacked(parts):
    """Rows of several sites, the mean not yet taken out of them."""
    H, rho, ones, e, slack = zip(*parts, strict=True)
    return least_squares.Rows(torch.cat(H), torch.cat(rho), torch.cat(ones), sum(e), sum(slack))


# --- 1. shared plan ---------------------------------------------------------------------------


@theorem
@given(case=cases())
def test_1_shared_plan_is_the_central_sgpr(case):
    """Theorem 1: collapsed modules on one plan merge into SGPR on all the data."""
    case = case.shared()
    e = merged(case, modules(case, "collapsed"))
    data = (with_jitter(case.kernel, e), case.Z, case.inputs, case.y, case.parts[0].mean, case.noises)
    check_predictions(e, ref.sgpr(*data, case.Xt), case.Xt)
    check_close(e.bound, ref.sgpr_bound(*data))
    assert abs(e.slack) < 1e-8
    check_close(e.evidence, e.bound)


@theorem
@given(case=cases())
def test_1_shared_plan_with_exact_sites_is_pitc(case):
    """Theorem 1: exact modules published on one plan merge into PITC with the owners as blocks."""
    case = case.shared()
    e = merged(case, modules(case, "exact"))
    data = (with_jitter(case.kernel, e), case.Z, [p.X for p in case.parts], case.y, case.parts[0].mean, case.noises)
    check_predictions(e, ref.pitc(*data, case.Xt), case.Xt)
    check_close([e.evidence, e.bound], [ref.pitc_evidence(*data)] * 2)


@theorem
@given(case=cases())
def test_1_unpublished_data_merge_by_evidence_into_pitc(case):
    """Theorem 1: with Z_k = X_k, E and its maximiser are PITC at any Z_*, whatever the local kernels."""
    own = replace(case, parts=[replace(p, Z=p.X) for p in case.parts])
    e = merged(own, modules(own, "exact"))
    data = (with_jitter(case.kernel, e), case.Z, [p.X for p in case.parts], case.y, e.mean, case.noises)
    check_close(e.evidence, ref.pitc_evidence(*data), 1e-7)
    mean, variance = by_evidence(e, case.Xt)
    expected = ref.pitc(*data, case.Xt)
    check_close(mean, expected.mean, 1e-7)
    check_close(variance, np.diag(expected.cov), 1e-7)


@theorem
@given(case=cases())
def test_1_bound_of_unpublished_data_is_the_central_sgpr(case):
    """Theorem 1, its Jensen half: with Z_k = X_k the ensemble bound is SGPR's at any Z_*."""
    own = replace(case, parts=[replace(p, Z=p.X) for p in case.parts])
    e = merged(own, modules(own, "exact"))
    data = (with_jitter(case.kernel, e), case.Z, case.inputs, case.y, e.mean, case.noises)
    check_predictions(e, ref.sgpr(*data, case.Xt), case.Xt, 1e-7)
    check_close(e.bound, ref.sgpr_bound(*data), 1e-7)


# --- 2. nothing summarised --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "collapsed"])
@theorem
@given(case=cases(owners=(2, 3)))
def test_2_all_points_kept_is_the_exact_gp(method, case):
    """Theorem 2: Z_k = X_k and Z_* = X give the exact GP, and L_E = E = log p(y), whatever ψ_k and m_k."""
    case = replace(case, parts=[replace(p, Z=p.X) for p in case.parts], Z=case.inputs)
    e = merged(case, modules(case, method))
    check_predictions(e, ref.exact_gp(case.kernel, case.inputs, case.y, e.mean, case.noises, case.Xt), case.Xt, 1e-7)
    evidence = ref.exact_evidence(case.kernel, case.inputs, case.y, e.mean, case.noises)
    check_close([e.bound, e.evidence], [evidence] * 2, 1e-7)


# --- 3. order and grouping --------------------------------------------------------------------


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 5)), order=st.randoms(use_true_random=False))
def test_3_order_does_not_matter(case, order):
    """Theorem 3: any order of the modules."""
    parts = modules(case, "exact")
    mixed = list(parts)
    order.shuffle(mixed)
    check_same_models(merged(case, parts), merged(case, mixed), case.Xt)


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 5)), cut=st.integers(1, 4))
def test_3_grouping_does_not_matter(case, cut):
    """Theorem 3: a merge of merges is the flat merge; the inner slack has become part of the constant."""
    case = case.same_mean()
    parts = modules(case, "collapsed")
    cut = min(cut, len(parts) - 1)
    left, right = (merged(case, group).to_module(name) for name, group in (("l", parts[:cut]), ("r", parts[cut:])))
    flat, nested = merged(case, parts), merged(case, [left, right])
    for one, other in zip(flat.predict(case.Xt), nested.predict(case.Xt), strict=True):
        check_close(one, other)
    check_close([nested.bound, nested.evidence], [flat.bound] * 2)
    assert nested.rows == flat.rows


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 4)))
def test_3_grouping_of_published_modules_keeps_the_evidence(case):
    """Theorem 3 on a shared plan, where nothing is lost at any level: E survives grouping as well."""
    case = case.shared()
    parts = modules(case, "exact")
    nested = merged(case, [merged(case, parts[:2]).to_module("first"), *parts[2:]])
    check_same_models(merged(case, parts), nested, case.Xt)


@theorem
@given(case=cases())
def test_3_one_module_as_an_ensemble_is_itself(case):
    """Theorem 3 at its smallest: merging one module on its own points and kernel changes nothing."""
    part = case.parts[0]
    alone = module(part, "exact", "only")
    e = rgp.merge([alone], inducing=part.Z, kernel=alone.kernel, learn=False)
    for model in (e, e.to_module("again")):
        for one, other in zip(alone.predict(case.Xt), model.predict(case.Xt), strict=True):
            check_close(one, other)
    check_close([e.bound, e.evidence, e.to_module("again").evidence], [alone.evidence] * 3)


# --- 4. add, remove, weigh --------------------------------------------------------------------


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 4)))
def test_4_add_then_remove_is_never_added(case):
    """Theorem 4: removal re-stacks the rest, so nothing of the removed module is left behind."""
    *rest, last = modules(case.same_mean(), "exact")
    without, everyone = merged(case, rest), merged(case, [*rest, last])
    added = without.add(last)
    check_same_models(added, everyone, case.Xt)
    assert added.names == everyone.names
    check_same_models(added.remove(last.name), without, case.Xt, 1e-12)


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 4)), size=st.floats(1e3, 1e6))
def test_4_removing_a_dominant_module_leaves_no_rounding(case, size):
    """Theorem 4 where subtraction would fail: the removed module outweighs the others by far."""
    *rest, last = modules(case.same_mean(), "exact")
    everyone = merged(case, [*rest, last], weights={last.name: size})
    check_same_models(everyone.remove(last.name), merged(case, rest), case.Xt, 1e-12)


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 4)))
def test_4_weight_zero_is_absent(case):
    """Theorem 4: w = 0."""
    *rest, last = modules(case.same_mean(), "collapsed")
    without = merged(case, rest)
    everyone = merged(case, [*rest, last], weights={last.name: 0})
    check_same_models(everyone, without, case.Xt, 1e-12)
    check_same_models(merged(case, [*rest, last]).reweight({last.name: 0}), without, case.Xt, 1e-12)
    assert everyone.rows == without.rows


@pytest.mark.slow
@theorem
@given(case=cases())
def test_4_a_module_twice_is_weight_two_for_the_bound(case):
    """Theorem 4: a module given twice is w = 2, in its predictions and in L_E."""
    parts = modules(case.same_mean(), "exact")
    twice = merged(case, [*parts, parts[0].rename("again")])
    double = merged(case, parts, weights={parts[0].name: 2})
    for one, other in zip(twice.predict(case.Xt), double.predict(case.Xt), strict=True):
        check_close(one, other)
    check_close([twice.bound, twice.slack], [double.bound, double.slack])


@pytest.mark.slow
@theorem
@given(case=cases())
def test_4_a_module_twice_is_weight_two_for_the_evidence(case):
    """Theorem 4 for E needs a shared plan: two blocks integrate their residuals out separately."""
    case = case.shared()
    parts = modules(case, "exact")
    twice = merged(case, [*parts, parts[0].rename("again")])
    check_same_models(twice, merged(case, parts, weights={parts[0].name: 2}), case.Xt)


@pytest.mark.slow
@theorem
@given(case=cases(owners=(2, 4)))
def test_4_reweight_is_merging_with_these_weights(case):
    """Theorem 4: weights that are no integers, given early or late."""
    parts = modules(case.same_mean(), "collapsed")
    late = merged(case, parts).reweight({m.name: w for m, w in zip(parts, case.weights, strict=True)})
    check_same_models(late, merged(case, parts, weights=case.weights), case.Xt)


# --- 5. nothing beats the closed form ---------------------------------------------------------


@pytest.mark.slow
@theorem
@given(case=cases(), seed=st.integers(0, 2**31), size=st.floats(1e-3, 1.0))
def test_5_no_q_beats_the_closed_form(case, seed, size):
    """Theorem 5: eq. (ensemble), evaluated directly in NumPy, is largest at the closed form."""
    parts = modules(case, "exact")
    e = merged(case, parts)
    k, truths = with_jitter(case.kernel, e), reference_sites(case, parts, "exact")
    best = e.posterior

    def value(v, C):
        return ref.ensemble_bound(whitened(e, v, C), truths, k, e.mean, case.Z)

    check_close(value(best.v, best.C), e.bound, 1e-7)
    rng = np.random.default_rng(seed)
    M = len(case.Z)
    for _ in range(5):
        v = best.v + size * torch.tensor(rng.standard_normal(M))
        C = best.C @ torch.linalg.cholesky(torch.eye(M) + size * gram(rng, M)).double()
        assert value(v, C) < e.bound
        # ... and the library's own functions for (ensemble) agree with the reference away from the optimum
        check_close(float(bounds.expected_rows(e.groups[0].form.bound_rows, v, C) - bounds.kl(v, C)), value(v, C), 1e-7)


def gram(rng, M):
    A = torch.tensor(rng.standard_normal((M, M)))
    return A @ A.mT / M


@pytest.mark.slow
@slow
@given(case=cases(), seed=st.integers(0, 2**31))
def test_5_gradient_ascent_climbs_to_the_closed_form_and_no_further(case, seed):
    """Theorem 5: the paper's VEM step, from a random q, approaches the closed form from below."""
    e = merged(case, modules(case, "collapsed"))
    rng = np.random.default_rng(seed)
    M = len(case.Z)
    v = torch.tensor(3 * rng.standard_normal(M)).requires_grad_()
    raw = torch.tensor(rng.standard_normal((M, M))).requires_grad_()
    climber = torch.optim.Adam([v, raw], lr=0.1)
    values = []
    for _ in range(250):
        C = raw.tril(-1) + torch.diag(raw.diagonal().exp())
        value = bounds.expected_rows(e.groups[0].form.bound_rows, v, C) - bounds.kl(v, C)
        values.append(float(value.detach()))
        climber.zero_grad()
        (-value).backward()
        climber.step()
    assert max(values) <= e.bound + 1e-9 * abs(e.bound)
    assert e.bound - max(values) < 0.02 * (e.bound - values[0])


@pytest.mark.slow
@slow
@given(case=cases(), seed=st.integers(0, 2**31))
def test_5_vem_stays_below_the_closed_form_at_its_own_kernel(case, seed):
    """Theorem 5: ascending q, ψ and m together never exceeds the closed form at the ψ and m it has reached."""
    active = [m.site for m in modules(case, "exact")]
    kernel, Z = spec(case.kernel), torch.tensor(case.Z)
    theta = kernel.theta.clone().requires_grad_()
    rng = np.random.default_rng(seed)
    v = torch.tensor(rng.standard_normal(len(Z))).requires_grad_()
    raw = torch.tensor(0.3 * rng.standard_normal((len(Z), len(Z)))).requires_grad_()
    mean = torch.tensor(float(rng.standard_normal()), dtype=torch.float64).requires_grad_()
    climber = torch.optim.Adam([v, raw, theta, mean], lr=0.05)
    gaps = []
    for _ in range(40):
        base = posterior.basis(kernel.with_theta(theta), Z)
        rows = least_squares.stack([least_squares.centre(as_rows(base, s, marginal=False), mean) for s in active])
        C = raw.tril(-1) + torch.diag(raw.diagonal().exp())
        value = bounds.expected_rows(rows, v, C) - bounds.kl(v, C)
        gaps.append(float((least_squares.solve(rows).bound - value).detach()))
        climber.zero_grad()
        (-value).backward()
        climber.step()
    assert min(gaps) >= 0
    assert gaps[-1] < gaps[0]
