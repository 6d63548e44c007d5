"""What many modules say about f, held at the points Z_*: the form for what is too much to be held at once.

A form is a value: a prior, and the rows of everybody's sites about it. It knows nothing of names or files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..core import least_squares, linalg, sites
from ..core.effects import NO_EFFECTS, Effects, Offset
from ..core.least_squares import CentredRows, Solution
from ..core.owner_posterior import FunctionPosterior, NewOwner, OwnerPosterior
from ..core.packing import pack, project, shared_points
from ..core.posterior import Basis, Posterior, basis, extended
from ..core.sites import Site
from ..devices import CPU
from ..errors import Argument, Name, RecycleGPError
from ..kernels import Kernel
from ..kernels.units import InputUnits, in_units
from ..local import placement
from . import affordable
from .constants import LEARNING, POINTS
from .evidence import profiled_mean
from .extending import Grown, GrowthLimits, all_points, extend
from .folding import fold
from .form import Merged, SavedForm
from .learning import slack_tolerance
from .leave_one_out import Agreement, agreements
from .member import Member, stored
from .owners import OwnedSite, by_owner, owner_numbers
from .points import MOST_AUTOMATIC, select, slack_left
from .problem import MergeProblem
from .site_source import SitePoints, SiteSource
from .size import Size


@dataclass(frozen=True, eq=False)
class PointsForm:
    kernel: Kernel
    mean: float
    Z: Tensor  # (M, D)
    jitter: float
    bound_rows: CentredRows  # compressed, with their slack: the bound, and every prediction
    effects: Effects = NO_EFFECTS  # integrated out of them
    marginal: CentredRows | None = None  # compressed block-marginal rows; None where the sites are there to ask

    kind: ClassVar[str] = "points"
    depends_on_choice_of_points: ClassVar[bool] = True

    @staticmethod
    @torch.no_grad()
    def of(store: SiteSource, kernel: Kernel, mean: float, Z: Tensor, effects: Effects = NO_EFFECTS) -> PointsForm:
        """All sites folded onto the points; with effects, one site for each owner."""
        base = basis(kernel, Z, effects=effects)
        rows = fold(base, store, mean, marginal=False)
        return PointsForm(kernel, mean, base.Z, float(base.jitter), rows, effects)

    @classmethod
    def merged(cls, problem: MergeProblem) -> Merged:
        """Always: with as many points as are affordable, or were wanted."""
        choice, store, Z = problem.finished, problem.by_owner, problem.finished.Z
        wanted = problem.wanted.automatic
        if wanted and float(slack_left(choice.kernel, store, Z, choice.effects)[-1]) > problem.tolerance:
            # with the kernel known, more points than it was learned on are affordable
            most = affordable.points_for(store.rows)
            Z = select(choice.kernel, store, None, problem.tolerance / POINTS.negligible, most)
        form = cls.of(store, choice.kernel, choice.mean, Z, choice.effects)
        return Merged(form, choice.convergence, choice.noise)

    @classmethod
    def read(cls, saved: SavedForm) -> PointsForm:
        Z = saved.tensor("Z", None, saved.dimension)
        if len(Z) == 0:
            raise RecycleGPError("an ensemble needs at least one point")

        def rows(part: str) -> CentredRows:
            H = saved.tensor(f"{part}.H", None, len(Z))
            rest = (saved.tensor(f"{part}.{key}") for key in ("e", "slack"))
            return CentredRows(H, saved.tensor(f"{part}.rho", len(H)), *rest)

        return cls(saved.kernel, saved.mean, Z, saved.jitter, rows("bound"), saved.effects, rows("evidence"))

    def __getstate__(self) -> dict[str, object]:
        """Pickled without what can be computed again."""
        return {name: value for name, value in vars(self).items() if name in type(self).__annotations__}

    def tensors(self) -> list[Tensor]:
        return [self.kernel.theta, self.Z, *self.bound_rows, *(self.marginal or ())]

    def own(self, device: torch.device) -> PointsForm:

        def copied(rows: CentredRows) -> CentredRows:
            return CentredRows(*(arrays.own(t, device) for t in rows))

        marginal = None if self.marginal is None else copied(self.marginal)
        kernel, Z = self.kernel.own(device), arrays.own(self.Z, device)
        return replace(self, kernel=kernel, Z=Z, bound_rows=copied(self.bound_rows), marginal=marginal)

    def own_tensors(self) -> dict[str, Tensor]:
        """Its points and rows, by the names that they have in files; it can do without sites."""
        assert self.marginal is not None
        parts = {"bound": self.bound_rows, "evidence": self.marginal}
        rows = {f"{part}.{key}": value for part, rows in parts.items() for key, value in rows._asdict().items()}
        return {"Z": self.Z, **rows}

    def anonymous_sites(self) -> list[OwnedSite]:
        """None: its rows are all that it needs."""
        return []

    @property
    def chosen_points(self) -> Tensor:
        return self.Z

    @property
    def described(self) -> str:
        return f"{len(self.Z)} points in {self.Z.shape[1]}-D, {self.kernel.describe()}"

    @property
    def loss_words(self) -> str:
        return f", slack {self.slack:.3g}"

    def size(self, rows: int | None) -> Size:
        return Size(self.kind, len(self.Z), rows, self.slack)

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
                Name("owner"),
                ": an ensemble at points that keeps only names cannot tell owners apart; merge with ",
                Argument("keep", "sites"),
            )
        return OwnerPosterior(self.posterior, site, self.effects)

    def of_new_owner(self) -> NewOwner:
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

    def offsets(self, store: SiteSource, numbers: Sequence[int], first: int) -> dict[int, Offset]:
        """Of the owners in the store, which has one site for each and counts from `first`, by their numbers."""
        shared = self.posterior
        return {
            numbers[first + member]: OwnerPosterior(shared, site, self.effects).offset()
            for member, site in store.each()
        }

    def agreements(self, store: SiteSource, first: int = 0, under: Kernel | None = None) -> dict[int, Agreement]:
        """Of the sites in the store, which counts from `first`, by positions of members."""
        if under is None:
            found = agreements(self.basis, store, self.mean, self.marginal_solution(store))
        else:
            with torch.no_grad():
                base = basis(under, self.Z, effects=self.effects)
            mean = profiled_mean(under, self.Z, store, self.mean, self.effects)
            found = agreements(base, store, mean, least_squares.solve(fold(base, store, mean, marginal=True)))
        return {first + i: a for i, a in found.items()}

    # --- with other sites ---

    def grouped(self, store: SiteSource, numbers: Sequence[int]) -> SiteSource:
        """Sites as it takes them: where owners differ, one for each owner."""
        return by_owner(store, numbers, self.effects)

    def only(self, store: SiteSource, numbers: Sequence[int] = ()) -> PointsForm:
        """With these sites and no others, at the same prior and points."""
        base = basis(self.kernel, self.Z, self.jitter, effects=self.effects)
        rows = fold(base, store, self.mean, marginal=False)
        return replace(self, jitter=float(base.jitter), bound_rows=rows, marginal=None)

    def like(
        self, kernel: Kernel, mean: float, effects: Effects, Z: Tensor, store: SiteSource, numbers: Sequence[int]
    ) -> PointsForm:
        """At another prior and other points, of all these sites."""
        return PointsForm.of(by_owner(store, numbers, effects), kernel, mean, Z, effects)

    def without_sites(self, store: SiteSource) -> PointsForm:
        """With the rows that the evidence needs, so that it can do without the sites."""
        return replace(self, marginal=self.marginal_rows(store))

    def with_sites(self, store: SiteSource) -> PointsForm:
        """With more sites, of owners that are not here yet, at the same prior and points."""
        rows = fold(self.basis, store, self.mean, self.bound_rows, marginal=False)
        marginal = None if self.marginal is None else self._folded(store, self.marginal)
        return replace(self, bound_rows=rows, marginal=marginal)

    def can_append_owner(self, known: Sequence[int], new: Sequence[int]) -> bool:
        """Not an owner who is here already, where owners differ: then all the modules of one are one site."""
        return not self.effects.present or set(known).isdisjoint(new)

    def grown(self, store: SiteSource, numbers: Sequence[int], first: int, limits: GrowthLimits) -> Grown[PointsForm]:
        """With new sites; points may be appended for what the old ones cannot express."""
        whole = by_owner(store, numbers[first:], self.effects)
        grown = self.with_sites(whole)
        if not limits.may_append or grown.slack - self.slack <= LEARNING.slack_scale:
            return Grown(grown, [])
        larger = self._with_more_points(all_points(store), limits.rows)
        return Grown(larger.form.with_sites(whole), larger.appended)

    def with_points(self, Z: Tensor) -> PointsForm:
        """Its points, and those of these that it does not have, up to the usual limit."""
        new = torch.ones(len(Z), dtype=torch.bool, device=Z.device)
        new[shared_points(self.Z, Z).j] = False
        return self._on(extended(self.basis, Z[new][: max(0, MOST_AUTOMATIC - len(self.Z))]))

    def _with_more_points(self, new: SitePoints, rows: float) -> Grown[PointsForm]:
        """Its points, and more of them until what is new can be expressed; `rows` are all there will be."""
        base, members = extend(self.basis, new, slack_tolerance(rows))
        return Grown(self._on(base), members)

    def _on(self, larger: Basis) -> PointsForm:
        """The same on a basis with more points behind its own."""
        marginal = None if self.marginal is None else _padded(self.marginal, len(larger.Z))
        return replace(self, Z=larger.Z, bound_rows=_padded(self.bound_rows, len(larger.Z)), marginal=marginal)

    @torch.no_grad()
    def faded(self, members: Sequence[Member], share: float) -> PointsForm:
        """All that it knows to the power γ = `share`; members have their smaller weights already.

        Its rows are linear in their sites, so they are multiplied as the sites would be. That is not so where an
        owner's own function is integrated out of them, nor for the rows of the evidence, out of which what the points
        leave open is integrated: these are computed anew from the sites.
        """
        kept = all(m.site is not None for m in members)
        if self.effects.present:
            if not kept:
                raise RecycleGPError(
                    Name("decay"),
                    ": an ensemble at points whose owners differ needs the modules' sites, and this one keeps only "
                    "names; merge with ",
                    Argument("keep", "sites"),
                    ", or with ",
                    Argument("owners", None),
                )
            with stored(members) as sites:
                return self.only(self.grouped(sites, owner_numbers(members)))
        marginal = None if kept or self.marginal is None else _to_the_power(self.marginal, share)
        return replace(self, bound_rows=_to_the_power(self.bound_rows, share), marginal=marginal)

    # --- at other points, in other units ---

    @torch.no_grad()
    def at_points(self, points: int | Tensor | None) -> PointsForm:
        """The shared f at these points, or at so many of its region, by exact marginalisation; None: as it is."""
        if points is None or (isinstance(points, int) and points >= len(self.Z)):
            return self
        Z = points if isinstance(points, Tensor) else self._places(points)
        own, usual = self.basis.jitter, linalg.RELATIVE_JITTER * self.kernel.diagonal(Z).mean()
        base = basis(self.kernel, Z, torch.minimum(own, usual))
        said = project(base, pack([self.site()], [0]), own).rows(marginal=True)
        rows = least_squares.compress(least_squares.centre(said, self.mean))
        return PointsForm(self.kernel, self.mean, Z, float(base.jitter), rows, marginal=rows)

    def _places(self, count: int) -> Tensor:
        """So many places over the region of its points, as a module has them that is published again."""
        Z, means = self.Z.to(CPU), self.posterior.predict(self.Z).mean
        rng = np.random.default_rng(placement.entropy(0, Z, means))
        return placement.over(Z, count, self.kernel.to(CPU), rng).to(self.Z.device)

    def without_points(self, kept: list[int]) -> PointsForm:
        """With only some of its points; what it says there must be folded anew (`only`)."""
        return replace(self, Z=self.Z[kept])

    def recoded(self, change: Callable[[Tensor], Tensor]) -> PointsForm:
        """With other codes of categories in its points; what it says there must be folded anew (`only`)."""
        return replace(self, Z=change(self.Z))

    def in_units(self, scale: float, shift: float, inputs: InputUnits, effective_rows: float) -> PointsForm:
        return PointsForm(
            kernel=in_units(self.kernel, scale, inputs),
            mean=scale * self.mean + shift,
            Z=inputs.of(self.Z),
            jitter=scale**2 * self.jitter,
            bound_rows=_rows_in_units(self.bound_rows, scale, effective_rows),
            effects=self.effects.in_units(scale),
            marginal=None if self.marginal is None else _rows_in_units(self.marginal, scale, effective_rows),
        )

    def site(self) -> Site:
        """All of it as one site at Z_*: Rᵀ = TL⁻¹, ρ = ρ̃ + mRᵀ1, e = Σe_k − slack."""
        return sites.from_rows(self.Z, self.basis.L, self.bound_rows, self.mean)


# --- rows about whitened values, changed without the sites -----------------------------------------


def _padded(rows: CentredRows, points: int) -> CentredRows:
    """Rows about the first points of a basis as rows about all of them."""
    missing = points - rows.H.shape[-1]
    return rows if not missing else rows._replace(H=torch.nn.functional.pad(rows.H, (0, missing)))


def _rows_in_units(rows: CentredRows, scale: float, effective_rows: float) -> CentredRows:
    """In whitened coordinates s·f + b is sign(s)·v: rows turn round with it, and the constant notices."""
    constant = math.log(abs(scale)) * effective_rows
    return rows._replace(H=rows.H * math.copysign(1.0, scale), e=rows.e - constant)


def _to_the_power(rows: CentredRows, share: float) -> CentredRows:
    """√γ H, √γ ρ̃, γ e, γ slack.

    Of the rows of the evidence, for an ensemble that keeps names only: there it is the modules' marginal likelihood at
    the points that is taken to a power, which is the same as far as the points express the modules.
    """
    root = share**0.5
    return CentredRows(root * rows.H, root * rows.rho, share * rows.e, share * rows.slack)
