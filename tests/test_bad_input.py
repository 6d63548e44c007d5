"""The door: a clear error that names the argument and the remedy, or a correct result. Never a silent NaN."""

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (24, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(24)
KERNEL = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
Z1 = np.array([[0.0], [1.0]])


def fit(x=X, y=Y, **options):
    return rgp.fit(x, y, **({"publish": 8} | options))


def moments(Z=Z1, mean=(0.0, 1.0), covariance=((0.1, 0.0), (0.0, 0.1)), **options):
    return rgp.Module.from_moments(Z, mean, covariance, **({"kernel": KERNEL} | options))


@pytest.fixture(scope="module")
def a():
    return fit(name="a")


@pytest.fixture(scope="module")
def b():
    return fit(X + 0.3, name="b")


@pytest.fixture(scope="module")
def thin():
    return fit(X[:, :1], name="thin")


@pytest.fixture(scope="module")
def e(a, b):
    return rgp.merge([a, b], learn=False)


def refused(message, call, *args, kind=rgp.RecycleGPError, **kwargs):
    with pytest.raises(kind, match=message) as caught:
        call(*args, **kwargs)
    assert not isinstance(caught.value, torch.linalg.LinAlgError)


def with_nan(x):
    x = np.array(x, dtype=float)
    x.flat[3] = np.nan
    return x


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
        (np.array([["a", "b"]] * 24), "X cannot be read as numbers; encode text"),
        ([[1, 2], [3]], "X cannot be read as numbers"),
        ([[1, None]] * 24, "X holds 24 NaN"),
        ([[10**400, 1]] * 24, "X cannot be read as numbers|X holds"),
        ({"a": 1}, "X cannot be read as numbers"),
        ((row for row in X), "X cannot be read as numbers"),
        (np.array(["2020-01-01"] * 24, dtype="M8[D]"), "dates"),
        (X * 1e200, "X holds values of size .* rescale"),
        (np.r_[X[1:], [[1e101, 0]]], "X holds values of size"),
        (X * 1e-200, "X holds values of size .* vanish; rescale"),
        (pd.DataFrame({"a": X[:, 0], "b": ["x"] * 24}), "X cannot be read as numbers; encode text"),
        (pd.DataFrame({"a": pd.Categorical(["x", "y"] * 12)}), "categories"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=24)}), "dates"),
        (pd.DataFrame({"a": pd.array([1, None] * 12, dtype="Int64")}), "X holds 12 NaN"),
        (pd.DataFrame(X, columns=["a", "a"]), "X: column names repeat"),
        (pd.DataFrame(), r"X has shape \(0, 0\)"),
        (pd.DataFrame({"a": []}), "X has no rows"),
    ],
)
def test_x(x, message):
    y = Y[:0] if message == "X has no rows" else Y
    refused(message, fit, x, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:-1], r"y has shape \(23,\) but X has 24 rows; pass one target per row, shape \(24,\)"),
        (Y[None], r"y has shape \(1, 24\)"),
        (np.c_[Y, Y], r"y has shape \(24, 2\)"),
        (pd.DataFrame({"a": Y, "b": Y}), r"y has shape \(24, 2\)"),
        (1.0, r"y has shape \(\)"),
        (None, "y is None"),
        ([], r"y has shape \(0,\)"),
        (with_nan(Y), "y holds 1 NaN"),
        (np.where(Y > 0, np.inf, Y), "y holds .* infinite"),
        (["yes", "no"] * 12, "y cannot be read as numbers"),
        (Y * 1e200, "y holds values of size"),
        (Y * 1e-200, "y holds values of size"),
    ],
)
def test_y(y, message):
    refused(message, fit, X, y)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        ("bernoulli", np.arange(24) % 3, r"two classes.* got 3 values \(0, 1, 2\); fit one model per class"),
        ("bernoulli-probit", Y, "two classes"),
        ("bernoulli", np.arange(24) % 2 + 1, "two classes"),
        ("poisson", np.arange(24) - 3, "counts 0, 1, 2.*negative"),
        ("poisson", Y.clip(0), "fractional"),
    ],
)
def test_targets_of_a_likelihood(likelihood, y, message):
    refused(message, fit, X, y, likelihood=likelihood)


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
        ({"noise": -1.0}, "noise=-1.0"),
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
    refused(message, fit, X[:6], Y[:6], **options)


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
    refused(message, fit, X[:6], Y[:6], kind=TypeError, **options)


