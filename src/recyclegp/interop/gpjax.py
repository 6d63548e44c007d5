"""GPJax's fitted models as modules.

Every variational family is a q(u) in parameters of its own, under the jitter of its prior; conjugate models are
conditioned on a `Dataset` again, in closed form. What cannot be represented is refused by name. GPJax (and JAX)
is imported only when one of its models is passed in, and none of its numerics are run: parameters are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..core import linalg
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..likelihoods import BernoulliProbit, Gaussian, Likelihood, Poisson, StudentT, gaussian_noise
from ..local.options import PublishLike
from ..models.module import Module
from ..models.naming import name_or_new
from . import sources
from .kernel_parts import Reader, Term, checked, product, total
from .sources import FittedModel, Request, Source

Dataset: TypeAlias = Any  # gpjax.Dataset

FAMILIES = (
    "VariationalGaussian",
    "WhitenedVariationalGaussian",
    "DualVariationalGaussian",
    "NaturalVariationalGaussian",  # this one and the next until GPJax 0.18
    "ExpectationVariationalGaussian",
)
CONJUGATE = ("ConjugateModel", "ConjugatePosterior")  # since GPJax 1.0, and until 0.18
COLLAPSED = "CollapsedVariationalGaussian"
KERNELS = (
    "sums and products of RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Linear and Constant, with "
    "dense computation"
)
LIKELIHOODS = "Gaussian, Bernoulli, Poisson and StudentT"


def from_gpjax(
    model: FittedModel,
    data: Dataset | None = None,
    *,
    name: str | None = None,
    rows: int | None = None,
    publish: PublishLike = "auto",
    seed: int = 0,
) -> Module:
    """A fitted GPJax model as a module, ready to be saved, sent and merged.

    A family's module predicts what it predicted, a conjugate model's at the points where it is published, and
    everywhere if those are all its rows. GPJax adds its jitter to the variance of every prediction as well; the
    module does not. Where q(u) is wider than the prior, as in a fit that had not converged, a warning says so.

    Args:
        model: A variational family (`VariationalGaussian`, `WhitenedVariationalGaussian`,
            `DualVariationalGaussian`, `CollapsedVariationalGaussian`; of GPJax before 1.0 also the natural and
            expectation ones), a conjugate model (`prior * Gaussian()`), or the posterior it was conditioned to. One
            output, constant or zero mean function. It is read, never changed.
        data: The `Dataset`; needed by conjugate models and the collapsed family, which keep none.
        name: Unique within an ensemble; made up when not given.
        rows: Data rows behind a variational family. By default those of `data`, or else its number of points.
        publish: Number of points, or the points. With "auto", a variational family keeps its inducing points; a
            conjugate model, which has only rows, gets as many as keep 99% of what these say, none of them a row.
        seed: Of the automatic points.

    Returns:
        The module, in the units of the model's data.

    Raises:
        TypeError: The object is none of these models.
        ModuleNotFoundError: GPJax is not installed.
        RecycleGPError: A module cannot hold something in the model, which is named, or `data` is missing.

    Examples:
        >>> import gpjax, jax.numpy as jnp, recyclegp as rgp
        >>> X = jnp.linspace(0, 6, 30)[:, None]
        >>> prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=gpjax.kernels.RBF())
        >>> gp = prior * gpjax.likelihoods.Gaussian(obs_stddev=0.1)
        >>> rgp.from_gpjax(gp, gpjax.Dataset(X, jnp.sin(X)), name="lab-2").rows
        30
    """
    gpjax = sources.library("gpjax")

    request = Request(publish, arrays.seed(seed))
    model, data = _opened(gpjax, model, data)
    seen = None if data is None else _rows(data)
    if _is(model, gpjax.gps, *CONJUGATE):
        X, y = _needed(seen, model)
        source = _source(model, model, name, X.shape[1])
        # K_XX + jitter + σ² is factored: of an observation, not of f, the jitter is noise
        return sources.exact(source, X, y, gaussian_noise(source.likelihood) + source.jitter, request)
    if not _is(model, gpjax.variational_families, *FAMILIES, COLLAPSED):
        raise TypeError(
            f"from_gpjax takes one of {', '.join((*FAMILIES, COLLAPSED))}, a conjugate model or its posterior, not "
            f"{type(model).__name__}"
        )
    Z = sources.inducing_points(_array(model.inducing_inputs))
    source = _source(model, model.model if hasattr(model, "model") else model.posterior, name, Z.shape[1])
    if type(model).__name__ == COLLAPSED:
        made = sources.collapsed(source, Z, *_needed(seen, model))
    else:
        q = _moments(model, source, Z)
        behind = sources.row_count(rows, None if seen is None else len(seen[0]), len(Z))
        made = sources.sparse(source, Z, q.mu, q.S, whitened=q.whitened, rows=behind)
    return sources.published(made, request)


def _is(model: Any, home: ModuleType, *names: str) -> bool:
    """Is it of the very class of one of these names, of which this version of GPJax may not have all?"""
    return type(model).__name__ in names and type(model) is getattr(home, type(model).__name__, None)


def _opened(gpjax: ModuleType, model: Any, data: Any) -> tuple[Any, Any]:
    """A posterior is a model and, where it is exact, the data it was conditioned on."""
    home = getattr(gpjax, "conditioning", None)  # since GPJax 1.0
    if home is None:
        return model, data
    if type(model) is home.SparsePosterior:
        return model.family, data
    if type(model) is home.ExactPosterior:
        if data is not None and data is not model.train_data:
            raise RecycleGPError("data is not what the posterior was conditioned on; leave it out")
        return gpjax.gps.construct_model(model.prior, model.likelihood), model.train_data
    if type(model) is home.CollapsedPosterior:
        raise TypeError("from_gpjax takes a CollapsedVariationalGaussian and its data, not the CollapsedPosterior")
    return model, data


def _rows(data: Any) -> tuple[Tensor, Tensor]:
    if getattr(data, "X", None) is None or getattr(data, "y", None) is None:
        raise TypeError(f"data must be a gpjax Dataset with X and y, not {type(data).__name__}")
    return sources.data_rows(data.X, data.y)


def _needed(seen: tuple[Tensor, Tensor] | None, model: Any) -> tuple[Tensor, Tensor]:
    if seen is None:
        raise RecycleGPError(f"{type(model).__name__} keeps no rows; pass the Dataset it was fitted to as data=")
    return seen


def _array(parameter: Any) -> np.ndarray:
    """The constrained value of a parameter, as GPJax itself would use it."""
    from paramax import unwrap  # GPJax keeps its parameters in it

    return np.asarray(unwrap(parameter))


# --- q(u) -------------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Of u − m1, or of v where u = m1 + Lv."""

    mu: Tensor
    S: Tensor
    whitened: bool


