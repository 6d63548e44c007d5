"""A noise that is known: merge(noise=0.09), Ensemble.with_noise(0.09)."""

import gpytorch
import numpy as np
import pytest

import recyclegp as rgp

SCALE, LENGTH = 1.5, 0.8
X = np.linspace(0.2, 3.8, 9)[:, None]
pytestmark = pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")


def kernel():
    k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    k.outputscale, k.base_kernel.lengthscale = SCALE, LENGTH
    return k.double()


def gram(a, b):
    return SCALE * np.exp(-0.5 * (a[:, None] - b[None, :]) ** 2 / LENGTH**2)


def data(seed, n=14):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 4, n))
    return x, np.sin(x) + 0.3 * rng.standard_normal(n)


def with_evidence(seed):
    """One that says what its rows know of their noise."""
    x, y = data(seed, 40)
    return rgp.fit(x, y, kernel="rbf", name=f"m{seed}", publish=np.linspace(-0.2, 4.2, 16)[:, None])


def imported(seed, noise=0.5):
    x, y = data(seed)
    Z = np.linspace(0, 4, 6)
    A = gram(x, x) + 0.09 * np.eye(len(x))
    c = gram(Z, x)
    mean, covariance = c @ np.linalg.solve(A, y), gram(Z, Z) - c @ np.linalg.solve(A, c.T)
    return rgp.Module.from_moments(
        Z[:, None], mean, covariance + 1e-6 * np.eye(6), kernel=kernel(), noise=noise, name=f"i{seed}", rows=len(x)
    )


def exact(tables, noise, mean, at):
    """A GP on all rows, in NumPy."""
    x, y = (np.concatenate(part) for part in zip(*tables, strict=True))
    A, c = gram(x, x) + noise * np.eye(len(x)), gram(at, x)
    return mean + c @ np.linalg.solve(A, y - mean), np.diag(gram(at, at) - c @ np.linalg.solve(A, c.T))


def same(e, other):
    for one, two in zip(e.predict_y(X), other.predict_y(X), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)
    assert e.noise == other.noise


def noisy(e, noise, **who):
    np.testing.assert_allclose(e.predict_y(X, **who)[1] - e.predict(X, **who)[1], noise, rtol=1e-9)


@pytest.mark.parametrize("inducing", ["all", "points"])
def test_of_imports_only_the_noise_of_observations_changes(inducing):
    ms = [imported(1), imported(2)]
    points = "all" if inducing == "all" else np.linspace(0, 4, 12)[:, None]
    how = {"kernel": kernel(), "learn": False, "owners": None, "inducing": points}
    plain, given = rgp.merge(ms, **how), rgp.merge(ms, noise=0.09, **how)
    np.testing.assert_allclose(given.predict(X), plain.predict(X), rtol=1e-9)
    assert given.noise == 0.09
    for who in ({}, {"owner": "i1"}):
        noisy(given, 0.09, **who)
    same(plain.with_noise(0.09), given)
    y, (mean, variance) = np.sin(X[:, 0]), given.predict_y(X)
    expected = -0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
    np.testing.assert_allclose(given.log_density(X, y), expected)


def test_an_import_without_a_noise_gets_one():
    e = rgp.merge([imported(1, noise=None), imported(2, noise=None)], learn=False)
    with pytest.raises(rgp.RecycleGPError, match="noise"):
        e.predict_y(X)
    noisy(e.with_noise(0.2), 0.2)


def test_modules_that_know_of_their_noise_are_brought_to_it():
    """Where their points say all that the rows do, it is the GP of all rows with this noise."""
    ms = [with_evidence(1), with_evidence(2)]
    how = {"kernel": kernel(), "learn": False, "owners": None, "inducing": "all"}
    given = rgp.merge(ms, noise=0.3, **how)
    assert rgp.merge(ms, **how).noise != 0.3
    mean, variance = exact([data(1, 40), data(2, 40)], 0.3, given.mean, X[:, 0])
    np.testing.assert_allclose(given.predict(X)[0], mean, atol=1e-4)
    np.testing.assert_allclose(given.predict(X)[1], variance, rtol=1e-4)
    noisy(given, 0.3)
    same(rgp.merge(ms, **how).with_noise(0.3), given)
    same(rgp.merge(ms, **how).with_noise(2.0).with_noise(0.3), given)


