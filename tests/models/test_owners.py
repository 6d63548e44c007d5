"""Owners that differ, and the two forms of an ensemble, as users meet them."""

import copy
import pickle

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.merging import affordable
from recyclegp.merging.owners import Owners
from recyclegp.metrics import score

NOISE = 0.2


def wave(X):
    return np.sin(2 * X[:, 0])


def owners_of(K, sd, seed=0, rows=40, low=-3.0, high=3.0):
    """Owners' names, rows and true offsets on a line."""
    rng = np.random.default_rng(seed)
    offsets = sd * rng.standard_normal(K)
    data = []
    for offset in offsets:
        X = rng.uniform(low, high, (rows, 1))
        data.append((X, wave(X) + offset + NOISE * rng.standard_normal(rows)))
    return [f"w{k}" for k in range(K)], data, offsets


@pytest.fixture(scope="module")
def differing():
    names, data, offsets = owners_of(6, 1.0)
    return rgp.fit_many(data, names=names, publish=10), offsets


@pytest.fixture(scope="module")
def alike():
    names, data, _ = owners_of(6, 0.0, seed=1)
    return rgp.fit_many(data, names=names, publish=10)


X = np.linspace(-2.5, 2.5, 21)[:, None]


# --- which model ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("inducing", ["auto", 25])
def test_owners_that_differ_are_noticed(differing, inducing):
    modules, offsets = differing
    e = rgp.merge(modules, inducing=inducing)
    assert 0.3 < e.offset_sd < 2.5
    for k, name in enumerate(e.owners):
        assert np.abs(e.predict(X, owner=name)[0] - wave(X) - offsets[k]).mean() < 0.15
    found = [row["offset"] for row in e.report()]
    np.testing.assert_allclose(np.diff(found), np.diff(offsets), atol=0.25)
    y = wave(X) + offsets[2]
    with pytest.warns(rgp.RecycleGPWarning, match="contradict"):  # then one function is to explain them all
        alike = rgp.merge(modules, owners=None, inducing=inducing)
    assert alike.offset_sd == 0
    assert score(alike, X, y).nlpd > score(e, X, y, owner="w2").nlpd + 0.5
    assert score(e, X, y, owner="w2").nlpd == pytest.approx(-e.log_density(X, y, owner="w2").mean())
    assert score(e, X, y).nlpd == pytest.approx(-e.log_density(X, y).mean())


def test_owners_that_do_not_differ_are_one(alike):
    e = rgp.merge(alike)
    assert (e.offset_sd, e.smooth_sd) == (0, 0)
    assert all(row["offset"] is None for row in e.report())
    np.testing.assert_array_equal(e.predict(X, owner="w2"), e.predict(X))
    np.testing.assert_array_equal(e.predict(X, owner="new"), e.predict(X))


def test_three_owners_in_adjoining_regions_are_one():
    """Owner and region cannot be told apart there."""
    rng = np.random.default_rng(3)
    modules = []
    for k in range(3):
        X = rng.uniform(2 * k - 3, 2 * k - 1, (60, 1))
        modules.append(rgp.fit(X, wave(X) + NOISE * rng.standard_normal(60), publish=10, name=f"w{k}"))
    assert rgp.merge(modules).offset_sd == 0


def test_smooth_departures_are_found():
    rng = np.random.default_rng(4)
    modules = []
    for k in range(8):
        X = rng.uniform(-3, 3, (60, 1))
        own = 0.8 * np.sin(X[:, 0] + k) + 0.8 * np.cos(1.5 * X[:, 0] - 2 * k)
        modules.append(rgp.fit(X, wave(X) + own + 0.1 * rng.standard_normal(60), publish=16, name=f"w{k}"))
    e = rgp.merge(modules)
    assert e.smooth_sd > 0.1
    test = np.linspace(-2.5, 2.5, 15)[:, None]
    truth = wave(test) + 0.8 * np.sin(test[:, 0] + 3) + 0.8 * np.cos(1.5 * test[:, 0] - 6)
    assert np.abs(e.predict(test, owner="w3")[0] - truth).mean() < 0.15


