"""One owner's function f_k = f + b_k + g_k, where f is known at the points of a basis; and a new owner's.

The owner's site says ρ_k = R_kᵀf_k(Z_k) + ε. Given v, the rest of it is about b_k + g_k alone:

    S = I + R_kᵀD_kR_k        G = S⁻¹R_kᵀD_k(Z_k, x)
    mean(x) = m + V(x)ᵀv̂ + Gᵀ(ρ̃_k − H_kv̂)
    cov(x)  = K − VᵀV + Wᵀ(CCᵀ)⁻¹W + D(x, x) − D(x, Z_k)R_kG        W = V − H_kᵀG
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..kernels import Kernel
from . import linalg
from .effects import Effects, Offset
from .posterior import Joint, Posterior, Predicted, at_once, features
from .sites import Site

FARTHEST = 3.0  # h, at most


class FunctionPosterior(Protocol):
    """What every posterior can do."""

    def predict(self, X: Tensor) -> Predicted: ...

    def joint(self, X: Tensor) -> Joint: ...

    def to(self, device: torch.device) -> FunctionPosterior: ...


class _SiteTerms(NamedTuple):
    B: Tensor  # BBᵀ = S
    H: Tensor  # H_k
    rest: Tensor  # ρ̃_k − H_kv̂


class _Parts(NamedTuple):
    """What a prediction at X is put together from."""

    V: Tensor  # (M, n)
    W: Tensor  # (M, n)  V − H_kᵀG
    half: Tensor  # (r, n)  B⁻¹R_kᵀD_k(Z_k, X)
    mean: Tensor  # (n,)


class OwnerPosterior(NamedTuple):
    shared: Posterior
    site: Site  # the owner's own, as it was published
    effects: Effects

    def predict(self, X: Tensor) -> Predicted:
        """Mean and variance at each row of X (n, D), in chunks."""
        parts = [self._moments(chunk) for chunk in X.split(at_once(X, len(self.shared.v)))]
        return Predicted(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _moments(self, X: Tensor) -> Predicted:
        kernel = self.shared.basis.kernel
        V, W, half, mean = self._parts(X)
        variance = kernel.diagonal(X) + self.effects.diagonal(kernel, X) - V.square().sum(0)
        variance = variance + linalg.solve_lower(self.shared.C, W).square().sum(0) - half.square().sum(0)
        return Predicted(mean, variance.clamp_min(0))

    def joint(self, X: Tensor) -> Joint:
        """Mean and covariance at the rows of X (…, n, D)."""
        *batch, n, D = X.shape
        V, W, half, mean = self._parts(X.reshape(-1, D))
        W = linalg.solve_lower(self.shared.C, W)
        V, W, half = (t.mT.reshape(*batch, n, len(t)) for t in (V, W, half))
        kernel = self.shared.basis.kernel
        prior = kernel.matrix(X, X)
        prior = prior + self.effects.matrix(kernel, X, X, prior)
        covariance = prior - V @ V.mT + W @ W.mT - half @ half.mT
        return Joint(mean.reshape(*batch, n), covariance)

    def offset(self) -> Offset:
        """b_k given everything."""
        B, H, rest = self._site_terms()
        a = linalg.solve_lower(B, self.site.Rt.sum(-1)[:, None])  # B⁻¹R_kᵀ1
        G = self.effects.offset * linalg.solve_upper(B, a)
        W = linalg.solve_lower(self.shared.C, H.mT @ G)
        variance = self.effects.offset - self.effects.offset**2 * a.square().sum() + W.square().sum()
        return Offset(float(G[:, 0] @ rest), float(variance.clamp_min(0).sqrt()))

    def to(self, device: torch.device) -> OwnerPosterior:
        return OwnerPosterior(self.shared.to(device), Site(*(t.to(device) for t in self.site)), self.effects)

    def _site_terms(self) -> _SiteTerms:
        base, site = self.shared.basis, self.site
        ones = site.Rt.sum(-1)
        RKR = site.Rt @ self.effects.kernel(base.kernel).matrix(site.Z, site.Z) @ site.Rt.mT
        identity = torch.eye(len(ones), dtype=RKR.dtype, device=RKR.device)
        B = linalg.cholesky(identity + self.effects.observed(RKR, ones)).L
        H = site.Rt @ features(base, site.Z).mT
        return _SiteTerms(B, H, site.rho - self.shared.mean * ones - H @ self.shared.v)

    def _parts(self, X: Tensor) -> _Parts:
        base, site = self.shared.basis, self.site
        B, H, rest = self._site_terms()
        cross = site.Rt @ self.effects.matrix(base.kernel, site.Z, X)
        half = linalg.solve_lower(B, cross)
        G = linalg.solve_upper(B, half)
        V = features(base, X)
        return _Parts(V, V - H.mT @ G, half, self.shared.mean + V.mT @ self.shared.v + G.mT @ rest)


class Level(NamedTuple):
    """Owners differ more where f is larger, or smaller: effects are e^{γh} as large, h(x) = (f̂(x) − level)/size."""

    slope: float  # γ
    level: float  # in the middle of owners' points,
    size: float  # and how far f̂ is from it there

    def factors(self, mean: Tensor) -> Tensor:
        """e^{γh} where f̂ is so large; far from where owners are, it is as at the end."""
        return (self.slope * ((mean - self.level) / self.size).clamp(-FARTHEST, FARTHEST)).exp()

    def in_units(self, scale: float, shift: float) -> Level:
        """The same for s·f + b."""
        return Level(math.copysign(self.slope, scale * self.slope), scale * self.level + shift, abs(scale) * self.size)


class NewOwner(NamedTuple):
    """Somebody nobody has met: f, and in the variance how much owners differ."""

    shared: FunctionPosterior
    kernel: Kernel
    effects: Effects
    level: Level | None = None  # None: as much everywhere

    def predict(self, X: Tensor) -> Predicted:
        mean, variance = self.shared.predict(X)
        own = self.effects.diagonal(self.kernel, X)
        return Predicted(mean, variance + (own if self.level is None else own * self.level.factors(mean).square()))

    def joint(self, X: Tensor) -> Joint:
        mean, covariance = self.shared.joint(X)
        own = self.effects.matrix(self.kernel, X, X)
        if self.level is not None:
            g = self.level.factors(mean)
            own = own * (g[..., :, None] * g[..., None, :])
        return Joint(mean, covariance + own)

    def scaled(self, scale: float) -> NewOwner:
        """Whose effects have variances so many times as large."""
        return self._replace(effects=self.effects.scaled(scale))

    def to(self, device: torch.device) -> NewOwner:
        return self._replace(shared=self.shared.to(device), kernel=self.kernel.to(device))
