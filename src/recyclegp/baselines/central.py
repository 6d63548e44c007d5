"""Models that see everybody's rows in one place: what is lost by not collecting the data is counted from here.

All rows leave their owners. `exact` is the GP itself where it fits; `sparse` is the library's own
central model (SGPR for Gaussian data, SVGP in its dual form otherwise), the fair comparison for a merge
with as many points; `svgp` is GPyTorch's, with stochastic optimisation, as most people would fit it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..errors import RecycleGPError
from ..local.request import Method
from ..models.fit import fit
from .committee import Prior, condition
from .rival import ROWS, Part, Parts, Rival, Sent, checked, for_hyperparameters, rows_bytes, together
from .svgp import Training, train

EXACT_ROWS = 12_000  # K_XX and its factor: 2.3 GB


def exact(parts: Parts, *, kernel: Any = "rbf", rows: int = ROWS, seed: int = 0) -> Rival:
    """The exact GP given every row, its hyperparameters learned on at most `rows` of them."""
    data = checked(parts, "gaussian")
    X, y = together(data)
    if len(y) > EXACT_ROWS:
        raise RecycleGPError(f"an exact GP on {len(y)} rows does not fit; at most {EXACT_ROWS}, or use sparse")
    few = torch.as_tensor(np.random.default_rng(arrays.seed(seed)).permutation(len(y))[:rows])
    with for_hyperparameters():
        m = fit(X[few], y[few], method="exact", kernel=kernel, publish=1, seed=seed)
    expert = condition(Prior(m.kernel_spec, m.mean, m.likelihoods[0].parameters[0]), X, y)
    return Rival("exact GP", lambda points: expert(points)[:2], m.likelihoods, Sent(rows_bytes(data)), X.shape[1])


def sparse(
    parts: Parts, *, inducing: Any, likelihood: str = "gaussian", kernel: Any = "rbf", seed: int = 0, **options: Any
) -> Rival:
    """The library's own central model at these inducing points, nothing published away."""
    data = checked(parts, likelihood)
    method = Method.COLLAPSED if likelihoods.named(likelihood).conjugate else Method.DUAL
    X, y = together(data)
    m = fit(
        X,
        y,
        method=method.value,
        likelihood=likelihood,
        kernel=kernel,
        inducing=inducing,
        publish=None,
        seed=seed,
        **options,
    )
    name = "SGPR" if method is Method.COLLAPSED else "SVGP (dual)"
    return Rival(name, m.predict, m.likelihoods, Sent(rows_bytes(data)), X.shape[1])


def svgp(
    parts: Parts,
    *,
    inducing: int,
    likelihood: str = "gaussian",
    kernel: str = "rbf",
    training: Training | None = None,
    seed: int = 0,
) -> Rival:
    """GPyTorch's SVGP: learned inducing inputs, whitened q(u), mini-batches.

    Trained in standardised units, from the hyperparameters of a small fit to a subset of the rows and
    inducing inputs spread over the data: a better start than GPyTorch's own, which knows no units.
    """
    data = checked(parts, likelihood)
    X, y = together(data)
    x_unit = X.std(0, correction=0)
    x_unit, x_zero = torch.where(x_unit > 0, x_unit, torch.ones_like(x_unit)), X.mean(0)
    measured = likelihoods.named(likelihood).has_units  # counts and classes have none
    unit = (float(y.std(correction=0)) or 1.0) if measured else 1.0
    zero = float(y.mean()) if measured else 0.0
    standard = Part((X - x_zero) / x_unit, (y - zero) / unit)
    trained = train(standard, inducing, likelihood, kernel, training or Training(), arrays.seed(seed))

    def latent(points: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = trained.latent((points - x_zero) / x_unit)
        return zero + unit * mean, unit**2 * variance

    found = trained.likelihood.in_units(unit, zero)
    return Rival("SVGP (GPyTorch)", latent, (found,), Sent(rows_bytes(data)), X.shape[1])
