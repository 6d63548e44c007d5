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
from ..core import linalg, publishing, sites
from ..core.convergence import Convergence
from ..core.linalg import RELATIVE_JITTER
from ..core.posterior import basis
from ..core.publishing import PublishedSite
from ..core.sites import Site, to_rows
from ..errors import Argument, LittleKeptWarning, PrivacyWarning, RecycleGPError, warn_user
from ..extras import install
from ..kernels import Kernel
from ..likelihoods import Likelihood, gaussian_noise
from ..likelihoods.gaussian import log_normal
from ..local import import_points, observations, placement
from ..local.candidates import is_row
from ..local.constants import IMPORTED
from ..local.import_points import Known
from ..local.options import AUTO, PublishLike
from ..local.planning import share_of_import
from ..local.summary import information
from ..models import moments
from ..models.module import Module
from ..record import About, Latent, Origin

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


class Observations(NamedTuple):
    """log t(f) = constant + Σ_i log N(value_i; f(x_i), variance_i)."""

    X: Tensor  # (n, D)
    value: Tensor  # (n,)
    variance: Tensor  # (n,)
    constant: Tensor  # ()


class Request(NamedTuple):
    """Where the user wants it published."""

    publish: PublishLike
    seed: int

    @property
    def automatic(self) -> bool:
        """Is it left to the model where?"""
        return isinstance(self.publish, str) and self.publish == AUTO

    @property
    def gives_points(self) -> bool:
        """Has the user chosen them?"""
        return not isinstance(self.publish, (str, int, float, np.number))


# --- what is read, checked --------------------------------------------------------------------


def library(name: str) -> Any:
    """Imported only now: who passes a model of it has it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as absent:
        raise ModuleNotFoundError(f"from_{name}: {absent}; {install(name)}") from None


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
    source: Source, Z: Tensor, mu: Tensor, S: Tensor, *, whitened: bool, rows: int, evidence: float = 0.0
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
    latent = Latent(site, source.kernel, source.mean, len(X), float(base.jitter))
    return _module(source, "collapsed", latent, _origin(Z, X))


def exact(source: Source, X: Tensor, y: Tensor, noise: Tensor | float, request: Request) -> Module:
    """Observations of f with variance `noise`, of each row or of all, published at the user's points or at no rows."""
    return observed(source, Observations(X, y, torch.zeros_like(y) + noise, y.new_zeros(())), request, len(X), "exact")


def observed(source: Source, data: Observations, request: Request, rows: int, method: str) -> Module:
    """Any Gaussian observations of f, which stand for so many rows: its exact posterior, marginalised to points."""
    if request.publish is None:
        raise RecycleGPError(
            "publish=None: this model has no inducing points to publish at; pass a number or points (its own rows "
            "are never shared unless you pass them)"
        )
    kernel, mean = source.kernel, source.mean
    wanted = share_of_import(request.publish)
    data = _distinct(data)
    noise = float(data.variance.min())
    total = _information(data, kernel)
    D = data.X.shape[1]
    points = wanted or arrays.count_or_points(request.publish, "publish", D, source.columns, "cpu")
    if not isinstance(points, Tensor):
        entropy = placement.entropy(request.seed, data.X, data.value)
        points = import_points.place(_deciding(data, entropy), data.X, kernel, points, entropy)
        jitter = 0.0  # they are placed so that they need none, and the new points begin with that of the rows
    else:
        jitter = min(RELATIVE_JITTER * float(kernel.diagonal(data.X).mean()), 0.5 * noise)
    here = _site(data, jitter)
    published = publishing.publish(here, jitter, kernel, mean, points)
    if wanted is not None:
        enough = _enough(published, kernel, mean, total, wanted.kept)
        published = publishing.publish(here, jitter, kernel, mean, points[:enough])
    if published.jitter >= noise:
        raise _too_close(len(points), published.jitter, f"the noise of {noise:.2g}", ", or fit with a larger noise")
    kept = min(1.0, max(1e-12, published.information / total)) if total > 1e-12 else 1.0
    if request.automatic and kept < IMPORTED.kept * (1 - 1e-6):
        _warn_about_little_kept(source.name, kept, len(published.site.Z))
    if not request.gives_points and len(published.site.Z) > len(data.X):
        _warn_about_rows(source.name, len(published.site.Z), rows)
    origin = _origin(published.site.Z, data.X) if request.gives_points else Origin.PLACED
    return _module(source, method, Latent(published.site, kernel, mean, rows, published.jitter, kept=kept), origin)


