"""Intervals, quantiles and joint moments of modules and ensembles, and rows where nobody has seen data."""

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import recyclegp as rgp
from cases_cli import OFFSETS, owner

INPUTS = ["day", "depth"]
X = owner(7, 0, 6, 9)[INPUTS]


def fitted(name, table, **options):
    return rgp.fit(table[INPUTS], options.pop("y", table["y"]), publish=6, name=name, **options)


def rbf(*lengthscales):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=len(lengthscales))).double()
    kernel.base_kernel.lengthscale = torch.tensor(lengthscales, dtype=torch.float64)
    return kernel


@pytest.fixture(scope="module")
def wards():
    return [fitted(n, owner(i, 0, 6).assign(y=lambda t, b=b: t["y"] + b)) for i, (n, b) in enumerate(OFFSETS.items())]


@pytest.fixture(scope="module")
def city(wards):
    return rgp.merge(wards, owners="offset")


@pytest.mark.parametrize("whose", [None, "new", "ward-3"])
def test_intervals_and_quantiles_are_of_y(city, whose):
    assert city.offset_sd > 0.1
    mean, variance = city.predict_y(X, owner=whose)
    low, high = city.predict_interval(X, 0.8, owner=whose)
    if whose == "ward-3":  # as normal as rows that say enough about its noise; for a new owner see test_new_owner
        sd = np.sqrt(variance)
        assert low == pytest.approx(stats.norm.ppf(0.1, mean, sd), abs=0.01 * sd.max())
        assert high == pytest.approx(stats.norm.ppf(0.9, mean, sd), abs=0.01 * sd.max())
    else:
        assert high - mean == pytest.approx(mean - low, rel=1e-6)
        assert bool((high - mean < stats.norm.ppf(0.9) * np.sqrt(variance)).all())  # tails hold part of the variance
    found = city.predict_quantiles(X, [0.1, 0.5, 0.9], owner=whose)
    assert found.shape == (9, 3)
    assert pytest.approx(np.stack([low, mean, high]), rel=1e-9) == found.T
    assert city.predict_quantiles(X, 0.9, owner=whose) == pytest.approx(high, rel=1e-12)


def test_95_percent_unless_said_otherwise(wards):
    mean, variance = wards[0].predict_y(X)
    expected = stats.norm.interval(0.95, mean, np.sqrt(variance))
    assert np.stack(wards[0].predict_interval(X)) == pytest.approx(np.stack(expected), rel=1e-9)


@pytest.mark.parametrize("whose", [None, "new", "ward-3"])
def test_joint_moments(city, whose):
    mean, covariance = city.predict_joint(X, owner=whose)
    expected = city.predict(X, whose)
    assert mean == pytest.approx(expected[0], rel=1e-9)
    assert np.diag(covariance) == pytest.approx(expected[1], rel=1e-7)
    assert covariance == pytest.approx(covariance.T, abs=1e-12)
    draws = city.sample(X, 20_000, seed=3, owner=whose)
    assert np.cov(draws.T) == pytest.approx(covariance, abs=0.05 * covariance.max())


def test_joint_moments_are_those_of_the_site(wards):
    """At a module's own points, against NumPy: (K⁻¹ + RRᵀ)⁻¹ and its mean."""
    m = wards[0]
    Z, K = m.inducing, np.asarray(m.kernel(torch.tensor(m.inducing)).to_dense().detach())
    R, rho = m.site.Rt.numpy().T, m.site.rho.numpy()
    C = np.linalg.inv(np.linalg.inv(K + m.jitter * np.eye(len(Z))) + R @ R.T)
    mean, covariance = m.predict_joint(Z)
    assert covariance == pytest.approx(C, abs=1e-6 * K.max())
    assert mean == pytest.approx(m.mean + C @ R @ (rho - m.mean * R.sum(0)), abs=1e-5)


def test_counts():
    table = owner(0, 0, 6, 80)
    y = np.random.default_rng(1).poisson(np.exp(1 + table["y"]))
    m = fitted("counts", table, y=y, likelihood="poisson")
    low, high = m.predict_interval(table[INPUTS], 0.9)
    assert np.array_equal(low, np.round(low))
    assert np.array_equal(np.stack([low, high], 1), m.predict_quantiles(table[INPUTS], (0.05, 0.95)))
    assert 0.85 <= np.mean((low <= y) & (y <= high)) <= 1


def test_classes_have_no_intervals(wards):
    table = owner(0, 0, 6)
    m = fitted("classes", table, y=table["y"] > 0, likelihood="bernoulli", learn=False)
    with pytest.raises(rgp.RecycleGPError, match="an interval for y is not defined for likelihood 'bernoulli'"):
        m.predict_interval(X)
    with pytest.raises(rgp.RecycleGPError, match="use predict_proba"):
        m.predict_quantiles(X, 0.5)
    both = rgp.merge([m, wards[0]], learn=False)
    with pytest.raises(rgp.RecycleGPError, match="pass likelihood= one of gaussian, bernoulli"):
        both.predict_interval(X)
    assert np.all(np.diff(both.predict_interval(X, likelihood="gaussian"), axis=0) > 0)


