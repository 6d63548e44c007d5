"""scikit-learn's Gaussian processes in: what they predicted, the module predicts; against scikit-learn itself."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.linear_model import LinearRegression

import recyclegp as rgp

N = 40
WHITE = 0.08
KERNELS = {
    "rbf": (1.7 * RBF([0.8, 2.1]), 2),
    "rbf, one lengthscale, fixed": (RBF(1.3, "fixed"), 2),
    "matern12": (0.6 * Matern([0.8, 2.0], nu=0.5), 2),
    "matern32": (Matern(0.8, nu=1.5) * 0.6, 2),
    "matern52": (2.6 * Matern([0.8, 2.0], nu=2.5), 2),
    "matern inf": (Matern(0.9, nu=np.inf), 2),
    "rational quadratic": (1.2 * RationalQuadratic(1.1, alpha=0.7), 2),
    "periodic": (1.4 * ExpSineSquared(1.3, periodicity=2.2), 1),
    "dot product": (0.3 * DotProduct(1.7), 2),
    "dot product through zero": (0.3 * DotProduct(0.0, "fixed") + 0.5 * RBF(2.0), 2),
    "constant": (0.4 * RBF(1.1) + 0.7, 2),
    "product": (0.5 * RBF(2.0) * ExpSineSquared(0.9, periodicity=1.7), 1),
    "composition": ((0.5 * RBF(1.0) + 0.2 * DotProduct(0.6)) * Matern(3.0, nu=1.5) + ConstantKernel(0.3), 2),
}
OPTIONS = {
    "alpha": {"alpha": 0.03},
    "normalize_y": {"alpha": 0.02, "normalize_y": True},
    "alpha of each row": {"alpha": np.random.default_rng(3).uniform(0.01, 0.2, N)},
    "WhiteKernel": {},
    "WhiteKernel, all of it": {"alpha": np.random.default_rng(4).uniform(0.01, 0.2, N), "normalize_y": True},
}


def data(D, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, D))
    return X, 5 + 3 * np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def elsewhere(D):
    return np.random.default_rng(9).uniform(-1, 5, (30, D))


def regressor(kernel="rbf", option="alpha"):
    k, D = KERNELS[kernel]
    k = k + WhiteKernel(WHITE) if "White" in option else k
    return GaussianProcessRegressor(k, optimizer=None, **OPTIONS[option]).fit(*data(D))


def noise_in_std(gp):
    """What scikit-learn's standard deviation contains beyond f: WhiteKernel's share."""
    return WHITE * float(np.ravel(gp._y_train_std)[0]) ** 2 if "White" in str(gp.kernel_) else 0.0


def check_predictions(module, gp, X, tolerance=1e-8):
    mean, sd = gp.predict(X, return_std=True)
    found, variance = module.predict(X)
    np.testing.assert_allclose(found, mean, rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.sqrt(variance + noise_in_std(gp)), sd, rtol=0, atol=tolerance)


# --- regressors -------------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_regressor(kernel, option):
    """At the published points, everywhere if those are all rows; and the evidence is its marginal likelihood."""
    gp = regressor(kernel, option)
    small = rgp.from_sklearn(gp, name="small", publish=12)
    check_predictions(small, gp, small.inducing)
    full = rgp.from_sklearn(gp, publish=gp.X_train_)
    check_predictions(full, gp, elsewhere(gp.n_features_in_))
    scale = float(np.ravel(gp._y_train_std)[0])
    log_marginal = gp.log_marginal_likelihood_value_ - N * np.log(scale)  # a density of y, not of y/scale
    assert small.evidence == pytest.approx(log_marginal, abs=1e-7)
    assert full.evidence == pytest.approx(log_marginal, abs=1e-7)
    alpha = float(np.mean(OPTIONS[option].get("alpha", 1e-10)))
    assert small.noise == pytest.approx(scale**2 * (alpha + WHITE * ("White" in option)))
    assert (small.name, small.rows, small.likelihood, small.method) == ("small", N, "gaussian", "exact")


def test_learned_hyperparameters_and_the_default_kernel():
    """An object as users have it: optimised, noise-free default alpha, kernel=None."""
    X, y = data(2)
    kernel = 1.0 * Matern([1.0, 1.0], nu=2.5) + WhiteKernel(0.1)
    gp = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=0).fit(X, y)
    module = rgp.from_sklearn(gp)
    mean, sd = gp.predict(module.inducing, return_std=True)
    np.testing.assert_allclose(module.predict(module.inducing)[0], mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(module.predict_y(module.inducing)[1]), sd, atol=1e-8)  # alpha is 1e-10
    smooth = np.sin(X[:, 0]) * np.cos(X[:, 1])
    plain = GaussianProcessRegressor(optimizer=None).fit(X, smooth)
    check_predictions(rgp.from_sklearn(plain, publish=X), plain, elsewhere(2), 1e-6)


def test_factors_and_noise_are_collected():
    """2·(k + white)·3 is 6k with noise 6·white, with the parameters our own kernels have."""
    X, y = data(2)
    gp = GaussianProcessRegressor(2.0 * (RBF([0.7, 1.9]) + WhiteKernel(0.05)) * 3.0, optimizer=None).fit(X, y)
    module = rgp.from_sklearn(gp, publish=X)
    assert module.noise == pytest.approx(6 * 0.05)
    np.testing.assert_allclose(module.kernel_spec.theta.exp(), [6.0, 0.7, 1.9])
    ours = rgp.fit(X, y, kernel="rbf", publish=5)
    assert module.kernel_spec.structure == ours.kernel_spec.structure
    mean, sd = gp.predict(elsewhere(2), return_std=True)
    found, variance = module.predict_y(elsewhere(2))
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(variance), sd, atol=1e-8)


def test_rows_at_one_place_are_one_observation():
    """Repeated inputs, each with its own noise."""
    X = np.repeat(data(2, 15)[0], 3, axis=0)
    y = np.random.default_rng(5).normal(2.0, 1.0, 45)
    alpha = np.random.default_rng(6).uniform(0.01, 0.3, 45)
    gp = GaussianProcessRegressor(1.3 * RBF([1.0, 0.7]), alpha=alpha, optimizer=None).fit(X, y)
    for points, where in ((X, elsewhere(2)), (X[:9:3], X[:9:3])):
        module = rgp.from_sklearn(gp, publish=points)
        check_predictions(module, gp, where)
        assert module.evidence == pytest.approx(gp.log_marginal_likelihood_value_, abs=1e-8)
    assert module.rows == 45


def test_two_regressors_merge_into_the_one_that_has_seen_all():
    """Published at their rows and merged there, two GPs with one kernel are the GP on the union of their data."""
    kernel, (X, y) = KERNELS["matern52"][0], data(2, 60)
    alpha = np.random.default_rng(7).uniform(0.05, 0.3, 60)
    parts = [slice(0, 25), slice(25, 60)]
    gps = [GaussianProcessRegressor(kernel, alpha=alpha[p], optimizer=None).fit(X[p], y[p]) for p in parts]
    both = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, y)
    merged = rgp.merge(
        [rgp.from_sklearn(gp, name=f"{i}", publish=gp.X_train_) for i, gp in enumerate(gps)],
        inducing=X,
        learn=False,
    )
    check_predictions(merged, both, elsewhere(2), 1e-7)
    assert merged.evidence == pytest.approx(both.log_marginal_likelihood_value_, abs=1e-6)


def test_merges_with_ours_and_travels():
    """A file, then an ensemble with a module fitted here; better than either alone where the other looked."""
    rng = np.random.default_rng(2)
    X = np.sort(rng.uniform(0, 8, (160, 1)), axis=0)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=160)
    gp = GaussianProcessRegressor(1.0 * RBF(0.7) + WhiteKernel(0.1)).fit(X[:90], y[:90])
    theirs, ours = rgp.from_sklearn(gp, name="theirs"), rgp.fit(X[70:], y[70:], name="ours")
    merged = rgp.merge([theirs, ours])
    Xt = np.linspace(0, 8, 60)[:, None]
    truth = np.sin(2 * Xt[:, 0])

    def error(model):
        return np.sqrt(np.mean((model.predict(Xt)[0] - truth) ** 2))

    assert error(merged) < 0.06
    assert min(error(theirs), error(ours)) > 0.2
    assert min(row["agreement"] for row in merged.report()) > 1e-3


def test_file(tmp_path):
    """Bit for bit, also with a constant kernel in it."""
    module = rgp.from_sklearn(regressor("composition"), name="c")
    module.save(tmp_path / "c.safetensors")
    again = rgp.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(again.predict(elsewhere(2))[0], module.predict(elsewhere(2))[0])


def test_columns_are_kept():
    """Names from a DataFrame go with the module, and questions are matched by them."""
    X, y = data(2)
    frame = pd.DataFrame(X, columns=["age", "dose"])
    gp = GaussianProcessRegressor(RBF([1.0, 2.0]), alpha=0.1, optimizer=None).fit(frame, y)
    module = rgp.from_sklearn(gp, publish=frame)
    assert module.columns == ("age", "dose")
    ask = pd.DataFrame(elsewhere(2), columns=["age", "dose"])
    np.testing.assert_allclose(module.predict(ask[["dose", "age"]])[0], gp.predict(ask), atol=1e-8)


def test_no_row_is_shared_unless_it_is_passed_and_the_object_is_left_alone():
    gp = regressor()
    before = copy.deepcopy(vars(gp))
    module = rgp.from_sklearn(gp, publish=20, seed=3)
    rows = {tuple(row) for row in gp.X_train_.tolist()}
    assert not rows & {tuple(row) for row in module.inducing.tolist()}
    np.testing.assert_array_equal(module.inducing, rgp.from_sklearn(gp, publish=20, seed=3).inducing)
    assert not np.array_equal(module.inducing, rgp.from_sklearn(gp, publish=20, seed=4).inducing)
    assert all(np.array_equal(before[k], v) for k, v in vars(gp).items() if isinstance(v, np.ndarray))
    assert before["kernel_"] == gp.kernel_
    gp.X_train_[:] = 0.0
    assert np.abs(module.inducing).max() > 1


# --- classifiers ------------------------------------------------------------------------------


def classifier(kernel=None, n=60, **options):
    rng = np.random.default_rng(8)
    X = rng.uniform(0, 4, (n, 2))
    y = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    return GaussianProcessClassifier(kernel, **options).fit(X, y)


CLASSIFIERS = {
    "default kernel": {},
    "learned": {"kernel": 1.5 * RBF([0.8, 2.0])},
    "matern": {"kernel": 4.0 * Matern([0.7, 2.5], nu=1.5) + 0.5, "optimizer": None},
    "stopped early": {"kernel": 30.0 * RBF([0.5, 2.0]), "optimizer": None, "max_iter_predict": 2},
}


def latent(gp, X):
    """scikit-learn's Gaussian of f, by its formulas (the method of that name is younger than 1.6)."""
    laplace = gp.base_estimator_
    K = laplace.kernel_(laplace.X_train_, X)
    v = np.linalg.solve(laplace.L_, laplace.W_sr_[:, None] * K)
    return K.T @ (laplace.y_train_ - laplace.pi_), laplace.kernel_.diag(X) - (v**2).sum(0)


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_classifier(case):
    """Laplace's Gaussian is taken over exactly, for labels that are strings."""
    gp = classifier(**CLASSIFIERS[case])
    small, full = rgp.from_sklearn(gp, publish=12), rgp.from_sklearn(gp, publish=gp.base_estimator_.X_train_)
    for module, X in ((small, small.inducing), (full, elsewhere(2))):
        mean, variance = latent(gp, X)
        np.testing.assert_allclose(module.predict(X)[0], mean, atol=1e-8)
        np.testing.assert_allclose(module.predict(X)[1], variance, atol=1e-8)
        # ∫σ(f) q(f) df by a dense sum; scikit-learn replaces σ by five error functions
        z = np.linspace(-10, 10, 4001)
        f = mean[:, None] + np.sqrt(variance)[:, None] * z
        weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
        np.testing.assert_allclose(module.predict_proba(X)[:, 1], (weights / (1 + np.exp(-f))).sum(-1), atol=1e-9)
        np.testing.assert_allclose(module.predict_proba(X), gp.predict_proba(X), atol=2e-3)
        chosen = gp.classes_[(module.predict(X)[0] > 0).astype(int)]
        np.testing.assert_array_equal(chosen, gp.predict(X))
    assert (full.rows, full.likelihood, full.method, full.mean) == (60, "bernoulli", "laplace", 0.0)
    if case != "stopped early":  # at the mode the quadratic's evidence is Laplace's
        assert full.evidence == pytest.approx(gp.log_marginal_likelihood_value_, abs=1e-6)
        assert small.evidence == pytest.approx(gp.log_marginal_likelihood_value_, abs=1e-6)


