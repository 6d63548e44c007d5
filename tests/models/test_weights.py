"""Rows that count more or less: against NumPy where f is Gaussian, against repeated rows elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from gpytorch.kernels import MaternKernel, ScaleKernel

import recyclegp as rgp

VARIANCE, LENGTH, NOISE = 1.7, 0.8, 0.09
RNG = np.random.default_rng(3)
X = RNG.uniform(0, 4, (40, 1))
WEIGHTS = RNG.uniform(0.2, 4, 40)
Y = np.sin(2 * X[:, 0]) + np.sqrt(NOISE / WEIGHTS) * RNG.normal(size=40)
XT = np.linspace(-0.5, 4.5, 12)[:, None]


def rough():
    kernel = ScaleKernel(MaternKernel(nu=0.5)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = VARIANCE, LENGTH
    return kernel


def k(a, b):
    return VARIANCE * np.exp(-np.abs(a - b.T) / LENGTH)


def close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_a_row_has_the_noise_divided_by_its_weight(method):
    """Mean, variance and evidence of y_i ~ N(f(x_i), σ²/w_i)."""
    where = {"publish": X} if method == "exact" else {"inducing": X, "publish": None}
    m = rgp.fit(X, Y, kernel=rough(), noise=NOISE, learn=False, weights=WEIGHTS, method=method, **where)
    A = k(X, X) + np.diag(NOISE / WEIGHTS)
    mean, variance = m.predict(XT)
    close(mean, k(XT, X) @ np.linalg.solve(A, Y), 1e-6)
    close(variance, VARIANCE - np.sum(k(XT, X) * np.linalg.solve(A, k(X, XT)).T, 1), 1e-6)
    evidence = -0.5 * (Y @ np.linalg.solve(A, Y) + np.linalg.slogdet(2 * np.pi * A)[1])
    assert m.evidence == pytest.approx(evidence, abs=1e-5)
    assert m.noise == pytest.approx(NOISE)


def test_the_common_noise_is_learned():
    """σ² of rows of weight one, from rows that are noisier and sharper; without weights it is another."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 4, (300, 1))
    w = rng.choice([0.1, 10.0], 300)
    y = np.sin(2 * x[:, 0]) + np.sqrt(0.04 / w) * rng.normal(size=300)
    weighted, even = rgp.fit(x, y, weights=w), rgp.fit(x, y)
    assert weighted.noise == pytest.approx(0.04, rel=0.3)
    assert even.noise > 0.1
    truth = np.sin(2 * XT[1:-1, 0])
    assert np.abs(weighted.predict(XT[1:-1])[0] - truth).mean() < np.abs(even.predict(XT[1:-1])[0] - truth).mean()
    assert weighted.noise_evidence is not None
    merged = rgp.merge([weighted, rgp.fit(x, y, weights=w, name="again", seed=1)])
    assert merged.noise == pytest.approx(0.04, rel=0.3)


@pytest.mark.parametrize("likelihood", ["poisson", "student-t", "heteroscedastic"])
def test_other_likelihoods_count_rows_as_often(likelihood):
    y = RNG.poisson(2 + np.sin(X[:, 0])) if likelihood == "poisson" else Y
    weights = 1 + np.arange(40) % 3
    often = np.repeat(np.arange(40), weights)
    options = {"likelihood": likelihood, "kernel": rough(), "inducing": XT, "publish": None, "learn": False}
    a, b = rgp.fit(X, y, weights=weights, **options), rgp.fit(X[often], y[often], **options)
    for mine, theirs in zip(a.predict_y(XT), b.predict_y(XT), strict=True):
        close(mine, theirs, 1e-4)
    assert a.evidence == pytest.approx(b.evidence, abs=1e-4)


def test_several_outputs_some_of_them_missing():
    """Each output is the fit of the rows that have it, with their weights."""
    both = np.c_[Y, 3 - 2 * Y]
    both[::3, 1] = np.nan
    options = {"kernel": rough(), "noise": NOISE, "learn": False, "publish": XT}
    m = rgp.fit(X, both, weights=WEIGHTS, missing="allow", **options)
    seen = ~np.isnan(both[:, 1])
    for part, rows, y in ((m.part("y1"), slice(None), Y), (m.part("y2"), seen, both[seen, 1])):
        alone = rgp.fit(X[rows], y, weights=WEIGHTS[rows], **options)
        for mine, theirs in zip(part.predict(XT), alone.predict(XT), strict=True):
            close(mine, theirs)


def test_dirichlet_classes_have_their_noises_divided():
    labels = (Y > 0).astype(int)
    options = {"likelihood": "categorical", "kernel": rough(), "learn": False, "publish": XT}
    m = rgp.fit(X, labels, weights=WEIGHTS, **options)
    alpha = (labels == 1) + 0.01
    noise = np.log1p(1 / alpha)
    f = rgp.fit(X, np.log(alpha) - noise / 2, kernel=rough(), learn=False, publish=XT, noise=noise / WEIGHTS)
    close(m.part("1").predict(XT)[0], f.predict(XT)[0], 1e-7)


def test_weights_that_cannot_be():
    with pytest.raises(rgp.RecycleGPError, match=r"weights has shape \(3,\) but X has 40 rows"):
        rgp.fit(X, Y, weights=WEIGHTS[:3])
    with pytest.raises(rgp.RecycleGPError, match="weights: 1 of 40 are not positive; leave out rows"):
        rgp.fit(X, Y, weights=np.r_[0.0, WEIGHTS[1:]])
    with pytest.raises(rgp.RecycleGPError, match="weights: every row has a noise of its own"):
        rgp.fit(X, Y, weights=WEIGHTS, noise=WEIGHTS)
    with pytest.raises(rgp.RecycleGPError, match="weights: with likelihood 'gaussian' use method 'exact'"):
        rgp.fit(X, Y, weights=WEIGHTS, method="dual")
