"""GPyTorch's and BoTorch's fitted models as modules.

A sparse model already is a q(u): its site follows from the variational parameters, with the very jitter
GPyTorch put on K_ZZ. An exact model has only rows: they are marginalised exactly to a few points.
What cannot be represented is refused by name, and what was read is compared with what the model's own
`forward` says before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gpytorch
import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    FixedNoiseGaussianLikelihood,
    GaussianLikelihood,
    StudentTLikelihood,
)
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ApproximateGP, ExactGP
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

from .. import arrays
from ..errors import RecycleGPError
from ..export.gpytorch_likelihoods import LogisticLikelihood, PoissonLikelihood
from ..kernels import Kernel
from ..kernels.gpytorch_objects import from_gpytorch as kernel_from_gpytorch
from ..kernels.units import stretched
from ..likelihoods import Bernoulli, BernoulliProbit, Gaussian, Likelihood, Poisson, StudentT
from ..models.module import Module
from ..models.naming import name_or_new
from . import sources
from .sources import Request, Source

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


def from_gpytorch(
    model: Any,
    likelihood: Any = None,
    *,
    name: str | None = None,
    rows: int | None = None,
    publish: Any = "auto",
    seed: int = 0,
) -> Module:
    """A fitted GPyTorch or BoTorch model as a module, ready to be saved, sent and merged.

    A sparse module predicts what the model predicted, an exact one at the points where it is published. The
    model is read, never changed. Where its covariance is wider than its prior, as in a fit that had not
    converged, a warning says so.

    Args:
        model: GPyTorch's `ApproximateGP` (VariationalStrategy or UnwhitenedVariationalStrategy with a Cholesky,
            mean-field or natural distribution) or `ExactGP`; BoTorch's `SingleTaskGP` or `SingleTaskVariationalGP`,
            with affine transforms. One output, constant or zero mean.
        likelihood: Its likelihood; may be left out where the model has it (`ExactGP`, BoTorch).
        name: Unique within an ensemble; made up when not given.
        rows: Data rows behind a sparse model, where it does not know them. By default its number of points.
        publish: Number of points, or the points. With "auto", a sparse model keeps its inducing points, and an
            exact one is published as `fit` does, none of the points a row.
        seed: Of the automatic points.

    Returns:
        The module, in the units of the user's data, whatever transforms BoTorch put between.

    Raises:
        TypeError: The object is none of these models.
        RecycleGPError: A module cannot hold something in the model, which is named.
    """
    inner = model
    if not isinstance(model, (ApproximateGP, ExactGP)):
        inner = getattr(model, "model", None)  # BoTorch wraps its sparse models
        if not isinstance(inner, ApproximateGP):
            raise TypeError(
                f"model {type(model).__name__} cannot be converted; pass a gpytorch ApproximateGP or ExactGP, or a "
                "botorch SingleTaskGP or SingleTaskVariationalGP (of a list of models, one at a time)"
            )
    if getattr(model, "num_outputs", 1) != 1:
        raise RecycleGPError(
            f"model {type(model).__name__} has {model.num_outputs} outputs; convert one model for each output"
        )
    request = Request(publish, arrays.seed(seed))
    if isinstance(inner, ExactGP):
        return _exact(inner, likelihood, name_or_new(name), request)
    made = _sparse(model, inner, likelihood, name_or_new(name), rows)
    return made if request.automatic else sources.published(made, request)


# --- sparse models ----------------------------------------------------------------------------


def _sparse(model: Any, inner: ApproximateGP, likelihood: Any, name: str, rows: int | None) -> Module:
    strategy = inner.variational_strategy
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
    points = strategy.inducing_points.detach()
    if points.ndim != 2 or len(distribution.batch_shape):
        raise RecycleGPError(
            f"inducing points have shape {tuple(points.shape)} and q(u) batch shape "
            f"{tuple(distribution.batch_shape)}; convert one model of shape (M, D) for each of the batch"
        )
    chosen = _likelihood(likelihood if likelihood is not None else getattr(model, "likelihood", None))
    units = _units(model, points.shape[1])
    Z = _theirs_to_ours(points, units)
    if len(torch.unique(Z, dim=0)) < len(Z):
        raise RecycleGPError("inducing points coincide; remove the repeated ones before the model is trained")
    prior = _prior(inner, units)
    with torch.no_grad():
        theirs = _ask(inner, points)
        _compare(inner, theirs, prior, Z)
        jitter = _jitter(strategy, theirs)
        mean, S = _moments(distribution)
    whitened = type(strategy) is VariationalStrategy  # q is of v = L⁻¹(u − m)
    known = getattr(inner, "train_inputs", None)  # BoTorch keeps them
    made = sources.sparse(
        Source(name, type(inner).__name__, prior.kernel, prior.mean, chosen, jitter),
        Z,
        mean if whitened else mean - prior.mean,
        S,
        whitened=whitened,
        rows=sources.row_count(rows, known[0].shape[-2] if known else None, len(Z)),
        stacklevel=4,
    )
    return _in_their_units(made, units)


def _moments(distribution: Any) -> tuple[Tensor, Tensor]:
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


def _jitter(strategy: Any, prior: gpytorch.distributions.MultivariateNormal) -> float:
    """What GPyTorch really adds to the diagonal of K_ZZ: `jitter_val`, and more where that was not enough."""
    wanted = float(strategy.jitter_val)
    K = prior.lazy_covariance_matrix.add_jitter(wanted).to_dense()
    if type(strategy) is VariationalStrategy:  # which factors in float64 whatever its model is in
        K = K.double()
    L = psd_safe_cholesky(K).double()
    more = float((L.square().sum(-1) - K.double().diagonal()).mean())
    rounding = 100 * torch.finfo(K.dtype).eps * float(K.diagonal().mean())
    return wanted + more if more > max(rounding, 1e-3 * wanted) else wanted


# --- exact models -----------------------------------------------------------------------------


def _exact(model: ExactGP, likelihood: Any, name: str, request: Request) -> Module:
    if likelihood is not None and likelihood is not model.likelihood:
        raise RecycleGPError("likelihood is not the one the model was conditioned with; leave it out")
    if model.train_inputs is None or model.train_targets is None:
        raise RecycleGPError("model has no training data, without which an exact model knows nothing")
    if len(model.train_inputs) != 1 or model.train_targets.ndim != 1:
        raise RecycleGPError(
            f"model has {len(model.train_inputs)} inputs and targets of shape {tuple(model.train_targets.shape)}; "
            "convert one model of one input (n, D) and targets (n,) for each output"
        )
    inside = bool(getattr(model, "_has_transformed_inputs", False))  # BoTorch: in evaluation mode
    given = model._original_train_inputs if inside else model.train_inputs[0]
    X = arrays.inputs(given.detach().cpu(), "train_inputs").X
    y = arrays.targets(model.train_targets.detach(), len(X), "train_targets", device="cpu")
    n, D = X.shape
    chosen = _likelihood(model.likelihood)
    if not isinstance(chosen, Gaussian):
        raise RecycleGPError(f"an ExactGP needs a gaussian likelihood, not {type(model.likelihood).__name__}")
    noise = model.likelihood.noise.detach().double().cpu().expand(n)
    units = _units(model, D)
    prior = _prior(model, units)
    with torch.no_grad():
        some = X[: min(n, 100)]
        theirs = _ask(model, (units.scale * some + units.shift).to(model.train_inputs[0]))
        _compare(model, theirs, prior, some)
    source = Source(name, type(model).__name__, prior.kernel, prior.mean, chosen, 0.0)
    made = sources.exact(source, X, y, noise, request)
    return _in_their_units(made, units)


# --- what both have ---------------------------------------------------------------------------


def _units(model: Any, dimension: int) -> Units:
    x, y = getattr(model, "input_transform", None), getattr(model, "outcome_transform", None)
    if x is None and y is None:
        return Units(torch.ones(dimension, dtype=torch.float64), torch.zeros(dimension, dtype=torch.float64), 1.0, 0.0)
    from . import botorch_transforms  # it is there, or the model would not be

    return Units(*botorch_transforms.of_inputs(x, dimension), *botorch_transforms.of_outputs(y))


def _theirs_to_ours(points: Tensor, units: Units) -> Tensor:
    return (points.double().cpu() - units.shift) / units.scale


def _in_their_units(made: Module, units: Units) -> Module:
    if (units.y_scale, units.y_shift) == (1.0, 0.0):
        return made  # the kernel as it is, too: a change of units would give it an amplitude
    return made.transform(output_scale=units.y_scale, output_shift=units.y_shift)


def _prior(model: Any, units: Units) -> Prior:
    mean, kernel = getattr(model, "mean_module", None), getattr(model, "covar_module", None)
    if mean is None or kernel is None:
        raise RecycleGPError(f"model {type(model).__name__} has no mean_module and covar_module to read its prior from")
    if type(mean) not in (ConstantMean, ZeroMean):
        raise RecycleGPError(
            f"mean {type(mean).__name__} cannot be represented in a module; use ConstantMean or ZeroMean"
        )
    constant = mean.constant if type(mean) is ConstantMean else torch.zeros(tuple(mean.batch_shape))
    if constant.numel() != 1:
        raise RecycleGPError(f"mean has batch shape {tuple(constant.shape)}; convert one model for each of the batch")
    ours = kernel_from_gpytorch(kernel, len(units.scale))
    if bool((units.scale != 1).any()) or bool((units.shift != 0).any()):
        ours = stretched(ours, units.scale, units.shift)
    return Prior(ours, float(constant.detach()))


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """With the flag alone down: `eval()` would clear caches, and in BoTorch replace the training inputs."""
    before, model.training = model.training, False
    try:
        yield
    finally:
        model.training = before


def _ask(model: Any, points: Tensor) -> gpytorch.distributions.MultivariateNormal:
    """The model's own prior at points in its own units."""
    with _evaluating(model):
        prior = model.forward(points)
    if type(prior) is not gpytorch.distributions.MultivariateNormal:
        raise RecycleGPError(
            f"model {type(model).__name__} has a {type(prior).__name__} prior; a module has one output, with a "
            "MultivariateNormal"
        )
    return prior


