"""The door, of models, merge and ensembles: a clear error that names the argument and the remedy, or a correct result.

Never a silent NaN. What goes into fit and from_moments is in test_bad_input.py.
"""

import gpytorch
import numpy as np
import pytest

import recyclegp as rgp
from cases_bad import Z1, X, Y, check_refused, fit, moments, with_nan


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


# --- models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["a", "e"])
def test_questions(request, which):
    model = request.getfixturevalue(which)
    check_refused(r"X has shape \(24, 1\), but the model has 2 input columns", model.predict, X[:, :1])
    check_refused(r"pass an array of shape \(n, 2\)", model.predict, X[0])
    check_refused("X holds 1 NaN", model.predict, with_nan(X))
    check_refused("X is None", model.predict_y, None)
    check_refused("X cannot be read", model.sample, "X")
    check_refused("n=0; pass a positive number", model.sample, X, 0)
    check_refused(r"y has shape \(3,\) but X has 24 rows", model.log_density, X, Y[:3])
    check_refused("y holds 1 NaN", model.log_density, X, with_nan(Y))
    said = "predict_proba and predict_class need classes, and this model has likelihood 'gaussian'; use predict_y"
    check_refused(said, model.predict_proba, X)
    check_refused("likelihood='poisson': this model has gaussian", model.predict_y, X, "poisson")
    check_refused("likelihood='gauss' is not known", model.log_density, X, Y, "gauss")
    check_refused("output_scale=0; pass a number that is not zero", model.transform, output_scale=0.0)
    check_refused("output_scale=nan", model.transform, output_scale=np.nan)
    check_refused("output_scale='2'", model.transform, output_scale="2")
    check_refused("output_scale=1e", model.transform, output_scale=1e200)
    check_refused("output_shift=inf", model.transform, output_shift=np.inf)
    check_refused("input_shift has 1 numbers for 2 input columns; pass one each", model.transform, input_shift=[1.0])
    check_refused("input_shift holds 1 NaN", model.transform, input_shift=[1.0, np.nan])


def test_far_away_predictions_are_the_prior(a):
    mean, variance = a.predict(X * 1e80)
    np.testing.assert_allclose(mean, a.mean)
    np.testing.assert_allclose(variance, a.kernel.outputscale.item(), rtol=1e-6)


def test_large_changes_of_units(a):
    big = a.transform(output_scale=1e45, output_shift=-1e45)
    np.testing.assert_allclose(big.predict(X)[0] / 1e45, a.predict(X)[0] - 1, rtol=1e-6)


def test_fixed_units():
    m = fit(X, Y > 0, likelihood="bernoulli", inducing=8, learn=False)
    check_refused("do not apply to likelihood 'bernoulli'", m.transform, output_scale=2.0)
    assert m.transform(input_shift=[1.0, 0.0]).predict(X + np.array([1.0, 0.0]))[0] == pytest.approx(m.predict(X)[0])


def test_module_operations(a):
    check_refused("points=0", a.publish, 0)
    check_refused("points is None", a.publish, None)
    check_refused("points has shape", a.publish, np.ones((2, 3)))
    check_refused("seed=-1; pass a whole number", a.publish, 3, seed=-1)
    check_refused("seed='a'", a.publish, 3, seed="a")
    check_refused("name must be a string", a.rename, None, kind=TypeError)
    check_refused("name=''", a.rename, "")


def test_predictions_before_the_noise_is_known():
    m = moments()
    for model in (m, rgp.merge([m], learn=False)):
        assert model.noise is None
        check_refused("noise of this gaussian model is not known; pass noise=", model.predict_y, Z1)
        check_refused("use predict for the latent f", model.log_density, Z1, [0.0, 0.0])
    assert moments(noise=0.2).predict_y(Z1)[1] == pytest.approx([0.3, 0.3])


# --- merge and ensembles ----------------------------------------------------------------------