@pytest.mark.parametrize("owners", ["sometimes", 3, True])
def test_owners_must_be_one_of_four(alike, owners):
    with pytest.raises(rgp.RecycleGPError, match="use 'auto', 'offset', 'smooth' or None"):
        rgp.merge(alike, owners=owners)


@pytest.mark.slow
@pytest.mark.parametrize("inducing", ["all", 20])
@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit", "poisson", "student-t"])
def test_every_likelihood_has_owners(likelihood, inducing):
    rng = np.random.default_rng(6)
    modules = []
    for k, offset in enumerate((-1.5, 1.5, 0.0, 1.0)):
        X_ = rng.uniform(-3, 3, (120, 1))
        f = wave(X_) + offset
        y = {
            "poisson": lambda f=f: rng.poisson(np.exp(f)),
            "student-t": lambda f=f: f + 0.2 * rng.standard_t(4, len(f)),
        }.get(likelihood, lambda f=f: rng.uniform(size=len(f)) < 1 / (1 + np.exp(-2 * f)))()
        options = {"likelihood": likelihood, "inducing": 10, "publish": None, "name": f"w{k}"}
        modules.append(rgp.fit(X_, y.astype(float), **options))
    e = rgp.merge(modules, owners="offset", inducing=inducing)
    means = [e.predict_y(X, owner=name)[0].mean() for name in e.owners]
    assert np.argsort(means)[0] == 0
    assert np.argmax(means) in (1, 3)
    if likelihood.startswith("bernoulli"):
        p = e.predict_proba(X, owner="w1")[:, 1]
        np.testing.assert_allclose(p, e.predict_y(X, owner="w1")[0])
        spread = np.abs(e.predict_proba(X)[:, 1] - 0.5)
        known = np.abs(e.predict_proba(X, owner="w2")[:, 1] - 0.5)
        assert spread.mean() < known.mean() + 0.1  # less is known of somebody nobody has met
    assert np.isfinite(e.log_density(X, np.ones(len(X)), owner="w0")).all()


# --- which form -------------------------------------------------------------------------------


def test_points_where_they_lose_nothing_else_exact(alike, monkeypatch):
    assert rgp.merge(alike).size.form == "exact"  # few are always exact
    monkeypatch.setattr(affordable, "DIRECT", 0)
    many = rgp.fit_many(owners_of(12, 0.0)[1], names=[f"m{k}" for k in range(12)], publish=10)
    at_points = rgp.merge(many)
    assert at_points.size.form == "points"
    assert at_points.slack < 1
    assert "exact would hold" in str(at_points.size)
    exact = rgp.merge(many, inducing="all")
    np.testing.assert_allclose(at_points.predict(X)[0], exact.predict(X)[0], atol=0.03)
    short = {"kernel": "matern12", "publish": 40, "learn": False}
    rough = rgp.fit_many([(x, np.sin(9 * x[:, 0])) for x, _ in owners_of(4, 0.0, rows=80)[1]], **short)
    assert rgp.merge(rough, learn=False).size.form == "exact"  # nearly every point is needed
    monkeypatch.setattr(affordable, "HELD", 0)
    assert rgp.merge(rough, learn=False).size.form == "points"


def test_a_form_that_grows_too_large_moves_to_points(differing, monkeypatch):
    modules, _ = differing
    e = rgp.merge(modules[:5])
    assert e.size.form == "exact"
    larger = e.add(modules[5])
    monkeypatch.setattr(affordable, "HELD", 55)
    for start in (e, e.forget_sites()):
        moved = start.add(modules[5])
        assert moved.size.form == "points"
        np.testing.assert_allclose(moved.predict(X), larger.predict(X), atol=1e-2)
        assert moved.offset_sd == e.offset_sd
    named = e.add(modules[5])
    np.testing.assert_allclose(named.predict(X, owner="w5"), larger.predict(X, owner="w5"), atol=1e-2)
    assert rgp.merge(modules[:5], inducing="all").add(modules[5]).size.form == "exact"


