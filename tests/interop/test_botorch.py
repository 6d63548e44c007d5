"""BoTorch's models as modules, in the user's units whatever transforms BoTorch put between."""

import warnings

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_gpytorch import KERNELS, STRATEGIES, numbers
from recyclegp.export.gpytorch_likelihoods import LogisticLikelihood, PoissonLikelihood

botorch = pytest.importorskip("botorch")

from botorch.models import ModelListGP, SingleTaskGP, SingleTaskVariationalGP  # noqa: E402
from botorch.models.transforms.input import (  # noqa: E402
    AffineInputTransform,
    ChainedInputTransform,
    InputStandardize,
    Log10,
    Normalize,
    Round,
    Warp,
)
from botorch.models.transforms.outcome import Bilog, ChainedOutcomeTransform, Log, Standardize  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Data .*is not:botorch.exceptions.warnings.InputDataWarning"),
    pytest.mark.filterwarnings("ignore:The model inputs are of type:botorch.exceptions.warnings.InputDataWarning"),
    pytest.mark.filterwarnings("ignore:Using an .* transform with:botorch.exceptions.warnings.UserInputWarning"),
]

LOW, HIGH = torch.tensor([2.0, -300.0], dtype=torch.float64), torch.tensor([9.0, 500.0], dtype=torch.float64)
X = LOW + (HIGH - LOW) * numbers(25, 2, seed=0)
Y = 40 + 6 * torch.sin(X[:, :1]) + 0.01 * X[:, 1:] + numbers(25, 1, seed=1)
GRID = LOW + (HIGH - LOW) * (1.2 * numbers(30, 2, seed=2) - 0.1)


def normalised(**options):
    return Normalize(2, bounds=torch.stack([LOW, HIGH]), **options)


INPUTS = {
    "none": lambda: None,
    "normalize": lambda: Normalize(2),
    "bounds": normalised,
    "centre": lambda: Normalize(2, center=0.0),
    "one column": lambda: Normalize(2, indices=[1]),
    "standardize": lambda: InputStandardize(2),
    "chained": lambda: ChainedInputTransform(a=Normalize(2, indices=[0]), b=InputStandardize(2)),
    "reversed": lambda: AffineInputTransform(
        2,
        coefficient=torch.tensor([0.2, -0.003], dtype=torch.float64),
        offset=torch.tensor([0.4, 0.1], dtype=torch.float64),
        reverse=True,
    ),
}
OUTPUTS = {
    "none": lambda: None,
    "standardize": lambda: Standardize(1),
    "twice": lambda: ChainedOutcomeTransform(a=Standardize(1), b=Standardize(1)),
}


def generic(model, seed=3):
    """Hyperparameters that no default has."""
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(0.2 + 0.8 * numbers(*parameter.shape, seed=seed + i))
    return model


def posterior(model, points):
    with torch.no_grad():
        p = model.posterior(points)
        return p.mean[:, 0].double().numpy(), p.variance[:, 0].double().numpy()


def check_close(ours, theirs, tolerance, scale=1.0):
    for a, b, unit in zip(ours, theirs, (scale, scale**2), strict=True):
        np.testing.assert_allclose(a / unit, b / unit, rtol=0, atol=tolerance)


# --- exact --------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_single_task_gp(inputs, outputs, training):
    model = generic(SingleTaskGP(X, Y, input_transform=INPUTS[inputs](), outcome_transform=OUTPUTS[outputs]()))
    model.train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    module = rgp.from_gpytorch(model, name="w")
    assert model.training is training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    points = torch.tensor(module.inducing)
    check_close(module.predict(module.inducing), posterior(model, points), 1e-6, float(Y.std()))
    with torch.no_grad():
        noisy = model.posterior(points, observation_noise=True).variance[:, 0]
    np.testing.assert_allclose(module.predict_y(module.inducing)[1], noisy, rtol=1e-6)
    assert module.rows == 25


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("inputs", ["bounds", "reversed"])
def test_every_kernel_under_a_change_of_units(inputs, kernel):
    """Lengths that were one for both columns become two, and a linear kernel gets a centre."""
    model = SingleTaskGP(X, Y, covar_module=KERNELS[kernel](), input_transform=INPUTS[inputs]())
    module = rgp.from_gpytorch(model, publish=X)
    check_close(module.predict(GRID.numpy()), posterior(model, GRID), 1e-6, float(Y.std()))