def test_options_that_need_another():
    refused("has no noise; leave it out", fit, X, Y > 0, likelihood="bernoulli", noise=0.1)
    refused("needs a gaussian likelihood.*method='dual'", fit, X, Y > 0, likelihood="bernoulli", method="exact")
    refused("names has 1 entries for 2 data sets", rgp.fit_many, [(X, Y), (X, Y)], names=["a"])
    assert rgp.fit_many([]) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_absent_device():
    refused("device='cuda' cannot be used", fit, device="cuda")


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


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "student-t"])
@pytest.mark.parametrize(
    "x",
    [X[:1], X[:2], X[[0, 0]], np.ones((9, 2)), np.c_[X[:, 0], np.full(24, 7.0)], np.r_[X[:8], X[:8]], LATTICE],
    ids=["one", "two", "two-same", "all-same", "constant-column", "duplicates", "lattice"],
)
def test_degenerate_inputs(x, likelihood):
    y = (np.arange(len(x)) % 2).astype(float)
    m = fit(x, y, likelihood=likelihood, **({} if likelihood == "gaussian" else {"inducing": 8}))
    answers(m, x)
    assert m.rows == len(x)
    assert np.isfinite(m.log_density(x, y)).all()
    assert np.isfinite(m.predict_y(x)[0]).all()


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6, 1e-9])
def test_constant_y(value):
    m = fit(X, np.full(24, value))
    mean, variance = answers(m, X)
    scale = abs(value) or 1.0
    np.testing.assert_allclose(mean, value, atol=0.05 * scale)
    assert (variance < 0.1 * scale**2).all()


@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit"])
def test_one_class(likelihood):
    for label in (0, 1):
        m = fit(X, np.full(24, label), likelihood=likelihood, inducing=8)
        answers(m, X)
        assert (m.predict_proba(X)[:, label] > 0.8).all()


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


def test_far_away_predictions_are_the_prior(a):
    mean, variance = a.predict(X * 1e80)
    np.testing.assert_allclose(mean, a.mean)
    np.testing.assert_allclose(variance, a.kernel.outputscale.item(), rtol=1e-6)


# --- models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["a", "e"])
def test_questions(request, which):
    model = request.getfixturevalue(which)
    refused(r"X has shape \(24, 1\), but the model has 2 input columns", model.predict, X[:, :1])
    refused(r"pass an array of shape \(n, 2\)", model.predict, X[0])
    refused("X holds 1 NaN", model.predict, with_nan(X))
    refused("X is None", model.predict_y, None)
    refused("X cannot be read", model.sample, "X")
    refused("n=0; pass a positive number", model.sample, X, 0)
    refused(r"y has shape \(3,\) but X has 24 rows", model.log_density, X, Y[:3])
    refused("y holds 1 NaN", model.log_density, X, with_nan(Y))
    refused("needs a bernoulli likelihood, this model has 'gaussian'; use predict_y", model.predict_proba, X)
    refused("likelihood='poisson': this model has gaussian", model.predict_y, X, "poisson")
    refused("likelihood='gauss' is not known", model.log_density, X, Y, "gauss")
    refused("output_scale=0.0; pass a number that is not zero", model.transform, output_scale=0.0)
    refused("output_scale=nan", model.transform, output_scale=np.nan)
    refused("output_scale='2'", model.transform, output_scale="2")
    refused("output_scale=1e", model.transform, output_scale=1e200)
    refused("output_shift=inf", model.transform, output_shift=np.inf)
    refused("input_shift has 1 numbers for 2 input columns; pass one each", model.transform, input_shift=[1.0])
    refused("input_shift holds 1 NaN", model.transform, input_shift=[1.0, np.nan])