@pytest.mark.parametrize("inducing", ["all", 20])
def test_copies_and_files_answer_the_same(differing, inducing, tmp_path):
    modules, _ = differing
    e = rgp.merge(modules, inducing=inducing)
    e.predict(X)
    e.save(tmp_path / "e")
    for again in (pickle.loads(pickle.dumps(e)), copy.deepcopy(e), rgp.load(tmp_path / "e")):
        for owner in (None, "new", "w3"):
            np.testing.assert_allclose(again.predict(X, owner=owner), e.predict(X, owner=owner), rtol=1e-9, atol=1e-9)
        assert again.evidence == pytest.approx(e.evidence, rel=1e-12)
        assert again.report()[2]["offset"] == pytest.approx(e.report()[2]["offset"])
        assert str(again.size) == str(e.size)
    before = len(pickle.dumps(rgp.merge(modules, inducing=inducing)))
    assert len(pickle.dumps(e)) < 1.2 * before  # nothing that can be computed again


@pytest.mark.parametrize("inducing", ["all", 20])
def test_other_units(differing, inducing):
    modules, _ = differing
    e = rgp.merge(modules, inducing=inducing)
    f = e.transform(input_shift=[1.0], output_scale=-3.0, output_shift=2.0)
    for owner in (None, "new", "w1"):
        mean, variance = e.predict(X, owner=owner)
        np.testing.assert_allclose(f.predict(X + 1.0, owner=owner), [2 - 3 * mean, 9 * variance], rtol=1e-6, atol=1e-8)
    assert f.offset_sd == pytest.approx(3 * e.offset_sd)
    assert f.report()[0]["offset"] == pytest.approx(-3 * e.report()[0]["offset"], abs=1e-6)


@pytest.mark.parametrize("inducing", ["all", 20])
def test_new_rows_of_a_known_owner_and_of_a_new_one(differing, inducing):
    modules, _ = differing
    e = rgp.merge(modules, inducing=inducing)
    rng = np.random.default_rng(8)
    new = rng.uniform(-2, 2, (30, 1))
    y = wave(new) + 2.5 + NOISE * rng.standard_normal(30)
    stranger = e.update(new, y, name="july")
    assert stranger.owners[-1] == "july"
    assert np.abs(stranger.predict(X, owner="july")[0] - wave(X) - 2.5).mean() < 0.2
    assert np.abs(stranger.predict(X)[0] - e.predict(X)[0]).mean() < 0.4
    known = e.update(new, y, name="july", owner="w0")
    assert known.owners == e.owners
    assert known.predict(X, owner="w0")[0].mean() > e.predict(X, owner="w0")[0].mean() + 0.5


@pytest.mark.parametrize("inducing", ["all", 20])
def test_only_names(differing, inducing):
    modules, _ = differing
    full, small = rgp.merge(modules, inducing=inducing), rgp.merge(iter(modules), inducing=inducing, keep="names")
    np.testing.assert_allclose(small.predict(X, owner="new"), full.predict(X, owner="new"), rtol=1e-8)
    offsets = [[row["offset"] for row in e.report()] for e in (small, full)]
    np.testing.assert_allclose(*offsets, atol=1e-8)
    if inducing == "all":
        np.testing.assert_allclose(small.predict(X, owner="w1"), full.predict(X, owner="w1"), rtol=1e-8)
    else:
        with pytest.raises(rgp.RecycleGPError, match="merge with keep='sites'"):
            small.predict(X, owner="w1")
        with pytest.raises(rgp.RecycleGPError, match="another module of an owner who has one here needs"):
            small.add(modules[0].rename("second").owned_by("w0"))


