"""What a module's rows say about their noise, and its site at another noise than it was published under.

A Gaussian module is the likelihood of its rows, y = Wu + r with r ~ N(0, σ²I + Q), compressed to

    log p(y | u, σ²) = −(n/2)log 2πσ² − logdet B − ½(χ² + ‖Rᵀu − ρ‖²)        BBᵀ = I + Q/σ²

where Q is what the points leave open. At another noise σ'² the covariance of r is taken to be larger by one factor,

    τ = (σ'² + q)/(σ² + q),   q = tr Q/n        R, ρ → R/√τ, ρ/√τ        e → e + ½χ²(1 − 1/τ) − (n/2)log τ

which is exact where the points express the rows (q = 0): then the evidence of a merge, as a function of the noise, is
that of all the rows.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .sites import Site


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


def factor(old: Tensor | float, new: Tensor | float, residual_variance: Tensor | float) -> Tensor | float:
    """τ."""
    return (new + residual_variance) / (old + residual_variance)


def constant(tau: Tensor, chi2: Tensor | float, rows: Tensor | float) -> Tensor:
    """What e changes by: ½χ²(1 − 1/τ) − (n/2)log τ."""
    return 0.5 * chi2 * (1 - 1 / tau) - 0.5 * rows * tau.log()


def at_noise(site: Site, tau: float, chi2: float, rows: float) -> Site:
    """The site of rows whose covariance is τ times as large."""
    t = site.e.new_tensor(tau)
    return Site(site.Z, site.Rt / t.sqrt(), site.rho / t.sqrt(), site.e + constant(t, chi2, rows))
