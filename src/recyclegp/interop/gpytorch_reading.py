"""What is read of GPyTorch's and BoTorch's models, whichever kind they are: prior, likelihood, units, q(u)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gpytorch
import torch
from gpytorch.kernels import IndexKernel, LCMKernel, MultitaskKernel
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    FixedNoiseGaussianLikelihood,
    GaussianLikelihood,
    StudentTLikelihood,
)
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    NaturalVariationalDistribution,
    TrilNaturalVariationalDistribution,
    UnwhitenedVariationalStrategy,
    VariationalStrategy,
)
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from ..errors import RecycleGPError
from ..export.gpytorch_likelihoods import LogisticLikelihood, PoissonLikelihood
from ..kernels import Kernel
from ..kernels.gpytorch_objects import from_gpytorch as kernel_from_gpytorch
from ..kernels.units import stretched
from ..likelihoods import Bernoulli, BernoulliProbit, Gaussian, Likelihood, Poisson, StudentT
from ..models.module import Module

STRATEGIES = (VariationalStrategy, UnwhitenedVariationalStrategy)
DISTRIBUTIONS = (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    NaturalVariationalDistribution,
    TrilNaturalVariationalDistribution,
)
WITHOUT_PARAMETERS: dict[type[Any], Likelihood] = {
    BernoulliLikelihood: BernoulliProbit(),
    LogisticLikelihood: Bernoulli(),
    PoissonLikelihood: Poisson(),
}
COUPLING = (MultitaskKernel, IndexKernel, LCMKernel)  # kernels of several outputs together
AGREEMENT = {torch.float64: 1e-8, torch.float32: 1e-4}  # of what was read with the model, relative


class Units(NamedTuple):
    """The model sees x' = scale∘x + shift and speaks of y' where y = y_scale·y' + y_shift."""

    scale: Tensor  # (D,)
    shift: Tensor  # (D,)
    y_scale: float
    y_shift: float


class Prior(NamedTuple):
    """f ~ GP(mean, kernel), the kernel of inputs in the user's units."""

    kernel: Kernel
    mean: float


def check_strategy(strategy: Any) -> Any:
    """Its variational distribution, if both can be read."""
    if type(strategy) not in STRATEGIES:
        raise RecycleGPError(
            f"variational strategy {type(strategy).__name__} cannot be represented in a module; use one of "
            f"{', '.join(s.__name__ for s in STRATEGIES)}"
        )
    distribution = strategy._variational_distribution
    if type(distribution) not in DISTRIBUTIONS:
        raise RecycleGPError(
            f"variational distribution {type(distribution).__name__} cannot be represented in a module, which needs "
            f"a covariance; use one of {', '.join(d.__name__ for d in DISTRIBUTIONS)}"
        )
    if not strategy.variational_params_initialized.item() or not getattr(strategy, "updated_strategy", True):
        raise RecycleGPError("model has never been called, so GPyTorch has not set its q(u) yet; train it, or call it")
    return distribution


def moments(distribution: Any) -> tuple[Tensor, Tensor]:
    """Mean and covariance as GPyTorch computes them, in its precision; what follows is in ours."""
    try:
        q = distribution()
        root = q.lazy_covariance_matrix.root_decomposition().root.to_dense().double().cpu()
    except RuntimeError as failure:  # what GPyTorch raises for NaN, and for a matrix that is not positive definite
        raise RecycleGPError(f"q(u) has no covariance ({failure}); the model's training had diverged") from None
    mean = q.mean.double().cpu()
    if not bool(torch.isfinite(mean).all() and torch.isfinite(root).all()):
        raise RecycleGPError("q(u) holds NaN or infinite numbers; the model's training had diverged")
    return mean, root @ root.mT


def jitter(strategy: Any, covariance: Any) -> float:
    """What GPyTorch really adds to the diagonal of K_ZZ: `jitter_val`, and more where that was not enough."""
    wanted = float(strategy.jitter_val)
    K = covariance.add_jitter(wanted).to_dense()
    if type(strategy) is VariationalStrategy:  # which factors in float64 whatever its model is in
        K = K.double()
    L = psd_safe_cholesky(K).double()
    more = float((L.square().sum(-1) - K.double().diagonal()).mean())
    rounding = 100 * torch.finfo(K.dtype).eps * float(K.diagonal().mean())
    return wanted + more if more > max(rounding, 1e-3 * wanted) else wanted


def units(model: Any, dimension: int) -> Units:
    x, y = getattr(model, "input_transform", None), getattr(model, "outcome_transform", None)
    if x is None and y is None:
        return Units(torch.ones(dimension, dtype=torch.float64), torch.zeros(dimension, dtype=torch.float64), 1.0, 0.0)
    from . import botorch_transforms  # it is there, or the model would not be

    return Units(*botorch_transforms.of_inputs(x, dimension), *botorch_transforms.of_outputs(y))


def theirs_to_ours(points: Tensor, units: Units) -> Tensor:
    return (points.double().cpu() - units.shift) / units.scale


