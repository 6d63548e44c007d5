"""A rival who sees all rows in one place and knows whose they are: a GP, with a constant for each owner integrated out.

    y_i = m + f(x_i) + b_k + ε_i,    b_k ~ N(0, σ_b²),    ε_i ~ N(0, σ²)

with f at inducing points; at all distinct inputs it is exact. With a linear f it is `mixed_linear`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..baselines.rival import Parts
from ..core import linalg, optimiser
from ..kernels import Kernel
from ..likelihoods import Gaussian, Likelihood
from ..models.fit import fit

JITTER = 1e-6  # of the kernel's variance
LEARNED = 200  # points at which hyperparameters are learned, where the posterior has more
WIDTH = math.log(1e4)  # how far from its beginning a parameter may go


class _Rows(NamedTuple):
    X: Tensor  # (n, D)
    y: Tensor  # (n,)
    owner: Tensor  # (n,)
    size: Tensor  # (K,) rows of each owner

    def of_owners(self, values: Tensor) -> Tensor:
        """(K, …): sums over each owner's rows of (n, …)."""
        return values.new_zeros(len(self.size), *values.shape[1:]).index_add(0, self.owner, values)

    def whitened(self, values: Tensor, noise: Tensor, offset: Tensor) -> Tensor:
        """N^{-1/2} v with N = σ²I + σ_b²11ᵀ in the block of each owner: (v − c_k v̄_k)/σ."""
        c = 1 - (noise / (noise + self.size * offset)).sqrt()
        return (values - ((c / self.size)[:, None] * self.of_owners(values))[self.owner]) / noise.sqrt()


class _Solved(NamedTuple):
    bound: Tensor  # of log p(y), at the best mean
    mean: Tensor
    L: Tensor  # of K_ZZ
    B: Tensor  # factor of I + Φ̃ᵀΦ̃
    weights: Tensor  # (M,) E[v], where f = φ(x)ᵀv


@dataclass(frozen=True)
class Intercepts:
    """A GP with a constant for each owner."""

    kernel: Kernel
    noise: float
    offset: float  # σ_b²
    Z: Tensor
    _rows: _Rows
    _solved: _Solved

    def seen_by(self, k: int) -> SeenBy:
        return SeenBy(self, k)

    @torch.no_grad()
    def predict(self, X: Any, k: int) -> tuple[Any, Any]:
        """f + b_k: given v, b_k has mean s Σ_i(y_i − m − φ_iᵀv), s = σ_b²/(σ² + n_kσ_b²), and variance sσ²."""
        _, mean, L, B, weights = self._solved
        points = arrays.aligned(X, self.Z.shape[1], None)
        own = self._rows.owner == k
        s = self.offset / (self.noise + int(own.sum()) * self.offset)
        Phi = _features(self.kernel, L, self.Z, points)
        a = Phi - s * _features(self.kernel, L, self.Z, self._rows.X[own]).sum(0)
        level = mean + s * (self._rows.y[own] - mean).sum()
        unknown = self.kernel.diagonal(points) - Phi.square().sum(1)
        variance = unknown.clamp_min(0) + linalg.solve_lower(B, a.mT).square().sum(0) + s * self.noise
        return arrays.like(X, level + a @ weights), arrays.like(X, variance)


class SeenBy(NamedTuple):
    """The model, asked for the function of owner k."""

    model: Intercepts
    owner: int

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        return (Gaussian(self.model.noise),)

    def predict(self, X: Any) -> tuple[Any, Any]:
        return self.model.predict(X, self.owner)


