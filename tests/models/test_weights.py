"""Rows that count more or less: a weight of two is a row twice, to the bit; against dense NumPy of all rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel

import recyclegp as rgp

VARIANCE, LENGTH, NOISE = 1.7, 0.8, 0.09
RNG = np.random.default_rng(3)
X = RNG.uniform(0, 4, (40, 1))
WEIGHTS = RNG.uniform(0.2, 4, 40)
Y = np.sin(2 * X[:, 0]) + np.sqrt(NOISE) * RNG.normal(size=40)
XT = np.linspace(-0.5, 4.5, 12)[:, None]
OFTEN = RNG.integers(1, 4, 40)
TWICE = np.repeat(np.arange(40), OFTEN)  # every row as often as it counts
ORDER = RNG.permutation(40)


def rough():
    kernel = ScaleKernel(MaternKernel(nu=0.5)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = VARIANCE, LENGTH
    return kernel


def k(a, b):
    return VARIANCE * np.exp(-np.abs(a - b.T) / LENGTH)


def close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def log_evidence(x, y, noise):
    A = k(x, x) + np.diag(noise)
    return -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(2 * np.pi * A)[1])


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_a_row_counts_as_its_density_to_the_power_of_its_weight(method):
    """log N(y; f, σ²)^w = log N(y; f, σ²/w) − ½(w − 1) log 2πσ² − ½ log w."""
    where = {"publish": X} if method == "exact" else {"inducing": X, "publish": None}
    m = rgp.fit(X, Y, kernel=rough(), noise=NOISE, learn=False, weights=WEIGHTS, method=method, **where)
    A = k(X, X) + np.diag(NOISE / WEIGHTS)
    mean, variance = m.predict(XT)
    close(mean, k(XT, X) @ np.linalg.solve(A, Y), 1e-6)
    close(variance, VARIANCE - np.sum(k(XT, X) * np.linalg.solve(A, k(X, XT)).T, 1), 1e-6)
    more = -0.5 * np.sum((WEIGHTS - 1) * np.log(2 * np.pi * NOISE) + np.log(WEIGHTS))
    assert m.evidence == pytest.approx(log_evidence(X, Y, NOISE / WEIGHTS) + more, abs=1e-5)
    assert m.noise == pytest.approx(NOISE)
    assert m.rows == 40
    assert m.latents[0].effective_rows == pytest.approx(WEIGHTS.sum())


@pytest.mark.parametrize("noise", [NOISE, np.linspace(0.02, 0.3, 40)], ids=["one", "each"])
def test_equal_rows_have_the_evidence_of_them_all(noise):
    """That of a dense matrix in which every row is as often as it is; also where rows have noises of their own."""
    each = np.broadcast_to(noise, 40)
    given = noise if np.ndim(noise) == 0 else each[TWICE]
    m = rgp.fit(X[TWICE], Y[TWICE], kernel=rough(), noise=given, learn=False, publish=X)
    assert m.evidence == pytest.approx(log_evidence(X[TWICE], Y[TWICE], each[TWICE]), abs=1e-5)
    assert m.rows == len(TWICE)


def test_what_equal_rows_say_about_their_noise_is_what_all_of_them_say():
    """‖Wy‖² and tr W² with W = σ²(K + σ²I)⁻¹ of all rows."""
    m = rgp.fit(X[TWICE], Y[TWICE], kernel=rough(), publish=9)
    rows, noise = torch.tensor(X[TWICE]), m.noise
    K = m.kernel_spec.matrix(rows, rows).numpy()
    W = noise * np.linalg.inv(K + noise * np.eye(len(TWICE)))
    assert m.noise_evidence.residual == pytest.approx(np.sum((W @ (Y[TWICE] - m.mean)) ** 2), rel=1e-6)
    assert m.noise_evidence.dof == pytest.approx(np.sum(W**2), rel=1e-6)


BOTH = np.c_[Y, 3 - 2 * Y**2]
SOME = np.where((np.arange(40) % 3 == 0)[:, None] & np.array([False, True]), np.nan, BOTH)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.4, 0.4])]


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (Y, {}),
        (Y, {"kernel": "auto"}),
        (Y, {"noise": 0.05}),
        (Y, {"method": "collapsed", "inducing": 9}),
        (Y, {"method": "dual", "inducing": 9}),
        (Y, {"likelihood": "student-t", "inducing": 9}),
        ((Y > 0).astype(float), {"likelihood": "bernoulli", "inducing": 9}),
        (np.round(np.exp(Y)), {"likelihood": "poisson", "inducing": 9}),
        (Y, {"likelihood": "heteroscedastic", "inducing": 9}),
        (LABELS, {"likelihood": "categorical"}),
        (LABELS, {"likelihood": "categorical-softmax", "inducing": 9}),
        (BOTH, {}),
        (SOME, {"missing": "allow"}),
    ],
    ids=str,
)
def test_a_weight_of_two_is_a_row_twice(y, options):
    """Whatever their order: points, kernel, noise and all that is published."""
    a = rgp.fit(X[TWICE], y[TWICE], name="a", **options)
    b = rgp.fit(X[ORDER], y[ORDER], weights=OFTEN[ORDER], name="a", **options)
    for one, other in zip(a.latents, b.latents, strict=True):
        assert all(bool((s == t).all()) for s, t in zip(one.site, other.site, strict=True))
        assert one._replace(site=None) == other._replace(site=None)
    assert a.likelihoods == b.likelihoods
    assert a.rows == OFTEN.sum()


def test_rows_of_weight_one_that_differ_stay_as_they_are():
    a, b = rgp.fit(X, Y, name="a"), rgp.fit(X, Y, weights=np.ones(40), name="a")
    assert np.array_equal(a.inducing, b.inducing)
    assert (a.evidence, a.noise, a.rows) == (b.evidence, b.noise, 40)


def test_the_noise_is_learned_from_as_many_rows_as_there_are():
    """Of rows that are there thrice it is small, as it would be of rows that somebody had copied."""
    once, often = rgp.fit(X, Y, publish=XT), rgp.fit(X, Y, publish=XT, weights=np.full(40, 3))
    assert often.rows == 120
    assert often.noise < once.noise  # they agree with each other


def test_rows_are_counted_by_weights_that_are_whole():
    with pytest.warns(rgp.RecycleGPWarning, match="has 6 rows"):
        m = rgp.fit(X[:6], Y[:6], weights=np.full(6, 2.5), noise=0.1)
    assert m.rows == 6
    assert rgp.fit(X[:6], Y[:6], weights=np.full(6, 2), noise=0.1).rows == 12
    assert len(rgp.fit(X[:20], Y[:20], weights=np.full(20, 3), rows_per_point=20, learn=False).inducing) == 3


def test_several_outputs_some_of_them_missing():
    """Each output is the fit of the rows that have it, with their weights."""
    options = {"kernel": rough(), "noise": NOISE, "learn": False, "publish": XT}
    m = rgp.fit(X, SOME, weights=WEIGHTS, missing="allow", **options)
    seen = ~np.isnan(SOME[:, 1])
    for part, rows, y in ((m.part("y1"), slice(None), Y), (m.part("y2"), seen, SOME[seen, 1])):
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