def in_their_units(made: Module, units: Units) -> Module:
    if (units.y_scale, units.y_shift) == (1.0, 0.0):
        return made  # the kernel as it is, too: a change of units would give it an amplitude
    return made.transform(output_scale=units.y_scale, output_shift=units.y_shift)


def modules_of_prior(model: Any) -> tuple[Any, Any]:
    """Its mean and its kernel, of kinds that a module can hold."""
    mean, kernel = getattr(model, "mean_module", None), getattr(model, "covar_module", None)
    if mean is None or kernel is None:
        raise RecycleGPError(f"model {type(model).__name__} has no mean_module and covar_module to read its prior from")
    if type(mean) not in (ConstantMean, ZeroMean):
        raise RecycleGPError(
            f"mean {type(mean).__name__} cannot be represented in a module; use ConstantMean or ZeroMean"
        )
    for part in kernel.modules():
        if isinstance(part, COUPLING):
            raise RecycleGPError(
                f"kernel {type(part).__name__} correlates outputs, which a module cannot hold; use a kernel and a "
                "mean with batch_shape=[C], for outputs that are independent: merge(outputs=…) can correlate them"
            )
    return mean, kernel


def prior(model: Any, units: Units) -> Prior:
    mean, kernel = modules_of_prior(model)
    constant = constants(mean)
    if constant.numel() != 1:
        raise RecycleGPError(f"mean has batch shape {tuple(constant.shape)}; convert one model for each of the batch")
    return prior_of(float(constant), kernel, units)


def constants(mean: Any) -> Tensor:
    """The number that a mean is, or those of a batch."""
    found: Tensor = mean.constant.detach() if type(mean) is ConstantMean else torch.zeros(tuple(mean.batch_shape))
    return found


def prior_of(mean: float, kernel: Any, units: Units) -> Prior:
    ours = kernel_from_gpytorch(kernel, len(units.scale))
    if bool((units.scale != 1).any()) or bool((units.shift != 0).any()):
        ours = stretched(ours, units.scale, units.shift)
    return Prior(ours, mean)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """With the flag alone down: `eval()` would clear caches, and in BoTorch replace the training inputs."""
    before, model.training = model.training, False
    try:
        yield
    finally:
        model.training = before


def ask(model: Any, points: Tensor) -> gpytorch.distributions.MultivariateNormal:
    """The model's own prior at points in its own units."""
    with evaluating(model):
        return model.forward(points)


def ask_one(model: Any, points: Tensor) -> gpytorch.distributions.MultivariateNormal:
    """Of a model of one function."""
    found = ask(model, points)
    if type(found) is not gpytorch.distributions.MultivariateNormal:
        raise RecycleGPError(
            f"model {type(model).__name__} has a {type(found).__name__} prior; a module has one output, with a "
            "MultivariateNormal"
        )
    return found


def compare(model: Any, mean: Tensor, covariance: Tensor, ours: Prior, X: Tensor) -> None:
    """A forward that does more than mean_module and covar_module (a network, say) must not pass unnoticed."""
    K = ours.kernel.matrix(X, X)
    agreement = AGREEMENT.get(covariance.dtype, 1e-2)
    off = float((K - covariance.double().cpu()).abs().max())
    tilt = float((mean.double().cpu() - ours.mean).abs().max())
    if off > agreement * float(K.diagonal().max()) or tilt > agreement * max(1.0, abs(ours.mean)):
        raise RecycleGPError(
            f"model {type(model).__name__}: its forward does more than mean_module(x) and covar_module(x), which is "
            f"all a module can hold (covariances differ by {off:.2g}, means by {tilt:.2g})"
        )


def read_likelihood(likelihood: Any) -> Likelihood:
    kind = type(likelihood)
    if likelihood is None:
        raise RecycleGPError("likelihood is None; pass the likelihood the model was trained with")
    if kind is GaussianLikelihood:
        return Gaussian(one(likelihood.noise, "noise"))
    if kind is FixedNoiseGaussianLikelihood:  # a new y has their mean noise, as in BoTorch
        if likelihood.noise.ndim != 1:
            raise RecycleGPError(f"noise has shape {tuple(likelihood.noise.shape)}; convert one model for each output")
        return Gaussian(float(likelihood.noise.detach().double().mean()))
    if kind is StudentTLikelihood:
        return StudentT(one(likelihood.noise, "noise"), one(likelihood.deg_free, "deg_free"))
    if kind not in WITHOUT_PARAMETERS:
        raise RecycleGPError(
            f"likelihood {kind.__name__} cannot be represented in a module; use GaussianLikelihood, "
            "FixedNoiseGaussianLikelihood, BernoulliLikelihood (probit) or StudentTLikelihood"
        )
    return WITHOUT_PARAMETERS[kind]


def one(value: Tensor, what: str) -> float:
    if value.numel() != 1:
        raise RecycleGPError(f"likelihood: {what} has shape {tuple(value.shape)}; convert one model for each output")
    return float(value.detach())
