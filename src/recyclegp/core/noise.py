"""What a module's rows say about their noise, and its site at another noise than it was published under.

A Gaussian module is the likelihood of its rows, y = Wu + r with r ~ N(0, σ²I + Q), compressed to

    log p(y | u, σ²) = −(n/2)log 2πσ² − logdet B − ½(χ² + ‖Rᵀu − ρ‖²)        BBᵀ = I + Q/σ²

where Q is what the points leave open. At another noise σ'², and under another kernel, the covariance of r is taken to
be larger by one factor,

    τ = (σ'² + q')/(σ² + q),   q = tr Q/n        R, ρ → R/√τ, ρ/√τ        e → e + ½χ²(1 − 1/τ) − (n/2)log τ

which is exact where the points express the rows (q = q' = 0): then the evidence of a merge, as a function of the noise,
is that of all the rows. Rows are between the points, so that q goes with what the points leave open of each other,

    q' = κ q · open(θ')/open(θ)        open(θ) = mean_j 1/[K_ZZ(θ)⁻¹]_jj
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels import Kernel
from . import linalg
from .sites import Site

NUGGET = 1e-6  # of the variance: what points leave open of each other is not known more finely


class NoiseEvidence(NamedTuple):
    """Four numbers about the rows of a module, all but the second and third without units."""

    chi2: float  # ‖·‖² of what no f(Z) explains, in units of its covariance
    residual_variance: float  # q, in the units of y²: the variance of f at a row that f(Z) leaves open, on average
    residual: float  # ‖Wy‖² with W = σ²(K + σ²I)⁻¹: what the local fit does not explain, in the units of y²
    dof: float  # tr W²: how many rows it leaves for the noise

    def published(self, noise: float, rows: float, chi2: float, left_open: float) -> NoiseEvidence:
        """After publishing at other points, of so many rows with this noise."""
        return self._replace(
            chi2=self.chi2 + chi2, residual_variance=self.residual_variance + noise * left_open / max(rows, 1.0)
        )

    def in_units(self, scale: float) -> NoiseEvidence:
        """Of s·y + b."""
        return self._replace(residual_variance=self.residual_variance * scale**2, residual=self.residual * scale**2)


def left_open(kernel: Kernel, Z: Tensor) -> Tensor:
    """open(θ): the variance of f at one point that the other points leave open, on average; (…) for Z (…, M, D)."""
    K = kernel.matrix(Z, Z)
    identity = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    floor = NUGGET * K.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    L = linalg.cholesky(K + floor[..., None, None] * identity).L
    # [K⁻¹]_jj = ‖L⁻¹e_j‖²
    return (1 / linalg.solve_lower(L, identity.expand_as(L)).square().sum(-2)).mean(-1)


def factor(
    old: Tensor | float, residual_variance: Tensor | float, new: Tensor | float, new_residual_variance: Tensor | float
) -> Tensor | float:
    """τ, from σ² and q to σ'² and q'."""
    return (new + new_residual_variance) / (old + residual_variance)


def constant(tau: Tensor, chi2: Tensor | float, rows: Tensor | float) -> Tensor:
    """What e changes by: ½χ²(1 − 1/τ) − (n/2)log τ."""
    return 0.5 * chi2 * (1 - 1 / tau) - 0.5 * rows * tau.log()


def at_noise(site: Site, tau: float, chi2: float, rows: float) -> Site:
    """The site of rows whose covariance is τ times as large."""
    t = site.e.new_tensor(tau)
    return Site(site.Z, site.Rt / t.sqrt(), site.rho / t.sqrt(), site.e + constant(t, chi2, rows))
