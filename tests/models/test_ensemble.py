"""Ensembles: add, remove, update, units, pyramids, report, samples, weights, for every likelihood."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.likelihoods import named

LIKELIHOODS = ["gaussian", "bernoulli", "bernoulli-probit", "poisson", "student-t"]


def truth(X):
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3


def observe(likelihood, X, rng):
    f = truth(X)
    if likelihood.startswith("bernoulli"):
        return (rng.uniform(size=len(f)) < 1 / (1 + np.exp(-2 * f))).astype(float)
    if likelihood == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    noise = rng.standard_t(4, len(f)) if likelihood == "student-t" else rng.standard_normal(len(f))
    return f + 0.2 * noise


def local(likelihood, name, seed, centre=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (35, 2)) + centre
    options = {} if likelihood == "gaussian" else {"inducing": 12}
    return rgp.fit(X, observe(likelihood, X, rng), likelihood=likelihood, name=name, publish=9, learn=False, **options)


@pytest.fixture(scope="module")
def modules():
    return {p: [local(p, f"{p} {i}", 10 * j + i, 0.7 * i) for i in range(3)] for j, p in enumerate(LIKELIHOODS)}


@pytest.fixture(scope="module")
def mixed(modules):
    return rgp.merge([modules[p][i] for p, i in (("gaussian", 0), ("bernoulli", 1), ("poisson", 2))], learn=False)


@pytest.fixture(scope="module")
def gaussian(modules):
    return rgp.merge(modules["gaussian"], learn=False)


X = np.random.default_rng(77).uniform(-2, 3, (25, 2))


def check_close(a, b, rtol=1e-7):
    for p, q in zip(a.predict(X), b.predict(X), strict=True):
        np.testing.assert_allclose(p, q, rtol=rtol, atol=1e-9)


def different(a, b):
    return np.abs(a.predict(X)[0] - b.predict(X)[0]).max() > 1e-3


# --- add, remove, update ----------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_add_then_remove_is_never_added(modules, likelihood):
    a, b, c = modules[likelihood]
    e = rgp.merge([a, b], learn=False)
    more = e.add(c)
    assert more.names == [a.name, b.name, c.name]
    assert e.names == [a.name, b.name]  # the old one is as it was
    assert different(e, more)
    back = more.remove(c.name)
    check_close(back, e)
    assert back.names == e.names
    assert back.bound == pytest.approx(e.bound, rel=1e-9)
    assert back.evidence == pytest.approx(e.evidence, rel=1e-9)
    assert back.slack == pytest.approx(e.slack, rel=1e-6, abs=1e-9)
    np.testing.assert_array_equal(more.inducing[: len(e.inducing)], e.inducing)
    assert more.kernel_spec == e.kernel_spec
    assert (more.mean, more.noise) == (e.mean, e.noise)
    assert more.rows == sum(m.rows for m in (a, b, c))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_adding_is_merging_at_the_same_choices(modules, likelihood):
    a, b, c = modules[likelihood]
    Z = np.r_[a.inducing, b.inducing]
    one, kernel = rgp.merge([a], inducing=Z, learn=False), a.kernel
    at_once = rgp.merge([a, b, c], inducing=Z, kernel=kernel, learn=False)
    assert one.mean == pytest.approx(a.mean)
    step = one.add([b, c])
    turn = one.add(c).add(b)
    check_close(step, turn)
    assert step.bound == pytest.approx(turn.bound, rel=1e-9)
    if at_once.mean == one.mean:
        check_close(step, at_once)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_update(modules, likelihood):
    rng = np.random.default_rng(5)
    e = rgp.merge(modules[likelihood][:2], learn=False)
    new = rng.uniform(1, 2.5, (30, 2))
    y = observe(likelihood, new, rng)
    more = e.update(new, y)
    assert more.names == [*e.names, "update-1"]
    assert more.rows == e.rows + 30
    assert more.predict(new)[1].mean() < e.predict(new)[1].mean()
    assert more.log_density(new, y).mean() > e.log_density(new, y).mean()
    check_close(more.remove("update-1"), e)
    again = more.update(new[:3], y[:3])
    assert again.names == more.names  # rows without a name join
    assert again.rows == more.rows + 3
    assert e.update(new, y, name="today").names[-1] == "today"


def test_gaussian_updates_in_any_portions(modules):
    gaussian = rgp.merge(
        modules["gaussian"], learn=False, inducing=np.concatenate([m.inducing for m in modules["gaussian"]])
    )
    rng = np.random.default_rng(9)
    new = rng.uniform(-1, 2, (20, 2))
    y = observe("gaussian", new, rng)
    whole, parts = gaussian.update(new, y), gaussian.update(new[12:], y[12:]).update(new[:12], y[:12])
    check_close(whole, parts)
    assert whole.bound == pytest.approx(parts.bound, rel=1e-9)
    surer = gaussian.update(new, y, noise=1e-3)
    assert surer.predict(new)[1].sum() < whole.predict(new)[1].sum()


def test_relearn_chooses_again(modules):
    a, b, c = modules["gaussian"]
    e = rgp.merge([a, b], learn=False)
    kept, relearned = e.add(c), e.add(c, relearn=True)
    assert kept.kernel_spec == e.kernel_spec
    assert relearned.kernel_spec != e.kernel_spec
    assert relearned.evidence > kept.evidence
    assert np.isfinite(relearned.predict(X)[0]).all()
    assert e.remove(a.name, relearn=True).names == [b.name]


def test_removing_several(gaussian, modules):
    a, b, c = modules["gaussian"]
    left = gaussian.remove([a.name, c.name], relearn=False)
    assert left.names == [b.name]
    check_close(left, gaussian.remove(a.name, relearn=False).remove(c.name, relearn=False))
    assert left.rows == b.rows


# --- several likelihoods ----------------------------------------------------------------------


def test_mixed_ensembles_ask_which_likelihood(mixed):
    assert [p.name for p in mixed.likelihoods] == ["gaussian", "bernoulli", "poisson"]
    for call in (
        lambda **k: mixed.predict_y(X, **k),
        lambda **k: mixed.predict_proba(X, **k),
        lambda **k: mixed.log_density(X, np.ones(len(X)), **k),
        lambda **k: mixed.update(X, np.ones(len(X)), **k),
    ):
        with pytest.raises(rgp.RecycleGPError, match="likelihood= one of gaussian, bernoulli, poisson"):
            call()
        assert call(likelihood="bernoulli") is not None
    with pytest.raises(rgp.RecycleGPError, match="this model has gaussian, bernoulli, poisson"):
        mixed.predict_y(X, likelihood="student-t")


def test_mixed_predictions_are_each_likelihoods_own(mixed):
    mean, variance = mixed.predict(X)
    np.testing.assert_allclose(mixed.predict_y(X, "gaussian")[1], variance + mixed.noise)
    np.testing.assert_allclose(mixed.predict_y(X, "poisson")[0], np.exp(mean + variance / 2))
    p = mixed.predict_proba(X, likelihood="bernoulli")
    np.testing.assert_allclose(mixed.predict_y(X, "bernoulli")[0], p[:, 1])
    ones = np.ones(len(X))
    np.testing.assert_allclose(mixed.log_density(X, ones, "bernoulli"), np.log(p[:, 1]), rtol=1e-9)
    gauss = -0.5 * (np.log(2 * np.pi * (variance + mixed.noise)) + (1 - mean) ** 2 / (variance + mixed.noise))
    np.testing.assert_allclose(mixed.log_density(X, ones, "gaussian"), gauss, rtol=1e-9)


def test_removing_the_last_of_a_likelihood_forgets_it(mixed):
    left = mixed.remove("poisson 2", relearn=False)
    assert [p.name for p in left.likelihoods] == ["gaussian", "bernoulli"]
    assert left.remove("bernoulli 1", relearn=False).predict_y(X)[0].shape == (25,)


def test_new_likelihoods_join(gaussian, modules):
    e = gaussian.add(modules["bernoulli"][0])
    assert [p.name for p in e.likelihoods] == ["gaussian", "bernoulli"]
    assert e.predict_proba(X, "bernoulli").shape == (25, 2)
    f = gaussian.update(X, truth(X) > 0, likelihood="bernoulli-probit")
    assert [p.name for p in f.likelihoods] == ["gaussian", "bernoulli-probit"]
    assert np.mean((f.predict_proba(X, "bernoulli-probit")[:, 1] > 0.5) == (truth(X) > 0)) > 0.7
    g = gaussian.update(X, truth(X), likelihood="student-t", noise=0.1)
    assert g.noise == gaussian.noise
    assert g.names[-1] == "update-1"


def test_mixed_module_travels(mixed, tmp_path):
    m = mixed.to_module("mixed")
    m.save(tmp_path / "m")
    again = rgp.load(tmp_path / "m")
    assert again.likelihood == "gaussian+bernoulli+poisson"
    np.testing.assert_array_equal(again.predict_proba(X, "bernoulli"), m.predict_proba(X, "bernoulli"))
    with pytest.raises(rgp.RecycleGPError, match="several likelihoods"):
        again.predict_y(X)


@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit"])
def test_predict_proba(modules, likelihood):
    e = rgp.merge(modules[likelihood], learn=False)
    p = e.predict_proba(X)
    assert p.shape == (25, 2)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert ((p > 0) & (p < 1)).all()
    mean, variance = e.predict(X)
    z = np.random.default_rng(0).standard_normal(200_000)
    f = mean[:3, None] + np.sqrt(variance[:3, None]) * z
    link = 1 / (1 + np.exp(-f)) if likelihood == "bernoulli" else 0.5 * torch.erfc(torch.tensor(-f / 2**0.5)).numpy()
    np.testing.assert_allclose(p[:3, 1], link.mean(1), atol=5e-3)


# --- units, modules of ensembles --------------------------------------------------------------


@pytest.mark.parametrize("s", [2.5, -2.5])
def test_transform(gaussian, s):
    shift, b = np.array([0.4, -1.0]), 3.0
    moved = gaussian.transform(input_shift=shift, output_scale=s, output_shift=b)
    (m0, v0), (m1, v1) = gaussian.predict(X), moved.predict(X + shift)
    np.testing.assert_allclose(m1, s * m0 + b, rtol=1e-8)
    np.testing.assert_allclose(v1, s**2 * v0, rtol=1e-7)
    assert moved.noise == pytest.approx(s**2 * gaussian.noise)
    y = truth(X)
    difference = moved.log_density(X + shift, s * y + b) - gaussian.log_density(X, y)
    np.testing.assert_allclose(difference, -math.log(abs(s)), rtol=1e-6)
    for what in ("bound", "evidence"):
        change = getattr(moved, what) - getattr(gaussian, what)
        assert change == pytest.approx(-gaussian.rows * math.log(abs(s)), rel=1e-8)
    assert moved.slack == pytest.approx(gaussian.slack, rel=1e-6, abs=1e-9)
    back = moved.transform(output_shift=-b).transform(input_shift=-shift, output_scale=1 / s)
    check_close(back, gaussian)
    assert [r["surprise"] for r in moved.report()] == pytest.approx(
        [r["surprise"] for r in gaussian.report()], rel=1e-5
    )


def test_transforming_then_merging_is_merging_then_transforming(modules, gaussian):
    units = {"input_shift": [0.3, 0.1], "output_scale": 2.0, "output_shift": -1.0}
    first = [m.transform(**units) for m in modules["gaussian"]]
    Z = gaussian.inducing + np.array(units["input_shift"])
    e = rgp.merge(first, inducing=Z, learn=False)
    check_close(e, gaussian.transform(**units), rtol=1e-6)
    # a module that has changed units can still be removed
    check_close(
        gaussian.transform(**units).remove("gaussian 0", relearn=False),
        gaussian.remove("gaussian 0", relearn=False).transform(**units),
        rtol=1e-6,
    )


def test_transform_without_sites(gaussian):
    small = gaussian.forget_sites().transform(output_scale=3.0, input_shift=[1.0, 0.0])
    np.testing.assert_allclose(small.predict(X + np.array([1.0, 0.0]))[0], 3 * gaussian.predict(X)[0], rtol=1e-8)


@pytest.mark.parametrize("inducing", [18, "all"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_to_module(modules, likelihood, inducing):
    e = rgp.merge(modules[likelihood], learn=False, inducing=inducing)
    m = e.to_module("all")
    assert isinstance(m, rgp.Module)
    assert (m.name, m.rows, m.columns) == ("all", e.rows, e.columns)
    assert m.evidence == pytest.approx(e.bound, rel=1e-9)
    assert m.noise == e.noise
    if inducing == "all":  # points that are too close together for their jitter are left out
        np.testing.assert_allclose(m.predict(X), e.predict(X), atol=1e-3)
    else:
        check_close(m, e)
        check_close(rgp.merge([m], inducing=e.inducing, kernel=e.kernel, learn=False), e, rtol=1e-5)


def test_pyramids(modules):
    """A merge of merges is the flat merge, at the same kernel, points and mean."""
    parts = [m for p in ("gaussian", "student-t") for m in modules[p]]
    kernel = parts[0].kernel
    Z = np.random.default_rng(3).uniform(-2, 3, (14, 2))
    means = {rgp.merge([m], inducing=Z, kernel=kernel, learn=False).mean for m in parts}
    assert len(means) == len(parts)  # each has its own; the seed below fixes one for all
    seed = rgp.merge([parts[0]], inducing=Z, kernel=kernel, learn=False)
    flat = seed.add(parts[1:])
    halves = [
        seed.add(parts[1:3]).to_module("left"),
        seed.add(parts[3:]).remove(parts[0].name, relearn=False).to_module("right"),
    ]
    top = rgp.merge([halves[0]], inducing=Z, kernel=kernel, learn=False)
    assert top.mean == seed.mean
    tower = top.add(halves[1])
    check_close(tower, flat, rtol=1e-6)
    assert tower.bound == pytest.approx(flat.bound, rel=1e-7)
    assert tower.rows == flat.rows


# --- names only, report, weights --------------------------------------------------------------


def test_keep_names(modules, gaussian):
    small = rgp.merge(modules["gaussian"], learn=False, keep="names")
    check_close(small, gaussian)
    assert (small.names, small.rows, small.bound) == (gaussian.names, gaussian.rows, gaussian.bound)
    assert all(m.site is None for m in small._members)
    for call in (
        lambda: small.remove("gaussian 0"),
        lambda: small.reweight({"gaussian 0": 2.0}),
        lambda: small.add(modules["poisson"][0], relearn=True),
    ):
        with pytest.raises(rgp.RecycleGPError, match="keeps only names; merge the module files again"):
            call()
    more = small.add(modules["poisson"][0]).update(X, truth(X), likelihood="gaussian")
    assert more.names == [*gaussian.names, "poisson 0", "update-1"]
    check_close(more, gaussian.add(modules["poisson"][0]).update(X, truth(X), likelihood="gaussian"))
    surprise = [(r["name"], r["surprise"]) for r in gaussian.report()]
    assert [(r["name"], r["surprise"]) for r in small.report()] == surprise
    np.testing.assert_allclose(small.to_module("m").predict(X), gaussian.predict(X), atol=1e-3)


def test_report(mixed):
    report = mixed.report()
    assert [r["name"] for r in report] == mixed.names
    for row, member in zip(report, mixed._members, strict=True):
        assert set(row) >= {"name", "rows", "points", "weight", "likelihood", "surprise", "agreement"}
        assert (row["converged"], row["slack"]) == (True, 0.0)
        assert (row["rows"], row["weight"]) == (35, 1.0)
        assert row["points"] == len(member.site.Z)
        assert row["likelihood"] == row["name"].split()[0]
        assert row["surprise"] > 0
        assert 0 <= row["agreement"] <= 1
    assert [row["points_per_row"] for row in report] == [9 / 35] * 3
    assert {row["points_per_row"] for row in mixed.drop_sites().report()} == {None}


def test_report_finds_the_one_that_disagrees(modules):
    a, b, c = modules["gaussian"]
    honest = rgp.merge([a, b, c], learn=False)
    odd = rgp.merge([a, b, c.transform(output_shift=4.0)], learn=False)
    surprises = [r["surprise"] for r in odd.report()]
    assert max(surprises) > 3 * max(r["surprise"] for r in honest.report())
    assert min(r["agreement"] for r in odd.report()) < 1e-3


def test_weights(modules, gaussian):
    a, b, c = modules["gaussian"]
    Z, options = gaussian.inducing, {"kernel": gaussian.kernel, "learn": False}
    by_name = rgp.merge([a, b, c], weights={"gaussian 1": 0.3}, inducing=Z, **options)
    in_order = rgp.merge([a, b, c], weights=[1, 0.3, 1], inducing=Z, **options)
    check_close(by_name, in_order)
    assert [r["weight"] for r in by_name.report()] == [1.0, 0.3, 1.0]
    check_close(gaussian.reweight({"gaussian 1": 0.0}), gaussian.remove("gaussian 1", relearn=False))
    check_close(gaussian.reweight({"gaussian 1": 2.0}), gaussian.add(b.rename("again")))
    check_close(gaussian.reweight({"gaussian 1": 0.5}).reweight({"gaussian 1": 1.0}), gaussian)
    assert gaussian.reweight({"gaussian 1": 0.0}).rows == a.rows + c.rows
    none = rgp.merge([a, b, c], weights={"gaussian 1": 0}, inducing=Z, **options)
    assert none.names == gaussian.names
    check_close(none, rgp.merge([a, c], inducing=Z, **options))


# --- samples ----------------------------------------------------------------------------------


def test_sample_moments(gaussian):
    points = np.array([[0.0, 0.0], [0.1, 0.0], [1.5, 1.0], [4.0, 4.0]])
    n = 40_000
    draws = gaussian.sample(points, n, seed=11)
    assert draws.shape == (n, 4)
    mean, variance = gaussian.predict(points)
    # the same joint covariance from the module's site, in dense algebra
    m = gaussian.to_module("m")
    k = m.kernel

    def K(A, B):  # noqa: N802
        return k(torch.tensor(A), torch.tensor(B)).to_dense().detach().numpy()

    Z, Rt = m.inducing, m.site.Rt.numpy()
    inner = np.eye(len(Rt)) + Rt @ (K(Z, Z) + m.jitter * np.eye(len(Z))) @ Rt.T
    cross = K(points, Z) @ Rt.T
    joint = K(points, points) - cross @ np.linalg.solve(inner, cross.T)
    np.testing.assert_allclose(np.diag(joint), variance, rtol=1e-5)
    error = np.sqrt(variance / n)
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    scale = np.sqrt(np.outer(variance, variance))
    assert (np.abs(np.cov(draws.T) - joint) < 5 * scale * np.sqrt(2 / n)).all()
    assert joint[0, 1] > 0.5 * scale[0, 1]  # neighbours move together: a joint draw, not four single ones


def test_sample_is_reproducible_and_shaped(mixed):
    assert mixed.sample(X).shape == (1, 25)
    np.testing.assert_array_equal(mixed.sample(X, 2, seed=3), mixed.sample(X, 2, seed=3))
    assert (mixed.sample(X, 1, seed=3) != mixed.sample(X, 1, seed=4)).all()


def test_repr_says_what_it_is(gaussian, modules):
    assert "3 modules" in repr(gaussian)
    assert "105 rows" in repr(gaussian)
    assert "gaussian 0" in repr(modules["gaussian"][0])


def test_bound_evidence_slack(gaussian):
    assert gaussian.evidence >= gaussian.bound
    assert gaussian.slack >= 0
    assert isinstance(gaussian.bound, float)


# --- somewhere new -----------------------------------------------------------------------------


def wave(x):
    return np.sin(2 * x[:, 0])


@pytest.fixture(scope="module")
def beginning():
    """An ensemble that knows [0, 6]."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (200, 1))
    return rgp.merge([rgp.fit(X, wave(X) + 0.1 * rng.standard_normal(200), name="first")])