@pytest.mark.parametrize("inducing", ["all", "points"])
def test_it_stays(tmp_path, inducing):
    points = "all" if inducing == "all" else np.linspace(0, 4, 12)[:, None]
    e = rgp.merge([with_evidence(1), with_evidence(2), imported(3)], noise=0.3, inducing=points)
    e.save(tmp_path / "e.safetensors")
    same(rgp.load(tmp_path / "e.safetensors"), e)
    again = rgp.load(tmp_path / "e.safetensors")
    changed = {
        "add": again.add(with_evidence(4)),
        "add an import": again.add(imported(4)),
        "relearn": again.add(with_evidence(4), relearn=True),
        "remove": again.remove("m1"),
        "keep": again.remove("m1", relearn=False),
        "learn": again.remove("m1", relearn=True),
        "weigh": again.reweight({"m1": 0.5}),
        "names": again.drop_sites(),
        "update": again.update(*data(7, 12)),
    }
    for what, found in changed.items():
        assert found.noise == pytest.approx(0.3, rel=1e-12), what
        noisy(found, 0.3)
    assert again.transform(output_scale=10).noise == pytest.approx(30)
    assert again.transform(output_scale=10).remove("m1", relearn=True).noise == pytest.approx(30)
    assert e.to_module("all").noise == pytest.approx(0.3)


def test_it_is_learned_with(tmp_path):
    """The kernel is chosen under the given noise, not under the one that modules would agree on."""
    ms = [with_evidence(seed) for seed in (1, 2, 3)]
    small, large = (rgp.merge(ms, noise=noise, trust=None) for noise in (0.05, 1.5))
    assert small.kernel_spec.describe() != large.kernel_spec.describe()
    assert (large.predict(X)[1] > small.predict(X)[1]).all()


def test_outputs_have_each_their_own():
    def module(seed):
        x, y = data(seed, 30)
        return rgp.fit(x, np.c_[y, 2 * y], target=["heat", "salt"], name=f"m{seed}", publish=8, allow_small=True)

    ms = [module(1), module(2)]
    assert rgp.merge(ms, noise=[0.1, 0.4], learn=False).noise == (0.1, 0.4)
    assert rgp.merge(ms, noise=0.2, learn=False).noise == (0.2, 0.2)
    some = rgp.merge(ms, noise={"salt": 0.7}, outputs="independent")
    assert some.noise[1] == 0.7
    assert some.noise[0] != 0.7
    assert some.with_noise({"heat": 0.3}).noise == (0.3, 0.7)
    correlated = rgp.merge(ms, outputs=[[1.0, 1.5], [1.5, 4.0]], noise=[0.1, 0.4], learn=False)
    np.testing.assert_allclose(correlated.predict_y(X)[1] - correlated.predict(X)[1], [[0.1, 0.4]] * len(X), rtol=1e-8)
    for wrong in ([0.1], {"sugar": 1.0}, {"salt": -1.0}):
        with pytest.raises(rgp.RecycleGPError, match="noise"):
            rgp.merge(ms, noise=wrong)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "much", None, True])
def test_what_is_no_noise_is_refused(wrong):
    with pytest.raises(rgp.RecycleGPError, match="noise"):
        rgp.merge([imported(1)], noise=wrong)
    with pytest.raises(rgp.RecycleGPError, match="noise"):
        rgp.merge([imported(1)], learn=False).with_noise(wrong)


def test_counts_and_classes_have_none():
    x, y = data(1, 30)
    for likelihood, seen in (("poisson", np.round(np.exp(y))), ("bernoulli", y > 0), ("heteroscedastic", y)):
        m = rgp.fit(x, seen, likelihood=likelihood, publish=6, allow_small=True)
        with pytest.raises(rgp.RecycleGPError, match="noise"):
            rgp.merge([m], noise=0.1)
        with pytest.raises(rgp.RecycleGPError, match="noise"):
            rgp.merge([m], learn=False).with_noise(0.1)


def test_names_alone_cannot_be_brought_to_another_noise():
    kept = rgp.merge([with_evidence(1), with_evidence(2)], learn=False).drop_sites()
    with pytest.raises(rgp.RecycleGPError, match="with_noise needs the modules' sites"):
        kept.with_noise(0.1)
    noisy(rgp.merge([imported(1), imported(2)], learn=False).drop_sites().with_noise(0.1), 0.1)


def test_a_flagged_owner_has_it_too():
    honest = [with_evidence(seed) for seed in (1, 2, 3, 4)]
    liar = with_evidence(5).transform(output_scale=-10).rename("liar")
    e = rgp.merge([*honest, liar], noise=0.3)
    if e._members[-1].weight:
        pytest.skip("nobody was flagged")
    noisy(e, 0.3, owner="liar")
