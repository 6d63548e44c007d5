"""The door, into fit and from_moments: a clear error that names the argument and the remedy, or a correct result.

Never a silent NaN. Questions to models, merging and ensembles are in test_bad_questions.py.
"""

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from cases_bad import Z1, X, Y, check_refused, fit, moments, with_nan

CONSTANT = "ignore::recyclegp.errors.NothingToLearnWarning"

# --- fit: X and y -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[None], r"X has shape \(1, 24, 2\); it must be \(n, D\)"),
        (3.0, r"X has shape \(\)"),
        (X[:, :0], r"X has shape \(24, 0\)"),
        (X[:0], "X has no rows"),
        (None, "X is None"),
        (with_nan(X), "X holds 1 NaN or infinite values; drop or fill"),
        (np.where(X > 4.5, -np.inf, X), "X holds .* infinite"),
        (np.ma.masked_greater(X, 4), "X holds .* NaN"),
        (X.astype(complex), "X cannot be read as numbers"),
        (torch.tensor(X, dtype=torch.complex128), "X is complex"),
        (torch.tensor(X).to_sparse(), "sparse"),
        ([[1, 2], [3]], "X cannot be read as numbers"),
        ([[1, None]] * 24, "X holds 24 NaN"),
        ([[10**400, 1]] * 24, "cannot be read as numbers|X holds"),
        ({"a": 1}, "X cannot be read as numbers"),
        ((row for row in X), "X cannot be read as numbers"),
        (np.array(["2020-01-01"] * 24, dtype="M8[D]"), "dates"),
        (X * 1e200, "X holds values of size .* rescale"),
        (np.r_[X[1:], [[1e101, 0]]], "X holds values of size"),
        (X * 1e-200, "X holds values of size .* vanish; rescale"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=24)}), "dates"),
        (pd.DataFrame({"a": pd.array([1, None] * 12, dtype="Int64")}), "X holds 12 NaN"),
        (pd.DataFrame(X, columns=["a", "a"]), "X: column names repeat"),
        (pd.DataFrame(), r"X has shape \(0, 0\)"),
        (pd.DataFrame({"a": []}), "X has no rows"),
    ],
)
def test_x(x, message):
    y = Y[:0] if message == "X has no rows" else Y
    check_refused(message, fit, x, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:-1], r"y has shape \(23,\) but X has 24 rows; pass one target per row, shape \(24,\)"),
        (Y[None], r"y has shape \(1, 24\)"),
        (np.c_[Y, Y][:-1], r"y has shape \(23, 2\) for 24 rows of X and 2 outputs \(y1, y2\); pass \(24, 2\)"),
        (pd.DataFrame({"a": Y, "b": Y})[:-1], r"y has shape \(23, 2\) for 24 rows of X and 2 outputs \(a, b\)"),
        (np.c_[Y, Y][:, :, None], r"y has shape \(24, 2, 1\)"),
        (1.0, r"y has shape \(\)"),
        (None, "y is None"),
        ([], r"y has shape \(0,\)"),
        (with_nan(Y), "y holds 1 NaN"),
        (np.where(Y > 0, np.inf, Y), "y holds .* infinite"),
        (["yes", "no"] * 12, "y holds words; two classes are for likelihood='bernoulli'"),
        (Y * 1e200, "y holds values of size"),
        (Y * 1e-200, "y holds values of size"),
    ],
)
def test_y(y, message):
    check_refused(message, fit, X, y)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (
            "bernoulli",
            np.arange(24) % 3,
            r"two classes.* got 3 values \(0, 1, 2\); say which of them is 1, as positive=\'2\', or",
        ),
        ("bernoulli-probit", Y, "two classes"),
        ("bernoulli", np.arange(24) % 2 + 1, "two classes.* as positive='2'$"),
        ("poisson", np.arange(24) - 3, "counts 0, 1, 2.*negative"),
        ("poisson", Y.clip(0), "fractional"),
    ],
)
def test_targets_of_a_likelihood(likelihood, y, message):
    check_refused(message, fit, X, y, likelihood=likelihood)


