"""What many modules say about f, held at the points Z_*: one of the forms an ensemble may have.

A form is a value: a prior, and the rows of everybody's sites about it. It knows nothing of names, owners or files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ..core import least_squares, sites
from ..core.least_squares import CentredRows, Solution
from ..core.posterior import Basis, Posterior, basis
from ..core.sites import Site
from ..kernels import Kernel
from ..kernels.units import in_units
from .extending import padded
from .folding import fold
from .site_store import SiteStore


@dataclass(frozen=True, eq=False)
class PointsForm:
    kernel: Kernel
    mean: float
    Z: Tensor  # (M, D)
    jitter: float
    bound_rows: CentredRows  # compressed, with their slack: the bound, and every prediction

    @cached_property
    def basis(self) -> Basis:
        with torch.inference_mode(False), torch.no_grad():
            return basis(self.kernel, self.Z, self.jitter)

    @cached_property
    def solution(self) -> Solution:
        with torch.inference_mode(False), torch.no_grad():
            return least_squares.solve(self.bound_rows)

    @property
    def posterior(self) -> Posterior:
        mean = torch.tensor(self.mean, dtype=torch.float64)
        return Posterior(self.basis, mean, self.solution.v, self.solution.C)

    @property
    def slack(self) -> float:
        return float(self.bound_rows.slack)

    def marginal_rows(self, store: SiteStore, start: CentredRows | None = None) -> CentredRows:
        """Block-marginal rows of the sites in the store, under those of `start`: for the evidence."""
        start = None if start is None else padded(start, len(self.Z))
        return fold(self.basis, store, self.mean, start, marginal=True)

    def with_sites(self, store: SiteStore) -> PointsForm:
        """With more sites, at the same prior and points."""
        rows = fold(self.basis, store, self.mean, self.bound_rows, marginal=False)
        return replace(self, bound_rows=rows)

    def only(self, store: SiteStore) -> PointsForm:
        """With these sites and no others, at the same prior and points."""
        base = basis(self.kernel, self.Z, self.jitter)
        rows = fold(base, store, self.mean, marginal=False)
        return replace(self, jitter=float(base.jitter), bound_rows=rows)

    def extended_to(self, base: Basis) -> PointsForm:
        """On a basis that begins with its own points, at the same knowledge."""
        return replace(self, Z=base.Z, bound_rows=padded(self.bound_rows, len(base.Z)))

    def at_points(self, chosen: list[int]) -> PointsForm:
        """With only some of its points; what it says there must be folded anew (`only`)."""
        return replace(self, Z=self.Z[chosen])

    def in_units(self, scale: float, shift: float, input_shift: Tensor, densities: float) -> PointsForm:
        """The form of s·f(x − input_shift) + b."""
        return PointsForm(
            kernel=in_units(self.kernel, scale, input_shift),
            mean=scale * self.mean + shift,
            Z=self.Z + input_shift,
            jitter=scale**2 * self.jitter,
            bound_rows=rows_in_units(self.bound_rows, scale, densities),
        )

    def site(self) -> Site:
        """All of it as one site at Z_*: Rᵀ = TL⁻¹, ρ = ρ̃ + mRᵀ1, e = Σe_k − slack."""
        return sites.from_rows(self.Z, self.basis.L, self.bound_rows, self.mean)


def rows_in_units(rows: CentredRows, scale: float, densities: float) -> CentredRows:
    """In whitened coordinates s·f + b is sign(s)·v: rows turn round with it, and the constant notices."""
    constant = math.log(abs(scale)) * densities
    return rows._replace(H=rows.H * math.copysign(1.0, scale), e=rows.e - constant)