def gp(parts: Parts, *, inducing: int | None = None, kernel: str = "rbf", seed: int = 0) -> Intercepts:
    """Begun at the kernel of a GP that does not know the owners; `inducing` None: at all distinct inputs."""
    rows = _gathered(parts)
    begun = fit(rows.X, rows.y, kernel=kernel, publish=1, seed=seed)
    start, noise = begun.kernel_spec, begun.likelihoods[0].parameters[0]
    distinct = rows.X.unique(dim=0)
    mixed = torch.as_tensor(np.random.default_rng(seed).permutation(len(distinct)))
    few = distinct[mixed[: min(inducing or LEARNED, LEARNED)]]
    p = len(start.theta)

    def parameters(x: Tensor) -> tuple[Kernel, Tensor, Tensor]:
        return start.with_theta(x[:p]), x[p].exp(), x[p + 1].exp()

    x0 = torch.cat([start.theta, start.theta.new_tensor([math.log(noise), math.log(0.1 * noise)])])
    found = optimiser.maximise_one(lambda x: _solve(rows, few, *parameters(x)).bound, [x0], x0 - WIDTH, x0 + WIDTH)
    with torch.no_grad():
        learned, sigma2, offset = parameters(found.x)
        Z = distinct if inducing is None else distinct[mixed[:inducing]]
        solved = _solve(rows, Z, learned, sigma2, offset)
    return Intercepts(learned, float(sigma2), float(offset), Z, rows, solved)


def _gathered(parts: Parts) -> _Rows:
    X, y = (torch.as_tensor(np.concatenate(t)) for t in zip(*parts, strict=True))
    size = torch.tensor([len(t) for _, t in parts], dtype=torch.float64)
    return _Rows(X, y, torch.arange(len(size)).repeat_interleave(size.long()), size)


def _features(kernel: Kernel, L: Tensor, Z: Tensor, X: Tensor) -> Tensor:
    """φ(x) = L⁻¹k(Z, x), one in each row."""
    return linalg.solve_lower(L, kernel.matrix(Z, X)).mT


def _solve(rows: _Rows, Z: Tensor, kernel: Kernel, noise: Tensor, offset: Tensor) -> _Solved:
    """log N(y; m, Q + N) − tr(K − Q)/2σ² at the best m.

    A lower bound of log p(y); the collapsed one, with tr N⁻¹(K − Q), is a little higher. Both are tight where Q = K.
    """
    K = kernel.matrix(Z, Z)
    L = linalg.cholesky(K + JITTER * K.diagonal().mean() * torch.eye(len(Z), dtype=K.dtype)).L
    raw = _features(kernel, L, Z, rows.X)
    Phi = rows.whitened(raw, noise, offset)
    both = rows.whitened(torch.stack([rows.y, torch.ones_like(rows.y)], 1), noise, offset)  # of y and of the mean
    B = linalg.cholesky(torch.eye(len(Z), dtype=K.dtype) + Phi.mT @ Phi).L
    t = linalg.solve_lower(B, Phi.mT @ both)
    G = both.mT @ both - t.mT @ t  # of (I + Φ̃Φ̃ᵀ)⁻¹
    mean = G[0, 1] / G[1, 1]
    log_noise = (rows.size * noise.log()).sum() + (1 + rows.size * offset / noise).log().sum()  # log|N|
    log_det = log_noise + 2 * B.diagonal().log().sum()
    lost = (kernel.diagonal(rows.X) - raw.square().sum(1)).sum() / noise
    quadratic = G[0, 0] - G[0, 1] ** 2 / G[1, 1]
    bound = -0.5 * (len(rows.y) * math.log(2 * math.pi) + log_det + quadratic + lost)
    weights = linalg.solve_upper(B, (t[:, 0] - mean * t[:, 1])[:, None])[:, 0]
    return _Solved(bound, mean, L, B, weights)


# --- a noise to agree upon --------------------------------------------------------------------


def within(parts: Parts) -> float:
    """Σ_k RSS_k / Σ_k (n_k − rank_k) of owners' own linear regressions: two numbers from each."""
    squares, degrees = 0.0, 0
    for X, y in parts:
        x = np.column_stack([np.ones(len(X)), X])
        left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        squares += float(left @ left)
        degrees += len(y) - int(np.linalg.matrix_rank(x))
    return squares / degrees
