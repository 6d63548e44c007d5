"""GPyTorch's and BoTorch's fitted models as modules.

A sparse model already is a q(u): its site follows from the variational parameters, with the very jitter
GPyTorch put on K_ZZ. An exact model has only rows: they are marginalised exactly to a few points.
What cannot be represented is refused by name, and what was read is compared with what the model's own
`forward` says before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from gpytorch.models import ApproximateGP, ExactGP
from gpytorch.variational import VariationalStrategy

from .. import arrays
from ..errors import RecycleGPError
from ..likelihoods import Gaussian
from ..models.module import Module
from ..models.naming import name_or_new
from . import gpytorch_joint, sources
from . import gpytorch_reading as reading
from .sources import Request, Source


def from_gpytorch(
    model: Any,
    likelihood: Any = None,
    *,
    name: str | None = None,
    rows: int | None = None,
    publish: Any = "auto",
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
            exact one is published as `fit` does, none of the points a row.
        seed: Of the automatic points.
        functions: Names of several outputs, by which they are merged (y1, y2, … unless given), or of the classes of a
            SoftmaxLikelihood or DirichletClassificationLikelihood (0, 1, … unless given).

    Returns:
        The module, in the units of the user's data, whatever transforms BoTorch put between; of several outputs and of
        classes a `JointModule`.

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
        _check_exact(inner, likelihood)
    if gpytorch_joint.has_several_functions(inner):
        joint = (
            gpytorch_joint.from_exact(inner, name_or_new(name), request, functions)
            if isinstance(inner, ExactGP)
            else gpytorch_joint.from_sparse(inner, likelihood, name_or_new(name), rows, request, functions)
        )
        return cast(Module, joint)  # declared as one function, as nearly always; see `fit`
    if functions is not None:
        raise RecycleGPError("functions: this model has one, which needs no name; leave them out")
    if isinstance(inner, ExactGP):
        return _exact(inner, name_or_new(name), request)
    made = _sparse(model, inner, likelihood, name_or_new(name), rows)
    return made if request.automatic else sources.published(made, request)


# --- sparse models ----------------------------------------------------------------------------


def _sparse(model: Any, inner: ApproximateGP, likelihood: Any, name: str, rows: int | None) -> Module:
    strategy = inner.variational_strategy
    distribution = reading.check_strategy(strategy)
    points = strategy.inducing_points.detach()
    chosen = reading.read_likelihood(likelihood if likelihood is not None else getattr(model, "likelihood", None))
    units = reading.units(model, points.shape[1])
    Z = reading.theirs_to_ours(points, units)
    if len(torch.unique(Z, dim=0)) < len(Z):
        raise RecycleGPError("inducing points coincide; remove the repeated ones before the model is trained")
    prior = reading.prior(inner, units)
    with torch.no_grad():
        theirs = reading.ask_one(inner, points)
        reading.compare(inner, theirs.mean, theirs.covariance_matrix, prior, Z)
        jitter = reading.jitter(strategy, theirs.lazy_covariance_matrix)
        mean, S = reading.moments(distribution)
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
    return reading.in_their_units(made, units)


# --- exact models -----------------------------------------------------------------------------


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


def _exact(model: ExactGP, name: str, request: Request) -> Module:
    inside = bool(getattr(model, "_has_transformed_inputs", False))  # BoTorch: in evaluation mode
    given = model._original_train_inputs if inside else model.train_inputs[0]
    X = arrays.inputs(given.detach().cpu(), "train_inputs").X
    y = arrays.targets(model.train_targets.detach(), len(X), "train_targets", device="cpu")
    n, D = X.shape
    chosen = reading.read_likelihood(model.likelihood)
    if not isinstance(chosen, Gaussian):
        raise RecycleGPError(f"an ExactGP needs a gaussian likelihood, not {type(model.likelihood).__name__}")
    noise = model.likelihood.noise.detach().double().cpu().expand(n)
    units = reading.units(model, D)
    prior = reading.prior(model, units)
    with torch.no_grad():
        some = X[: min(n, 100)]
        theirs = reading.ask_one(model, (units.scale * some + units.shift).to(model.train_inputs[0]))
        reading.compare(model, theirs.mean, theirs.covariance_matrix, prior, some)
    source = Source(name, type(model).__name__, prior.kernel, prior.mean, chosen, 0.0)
    made = sources.exact(source, X, y, noise, request)
    return reading.in_their_units(made, units)
