"""What a module says about the noise of its rows: numbers, which `noise` explains and uses."""

from __future__ import annotations

from typing import NamedTuple


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