def _moments(model: Any, source: Source, Z: Tensor) -> Moments:
    kind = type(model).__name__
    if kind == "DualVariationalGaussian":
        # t(ũ) = exp(λᵀũ − ½ũᵀΛũ): in whitened coordinates S = (I + LᵀΛL)⁻¹, μ = S Lᵀλ
        L = linalg.cholesky(source.kernel.matrix(Z, Z), source.jitter).L
        vector, matrix = _read(model, "dual_vector")[:, 0], _read(model, "dual_matrix")
        precision = torch.eye(len(Z), dtype=L.dtype) + L.mT @ matrix @ L
        return Moments(*_natural(precision, L.mT @ vector), whitened=True)
    if kind == "NaturalVariationalGaussian":
        vector, matrix = _read(model, "natural_vector")[:, 0], _read(model, "natural_matrix")
        mu, S = _natural(-2 * matrix + source.jitter * torch.eye(len(Z), dtype=Z.dtype), vector)
    elif kind == "ExpectationVariationalGaussian":
        mu, matrix = _read(model, "expectation_vector")[:, 0], _read(model, "expectation_matrix")
        S = matrix - mu[:, None] * mu + source.jitter * torch.eye(len(Z), dtype=Z.dtype)
    else:
        mu, root = _read(model, "variational_mean")[:, 0], _read(model, "variational_root_covariance")
        S = root @ root.mT
        if kind == "WhitenedVariationalGaussian":
            return Moments(mu, S, whitened=True)
    return Moments(mu - source.mean, S, whitened=False)