# --- fit: options -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "gauss"}, "likelihood='gauss' is not known; use one of gaussian"),
        ({"kernel": "rbff"}, "kernel='rbff' cannot be read; use rbf"),
        ({"kernel": ""}, "cannot be read"),
        ({"kernel": "rbf - linear"}, "composed with"),
        ({"kernel": "__import__('os').system('true')"}, "cannot be read"),
        ({"kernel": gpytorch.kernels.RBFKernel(ard_num_dims=3)}, "kernel 'rbf'"),
        ({"kernel": gpytorch.kernels.RBFKernel(active_dims=(5,))}, r"outside 0…1"),
        ({"kernel": gpytorch.kernels.RBFKernel(batch_shape=torch.Size([2]))}, "batch_shape"),
        ({"kernel": gpytorch.kernels.CosineKernel()}, "CosineKernel cannot be represented in a module; use"),
        ({"method": "exacto"}, "method='exacto' is not known; use auto"),
        ({"method": None}, "method=None is not known"),
        ({"method": "exact", "inducing": 5}, "inducing: the exact method has no inducing points; use publish"),
        ({"noise": 0}, "noise=0; pass a positive number"),
        ({"noise": -1.0}, "noise=-1"),
        ({"noise": np.nan}, "noise=nan"),
        ({"noise": np.inf}, "noise=inf"),
        ({"publish": 0}, "publish=0; pass a positive number"),
        ({"publish": -2}, "publish=-2"),
        ({"publish": 2.5}, "publish=2.5; pass a number of points"),
        ({"publish": True}, "publish=True"),
        ({"publish": "all"}, "publish='all'"),
        ({"publish": None}, "publish=None: an exact model has no inducing points"),
        ({"publish": np.ones((3, 3))}, r"publish has shape \(3, 3\), but the model has 2 input columns"),
        ({"publish": np.ones((0, 2))}, "publish has no points"),
        ({"publish": [[np.nan, 0.0]]}, "publish holds 1 NaN"),
        ({"inducing": 0}, "inducing=0"),
        ({"inducing": np.ones((2, 1))}, "inducing has shape"),
        ({"name": ""}, "name=''"),
        ({"name": "a\nb"}, "printable"),
        ({"name": "n" * 300}, "1 to 200"),
        ({"device": "abacus"}, "device='abacus' cannot be used"),
    ],
)
def test_options(options, message):
    check_refused(message, fit, X[:6], Y[:6], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": None}, "likelihood must be a name"),
        ({"kernel": None}, "kernel must be a name or a gpytorch kernel"),
        ({"kernel": gpytorch.kernels.RBFKernel}, "kernel must be"),
        ({"name": 7}, "name must be a string"),
        ({"lengthscale": 1.0}, "lengthscale"),
    ],
)
def test_options_of_the_wrong_kind(options, message):
    check_refused(message, fit, X[:6], Y[:6], kind=TypeError, **options)


def test_options_that_need_another():
    check_refused("has no noise; leave it out", fit, X, Y > 0, likelihood="bernoulli", noise=0.1)
    check_refused("needs a gaussian likelihood.*method='dual'", fit, X, Y > 0, likelihood="bernoulli", method="exact")
    check_refused("names has 1 entries for 2 data sets", rgp.fit_many, [(X, Y), (X, Y)], names=["a"])
    assert len(rgp.fit_many([])) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_absent_device():
    check_refused("device='cuda' cannot be used", fit, device="cuda")


# --- fit: awkward data give a correct result --------------------------------------------------


def answers(m, x):
    """Everything a model says is finite, on its own, merged, and after a round of changes of units."""
    e = rgp.merge([m], learn=False)
    for model in (m, e):
        mean, variance = model.predict(x)
        assert np.isfinite(mean).all()
        assert np.isfinite(variance).all()
        assert (variance >= 0).all()
        assert np.isfinite(model.sample(x, 2)).all()
        assert np.isfinite(model.evidence)
    assert np.isfinite([e.bound, e.slack]).all()
    assert len(np.unique(m.inducing, axis=0)) == len(m.inducing) >= 1
    return mean, variance


LATTICE = np.stack(np.meshgrid(np.arange(5), np.arange(5)), -1).reshape(-1, 2)[:24]


@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "student-t"])
@pytest.mark.parametrize(
    "x",
    [X[:1], X[:2], X[[0, 0]], np.ones((9, 2)), np.c_[X[:, 0], np.full(24, 7.0)], np.r_[X[:8], X[:8]], LATTICE],
    ids=["one", "two", "two-same", "all-same", "constant-column", "duplicates", "lattice"],
)
def test_degenerate_inputs(x, likelihood):
    y = (np.arange(len(x)) % 2).astype(float)
    m = fit(x, y, likelihood=likelihood, allow_small=True, **({} if likelihood == "gaussian" else {"inducing": 8}))
    answers(m, x)
    assert m.rows == len(x)
    assert np.isfinite(m.log_density(x, y)).all()
    assert np.isfinite(m.predict_y(x)[0]).all()


@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e6, 1e-9])
def test_constant_y(value):
    m = fit(X, np.full(24, value))
    mean, variance = answers(m, X)
    scale = abs(value) or 1.0
    np.testing.assert_allclose(mean, value, atol=0.05 * scale)
    assert (variance < 0.1 * scale**2).all()


@pytest.mark.slow
@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit"])
def test_one_class(likelihood):
    for label in (0, 1):
        m = fit(X, np.full(24, label), likelihood=likelihood, inducing=8)
        answers(m, X)
        assert (m.predict_proba(X)[:, label] > 0.8).all()


@pytest.mark.filterwarnings(CONSTANT)
def test_no_counts_at_all():
    m = fit(X, np.zeros(24), likelihood="poisson", inducing=8)
    answers(m, X)
    assert (m.predict_y(X)[0] < 0.3).all()


