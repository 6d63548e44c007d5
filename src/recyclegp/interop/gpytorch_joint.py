"""GPyTorch's models of several functions that are independent of each other: batches, multitask models, classes.

Function c has the c-th kernel, mean and q(u) of the batch, and is read as a model of one function is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import gpytorch
import torch
from gpytorch.distributions import MultitaskMultivariateNormal
from gpytorch.likelihoods import (
    DirichletClassificationLikelihood,
    FixedNoiseGaussianLikelihood,
    GaussianLikelihood,
    MultitaskGaussianLikelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from gpytorch.models import ApproximateGP, ExactGP
from gpytorch.variational import (
    IndependentMultitaskVariationalStrategy,
    LMCVariationalStrategy,
    VariationalStrategy,
)
from linear_operator import to_linear_operator
from torch import Tensor

from .. import arrays
from ..errors import RecycleGPError
from ..likelihoods import DirichletCategorical, Gaussian, Likelihood, SoftmaxCategorical, StudentT
from ..models.joint.links import Classes, Link, Outputs
from ..models.joint.module import JointModule
from ..models.module import Module
from ..target import Target
from . import gpytorch_reading as reading
from . import sources
from .gpytorch_reading import WITHOUT_PARAMETERS, Prior
from .sources import Request, Source

CLASSES: dict[type[Any], Likelihood] = {
    SoftmaxLikelihood: SoftmaxCategorical(),
    DirichletClassificationLikelihood: DirichletCategorical(),
}


def has_several_functions(model: Any) -> bool:
    """Is it a batch of Gaussian processes?"""
    if isinstance(model, ExactGP):
        return model.train_targets is not None and model.train_targets.ndim == 2
    strategy = model.variational_strategy
    if isinstance(strategy, (IndependentMultitaskVariationalStrategy, LMCVariationalStrategy)):
        return True
    q = getattr(strategy, "_variational_distribution", None)
    return len(getattr(q, "batch_shape", ())) > 0 or getattr(strategy, "inducing_points", torch.zeros(1, 1)).ndim > 2


@torch.no_grad()
def from_sparse(
    model: ApproximateGP,
    likelihood: Any,
    name: str,
    rows: int | None,
    request: Request,
    functions: Sequence[str] | None,
) -> JointModule:
    strategy = model.variational_strategy
    if isinstance(strategy, LMCVariationalStrategy):
        raise RecycleGPError(
            "variational strategy LMCVariationalStrategy mixes its functions into outputs, which a module cannot hold; "
            "use IndependentMultitaskVariationalStrategy"
        )
    tasks = getattr(strategy, "num_tasks", None)
    strategy = getattr(strategy, "base_variational_strategy", strategy)
    q = reading.check_strategy(strategy)
    C = _count(q.batch_shape, tasks)
    points = strategy.inducing_points.detach()
    chosen = _likelihoods(likelihood if likelihood is not None else getattr(model, "likelihood", None), C, functions)
    units = reading.units(model, points.shape[-1])
    priors = _priors(model, C, units)
    each = points.expand(C, *points.shape[-2:])
    theirs = _each(model, reading.ask(model, points), C)
    mean, S = reading.moments(q)
    whitened = type(strategy) is VariationalStrategy
    parts = []
    for c, (prior, asked) in enumerate(zip(priors, theirs, strict=True)):
        Z = sources.inducing_points(reading.theirs_to_ours(each[c], units))
        reading.compare(model, asked.mean, asked.covariance.to_dense(), prior, Z)
        jitter = reading.jitter(strategy, asked.covariance)
        made = sources.sparse(
            Source(name, type(model).__name__, prior.kernel, prior.mean, chosen.each[c], jitter),
            Z,
            mean[c] if whitened else mean[c] - prior.mean,
            S[c],
            whitened=whitened,
            rows=sources.row_count(rows, None, len(Z)),
            stacklevel=5,
        )
        parts.append(made if request.automatic else sources.published(made, request))
    return _joint(chosen.link, parts)


@torch.no_grad()
def from_exact(model: ExactGP, name: str, request: Request, functions: Sequence[str] | None) -> JointModule:
    (given,), targets = model.train_inputs, model.train_targets.detach()
    units = reading.units(model, given.shape[-1])
    some = given.detach()[..., :100, :]
    reading.modules_of_prior(model)  # before its forward fails of a kernel that correlates outputs
    prior = reading.ask(model, some)
    tasks = isinstance(prior, MultitaskMultivariateNormal)
    y = targets.mT if tasks else targets
    C = len(y)
    X = [arrays.inputs(x.cpu(), "train_inputs").X for x in given.detach().expand(C, *given.shape[-2:])]
    chosen = _likelihoods(model.likelihood, C, functions)
    noises = _noises(model.likelihood, C)
    parts = []
    for c, (ours, asked) in enumerate(zip(_priors(model, C, units), _each(model, prior, C), strict=True)):
        reading.compare(model, asked.mean, asked.covariance.to_dense(), ours, X[c][:100])
        source = Source(name, type(model).__name__, ours.kernel, ours.mean, chosen.each[c], 0.0)
        own = arrays.targets(y[c], len(X[c]), "train_targets", device="cpu")
        parts.append(sources.exact(source, X[c], own, noises[c], request))
    return _joint(chosen.link, parts)


def _joint(link: Link, parts: Sequence[Module]) -> JointModule:
    if isinstance(link, Outputs):
        parts = [replace(part, target=Target(name)) for part, name in zip(parts, link.names, strict=True)]
    return JointModule(link, tuple(parts))


# --- priors -----------------------------------------------------------------------------------


def _count(batch: Sequence[int], tasks: int | None) -> int:
    """How many functions."""
    if len(batch) != 1 or tasks not in (None, batch[0]):
        raise RecycleGPError(
            f"q(u) has batch shape {tuple(batch)}{'' if tasks is None else f' for {tasks} tasks'}; a module holds one "
            "function for each output: use batch_shape=[C]"
        )
    return int(batch[0])


def _priors(model: Any, C: int, units: reading.Units) -> list[Prior]:
    mean, kernel = reading.modules_of_prior(model)
    constant = reading.constants(mean).double().flatten()
    if len(constant) not in (0, 1, C):
        raise RecycleGPError(f"mean has batch shape {tuple(mean.batch_shape)} for {C} functions; give it [{C}]")
    level = constant.expand(C) if len(constant) else torch.zeros(C)
    return [reading.prior_of(float(level[c]), _one_of(kernel, c, C), units) for c in range(C)]


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


class Asked(NamedTuple):
    """The model's own prior of one function."""

    mean: Tensor  # (n,)
    covariance: Any  # (n, n), lazy


