"""What many modules say about f, held at the points Z_*: the form for what is too much to be held at once.

A form is a value: a prior, and the rows of everybody's sites about it. It knows nothing of names or files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .. import arrays
from ..core import least_squares, sites
from ..core.effects import NO_EFFECTS, Effects
from ..core.least_squares import CentredRows, Solution
from ..core.owner_posterior import FunctionPosterior, NewOwner, OwnerPosterior
from ..core.posterior import Basis, Posterior, basis
from ..core.sites import Site
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.units import InputUnits, in_units
from .extending import padded
from .folding import fold
from .owners import by_owner
from .site_source import SiteSource


@dataclass(frozen=True, eq=False)
class PointsForm:
    kernel: Kernel
    mean: float
    Z: Tensor  # (M, D)
    jitter: float
    bound_rows: CentredRows  # compressed, with their slack: the bound, and every prediction
    effects: Effects = NO_EFFECTS  # integrated out of them
    marginal: CentredRows | None = None  # compressed block-marginal rows; None where the sites are there to ask

    def __getstate__(self) -> dict[str, object]:
        """Pickled without what can be computed again."""
        return {name: value for name, value in vars(self).items() if name in type(self).__annotations__}

    def tensors(self) -> list[Tensor]:
        """All its numbers, to be checked."""
        return [self.kernel.theta, self.Z, *self.bound_rows, *(self.marginal or ())]

    def own(self, device: torch.device) -> PointsForm:
        """With copies of its numbers, there, that nobody else can change."""

        def copied(rows: CentredRows) -> CentredRows:
            return CentredRows(*(arrays.own(t, device) for t in rows))

        marginal = None if self.marginal is None else copied(self.marginal)
        kernel, Z = self.kernel.own(device), arrays.own(self.Z, device)
        return replace(self, kernel=kernel, Z=Z, bound_rows=copied(self.bound_rows), marginal=marginal)

    @cached_property
    def basis(self) -> Basis:
        with torch.inference_mode(False), torch.no_grad():
            return basis(self.kernel, self.Z, self.jitter, effects=self.effects)

    @cached_property
    def solution(self) -> Solution:
        with torch.inference_mode(False), torch.no_grad():
            return least_squares.solve(self.bound_rows)

    @property
    def posterior(self) -> Posterior:
        """Of the shared f."""
        mean = torch.tensor(self.mean, dtype=torch.float64, device=self.Z.device)
        return Posterior(self.basis, mean, self.solution.v, self.solution.C)

    def of_owner(self, number: int, site: Site | None = None) -> FunctionPosterior:
        """Of one owner's function."""
        if not self.effects.present:
            return self.posterior
        if site is None:
            raise RecycleGPError(
                "owner: an ensemble at points that keeps only names cannot tell owners apart; merge with keep='sites'"
            )
        return OwnerPosterior(self.posterior, site, self.effects)

    def of_new_owner(self) -> FunctionPosterior:
        return NewOwner(self.posterior, self.kernel, self.effects)

    @property
    def slack(self) -> float:
        return float(self.bound_rows.slack)

    @property
    def bound(self) -> float:
        return float(self.solution.bound)

    def evidence(self, store: SiteSource) -> float:
        """The block-marginal evidence."""
        return float(self.marginal_solution(store).bound)

    def marginal_solution(self, store: SiteSource) -> Solution:
        with torch.inference_mode(False), torch.no_grad():
            return least_squares.solve(self.marginal_rows(store))

    def marginal_rows(self, store: SiteSource) -> CentredRows:
        """Block-marginal rows of all sites: those that are known, or those of the sites in the store."""
        return self._folded(store) if self.marginal is None else self.marginal

    def _folded(self, store: SiteSource, start: CentredRows | None = None) -> CentredRows:
        return fold(self.basis, store, self.mean, start, marginal=True)

    def with_sites(self, store: SiteSource, numbers: Sequence[int] = (), first: int = 0) -> PointsForm:
        """With more sites, of owners that are not here yet, at the same prior and points."""
        rows = fold(self.basis, store, self.mean, self.bound_rows, marginal=False)
        marginal = None if self.marginal is None else self._folded(store, self.marginal)
        return replace(self, bound_rows=rows, marginal=marginal)

    def grouped(self, store: SiteSource, numbers: Sequence[int]) -> SiteSource:
        """Sites as it takes them: where owners differ, one for each owner."""
        return by_owner(store, numbers, self.effects)

    def only(self, store: SiteSource, numbers: Sequence[int] = ()) -> PointsForm:
        """With these sites and no others, at the same prior and points."""
        base = basis(self.kernel, self.Z, self.jitter, effects=self.effects)
        rows = fold(base, store, self.mean, marginal=False)
        return replace(self, jitter=float(base.jitter), bound_rows=rows, marginal=None)

    def without_sites(self, store: SiteSource) -> PointsForm:
        """With the rows that the evidence needs, so that it can do without the sites."""
        return replace(self, marginal=self.marginal_rows(store))

    def extended_to(self, base: Basis) -> PointsForm:
        """On a basis that begins with its own points, at the same knowledge."""
        marginal = None if self.marginal is None else padded(self.marginal, len(base.Z))
        return replace(self, Z=base.Z, bound_rows=padded(self.bound_rows, len(base.Z)), marginal=marginal)

    def without_points(self, kept: list[int]) -> PointsForm:
        """With only some of its points; what it says there must be folded anew (`only`)."""
        return replace(self, Z=self.Z[kept])

    def in_units(self, scale: float, shift: float, inputs: InputUnits, effective_rows: float) -> PointsForm:
        """The form of s·f((x − shift)/scale) + b, the inputs changed so."""
        return PointsForm(
            kernel=in_units(self.kernel, scale, inputs),
            mean=scale * self.mean + shift,
            Z=inputs.of(self.Z),
            jitter=scale**2 * self.jitter,
            bound_rows=rows_in_units(self.bound_rows, scale, effective_rows),
            effects=self.effects.in_units(scale),
            marginal=None if self.marginal is None else rows_in_units(self.marginal, scale, effective_rows),
        )

    def site(self) -> Site:
        """All of it as one site at Z_*: Rᵀ = TL⁻¹, ρ = ρ̃ + mRᵀ1, e = Σe_k − slack."""
        return sites.from_rows(self.Z, self.basis.L, self.bound_rows, self.mean)


def rows_in_units(rows: CentredRows, scale: float, effective_rows: float) -> CentredRows:
    """In whitened coordinates s·f + b is sign(s)·v: rows turn round with it, and the constant notices."""
    constant = math.log(abs(scale)) * effective_rows
    return rows._replace(H=rows.H * math.copysign(1.0, scale), e=rows.e - constant)
