"""Attacks with outcomes: was (x, y) among the rows, and which y had somebody whose x is known?

A Gaussian module says λ = Σ v(x_i) (y_i − m)/variance about the whitened values at its points, and P, the sum of the
same v(x_i)v(x_i)ᵀ/variance. Given both, the y of a row is Gaussian, and so is that of a stranger:

    a row        N(m + vᵀP⁻¹λ,        σ² + q − vᵀP⁻¹v)
    a stranger   N(m + vᵀ(I+P)⁻¹λ,    σ² + q + vᵀ(I+P)⁻¹v)        v = L⁻¹k(Z, x),  q = k(x, x) − ‖v‖²

The first is what is left of the rows without the prior's pull towards its mean. No attack with these hyperparameters
does better on one row than the ratio of the two densities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata

from recyclegp import Module
from recyclegp.core import sites
from recyclegp.core.least_squares import CentredRows
from recyclegp.core.posterior import basis, features
from recyclegp.kernels.gpytorch_objects import from_gpytorch

CUTOFF = 1e-9  # of the largest singular value: below it there is rounding only
FLOOR = 1e-8  # of the noise: the least variance that a row's y is given
SURE = 50.0  # nats: as sure as one can be


class Beliefs(NamedTuple):
    """What an attacker believes about y at each x."""

    row: np.ndarray  # mean, if x is the x of a row
    row_variance: np.ndarray  # not positive where it cannot be one
    stranger: np.ndarray
    stranger_variance: np.ndarray


def beliefs(module: Module, X: np.ndarray, digits: int | None = None) -> Beliefs:
    """Of a Gaussian module, of whose numbers so many digits are known."""
    noise, inputs = float(module.noise), torch.as_tensor(X, dtype=torch.float64)
    kernel = from_gpytorch(module.kernel, module.dimension)
    base = basis(kernel, torch.as_tensor(module.inducing.copy()), module.jitter)
    said = sites.to_rows(module.site, base.L, module.mean)  # Hv ≈ ρ̃: P = HᵀH, λ = Hᵀρ̃
    V = features(base, inputs)
    q = (kernel.diagonal(inputs) - V.square().sum(0)).clamp_min(0).numpy()
    U, s, Wt = torch.linalg.svd(said.H, full_matrices=False)
    real = s > max(CUTOFF, 0.0 if digits is None else 10.0**-digits) * s[0]
    U, s, Wt = U[:, real], s[real], Wt[real]
    best = ((U.mT @ said.rho) / s)[None] @ (Wt @ V)  # vᵀP⁻¹λ
    left = ((Wt @ V) / s[:, None]).square().sum(0)  # vᵀP⁻¹v
    mean, variance = module.predict(_in_words(module, X))
    return Beliefs(
        module.mean + best[0].numpy(), noise + q - left.numpy(), np.asarray(mean), noise + np.asarray(variance)
    )


def _in_words(module: Module, X: np.ndarray) -> np.ndarray:
    """Codes of levels by their names; a code that has none is that of a level nobody has seen."""
    table = X.astype(object) if module.categories else X
    for column, names in module.categories.levels:
        table[:, column] = np.array([*names, "never seen"], dtype=object)[X[:, column].astype(int)]
    return table


def by_residual(believed: Beliefs, y: np.ndarray) -> np.ndarray:
    """The simplest score: how well the module predicts y."""
    return -((y - believed.stranger) ** 2) / believed.stranger_variance


def by_ratio(believed: Beliefs, y: np.ndarray, noise: float) -> np.ndarray:
    """log p(y | a row) − log p(y | a stranger)."""
    possible = believed.row_variance > -1e-6 * noise
    inside = _log_density(y, believed.row, np.maximum(believed.row_variance, FLOOR * noise))
    outside = _log_density(y, believed.stranger, believed.stranger_variance)
    return np.where(possible, np.clip(inside - outside, -SURE, SURE), -SURE)


def _log_density(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)


def by_score(module: Module, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(y − f(x)) v(x)ᵀ(v̂ − v̂_all): who is in the module has drawn it from what all on the list say to themselves."""
    said, V = _said(module, X)
    H, residual = V.mT / float(module.noise) ** 0.5, torch.as_tensor(y) - module.mean
    everybody = _mean(H, residual / float(module.noise) ** 0.5)
    return ((residual - V.mT @ everybody) * (V.mT @ (_mean(said.H, said.rho) - everybody))).numpy()


