"""The regressor's targets: several outputs, counts, outliers, varying noise, weights, owners, positive y."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from gpytorch.kernels import MaternKernel, ScaleKernel

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.model_selection import cross_val_score

import recyclegp as rgp
from recyclegp.sklearn import RecyclableGPRegressor

VARIANCE, LENGTH, NOISE = 1.6, 0.9, 0.05
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (50, 1))
Y = np.c_[np.sin(X[:, 0]), 20 - 3 * np.cos(X[:, 0])] + np.sqrt(NOISE) * RNG.normal(size=(50, 2))
XT = np.linspace(-0.3, 5.3, 9)[:, None]


def rough():
    kernel = ScaleKernel(MaternKernel(nu=1.5)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = VARIANCE, LENGTH
    return kernel


def planned(**options):
    """Published at all of X: the exact GP."""
    return RecyclableGPRegressor(rough(), noise=NOISE, learn=False, publish=X, ensemble_inducing=X, **options)


def exact(weights=None):
    alpha = NOISE if weights is None else NOISE / weights
    return GaussianProcessRegressor(VARIANCE * Matern(LENGTH, nu=1.5), alpha=alpha, optimizer=None)


def close(actual, expected, tolerance=1e-7):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


# --- several outputs --------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2])
def test_outputs_are_those_of_the_exact_gp(parts):
    """Mean, sd and covariance of each output in the shapes that GaussianProcessRegressor has."""
    mine, gp = planned(n_partitions=parts).fit(X, Y), exact().fit(X, Y)
    mean, sd = mine.predict(XT, return_std=True)
    close(mean, gp.predict(XT), 1e-6)
    close(sd, gp.predict(XT, return_std=True)[1], 1e-6)
    covariance = mine.predict(XT, return_cov=True)[1]
    assert covariance.shape == (9, 9, 2)
    close(covariance, gp.predict(XT, return_cov=True)[1], 1e-6)
    assert mine.score(X, Y) == pytest.approx(gp.score(X, Y), abs=1e-6)
    low, high = mine.predict_interval(XT, 0.9)
    close(high - low, 2 * 1.6448536269514722 * np.sqrt(sd**2 + NOISE), 1e-6)
    draws = mine.sample_y(XT, 4000, random_state=2)
    assert draws.shape == (*gp.sample_y(XT, 7).shape[:2], 4000)
    assert np.abs((draws.mean(-1) - mean) / sd).max() < 5 / np.sqrt(4000)
    assert abs(np.corrcoef(draws[4])[0, 1]) < 0.1


def test_outputs_are_learned_and_have_names():
    frame = pd.DataFrame(Y, columns=["sine", "level"])
    mine = RecyclableGPRegressor(name="a").fit(X, frame)
    assert mine.ensemble_.outputs == ("sine", "level")
    truth = np.c_[np.sin(XT[1:-1, 0]), 20 - 3 * np.cos(XT[1:-1, 0])]
    assert np.abs(mine.predict(XT[1:-1]) - truth).max() < 0.5
    other = RecyclableGPRegressor(name="b").fit(X, frame[["level"]])
    assert other.predict(XT).shape == (9,)
    both = mine.merge(other)
    assert both.ensemble_.outputs == ("sine", "level")
    assert both.ensemble_.part("level").names == ["a", "b"]
    assert both.predict(XT, return_std=True)[1].shape == (9, 2)
    stream = clone(mine).partial_fit(X[:25], frame[:25]).partial_fit(X[25:], frame[25:])
    assert np.abs(stream.predict(XT[1:-1]) - truth).max() < 0.7


def test_a_column_is_one_output():
    a, b = planned().fit(X, Y[:, :1]), planned().fit(X, Y[:, 0])
    close(a.predict(XT), b.predict(XT), 0)
    assert a.predict(XT).shape == (9,)


@pytest.mark.slow
def test_cross_validation_of_two_outputs():
    assert cross_val_score(RecyclableGPRegressor(), X, Y, cv=3).min() > 0.6


# --- likelihoods ------------------------------------------------------------------------------


def test_counts_are_predicted_by_their_rate():
    """E[eᶠ], its spread and covariance, against draws of f."""
    counts = RNG.poisson(np.exp(1 + np.sin(X[:, 0])))
    mine = RecyclableGPRegressor(likelihood="poisson", inducing=15).fit(X, counts)
    mean, sd = mine.predict(XT, return_std=True)
    f = np.exp(mine.ensemble_.sample(XT, 200_000, seed=1))
    np.testing.assert_allclose(mean, f.mean(0), rtol=0.02)
    np.testing.assert_allclose(sd, f.std(0), rtol=0.05)
    covariance = mine.predict(XT, return_cov=True)[1]
    close(np.sqrt(np.diag(covariance)), sd, 1e-6)
    np.testing.assert_allclose(covariance, np.cov(f.T), rtol=0.1, atol=0.02 * covariance.max())
    assert np.abs(np.log(mean[1:-1]) - 1 - np.sin(XT[1:-1, 0])).max() < 0.8
    draws = mine.sample_y(XT, 5, random_state=3)
    close(draws, np.exp(mine.ensemble_.sample(XT, 5, seed=3)).T, 0)
    low, high = mine.predict_interval(X, 0.8)
    assert (low >= 0).all()
    assert ((low <= counts) & (counts <= high)).mean() >= 0.75
    with pytest.raises(rgp.RecycleGPError, match="poisson"):
        RecyclableGPRegressor(likelihood="poisson").fit(X, Y[:, 0])


def test_outliers_pull_less_with_student_t():
    y = Y[:, 0].copy()
    y[::8] += 6
    truth = np.sin(XT[1:-1, 0])
    error = {
        name: np.abs(RecyclableGPRegressor(likelihood=name).fit(X, y).predict(XT[1:-1]) - truth).mean()
        for name in ("gaussian", "student-t")
    }
    assert error["student-t"] < 0.5 * error["gaussian"]


def test_noise_that_varies():
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 4, (120, 1))
    y = np.sin(x[:, 0]) + np.where(x[:, 0] < 2, 0.05, 0.6) * rng.normal(size=120)
    mine = RecyclableGPRegressor(likelihood="heteroscedastic", inducing=20).fit(x, y)
    ends = mine.predict_interval(np.array([[1.0], [3.0]]))
    narrow, wide = ends[1] - ends[0]
    assert wide > 4 * narrow
    mean, sd = mine.predict(XT, return_std=True)
    assert mean.shape == sd.shape == (9,)
    assert mine.predict(XT, return_cov=True)[1].shape == (9, 9)
    assert mine.sample_y(XT, 3).shape == (9, 3)
    with pytest.raises(rgp.RecycleGPError, match="noise: likelihood 'heteroscedastic' has none to give"):
        RecyclableGPRegressor(likelihood="heteroscedastic", noise=1.0).fit(x, y)
    with pytest.raises(rgp.RecycleGPError, match="likelihood='bernoulli'; use one of gaussian, lognormal, student-t"):
        RecyclableGPRegressor(likelihood="bernoulli").fit(x, y)
    with pytest.raises(NotFittedError):
        RecyclableGPRegressor().predict_interval(x)


# --- weights and owners -----------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 3])
def test_weights_divide_the_noise(parts):
    weights = RNG.uniform(0.1, 5, 50)
    mine = planned(n_partitions=parts).fit(X, Y[:, 0], sample_weight=weights)
    gp = exact(weights).fit(X, Y[:, 0])
    for a, b in zip(mine.predict(XT, return_std=True), gp.predict(XT, return_std=True), strict=True):
        close(a, b, 1e-6)
    stream = planned().partial_fit(X, Y[:, 0], sample_weight=weights)
    close(stream.predict(XT), mine.predict(XT), 1e-6)


@pytest.mark.parametrize("columns", [slice(0, 1), slice(0, 2)], ids=["one output", "two"])
def test_a_row_of_weight_three_is_there_three_times(columns):
    """Also where kernel, noise and points are learned, and whatever the order of the rows."""
    weights, y = np.arange(50) % 4, Y[:, columns]
    often = np.random.default_rng(1).permutation(np.repeat(np.arange(50), weights))
    weighted = RecyclableGPRegressor().fit(X, y, sample_weight=weights)
    repeated = RecyclableGPRegressor().fit(X[often], y[often])
    for a, b in zip(weighted.predict(XT, return_std=True), repeated.predict(XT, return_std=True), strict=True):
        close(a, b, 1e-9)
    assert weighted.ensemble_.rows == repeated.ensemble_.rows == weights.sum()


def test_weights_of_zero_leave_rows_out():
    keep = X[:, 0] < 3
    mine = RecyclableGPRegressor().fit(X, Y[:, 0], sample_weight=1.0 * keep)
    close(mine.predict(XT), RecyclableGPRegressor().fit(X[keep], Y[keep, 0]).predict(XT), 0)
    with pytest.raises(ValueError, match="zero"):
        mine.fit(X, Y[:, 0], sample_weight=np.zeros(50))
    with pytest.raises(ValueError, match="egative values"):
        mine.fit(X, Y[:, 0], sample_weight=np.full(50, -1.0))


def test_owners_by_a_column():
    """A mixed model: each owner has a level of its own, and can be asked for by name."""
    owner = np.array(["a", "b", "c"])[np.arange(50) % 3]
    shift = {"a": -2.0, "b": 0.0, "c": 2.5}
    y = Y[:, 0] + np.array([shift[o] for o in owner])
    mine = RecyclableGPRegressor(owners="offset").fit(X, y, owner=owner)
    assert mine.ensemble_.owners == [m.name for m in mine.modules_] == ["a", "b", "c"]
    for who, level in shift.items():
        assert np.abs(mine.predict(XT[1:-1], owner=who) - np.sin(XT[1:-1, 0]) - level).max() < 0.6
    more = mine.partial_fit(X[:20], Y[:20, 0] + 2.5, owner="c")
    assert [m.name for m in more.modules_] == ["a", "b", "c", "c-2"]
    assert more.ensemble_.owners == ["a", "b", "c"]
    named = RecyclableGPRegressor(owners="offset", n_partitions=2, name="day").fit(X, y, owner=pd.Series(owner))
    assert [m.name for m in named.modules_] == [f"day-{o}{end}" for o in "abc" for end in ("", "-2")]
    assert named.ensemble_.owners == ["a", "b", "c"]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        mine.fit(X, y, owner=owner[:5])


# --- positive and skewed ----------------------------------------------------------------------


def test_positive_targets_have_positive_bands_that_hold_what_they_say():
    """The recipe of the page on scikit-learn: a regressor of log y, whose intervals' ends are exponentiated."""
    rng = np.random.default_rng(11)
    x = rng.uniform(0, 5, (400, 1))
    y = np.exp(np.sin(x[:, 0]) + 0.5 * rng.normal(size=400))
    regressor = TransformedTargetRegressor(RecyclableGPRegressor(), func=np.log, inverse_func=np.exp)
    regressor.fit(x[:200], y[:200])
    low, high = np.exp(regressor.regressor_.predict_interval(x[200:], 0.9))
    assert (low > 0).all()
    assert 0.83 < ((low < y[200:]) & (y[200:] < high)).mean() < 0.96
    median = regressor.predict(x[200:])
    assert 0.4 < (y[200:] < median).mean() < 0.6
    plain = RecyclableGPRegressor().fit(x[:200], y[:200])
    assert (plain.predict_interval(x[200:], 0.95)[0] < 0).any()