def test_tensors_come_back_as_tensors(wards):
    x = torch.tensor(X.to_numpy(), requires_grad=True)
    low, high = wards[0].predict_interval(x, 0.5)
    (slope,) = torch.autograd.grad((high - low).sum(), x)
    assert bool((slope != 0).any())
    assert wards[0].predict_quantiles(x, torch.tensor([0.2, 0.4])).shape == (9, 2)
    assert isinstance(wards[0].predict_joint(x)[1], torch.Tensor)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 95, "0.9", None, True, float("nan")])
def test_levels_that_are_none(wards, bad):
    with pytest.raises(rgp.RecycleGPError, match=r"level=.*pass a"):
        wards[0].predict_interval(X, bad)
    with pytest.raises(rgp.RecycleGPError, match=r"q=.*pass a"):
        wards[0].predict_quantiles(X, [0.5, bad])
    with pytest.raises(rgp.RecycleGPError, match="q is empty"):
        wards[0].predict_quantiles(X, [])


# --- where nobody has seen data ---------------------------------------------------------------


def test_outside_every_module():
    u, options = np.linspace(0, 1, 9), {"kernel": rbf(0.8), "learn": False, "noise": 0.1}
    low, high = (rgp.fit(a + u, u**2, publish=np.array([a, a + 1]), name=str(a), **options) for a in (0.0, 5.0))
    x = np.array([-0.3, -0.2, 0.5, 1.2, 1.3, 3.0, 4.8, 5.5, 6.2, 6.3])
    assert low.outside(x).tolist() == [True, False, False, False, *[True] * 6]
    both = rgp.merge([low, high], learn=False)
    expected = [True, False, False, False, True, True, False, False, False, True]
    assert both.outside(x).tolist() == expected
    assert both.outside(torch.as_tensor(x)).tolist() == expected
    # names only: one box from 0 to 6, wider by 1.5 on either side
    assert both.forget_sites().outside(np.array([-1.6, -1.4, 3.0, 7.4, 7.6])).tolist() == [True, *[False] * 3, True]
    # somebody who does not count has no region
    assert both.reweight({"5.0": 0}).outside(x).tolist() == low.outside(x).tolist()
    # a quarter of the lengthscale, where that is longer than the box
    long = {**options, "kernel": rbf(4.0)}
    assert rgp.fit(u, u**2, publish=np.array([0.0, 1.0]), **long).outside([-1.1, -0.9, 1.9, 2.1]).tolist() == [
        True, False, False, True,
    ]  # fmt: skip


def test_outside_along_any_input(city):
    inside = owner(11, 0, 6, 400)[INPUTS]
    assert city.outside(inside).mean() < 0.02
    for moved in (inside.assign(day=inside["day"] + 9), inside.assign(depth=40.0)):
        assert city.outside(moved).all()
    swapped = pd.DataFrame(inside)[["depth", "day"]]
    assert np.array_equal(city.outside(swapped), city.outside(inside))


def test_an_input_that_does_not_matter_raises_no_alarm():
    """A module has few different values of it among its points."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        X, new = rng.uniform(-1, 1, (100, 3)), rng.uniform(-1, 1, (1000, 3))
        m = rgp.fit(X, np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=100))
        assert m.outside(new).mean() < 0.02
        assert m.outside(new + np.array([9, 0, 0])).all()


def test_lengthscales_of_composed_kernels():
    both = rbf(0.5, 3.0) + rbf(2.0, 1.0)
    m = rgp.fit(np.arange(20.0).reshape(10, 2), np.arange(10.0), kernel=both, learn=False, noise=0.1)
    assert m.kernel_spec.lengthscales(2).tolist() == pytest.approx([0.5, 1.0])
    one = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(active_dims=(1,)))
    m = rgp.fit(np.arange(20.0).reshape(10, 2), np.arange(10.0), kernel=one, learn=False, noise=0.1)
    assert m.kernel_spec.lengthscales(2).tolist() == pytest.approx([0.0, one.base_kernel.lengthscale.item()])
    linear = rgp.fit(np.arange(10.0), np.arange(10.0), kernel="linear", learn=False)
    assert linear.kernel_spec.lengthscales(1).tolist() == [0.0]


def test_levels_that_nobody_has_seen():
    table = owner(3, 0, 6, 60).assign(ward=np.array(["a", "b", "c"])[np.arange(60) % 3])
    m = rgp.fit(table[["day", "ward"]], table["y"], publish=6)
    new = pd.DataFrame({"day": [3.0, 3.0, 3.0, 30.0, 3.0], "ward": ["a", "b", "c", "a", "d"]})
    assert m.outside(new).tolist() == [False, False, False, True, True]
    only = rgp.fit(table[["ward"]], table["y"], publish=3)
    assert only.outside(new[["ward"]]).tolist() == [False, False, False, False, True]