def by_precision(module: Module, X: np.ndarray) -> np.ndarray:
    """v(x)ᵀS⁻¹(P − S)S⁻¹v(x), with S = Σv(x)v(x)ᵀ over the list and P in its units: P has more of who is in it.

    P is a sum over the rows, and says as many numbers about them as there are pairs of points.
    """
    said, V = _said(module, X)
    S = V @ V.mT / V.shape[1]
    S = S + FLOOR * S.diagonal().mean() * torch.eye(len(S), dtype=S.dtype)
    P = said.H.mT @ said.H
    W = torch.linalg.solve(S, V)  # S⁻¹v(x)
    P = P * len(S) / torch.linalg.solve(S, P).diagonal().sum()
    return (W * ((P - S) @ W)).sum(0).numpy()


def _said(module: Module, X: np.ndarray) -> tuple[CentredRows, torch.Tensor]:
    """Hv ≈ ρ̃ as the module says, and v(x) of everybody."""
    kernel = from_gpytorch(module.kernel, module.dimension)
    base = basis(kernel, torch.as_tensor(module.inducing.copy()), module.jitter)
    return sites.to_rows(module.site, base.L, module.mean), features(base, torch.as_tensor(X, dtype=torch.float64))


def _mean(H: torch.Tensor, rho: torch.Tensor) -> torch.Tensor:
    """(I + HᵀH)⁻¹Hᵀρ."""
    return torch.linalg.solve(torch.eye(H.shape[1], dtype=H.dtype) + H.mT @ H, H.mT @ rho)


def by_shadows(statistics: np.ndarray, member: np.ndarray) -> np.ndarray:
    """LiRA: each module's statistics (K, N, F) of N people against those of the K − 1 others with and without them.

    People have means of their own, with and without; covariances (F, F) are common to all of them. A person who is in
    fewer than two of the others, or out of fewer than two, gets no score.
    """
    scores = np.zeros(member.shape)
    for sign, inside in ((1, member), (-1, ~member)):
        weight = inside[..., None].astype(float)
        count = weight.sum(0) - weight  # (K, N, 1) without the module itself
        others = (weight * statistics).sum(0) - weight * statistics
        away = statistics - others / np.maximum(count, 1)
        enough = (count[..., 0] > 1) & inside
        covariance = np.atleast_2d(np.cov(away[enough].T)) + 1e-12 * np.eye(statistics.shape[-1])
        explained = np.linalg.solve(covariance, away.reshape(-1, away.shape[-1]).T).T.reshape(away.shape)
        density = -0.5 * ((away * explained).sum(-1) + np.linalg.slogdet(covariance)[1])
        scores += sign * np.where(count[..., 0] > 1, density, 0.0)
    return scores


def auc(scores: np.ndarray, member: np.ndarray) -> float:
    """The chance that a member scores higher than somebody who is not: 0.5 is guessing."""
    ranks, inside = rankdata(scores.ravel()), member.ravel()
    n = int(inside.sum())
    return float((ranks[inside].sum() - n * (n + 1) / 2) / (n * (len(inside) - n)))


def auc_error(scores: np.ndarray, member: np.ndarray) -> float:
    """Standard error of the same, from how the modules differ."""
    each = [auc(own, inside) for own, inside in zip(scores, member, strict=True)]
    return float(np.std(each, ddof=1) / len(each) ** 0.5)


def caught(scores: np.ndarray, member: np.ndarray, wrongly: float = 0.01) -> float:
    """The share of members above a threshold that at most so many of the others exceed."""
    outside = np.sort(scores[~member])
    threshold = outside[len(outside) - 1 - int(wrongly * len(outside))]
    return float(np.mean(scores[member] > threshold))


def error(guess: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((guess - y) ** 2)))
