"""What is read of GPyTorch's and BoTorch's models, whichever kind they are: priors, units, q(u).

Function c of a batch has the c-th kernel, mean and q(u) of it; a model of one function is a batch of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import gpytorch
import torch
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.kernels import IndexKernel, LCMKernel, MultitaskKernel
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ExactGP
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    IndependentMultitaskVariationalStrategy,
    LMCVariationalStrategy,
    MeanFieldVariationalDistribution,
    NaturalVariationalDistribution,
    TrilNaturalVariationalDistribution,
    UnwhitenedVariationalStrategy,
    VariationalStrategy,
)
from linear_operator import to_linear_operator
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.gpytorch_objects import from_gpytorch as kernel_from_gpytorch
from ..kernels.units import InputUnits, stretched
from ..models.module import Module

STRATEGIES = (VariationalStrategy, UnwhitenedVariationalStrategy)
DISTRIBUTIONS = (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    NaturalVariationalDistribution,
    TrilNaturalVariationalDistribution,
)
COUPLING = (MultitaskKernel, IndexKernel, LCMKernel)  # kernels of several outputs together
AGREEMENT = {torch.float64: 1e-8, torch.float32: 1e-4}  # of what was read with the model, relative


class Units(NamedTuple):
    """What BoTorch's transforms do: the model sees other inputs, and speaks of y' where y = y_scale·y' + y_shift."""

    inputs: InputUnits
    y_scale: float = 1.0
    y_shift: float = 0.0


class Prior(NamedTuple):
    """f ~ GP(mean, kernel), the kernel of inputs in the user's units."""

    kernel: Kernel
    mean: float


def has_several_functions(model: Any) -> bool:
    """Is it a batch of Gaussian processes?"""
    if isinstance(model, ExactGP):
        return model.train_targets is not None and model.train_targets.ndim == 2
    strategy = model.variational_strategy
    if isinstance(strategy, (IndependentMultitaskVariationalStrategy, LMCVariationalStrategy)):
        return True
    q = getattr(strategy, "_variational_distribution", None)
    return len(getattr(q, "batch_shape", ())) > 0 or getattr(strategy, "inducing_points", torch.zeros(1, 1)).ndim > 2


def strategy_of(model: Any) -> Any:
    """The variational strategy behind that of a multitask model, if it and its distribution can be read."""
    outer = model.variational_strategy
    if isinstance(outer, LMCVariationalStrategy):
        raise RecycleGPError(
            "variational strategy LMCVariationalStrategy mixes its functions into outputs, which a module cannot hold; "
            "use IndependentMultitaskVariationalStrategy"
        )
    strategy = getattr(outer, "base_variational_strategy", outer)
    if type(strategy) not in STRATEGIES:
        raise RecycleGPError(
            f"variational strategy {type(strategy).__name__} cannot be represented in a module; use one of "
            f"{', '.join(s.__name__ for s in STRATEGIES)}"
        )
    q = strategy._variational_distribution
    if type(q) not in DISTRIBUTIONS:
        raise RecycleGPError(
            f"variational distribution {type(q).__name__} cannot be represented in a module, which needs "
            f"a covariance; use one of {', '.join(d.__name__ for d in DISTRIBUTIONS)}"
        )
    if not strategy.variational_params_initialized.item() or not getattr(strategy, "updated_strategy", True):
        raise RecycleGPError("model has never been called, so GPyTorch has not set its q(u) yet; train it, or call it")
    tasks = getattr(outer, "num_tasks", None)
    if len(q.batch_shape) > 1 or tasks not in (None, *q.batch_shape):
        raise RecycleGPError(
            f"q(u) has batch shape {tuple(q.batch_shape)}{'' if tasks is None else f' for {tasks} tasks'}; a module "
            "holds one function for each output: use batch_shape=[C]"
        )
    return strategy


def moments(distribution: Any) -> tuple[Tensor, Tensor]:
    """Means (C, M) and covariances (C, M, M) as GPyTorch computes them, in its precision; what follows is in ours."""
    try:
        q = distribution()
        root = q.lazy_covariance_matrix.root_decomposition().root.to_dense().double().cpu()
    except RuntimeError as failure:  # what GPyTorch raises for NaN, and for a matrix that is not positive definite
        raise RecycleGPError(f"q(u) has no covariance ({failure}); the model's training had diverged") from None
    mean = q.mean.double().cpu()
    if not bool(torch.isfinite(mean).all() and torch.isfinite(root).all()):
        raise RecycleGPError("q(u) holds NaN or infinite numbers; the model's training had diverged")
    S = root @ root.mT
    return mean.reshape(-1, mean.shape[-1]), S.reshape(-1, *S.shape[-2:])


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
        return Units(InputUnits.same(dimension))
    from . import botorch_transforms  # it is there, or the model would not be

    return Units(botorch_transforms.of_inputs(x, dimension), *botorch_transforms.of_outputs(y))


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


