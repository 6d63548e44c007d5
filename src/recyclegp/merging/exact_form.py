"""What many modules say about f, all of it at once: the form that loses nothing.

A = I + RᵀKR + blockdiag_k(R_kᵀD_kR_k) = LLᵀ        α = A⁻¹(ρ − mRᵀ1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from ..core import linalg
from ..core.effects import NO_EFFECTS, Effects, Offset
from ..core.exact import ExactPosterior
from ..core.least_squares import CentredRows, compress
from ..core.owner_posterior import NewOwner
from ..core.posterior import basis
from ..core.sites import Site
from ..core.stacked import Block, Stacked, best_mean, stack
from ..kernels import Kernel
from ..kernels.units import InputUnits, in_units
from . import affordable
from .constants import POINTS
from .exact_learning import Learned, Sites, decide, learn_exactly
from .extending import Grown, GrowthLimits
from .form import Merged, SavedForm
from .learning import slack_tolerance, starts
from .leave_one_out import Agreement, exact_agreements
from .member import Member
from .noise import at_noise
from .owners import OwnedSite, Owners, approximated, by_owner
from .points import select, slack_left
from .points_form import PointsForm
from .pooling import median_mean
from .problem import MergeProblem
from .site_source import SiteSource
from .site_store import SiteStore
from .size import Size


@dataclass(frozen=True, eq=False)
class ExactForm:
    kernel: Kernel
    mean: float
    stacked: Stacked
    effects: Effects = NO_EFFECTS
    factor: Tensor | None = field(default=None, repr=False)  # L, where it is known already

    slack: float = field(default=0.0, init=False)
    jitter: float = field(default=0.0, init=False)
    kind: ClassVar[str] = "exact"
    loss_words: ClassVar[str] = ""

    @classmethod
    def merged(cls, problem: MergeProblem) -> Merged | None:
        """Where few pseudo-observations are to be held, where it is asked for, and where points would lose much."""
        p = problem
        if p.wanted.all_of_them or (p.wanted.automatic and p.store.rows <= affordable.DIRECT):
            return cls._learned(p, starts(p.start, p.members))
        if p.wanted.automatic and p.store.rows <= affordable.held():
            for choice in p.choices():
                now = at_noise(p.store, p.readings, choice.noise)
                as_many = POINTS.many * len(choice.Z) >= p.store.rows
                if as_many or float(slack_left(choice.kernel, now, choice.Z)[-1]) > p.tolerance:
                    return cls._learned(p, [choice.kernel, p.start])
        return None

    @classmethod
    def _learned(cls, p: MergeProblem, kernels: Sequence[Kernel]) -> Merged:
        found = p.first or Learned(p.start, median_mean(p.members))
        if p.learn and not found.of_all:
            rest = kernels, p.owners, p.readings
            approximate = approximated(p.members)
            found = learn_exactly(p.store, p.numbers, p.start, *rest, approximate=approximate, known=p.first)
        elif p.first is None and p.owners is not Owners.NONE:
            found = decide(Sites.of(p.store, p.numbers), p.start, None, p.owners, approximate=approximated(p.members))
        stacked = stack(at_noise(p.store, p.readings, found.noise).packs(1), p.numbers)
        form = cls(found.kernel, found.mean, stacked, found.effects)
        # what was learned on some of the modules has their mean; the factor that finds that of all is kept
        return Merged(form.at_best_mean() if p.learn else form, found.convergence, found.noise)

    @classmethod
    def read(cls, saved: SavedForm) -> ExactForm:
        """Its factor is computed again: it is as large as all sites together, squared."""
        store, numbers = saved.sites()
        with store:
            return cls(saved.kernel, saved.mean, stack(store.packs(1), numbers), saved.effects)

    def __getstate__(self) -> dict[str, object]:
        """Pickled without what can be computed again."""
        kept = {name: value for name, value in vars(self).items() if name in type(self).__annotations__}
        return kept | {"factor": None}

    def tensors(self) -> list[Tensor]:
        s = self.stacked
        return [self.kernel.theta, s.Z, s.rho, s.ones, s.e, *(b.Rt for b in s.blocks)]

    def own(self, device: torch.device) -> ExactForm:
        factor = vars(self).get("L", self.factor)
        factor = None if factor is None else factor.to(device)
        stacked = self.stacked.map(lambda t: t.to(device))  # its sites are copies: they come from a store
        return replace(self, kernel=self.kernel.own(device), stacked=stacked, factor=factor)

    @property
    def Z(self) -> Tensor:  # noqa: N802 (the symbol)
        return self.stacked.Z

    @property
    def chosen_points(self) -> Tensor:
        """None: it has the points of the modules that are there."""
        return self.Z[:0]

    @property
    def depends_on_choice_of_points(self) -> bool:
        """It has none; but with fewer modules points might have been enough, unless it would be exact in any case."""
        return len(self.stacked.rho) > affordable.DIRECT

    @property
    def described(self) -> str:
        return f"exact, {len(self.Z)} points in {self.Z.shape[1]}-D, {self.kernel.describe()}"

    def size(self, rows: int | None) -> Size:
        """Its pseudo-observations are all there are."""
        return Size(self.kind, len(self.Z), len(self.stacked.rho), 0.0)

    def own_tensors(self) -> dict[str, Tensor]:
        """None: it is made of sites."""
        return {}

    @cached_property
    def L(self) -> Tensor:  # noqa: N802 (the symbol)
        if self.factor is not None:
            return self.factor
        with torch.inference_mode(False), torch.no_grad():
            return linalg.cholesky(self._covariance()).L

    @cached_property
    def alpha(self) -> Tensor:
        with torch.inference_mode(False), torch.no_grad():
            return torch.cholesky_solve(self._residual[:, None], self.L)[:, 0]

    def _covariance(self) -> Tensor:
        """A."""
        return self.stacked.covariance(self.kernel, self.effects)

    @property
    def _residual(self) -> Tensor:
        return self.stacked.rho - self.mean * self.stacked.ones

    @property
    def posterior(self) -> ExactPosterior:
        """Of the shared f."""
        mean = torch.tensor(self.mean, dtype=torch.float64, device=self.Z.device)
        return ExactPosterior(self.kernel, mean, self.stacked, self.L, self.alpha)

    def of_owner(self, number: int, site: Site | None = None) -> ExactPosterior:
        """Of one owner's function, whose site is here already."""
        return self.posterior._replace(owner=number, effects=self.effects)

    def of_new_owner(self) -> NewOwner:
        return NewOwner(self.posterior, self.kernel, self.effects)

    @property
    def bound(self) -> float:
        """E = Σe_k − ½ρ̃ᵀα − ½logdet A: nothing is lost, so bound and evidence are one."""
        return float(self.stacked.e - 0.5 * self._residual @ self.alpha - linalg.logdet(self.L))

    def evidence(self, store: SiteSource | None = None) -> float:
        return self.bound

    def offsets(self, store: SiteSource, numbers: Sequence[int], first: int) -> dict[int, Offset]:
        """Of all owners, by their numbers."""
        posterior = self.posterior._replace(effects=self.effects)
        return {k: posterior.offset(k) for k in self.stacked.owner.unique().tolist()}

    def agreements(self, store: SiteSource, first: int = 0, under: Kernel | None = None) -> dict[int, Agreement]:
        """Of all sites, by positions of members."""
        form = self if under is None else self.at_kernel(under)
        return exact_agreements(form.L, form.alpha, form.stacked.member)

    # --- with other sites ---

    @torch.no_grad()
    def with_sites(self, store: SiteSource, numbers: Sequence[int], first: int) -> ExactForm:
        """With more sites, whose owners have these numbers: rows appended to the factor, not a new one.

        L' = [L 0; BᵀL⁻ᵀ C]        CCᵀ = A_new − BᵀA⁻¹B
        """
        more = stack(store.packs(1), numbers, first)
        whole = self.stacked.append(more)
        n = len(self.stacked.rho)
        K = self.kernel.matrix(self.stacked.Z, more.Z)
        B = more.observe(self.stacked.observe(K).mT).mT  # (n, new)
        corner = more.covariance(self.kernel, self.effects)
        if self.effects.present:
            same = (self.stacked.owner[:, None] == more.owner[None, :]).to(B.dtype)
            own = self.effects.matrix(self.kernel, self.stacked.Z, more.Z, K)
            B = B + same * more.observe(self.stacked.observe(own).mT).mT
        X = linalg.solve_lower(self.L, B)
        C = linalg.cholesky(corner - X.mT @ X).L
        L = self.L.new_zeros(len(whole.rho), len(whole.rho))
        L[:n, :n], L[n:, :n], L[n:, n:] = self.L, X.mT, C
        return replace(self, stacked=whole, factor=L)

    def grouped(self, store: SiteSource, numbers: Sequence[int]) -> SiteSource:
        """Sites as it takes them: as they are, because it has the covariances between an owner's modules."""
        return store

    def only(self, store: SiteSource, numbers: Sequence[int]) -> ExactForm:
        """With these sites and no others, at the same prior."""
        return replace(self, stacked=stack(store.packs(1), numbers), factor=None)

    def like(
        self, kernel: Kernel, mean: float, effects: Effects, Z: Tensor, store: SiteSource, numbers: Sequence[int]
    ) -> ExactForm:
        """At another prior, of all these sites."""
        return ExactForm(kernel, mean, stack(store.packs(1), numbers), effects)

    def without_sites(self, store: SiteSource) -> ExactForm:
        """Its pseudo-observations stay, without names: without them it would not be exact."""
        return self

    def can_append_owner(self, known: Sequence[int], new: Sequence[int]) -> bool:
        """Anybody, because it has the covariances between an owner's modules."""
        return True

    def grown(
        self, store: SiteSource, numbers: Sequence[int], first: int, limits: GrowthLimits
    ) -> Grown[ExactForm | PointsForm]:
        """With new sites; at points where it would have more pseudo-observations than may be held."""
        larger = self.with_sites(store, numbers[first:], first)
        if limits.most is None or len(larger.stacked.rho) <= limits.most:
            return Grown(larger, [])
        return Grown(larger._at_affordable_points(limits.rows), [], rechosen=True)

    def _at_affordable_points(self, rows: float) -> PointsForm:
        """Folded onto as many points as are affordable; `rows` of data are behind it."""
        with self.stored() as store:
            whole = by_owner(store, [owned.owner for owned in self.anonymous_sites()], self.effects)
            most = affordable.points_for(store.rows)
            Z = select(self.kernel, whole, None, slack_tolerance(rows), most)
            return PointsForm.of(whole, self.kernel, self.mean, Z, self.effects)

    def with_points(self, Z: Tensor) -> ExactForm:
        """It has none of its own."""
        return self

    @torch.no_grad()
    def faded(self, members: Sequence[Member], share: float) -> ExactForm:
        """All that it knows to the power γ = `share`: √γ R, √γ ρ, γ e."""
        s, root = self.stacked, share**0.5
        blocks = tuple(b._replace(Rt=root * b.Rt) for b in s.blocks)
        less = s._replace(blocks=blocks, rho=root * s.rho, ones=root * s.ones, e=share * s.e)
        return replace(self, stacked=less, factor=None)

    # --- under another prior, in other units, at points ---

    def at_kernel(self, kernel: Kernel) -> ExactForm:
        """The same sites under another kernel, with the mean that is best there."""
        return replace(self, kernel=kernel, factor=None).at_best_mean()

    @torch.no_grad()
    def at_best_mean(self) -> ExactForm:
        """With the constant mean that maximises the evidence; the factor does not notice."""
        mean = best_mean(self.L, self.stacked.rho, self.stacked.ones)
        return replace(self, mean=float(mean), factor=self.L)

    def in_units(self, scale: float, shift: float, inputs: InputUnits, effective_rows: float) -> ExactForm:
        """The form of s·f((x − shift)/scale) + b, the inputs changed so: A, and so its factor, do not notice."""
        s = self.stacked
        ones = s.ones / scale
        constant = effective_rows * s.e.new_tensor(abs(scale)).log()
        moved = s._replace(
            Z=inputs.of(s.Z),
            blocks=tuple(b._replace(Rt=b.Rt / scale) for b in s.blocks),
            rho=s.rho + shift * ones,
            ones=ones,
            e=s.e - constant,
        )
        return ExactForm(
            kernel=in_units(self.kernel, scale, inputs),
            mean=scale * self.mean + shift,
            stacked=moved,
            effects=self.effects.in_units(scale),
            factor=vars(self).get("L", self.factor),
        )

    def without_points(self, kept: list[int]) -> ExactForm:
        """It has none of its own."""
        return self

    def recoded(self, change: Callable[[Tensor], Tensor]) -> ExactForm:
        """Its points are those of the sites, which must come again with their codes (`only`)."""
        return self

    def at_points(self, points: int | Tensor | None) -> PointsForm:
        """The shared f at these points, at so many of the modules', or (None) at as many as express it."""
        if isinstance(points, Tensor):
            return self._at(points)
        with self.stored() as store:
            return self._at(select(self.kernel, store, points, POINTS.nothing, affordable.points_for(store.rows)))

    @torch.no_grad()
    def _at(self, Z: Tensor) -> PointsForm:
        """By exact marginalisation.

        ρ̃ = Hv + noise with covariance BBᵀ = A − HHᵀ, so B⁻¹H and B⁻¹ρ̃ are rows about v.
        """
        base = basis(self.kernel, Z)
        c = self.stacked.observe(self.kernel.matrix(self.stacked.Z, Z))
        H = linalg.solve_lower(base.L, c.mT).mT
        B = linalg.cholesky(self._covariance() - H @ H.mT).L
        columns = linalg.solve_lower(B, torch.cat([H, self._residual[:, None]], dim=1))
        e = self.stacked.e - linalg.logdet(B)
        rows = compress(CentredRows(columns[:, :-1], columns[:, -1], e, torch.zeros_like(e)))
        return PointsForm(self.kernel, self.mean, base.Z, float(base.jitter), rows, marginal=rows)

    def anonymous_sites(self) -> list[OwnedSite]:
        """What it is made of, without names; the constants together in the first."""
        found = [owned for b in self.stacked.blocks for owned in _sites(b, self.stacked)]
        found[0] = OwnedSite(found[0].site._replace(e=self.stacked.e), found[0].owner)
        return found

    def stored(self) -> SiteStore:
        """Its sites in a store, by their order."""
        store = SiteStore()
        for i, owned in enumerate(self.anonymous_sites()):
            store.put(owned.site, 1.0, i)
        return store


def _sites(b: Block, s: Stacked) -> list[OwnedSite]:
    K, r, M = b.Rt.shape
    Z, rho = s.Z[b.points].reshape(K, M, -1), s.rho[b.rows].reshape(K, r)
    owners = s.point_owner[b.points].reshape(K, M)[:, 0].tolist()
    return [OwnedSite(Site(Z[i], b.Rt[i], rho[i], s.e.new_zeros(())), owners[i]) for i in range(K)]