def test_single_task_gp_as_it_comes_and_fitted():
    """The defaults, priors and all, after BoTorch's own fit; published at every row it is the whole model."""
    model = SingleTaskGP(X, Y, input_transform=Normalize(2))
    botorch.fit.fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
    check_close(rgp.from_gpytorch(model, publish=X).predict(GRID.numpy()), posterior(model, GRID), 1e-5, float(Y.std()))
    module = rgp.from_gpytorch(model, model.likelihood)
    check_close(module.predict(module.inducing), posterior(model, torch.tensor(module.inducing)), 1e-6, float(Y.std()))


def test_single_task_gp_with_known_noise():
    variances = 0.1 + 3 * numbers(25, 1, seed=8)
    model = generic(SingleTaskGP(X, Y, variances, input_transform=normalised()))
    module = rgp.from_gpytorch(model)
    points = torch.tensor(module.inducing)
    check_close(module.predict(module.inducing), posterior(model, points), 1e-6, float(Y.std()))
    assert module.noise == pytest.approx(float(variances.mean()))


def test_single_task_gp_in_float32():
    model = generic(SingleTaskGP(X.float(), Y.float(), input_transform=Normalize(2)))
    module = rgp.from_gpytorch(model)
    points = torch.tensor(module.inducing).float()
    check_close(module.predict(points.double().numpy()), posterior(model, points), 1e-3, float(Y.std()))


# --- sparse -------------------------------------------------------------------------------------


def sparse(inputs="normalize", outputs="standardize", strategy="whitened", likelihood=None, dtype=torch.float64):
    made = SingleTaskVariationalGP(
        X.to(dtype),
        Y.to(dtype),
        likelihood=likelihood,
        inducing_points=9,
        variational_strategy=STRATEGIES[strategy],
        input_transform=INPUTS[inputs](),
        outcome_transform=OUTPUTS[outputs](),
    ).eval()
    inner = made.model
    with torch.no_grad():
        inner.covar_module.lengthscale = torch.tensor([[0.4, 0.9]], dtype=dtype)
        inner.mean_module.constant = 0.3
        prior = inner.forward(inner.variational_strategy.inducing_points)
        K = prior.covariance_matrix.double() + inner.variational_strategy.jitter_val * torch.eye(9, dtype=torch.float64)
        L = torch.linalg.cholesky(K) if strategy == "unwhitened" else torch.eye(9, dtype=torch.float64)
        A = 3 * numbers(9, 9, seed=5) - 1.5
        S = L @ torch.linalg.inv(torch.eye(9, dtype=torch.float64) + A @ A.T) @ L.T
        q = inner.variational_strategy._variational_distribution
        q.variational_mean.copy_(L @ (2 * numbers(9, seed=6) - 1) + (0.3 if strategy == "unwhitened" else 0.0))
        q.chol_variational_covar.copy_(torch.linalg.cholesky(S))
        inner.variational_strategy.variational_params_initialized.fill_(1)
    return made


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("outputs", ["none", "standardize"])
@pytest.mark.parametrize("inputs", INPUTS)
def test_single_task_variational_gp(inputs, outputs, strategy):
    model = sparse(inputs, outputs, strategy)
    module = rgp.from_gpytorch(model, model.likelihood, name="w")
    assert module.rows == 25  # it knows them
    mean, variance = posterior(model, GRID)
    scale = float(Y.std()) if outputs == "standardize" else 1.0
    added = 1e-6 * scale**2 if strategy == "whitened" else 0.0  # GPyTorch's jitter, at each test point
    check_close(module.predict(GRID.numpy()), (mean, variance - added), 1e-8, scale)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("likelihood", "name"),
    [
        (gpytorch.likelihoods.BernoulliLikelihood, "bernoulli-probit"),
        (gpytorch.likelihoods.StudentTLikelihood, "student-t"),
        (LogisticLikelihood, "bernoulli"),
        (PoissonLikelihood, "poisson"),
    ],
)
def test_single_task_variational_gp_of_other_data(likelihood, name, strategy):
    """Classes and counts have no units to standardise; f is compared."""
    model = sparse("normalize", "none", strategy, likelihood().double())
    module = rgp.from_gpytorch(model, name="w")
    assert module.likelihood == name
    mean, variance = posterior(model, GRID)
    check_close(module.predict(GRID.numpy()), (mean, variance - 1e-6 * (strategy == "whitened")), 1e-8, 1.0)


