"""Theorems 6 to 8: publishing, files and moments; new data; units. Against dense Gaussian algebra in NumPy.

Theorems 1 to 5 are in test_identities.py, the problems themselves in cases.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import recyclegp as rgp
import reference as ref
from cases import (
    ORIGIN,
    SCALE,
    Part,
    cases,
    check_close,
    check_predictions,
    check_same_models,
    fixed_case,
    gpytorch_kernel,
    merged,
    module,
    modules,
    natural_site,
    reference_sites,
    theorem,
    truth,
    whitened,
    with_jitter,
)

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
    check_close(small.site.Rt.T @ small.site.Rt, published.Lam, 1e-6)
    check_close(small.site.Rt.T @ small.site.rho, published.lam, 1e-6)
    check_predictions(small, ref.site_posterior(published, k, part.mean, case.Xt), case.Xt, 1e-7)
    check_close([small.evidence, rich.evidence], [ref.log_integral(source, k, part.mean)] * 2, 1e-7)
    # the identity itself: both posteriors agree at Z', jointly
    joint = [m.posterior.joint(torch.tensor(Z)).covariance for m in (rich, small)]
    check_close(joint[1], joint[0], 1e-7)
    check_close(small.predict(Z)[0], rich.predict(Z)[0], 1e-7)


@theorem
@given(case=cases(owners=(2, 2)))
def test_6_publishing_an_exact_fit_is_the_exact_gp_there(case):
    """Theorem 6: an exact fit published at Z' predicts there what the exact GP predicts."""
    part = case.parts[0]
    check_predictions(
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
    check_close(twice.predict(case.Xt)[0], once.predict(case.Xt)[0], 1e-7)
    check_close(twice.predict(case.Xt)[1], once.predict(case.Xt)[1], 1e-7)
    check_close(twice.evidence, rich.evidence, 1e-7)


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


@pytest.mark.parametrize("keep", ["sites", "names"])
def test_6_ensemble_file_round_trip_is_bit_exact(keep, tmp_path):
    """Theorem 6: the same for an ensemble, with its members' sites or without them."""
    case = fixed_case()
    before = merged(case, modules(case, "exact"), weights=case.weights, keep=keep)
    before.save(tmp_path / "e.safetensors")
    after = rgp.load(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(before.inducing, after.inducing)
    for part in ("marginal", "bound_rows"):
        forms = before.groups[0].with_evidence, after.groups[0].with_evidence
        for one, other in zip(*(getattr(form, part) for form in forms), strict=True):
            identical(one, other)
    for one, other in zip(before._members, after._members, strict=True):
        assert one.with_site(None)._replace(surprise=0.0) == other.with_site(None)._replace(surprise=0.0)
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
    check_close(mean, q.mean, 1e-7)
    check_close(cov, q.cov, 1e-7)
    check_close(back.evidence, evidence, 1e-7)
    assert back.convergence.converged
    # and as a site it is the one the data made (Λ, λ), with the given evidence
    same = ref.moments_site(k, part.Z, part.mean, q, evidence)
    check_close(float(back.site.e) - 0.5 * float(back.site.rho @ back.site.rho), same.c, 1e-5)
    check_close(back.site.Rt.T @ back.site.Rt, source.Lam, 1e-5)
    check_close(back.site.Rt.T @ back.site.rho, source.lam, 1e-5)


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
    check_close(mean, mu, 1e-6)
    check_close(cov, L @ (U * np.minimum(s, 1.0)) @ U.T @ L.T, 1e-6)
    assert not floored.convergence.converged
    assert np.linalg.eigvalsh(floored.site.Rt.T @ floored.site.Rt).min() >= 0


# --- 7. new data ------------------------------------------------------------------------------


@pytest.mark.slow
@theorem
@given(case=cases(owners=(3, 4)))
def test_7_update_is_merging_a_collapsed_module_at_the_same_points(case):
    """Theorem 7: (combined) with Gaussian data is a merge with a collapsed module whose Z_k is Z_*."""
    *rest, new = case.same_mean().parts
    old = merged(case, [module(p, "exact", f"owner-{i}") for i, p in enumerate(rest)])
    updated = old.update(new.X, new.y, noise=new.noise, name="new", publish=None)
    twin = module(replace(new, Z=case.Z, kernel=case.kernel, mean=old.mean), "collapsed", "new")
    check_same_models(updated, old.add(twin), case.Xt)
    for one, other in zip(natural_site(updated._members[-1].site), natural_site(twin.site), strict=True):
        check_close(one, other)


@theorem
@given(case=cases(owners=(3, 4)), seed=st.integers(0, 2**31))
def test_7_update_maximises_the_combined_bound(case, seed):
    """Theorem 7: eq. (combined) in NumPy, modules' log-ratios beside the data's expected log-likelihood."""
    *rest, new = case.same_mean().parts
    known = replace(case, parts=rest)
    parts = [module(p, "exact", f"owner-{i}") for i, p in enumerate(rest)]
    e = merged(known, parts).update(new.X, new.y, noise=new.noise, publish=None)
    k, truths = with_jitter(case.kernel, e), reference_sites(known, parts, "exact")

    def combined(v, C):
        q = whitened(e, v, C)
        expected = ref.gaussian_expected(q, k, e.mean, case.Z, new.X, new.y, new.noises)
        return ref.ensemble_bound(q, truths, k, e.mean, case.Z) + expected

    best = e.posterior
    check_close(combined(best.v, best.C), e.bound, 1e-7)
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
    check_close(new.evidence, again.evidence, 1e-7)
    check_close(new.evidence, old.evidence - len(part.y) * math.log(abs(scale)), 1e-7)
    mean, variance = old.predict(case.Xt)
    np.testing.assert_allclose(new.predict(case.Xt + move)[0], scale * mean + shift, rtol=1e-7, atol=1e-7 * size)
    np.testing.assert_allclose(new.predict(case.Xt + move)[1], scale**2 * variance, rtol=1e-7, atol=1e-7 * scale**2)
    check_close(new.noise, again.noise)


@pytest.mark.slow
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
    check_close([inside.bound, inside.evidence, inside.slack], [outside.bound, outside.evidence, outside.slack], 1e-7)
    # and it can be taken apart afterwards as before
    gone = parts[0].name
    for one, other, unit in zip(
        inside.remove(gone, relearn=False).predict(case.Xt),
        outside.remove(gone, relearn=False).predict(case.Xt),
        (size, scale**2),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7 * unit)


@pytest.mark.slow
@theorem
@given(case=cases(), **units)
def test_8_transform_there_and_back_is_nothing(case, scale, shift):
    """Theorem 8: the inverse change of units undoes it."""
    e = merged(case, modules(case, "collapsed"))
    there = e.transform(output_scale=scale, output_shift=shift)
    check_same_models(there.transform(output_scale=1 / scale, output_shift=-shift / scale), e, case.Xt)


@pytest.mark.slow
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
    check_close(inside.evidence, outside.evidence, 1e-8)


def learned(X, y, **options):
    return rgp.fit(X, y, name="learned", **options)


def data(rows=40):
    rng = np.random.default_rng(5)
    X = ORIGIN + SCALE * rng.uniform(0, 3, (rows, 2))
    return X, truth(X) + 0.2 * rng.standard_normal(rows)


@pytest.mark.slow
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
    check_close(plain.evidence, other.evidence, 1e-4)


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
    check_close((other.mean - shift) / scale, plain.mean, 1e-4)
