"""GPyTorch's and BoTorch's fitted models as modules.

A sparse model already is a q(u): its site follows from the variational parameters, with the very jitter
GPyTorch put on K_ZZ. An exact model has only rows: they are marginalised exactly to a few points.
What cannot be represented is refused by name, and what was read is compared with what the model's own
`forward` says before anything is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gpytorch
import torch
from gpytorch.distributions import MultitaskMultivariateNormal
from gpytorch.models import ApproximateGP, ExactGP
from gpytorch.variational import VariationalStrategy

from .. import arrays
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from ..local.options import PublishLike
from ..models.module import Module
from ..models.naming import name_or_new
from ..record import worst
from ..target import NO_TARGET, Target
from . import gpytorch_reading as reading
from . import sources
from .gpytorch_likelihoods import noises as gaussian_noises
from .gpytorch_likelihoods import read_likelihood
from .sources import FittedModel, Request, Source


def from_gpytorch(
    model: FittedModel,
    likelihood: gpytorch.likelihoods.Likelihood | None = None,
    *,
    name: str | None = None,
    rows: int | None = None,
    publish: PublishLike = "auto",
    seed: int = 0,
    functions: Sequence[str] | None = None,
) -> Module:
    """A fitted GPyTorch or BoTorch model as a module, ready to be saved, sent and merged.

    A sparse module predicts what the model predicted, an exact one at the points where it is published. The
    model is read, never changed. Where its covariance is wider than its prior, as in a fit that had not
    converged, a warning says so.

    Args:
        model: GPyTorch's `ApproximateGP` (VariationalStrategy or UnwhitenedVariationalStrategy with a Cholesky,
            mean-field or natural distribution) or `ExactGP`; BoTorch's `SingleTaskGP` or `SingleTaskVariationalGP`,
            with affine transforms. Constant or zero mean. GPyTorch's may have several outputs that are independent a
            priori: a batch (batch_shape=[C]) or IndependentMultitaskVariationalStrategy.
        likelihood: Its likelihood; may be left out where the model has it (`ExactGP`, BoTorch).
        name: Unique within an ensemble; made up when not given.
        rows: Data rows behind a sparse model, where it does not know them. By default its number of points.
        publish: Number of points, or the points. With "auto", a sparse model keeps its inducing points, and an
            exact one gets as many as keep 99% of what its rows say, none of them a row. If these are more than its
            rows, the rows can be computed from them, and a warning says so.
        seed: Of the automatic points.
        functions: Names of several outputs, by which they are merged (y1, y2, … unless given), or of the classes of a
            SoftmaxLikelihood or DirichletClassificationLikelihood (0, 1, … unless given).

    Returns:
        The module, in the units of the user's data, whatever transforms BoTorch put between; of as many functions as
        there are outputs or classes.

    Raises:
        TypeError: The object is none of these models.
        RecycleGPError: A module cannot hold something in the model, which is named.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> gp, likelihood = rgp.merge([rgp.fit(X, np.sin(X[:, 0]), noise=0.01)]).to_gpytorch()
        >>> rgp.from_gpytorch(gp, likelihood, name="lab-2", rows=30).rows
        30
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
    request, called = Request(publish, arrays.seed(seed)), name_or_new(name)
    if isinstance(inner, ExactGP):
        _check_exact(inner, likelihood)
    several = reading.has_several_functions(inner)
    if functions is not None and not several:
        raise RecycleGPError("functions: this model has one, which needs no name; leave them out")
    with torch.no_grad():
        if isinstance(inner, ExactGP):
            whole, parts = _exact(inner, called, request, functions, several)
        else:
            own = likelihood if likelihood is not None else getattr(model, "likelihood", None)
            whole, parts = _sparse(model, inner, own, called, rows, request, functions, several)
    if not several:
        return parts[0]
    # outputs are called like their targets
    targets = tuple(NO_TARGET if whole.classifies else Target(function) for function in whole.functions)
    about = parts[0].about._replace(targets=targets, origin=worst(part.about.origin for part in parts))
    return Module(about, (whole,), tuple(part.latents[0] for part in parts))


