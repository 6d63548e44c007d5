"""Numbers read from another library's model → a module. Three kinds of model, whichever library they come from:

sparse      knows q(u) at its inducing points, under K_ZZ plus its own jitter
collapsed   Gaussian rows, summarised at inducing points in closed form
exact       Gaussian rows, and nothing else
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..core import linalg, sites
from ..core.convergence import Convergence
from ..core.posterior import basis
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..likelihoods import Likelihood, gaussian_noise
from ..local import observations
from ..local.options import AUTO, PublishLike
from ..models import moments
from ..models.module import Module
from ..record import About, Latent
from .exact import Observations
from .exact import publish as publish_exactly

FittedModel: TypeAlias = Any  # of another library, which is imported only where one is passed
REACH = 3.0  # prior standard deviations that a direction which had not converged may pull


class Source(NamedTuple):
    """What every model has: f ~ GP(mean, kernel), and y given f."""

    name: str  # of the module to be
    title: str  # of the model, for people
    kernel: Kernel
    mean: float
    likelihood: Likelihood
    jitter: float  # what the library adds to the diagonal of K_ZZ
    columns: arrays.Columns = None  # names of the inputs


class Request(NamedTuple):
    """Where the user wants it published."""

    publish: PublishLike
    seed: int

    @property
    def automatic(self) -> bool:
        """Is it left to the model where?"""
        return isinstance(self.publish, str) and self.publish == AUTO


# --- what is read, checked --------------------------------------------------------------------


def library(name: str) -> Any:
    """Imported only now: who passes a model of it has it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as absent:
        raise ModuleNotFoundError(f"from_{name}: {absent}; pip install {name}") from None


def tensor(values: Any, what: str) -> Tensor:
    """An array of another library as float64, all of it finite."""
    return arrays.as_tensor(np.asarray(values), what, "cpu")


def inducing_points(values: Any) -> Tensor:
    """Distinct points (M, D)."""
    Z = tensor(values, "inducing points")
    if Z.ndim != 2 or not Z.numel():
        raise RecycleGPError(f"inducing points have shape {tuple(Z.shape)}; a module's are (M, D)")
    if len(torch.unique(Z, dim=0)) < len(Z):
        raise RecycleGPError("inducing points coincide; remove the repeated ones before the model is trained")
    return Z


def data_rows(X: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Inputs (n, D) and targets (n,), with at least one row."""
    inputs = arrays.inputs(np.asarray(X), "the model's X", device="cpu").X
    if not len(inputs):
        raise RecycleGPError("the model has no data rows, without which it knows nothing")
    outputs = np.asarray(y)
    if outputs.ndim == 2 and outputs.shape[1] != 1:
        raise RecycleGPError(f"the model has {outputs.shape[1]} outputs; convert one model for each")
    return inputs, arrays.targets(outputs, len(inputs), "the model's y", device="cpu")


def row_count(given: Any, known: int | None, points: int) -> int:
    """Data rows behind a model: as the user says, as the model says, or as many as it has points."""
    if given is None:
        return points if known is None else known
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise RecycleGPError(f"rows={given!r}; pass the number of data rows behind the model, or None")
    return int(given)


def positive_number(value: Any, what: str) -> float:
    """One positive number, as a likelihood's parameters are."""
    found = np.ravel(np.asarray(value, dtype=np.float64))
    if len(found) != 1 or not 0 < found[0] < math.inf:
        raise RecycleGPError(f"{what} is {found.tolist()}; a module has one positive number")
    return float(found[0])


def constant_mean(converter: str, function: Any, home: Any, value: Callable[[Any], Any]) -> float:
    """Of a library whose `home` has the mean functions Zero and Constant; `value` reads that of the latter."""
    if type(function) is home.Zero:
        return 0.0
    if type(function) is not home.Constant:
        raise RecycleGPError(f"{converter} cannot represent the mean function {type(function).__name__}; use Constant")
    found = np.ravel(value(function))
    if len(found) != 1:
        raise RecycleGPError(f"mean function Constant has {len(found)} values; a module has one output")
    return arrays.number(float(found[0]), "mean function Constant")


# --- the three kinds --------------------------------------------------------------------------


def sparse(
    source: Source,
    Z: Tensor,
    mu: Tensor,
    S: Tensor,
    *,
    whitened: bool,
    rows: int,
    evidence: float = 0.0,
) -> Module:
    """q(u − m1) = N(μ, S), or q(v) = N(μ, S) where u = m1 + Lv, and LLᵀ = K_ZZ + jitter as in the library."""
    L, used = linalg.cholesky(source.kernel.matrix(Z, Z), source.jitter)
    if whitened:
        converted = sites.from_whitened(Z, L, source.mean, mu, S, REACH)
    else:
        converted = sites.from_moments(Z, L, source.mean, mu + source.mean, S, REACH)
    latent = Latent(None, source.kernel, source.mean, rows, float(used))
    about = About(source.name, method="moments", columns=source.columns)
    return Module(*moments.from_site(converted, L, about, latent, source.likelihood, evidence))


def collapsed(source: Source, Z: Tensor, X: Tensor, y: Tensor) -> Module:
    """Rᵀ = W/σ, ρ = r/σ, e = −(n/2)log 2πσ² − tr Q/2σ²: Titsias' optimum, without its moments."""
    base = basis(source.kernel, Z, source.jitter)
    rows = observations.stream(base, X, y, gaussian_noise(source.likelihood), source.mean)
    site = sites.from_rows(Z, base.L, rows, source.mean)
    return _module(source, "collapsed", Latent(site, source.kernel, source.mean, len(X), float(base.jitter)))


def exact(source: Source, X: Tensor, y: Tensor, noise: Tensor | float, request: Request) -> Module:
    """Observations of f with variance `noise`, of each row or of all, published at the user's points or at no rows."""
    return observed(source, Observations(X, y, torch.zeros_like(y) + noise, y.new_zeros(())), request, len(X), "exact")


def observed(source: Source, data: Observations, request: Request, rows: int, method: str) -> Module:
    """Any Gaussian observations of f, which stand for so many rows."""
    site, jitter, kept = publish_exactly(
        data, source.kernel, source.mean, request.publish, source.columns, request.seed
    )
    return _module(source, method, Latent(site, source.kernel, source.mean, rows, jitter, kept=kept))


def _module(source: Source, method: str, latent: Latent) -> Module:
    ended = Convergence(True, 0, f"{source.title} fitted elsewhere")
    about = About(source.name, method=method, columns=source.columns)
    return Module(about, (source.likelihood,), (latent._replace(convergence=ended),))


def published(module: Module, request: Request) -> Module:
    """As it is, or as `module.publish`; new points that would need more jitter than the source's own had are refused.

    The source's jitter stays with the points it was added to; the new ones carry only what rounding asks for. More
    than the source's own would blur what the model knew.
    """
    if request.automatic:
        return module
    where = arrays.count_or_points(request.publish, "publish", module.dimension, module.columns, "cpu")
    moved = module.publish(where, request.seed)
    if moved.jitter > module.jitter:
        raise RecycleGPError(
            f"publish: {len(moved.inducing)} points so close together need a jitter of {moved.jitter:.2g}, above the "
            f"model's own of {module.jitter:.2g}; publish at fewer points"
        )
    return moved