def test_single_task_variational_gp_in_float32():
    model = sparse(dtype=torch.float32)
    module = rgp.from_gpytorch(model)
    check_close(module.predict(GRID.numpy()), posterior(model, GRID.float()), 1e-3, float(Y.std()))


def test_its_inner_model_is_in_its_own_units():
    model = sparse()
    inside = rgp.from_gpytorch(model.model, model.likelihood)
    assert np.abs(inside.inducing).max() <= 1.5
    outside = rgp.from_gpytorch(model)
    unit = (GRID - X.min(0).values) / (X.max(0).values - X.min(0).values)
    mean = outside.predict(GRID.numpy())[0]
    np.testing.assert_allclose(inside.predict(unit.numpy())[0] * float(Y.std()) + float(Y.mean()), mean, atol=1e-8)


# --- refusals -----------------------------------------------------------------------------------


def bernoulli_standardised():
    return sparse(likelihood=gpytorch.likelihoods.BernoulliLikelihood())


def off_in_evaluation():
    return SingleTaskGP(X, Y, input_transform=Normalize(2, transform_on_eval=False))


def with_input(transform):
    return lambda: SingleTaskGP(X.abs() + 1, Y, input_transform=transform())


def with_output(transform):
    return lambda: SingleTaskGP(X, Y.abs() + 1, outcome_transform=transform())


REFUSED = {
    "Warp": with_input(lambda: Warp(d=2, indices=[0], bounds=torch.stack([LOW - 500, HIGH + 500]))),
    "Log10": with_input(lambda: Log10(indices=[0])),
    "Round": with_input(lambda: Round(integer_indices=[0])),
    "input transform Round": with_input(lambda: ChainedInputTransform(a=Normalize(2), b=Round(integer_indices=[0]))),
    "outcome transform Log": with_output(Log),
    "outcome transform Bilog": with_output(Bilog),
    "has 2 outputs": lambda: SingleTaskGP(X, torch.cat([Y, Y**2], dim=1)),
    "switched off": off_in_evaluation,
    "likelihood 'bernoulli-probit', whose f has fixed units": bernoulli_standardised,
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_by_name(message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.from_gpytorch(REFUSED[message]())


def test_a_list_of_models_is_converted_one_by_one():
    models = ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, Y**2))
    with pytest.raises(TypeError, match=r"model ModelListGP cannot be converted.*one at a time"):
        rgp.from_gpytorch(models)


# --- merging ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_botorchs_model_and_ours_merge():
    """One function of two columns, each laboratory in half of its range, each with its own library."""

    def truth(points):
        return 40 + 6 * np.sin(points[:, 0]) + 0.01 * points[:, 1]

    rng = np.random.default_rng(0)
    a = rng.uniform([2, -300], [6, 500], (40, 2))
    b = rng.uniform([5, -300], [9, 500], (60, 2))
    y_a, y_b = (truth(p) + 0.3 * rng.normal(size=len(p)) for p in (a, b))
    model = SingleTaskGP(torch.tensor(a), torch.tensor(y_a)[:, None], input_transform=Normalize(2))
    botorch.fit.fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
    left, right = rgp.from_gpytorch(model, name="left"), rgp.fit(b, y_b, name="right", kernel="rbf")
    assert left.kernel_spec.structure == right.kernel_spec.structure  # Standardize gave BoTorch's kernel its amplitude
    merged = rgp.merge([left, right])
    test = rng.uniform([2, -300], [9, 500], (200, 2))

    def rmse(m):
        return float(np.sqrt(np.mean((m.predict(test)[0] - truth(test)) ** 2)))

    assert rmse(merged) < 0.5 * min(rmse(left), rmse(right))


def test_untrained_variational_models_say_so():
    """BoTorch leaves q(u) to the first call; before it there is nothing to convert."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskVariationalGP(X, Y, inducing_points=5)
    with pytest.raises(rgp.RecycleGPError, match="never been called"):
        rgp.from_gpytorch(model)
