"""One function of which two models speak: the mixture of their posteriors, by its moments.

mean = (1 − a)m₁ + a·m₂        cov = (1 − a)C₁ + a·C₂ + a(1 − a)(m₁ − m₂)(m₁ − m₂)ᵀ
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .owner_posterior import FunctionPosterior
from .posterior import Joint, Predicted
from .sites import Site


class AveragedPosterior(NamedTuple):
    first: FunctionPosterior
    second: FunctionPosterior
    share: float  # a: of the second

    def predict(self, X: Tensor) -> Predicted:
        """Mean and variance at each row of X (n, D)."""
        one, other = self.first.predict(X), self.second.predict(X)
        apart = self.share * (1 - self.share) * (one.mean - other.mean).square()
        return Predicted(self._between(one.mean, other.mean), self._between(one.variance, other.variance) + apart)

    def joint(self, X: Tensor) -> Joint:
        """Mean and covariance at the rows of X (…, n, D)."""
        one, other = self.first.joint(X), self.second.joint(X)
        d = one.mean - other.mean
        apart = self.share * (1 - self.share) * d[..., :, None] * d[..., None, :]
        return Joint(self._between(one.mean, other.mean), self._between(one.covariance, other.covariance) + apart)

    def to(self, device: torch.device) -> AveragedPosterior:
        return AveragedPosterior(self.first.to(device), self.second.to(device), self.share)

    def _between(self, one: Tensor, other: Tensor) -> Tensor:
        return torch.lerp(one, other, self.share)


def leave_one_out(posterior: FunctionPosterior, site: Site) -> Tensor:
    """log p(ρ_i | all but ρ_i) (…, r), up to ½log 2π, from a posterior to which this site, or each of several, belongs.

    u = R_kᵀf(Z_k) has the posterior mean m and the variances s, ρ_i = u_i + ε with unit noise; without ρ_i,

        ρ_i ~ N((m_i − s_iρ_i)/(1 − s_i), 1/(1 − s_i)),   so that   ρ_i − E[ρ_i] = (ρ_i − m_i)/(1 − s_i)
    """
    mean, covariance = posterior.joint(site.Z)
    m = (site.Rt @ mean[..., None])[..., 0]
    left = 1 - (site.Rt @ covariance).mul(site.Rt).sum(-1)  # 1 − s = [A⁻¹]_ii
    left = left.clamp(torch.finfo(left.dtype).eps, 1)
    return -0.5 * (site.rho - m).square() / left + 0.5 * left.log()


def best_share(first: Tensor, second: Tensor, prior: float) -> float:
    """a that maximises Σ_i log((1 − a)p_i + a·q_i) + prior·log(1 − a), of log p and log q (n,): stacking.

    Each term is concave in a, so that its slope has one zero; it is found by bisection.
    """
    top = torch.maximum(first, second)
    p, q = (first - top).exp(), (second - top).exp()
    low, high = 0.0, 1.0
    for _ in range(30):
        a = 0.5 * (low + high)
        slope = float(((q - p) / ((1 - a) * p + a * q)).sum()) - prior / (1 - a)
        low, high = (a, high) if slope > 0 else (low, a)
    return low
