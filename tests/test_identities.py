"""The eight theorems of the mathematics, with generic values, against dense Gaussian algebra in NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import recyclegp as rgp
import reference as ref
from recyclegp import blocks, bounds, kernels, least_squares, posterior

# A failing case is a seed and a few numbers: shrinking it would take minutes and explain nothing.
PHASES = (Phase.explicit, Phase.generate)
theorem = settings(max_examples=15, deadline=None, derandomize=True, phases=PHASES)
slow = settings(theorem, max_examples=4)

SCALE = np.array([1.3, 4.0])  # the two input columns are measured in different units
ORIGIN = np.array([-0.7, 2.5])


# --- generic problems -------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One data owner: data, points, and local hyperparameters that are nobody else's."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    kernel: ref.Kernel
    mean: float
    noise: float

    @property
    def noises(self):
        return np.full(len(self.y), self.noise)


@dataclass(frozen=True)
class Case:
    parts: list[Part]
    kernel: ref.Kernel  # the global one
    Z: np.ndarray
    Xt: np.ndarray
    weights: list[float]

    @property
    def inputs(self):
        return np.concatenate([p.X for p in self.parts])

    @property
    def y(self):
        return np.concatenate([p.y for p in self.parts])

    @property
    def noises(self):
        return np.concatenate([p.noises for p in self.parts])

    def shared(self):
        """Everybody on one plan: the same points, kernel and mean (noise stays everybody's own)."""
        mean = self.parts[0].mean
        return replace(self, parts=[replace(p, Z=self.Z, kernel=self.kernel, mean=mean) for p in self.parts])

    def same_mean(self):
        """Medians of means depend on the grouping; equal means do not."""
        return replace(self, parts=[replace(p, mean=self.parts[0].mean) for p in self.parts])


def scatter(rng, count):
    """Well separated points, none on a grid: farthest-point sampling of random candidates."""
    pool = rng.uniform(0, 3, (30 * count, 2))
    chosen = [0]
    for _ in range(count - 1):
        gaps = ((pool[:, None] - pool[chosen]) ** 2).sum(-1).min(1)
        chosen.append(int(gaps.argmax()))
    return ORIGIN + SCALE * pool[chosen]


def truth(X):
    a, b = ((X - ORIGIN) / SCALE).T
    return 1.7 + np.sin(2.1 * a) - 0.6 * a * np.cos(1.3 * b)


@st.composite
def kernels_of(draw):
    kind = draw(st.sampled_from(["rbf", "matern32", "matern52"]))
    lengths = [draw(st.floats(0.35, 0.8)) * s for s in SCALE]
    return ref.Kernel(kind, tuple(lengths), draw(st.floats(0.4, 2.5)))


@st.composite
def cases(draw, owners=(2, 4)):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    parts = []
    for _ in range(draw(st.integers(*owners))):
        n, M = draw(st.integers(5, 14)), draw(st.integers(3, 8))
        X, noise = scatter(rng, n), draw(st.floats(0.03, 0.5))
        y = truth(X) + math.sqrt(noise) * rng.standard_normal(n)
        parts.append(Part(X, y, scatter(rng, M), draw(kernels_of()), draw(st.floats(-1.5, 2.5)), noise))
    weights = [draw(st.floats(0.2, 3.0)) for _ in parts]
    return Case(parts, draw(kernels_of()), scatter(rng, draw(st.integers(6, 11))), scatter(rng, 7), weights)


# --- the library and the reference on the same problem ----------------------------------------


def spec(kernel):
    """The same kernel inside the library."""
    theta = torch.tensor([kernel.variance, *kernel.lengthscales], dtype=torch.float64).log()
    return kernels.parse(kernel.kind, len(kernel.lengthscales), ORIGIN).replace(theta)


def gpytorch_kernel(kernel):
    return kernels.to_gpytorch(spec(kernel))


def module(part, method, name):
    """A local fit at fixed hyperparameters; a prior mean m is a fit of y − m, moved up by m."""
    where = {"publish": part.Z} if method == "exact" else {"inducing": part.Z}
    options = {"kernel": gpytorch_kernel(part.kernel), "method": method, "learn": False, "noise": part.noise}
    fitted = rgp.fit(part.X, part.y - part.mean, name=name, **options, **where)
    return fitted.transform(output_shift=part.mean)


def modules(case, method):
    return [module(p, method, f"owner-{i}") for i, p in enumerate(case.parts)]


def merged(case, parts, **options):
    return rgp.merge(parts, inducing=case.Z, kernel=gpytorch_kernel(case.kernel), learn=False, **options)


def with_jitter(kernel, model):
    """The library's jitter is part of its kernel, and is written down in the model."""
    return replace(kernel, nugget=model.jitter)


def reference_sites(case, parts, method):
    """Straight from the data."""
    make = {"exact": ref.exact_site, "collapsed": ref.collapsed_site}[method]
    return [
        make(with_jitter(p.kernel, m), p.Z, p.X, p.y, p.mean, p.noises) for p, m in zip(case.parts, parts, strict=True)
    ]


def close(actual, expected, tolerance=1e-8):
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


def same_predictions(model, expected, Xt, tolerance=1e-8):
    mean, variance = model.predict(Xt)
    close(mean, expected.mean, tolerance)
    close(variance, np.diag(expected.cov), tolerance)


def same_models(a, b, Xt, tolerance=1e-8):
    for one, other in zip(a.predict(Xt), b.predict(Xt), strict=True):
        close(one, other, tolerance)
    close([a.bound, a.evidence, a.slack], [b.bound, b.evidence, b.slack], tolerance)


# --- merging itself ---------------------------------------------------------------------------


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
    same_predictions(e, ref.site_posterior(joint, k, e.mean, case.Xt), case.Xt, 1e-7)
    close(e.bound, ref.log_integral(joint, k, e.mean), 1e-7)
    marginal = ref.block_marginal(truths, k, e.mean, case.Z)
    close(e.evidence, ref.log_integral(marginal, k, e.mean), 1e-7)
    close(e.slack, ref.slack(truths, k, e.mean, case.Z), 1e-7)
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
    close(mean, expected.mean, 1e-7)
    close(variance, np.diag(expected.cov), 1e-7)


def by_evidence(e, Xt):
    """Predictions of the maximiser of E, which the public surface does not use for predicting."""
    solution = least_squares.solve(e._evidence_of, 0.0)
    post = posterior.Posterior(e.basis, torch.tensor(e.mean), solution.v, solution.C)
    return [t.numpy() for t in posterior.predict(post, torch.tensor(Xt))]


@theorem
@given(case=cases(), guess=st.floats(-4, 4))
def test_profiled_mean_maximises_the_evidence(case, guess):
    """m̂ is one more, unpenalised, column: no other constant mean has a larger E."""
    active = [m.site for m in modules(case, "exact")]
    base = posterior.basis(spec(case.kernel).tree, spec(case.kernel).tensor(), torch.tensor(case.Z))
    rows = least_squares.stack([as_rows(base, s, marginal=True) for s in active])
    best = least_squares.solve(rows)
    k = replace(case.kernel, nugget=base.jitter)
    natural = [natural_site(s) for s in active]

    def evidence(m):
        return ref.log_integral(ref.block_marginal(natural, k, m, case.Z), k, m)

    m = float(best.mean)
    close(float(best.bound), evidence(m), 1e-7)
    assert evidence(guess) <= float(best.bound) + 1e-8 * abs(float(best.bound))
    assert abs(evidence(m + 1e-4) - evidence(m - 1e-4)) < 1e-6 * (1 + abs(float(best.bound)))


def as_rows(base, site, *, marginal):
    (block,) = blocks.blocks([site], len(base.Z))
    return least_squares.gather(*blocks.project(base, block, blocks.meeting(base.Z, block)), marginal=marginal)


def natural_site(site):
    """The library's square root in natural parameters."""
    Z, Rt, rho, e = (np.asarray(t) for t in site)
    return ref.Site(Z, Rt.T @ Rt, Rt.T @ rho, float(e) - 0.5 * float(rho @ rho))


# --- 1. shared plan ---------------------------------------------------------------------------


@theorem
@given(case=cases())
def test_1_shared_plan_is_the_central_sgpr(case):
    """Theorem 1: collapsed modules on one plan merge into SGPR on all the data."""
    case = case.shared()
    e = merged(case, modules(case, "collapsed"))
    data = (with_jitter(case.kernel, e), case.Z, case.inputs, case.y, case.parts[0].mean, case.noises)
    same_predictions(e, ref.sgpr(*data, case.Xt), case.Xt)
    close(e.bound, ref.sgpr_bound(*data))
    assert abs(e.slack) < 1e-8
    close(e.evidence, e.bound)


@theorem
@given(case=cases())
def test_1_shared_plan_with_exact_sites_is_pitc(case):
    """Theorem 1: exact modules published on one plan merge into PITC with the owners as blocks."""
    case = case.shared()
    e = merged(case, modules(case, "exact"))
    data = (with_jitter(case.kernel, e), case.Z, [p.X for p in case.parts], case.y, case.parts[0].mean, case.noises)
    same_predictions(e, ref.pitc(*data, case.Xt), case.Xt)
    close([e.evidence, e.bound], [ref.pitc_evidence(*data)] * 2)


@theorem
@given(case=cases())
def test_1_unpublished_data_merge_by_evidence_into_pitc(case):
    """Theorem 1: with Z_k = X_k, E and its maximiser are PITC at any Z_*, whatever the local kernels."""
    own = replace(case, parts=[replace(p, Z=p.X) for p in case.parts])
    e = merged(own, modules(own, "exact"))
    data = (with_jitter(case.kernel, e), case.Z, [p.X for p in case.parts], case.y, e.mean, case.noises)
    close(e.evidence, ref.pitc_evidence(*data), 1e-7)
    mean, variance = by_evidence(e, case.Xt)
    expected = ref.pitc(*data, case.Xt)
    close(mean, expected.mean, 1e-7)
    close(variance, np.diag(expected.cov), 1e-7)


@theorem
@given(case=cases())
def test_1_bound_of_unpublished_data_is_the_central_sgpr(case):
    """Theorem 1, its Jensen half: with Z_k = X_k the ensemble bound is SGPR's at any Z_*."""
    own = replace(case, parts=[replace(p, Z=p.X) for p in case.parts])
    e = merged(own, modules(own, "exact"))
    data = (with_jitter(case.kernel, e), case.Z, case.inputs, case.y, e.mean, case.noises)
    same_predictions(e, ref.sgpr(*data, case.Xt), case.Xt, 1e-7)
    close(e.bound, ref.sgpr_bound(*data), 1e-7)


# --- 2. nothing summarised --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "collapsed"])
@theorem
@given(case=cases(owners=(2, 3)))
def test_2_all_points_kept_is_the_exact_gp(method, case):
    """Theorem 2: Z_k = X_k and Z_* = X give the exact GP, and L_E = E = log p(y), whatever ψ_k and m_k."""
    case = replace(case, parts=[replace(p, Z=p.X) for p in case.parts], Z=case.inputs)
    e = merged(case, modules(case, method))
    same_predictions(e, ref.exact_gp(case.kernel, case.inputs, case.y, e.mean, case.noises, case.Xt), case.Xt, 1e-7)
    evidence = ref.exact_evidence(case.kernel, case.inputs, case.y, e.mean, case.noises)
    close([e.bound, e.evidence], [evidence] * 2, 1e-7)


# --- 3. order and grouping --------------------------------------------------------------------


@theorem
@given(case=cases(owners=(3, 5)), order=st.randoms(use_true_random=False))
def test_3_order_does_not_matter(case, order):
    """Theorem 3: any order of the modules."""
    parts = modules(case, "exact")
    mixed = list(parts)
    order.shuffle(mixed)
    same_models(merged(case, parts), merged(case, mixed), case.Xt)


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
        close(one, other)
    close([nested.bound, nested.evidence], [flat.bound] * 2)
    assert nested.rows == flat.rows


@theorem
@given(case=cases(owners=(3, 4)))
def test_3_grouping_of_published_modules_keeps_the_evidence(case):
    """Theorem 3 on a shared plan, where nothing is lost at any level: E survives grouping as well."""
    case = case.shared()
    parts = modules(case, "exact")
    nested = merged(case, [merged(case, parts[:2]).to_module("first"), *parts[2:]])
    same_models(merged(case, parts), nested, case.Xt)


@theorem
@given(case=cases())
def test_3_one_module_as_an_ensemble_is_itself(case):
    """Theorem 3 at its smallest: merging one module on its own points and kernel changes nothing."""
    part = case.parts[0]
    alone = module(part, "exact", "only")
    e = rgp.merge([alone], inducing=part.Z, kernel=alone.kernel, learn=False)
    for model in (e, e.to_module("again")):
        for one, other in zip(alone.predict(case.Xt), model.predict(case.Xt), strict=True):
            close(one, other)
    close([e.bound, e.evidence, e.to_module("again").evidence], [alone.evidence] * 3)


# --- 4. add, remove, weigh --------------------------------------------------------------------


@theorem
@given(case=cases(owners=(3, 4)))
def test_4_add_then_remove_is_never_added(case):
    """Theorem 4: removal re-stacks the rest, so nothing of the removed module is left behind."""
    *rest, last = modules(case.same_mean(), "exact")
    without, everyone = merged(case, rest), merged(case, [*rest, last])
    added = without.add(last)
    same_models(added, everyone, case.Xt)
    assert added.names == everyone.names
    same_models(added.remove(last.name), without, case.Xt, 1e-12)


@theorem
@given(case=cases(owners=(3, 4)), size=st.floats(1e3, 1e6))
def test_4_removing_a_dominant_module_leaves_no_rounding(case, size):
    """Theorem 4 where subtraction would fail: the removed module outweighs the others by far."""
    *rest, last = modules(case.same_mean(), "exact")
    everyone = merged(case, [*rest, last], weights={last.name: size})
    same_models(everyone.remove(last.name), merged(case, rest), case.Xt, 1e-12)


@theorem
@given(case=cases(owners=(3, 4)))
def test_4_weight_zero_is_absent(case):
    """Theorem 4: w = 0."""
    *rest, last = modules(case.same_mean(), "collapsed")
    without = merged(case, rest)
    everyone = merged(case, [*rest, last], weights={last.name: 0})
    same_models(everyone, without, case.Xt, 1e-12)
    same_models(merged(case, [*rest, last]).reweight({last.name: 0}), without, case.Xt, 1e-12)
    assert everyone.rows == without.rows


@theorem
@given(case=cases())
def test_4_a_module_twice_is_weight_two_for_the_bound(case):
    """Theorem 4: a module given twice is w = 2, in its predictions and in L_E."""
    parts = modules(case.same_mean(), "exact")
    twice = merged(case, [*parts, parts[0].rename("again")])
    double = merged(case, parts, weights={parts[0].name: 2})
    for one, other in zip(twice.predict(case.Xt), double.predict(case.Xt), strict=True):
        close(one, other)
    close([twice.bound, twice.slack], [double.bound, double.slack])


@theorem
@given(case=cases())
def test_4_a_module_twice_is_weight_two_for_the_evidence(case):
    """Theorem 4 for E needs a shared plan: two blocks integrate their residuals out separately."""
    case = case.shared()
    parts = modules(case, "exact")
    twice = merged(case, [*parts, parts[0].rename("again")])
    same_models(twice, merged(case, parts, weights={parts[0].name: 2}), case.Xt)


@theorem
@given(case=cases(owners=(2, 4)))
def test_4_reweight_is_merging_with_these_weights(case):
    """Theorem 4: weights that are no integers, given early or late."""
    parts = modules(case.same_mean(), "collapsed")
    late = merged(case, parts).reweight({m.name: w for m, w in zip(parts, case.weights, strict=True)})
    same_models(late, merged(case, parts, weights=case.weights), case.Xt)


# --- 5. nothing beats the closed form ---------------------------------------------------------


def whitened(e, v, C):
    """q(u_*) = N(m + Lv, L(CCᵀ)⁻¹Lᵀ) as NumPy moments."""
    L = e.basis.L.numpy()
    half = L @ np.linalg.inv(C.detach().numpy()).T
    return ref.Moments(e.mean + L @ v.detach().numpy(), half @ half.T)


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

    close(value(best.v, best.C), e.bound, 1e-7)
    rng = np.random.default_rng(seed)
    M = len(case.Z)
    for _ in range(5):
        v = best.v + size * torch.tensor(rng.standard_normal(M))
        C = best.C @ torch.linalg.cholesky(torch.eye(M) + size * gram(rng, M)).double()
        assert value(v, C) < e.bound
        # ... and the library's own functions for (ensemble) agree with the reference away from the optimum
        close(float(bounds.expected_rows(e._bound_of, v, C) - bounds.kl(v, C)), value(v, C), 1e-7)


def gram(rng, M):
    A = torch.tensor(rng.standard_normal((M, M)))
    return A @ A.mT / M


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
        value = bounds.expected_rows(e._bound_of, v, C) - bounds.kl(v, C)
        values.append(float(value.detach()))
        climber.zero_grad()
        (-value).backward()
        climber.step()
    assert max(values) <= e.bound + 1e-9 * abs(e.bound)
    assert e.bound - max(values) < 0.02 * (e.bound - values[0])


@slow
@given(case=cases(), seed=st.integers(0, 2**31))
def test_5_vem_stays_below_the_closed_form_at_its_own_kernel(case, seed):
    """Theorem 5: ascending q, ψ and m together never exceeds the closed form at the ψ and m it has reached."""
    active = [m.site for m in modules(case, "exact")]
    tree, Z = spec(case.kernel).tree, torch.tensor(case.Z)
    theta = spec(case.kernel).tensor().requires_grad_()
    rng = np.random.default_rng(seed)
    v = torch.tensor(rng.standard_normal(len(Z))).requires_grad_()
    raw = torch.tensor(0.3 * rng.standard_normal((len(Z), len(Z)))).requires_grad_()
    mean = torch.tensor(float(rng.standard_normal()), dtype=torch.float64).requires_grad_()
    climber = torch.optim.Adam([v, raw, theta, mean], lr=0.05)
    gaps = []
    for _ in range(40):
        base = posterior.basis(tree, theta, Z)
        rows = least_squares.stack([as_rows(base, s, marginal=False) for s in active])
        C = raw.tril(-1) + torch.diag(raw.diagonal().exp())
        value = bounds.expected_rows(least_squares.centre(rows, mean), v, C) - bounds.kl(v, C)
        gaps.append(float((least_squares.solve(rows, mean).bound - value).detach()))
        climber.zero_grad()
        (-value).backward()
        climber.step()
    assert min(gaps) >= 0
    assert gaps[-1] < gaps[0]


# --- 6. publishing, files, moments ------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "collapsed"])
@theorem
@given(case=cases(owners=(2, 2)))
def test_6_publish_is_the_exact_marginal(method, case):
    """Theorem 6: the published posterior at Z' is the rich posterior's marginal there, and so is its evidence."""
    part, Z = case.parts[0], case.parts[1].Z
    rich = module(part, method, "rich")
    small = rich.publish(Z)
    k = with_jitter(part.kernel, rich)
    make = {"exact": ref.exact_site, "collapsed": ref.collapsed_site}[method]
    source = make(k, part.Z, part.X, part.y, part.mean, part.noises)
    published = ref.publish(source, k, part.mean, Z)
    close(small.site.Rt.T @ small.site.Rt, published.Lam, 1e-6)
    close(small.site.Rt.T @ small.site.rho, published.lam, 1e-6)
    same_predictions(small, ref.site_posterior(published, k, part.mean, case.Xt), case.Xt, 1e-7)
    close([small.evidence, rich.evidence], [ref.log_integral(source, k, part.mean)] * 2, 1e-7)
    # the identity itself: both posteriors agree at Z', jointly
    joint = [posterior.covariance(m.posterior, torch.tensor(Z)) for m in (rich, small)]
    close(joint[1], joint[0], 1e-7)
    close(small.predict(Z)[0], rich.predict(Z)[0], 1e-7)


@theorem
@given(case=cases(owners=(2, 2)))
def test_6_publishing_an_exact_fit_is_the_exact_gp_there(case):
    """Theorem 6: an exact fit published at Z' predicts there what the exact GP predicts."""
    part = case.parts[0]
    same_predictions(
        module(part, "exact", "m"),
        ref.exact_gp(part.kernel, part.X, part.y, part.mean, part.noises, part.Z),
        part.Z,
        1e-7,
    )


@theorem
@given(case=cases(owners=(2, 2)))
def test_6_publishing_in_two_steps_is_publishing_once(case):
    """Theorem 6: marginals of marginals, when the second points are among the first."""
    rich = module(case.parts[0], "exact", "rich")
    Z = np.concatenate([case.parts[1].Z, case.Xt])
    twice, once = rich.publish(Z).publish(case.Xt), rich.publish(case.Xt)
    # the second publication forgets no more than the first: same posterior at the last points
    close(twice.predict(case.Xt)[0], once.predict(case.Xt)[0], 1e-7)
    close(twice.predict(case.Xt)[1], once.predict(case.Xt)[1], 1e-7)
    close(twice.evidence, rich.evidence, 1e-7)


def identical(a, b):
    """Bitwise, NaN included."""
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_6_module_file_round_trip_is_bit_exact(method, tmp_path):
    """Theorem 6: tensors, numbers and predictions of a module survive a file to the last bit."""
    case = fixed_case()
    before = module(case.parts[0], method, "traveller")
    before.save(tmp_path / "m.safetensors")
    after = rgp.load(tmp_path / "m.safetensors")
    for one, other in zip(before.site, after.site, strict=True):
        identical(one, other)
    for field in ("name", "kernel_spec", "mean", "jitter", "likelihoods", "rows", "columns", "convergence", "method"):
        assert getattr(before, field) == getattr(after, field)
    for one, other in zip(before.predict(case.Xt), after.predict(case.Xt), strict=True):
        assert one.tobytes() == other.tobytes()
    assert before.evidence == after.evidence


def fixed_case():
    """One generic problem where no property needs many."""
    rng = np.random.default_rng(20_10_02554)
    parts = []
    for n, M, kind, mean, noise in (
        (11, 5, "rbf", 0.8, 0.11),
        (8, 7, "matern32", -0.6, 0.27),
        (13, 4, "rbf", 2.1, 0.06),
    ):
        X = scatter(rng, n)
        y = truth(X) + math.sqrt(noise) * rng.standard_normal(n)
        kernel = ref.Kernel(kind, tuple(SCALE * rng.uniform(0.4, 0.8, 2)), rng.uniform(0.5, 2.0))
        parts.append(Part(X, y, scatter(rng, M), kernel, mean, noise))
    return Case(parts, ref.Kernel("matern52", (0.9, 2.2), 1.4), scatter(rng, 9), scatter(rng, 7), [0.7, 1.9, 0.4])


@pytest.mark.parametrize("keep", ["sites", "names"])
def test_6_ensemble_file_round_trip_is_bit_exact(keep, tmp_path):
    """Theorem 6: the same for an ensemble, with its members' sites or without them."""
    case = fixed_case()
    before = merged(case, modules(case, "exact"), weights=case.weights, keep=keep)
    before.save(tmp_path / "e.safetensors")
    after = rgp.load(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(before.inducing, after.inducing)
    for part in ("_evidence_of", "_bound_of"):
        for one, other in zip(getattr(before, part), getattr(after, part), strict=True):
            identical(one, other)
    for one, other in zip(before._members, after._members, strict=True):
        assert one._replace(site=None, surprise=0.0) == other._replace(site=None, surprise=0.0)
        assert np.float64(one.surprise).tobytes() == np.float64(other.surprise).tobytes()
        assert (one.site is None) == (other.site is None) == (keep == "names")
        for a, b in zip(one.site or (), other.site or (), strict=True):
            identical(a, b)
    for field in ("kernel_spec", "mean", "jitter", "likelihoods", "columns", "bound", "evidence", "slack"):
        assert getattr(before, field) == getattr(after, field)
    for one, other in zip(before.predict(case.Xt), after.predict(case.Xt), strict=True):
        assert one.tobytes() == other.tobytes()


@theorem
@given(case=cases(owners=(2, 2)), evidence=st.floats(-50, 5))
def test_6_moments_to_site_to_moments(case, evidence):
    """Theorem 6: q(u) from elsewhere comes back as it was, and its evidence with it."""
    part = case.parts[0]
    k = replace(part.kernel, nugget=1e-6)
    source = ref.exact_site(k, part.Z, part.X, part.y, part.mean, part.noises)
    q = ref.Moments(*at_points(source, k, part.mean))
    back = rgp.Module.from_moments(
        part.Z,
        q.mean,
        q.cov,
        kernel=gpytorch_kernel(part.kernel),
        prior_mean=part.mean,
        jitter=1e-6,
        evidence=evidence,
        noise=part.noise,
        name="elsewhere",
    )
    mean, cov = own_moments(back)
    close(mean, q.mean, 1e-7)
    close(cov, q.cov, 1e-7)
    close(back.evidence, evidence, 1e-7)
    assert back.convergence.converged
    # and as a site it is the one the data made (Λ, λ), with the given evidence
    same = ref.moments_site(k, part.Z, part.mean, q, evidence)
    close(float(back.site.e) - 0.5 * float(back.site.rho @ back.site.rho), same.c, 1e-5)
    close(back.site.Rt.T @ back.site.Rt, source.Lam, 1e-5)
    close(back.site.Rt.T @ back.site.rho, source.lam, 1e-5)


def at_points(site, kernel, mean):
    """q(u) of a site under its prior: mean and covariance at its own points, nugget included."""
    K_inv = np.linalg.inv(kernel(site.Z, site.Z))
    S = np.linalg.inv(K_inv + site.Lam)
    return S @ (K_inv @ np.full(len(site.Z), mean) + site.lam), S


def own_moments(m):
    """q(u) = N(m + Lv, L(CCᵀ)⁻¹Lᵀ) of a module at its own points."""
    post = m.posterior
    half = torch.linalg.solve_triangular(post.C, post.basis.L.mT, upper=False)
    return (post.mean + post.basis.L @ post.v).numpy(), (half.mT @ half).numpy()


@theorem
@given(case=cases(owners=(2, 2)), excess=st.floats(1.05, 30.0), wide=st.integers(1, 2), seed=st.integers(0, 2**31))
def test_6_moments_wider_than_the_prior_keep_their_mean(case, excess, wide, seed):
    """Theorem 6, where a local fit had not converged: the width is floored at the prior's, the mean is kept."""
    part = case.parts[0]
    k = replace(part.kernel, nugget=1e-6)
    M = len(part.Z)
    rng = np.random.default_rng(seed)
    s = np.concatenate([np.full(wide, excess), rng.uniform(0.05, 0.9, M - wide)])
    U = np.linalg.qr(rng.standard_normal((M, M)))[0]
    L = np.linalg.cholesky(k(part.Z, part.Z))
    mu = part.mean + L @ rng.standard_normal(M)
    options = {"kernel": gpytorch_kernel(part.kernel), "prior_mean": part.mean, "jitter": 1e-6, "name": "wide"}
    with pytest.warns(rgp.RecycleGPWarning, match=f"{wide} of {M} directions"):
        floored = rgp.Module.from_moments(part.Z, mu, L @ (U * s) @ U.T @ L.T, **options)
    mean, cov = own_moments(floored)
    close(mean, mu, 1e-6)
    close(cov, L @ (U * np.minimum(s, 1.0)) @ U.T @ L.T, 1e-6)
    assert not floored.convergence.converged
    assert np.linalg.eigvalsh(floored.site.Rt.T @ floored.site.Rt).min() >= 0


# --- 7. new data ------------------------------------------------------------------------------


@theorem
@given(case=cases(owners=(3, 4)))
def test_7_update_is_merging_a_collapsed_module_at_the_same_points(case):
    """Theorem 7: (combined) with Gaussian data is a merge with a collapsed module whose Z_k is Z_*."""
    *rest, new = case.same_mean().parts
    old = merged(case, [module(p, "exact", f"owner-{i}") for i, p in enumerate(rest)])
    updated = old.update(new.X, new.y, noise=new.noise, name="new")
    twin = module(replace(new, Z=case.Z, kernel=case.kernel, mean=old.mean), "collapsed", "new")
    same_models(updated, old.add(twin), case.Xt)
    for one, other in zip(natural_site(updated._members[-1].site), natural_site(twin.site), strict=True):
        close(one, other)


@theorem
@given(case=cases(owners=(3, 4)), seed=st.integers(0, 2**31))
def test_7_update_maximises_the_combined_bound(case, seed):
    """Theorem 7: eq. (combined) in NumPy, modules' log-ratios beside the data's expected log-likelihood."""
    *rest, new = case.same_mean().parts
    known = replace(case, parts=rest)
    parts = [module(p, "exact", f"owner-{i}") for i, p in enumerate(rest)]
    e = merged(known, parts).update(new.X, new.y, noise=new.noise)
    k, truths = with_jitter(case.kernel, e), reference_sites(known, parts, "exact")

    def combined(v, C):
        q = whitened(e, v, C)
        expected = ref.gaussian_expected(q, k, e.mean, case.Z, new.X, new.y, new.noises)
        return ref.ensemble_bound(q, truths, k, e.mean, case.Z) + expected

    best = e.posterior
    close(combined(best.v, best.C), e.bound, 1e-7)
    shift = torch.tensor(np.random.default_rng(seed).standard_normal(len(case.Z)))
    assert combined(best.v + 0.1 * shift, best.C) < e.bound
    assert combined(best.v, best.C * (1 + 0.1 * float(shift[0].abs()) + 0.01)) < e.bound


# --- 8. units ---------------------------------------------------------------------------------

units = {
    "scale": st.floats(0.02, 40.0).map(lambda s: s * (-1 if s > 10 else 1)),
    "shift": st.floats(-30.0, 30.0),
}


@theorem
@given(case=cases(owners=(2, 2)), **units)
def test_8_transform_is_the_fit_in_other_units(case, scale, shift):
    """Theorem 8, hyperparameters transformed: Module.transform is the fit of s·y + b at x + c."""
    part, move = case.parts[0], np.array([0.4, -3.1])
    old = module(part, "exact", "m")
    new = old.transform(input_shift=move, output_scale=scale, output_shift=shift)
    k = replace(part.kernel, variance=scale**2 * part.kernel.variance)
    moved = Part(
        part.X + move, scale * part.y + shift, part.Z + move, k, scale * part.mean + shift, scale**2 * part.noise
    )
    again = module(moved, "exact", "m")
    size = abs(scale) + abs(shift)
    for one, other, unit in zip(
        new.predict(case.Xt + move), again.predict(case.Xt + move), (size, size**2), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7 * unit)
    close(new.evidence, again.evidence, 1e-7)
    close(new.evidence, old.evidence - len(part.y) * math.log(abs(scale)), 1e-7)
    mean, variance = old.predict(case.Xt)
    np.testing.assert_allclose(new.predict(case.Xt + move)[0], scale * mean + shift, rtol=1e-7, atol=1e-7 * size)
    np.testing.assert_allclose(new.predict(case.Xt + move)[1], scale**2 * variance, rtol=1e-7, atol=1e-7 * scale**2)
    close(new.noise, again.noise)


@theorem
@given(case=cases(), **units)
def test_8_transform_commutes_with_merge(case, scale, shift):
    """Theorem 8: the merge of transformed modules is the transformed merge, weights included."""
    move = np.array([-2.2, 0.9])
    how = {"input_shift": move, "output_scale": scale, "output_shift": shift}
    parts = modules(case, "exact")
    inside = merged(case, parts, weights=case.weights).transform(**how)
    k = replace(case.kernel, variance=scale**2 * case.kernel.variance)
    outside = merged(
        replace(case, kernel=k, Z=case.Z + move), [m.transform(**how) for m in parts], weights=case.weights
    )
    size = abs(scale) + abs(shift)
    for one, other, unit in zip(inside.predict(case.Xt), outside.predict(case.Xt), (size, scale**2), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7 * unit)
    close([inside.bound, inside.evidence, inside.slack], [outside.bound, outside.evidence, outside.slack], 1e-7)
    # and it can be taken apart afterwards as before
    gone = parts[0].name
    for one, other, unit in zip(
        inside.remove(gone).predict(case.Xt), outside.remove(gone).predict(case.Xt), (size, scale**2), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7 * unit)


@theorem
@given(case=cases(), **units)
def test_8_transform_there_and_back_is_nothing(case, scale, shift):
    """Theorem 8: the inverse change of units undoes it."""
    e = merged(case, modules(case, "collapsed"))
    there = e.transform(output_scale=scale, output_shift=shift)
    same_models(there.transform(output_scale=1 / scale, output_shift=-shift / scale), e, case.Xt)


@theorem
@given(case=cases(), **units)
def test_8_transform_commutes_with_to_module(case, scale, shift):
    """Theorem 8: an ensemble as a module, in other units, either way round."""
    e = merged(case, modules(case, "exact"))
    how = {"input_shift": [1.1, -0.4], "output_scale": scale, "output_shift": shift}
    inside, outside = e.transform(**how).to_module("m"), e.to_module("m").transform(**how)
    mean, variance = outside.predict(case.Xt)
    np.testing.assert_allclose(inside.predict(case.Xt)[0], mean, rtol=1e-7, atol=1e-7 * (abs(scale) + abs(shift)))
    np.testing.assert_allclose(inside.predict(case.Xt)[1], variance, rtol=1e-7, atol=1e-7 * scale**2)
    close(inside.evidence, outside.evidence, 1e-8)


def learned(X, y, **options):
    return rgp.fit(X, y, name="learned", **options)


def data(rows=40):
    rng = np.random.default_rng(5)
    X = ORIGIN + SCALE * rng.uniform(0, 3, (rows, 2))
    return X, truth(X) + 0.2 * rng.standard_normal(rows)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf", "publish": 12},
        {"kernel": "matern52 + linear", "publish": 12},
        {"kernel": "rbf", "method": "collapsed", "inducing": 10, "publish": 6},
        {"kernel": "rbf", "likelihood": "student-t", "inducing": 8},
    ],
    ids=["exact", "composed", "collapsed", "student-t"],
)
def test_8_learned_fit_does_not_know_the_units_of_y(options):
    """Theorem 8, hyperparameters learned: fitting s·y + b and changing back gives the same predictive."""
    X, y = data()
    Xt = X[:7] + 0.1
    plain = learned(X, y, **options)
    scale, shift = -37.0, 512.0
    mean, variance = learned(X, scale * y + shift, **options).predict(Xt)
    np.testing.assert_allclose((mean - shift) / scale, plain.predict(Xt)[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(variance / scale**2, plain.predict(Xt)[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "matern32 + linear"])
def test_8_learned_fit_does_not_know_the_units_of_x(kernel):
    """Theorem 8 for the inputs: rescaled and shifted columns give the same predictive."""
    X, y = data()
    Z, Xt = X[::5] + 0.05, X[:7] + 0.1
    stretch, move = np.array([250.0, 0.004]), np.array([-3e3, 0.7])
    plain = learned(X, y, kernel=kernel, publish=Z)
    other = learned(X * stretch + move, y, kernel=kernel, publish=Z * stretch + move)
    for one, two in zip(plain.predict(Xt), other.predict(Xt * stretch + move), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
    close(plain.evidence, other.evidence, 1e-4)


def test_8_learned_merge_does_not_know_the_units_of_y():
    """Theorem 8 for merge: kernel and mean learned from transformed modules are the transformed ones."""
    case = fixed_case()
    parts = modules(case, "exact")
    plain = rgp.merge(parts, inducing=case.Z)
    scale, shift = 21.0, -340.0
    other = rgp.merge([m.transform(output_scale=scale, output_shift=shift) for m in parts], inducing=case.Z)
    mean, variance = other.predict(case.Xt)
    np.testing.assert_allclose((mean - shift) / scale, plain.predict(case.Xt)[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(variance / scale**2, plain.predict(case.Xt)[1], rtol=1e-3, atol=1e-4)
    close((other.mean - shift) / scale, plain.mean, 1e-4)