@pytest.fixture(scope="module")
def later():
    rng = np.random.default_rng(1)
    X = rng.uniform(6.5, 12, (2000, 1))
    return X, wave(X) + 0.1 * rng.standard_normal(2000)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["add", "update", "update names only"])
def test_what_was_known_stays_known(beginning, later, way):
    """New knowledge elsewhere gets points of its own, and does not bend what is known here."""
    old, new = np.linspace(0, 5, 100)[:, None], np.linspace(7, 11.5, 100)[:, None]
    before = beginning.predict(old)[0]
    start = beginning.forget_sites() if "names" in way else beginning
    more = start.add(rgp.fit(*later, name="second")) if way == "add" else start.update(*later, name="second")
    np.testing.assert_allclose(more.predict(old)[0], before, atol=0.02)
    assert np.sqrt(np.mean((more.predict(new)[0] - wave(new)) ** 2)) < 0.02
    assert len(more.inducing) > len(beginning.inducing)
    np.testing.assert_array_equal(more.inducing[: len(beginning.inducing)], beginning.inducing)
    if "names" not in way:
        back = more.remove("second")
        np.testing.assert_array_equal(back.inducing, beginning.inducing)
        for now, then in zip(back.predict(old), beginning.predict(old), strict=True):
            np.testing.assert_allclose(now, then, rtol=1e-9)