def test_certain_rows_say_nothing():
    """π rounded to 1 has W = 0: such a row is left out, and nothing overflows."""
    X = np.concatenate([np.linspace(-3, -2, 25), np.linspace(2, 3, 25)])[:, None]
    gp = GaussianProcessClassifier(1e5 * RBF(3.0), optimizer=None).fit(X, X[:, 0] > 0)
    gp.base_estimator_.pi_[0], gp.base_estimator_.W_sr_[0] = 0.0, 0.0  # as if it had been
    mean, _ = latent(gp, X[:5])
    module = rgp.from_sklearn(gp, publish=X[5:30:5])
    assert np.isfinite(module.evidence)
    assert module.rows == 50
    assert (np.sign(module.predict(X[:5])[0]) == np.sign(mean)).all()


@pytest.mark.slow
def test_classifiers_merge_with_ours():
    """Two owners of one boundary, one of them scikit-learn's."""
    rng = np.random.default_rng(12)
    X = rng.uniform(0, 6, (240, 2))
    y = (X[:, 1] > 3 + 2 * np.sin(X[:, 0])).astype(int)
    left = X[:, 0] < 3
    gp = GaussianProcessClassifier(10.0 * RBF([1.0, 2.0])).fit(X[left], y[left])
    merged = rgp.merge([rgp.from_sklearn(gp, name="a"), rgp.fit(X[~left], y[~left], likelihood="bernoulli", name="b")])
    Xt = rng.uniform(0, 6, (300, 2))
    truth = Xt[:, 1] > 3 + 2 * np.sin(Xt[:, 0])
    assert np.mean((merged.predict_proba(Xt)[:, 1] > 0.5) == truth) > 0.92


