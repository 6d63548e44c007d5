"""Merging as a user calls it."""

import gpytorch
import numpy as np
import pytest

import recyclegp as rgp
from changed import with_latent
from recyclegp import arrays
from recyclegp.core import optimiser
from recyclegp.core.convergence import Convergence
from recyclegp.errors import ContradictionWarning
from recyclegp.merging import affordable, points

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def module():
    return rgp.fit(X, Y, publish=12, name="a")


def test_relearning_chooses_the_number_of_points_again(module):
    far = rgp.fit(X + 40, Y, publish=12, name="far")
    fresh = rgp.merge([module, far])
    again = rgp.merge([module]).add(far, relearn=True)
    assert len(again.inducing) == len(fresh.inducing)
    np.testing.assert_allclose(again.predict(X + 40)[0], fresh.predict(X + 40)[0], atol=1e-6)


def test_too_few_points_are_reported(module, monkeypatch):
    monkeypatch.setattr(points, "MOST_AUTOMATIC", 3)
    monkeypatch.setattr(affordable, "HELD", 0)
    monkeypatch.setattr(affordable, "DIRECT", 0)
    monkeypatch.setattr(affordable, "LEAST_POINTS", 3)
    monkeypatch.setattr(affordable, "MOST_POINTS", 3)
    with pytest.warns(rgp.RecycleGPWarning, match="pass a larger inducing="):
        rgp.merge([module], learn=False)


def test_a_weight_of_almost_nothing_survives_a_file(module, tmp_path):
    rgp.merge([module], weights=[0.001]).to_module("x").save(tmp_path / "x")
    assert rgp.load(tmp_path / "x").rows == 1


# --- owners who misunderstand each other -------------------------------------------------------


def pressures(rng, rows, scale=1.0):
    """Blood pressure by age, in mmHg times a scale."""
    age = rng.uniform(20, 80, (rows, 1))
    return age, scale * (100 + 0.6 * (age[:, 0] - 20) + 8 * np.sin(age[:, 0] / 12) + 8 * rng.standard_normal(rows))


@pytest.mark.slow
def test_other_units_are_noticed():
    """mmHg and kPa: no kernel that nobody has absorbs the contradiction, and each is still answered as it was."""
    rng = np.random.default_rng(0)
    mm, kilo = pressures(rng, 150), pressures(rng, 150, 0.133322)
    a, b = rgp.fit(*mm, name="a"), rgp.fit(*kilo, name="b")
    with pytest.warns(ContradictionWarning, match="a, b contradict each other, and nobody can say who is right"):
        e = rgp.merge([a, b])
    assert all("they contradict each other" in row["trust"] for row in e.report())
    assert float(e.kernel_spec.lengths(1).min()) > 0.5 * float(min(m.kernel_spec.lengths(1).min() for m in (a, b)))
    ages = np.linspace(25, 75, 6)[:, None]
    for m in (a, b):
        mean, variance = m.predict(ages)
        assert np.abs(e.predict(ages, owner=m.name)[0] - mean).max() < 4 * np.sqrt(variance.max())
    with pytest.warns(ContradictionWarning, match="contradict each other"):
        small = rgp.merge([a, b], keep="names")
    assert all("they contradict each other" in row["trust"] for row in small.report())
    honest = rgp.merge([a, b.transform(output_scale=1 / 0.133322)])  # a warning would be an error
    assert max(row["surprise"] for row in honest.report()) < 3


@pytest.mark.slow
def test_a_contradiction_without_noise_is_noticed():
    """Where there is hardly any noise, a rough kernel explains anything, if nobody looks."""
    modules = []
    for k in range(3):
        Z = np.random.default_rng(k).uniform(0, 5, (60, 1))
        modules.append(rgp.fit(Z, np.sin(3 * Z[:, 0]) + 0.5 * (k == 2), noise=1e-8, publish=20, name=f"m{k}"))
    with pytest.warns(rgp.RecycleGPWarning, match=r"m2 \(shifted by 0.5; transform"):
        rgp.merge(modules, owners=None)
    with pytest.warns(rgp.RecycleGPWarning) as said:
        e = rgp.merge(modules, owners=None, trust=None)
    assert any("merging does not help these owners" in str(warning.message) for warning in said)
    surprises = [row["surprise"] for row in e.report()]
    assert min(surprises) > 100
    assert np.argmax(surprises) == 2


def test_units_and_labels_that_contradict_each_other_do_not_merge():
    options = {"publish": 6, "learn": False}
    mm = rgp.fit(X, Y, unit="mmHg", target="pressure", name="a", **options)
    kilo = rgp.fit(X, Y, unit="kPa", target="pressure", name="b", **options)
    with pytest.raises(rgp.RecycleGPError, match=r"module 'a' and module 'b' contradict .*'mmHg'.*'kPa'.*transform"):
        rgp.merge([mm, kilo])
    with pytest.raises(rgp.RecycleGPError, match="contradict"):
        rgp.merge([mm]).add(kilo)
    right = kilo.transform(output_scale=7.50062, unit="mmHg")
    assert str(rgp.merge([mm, right], learn=False).target) == "pressure in mmHg"
    yes = (Y > 0).astype(float)
    ill = rgp.fit(X, yes, likelihood="bernoulli", labels=["ok", "ill"], name="ill", **options)
    ok = rgp.fit(X, 1 - yes, likelihood="bernoulli", labels=["ill", "ok"], name="ok", **options)
    with pytest.raises(rgp.RecycleGPError, match=r"class 1 is 'ill' for one and 'ok' for the other"):
        rgp.merge([ill, ok])
    rgp.merge([ill, mm], learn=False)  # another kind of data may be another quantity
    other = rgp.fit(X, Y, target="height", name="c", **options)
    with pytest.warns(rgp.RecycleGPWarning, match=r"different targets .*'pressure'.*'height'"):
        rgp.merge([mm, other], learn=False)