@pytest.mark.slow
def test_appended_points_survive_a_file(beginning, later, tmp_path):
    more = beginning.add(rgp.fit(*later, name="second"))
    more.save(tmp_path / "e")
    back = rgp.load(tmp_path / "e").remove("second")
    np.testing.assert_array_equal(back.inducing, beginning.inducing)


@pytest.mark.slow
def test_points_that_stay_say_what_they_cannot_express(beginning, later):
    fixed = rgp.merge([beginning.to_module("first")], inducing=12)
    with pytest.warns(rgp.RecycleGPWarning, match=r"1\d points cannot express .* nats of what is new"):
        fixed.add(rgp.fit(*later, name="second"))
    with pytest.warns(rgp.RecycleGPWarning, match="cannot express"):
        fixed.update(*later)


# --- what is left of the removed ---------------------------------------------------------------


@pytest.mark.slow
def test_removal_says_what_still_reflects_the_removed(modules, tmp_path):
    a, b, c = modules["gaussian"]
    e = rgp.merge([a, b, c])
    kept, clean = e.remove(c.name, relearn=False), e.remove(c.name, relearn=True)
    assert (kept.traces_of_removed, clean.traces_of_removed) == (1, 0)
    assert kept.remove(b.name, relearn=False).traces_of_removed == 2
    kept.save(tmp_path / "e")
    assert rgp.load(tmp_path / "e").traces_of_removed == 1
    never = rgp.merge([a, b])
    assert clean.kernel_spec == never.kernel_spec
    assert (clean.mean, clean.noise) == (never.mean, never.noise)
    np.testing.assert_array_equal(clean.inducing, never.inducing)
    check_close(clean, never)
    assert kept.kernel_spec == e.kernel_spec != never.kernel_spec