# --- together with what merging brings --------------------------------------------------------


def test_outputs_that_a_merge_has_correlated():
    """Standard deviations, covariances and draws are of the correlated outputs."""
    rng = np.random.default_rng(21)
    made = []
    for name, at in (("a", 0), ("b", 1)):
        x = rng.uniform(0, 5, (40, 1))
        f = np.sin(2 * x[:, 0]) + 0.5 * np.cos(x[:, 0])
        y = np.c_[f, 3 + 2 * f] + rng.normal(size=(40, 2)) * np.where(np.arange(2) == at, 0.05, 1.5)
        made.append(RecyclableGPRegressor(name=name).fit(x, y))
    both = made[0].merge(made[1])
    assert both.ensemble_.output_covariance is not None
    mean, sd = both.predict(XT, return_std=True)
    covariance = both.predict(XT, return_cov=True)[1]
    assert covariance.shape == (9, 9, 2)
    close(np.sqrt(np.stack([np.diag(covariance[..., c]) for c in range(2)], -1)), sd, 1e-7)
    draws = both.sample_y(XT, 4000, random_state=1)
    assert np.abs((draws.mean(-1) - mean) / sd).max() < 5 / np.sqrt(4000)
    close(np.cov(draws[:, 1]), covariance[..., 1], 0.1 * covariance[..., 1].max())
    with pytest.raises(rgp.RecycleGPError, match=r"outputs are correlated.*independent\(\).to_gpytorch"):
        both.ensemble_.to_gpytorch()


def test_columns_of_text_beside_outputs_and_weights():
    frame = pd.DataFrame({"x": X[:, 0], "site": np.array(["north", "south"])[np.arange(50) % 2]})
    shift = 2.0 * (np.arange(50) % 2)
    mine = RecyclableGPRegressor(n_partitions=2).fit(frame, Y + shift[:, None], sample_weight=1 + np.arange(50) % 2)
    ask = pd.DataFrame({"x": XT[1:-1, 0], "site": "south"})
    mean, sd = mine.predict(ask, return_std=True)
    assert mean.shape == sd.shape == (7, 2)
    assert np.abs(mean[:, 0] - np.sin(XT[1:-1, 0]) - 2).max() < 0.8
    assert mine.predict(ask, return_cov=True)[1].shape == (7, 7, 2)
    assert mine.sample_y(ask, 3).shape == (7, 2, 3)
    assert mine.feature_names_in_.tolist() == ["x", "site"]