# --- refusals ---------------------------------------------------------------------------------


class Mine(RBF):
    """A formula of the user's own."""


REFUSED = {
    "Exponentiation": Exponentiation(RBF(1.0), 2),
    "PairwiseKernel": PairwiseKernel(metric="laplacian"),
    "Mine": Mine(1.0),
    "Matern with nu=0.7": Matern(1.0, nu=0.7),
    "ExpSineSquared over 2 input columns": ExpSineSquared(1.0, 2.0),
    "WhiteKernel in the product": RBF(1.0) * WhiteKernel(0.1),
    "ConstantKernel with constant_value=0.0": RBF(1.0) + ConstantKernel(0.0, "fixed"),
    "it is only noise": WhiteKernel(1.0) + WhiteKernel(0.2),
}


@pytest.mark.parametrize("named", REFUSED)
def test_other_kernels_are_refused_by_name(named):
    alpha = 100.0  # their ExpSineSquared over several columns is no covariance by itself
    gp = GaussianProcessRegressor(REFUSED[named], alpha=alpha, optimizer=None).fit(*data(2))
    with pytest.raises(rgp.RecycleGPError, match="from_sklearn cannot represent") as refused:
        rgp.from_sklearn(gp)
    assert named in str(refused.value)


def test_compound_kernel_is_refused_by_name():
    gp = regressor()
    gp.kernel_ = CompoundKernel([RBF(1.0), RBF(2.0)])
    with pytest.raises(rgp.RecycleGPError, match="cannot represent CompoundKernel; it can sums and products"):
        rgp.from_sklearn(gp)


