"""GPflow's fitted models as modules.

A sparse model already is a q(u), under the very jitter GPflow added to K_uu; VGP is one at its own rows. GPR
and SGPR are conjugate, and their rows are summarised again in closed form. What cannot be represented is
refused by name. GPflow (and TensorFlow) is imported only when one of its models is passed in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .. import arrays
from ..errors import RecycleGPError
from ..likelihoods import Bernoulli, BernoulliProbit, Gaussian, Likelihood, Poisson, StudentT, gaussian_noise
from ..local.options import PublishLike
from ..local.planning import share
from ..models.module import Module
from ..models.naming import name_or_new
from . import sources
from .kernel_parts import Reader, Term, checked, product, total
from .sources import FittedModel, Request, Source

MODELS = "SVGP, SGPR, GPR or VGP"
KERNELS = (
    "sums and products of SquaredExponential, Matern12, Matern32, Matern52, Exponential, RationalQuadratic, "
    "Periodic (of a SquaredExponential), Linear and Constant"
)
LIKELIHOODS = "Gaussian, Bernoulli (inv_probit or tf.sigmoid), Poisson (tf.exp, binsize 1) and StudentT"


def from_gpflow(
    model: FittedModel,
    *,
    name: str | None = None,
    rows: int | None = None,
    publish: PublishLike = "auto",
    seed: int = 0,
) -> Module:
    """A fitted GPflow model as a module, ready to be saved, sent and merged.

    SVGP and SGPR predict what they predicted, GPR and VGP at the points where they are published, and everywhere
    if those are all their rows. The jitter is `gpflow.config.default_jitter()` at the time of the call: convert
    under the configuration the model was trained with. Where q(u) is wider than the prior, as in a fit that had
    not converged, a warning says so.

    Args:
        model: `SVGP` (whitened or not, q_diag or not), `SGPR`, `GPR` or `VGP`, with one latent GP and a constant or
            zero mean function. It is read, never changed.
        name: Unique within an ensemble; made up when not given.
        rows: Data rows behind an SVGP. By default its `num_data`, or else its number of points.
        publish: Number of points, or the points. With "auto", SVGP and SGPR keep their inducing points; of GPR
            and VGP, which have only their rows, the first gets as many as keep 99% of what these say, the second half
            as many as rows, none of them a row.
        seed: Of the automatic points.

    Returns:
        The module, in the units of the model's data.

    Raises:
        TypeError: The object is none of these models.
        ModuleNotFoundError: GPflow is not installed.
        RecycleGPError: A module cannot hold something in the model, which is named.

    Examples:
        >>> import gpflow, numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> gp = gpflow.models.GPR((X, np.sin(X)), gpflow.kernels.SquaredExponential(), noise_variance=0.01)
        >>> rgp.from_gpflow(gp, name="lab-2").rows
        30
    """
    gpflow = sources.library("gpflow")

    request = Request(publish, arrays.seed(seed))
    kind = type(model)
    if kind not in (gpflow.models.SVGP, gpflow.models.SGPR, gpflow.models.GPR, gpflow.models.VGP):
        raise TypeError(f"from_gpflow takes gpflow's {MODELS}, not {kind.__name__}")
    if int(model.num_latent_gps) != 1:
        raise RecycleGPError(f"model has {int(model.num_latent_gps)} latent GPs; convert one model for each")
    if kind is gpflow.models.GPR:
        X, y = sources.data_rows(*map(_array, model.data))
        source = _source(model, name, X.shape[1])
        return sources.exact(source, X, y, gaussian_noise(source.likelihood), request)
    if kind is gpflow.models.VGP:
        return _vgp(model, name, request)
    inducing = model.inducing_variable
    if type(inducing) is not gpflow.inducing_variables.InducingPoints:
        raise RecycleGPError(
            f"from_gpflow cannot represent {type(inducing).__name__}; a module's inducing variables are f at points "
            "(InducingPoints)"
        )
    Z = sources.inducing_points(_array(inducing.Z))
    source = _source(model, name, Z.shape[1])
    if kind is gpflow.models.SGPR:
        made = sources.collapsed(source, Z, *sources.data_rows(*map(_array, model.data)))
    else:
        known = None if model.num_data is None else int(_array(model.num_data))
        mu, S = _moments(model)
        made = sources.sparse(
            source, Z, mu, S, whitened=bool(model.whiten), rows=sources.row_count(rows, known, len(Z))
        )
    return sources.published(made, request)


def _vgp(model: Any, name: str | None, request: Request) -> Module:
    """An SVGP, whitened, whose inducing points are its rows (which may repeat: the jitter tells them apart)."""
    X, _ = sources.data_rows(*map(_array, model.data))
    mu, S = _moments(model)
    bound = float(_array(model.elbo()))
    made = sources.sparse(
        _source(model, name, X.shape[1]),
        X,
        mu,
        S,
        whitened=True,
        rows=len(X),
        evidence=bound if math.isfinite(bound) else 0.0,  # −∞ where tf.sigmoid rounds to 1
    )
    wanted = share(request.publish, len(X))
    return sources.published(made, request if wanted is None else request._replace(publish=wanted.most))


def _moments(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """q_mu (M, 1), and q_sqrt: the Cholesky factor (1, M, M), or the standard deviations (M, 1)."""
    root = sources.tensor(_array(model.q_sqrt), "q_sqrt")
    S = torch.diag(root[:, 0].square()) if root.ndim == 2 else root[0].tril() @ root[0].tril().mT
    return sources.tensor(_array(model.q_mu), "q_mu")[:, 0], S


def _source(model: Any, name: str | None, D: int) -> Source:
    import gpflow

    return Source(
        name_or_new(name),
        f"gpflow's {type(model).__name__}",
        checked(_term(model.kernel, D).kernel(), D),
        sources.constant_mean("from_gpflow", model.mean_function, gpflow.functions, lambda f: _array(f.c)),
        _likelihood(model.likelihood),
        float(gpflow.config.default_jitter()),
    )


def _array(value: Any) -> np.ndarray:
    """Of a Parameter, a variable, a tensor or a number."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _likelihood(p: Any) -> Likelihood:
    import tensorflow as tf
    from gpflow import likelihoods

    kind = type(p)
    if kind is likelihoods.Gaussian:
        return Gaussian(_parameter(p, "variance") if p.scale is None else _parameter(p, "scale") ** 2)
    if kind is likelihoods.StudentT:
        return StudentT(_parameter(p, "scale") ** 2, _parameter(p, "df"))
    if kind is likelihoods.Bernoulli and p.invlink is likelihoods.utils.inv_probit:
        return BernoulliProbit()
    if kind is likelihoods.Bernoulli and p.invlink in (tf.sigmoid, tf.nn.sigmoid, tf.math.sigmoid):
        return Bernoulli()
    if kind is likelihoods.Poisson and p.invlink is tf.exp and np.all(p.binsize == 1):
        return Poisson()
    what = kind.__name__
    if kind is likelihoods.Poisson and not np.all(p.binsize == 1):
        what = f"{what} with binsize={np.ravel(p.binsize).tolist()}"
    elif hasattr(p, "invlink"):
        what = f"{what} with invlink {getattr(p.invlink, '__name__', type(p.invlink).__name__)}"
    raise RecycleGPError(f"from_gpflow cannot represent the likelihood {what}; it can {LIKELIHOODS}")


