"""Metrics against NumPy and SciPy, computed another way."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

import recyclegp as rgp
import reference as ref
from recyclegp import likelihoods, metrics


@dataclass(frozen=True)
class Fixed:
    """A predictive with given moments of f."""

    mean: np.ndarray
    variance: np.ndarray
    likelihoods: tuple

    def predict(self, X):
        return self.mean, self.variance


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def model(rng, n, *likelihood, scale=1.0):
    return Fixed(scale * rng.normal(0.4, 1, n), rng.uniform(0.05, 0.9, n), (likelihoods.named(*likelihood),))


def interval_of_samples(draws):
    return np.quantile(draws, [0.025, 0.975], axis=0, method="inverted_cdf")


def test_gaussian(rng):
    m = model(rng, 300, "gaussian", (0.7,))
    sd = np.sqrt(m.variance + 0.7)
    f = rng.normal(m.mean, np.sqrt(m.variance))
    y = f + rng.normal(0, 1.3, 300)
    s = metrics.score(m, np.zeros((300, 1)), y)
    assert s.nlpd == pytest.approx(-stats.norm.logpdf(y, m.mean, sd).mean(), rel=1e-12)
    assert s.rmse == pytest.approx(math.sqrt(((y - m.mean) ** 2).mean()))
    assert s.mae == pytest.approx(abs(y - m.mean).mean())
    low, high = stats.norm.interval(0.95, m.mean, sd)
    assert s.coverage == np.mean((low <= y) & (y <= high))
    assert 0.7 < s.coverage < 0.95
    assert s.on == "y"
    assert math.isnan(s.error)
    known = metrics.score(m, np.zeros((300, 1)), y[:, None], f=f)
    assert known.on == "f"
    assert known.rmse == pytest.approx(math.sqrt(((f - m.mean) ** 2).mean()))
    assert known.mae == pytest.approx(abs(f - m.mean).mean())
    assert (known.nlpd, known.coverage) == (s.nlpd, s.coverage)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bernoulli", "bernoulli-probit"])
@pytest.mark.parametrize("labels", [(0, 1), (-1, 1)])
def test_classes(rng, name, labels):
    m = model(rng, 25, name)
    y = rng.integers(2, size=25)
    p = np.exp([ref.log_predictive(name, 1, a, b) for a, b in zip(m.mean, m.variance, strict=True)])
    s = metrics.score(m, np.zeros((25, 1)), np.array(labels)[y])
    assert s.nlpd == pytest.approx(-np.log(np.where(y == 1, p, 1 - p)).mean(), rel=1e-8)
    assert s.error == np.mean((p > 0.5) != (y == 1))
    assert s.rmse == pytest.approx(math.sqrt(((y - p) ** 2).mean()), rel=1e-8)
    assert math.isnan(s.coverage)


@pytest.mark.slow
def test_poisson(rng):
    m = model(rng, 100, "poisson", scale=1.5)
    m.variance[:3], m.mean[:3] = 1e-14, [-3.0, 0.5, 4.0]
    y = rng.poisson(np.exp(rng.normal(m.mean, 1.3 * np.sqrt(m.variance))))
    s = metrics.score(m, np.zeros((100, 1)), y)
    density = [ref.log_predictive("poisson", *row) for row in zip(y, m.mean, m.variance, strict=True)]
    assert s.nlpd == pytest.approx(-np.mean(density), rel=1e-6)
    predicted = np.exp(m.mean + m.variance / 2)
    assert s.mae == pytest.approx(abs(y - predicted).mean())
    # the distribution function, by summing the densities of the counts up to y
    few = slice(0, 5)
    rows = list(zip(y[few], m.mean[few], m.variance[few], strict=True))
    each = [[np.exp(ref.log_predictive("poisson", j, a, b)) for j in range(k + 1)] for k, a, b in rows]
    found = likelihoods.Poisson().distribution(*tensors(y[few], m.mean[few], m.variance[few]))
    np.testing.assert_allclose(found[0], [sum(p[:-1]) for p in each], atol=1e-6)
    np.testing.assert_allclose(found[1], [sum(p) for p in each], atol=1e-6)
    draws = rng.poisson(np.exp(rng.normal(m.mean, np.sqrt(m.variance), (40_000, 100))))
    low, high = interval_of_samples(draws)
    assert abs(s.coverage - np.mean((low <= y) & (y <= high))) <= 0.021  # two borderline counts


@pytest.mark.parametrize("df", [1.3, 4.0, 60.0])
def test_student(rng, df):
    m = model(rng, 50, "student-t", (0.5, df))
    y = m.mean + 2 * rng.standard_t(3, 50)
    s = metrics.score(m, np.zeros((50, 1)), y)
    f = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)  # many equally likely standard deviations
    at = [a + math.sqrt(b) * f for a, b in zip(m.mean, m.variance, strict=True)]
    density = [ref.log_predictive("student-t", *row, (0.5, df)) for row in zip(y, m.mean, m.variance, strict=True)]
    assert s.nlpd == pytest.approx(-np.mean(density), rel=1e-6)
    below = np.array([stats.t.cdf(t, df, g, math.sqrt(0.5)).mean() for t, g in zip(y, at, strict=True)])
    found = likelihoods.StudentT(0.5, df).distribution(*tensors(y, m.mean, m.variance))
    np.testing.assert_allclose(found[0], below, atol=2e-6)
    assert s.coverage == np.mean((below >= 0.025) & (below <= 0.975))


def test_a_fitted_model_scores_as_it_answers(rng):
    X = rng.uniform(0, 3, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
    m = rgp.fit(X, y, publish=8)
    s = metrics.score(m, X, y)
    assert s.nlpd == pytest.approx(-m.log_density(X, y).mean(), rel=1e-12)
    mean, variance = m.predict_y(X)
    assert s.rmse == pytest.approx(math.sqrt(((y - mean) ** 2).mean()))
    assert s.coverage == np.mean(abs(y - mean) <= stats.norm.ppf(0.975) * np.sqrt(variance))


def test_a_score_is_that_of_its_rows(rng):
    m = model(rng, 90, "gaussian", (0.7,))
    y = rng.normal(m.mean, np.sqrt(m.variance + 0.7))
    rows = metrics.evaluate(m, np.zeros((90, 1)), y)
    whole = metrics.summary(rows)
    assert whole == metrics.score(m, np.zeros((90, 1)), y)
    parts = [rows.only(np.arange(90) % 3 == k) for k in range(3)]
    assert [len(p.y) for p in parts] == [30, 30, 30]
    assert whole.crps == pytest.approx(np.mean([metrics.summary(p).crps for p in parts]))
    again = metrics.summary(metrics.concatenate(parts))
    assert again[:5] == pytest.approx(whole[:5], nan_ok=True)
    assert (
        again.coverage_50
        == whole.coverage_50
        == np.mean(abs(stats.norm.cdf(y, m.mean, np.sqrt(m.variance + 0.7)) - 0.5) < 0.25)
    )
    # half the mean distance between draws is what CRPS saves beside the mean absolute error of a draw
    draws = rng.normal(m.mean, np.sqrt(m.variance + 0.7), (4000, 90))
    expected = abs(draws - y).mean() - 0.5 * abs(draws[::2] - draws[1::2]).mean()
    assert whole.crps == pytest.approx(expected, rel=0.02)


def test_classes_have_their_own(rng):
    m = model(rng, 200, "bernoulli-probit")
    y = rng.integers(2, size=200)
    p = stats.norm.cdf(m.mean / np.sqrt(1 + m.variance))
    s = metrics.score(m, np.zeros((200, 1)), y)
    assert s.brier == pytest.approx(((p - y) ** 2).mean()) == pytest.approx(s.rmse**2)
    assert s.auroc == pytest.approx(np.mean(p[y == 1][:, None] > p[y == 0]))
    assert all(math.isnan(v) for v in (s.crps, s.coverage, s.coverage_50, s.coverage_80))
    assert math.isnan(metrics.score(m, np.zeros((200, 1)), np.zeros(200)).auroc)


def test_classes_have_no_distribution_function():
    with pytest.raises(rgp.RecycleGPError, match="error rate"):
        likelihoods.Bernoulli().distribution(*tensors([1.0], [0.0], [1.0]))


def test_more_than_two_classes(rng):
    X = rng.uniform(0, 3, (120, 1))
    y = np.array(["a", "b", "c"])[np.clip(np.floor(X[:, 0] + 0.3 * rng.normal(size=120)), 0, 2).astype(int)]
    m = rgp.fit(X, y, likelihood="categorical-softmax", publish=8)
    s, p = metrics.score(m, X, y), m.predict_proba(X)
    true = np.searchsorted(["a", "b", "c"], y)
    assert s.nlpd == pytest.approx(metrics.log_loss(p, true)) == pytest.approx(-m.log_density(X, y).mean())
    assert s.brier == pytest.approx(((p - np.eye(3)[true]) ** 2).sum(1).mean())
    assert (s.auroc, s.ece, s.error) == (metrics.auroc(p, true), metrics.ece(p, true), np.mean(p.argmax(1) != true))
    assert s.auroc > 0.9
    assert s.mae == pytest.approx(1 - p[np.arange(120), true].mean())
    assert math.isnan(s.coverage)


def test_noise_that_varies(rng):
    X = rng.uniform(0, 3, (150, 1))
    y = np.sin(2 * X[:, 0]) + (0.05 + 0.3 * X[:, 0]) * rng.normal(size=150)
    m = rgp.fit(X, y, likelihood="heteroscedastic", inducing=12, publish=8)
    s = metrics.score(m, X, y)
    assert s.nlpd == pytest.approx(-m.log_density(X, y).mean())
    low, high = m.predict_interval(X, 0.5)
    assert s.coverage_50 == pytest.approx(np.mean((low <= y) & (y <= high)), abs=1e-9)
    mean, variance = (t.numpy() for t in m._moments(X, None, of_y=True))
    f = rng.normal(mean[:, 0], np.sqrt(variance[:, 0]), (6000, 150))
    draws = rng.normal(f, np.exp(0.5 * rng.normal(mean[:, 1], np.sqrt(variance[:, 1]), f.shape)))
    expected = abs(draws - y).mean() - 0.5 * abs(draws[::2] - draws[1::2]).mean()
    assert s.crps == pytest.approx(expected, rel=0.02)


def test_several_outputs_are_scored_one_by_one(rng):
    X = rng.uniform(0, 3, (60, 1))
    y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 0]), np.ones(60)], 1) + 0.1 * rng.normal(size=(60, 3))
    m = rgp.fit(X, y, publish=8)
    with pytest.raises(rgp.RecycleGPError, match="3 outputs; use score_outputs"):
        metrics.score(m, X, y)
    y[::3, 1], y[:, 2] = np.nan, np.nan
    found = metrics.score_outputs(m, X, y)
    assert list(found) == ["y1", "y2"]  # the third was not seen
    assert found["y1"] == pytest.approx(metrics.score(m.part("y1"), X, y[:, 0]), nan_ok=True)
    seen = np.isfinite(y[:, 1])
    assert found["y2"] == pytest.approx(metrics.score(m.part("y2"), X[seen], y[seen, 1]), nan_ok=True)
    np.testing.assert_array_equal(metrics.evaluate_outputs(m, X, y)["y2"].at, np.flatnonzero(seen))
    with pytest.raises(rgp.RecycleGPError, match="this model has varying noise; use evaluate"):
        metrics.score_outputs(rgp.fit(X, y[:, 0], likelihood="heteroscedastic", publish=6), X, y)


def tensors(*values):
    return [torch.as_tensor(np.asarray(v, dtype=float)) for v in values]