def test_relearning_decides_again(differing, alike):
    modules, _ = differing
    e = rgp.merge(modules)
    assert e.offset_sd > 0
    without = e.remove(["w1", "w2", "w3", "w4", "w5"], relearn=True)
    assert without.offset_sd == 0  # one owner cannot differ from itself
    assert rgp.merge(alike).add([m.rename(f"n{i}") for i, m in enumerate(modules)], relearn=True).offset_sd > 0


def test_names_of_owners(differing):
    modules, _ = differing
    assert modules[0].owner == "w0"
    assert modules[0].rename("x").owner == "x"
    ours = modules[0].owned_by("ward")
    assert ours.rename("x").owner == "ward"
    np.testing.assert_array_equal(ours.predict(X, owner="ward"), modules[0].predict(X))
    with pytest.raises(rgp.RecycleGPError, match="of 'ward' alone"):
        ours.predict(X, owner="w0")
    with pytest.raises(rgp.RecycleGPError, match="none can be called 'new'"):
        rgp.merge([modules[0].rename("new"), *modules[1:]])
    assert rgp.merge([modules[0].rename("new"), *modules[1:]], learn=False).names[0] == "new"
    for wrong in ("", "new", "a\nb", "x" * 201):
        with pytest.raises(rgp.RecycleGPError, match="owner="):
            modules[0].owned_by(wrong)
    with pytest.raises(TypeError, match="owner must be a string"):
        modules[0].owned_by(3)
    with pytest.raises(rgp.RecycleGPError, match="owners needs names"):
        rgp.fit_many([(X, wave(X))], owners=["a"])
    (one,) = rgp.fit_many([(X, wave(X))], names=["n"], owners=["a"], publish=4)
    assert (one.name, one.owner) == ("n", "a")


def test_an_exact_ensemble_in_other_libraries(differing):
    modules, _ = differing
    e = rgp.merge(modules, inducing="all")
    model, _ = e.to_gpytorch()
    with torch.no_grad():
        np.testing.assert_allclose(model(torch.tensor(X)).mean, e.predict(X)[0], atol=1e-3)
    pytest.importorskip("botorch")
    at = torch.tensor(X[:3], requires_grad=True)
    posterior = e.to_botorch().posterior(at)
    np.testing.assert_allclose(posterior.mean.detach()[:, 0], e.predict(X[:3])[0], rtol=1e-10)
    (slope,) = torch.autograd.grad(posterior.mean.sum(), at)
    step = 1e-5
    rise = (e.predict(X[:3] + step)[0] - e.predict(X[:3] - step)[0]) / (2 * step)
    np.testing.assert_allclose(slope[:, 0], rise, atol=1e-5)


def test_offsets_of_classes_cost_less_than_those_of_measurements():
    """What sites of classes say for an offset is less than their rows do."""
    for owners in (3, 20, 500):
        assert Owners.OFFSET.price(owners, approximate=True) < Owners.OFFSET.price(owners, approximate=False)
        assert Owners.SMOOTH.price(owners, approximate=True) == Owners.SMOOTH.price(owners, approximate=False)


@pytest.mark.slow
def test_offsets_of_twenty_hospitals_with_yes_or_no_are_found():
    """A case whose gain is a fraction of a nat: alike in everything but how often the answer is yes."""
    rng = np.random.default_rng([3, 77])
    slope, own = rng.standard_normal(2), 0.6 * rng.standard_normal(20)

    def rows(k, n):
        X = rng.standard_normal((n, 2))
        f = -0.3 + 0.5 * X @ slope + 0.5 * np.sin(2 * X[:, 0]) + own[k]
        return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(float)

    data, asked = [rows(k, 25) for k in range(20)], [rows(k, 200) for k in range(20)]
    modules = rgp.fit_many(data, likelihood="bernoulli", names=[f"h{k}" for k in range(20)], progress=False)

    def nlpd(e):
        return -np.mean([e.log_density(X, y, owner=f"h{k}") for k, (X, y) in enumerate(asked)])

    found = rgp.merge(modules)
    assert found.offset_sd > 0.2
    assert nlpd(found) < nlpd(rgp.merge(modules, owners=None)) - 0.01
