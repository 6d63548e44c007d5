"""scikit-learn's Gaussian processes → modules.

Both kinds keep their training rows, so nothing is fitted again: their posterior is written down as Gaussian
observations of f at those rows, and published by exact marginalisation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.nodes import Constant, Linear, Periodic, Product, RationalQuadratic, Stationary, Sum
from ..kernels.stationary import Form
from ..kernels.units import scaled
from ..likelihoods import Bernoulli, Gaussian, Likelihood
from ..local.options import PublishLike
from ..models.module import Module
from ..models.naming import name_or_new
from . import sources
from .kernel_parts import checked, compose, leaf
from .sources import FittedModel, Observations, Request, Source

REPRESENTED = (
    "sums and products of ConstantKernel, RBF, Matern (nu 0.5, 1.5, 2.5 or inf), RationalQuadratic, ExpSineSquared "
    "(one input column), DotProduct, and WhiteKernel in sums"
)
MATERN = {0.5: Form.MATERN12, 1.5: Form.MATERN32, 2.5: Form.MATERN52, math.inf: Form.RBF}  # by nu


def from_sklearn(gp: FittedModel, *, name: str | None = None, publish: PublishLike = "auto", seed: int = 0) -> Module:
    """A fitted GaussianProcessRegressor or binary GaussianProcessClassifier as a module.

    Regressors: exact. `normalize_y` becomes the prior mean and the units of the kernel; `alpha` and WhiteKernel
    become noise. `module.predict` is the function without noise: scikit-learn's variance less WhiteKernel's.
    The noise of a new y is WhiteKernel's plus the mean of `alpha`.

    Classifiers: what scikit-learn computed is Laplace's approximation, N(f̂, (K⁻¹ + W)⁻¹), and that Gaussian is
    taken over exactly. Class 1 of the module is `gp.classes_[1]`. Probabilities differ a little from
    `gp.predict_proba`, which approximates an integral that is computed here.

    Args:
        gp: Fitted. It is read, never kept or changed.
        name: Unique within an ensemble; made up when not given.
        publish: "auto" (as many points as keep 99% of what its rows say, spread over their region and none of them a
            row; from more of them than rows, of which a warning tells, the rows can be computed), a share to keep in
            place of 99%, a number of points, or the points themselves. There the module predicts what `gp` predicts,
            between them as well as so many points can; `publish=gp.X_train_` is exact everywhere, and shares the rows.
        seed: Of where automatic points go.

    Returns:
        The module, in the units of the data `gp` was fitted to.

    Raises:
        TypeError: The object is none of these two.
        RecycleGPError: It is not fitted, or a module cannot hold something in it, which is named.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> from sklearn.gaussian_process import GaussianProcessRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> gp = GaussianProcessRegressor(alpha=0.01).fit(X, np.sin(X[:, 0]))
        >>> rgp.from_sklearn(gp, name="lab-2").rows
        30
    """
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor

    if type(gp) not in (GaussianProcessRegressor, GaussianProcessClassifier):
        raise TypeError(
            f"from_sklearn takes a GaussianProcessRegressor or GaussianProcessClassifier, not {type(gp).__name__}"
        )
    regression = type(gp) is GaussianProcessRegressor
    if not hasattr(gp, "X_train_" if regression else "base_estimator_"):
        raise RecycleGPError(f"this {type(gp).__name__} is not fitted; call its fit(X, y) first")
    data, rows, kernel, mean, likelihood = (_regressor if regression else _classifier)(gp)
    columns = tuple(map(str, gp.feature_names_in_)) if hasattr(gp, "feature_names_in_") else None
    title = f"scikit-learn's {type(gp).__name__}"
    source = Source(name_or_new(name), title, kernel, mean, likelihood, 0.0, columns)
    request = Request(publish, arrays.seed(seed))
    return sources.observed(source, data, request, rows, "exact" if regression else "laplace")


class _Model(NamedTuple):
    """What such an object knows, in the units of y."""

    data: Observations
    rows: int
    kernel: Kernel
    mean: float
    likelihood: Likelihood


def _regressor(gp: Any) -> _Model:
    X = arrays.inputs(gp.X_train_, "gp.X_train_", device="cpu").X
    n, D = X.shape
    y = np.asarray(gp.y_train_, dtype=np.float64)
    if y.ndim == 2 and y.shape[1] > 1:
        raise RecycleGPError(
            f"from_sklearn cannot represent {y.shape[1]} outputs (y of shape {y.shape}); fit one regressor for each"
        )
    # y = mean + scale·g, where g is what the kernel and alpha speak of
    mean, scale = (float(np.ravel(t)[0]) for t in (gp._y_train_mean, gp._y_train_std))
    smooth, white = _kernel(gp.kernel_, D)
    noise = scale**2 * (white + np.broadcast_to(np.asarray(gp.alpha, dtype=np.float64), n))
    if not (noise > 0).all():
        raise RecycleGPError("from_sklearn cannot represent data without noise; fit with a positive alpha")
    data = Observations(X, _tensor(mean + scale * y.reshape(n)), _tensor(noise), X.new_zeros(()))
    return _Model(data, n, scaled(smooth, scale**2), mean, Gaussian(float(noise.mean())))


def _classifier(gp: Any) -> _Model:
    if gp.n_classes_ != 2:
        raise RecycleGPError(
            f"from_sklearn cannot represent {gp.n_classes_} classes; fit one classifier for each class against the rest"
        )
    laplace = gp.base_estimator_
    X = arrays.inputs(laplace.X_train_, "gp.X_train_", device="cpu").X
    n, D = X.shape
    smooth, white = _kernel(laplace.kernel_, D)
    if white > 0:
        raise RecycleGPError(
            "from_sklearn cannot represent WhiteKernel in a classifier: its latent noise belongs to each "
            "observation, not to f; fit without it"
        )
    smooth = scaled(smooth, 1.0)  # with an amplitude, as our own have
    pi, label = _tensor(laplace.pi_), _tensor(laplace.y_train_)
    pull = label - pi  # ∇ log p(y|f)
    f = smooth.matrix(X, X) @ pull  # f̂ = K ∇ log p(y|f̂)
    W = _tensor(laplace.W_sr_).square()
    # log p(y|f) ≈ log p(y|f̂) + ∇(f − f̂) − ½W(f − f̂)²: an observation f̂ + ∇/W with variance 1/W
    says = W > 1e-300  # a row that says nothing any more would be an infinite variance
    variance, value = 1 / W[says], f[says] + pull[says] / W[says]
    constant = torch.nn.functional.logsigmoid((2 * label - 1) * f).sum()
    constant = constant + 0.5 * (pull[says].square() * variance + (2 * math.pi * variance).log()).sum()
    data = Observations(X[says], value, variance, constant)
    return _Model(data, n, smooth, 0.0, Bernoulli())


def _tensor(values: Any) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.float64))


# --- kernels ----------------------------------------------------------------------------------


def _kernel(kernel: Any, D: int) -> tuple[Kernel, float]:
    smooth, noise = _parts(kernel, D)
    if smooth is None:
        raise RecycleGPError(f"from_sklearn cannot represent the kernel {kernel}: it is only noise")
    return checked(smooth, D), noise


def _parts(kernel: Any, D: int) -> tuple[Kernel | None, float]:
    """Its smooth part and its noise: smooth + noise·[x is x']."""
    from sklearn.gaussian_process import kernels as sk

    if type(kernel) is sk.WhiteKernel:
        return None, float(kernel.noise_level)
    if type(kernel) not in (sk.Sum, sk.Product):
        return _leaf(kernel, D), 0.0
    (a, noise_a), (b, noise_b) = (_parts(part, D) for part in (kernel.k1, kernel.k2))
    if type(kernel) is sk.Sum:
        smooth = [k for k in (a, b) if k is not None]
        return compose(Sum, smooth) if smooth else None, noise_a + noise_b
    for factor, rest, noise in ((kernel.k1, b, noise_b), (kernel.k2, a, noise_a)):
        if type(factor) is sk.ConstantKernel:
            times = _number(factor, "constant_value")
            return None if rest is None else scaled(rest, times), times * noise
    if a is None or b is None or noise_a > 0 or noise_b > 0:
        raise RecycleGPError(f"from_sklearn cannot represent WhiteKernel in the product {kernel}; add it instead")
    return compose(Product, [a, b]), 0.0


def _leaf(kernel: Any, D: int) -> Kernel:
    from sklearn.gaussian_process import kernels as sk

    kind = type(kernel)
    if kind is sk.ConstantKernel:
        return leaf(Constant(), [_number(kernel, "constant_value")])
    if kind is sk.RBF or (kind is sk.Matern and kernel.nu in MATERN):
        lengths = _numbers(kernel, "length_scale")
        return leaf(Stationary(Form.RBF if kind is sk.RBF else MATERN[kernel.nu], len(lengths)), lengths)
    if kind is sk.RationalQuadratic:
        return leaf(RationalQuadratic(1), [_number(kernel, "length_scale"), _number(kernel, "alpha")])
    if kind is sk.ExpSineSquared and D == 1:
        # exp(−2 sin²(π|x − x'|/p)/ℓ²), and ours does not square its lengthscale
        return leaf(Periodic(1), [_number(kernel, "length_scale") ** 2, _number(kernel, "periodicity")])
    if kind is sk.DotProduct:
        linear = leaf(Linear(1, D), [1.0])
        if kernel.sigma_0 == 0:
            return linear
        return compose(Sum, [linear, leaf(Constant(), [_number(kernel, "sigma_0") ** 2])])
    what = kind.__name__
    if kind is sk.Matern:
        what = f"Matern with nu={kernel.nu}"
    elif kind is sk.ExpSineSquared:
        what = f"ExpSineSquared over {D} input columns"
    raise RecycleGPError(f"from_sklearn cannot represent {what}; it can {REPRESENTED}")


def _numbers(kernel: Any, parameter: str) -> list[float]:
    """One positive number, or one for each column."""
    values = [float(v) for v in np.ravel(getattr(kernel, parameter))]
    if not all(0 < v < math.inf for v in values):
        shown = "/".join(map(str, values))
        raise RecycleGPError(f"from_sklearn cannot represent {type(kernel).__name__} with {parameter}={shown}")
    return values


def _number(kernel: Any, parameter: str) -> float:
    (value,) = _numbers(kernel, parameter)
    return value