def _warn_about_little_kept(name: str, kept: float, points: int) -> None:
    warn_user(
        f"{name} keeps {100 * kept:.3g}% of what the model says about f at {points} points, and predicts something "
        "else than it near its rows; pass more of them, as ",
        Argument("publish", 2 * points),
        ", or its rows where these may be shared",
        category=LittleKeptWarning,
    )


def _warn_about_rows(name: str, points: int, rows: int) -> None:
    warn_user(
        f"{name} has {points} points for {rows} rows: none of them is a row, but inputs and outcomes of all rows can "
        "be computed from so many; where they may not be shared, pass ",
        Argument("publish", max(1, rows // 2)),
        ", which keeps less",
        category=PrivacyWarning,
    )


def _origin(Z: Tensor, X: Tensor) -> Origin:
    """Of points that somebody else chose for these rows."""
    return Origin.ROWS if bool(is_row(Z, X).any()) else Origin.UNKNOWN


def _module(source: Source, method: str, latent: Latent, origin: Origin) -> Module:
    ended = Convergence(True, 0, f"{source.title} fitted elsewhere")
    about = About(source.name, method=method, columns=source.columns, origin=origin)
    return Module(about, (source.likelihood,), (latent._replace(convergence=ended),))


def published(module: Module, request: Request) -> Module:
    """As it is, or as `module.publish`; points that need more jitter than the source's own would blur what it knew."""
    if request.automatic:
        return module
    where = arrays.count_or_points(request.publish, "publish", module.dimension, module.columns, "cpu")
    moved = module.publish(where, request.seed)
    if moved.jitter > module.jitter:
        raise _too_close(len(moved.inducing), moved.jitter, f"the model's own of {module.jitter:.2g}")
    return moved


def _too_close(points: int, jitter: float, most: str, remedy: str = "") -> RecycleGPError:
    words = f"publish: {points} points so close together need a jitter of {jitter:.2g}"
    return RecycleGPError(f"{words}, above {most}; publish at fewer points{remedy}")


# --- rows, as an exact posterior sees them ----------------------------------------------------


def _deciding(data: Observations, entropy: list[int]) -> Known:
    """Those by which points are chosen: all, unless they are very many."""
    some = np.random.default_rng(entropy).permutation(len(data.X))[: IMPORTED.rows_seen]
    return Known(data.X[some], torch.diag(data.variance[some].rsqrt()))


def _information(data: Observations, kernel: Kernel) -> float:
    """½logdet(I + K_XX/s²): nats that the observations say about f."""
    root = data.variance.rsqrt()
    K = root[:, None] * kernel.matrix(data.X, data.X) * root[None, :]
    return float(linalg.logdet(linalg.cholesky(torch.eye(len(root), dtype=K.dtype) + K).L))


def _enough(published: PublishedSite, kernel: Kernel, mean: float, total: float, kept: float) -> int:
    """How many of the points, in their order, keep such a share of all nats."""
    site = published.site
    rows = to_rows(site, basis(kernel, site.Z, published.jitter).L, mean)
    left = torch.tensor(total - published.information, dtype=torch.float64)
    return int(information(rows, left).needed(kept))


def _site(data: Observations, jitter: float) -> Site:
    """The observations as a site at their own rows: Rᵀ = diag(1/s), ρ = value/s.

    The jitter of a row is part of f there, so the noise s² is less by as much.
    """
    root = (data.variance - jitter).rsqrt()
    e = data.constant + (root.log() - 0.5 * math.log(2 * math.pi)).sum()
    return Site(data.X, torch.diag(root), root * data.value, e)


def _distinct(data: Observations) -> Observations:
    """Several observations of one f(x) as one: precisions add, and what they disagree by goes into the constant."""
    X, place = torch.unique(data.X, dim=0, return_inverse=True)
    if len(X) == len(data.X):
        return data

    def total(t: Tensor) -> Tensor:
        return t.new_zeros(len(X)).index_add(0, place, t)

    variance = 1 / total(1 / data.variance)
    value = variance * total(data.value / data.variance)
    apart = log_normal(data.value - value[place], data.variance).sum() - log_normal(0 * value, variance).sum()
    return Observations(X, value, variance, data.constant + apart)