# --- searches that did not end -----------------------------------------------------------------


def test_modules_that_had_not_converged_are_named(module):
    doubtful = with_latent(module, convergence=Convergence(False, 3, "stopped before converging")).rename("doubtful")
    with pytest.warns(rgp.RecycleGPWarning, match="doubtful had not converged when they were published"):
        e = rgp.merge([module, doubtful], learn=False)
    assert [row["converged"] for row in e.report()] == [True, False]
    assert not e.to_module("both").convergence.converged
    assert rgp.merge([module], learn=False).to_module("one").convergence.converged


def test_learning_that_fails_is_said(module, monkeypatch):
    monkeypatch.setattr(optimiser, "HALVINGS", 0)  # no step is ever accepted
    far = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    far.base_kernel.lengthscale = 0.3
    with pytest.warns(rgp.RecycleGPWarning, match="the search for the kernel stopped before converging"):
        e = rgp.merge([module], kernel=far)
    assert not e.to_module("m").convergence.converged


# --- one module must not decide ----------------------------------------------------------------


@pytest.mark.slow
def test_two_rows_beside_five_hundred():
    """The kernel of a tiny module counts for little: weighted by rows, and not the only start."""
    worse = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        large, tiny, test = (rng.uniform(0, 6, (n, 1)) for n in (500, 2, 400))
        targets = [np.sin(2 * Z[:, 0]) + 0.2 * rng.standard_normal(len(Z)) for Z in (large, tiny, test)]
        a, b = rgp.fit(large, targets[0], name="large"), rgp.fit(tiny, targets[1], name="tiny", allow_small=True)
        e = rgp.merge([b, a])
        worse.append(np.mean(a.log_density(test, targets[2])) - np.mean(e.log_density(test, targets[2])))
    assert np.median(worse) < 0.005
    assert max(worse) < 0.05


@pytest.mark.parametrize("weight", [1e7, 1e12, 1e30])
def test_weights_that_overflow_are_refused_as_such(module, weight):
    with pytest.raises(rgp.RecycleGPError, match=r"would count a module so many times; pass at most 1e\+06"):
        rgp.merge([module], weights=[weight])
    with pytest.raises(rgp.RecycleGPError, match="weights: "):
        rgp.merge([module], learn=False).reweight({"a": weight})


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 3])
def test_lines_merge_to_the_same_line_in_any_units(columns):
    """A pure linear kernel has an uncertain level, too: where its points lie does not matter."""
    rng = np.random.default_rng(3)
    Z = rng.uniform(0, 10, (80, columns))
    y = Z.sum(1) + 0.1 * rng.standard_normal(80)
    answers = []
    for x_unit, y_unit in ((1.0, 1.0), (1e4, 1.0), (1e-4, 1.0), (1.0, 1e3)):
        parts = [rgp.fit(Z[i::2] * x_unit, y[i::2] * y_unit, kernel="linear", name=f"part-{i}") for i in range(2)]
        e = rgp.merge(parts)
        mean, variance = e.predict(Z[:5] * x_unit)
        answers.append(np.r_[mean / y_unit, np.sqrt(variance) / y_unit])
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["periodic", "rbf * periodic"])
def test_periodic_kernels_far_from_zero(kernel):
    rng = np.random.default_rng(1)
    Z = np.round(rng.uniform(0, 20, (80, 1)) * 64) / 64
    y = np.sin(2 * np.pi * Z[:, 0] / 5) + 0.1 * rng.standard_normal(80)
    near, far = (
        rgp.merge([rgp.fit(Z[i::2] + at, y[i::2], kernel=kernel, name=f"part-{i}") for i in range(2)])
        for at in (0.0, 2.0**17)
    )
    grid = np.linspace(0, 20, 30)[:, None]
    np.testing.assert_allclose(far.predict(grid + 2.0**17)[0], near.predict(grid)[0], atol=0.1)


def test_given_points_are_looked_at_once(module, monkeypatch):
    looked = []
    usual = arrays.count_or_points
    monkeypatch.setattr(arrays, "count_or_points", lambda *a, **k: looked.append(a) or usual(*a, **k))
    rgp.merge([module, module.rename("b")], inducing=X[:5], learn=False)
    assert len(looked) == 1


def test_a_list_is_read_like_an_iterator():
    X = np.linspace(0, 4, 12)[:, None]
    ms = [rgp.fit(X + k, np.sin(X[:, 0] + k), noise=0.01, kernel="rbf", learn=False, name=f"m{k}") for k in range(4)]
    options = {"kernel": "rbf", "inducing": 6, "learn": False, "weights": {"m1": 0.0, "m2": 2.0}}
    at_once, one_by_one = rgp.merge(ms, **options), rgp.merge(iter(ms), **options)
    assert at_once.names == one_by_one.names
    assert at_once.bound == one_by_one.bound
    assert [r["weight"] for r in at_once.report()] == [r["weight"] for r in one_by_one.report()]
    with pytest.raises(rgp.RecycleGPError, match="two modules are named 'm0'"):
        rgp.merge([ms[0], *ms])
    for names in (ms, iter(ms)):
        few = rgp.merge(names, keep="names", kernel="rbf", inducing=6, learn=False)
        assert all(m.site is None for m in few.groups[0].members)