def test_other_objects_are_refused():
    X, y = data(2)
    with pytest.raises(TypeError, match="takes a GaussianProcessRegressor or GaussianProcessClassifier, not Linear"):
        rgp.from_sklearn(LinearRegression().fit(X, y))
    for gp in (GaussianProcessRegressor(), GaussianProcessClassifier()):
        with pytest.raises(rgp.RecycleGPError, match="is not fitted; call its fit"):
            rgp.from_sklearn(gp)
    several = GaussianProcessRegressor(optimizer=None, alpha=0.1).fit(X, np.c_[y, -y])
    with pytest.raises(rgp.RecycleGPError, match="cannot represent 2 outputs"):
        rgp.from_sklearn(several)
    column = GaussianProcessRegressor(1.0 * RBF(1.0), optimizer=None, alpha=0.1).fit(X, y[:, None])
    check_predictions(rgp.from_sklearn(column, publish=X), column, elsewhere(2))
    three = GaussianProcessClassifier().fit(X, np.arange(N) % 3)
    with pytest.raises(rgp.RecycleGPError, match="cannot represent 3 classes"):
        rgp.from_sklearn(three)
    noisy = classifier(RBF(1.0) + WhiteKernel(0.1), optimizer=None)
    with pytest.raises(rgp.RecycleGPError, match="cannot represent WhiteKernel in a classifier"):
        rgp.from_sklearn(noisy)


def test_what_cannot_be_published_is_refused():
    gp = regressor()
    with pytest.raises(rgp.RecycleGPError, match="publish=None: this model has no inducing points"):
        rgp.from_sklearn(gp, publish=None)
    with pytest.raises(rgp.RecycleGPError, match=r"publish has shape \(3, 1\)"):
        rgp.from_sklearn(gp, publish=np.zeros((3, 1)))
    with pytest.raises(rgp.RecycleGPError, match="seed=-1"):
        rgp.from_sklearn(gp, seed=-1)
    X = np.linspace(0, 4, 12)[:, None]
    sharp = GaussianProcessRegressor(RBF(1.0), alpha=3e-15, optimizer=None).fit(X, np.sin(X[:, 0]))
    with pytest.raises(rgp.RecycleGPError, match="500 points so close together need a jitter of"):
        rgp.from_sklearn(sharp, publish=np.linspace(0, 4, 500)[:, None])
    zero = GaussianProcessRegressor(Matern(1.0, nu=0.5), alpha=1e-300, optimizer=None).fit(X, np.sin(X[:, 0]))
    zero.alpha = 0.0
    with pytest.raises(rgp.RecycleGPError, match="cannot represent data without noise"):
        rgp.from_sklearn(zero)
