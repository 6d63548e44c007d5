"""What the others add to a module: log p(its rows | the others) − log p(its rows), for each of its rows."""

import math

import gpytorch
import numpy as np
import pytest

import recyclegp as rgp

NOISE, SCALE, LENGTH = 0.09, 1.5, 0.8


def kernel():
    k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    k.outputscale, k.base_kernel.lengthscale = SCALE, LENGTH
    return k.double()


def gram(a, b):
    return SCALE * np.exp(-0.5 * (a[:, None] - b[None, :]) ** 2 / LENGTH**2)


def log_normal(y, mean, covariance):
    r = y - mean
    return -0.5 * (r @ np.linalg.solve(covariance, r) + np.linalg.slogdet(2 * np.pi * covariance)[1])


def tables(seed=0, wrong=0.0):
    rng = np.random.default_rng(seed)
    x = [np.sort(rng.uniform(0, 4, n)) for n in (9, 12, 15)]
    y = [np.sin(own) + 0.3 * rng.standard_normal(len(own)) for own in x]
    y[2] = y[2] + wrong
    return x, y


def merged(x, y, **options):
    """Modules that say all that their rows do: published at the rows themselves."""
    ms = [
        rgp.fit(a, b, kernel=kernel(), learn=False, noise=NOISE, publish=a[:, None], name=f"m{i}", allow_small=True)
        for i, (a, b) in enumerate(zip(x, y, strict=True))
    ]
    return rgp.merge(ms, kernel=kernel(), learn=False, owners=None, **options)


@pytest.mark.parametrize("inducing", ["all", "points"])
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_it_is_what_numpy_says_of_the_rows(inducing):
    x, y = tables()
    e = merged(x, y, inducing="all" if inducing == "all" else np.concatenate(x)[:, None])
    for k, row in enumerate(e.report()):
        others = [i for i in range(3) if i != k]
        a, b = np.concatenate([x[i] for i in others]), np.concatenate([y[i] for i in others])
        K = gram(a, a) + NOISE * np.eye(len(a))
        cross, own = gram(x[k], a), gram(x[k], x[k]) + NOISE * np.eye(len(x[k]))
        told = log_normal(
            y[k], e.mean + cross @ np.linalg.solve(K, b - e.mean), own - cross @ np.linalg.solve(K, cross.T)
        )
        alone = log_normal(y[k], np.full(len(y[k]), e.mean), own)
        assert row["others_add"] == pytest.approx((told - alone) / len(y[k]), rel=1e-4)


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_it_is_the_evidence_with_everybody_less_that_without_it_and_its_own():
    e = merged(*tables(1), inducing="all")
    for row in e.report():
        rest = [name for name in e.names if name != row["name"]]
        without, own = (e.remove(gone, relearn=False).evidence for gone in (row["name"], rest))
        assert row["others_add"] * row["rows"] == pytest.approx(e.evidence - without - own, abs=1e-6)


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_others_mislead_whoever_measured_something_else():
    good = {row["name"]: row["others_add"] for row in merged(*tables(2)).report()}
    bad = {row["name"]: row["others_add"] for row in merged(*tables(2, wrong=5.0)).report()}
    assert min(good.values()) > 0
    assert bad["m2"] < -1


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_it_is_kept_where_sites_are_not_and_in_files(tmp_path):
    e = merged(*tables(3))
    small = e.drop_sites()
    small.save(tmp_path / "small.safetensors")
    expected = [row["others_add"] for row in e.report()]
    assert all(map(math.isfinite, expected))
    for one in (small, rgp.load(tmp_path / "small.safetensors")):
        assert [row["others_add"] for row in one.report()] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_modules_of_one_owner_are_told_together_where_owners_differ():
    x, y = tables(4, wrong=2.0)
    ms = [
        rgp.fit(a, b, kernel=kernel(), learn=False, noise=NOISE, owner=owner, name=f"m{i}", allow_small=True)
        for i, (a, b, owner) in enumerate(zip(x, y, ("one", "one", "two"), strict=True))
    ]
    points = np.linspace(0, 4, 12)[:, None]
    e = rgp.merge(ms, kernel=kernel(), learn=False, owners="offset", inducing=points)
    assert e.offset_sd > 0
    first, second, third = (row["others_add"] for row in e.report())
    assert first == second != third