def test_large_changes_of_units(a):
    big = a.transform(output_scale=1e45, output_shift=-1e45)
    np.testing.assert_allclose(big.predict(X)[0] / 1e45, a.predict(X)[0] - 1, rtol=1e-6)


def test_fixed_units():
    m = fit(X, Y > 0, likelihood="bernoulli", inducing=8, learn=False)
    refused("do not apply to likelihood 'bernoulli'", m.transform, output_scale=2.0)
    assert m.transform(input_shift=[1.0, 0.0]).predict(X + np.array([1.0, 0.0]))[0] == pytest.approx(m.predict(X)[0])


def test_module_operations(a):
    refused("points=0", a.publish, 0)
    refused("points is None", a.publish, None)
    refused("points has shape", a.publish, np.ones((2, 3)))
    refused("seed=-1; pass a whole number", a.publish, 3, seed=-1)
    refused("seed='a'", a.publish, 3, seed="a")
    refused("name must be a string", a.rename, None, kind=TypeError)
    refused("name=''", a.rename, "")


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
        ({"kernel": "rbf"}, "pass the fitted GPyTorch kernel"),
        ({"kernel": gpytorch.kernels.RBFKernel(ard_num_dims=4)}, "kernel 'rbf'"),
        ({"likelihood": "gauss"}, "likelihood='gauss' is not known"),
        ({"likelihood": "poisson", "noise": 0.1}, "has no noise; leave it out"),
        ({"noise": -1.0}, "noise=-1.0; pass a positive number"),
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
    refused(message, moments, **options)


def test_moments_that_say_too_much_or_too_little():
    refused("beyond", moments, covariance=np.zeros((2, 2)), jitter=0.0)
    with pytest.warns(rgp.RecycleGPWarning, match="2 of 2 directions .* wider than the prior"):
        wide = moments(covariance=9 * np.eye(2))
    assert not wide.convergence.converged
    np.testing.assert_allclose(wide.predict(Z1)[0], [0.0, 1.0], atol=1e-6)
    sure = moments(covariance=1e-20 * np.eye(2))
    np.testing.assert_allclose(sure.predict(Z1)[0], [0.0, 1.0], atol=1e-7)


def test_predictions_before_the_noise_is_known():
    m = moments()
    for model in (m, rgp.merge([m], learn=False)):
        assert model.noise is None
        refused("noise of this gaussian model is not known; pass noise=", model.predict_y, Z1)
        refused("use predict for the latent f", model.log_density, Z1, [0.0, 0.0])
    assert moments(noise=0.2).predict_y(Z1)[1] == pytest.approx([0.3, 0.3])


# --- merge and ensembles ----------------------------------------------------------------------


def test_merge(a, b, thin, e):
    refused("modules is empty; merge needs at least one module", rgp.merge, [])
    refused("modules must hold Module objects, not str", rgp.merge, ["a.safetensors"], kind=TypeError)
    refused(r"not Ensemble; call its to_module\(name\) first", rgp.merge, [a, e], kind=TypeError)
    refused("iterable", rgp.merge, None, kind=TypeError)
    refused("two modules are named 'a'; rename one", rgp.merge, [a, a])
    refused("module 'thin' has 1 input columns where the others have 2", rgp.merge, [a, thin])
    refused("keep='all'; use 'sites' or 'names'", rgp.merge, [a], keep="all")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "weights must not be negative"),
        ([1.0, np.nan], "finite"),
        ([1.0, np.inf], "finite"),
        ([1.0], "weights has 1 numbers for 2 modules; give one each"),
        ({"c": 1.0}, "weights names modules that are not here: c"),
        ([0.0, 0.0], "weights are all zero"),
    ],
)
def test_weights(a, b, weights, message):
    refused(message, rgp.merge, [a, b], weights=weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inducing": 0}, "inducing=0"),
        ({"inducing": "many"}, "inducing='many'"),
        ({"inducing": None}, "inducing is None"),
        ({"inducing": np.ones((2, 1))}, r"inducing has shape \(2, 1\)"),
        ({"inducing": with_nan(X)}, "inducing holds 1 NaN"),
        ({"kernel": "rbff"}, "kernel='rbff' cannot be read"),
        ({"kernel": gpytorch.kernels.RBFKernel(ard_num_dims=5)}, "kernel 'rbf'"),
    ],
)
def test_merge_options(a, options, message):
    refused(message, rgp.merge, [a], **options)