def priors(model: Any, C: int, units: Units) -> list[Prior]:
    """Of every function; the kernels are of inputs in the user's units."""
    mean, kernel = modules_of_prior(model)
    constant = mean.constant.detach() if type(mean) is ConstantMean else torch.zeros(tuple(mean.batch_shape))
    if constant.numel() not in (0, 1, C):
        raise RecycleGPError(f"mean has batch shape {tuple(mean.batch_shape)} for {C} functions; give it [{C}]")
    level = constant.double().flatten().expand(C) if constant.numel() else torch.zeros(C)
    kernels = [kernel_from_gpytorch(_one_of(kernel, c, C), len(units.inputs.scale)) for c in range(C)]
    if bool((units.inputs.scale != 1).any()) or bool((units.inputs.shift != 0).any()):
        kernels = [stretched(k, *units.inputs) for k in kernels]
    return [Prior(k, float(m)) for k, m in zip(kernels, level, strict=True)]


def _one_of(kernel: Any, c: int, C: int) -> Any:
    """The kernel of function c: where a part of it is a batch, that part's c-th."""
    made = deepcopy(kernel)
    for part in made.modules():
        own: tuple[int, ...] = tuple(getattr(part, "_batch_shape", ()))
        if not isinstance(part, gpytorch.kernels.Kernel) or not len(own):
            continue
        if own not in ((C,), (1,)):
            raise RecycleGPError(f"kernel {type(part).__name__} has batch_shape {own} for {C} functions; give it [{C}]")
        for parameter in part._parameters.values():
            if parameter is not None:
                parameter.data = parameter.data[c if own[0] == C else 0]
        part.batch_shape = torch.Size([])
    return made


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """With the flag alone down: `eval()` would clear caches, and in BoTorch replace the training inputs."""
    before, model.training = model.training, False
    try:
        yield
    finally:
        model.training = before


def ask(model: Any, points: Tensor) -> MultivariateNormal:
    """The model's own prior at points in its own units."""
    with evaluating(model):
        return model.forward(points)


class Asked(NamedTuple):
    """The model's own prior of one function."""

    mean: Tensor  # (n,)
    covariance: Any  # (n, n), lazy


def each(model: Any, prior: Any, C: int) -> list[Asked]:
    """What the model has said of every function."""
    if type(prior) is MultivariateNormal:
        n = prior.mean.shape[-1]
        mean, K = prior.mean.expand(C, n), prior.lazy_covariance_matrix
        covariance = K.expand(C, n, n) if K.ndim > 2 else [K] * C
        return [Asked(mean[c], covariance[c]) for c in range(C)]
    if not isinstance(prior, MultitaskMultivariateNormal):
        raise RecycleGPError(f"model {type(model).__name__} has a {type(prior).__name__} prior, not a normal one")
    n, tasks = prior.event_shape
    if tasks != C:
        raise RecycleGPError(f"model {type(model).__name__} has a prior of {tasks} outputs for {C} of data")
    K = prior.covariance_matrix
    K = K.reshape(n, C, n, C).permute(1, 3, 0, 2) if prior._interleaved else K.reshape(C, n, C, n).permute(0, 2, 1, 3)
    if bool((K[~torch.eye(C, dtype=torch.bool)] != 0).any()):
        raise RecycleGPError(
            f"model {type(model).__name__}: its outputs are correlated a priori, which a module cannot hold; use a "
            "kernel and a mean with batch_shape=[C]"
        )
    return [Asked(prior.mean[:, c], to_linear_operator(K[c, c])) for c in range(C)]


def compare(model: Any, asked: Asked, ours: Prior, X: Tensor) -> None:
    """A forward that does more than mean_module and covar_module (a network, say) must not pass unnoticed."""
    K = ours.kernel.matrix(X, X)
    covariance = asked.covariance.to_dense()
    agreement = AGREEMENT.get(covariance.dtype, 1e-2)
    off = float((K - covariance.double().cpu()).abs().max())
    tilt = float((asked.mean.double().cpu() - ours.mean).abs().max())
    if off > agreement * float(K.diagonal().max()) or tilt > agreement * max(1.0, abs(ours.mean)):
        raise RecycleGPError(
            f"model {type(model).__name__}: its forward does more than mean_module(x) and covar_module(x), which is "
            f"all a module can hold (covariances differ by {off:.2g}, means by {tilt:.2g})"
        )