def test_merge(a, b, thin, e):
    check_refused("modules is empty; merge needs at least one module", rgp.merge, [])
    check_refused("modules must hold Module objects or paths, not int", rgp.merge, [3], kind=TypeError)
    check_refused("No such file.*absent.safetensors", rgp.merge, ["absent.safetensors"], kind=FileNotFoundError)
    check_refused(r"not Ensemble; call its to_module\(name\) first", rgp.merge, [a, e], kind=TypeError)
    check_refused("iterable", rgp.merge, None, kind=TypeError)
    check_refused("two modules are named 'a'; rename one", rgp.merge, [a, a])
    check_refused("module 'thin' has 1 input column where the others have 2", rgp.merge, [a, thin])
    check_refused("keep='all'; use 'sites' or 'names'", rgp.merge, [a], keep="all")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "weights must not be negative"),
        ([1.0, np.nan], "finite"),
        ([1.0, np.inf], "finite"),
        ([1.0], "weights has 1 numbers for 2 modules; give one each"),
        ({"c": 1.0}, "weights: no module here is called c"),
        ([0.0, 0.0], "weights are all zero"),
    ],
)
def test_weights(a, b, weights, message):
    check_refused(message, rgp.merge, [a, b], weights=weights)


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
    check_refused(message, rgp.merge, [a], **options)


def test_add_and_remove(a, b, thin, e):
    check_refused("two modules are named 'a'", e.add, a)
    check_refused("module 'thin' has 1 input column", e.add, thin)
    check_refused("call its to_module", e.add, e, kind=TypeError)
    check_refused("modules must hold Module objects", e.add, [a.rename("c"), 3], kind=TypeError)
    check_refused("No such file", e.add, ["absent"], kind=FileNotFoundError)
    check_refused("two modules are named 'c'", e.add, [a.rename("c"), b.rename("c")])
    check_refused("remove: no module is named z; there are a, b", e.remove, "z")
    check_refused("no module is named 3", e.remove, [3])
    check_refused("nothing would be left", e.remove, ["a", "b"])
    check_refused("no module is named z", e.reweight, {"z": 1.0})
    check_refused("must not be negative", e.reweight, {"a": -1.0})
    check_refused(r"weights\['a'\]=nan", e.reweight, {"a": np.nan})
    check_refused(r"weights\['a'\]='x'", e.reweight, {"a": "x"})
    check_refused("all weights are zero", e.reweight, {"a": 0.0, "b": 0.0})
    check_refused("name must be a string", e.to_module, None, kind=TypeError)
    assert e.names == ["a", "b"]


def test_update(e):
    check_refused("X has no rows", e.update, X[:0], Y[:0])
    check_refused(r"X has shape \(24, 1\)", e.update, X[:, :1], Y)
    check_refused("X holds 1 NaN", e.update, with_nan(X), Y)
    check_refused("y has shape", e.update, X, Y[:2])
    check_refused("y holds 1 NaN", e.update, X, with_nan(Y))
    check_refused("likelihood='gauss' is not known", e.update, X, Y, likelihood="gauss")
    check_refused("noise of student-t data is not known here; pass noise=", e.update, X, Y, likelihood="student-t")
    check_refused("two classes", e.update, X, Y, likelihood="bernoulli")
    check_refused("has no noise; leave it out", e.update, X, Y > 0, likelihood="bernoulli", noise=1.0)
    check_refused("noise=-1; pass a positive number", e.update, X, Y, noise=-1)
    check_refused("already named 'a'; pass another name", e.update, X, Y, name="a")
    check_refused("name must be a string", e.update, X, Y, name=3, kind=TypeError)


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
        (lambda m: fit(X[:6], Y[:6], noise=np.array([0.1, 0.2])), r"noise has shape \(2,\) but X has 6 rows"),
        (lambda m: m.sample(X, 2, seed=-1), "seed=-1"),
        (lambda m: m.sample(X, 1.5), "n=1.5"),
        (lambda m: rgp.fit_many([X]), "pairs"),
        (lambda m: rgp.merge([m], weights=["x"]), "weights"),
        (lambda m: fit(X[:6], Y[:6], kernel="+".join(["rbf"] * 3000)), "kernel"),
    ],
)
def test_nonsense_is_refused_by_name(a, call, message):
    check_refused(message, call, a)