def test_add_and_remove(a, b, thin, e):
    refused("two modules are named 'a'", e.add, a)
    refused("module 'thin' has 1 input columns", e.add, thin)
    refused("call its to_module", e.add, e, kind=TypeError)
    refused("modules must hold Module objects", e.add, ["a"], kind=TypeError)
    refused("two modules are named 'c'", e.add, [a.rename("c"), b.rename("c")])
    refused("remove: no module is named z; there are a, b", e.remove, "z")
    refused("no module is named 3", e.remove, [3])
    refused("nothing would be left", e.remove, ["a", "b"])
    refused("no module is named z", e.reweight, {"z": 1.0})
    refused("must not be negative", e.reweight, {"a": -1.0})
    refused(r"weights\['a'\]=nan", e.reweight, {"a": np.nan})
    refused(r"weights\['a'\]='x'", e.reweight, {"a": "x"})
    refused("all weights are zero", e.reweight, {"a": 0.0, "b": 0.0})
    refused("name must be a string", e.to_module, None, kind=TypeError)
    assert e.names == ["a", "b"]


def test_update(e):
    refused("X has no rows", e.update, X[:0], Y[:0])
    refused(r"X has shape \(24, 1\)", e.update, X[:, :1], Y)
    refused("X holds 1 NaN", e.update, with_nan(X), Y)
    refused("y has shape", e.update, X, Y[:2])
    refused("y holds 1 NaN", e.update, X, with_nan(Y))
    refused("likelihood='gauss' is not known", e.update, X, Y, likelihood="gauss")
    refused("noise of student-t data is not known here; pass noise=", e.update, X, Y, likelihood="student-t")
    refused("two classes", e.update, X, Y, likelihood="bernoulli")
    refused("has no noise; leave it out", e.update, X, Y > 0, likelihood="bernoulli", noise=1.0)
    refused("noise=-1; pass a positive number", e.update, X, Y, noise=-1)
    refused("already named 'a'; pass another name", e.update, X, Y, name="a")
    refused("name must be a string", e.update, X, Y, name=3, kind=TypeError)


def test_nearly_equal_modules_merge(a):
    twin = a.rename("twin").transform(input_shift=[1e-10, 0.0])
    both = rgp.merge([a, twin], learn=False, inducing=100)
    doubled = rgp.merge([a], weights=[2.0], learn=False, inducing=100)
    np.testing.assert_allclose(both.predict(X)[0], doubled.predict(X)[0], atol=1e-4)


# --- numbers, seeds and lists ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: fit(X[:6], Y[:6], seed=-1), "seed=-1"),
        (lambda m: fit(X[:6], Y[:6], seed="a"), "seed='a'"),
        (lambda m: fit(X[:6], Y[:6], noise="a"), "noise='a'"),
        (lambda m: fit(X[:6], Y[:6], noise=np.array([0.1, 0.2])), "noise="),
        (lambda m: m.sample(X, 2, seed=-1), "seed=-1"),
        (lambda m: m.sample(X, 1.5), "n=1.5"),
        (lambda m: rgp.fit_many([X]), "pairs"),
        (lambda m: rgp.merge([m], weights=["x"]), "weights"),
        (lambda m: fit(X[:6], Y[:6], kernel="+".join(["rbf"] * 3000)), "kernel"),
    ],
)
def test_nonsense_is_refused_by_name(a, call, message):
    refused(message, call, a)