def _parameter(likelihood: Any, which: str) -> float:
    value, what = getattr(likelihood, which), f"{type(likelihood).__name__}.{which}"
    if callable(value):
        raise RecycleGPError(f"from_gpflow cannot represent a {what} that is a function of x; use one number")
    return sources.positive_number(_array(value), what)


def _term(kernel: Any, D: int) -> Term:
    from gpflow import kernels as gk

    kind = type(kernel)
    if kind in (gk.Sum, gk.Product):
        parts = [_term(k, D) for k in kernel.kernels]
        return total(parts) if kind is gk.Sum else product(parts)
    names = {
        gk.SquaredExponential: "rbf",
        gk.Matern12: "matern12",
        gk.Exponential: "matern12",  # exp(−r/2): with twice the lengthscales
        gk.Matern32: "matern32",
        gk.Matern52: "matern52",
        gk.RationalQuadratic: "rq",
        gk.Periodic: "periodic",
        gk.Linear: "linear",
        gk.Constant: "constant",
    }
    shape = kernel.base_kernel if kind is gk.Periodic else kernel  # which has the variance and the lengthscales
    if kind not in names or (kind is gk.Periodic and type(shape) is not gk.SquaredExponential):
        what = f"Periodic of {type(shape).__name__}" if kind is gk.Periodic else kind.__name__
        raise RecycleGPError(f"from_gpflow cannot represent the kernel {what}; it can {KERNELS}")
    stretch = 2.0 if kind is gk.Exponential else 1.0

    def number(which: str) -> np.ndarray:
        return _array(getattr(shape if hasattr(shape, which) else kernel, which))

    return Reader("from_gpflow", kernel, D).term(names[kind], number, stretch)