def _compare(model: Any, theirs: gpytorch.distributions.MultivariateNormal, prior: Prior, X: Tensor) -> None:
    """A forward that does more than mean_module and covar_module (a network, say) must not pass unnoticed."""
    K, theirs_K = prior.kernel.matrix(X, X), theirs.covariance_matrix
    tolerance = AGREEMENT.get(theirs_K.dtype, 1e-2) * float(K.diagonal().max())
    off = float((K - theirs_K.double().cpu()).abs().max())
    tilt = float((theirs.mean.double().cpu() - prior.mean).abs().max())
    if off > tolerance or tilt > AGREEMENT.get(theirs_K.dtype, 1e-2) * max(1.0, abs(prior.mean)):
        raise RecycleGPError(
            f"model {type(model).__name__}: its forward does more than mean_module(x) and covar_module(x), which is "
            f"all a module can hold (covariances differ by {off:.2g}, means by {tilt:.2g})"
        )


def _likelihood(likelihood: Any) -> Likelihood:
    kind = type(likelihood)
    if likelihood is None:
        raise RecycleGPError("likelihood is None; pass the likelihood the model was trained with")
    if kind is GaussianLikelihood:
        return Gaussian(_one(likelihood.noise, "noise"))
    if kind is FixedNoiseGaussianLikelihood:  # a new y has their mean noise, as in BoTorch
        if likelihood.noise.ndim != 1:
            raise RecycleGPError(f"noise has shape {tuple(likelihood.noise.shape)}; convert one model for each output")
        return Gaussian(float(likelihood.noise.detach().double().mean()))
    if kind is StudentTLikelihood:
        return StudentT(_one(likelihood.noise, "noise"), _one(likelihood.deg_free, "deg_free"))
    if kind not in WITHOUT_PARAMETERS:
        raise RecycleGPError(
            f"likelihood {kind.__name__} cannot be represented in a module; use GaussianLikelihood, "
            "FixedNoiseGaussianLikelihood, BernoulliLikelihood (probit) or StudentTLikelihood"
        )
    return WITHOUT_PARAMETERS[kind]


def _one(value: Tensor, what: str) -> float:
    if value.numel() != 1:
        raise RecycleGPError(f"likelihood: {what} has shape {tuple(value.shape)}; convert one model for each output")
    return float(value.detach())
