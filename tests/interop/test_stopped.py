"""GPyTorch models that were stopped early, merged with all defaults: of use or not, never absurd."""

import warnings

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.variational import CholeskyVariationalDistribution
from hypothesis import given, settings
from hypothesis import strategies as st

import recyclegp as rgp
from cases_gpytorch import STRATEGIES, SVGP

NOISE = 0.09
pytestmark = pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")


def rows(rng, n, classes=False):
    X = rng.uniform(0, 3, (n, 2))
    f = 2 * np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    if classes:
        return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-f))).astype(float)
    return X, f + NOISE**0.5 * rng.standard_normal(n)


def stopped(data, steps, rate, name, strategy="whitened", classes=False):
    """So many steps of Adam from where GPyTorch begins."""
    X, y = map(torch.as_tensor, data)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))
    q = CholeskyVariationalDistribution(8, mean_init_std=0.0)  # which would be random
    model = SVGP(X[:8].clone(), q, STRATEGIES[strategy], gpytorch.means.ConstantMean(), kernel).double()
    kinds = gpytorch.likelihoods.GaussianLikelihood, gpytorch.likelihoods.BernoulliLikelihood
    likelihood = kinds[classes]().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model.train(), len(y))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.train().parameters()], lr=rate)
    for _ in range(steps):
        adam.zero_grad()
        (-bound(model(X), y)).backward()
        adam.step()
    return rgp.from_gpytorch(model.eval(), likelihood.eval(), name=name)


def honest(rng, count, classes=False):
    how = {"likelihood": "bernoulli-probit" if classes else "gaussian", "publish": 8, "privacy": "things"}
    return [rgp.fit(*rows(rng, 60, classes), name=f"honest-{i}", **how) for i in range(count)]


def nlpd(model, data):
    return float(-model.log_density(*data).mean())


def check_is_sane(e, modules, data):
    """f, its prior and its scores are within reach of what some module says."""
    X, _ = data
    each = [m.predict(X) for m in modules]
    (mean, variance), said = e.predict(X), max(np.abs(own).max() + 3 * v.max() ** 0.5 for own, v in each)
    assert np.isfinite(mean).all()
    assert (variance > 0).all()
    assert np.abs(mean).max() <= said
    assert variance.max() <= 20 * max(v.max() for _, v in each)
    assert e.kernel.outputscale.item() <= 20 * max(m.kernel.outputscale.item() for m in modules)
    assert nlpd(e, data) <= max(nlpd(m, data) for m in modules) + 0.5


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_one_of_four_costs_next_to_nothing(rate, strategy):
    rng = np.random.default_rng(3)
    good, test = honest(rng, 3), rows(rng, 300)
    bad = stopped(rows(rng, 60), 10, rate, "bad", strategy)
    e = rgp.merge([*good, bad])
    check_is_sane(e, [*good, bad], test)
    assert nlpd(bad, test) > nlpd(e, test) + 0.5
    assert nlpd(e, test) <= min(nlpd(rgp.merge(good), test), nlpd(rgp.merge([*good, bad], learn=False), test)) + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("steps", [10, 50, 200])
@pytest.mark.parametrize("seed", [23, 24])
def test_one_of_three_costs_nothing_that_matters(seed, steps):
    rng = np.random.default_rng(seed)
    good, test = honest(rng, 2), rows(rng, 300)
    bad = stopped(rows(rng, 60), steps, 0.1, "bad")
    e = rgp.merge([*good, bad])
    check_is_sane(e, [*good, bad], test)
    assert nlpd(e, test) <= nlpd(rgp.merge(good), test) + 0.02