def _read(model: Any, parameter: str) -> Tensor:
    return sources.tensor(_array(getattr(model, parameter)), parameter)


def _natural(precision: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """(Sλ, S) with S = (CCᵀ)⁻¹ = WᵀW, W = C⁻¹."""
    C = linalg.cholesky(0.5 * (precision + precision.mT)).L
    W = linalg.solve_lower(C, torch.eye(len(C), dtype=C.dtype))
    return W.mT @ (W @ vector), W.mT @ W


# --- what all have ----------------------------------------------------------------------------


def _source(model: Any, joint: Any, name: str | None, D: int) -> Source:
    from gpjax import mean_functions

    prior = joint.prior
    jitter = getattr(model, "jitter", None)  # the model's own until GPJax 0.18, the prior's since 1.0
    return Source(
        name_or_new(name),
        f"gpjax's {type(model).__name__}",
        _kernel(prior.kernel, D),
        sources.constant_mean("from_gpjax", prior.mean_function, mean_functions, lambda f: _array(f.constant)),
        _likelihood(joint.likelihood),
        float(prior.jitter if jitter is None else jitter),
    )


def _likelihood(p: Any) -> Likelihood:
    from gpjax import likelihoods

    if type(p) is likelihoods.Gaussian:
        return Gaussian(sources.positive_number(_array(p.obs_stddev), "Gaussian.obs_stddev") ** 2)
    if _is(p, likelihoods, "StudentT"):
        scale = sources.positive_number(_array(p.scale), "StudentT.scale")
        return StudentT(scale**2, sources.positive_number(_array(p.degrees_of_freedom), "StudentT.degrees_of_freedom"))
    if type(p) is likelihoods.Bernoulli:
        return BernoulliProbit()
    if type(p) is likelihoods.Poisson:
        return Poisson()
    raise RecycleGPError(f"from_gpjax cannot represent the likelihood {type(p).__name__}; it can {LIKELIHOODS}")


# --- kernels ----------------------------------------------------------------------------------


def _kernel(kernel: Any, D: int) -> Kernel:
    engine = type(kernel.compute_engine).__name__
    if engine != "DenseKernelComputation":
        raise RecycleGPError(f"from_gpjax cannot represent {type(kernel).__name__} with {engine}; it can {KERNELS}")
    return checked(_term(kernel, D).kernel(), D)


def _term(kernel: Any, D: int) -> Term:
    from gpjax import kernels as gk

    composed = _composition(kernel)
    if composed is not None:
        return composed([_term(k, D) for k in kernel.kernels])
    names = {
        gk.RBF: "rbf",
        gk.Matern12: "matern12",
        gk.Matern32: "matern32",
        gk.Matern52: "matern52",
        gk.RationalQuadratic: "rq",
        gk.Periodic: "periodic",
        gk.Linear: "linear",
        gk.Constant: "constant",
    }
    kind = names.get(type(kernel))
    if kind is None:
        raise RecycleGPError(f"from_gpjax cannot represent the kernel {type(kernel).__name__}; it can {KERNELS}")
    theirs = {"lengthscales": "lengthscale"} if kind != "constant" else {"variance": "constant"}
    return Reader("from_gpjax", kernel, D).term(kind, lambda which: _array(getattr(kernel, theirs.get(which, which))))


def _composition(kernel: Any) -> Callable[[Sequence[Term]], Term] | None:
    """Is it a sum or a product? Classes since GPJax 1.0, one class with an operator until 0.18."""
    import jax.numpy as jnp
    from gpjax import kernels as gk
    from gpjax.kernels.base import CombinationKernel

    if type(kernel) is CombinationKernel:
        return {jnp.sum: total, jnp.prod: product}.get(kernel.operator)
    return {gk.SumKernel: total, gk.ProductKernel: product}.get(type(kernel))