def test_noise_that_was_not_known_becomes_known(modules):
    a = modules["gaussian"][0]
    unknown = replace(a, likelihoods=(named("gaussian"),))
    e = rgp.merge([unknown], learn=False)
    with pytest.raises(rgp.RecycleGPError, match="pass noise= where it is made or updated"):
        e.predict_y(X)
    assert e.update(X, truth(X), noise=0.2).noise == 0.2
    assert e.update(X, truth(X), noise=0.2).predict_y(X)[1].min() > 0.2
    assert e.add(modules["gaussian"][1]).noise == modules["gaussian"][1].noise


@pytest.mark.slow
def test_noise_does_not_depend_on_the_order(modules):
    both = [modules["student-t"][0], modules["gaussian"][0]]
    assert rgp.merge(both, learn=False).noise == rgp.merge(both[::-1], learn=False).noise == both[1].noise


def test_region_is_that_of_the_modules(modules):
    """Z_* may lie elsewhere, be it moved or given."""
    a, b, _ = modules["gaussian"]
    Z = np.r_[a.inducing, b.inducing]
    expected = np.stack([Z.min(0), Z.max(0)], 1)
    e = rgp.merge([a, b], inducing=np.array([[50.0, 50.0], [-50.0, 3.0]]), learn=False)
    for model in (
        e,
        e.forget_sites(),
        rgp.merge([a, b], learn=False, keep="names"),
        rgp.merge([a], learn=False).add(b),
    ):
        np.testing.assert_allclose(model.region, expected)
    moved = e.forget_sites().transform(input_shift=[1.0, 2.0])
    np.testing.assert_allclose(moved.region, expected + np.array([[1.0], [2.0]]))
    np.testing.assert_allclose(a.region, np.stack([a.inducing.min(0), a.inducing.max(0)], 1))


@pytest.mark.slow
def test_outliers_of_small_owners_do_not_tilt_the_merge():
    """Forty owners of ten rows with outliers: nothing is predicted far beyond the data."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(40):
        Z = rng.uniform(0, 6, (10, 1))
        y = wave(Z) + 0.1 * rng.standard_normal(10)
        y[rng.random(10) < 0.15] += rng.choice([-5.0, 5.0])
        parts.append((Z, y))
    modules = rgp.fit_many(parts, likelihood="student-t")
    e = rgp.merge(modules, trust=None)  # also those count that have little but outliers
    grid = np.linspace(0, 6, 100)[:, None]
    assert np.abs(e.predict(grid)[0]).max() < 1.1 * max(np.abs(y).max() for _, y in parts)