def _each(model: Any, prior: Any, C: int) -> list[Asked]:
    if not isinstance(prior, MultitaskMultivariateNormal):
        if type(prior) is not gpytorch.distributions.MultivariateNormal:
            raise RecycleGPError(f"model {type(model).__name__} has a {type(prior).__name__} prior, not a normal one")
        mean = prior.mean.expand(C, prior.mean.shape[-1])
        n = mean.shape[-1]
        covariance = prior.lazy_covariance_matrix.expand(C, n, n)
        return [Asked(mean[c], covariance[c]) for c in range(C)]
    n, tasks = prior.event_shape
    if tasks != C:
        raise RecycleGPError(f"model {type(model).__name__} has a prior of {tasks} outputs for {C} of data")
    K = prior.covariance_matrix
    K = K.reshape(n, C, n, C).permute(1, 3, 0, 2) if prior._interleaved else K.reshape(C, n, C, n).permute(0, 2, 1, 3)
    between = K[~torch.eye(C, dtype=torch.bool)]
    if bool((between != 0).any()):
        raise RecycleGPError(
            f"model {type(model).__name__}: its outputs are correlated a priori, which a module cannot hold; use a "
            "kernel and a mean with batch_shape=[C]"
        )
    return [Asked(prior.mean[:, c], to_linear_operator(K[c, c])) for c in range(C)]


# --- likelihoods ------------------------------------------------------------------------------


class Chosen(NamedTuple):
    link: Link
    each: list[Likelihood]  # of every function


def _likelihoods(likelihood: Any, C: int, functions: Sequence[str] | None) -> Chosen:
    kind = type(likelihood)
    if functions is not None and len(functions) != C:
        raise RecycleGPError(f"functions has {len(functions)} names for {C} functions; give one each")
    if kind in CLASSES:
        if getattr(likelihood, "mixing_weights", None) is not None or getattr(likelihood, "num_classes", C) != C:
            raise RecycleGPError(
                f"likelihood {kind.__name__} mixes functions into classes, which a module cannot hold; use one "
                "function for each class, and mixing_weights=False"
            )
        names = tuple(functions) if functions is not None else tuple(map(str, range(C)))
        return Chosen(Classes(names, CLASSES[kind].name), [CLASSES[kind]] * C)
    names = tuple(functions) if functions is not None else tuple(f"y{c + 1}" for c in range(C))
    if kind in WITHOUT_PARAMETERS:
        return Chosen(Outputs(names), [WITHOUT_PARAMETERS[kind]] * C)
    if kind is StudentTLikelihood:
        pairs = zip(_of_each(likelihood.noise, C, "noise"), _of_each(likelihood.deg_free, C, "deg_free"), strict=True)
        return Chosen(Outputs(names), [StudentT(float(a), float(b)) for a, b in pairs])
    return Chosen(Outputs(names), [Gaussian(float(noise.mean())) for noise in _noises(likelihood, C)])


def _noises(likelihood: Any, C: int) -> list[Tensor]:
    """Of every function: one for all its rows, or one for each."""
    kind = type(likelihood)
    if kind is GaussianLikelihood:
        return _of_each(likelihood.noise, C, "noise")
    if kind in (FixedNoiseGaussianLikelihood, DirichletClassificationLikelihood):
        noise = likelihood.noise.detach().double().cpu()
        return list(noise.expand(C, noise.shape[-1]))
    if kind is MultitaskGaussianLikelihood:
        if likelihood.rank:
            raise RecycleGPError(
                "likelihood MultitaskGaussianLikelihood has noise that is correlated between outputs, which a module "
                "cannot hold; use rank=0"
            )
        zero = torch.zeros(C, dtype=torch.float64)
        own = likelihood.task_noises.detach().double().cpu() if likelihood.has_task_noise else zero
        common = likelihood.noise.detach().double().cpu() if likelihood.has_global_noise else zero[:1]
        return _of_each(own + common, C, "noise")
    raise RecycleGPError(
        f"likelihood {kind.__name__} of several functions cannot be represented in a module; use GaussianLikelihood, "
        "MultitaskGaussianLikelihood(rank=0), FixedNoiseGaussianLikelihood, SoftmaxLikelihood(mixing_weights=False), "
        "DirichletClassificationLikelihood, BernoulliLikelihood (probit) or StudentTLikelihood"
    )


def _of_each(value: Tensor, C: int, what: str) -> list[Tensor]:
    found = value.detach().double().cpu().flatten()
    if len(found) not in (1, C):
        raise RecycleGPError(f"likelihood: {what} has shape {tuple(value.shape)} for {C} functions; give one each")
    return list(found.expand(C))