def _sparse(
    model: Any,
    inner: ApproximateGP,
    likelihood: Any,
    name: str,
    rows: int | None,
    request: Request,
    functions: Sequence[str] | None,
    several: bool,
) -> tuple[Likelihood, list[Module]]:
    """The likelihood of all functions, and a module of each."""
    strategy = reading.strategy_of(inner)
    q = strategy._variational_distribution
    C = int(math.prod(q.batch_shape))
    points = strategy.inducing_points.detach()
    whole = read_likelihood(likelihood, C, functions, several=several)
    units = reading.units(model, points.shape[-1])
    priors = reading.priors(inner, C, units)
    theirs = reading.each(inner, reading.ask(inner, points), C)
    mean, S = reading.moments(q)
    whitened = type(strategy) is VariationalStrategy  # q is of v = L⁻¹(u − m)
    known = getattr(inner, "train_inputs", None)  # BoTorch keeps them
    parts = []
    for c, (prior, asked, own) in enumerate(zip(priors, theirs, whole.parts, strict=True)):
        seen = points.expand(C, *points.shape[-2:])[c].double().cpu()
        Z = sources.inducing_points((seen - units.inputs.shift) / units.inputs.scale)
        reading.compare(inner, asked, prior, Z)
        jitter = reading.jitter(strategy, asked.covariance)
        made = sources.sparse(
            Source(name, type(inner).__name__, prior.kernel, prior.mean, own, jitter),
            Z,
            mean[c] if whitened else mean[c] - prior.mean,
            S[c],
            whitened=whitened,
            rows=sources.row_count(rows, known[0].shape[-2] if known else None, len(Z)),
        )
        parts.append(sources.published(reading.in_their_units(made, units), request))
    return whole, parts


def _check_exact(model: ExactGP, likelihood: Any) -> None:
    if likelihood is not None and likelihood is not model.likelihood:
        raise RecycleGPError("likelihood is not the one the model was conditioned with; leave it out")
    if model.train_inputs is None or model.train_targets is None:
        raise RecycleGPError("model has no training data, without which an exact model knows nothing")
    if len(model.train_inputs) != 1 or model.train_targets.ndim not in (1, 2):
        raise RecycleGPError(
            f"model has {len(model.train_inputs)} inputs and targets of shape {tuple(model.train_targets.shape)}; "
            "convert one model of one input (n, D) and targets (n,) for each output"
        )


def _exact(
    model: ExactGP, name: str, request: Request, functions: Sequence[str] | None, several: bool
) -> tuple[Likelihood, list[Module]]:
    """The same of a model that has only its rows."""
    inside = bool(getattr(model, "_has_transformed_inputs", False))  # BoTorch: in evaluation mode
    given = (model._original_train_inputs if inside else model.train_inputs[0]).detach().double().cpu()
    units = reading.units(model, given.shape[-1])
    reading.modules_of_prior(model)  # before its forward fails of a kernel that correlates outputs
    prior = reading.ask(model, units.inputs.of(given[..., :100, :]).to(model.train_inputs[0]))
    targets = model.train_targets.detach()
    y = torch.atleast_2d(targets.mT if isinstance(prior, MultitaskMultivariateNormal) else targets)
    C = len(y)
    whole = read_likelihood(model.likelihood, C, functions, several=several)
    noises = gaussian_noises(model.likelihood, C)
    parts = []
    for c, (ours, asked) in enumerate(zip(reading.priors(model, C, units), reading.each(model, prior, C), strict=True)):
        X = arrays.inputs(given.expand(C, *given.shape[-2:])[c], "train_inputs").X
        reading.compare(model, asked, ours, X[:100])
        source = Source(name, type(model).__name__, ours.kernel, ours.mean, whole.parts[c], 0.0)
        own = arrays.targets(y[c], len(X), "train_targets", device="cpu")
        parts.append(reading.in_their_units(sources.exact(source, X, own, noises[c], request), units))
    return whole, parts
