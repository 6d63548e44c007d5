"""What of GPyTorch cannot be a module is refused by name."""

import gpytorch
import pytest
import torch

import recyclegp as rgp
from cases_gpytorch import LIKELIHOODS, exact, numbers, sparse


def _with(**changes):
    model = sparse()
    for name, value in changes.items():
        setattr(model, name, value)
    return model


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2).double()

    def forward(self, x):
        return self.layer(x)


def _deep():
    class Deep(type(sparse())):
        def forward(self, x):
            return super().forward(self.network(x))

    model = sparse()
    model.__class__ = Deep
    with torch.random.fork_rng():
        model.network = Network()
    return model


def _strategy(cls, **options):
    from gpytorch.variational import CholeskyVariationalDistribution

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            super().__init__(cls(self, 4 * numbers(6, 2, seed=0), CholeskyVariationalDistribution(6), **options))

    return Model()


def _delta():
    model = sparse()
    model.variational_strategy._variational_distribution = gpytorch.variational.DeltaVariationalDistribution(11)
    return model


def _uncalled():
    model = sparse()
    model.variational_strategy.variational_params_initialized.fill_(0)
    return model


def _twice():
    model = sparse()
    with torch.no_grad():
        model.variational_strategy.inducing_points[1] = model.variational_strategy.inducing_points[0]
    return model


def _diverged(distribution, parameter, value):
    model = sparse(distribution=distribution)
    with torch.no_grad():
        getattr(model.variational_strategy._variational_distribution, parameter).fill_(value)
    return model


def _several_tasks():
    X_ = numbers(9, 2, seed=1)
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)
    kernel = gpytorch.kernels.MultitaskKernel(gpytorch.kernels.RBFKernel(), num_tasks=2)
    model = exact()
    model.set_train_data(X_, numbers(9, 2, seed=2), strict=False)
    model.likelihood, model.covar_module = likelihood, kernel
    return model


GAUSSIAN = LIKELIHOODS["gaussian"]
REFUSED = {
    "linear mean": (lambda: _with(mean_module=gpytorch.means.LinearMean(2)), GAUSSIAN, "mean LinearMean"),
    "spectral kernel": (
        lambda: _with(covar_module=gpytorch.kernels.CosineKernel()),
        GAUSSIAN,
        "kernel CosineKernel cannot be represented",
    ),
    "batch of kernels": (
        lambda: _with(covar_module=gpytorch.kernels.RBFKernel(batch_shape=torch.Size([3]))),
        GAUSSIAN,
        "batch_shape",
    ),
    "batch of means": (
        lambda: _with(mean_module=gpytorch.means.ConstantMean(batch_shape=torch.Size([2]))),
        GAUSSIAN,
        "mean has batch shape",
    ),
    "no covar_module": (lambda: _with(covar_module=None), GAUSSIAN, "no mean_module and covar_module"),
    "delta": (_delta, GAUSSIAN, "variational distribution DeltaVariationalDistribution"),
    "ciq": (
        lambda: _strategy(gpytorch.variational.CiqVariationalStrategy),
        GAUSSIAN,
        "variational strategy CiqVariationalStrategy",
    ),
    "batch decoupled": (
        lambda: _strategy(gpytorch.variational.BatchDecoupledVariationalStrategy),
        GAUSSIAN,
        "variational strategy BatchDecoupledVariationalStrategy",
    ),
    "never called": (_uncalled, GAUSSIAN, "never been called"),
    "coinciding points": (_twice, GAUSSIAN, "inducing points coincide"),
    "network in front": (_deep, GAUSSIAN, "forward does more than mean_module"),
    "diverged": (lambda: _diverged("cholesky", "variational_mean", torch.nan), GAUSSIAN, "training had diverged"),
    "diverged S": (lambda: _diverged("natural", "natural_mat", torch.nan), GAUSSIAN, "training had diverged"),
    "indefinite S": (lambda: _diverged("natural", "natural_mat", 1.0), GAUSSIAN, "training had diverged"),
    "beta": (sparse, gpytorch.likelihoods.BetaLikelihood, "likelihood BetaLikelihood cannot"),
    "laplace": (sparse, gpytorch.likelihoods.LaplaceLikelihood, "likelihood LaplaceLikelihood cannot"),
    "softmax": (
        sparse,
        lambda: gpytorch.likelihoods.SoftmaxLikelihood(num_features=2, num_classes=2, mixing_weights=None),
        "likelihood SoftmaxLikelihood cannot",
    ),
    "no likelihood": (sparse, lambda: None, "pass the likelihood"),
    "several tasks": (_several_tasks, lambda: None, "kernel MultitaskKernel correlates outputs"),
    "another likelihood": (exact, GAUSSIAN, "not the one the model was conditioned with"),
}


@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case):
    model, likelihood, message = REFUSED[case]
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.from_gpytorch(model(), likelihood())


def test_other_refusals():
    with pytest.raises(TypeError, match="model Linear cannot be converted"):
        rgp.from_gpytorch(torch.nn.Linear(2, 2), GAUSSIAN())
    with pytest.raises(rgp.RecycleGPError, match="rows=0"):
        rgp.from_gpytorch(sparse(), GAUSSIAN(), rows=0)
    with pytest.raises(rgp.RecycleGPError, match="name"):
        rgp.from_gpytorch(sparse(), GAUSSIAN(), name="")
    model = exact()
    model.set_train_data(targets=torch.full((30,), torch.nan, dtype=torch.float64), strict=False)
    with pytest.raises(rgp.RecycleGPError, match="train_targets holds 30 NaN"):
        rgp.from_gpytorch(model)
