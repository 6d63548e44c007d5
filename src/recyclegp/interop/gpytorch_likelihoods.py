"""GPyTorch's likelihoods as ours: of one function, of the outputs of a batch, or of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    DirichletClassificationLikelihood,
    FixedNoiseGaussianLikelihood,
    GaussianLikelihood,
    MultitaskGaussianLikelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from torch import Tensor

from ..errors import RecycleGPError
from ..export.gpytorch_likelihoods import (
    LogisticLikelihood,
    LognormalLikelihood,
    NegativeBinomialLikelihood,
    PoissonLikelihood,
)
from ..likelihoods import (
    Bernoulli,
    BernoulliProbit,
    DirichletCategorical,
    Gaussian,
    Likelihood,
    Lognormal,
    NegativeBinomial,
    Outputs,
    Poisson,
    SoftmaxCategorical,
    StudentT,
)

WITHOUT_PARAMETERS: dict[type[Any], Likelihood] = {
    BernoulliLikelihood: BernoulliProbit(),
    LogisticLikelihood: Bernoulli(),
    PoissonLikelihood: Poisson(),
}
CLASSES: dict[type[Any], type[SoftmaxCategorical] | type[DirichletCategorical]] = {
    SoftmaxLikelihood: SoftmaxCategorical,
    DirichletClassificationLikelihood: DirichletCategorical,
}
OF_ONE = (
    GaussianLikelihood,
    FixedNoiseGaussianLikelihood,
    StudentTLikelihood,
    NegativeBinomialLikelihood,
    LognormalLikelihood,
    *WITHOUT_PARAMETERS,
)
USE_ONE = "GaussianLikelihood, FixedNoiseGaussianLikelihood, BernoulliLikelihood (probit) or StudentTLikelihood"
USE_SEVERAL = (
    "MultitaskGaussianLikelihood(rank=0), SoftmaxLikelihood(mixing_weights=False), DirichletClassificationLikelihood, "
)


def read_likelihood(given: Any, C: int, functions: Sequence[str] | None, *, several: bool) -> Likelihood:
    """Of all functions: these are the outputs or the classes, where there are several."""
    kind = type(given)
    if given is None:
        raise RecycleGPError("likelihood is None; pass the likelihood the model was trained with")
    if functions is not None and len(functions) != C:
        raise RecycleGPError(f"functions has {len(functions)} names for {C} functions; give one each")
    if kind not in OF_ONE and not (several and (kind is MultitaskGaussianLikelihood or kind in CLASSES)):
        raise RecycleGPError(
            f"likelihood {kind.__name__}{' of several functions' if several else ''} cannot be represented in a "
            f"module; use {USE_SEVERAL if several else ''}{USE_ONE}"
        )
    if kind in CLASSES:
        if getattr(given, "mixing_weights", None) is not None or getattr(given, "num_classes", C) != C:
            raise RecycleGPError(
                f"likelihood {kind.__name__} mixes functions into classes, which a module cannot hold; use one "
                "function for each class, and mixing_weights=False"
            )
        return CLASSES[kind](tuple(map(str, range(C))) if functions is None else tuple(functions))
    parts = _parts(given, C)
    if not several:
        return parts[0]
    return Outputs(tuple(f"y{c + 1}" for c in range(C)) if functions is None else tuple(functions), parts)


def _parts(given: Any, C: int) -> tuple[Likelihood, ...]:
    if type(given) in WITHOUT_PARAMETERS:
        return (WITHOUT_PARAMETERS[type(given)],) * C
    if type(given) is LognormalLikelihood:
        return (Lognormal(float(given.log_noise.detach().exp())),) * C
    if type(given) is NegativeBinomialLikelihood:
        return (NegativeBinomial(float(given.log_dispersion.detach().exp())),) * C
    if type(given) is StudentTLikelihood:
        pairs = zip(_of_each(given.noise, C, "noise"), _of_each(given.deg_free, C, "deg_free"), strict=True)
        return tuple(StudentT(float(noise), float(df)) for noise, df in pairs)
    return tuple(Gaussian(float(noise.mean())) for noise in noises(given, C))  # a new y has their mean, as in BoTorch


def noises(given: Any, C: int) -> list[Tensor]:
    """Variances of Gaussian observations of every function: one for all its rows, or one for each."""
    kind = type(given)
    if kind is GaussianLikelihood:
        return _of_each(given.noise, C, "noise")
    if kind in (FixedNoiseGaussianLikelihood, DirichletClassificationLikelihood):
        if given.noise.ndim > 1 and len(given.noise) != C:
            raise _wrong_shape(given.noise, C, "noise")
        noise = given.noise.detach().double().cpu()
        return list(noise.expand(C, noise.shape[-1]))
    if kind is not MultitaskGaussianLikelihood:
        raise RecycleGPError(f"an ExactGP needs a gaussian likelihood, not {kind.__name__}")
    if given.rank:
        raise RecycleGPError(
            "likelihood MultitaskGaussianLikelihood has noise that is correlated between outputs, which a module "
            "cannot hold; use rank=0"
        )
    zero = torch.zeros(C, dtype=torch.float64)
    own = given.task_noises.detach().double().cpu() if given.has_task_noise else zero
    common = given.noise.detach().double().cpu() if given.has_global_noise else zero[:1]
    return _of_each(own + common, C, "noise")


def _of_each(value: Tensor, C: int, what: str) -> list[Tensor]:
    found = value.detach().double().cpu().flatten()
    if len(found) not in (1, C):
        raise _wrong_shape(value, C, what)
    return list(found.expand(C))


def _wrong_shape(value: Tensor, C: int, what: str) -> RecycleGPError:
    return RecycleGPError(f"likelihood: {what} has shape {tuple(value.shape)} for {C} functions; give one each")
