"""Prior and pseudo-observations → predictive: the ONE conditional used by module, ensemble and update.

A jitter ε added to K_** is part of the kernel: k(x, x') + ε·[x is x']. It must therefore also be
added wherever one of the points Z_* meets itself in another set of inducing points (`SharedPoints`), or a
slack is invented out of nothing. Predictions are of the smooth part of f, where it is not added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..devices import memory_factor
from ..kernels import Kernel
from . import linalg
from .effects import NO_EFFECTS, Effects

POINTS = 8192  # predicted at once,
FEATURES = 2**20  # and on a GPU so many numbers, times the memory factor


class Basis(NamedTuple):
    """The values of f ~ GP(m, k) at Z_*, whitened: u_* = m1 + Lv with v ~ N(0, I).

    With leading axes, as many of them side by side; `real` then says which points are not padding.
    """

    kernel: Kernel
    Z: Tensor  # (…, M, D)
    L: Tensor  # (…, M, M)
    jitter: Tensor  # (…)
    real: Tensor | None = None  # (…, M) bool
    effects: Effects = NO_EFFECTS  # by which owners' own functions depart from f

    def map(self, change: Callable[[Tensor], Tensor]) -> Basis:
        """Every tensor in it changed in the same way."""
        kernel = self.kernel.with_theta(change(self.kernel.theta))
        real = None if self.real is None else change(self.real)
        return Basis(kernel, change(self.Z), change(self.L), change(self.jitter), real, self.effects)


def basis(
    kernel: Kernel,
    Z: Tensor,
    jitter: Tensor | float | None = None,
    real: Tensor | None = None,
    effects: Effects = NO_EFFECTS,
) -> Basis:
    """LLᵀ = K_** + εI; without a given jitter the smallest relative one that succeeds."""
    K = kernel.matrix(Z, Z)
    if jitter is None:
        jitter = linalg.RELATIVE_JITTER * K.diagonal(dim1=-2, dim2=-1).mean(-1)  # differentiable, as it grows with K
    if real is not None:  # a point of padding is worth nothing: independent of all others, and of f
        identity = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
        K = torch.where(real[..., :, None] & real[..., None, :], K, identity)
    L, added = linalg.cholesky(K, jitter)
    return Basis(kernel, Z, L, added, real, effects)


def extended(base: Basis, Z: Tensor) -> Basis:
    """With more points behind its own: as many of these, from the first on, as need no more jitter than it has."""
    while len(Z):
        larger = basis(base.kernel, torch.cat([base.Z, Z]), base.jitter, effects=base.effects)
        if bool(larger.jitter == base.jitter):
            return larger
        Z = Z[: len(Z) // 2]  # so close together that the old points would need more jitter, too
    return base


class SharedPoints(NamedTuple):
    """Where two sets of points have a point in common: index pairs with A[i] identical to B[j]."""

    i: Tensor
    j: Tensor


def features(base: Basis, X: Tensor, shared_points: SharedPoints | None = None, jitter: Tensor | None = None) -> Tensor:
    """V = L⁻¹K_*X (…, M, n): the values of the basis functions at X.

    `jitter` is the part of ε that points they have in common share; all of it unless given.
    """
    K = base.kernel.matrix(base.Z, X)
    if shared_points is not None and len(shared_points.i):
        shared = base.jitter if jitter is None else jitter
        K = K.index_put((shared_points.i, shared_points.j), shared, accumulate=True)
    if base.real is not None:
        K = K.masked_fill(~base.real[..., None], 0.0)
    return linalg.solve_lower(base.L, K)


def at_once(X: Tensor, M: int) -> int:
    """How many rows of X are predicted together, from M numbers each."""
    return POINTS if X.device.type == "cpu" else max(1, int(memory_factor(X.device) * FEATURES / M))


class Predicted(NamedTuple):
    """Moments of f at each row of X."""

    mean: Tensor
    variance: Tensor


class Joint(NamedTuple):
    """Moments of f at all rows of X together."""

    mean: Tensor  # (…, n)
    covariance: Tensor  # (…, n, n)


class Posterior(NamedTuple):
    """q(v) = N(v, (CCᵀ)⁻¹) on a basis, about the constant mean."""

    basis: Basis
    mean: Tensor
    v: Tensor
    C: Tensor

    @property
    def kernel(self) -> Kernel:
        return self.basis.kernel

    @property
    def dimension(self) -> int:
        return self.basis.Z.shape[-1]

    def predict(self, X: Tensor) -> Predicted:
        """Mean and variance of f at each row of X (n, D), in chunks."""
        parts = [self._predict(chunk) for chunk in X.split(at_once(X, len(self.v)))]
        return Predicted(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _predict(self, X: Tensor) -> Predicted:
        V = features(self.basis, X)
        W = linalg.solve_lower(self.C, V)
        # mean = m + Vᵀv̂,  var = k(x,x) − ΣV² + ΣW²
        variance = self.basis.kernel.diagonal(X) - V.square().sum(0) + W.square().sum(0)
        return Predicted(self.mean + V.mT @ self.v, variance.clamp_min(0))

    def joint(self, X: Tensor) -> Joint:
        """Mean and covariance of f at the rows of X (…, n, D); one solve for the whole batch."""
        *batch, n, D = X.shape
        V = features(self.basis, X.reshape(-1, D))
        W = linalg.solve_lower(self.C, V)
        mean = (self.mean + V.mT @ self.v).reshape(*batch, n)
        V, W = (t.mT.reshape(*batch, n, len(t)) for t in (V, W))
        # K_XX − VᵀV + WᵀW
        return Joint(mean, self.basis.kernel.matrix(X, X) - V @ V.mT + W @ W.mT)

    def to(self, device: torch.device) -> Posterior:
        return self if self.v.device == device else self.map(lambda t: t.to(device))

    def copy(self) -> Posterior:
        """One that may be written to."""
        return self.map(torch.Tensor.clone)

    def map(self, change: Callable[[Tensor], Tensor]) -> Posterior:
        """Every tensor in it changed in the same way."""
        return Posterior(self.basis.map(change), *(change(t) for t in self[1:]))
