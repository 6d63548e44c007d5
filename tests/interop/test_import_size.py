"""Models that keep their rows, by default: as much as people expect of "the same model", and what that says of rows."""

import warnings

import gpytorch
import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import recyclegp as rgp
from recyclegp.errors import LittleKeptWarning, PrivacyWarning

NOISE = 0.1  # standard deviation
LIBRARIES = ["scikit-learn", "gpytorch", "botorch"]


def data(D, n, seed=0):
    rng = np.random.default_rng(100 * D + n + seed)
    X = rng.uniform(0, 4, (n, D))
    return X, 1.3 + np.sin(X).sum(1) / np.sqrt(D) + NOISE * rng.standard_normal(n)


def reach(D):
    """A lengthscale for each input."""
    return (1.0 + 0.4 * D) * np.linspace(0.9, 1.3, D)


def scikit_learn(X, y):
    kernel = 0.8 * Matern(reach(X.shape[1]), nu=2.5) + WhiteKernel(NOISE**2)
    gp = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    return (lambda **how: rgp.from_sklearn(gp, name="a", **how)), gp.predict


class Exact(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=X.shape[1]))

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def gpytorch_exact(X, y):
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Exact(torch.tensor(X), torch.tensor(y), likelihood).double()
    model.covar_module.base_kernel.lengthscale = torch.tensor(reach(X.shape[1]))
    model.covar_module.outputscale, model.mean_module.constant, likelihood.noise = 0.8, 0.7, NOISE**2
    model.eval(), likelihood.eval()
    return (lambda **how: rgp.from_gpytorch(model, name="a", **how)), lambda at: model(torch.tensor(at)).mean.detach()


def botorch_single_task(X, y):
    pytest.importorskip("botorch")
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize

    gp = SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None], input_transform=Normalize(X.shape[1]))
    gp.covar_module.lengthscale = torch.tensor(reach(X.shape[1]) / 4)
    gp.likelihood.noise = (NOISE / y.std(ddof=1)) ** 2
    gp.eval()
    return (
        lambda **how: rgp.from_gpytorch(gp, name="a", **how)
    ), lambda at: gp.posterior(torch.tensor(at)).mean[:, 0].detach()


MAKE = dict(zip(LIBRARIES, (scikit_learn, gpytorch_exact, botorch_single_task), strict=True))


def are_rows(module, X):
    return {tuple(z) for z in module.inducing.tolist()} & {tuple(x) for x in X.tolist()}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("D", "n"), [(1, 23), (2, 41), (4, 35), (6, 29)])
def test_defaults_keep_what_the_model_knows(D, n, library):
    X, y = data(D, n)
    convert, predict = MAKE[library](X, y)
    module = convert()
    assert module.kept > 0.99 * (1 - 1e-6)
    assert not are_rows(module, X)
    at = np.concatenate([X, np.random.default_rng(1).uniform(0, 4, (300, D))])
    off = np.asarray(predict(at)) - module.predict(at)[0]
    assert np.sqrt(np.mean(off**2)) < 0.2 * NOISE
    assert np.abs(off).max() < 0.7 * NOISE
    np.testing.assert_array_equal(module.inducing, convert().inducing)
    assert not np.array_equal(module.inducing, convert(seed=1).inducing)


@pytest.mark.parametrize(("n", "D"), [(30, 1), (90, 1), (60, 2), (120, 2)])
def test_learned_models_are_the_same_between_their_points(n, D):
    """Anywhere: within the noise, whose standard deviation is 0.1, and what f may be."""
    rng = np.random.default_rng(n)
    X = rng.uniform(0, 6, (n, D))
    y = np.sin(X).sum(1) + 0.1 * rng.standard_normal(n)
    gp = GaussianProcessRegressor(ConstantKernel(2.0) * Matern([1.5] * D, nu=2.5) + WhiteKernel(0.01)).fit(X, y)
    module = rgp.from_sklearn(gp)
    at = rng.uniform(0, 6, (400, D))
    expected, sd = gp.predict(at, return_std=True)
    off = np.abs(module.predict(at)[0] - expected)
    assert np.sqrt((off**2).mean()) < 0.02
    assert (off < 0.25 * sd).all()
    assert module.kept > 0.99 * (1 - 1e-6)
    assert len(module.inducing) <= n  # no more points than rows: these cannot be computed from them