def test_an_import_that_fitted_modules_contradict_is_told_of():
    rng = np.random.default_rng(22)
    good, _, bad = honest(rng, 2), rows(rng, 300), stopped(rows(rng, 60), 10, 0.1, "bad")
    assert bad.convergence.converged  # nothing in its file shows that it was stopped
    with pytest.warns(rgp.RecycleGPWarning, match="bad were fitted elsewhere, and are far too sure"):
        e = rgp.merge([*good, bad])
    told = e.report()[2]
    assert 0 < told["weight"] < 0.3
    assert "it was fitted elsewhere, and it is" in told["trust"]
    assert [r["weight"] for r in rgp.merge([*good, bad], trust=None).report()] == [1, 1, 1]
    # one module and an import: nobody can say who is right
    assert [r["weight"] for r in rgp.merge([good[0], bad]).report()] == [1, 1]


@pytest.mark.parametrize("classes", [pytest.param(False, marks=pytest.mark.slow), True])
def test_beside_honest_modules_it_is_not_absurd(classes):
    rng = np.random.default_rng(4)
    good, test = honest(rng, 2, classes), rows(rng, 300, classes)
    bad = stopped(rows(rng, 60, classes), 10, 0.1, "bad", classes=classes)
    e = rgp.merge([*good, bad])
    check_is_sane(e, [*good, bad], test)
    assert nlpd(e, test) <= max(nlpd(m, test) for m in good) + 0.05


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    steps=st.sampled_from([1, 10, 50]),
    rate=st.sampled_from([0.01, 0.3, 0.7]),
    count=st.integers(0, 3),
    strategy=st.sampled_from(list(STRATEGIES)),
    classes=st.booleans(),
)
def test_whatever_is_merged_is_never_absurd(seed, steps, rate, count, strategy, classes):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad = [stopped(rows(rng, 60, classes), steps, rate, f"bad-{i}", strategy, classes) for i in range(2)]
        modules = [*honest(rng, count, classes), *bad]
        check_is_sane(rgp.merge(modules), modules, rows(rng, 200, classes))


def test_the_noise_is_that_of_modules_whose_searches_had_ended():
    rng = np.random.default_rng(6)
    m = honest(rng, 1)[0]
    Z = np.linspace(0, 3, 5)[:, None] * [1.0, 1.0]
    wide = rgp.Module.from_moments(
        Z, np.zeros(5), 3 * np.eye(5), kernel="rbf(outputscale=2, lengthscale=1)", noise=0.69, name="wide", rows=60
    )
    assert not wide.convergence.converged
    assert rgp.merge([m, wide], learn=False).noise == m.noise
    assert rgp.merge([wide], learn=False).noise == 0.69


@pytest.mark.parametrize(("fitted", "imports"), [(3, 1), (3, 2), (1, 2)])
def test_a_noise_that_nobody_can_check_is_in_the_average_where_most_say_theirs_so(fitted, imports):
    """Of a GPyTorch model that was stopped it may still be where it began, 0.69."""
    rng = np.random.default_rng(7)
    Z = np.linspace(0, 3, 5)[:, None] * [1.0, 1.0]
    moments = Z[:, 0], 0.1 * np.eye(5)
    kernel = "rbf(outputscale=2, lengthscale=1)"
    others = [rgp.Module.from_moments(Z, *moments, kernel=kernel, noise=0.69, name=f"m{i}") for i in range(imports)]
    assert all(m.convergence.converged for m in others)
    good = honest(rng, fitted)
    e = rgp.merge([*good, *others])
    common = {m.noise for m in e.groups[0].members if m.noise is not None}
    if fitted > imports:
        assert {e.noise} == common
    else:
        assert e.noise > max(m.noise for m in good) * 1.2


def test_a_noise_that_was_never_learned_can_be_set():
    """GPyTorch begins at 0.69, and ten steps do not change that."""
    rng = np.random.default_rng(5)
    modules = [stopped(rows(rng, 200), 60, 0.1, f"m{i}") for i in range(3)]
    modules = [rgp.Module(m.about, (type(m.likelihoods[0])(0.69),), m.latents) for m in modules]
    test = rows(rng, 300)
    e = rgp.merge(modules)
    repaired = e.with_noise(NOISE)
    np.testing.assert_allclose(repaired.predict(test[0]), e.predict(test[0]), rtol=1e-9)
    assert nlpd(repaired, test) < nlpd(e, test) - 0.1