def test_equal_rows_with_unequal_targets_are_averaged():
    x, y = np.repeat(np.linspace(0, 3, 6)[:, None], 4, axis=0), np.tile([1.0, 3.0], 12)
    mean, _ = answers(fit(x, y), x)
    np.testing.assert_allclose(mean, 2.0, atol=0.1)


@pytest.mark.parametrize("gap", [1e-6, 1e-10, 1e-15])
@pytest.mark.parametrize("noise", [None, 1e-12])
def test_near_duplicates_and_tiny_noise(gap, noise):
    x, y = np.r_[X, X + gap], np.r_[Y, Y]
    mean, _ = answers(fit(x, y, noise=noise, publish=40), x)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.3


@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e6), (1e9, 1e6), (1e-40, 0), (1e40, 0)])
def test_units_of_y_do_not_matter(scale, offset):
    base, other = fit(seed=1), fit(X, scale * Y + offset, seed=1)
    mean, variance = answers(other, X)
    np.testing.assert_allclose((mean - offset) / scale, base.predict(X)[0], atol=1e-3)
    np.testing.assert_allclose(variance / scale**2, base.predict(X)[1], rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e6), (1e-40, 0.0), (1e40, 0.0)])
def test_units_of_x_do_not_matter(scale, offset):
    base, other = fit(publish=20), fit(scale * X + offset, publish=20)
    mean, _ = answers(other, scale * X + offset)
    np.testing.assert_allclose(mean, base.predict(X)[0], atol=0.1)


@pytest.mark.slow
def test_outliers_do_not_break_student_t():
    y = Y.copy()
    y[3] = 1e8
    m = fit(X, y, likelihood="student-t", inducing=20, publish=20)
    mean, _ = answers(m, X)
    good = np.arange(24) != 3
    assert np.sqrt(np.mean((mean - Y)[good] ** 2)) < 0.5


@pytest.mark.parametrize("count", [1, 1000])
def test_any_number_of_points(count):
    m = fit(X[:7], Y[:7], publish=count)
    answers(m, X[:7])
    assert len(m.inducing) <= count
    c = fit(X[:7], Y[:7], inducing=count, method="collapsed")
    answers(c, X[:7])


def test_repeated_points_are_taken_once():
    Z = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]])
    m = fit(publish=Z)
    assert len(m.inducing) == 2
    answers(m, X)
    answers(fit(publish=np.r_[X[:4], X[:4] + 1e-13]), X)
    answers(fit(publish=X[:3] + 1e7), X)


# --- moments from elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Z": Z1 * 0}, "Z has 2 points, which must be distinct"),
        ({"Z": Z1[:0], "mean": [], "covariance": np.zeros((0, 0))}, "at least one"),
        ({"Z": with_nan(np.zeros((4, 1)))}, "Z holds 1 NaN"),
        ({"mean": [0.0, 1.0, 2.0]}, r"mean has shape \(3,\)"),
        ({"mean": [0.0, np.inf]}, "mean holds 1 NaN or infinite"),
        ({"covariance": np.eye(3)}, r"covariance has shape \(3, 3\) for 2 points; pass \(2, 2\)"),
        ({"covariance": [[1.0, 2.0], [0.0, 1.0]]}, "not symmetric positive semi-definite"),
        ({"covariance": -np.eye(2)}, "not symmetric positive semi-definite"),
        ({"covariance": np.eye(2) * np.nan}, "covariance holds 4 NaN"),
        ({"kernel": "rbf"}, "has no parameters here"),
        ({"kernel": gpytorch.kernels.RBFKernel(ard_num_dims=4)}, "kernel 'rbf'"),
        ({"likelihood": "gauss"}, "likelihood='gauss' is not known"),
        ({"likelihood": "poisson", "noise": 0.1}, "has no noise; leave it out"),
        ({"noise": -1.0}, "noise=-1; pass a positive number"),
        ({"noise": "small"}, "noise='small'"),
        ({"jitter": -1e-6}, "jitter=-1e-06; pass what the source added"),
        ({"prior_mean": np.nan}, "prior_mean=nan"),
        ({"evidence": np.inf}, "evidence=inf"),
        ({"rows": 0}, "rows=0"),
        ({"rows": -1}, "rows=-1"),
        ({"rows": 2.5}, "rows=2.5"),
        ({"name": ""}, "name=''"),
    ],
)
def test_moments(options, message):
    check_refused(message, moments, **options)


def test_moments_that_say_too_much_or_too_little():
    check_refused("beyond", moments, covariance=np.zeros((2, 2)), jitter=0.0)
    with pytest.warns(rgp.RecycleGPWarning, match="2 of 2 directions .* wider than the prior"):
        wide = moments(covariance=9 * np.eye(2))
    assert not wide.convergence.converged
    np.testing.assert_allclose(wide.predict(Z1)[0], [0.0, 1.0], atol=1e-6)
    sure = moments(covariance=1e-20 * np.eye(2))
    np.testing.assert_allclose(sure.predict(Z1)[0], [0.0, 1.0], atol=1e-7)