@pytest.mark.slow
def test_what_cannot_be_kept_is_said():
    X, _ = data(6, 60)
    gp = GaussianProcessRegressor(Matern([1.0] * 6, nu=2.5) + WhiteKernel(0.01), optimizer=None)
    gp.fit(X, np.sin(X).sum(1))
    with pytest.warns(LittleKeptWarning, match=r"a keeps [\d.]+% of .* at 240 points.*publish=480, or its rows"):
        few = rgp.from_sklearn(gp, name="a")
    many = rgp.from_sklearn(gp, publish=480)
    assert few.kept + 0.05 < many.kept < rgp.from_sklearn(gp, publish=X).kept == pytest.approx(1)


def off_the_rows(module, at):
    """How far from all directions in which the site knows something the values of f at such points lie, 0 to 1.

    A row says something about f(x) alone. So what it says about f(Z) points along k_Z(x), whitened; whatever the site
    knows is in the span of these.
    """
    kernel, Z = module.kernel_spec, torch.tensor(module.inducing)
    L = np.linalg.cholesky(kernel.matrix(Z, Z).numpy())
    said = np.linalg.svd(module.site.Rt.numpy() @ L)
    span = said.Vh[: (1e-8 * said.S[0] < said.S).sum()]
    towards = np.linalg.solve(L, kernel.matrix(Z, torch.tensor(at)).numpy())
    return 1 - ((span @ towards) ** 2).sum(0) / (towards**2).sum(0)


def test_more_points_than_rows_give_rows_away_and_that_is_said():
    X, y = data(4, 30)
    gp = GaussianProcessRegressor(1.3 * RBF([1.5] * 4) + WhiteKernel(0.01), optimizer=None).fit(X, y)
    with pytest.warns(PrivacyWarning, match=r"a has \d+ points for 30 rows: .* can be computed .* publish=15, which"):
        module = rgp.from_sklearn(gp, name="a")
    elsewhere = np.random.default_rng(2).uniform(0, 4, (200, 4))
    assert off_the_rows(module, X).max() < 1e-8 < 1e-4 < off_the_rows(module, elsewhere).min()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = rgp.from_sklearn(gp, name="a", publish=15)
    assert len(few.inducing) == 15
    assert off_the_rows(few, elsewhere).max() < 1e-8  # every place might be a row
    with warnings.catch_warnings():  # who passes rows knows it
        warnings.simplefilter("error")
        rgp.from_sklearn(gp, publish=X)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_number_a_share_and_points_are_what_was_asked_for(library):
    X, y = data(2, 41)
    convert, predict = MAKE[library](X, y)
    number, share = convert(publish=9), convert(publish=0.7)
    assert len(number.inducing) == 9
    assert not are_rows(number, X) | are_rows(share, X)
    assert 0.7 * (1 - 1e-6) <= share.kept < 0.9
    assert len(share.inducing) < len(X)
    Z = np.random.default_rng(3).uniform(0, 4, (7, 2))
    np.testing.assert_allclose(convert(publish=Z).inducing, Z, rtol=1e-12)
    full = convert(publish=X)
    at = np.random.default_rng(4).uniform(0, 4, (50, 2))
    np.testing.assert_allclose(full.predict(at)[0], predict(at), atol=1e-5)


def test_nearly_no_noise():
    """With scikit-learn's default alpha."""
    X = np.random.default_rng(7).uniform(0, 4, (25, 1))
    gp = GaussianProcessRegressor(RBF(1.1), optimizer=None).fit(X, np.sin(X[:, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = rgp.from_sklearn(gp)
    at = np.linspace(0.2, 3.8, 50)[:, None]
    np.testing.assert_allclose(module.predict(at)[0], gp.predict(at), atol=1e-3)
