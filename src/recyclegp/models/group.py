"""One Gaussian process of an ensemble: of one function or, where outputs go together, of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..categories import Categories
from ..core.averaged import AveragedPosterior
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.effects import Scales, scales_of_few
from ..core.exact import ExactPosterior
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Posterior
from ..core.spread import Spread
from ..devices import CPU, default_device
from ..errors import Argument, ContradictionWarning, Part, RecycleGPError, warn_user
from ..kernels import Kernel
from ..kernels.units import InputUnits
from ..likelihoods import Change, Gaussian, Likelihood, mixed
from ..merging import affordable, decay, pooling, strangers
from ..merging.agreement import remembered
from ..merging.copies import is_same
from ..merging.form import Form, FormAtPoints, GrowthLimits
from ..merging.member import Member, active, kept_points, stored
from ..merging.noise import PooledNoise
from ..merging.owners import owner_numbers, owner_site
from ..merging.points import ALL, AUTO, Choice
from ..merging.site_source import SiteSource, corners
from ..merging.site_store import SiteStore
from ..merging.size import Size
from ..merging.stacking import Comparison, OwnerKernel, can_answer, own_part
from . import coupling as coupled
from . import unlearning
from .checks import check_finite, check_kernel
from .how import Coupling, How
from .owner_answers import mixed_uncertain, noise_dof, of_its_own, one_noise, uncertain
from .processes import OneFunction, Process
from .unlearning import NOTHING_REMOVED, Chosen, Unlearned

ASKED_ON_CPU = 4096  # coordinates of points


class Grown(NamedTuple):
    group: Group
    lost: float = 0.0  # nats of what is new that points, which stay where they are, cannot express
    points: int = 0  # of these


@dataclass(frozen=True, eq=False)
class Group:
    functions: tuple[int, ...]  # which of the ensemble's functions it has
    form: Form  # prior and posterior, as values
    members: tuple[Member, ...]  # what modules say of these functions, as they published it
    likelihoods: tuple[tuple[Likelihood, ...], ...]  # of the observations of each function
    noises: tuple[PooledNoise | None, ...]  # of each function, to which modules were brought; None: they stay
    convergence: Convergence = NOTHING_TO_LEARN  # of the search for its kernel
    unlearned: Unlearned = NOTHING_REMOVED  # what is left of modules that were removed
    extent: Tensor | None = None  # (2, D): where modules have points, where their sites are not kept
    coupling: Coupling | None = None  # the units of outputs that go together
    own_share: float = 0.0  # of their modules alone, in what owners are answered who ask for themselves
    spread: Spread | None = None  # how far somebody nobody has met may be from f; None: as the form says

    def __post_init__(self) -> None:
        check_finite("ensemble", *self.form.tensors())
        check_kernel("ensemble", self.form.kernel, ", or pass ", Argument("learn", False))

    def __getstate__(self) -> dict[str, object]:
        """Pickled without what can be computed again."""
        return {name: value for name, value in vars(self).items() if name in type(self).__annotations__}

    def on(self, device: torch.device) -> Group:
        """With copies of its numbers, there, that nobody else can change; members stay on the CPU."""
        other = copy(self)  # whose numbers have been checked
        object.__setattr__(other, "form", self.form.own(device))
        return other

    # --- what it knows ---

    @property
    def dimension(self) -> int:
        """Of the inputs: a process of several functions has their index as one more."""
        return self.form.Z.shape[1] - (self.coupling is not None)

    @property
    def keeps_sites(self) -> bool:
        return all([m.latent.site is not None for m in self.members])

    @property
    def effective_rows(self) -> float:
        """Densities of y behind it, weighted."""
        return sum(m.effective_row_count * m.weight for m in self.members)

    def rows_of(self, function: int) -> int:
        """Data rows behind one of its functions, each counted with its module's weight."""
        return max(1, round(sum(m.weighted_rows for m in self.members if m.function == function)))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The prior kernel of each function, in its own units."""
        if self.coupling is None:
            return (self.form.kernel,)
        return tuple(coupled.kernel_of_output(self.form.kernel, c, self.coupling) for c in self.functions)

    @property
    def means(self) -> tuple[float, ...]:
        """The constant prior mean of each function."""
        if self.coupling is None:
            return (self.form.mean,)
        return tuple(b + s * self.form.mean for s, b in zip(*self.coupling, strict=True))

    @property
    def points(self) -> tuple[Tensor, ...]:
        """Z of each function."""
        Z = self.form.Z
        if self.coupling is None:
            return (Z,)
        found = [Z[Z[:, -1] == c, :-1] for c in self.functions]
        return tuple(own if len(own) else torch.unique(Z[:, :-1], dim=0) for own in found)

    @property
    def offset_sds(self) -> tuple[float, ...]:
        """How far owners' constants are from each shared function, in its own units."""
        sd = self.form.effects.offset_sd
        return (sd,) if self.coupling is None else tuple(abs(scale) * sd for scale in self.coupling.scale)

    @cached_property
    def with_evidence(self) -> Form:
        """Nothing but the evidence and the report asks for it, so it may wait."""
        with torch.inference_mode(False), torch.no_grad(), self.sites(self.members) as store:
            form = self.form.without_sites(store)
        check_finite("ensemble", *form.tensors())
        return form

    @property
    def evidence(self) -> float:
        """The block-marginal evidence, of y in its own units."""
        return self.with_evidence.evidence(SiteStore()) - self._unscaled

    @property
    def bound(self) -> float:
        return self.form.bound - self._unscaled

    @property
    def _unscaled(self) -> float:
        return 0.0 if self.coupling is None else coupled.unscaled(self.members, self.coupling)

    @property
    def size(self) -> Size:
        kept = [m.site for m in active(self.members) if m.site is not None]
        return self.form.size(sum(len(site.rho) for site in kept) if self.keeps_sites else None)

    # --- asking it ---

    @cached_property
    def posterior(self) -> Posterior | ExactPosterior:
        """Of the shared functions."""
        with torch.inference_mode(False), torch.no_grad():
            return self.form.posterior

    def process(self, owner: str | None, *, of_y: bool) -> Process:
        """y is somebody's: without an owner it is a new one's; f without an owner is the shared one."""
        asked = [self._function(self._original(owner, c), c, of_y=of_y) for c in self.functions]
        return OneFunction(asked[0]) if self.coupling is None else coupled.CoupledOutputs(tuple(asked), self.coupling)

    def _function(self, owner: str | None, function: int, *, of_y: bool) -> FunctionPosterior:
        mistrusted = self._mistrusted(owner, function)
        if mistrusted:
            return self._instead(mistrusted)
        merged = self._merged_function(owner, function, of_y=of_y)
        own = self._averaged_with(owner, function)
        return AveragedPosterior(merged, of_its_own(own), own_part(own, self.own_share)) if own else merged

    def _merged_function(self, owner: str | None, function: int, *, of_y: bool) -> FunctionPosterior:
        if owner is None and not of_y:
            return self.posterior
        if self.spread is not None and self._is_new(owner, function):
            return self.spread.new_owner(self.posterior, self.form.kernel)
        if not self.form.effects.present:
            return self.posterior
        own = [(m.owner, m.function) == (owner, function) for m in self.members]
        if self._is_new(owner, function):
            scales = self._scales
            return self.form.of_new_owner().scaled(1.0 if scales is None else scales.mean)
        number = owner_numbers(self.members)[own.index(True)]
        return self.form.of_owner(number, owner_site(self.mapped(self.members), str(owner), function))

    def _averaged_with(self, owner: str | None, function: int) -> list[Member]:
        """An owner's modules, where its answer is in part theirs alone."""
        if owner is None or self.coupling is not None:
            return []
        own = [m for m in self.members if (m.owner, m.function) == (owner, function)]
        return own if can_answer(own) and own_part(own, self.own_share) > 0 else []

    def with_own_share(self) -> Group:
        """With as much of owners' own answers as makes what neither has seen most probable, and a spread for others."""
        # a few points are asked on the CPU: many questions of few numbers each take a GPU longer
        here = self.on(CPU) if self.form.Z.numel() <= ASKED_ON_CPU else self
        with default_device(here.form.Z.device):
            compared = here._compared_with_own()
            if compared is None:
                return self
            with torch.inference_mode(False):
                return replace(self, own_share=compared.own_share(), spread=strangers.spread(compared, here.posterior))

    def is_lost_between_points(self) -> bool:
        """Do most owners know less of their functions than alone?"""
        compared = self._compared_with_own()
        with torch.inference_mode(False):
            return compared is not None and compared.is_lost_between_points()

    def _compared_with_own(self) -> Comparison | None:
        if self.coupling is not None:
            return None
        c = self.functions[0]
        with torch.inference_mode(False), torch.no_grad():
            return Comparison.of(
                self.members,
                lambda own: self._merged_function(own.owner, c, of_y=False),
                lambda own: of_its_own(own.members),
                OwnerKernel(self.form.kernel, self.form.effects),
                self.form.Z.device,
            )

    def _original(self, owner: str | None, function: int) -> str | None:
        """Whose module an owner's is a copy of, where it has nothing else: the answer is that one's."""
        own = [m for m in self.members if (m.owner, m.function) == (owner, function)]
        if not own or not all(m.verdict is not None and m.verdict.is_copy and m.weight == 0 for m in own):
            return owner
        return next((m.owner for m in active(self.members) if is_same(m, own[0])), owner)

    def _is_new(self, owner: str | None, function: int) -> bool:
        """Also somebody whose modules do not count, or are of other functions."""
        return not any((m.owner, m.function) == (owner, function) and m.weight > 0 for m in self.members)

    @cached_property
    def _scales(self) -> Scales | None:
        """What is not known of the variances of effects."""
        if self.spread is not None:
            return self.spread.scales
        owners = self.form.effects.owners
        return None if owners is None else scales_of_few(owners)

    def scales_of(self, owner: str | None, function: int) -> Scales | None:
        """The same, where somebody new is asked for; None is nobody."""
        owner = self._original(owner, function)
        new = owner is not None and self._is_new(owner, function) and not self._mistrusted(owner, function)
        return self._scales if new else None

    def _mistrusted(self, owner: str | None, function: int) -> list[Member]:
        """All modules of an owner of whom none counts because the others contradict them, where they were kept."""
        if owner is None or self.coupling is not None:
            return []
        own = [m for m in self.members if (m.owner, m.function) == (owner, function)]
        told = all(m.verdict is not None and m.verdict.flagged and m.weight == 0 and m.site is not None for m in own)
        return own if told else []

    def _instead(self, own: Sequence[Member]) -> FunctionPosterior:
        """What such an owner knows by itself."""
        warn_user(
            f"{own[0].owner} contradicts the others and does not count: it is answered from its own module alone",
            category=ContradictionWarning,
        )
        return of_its_own(own)

    def noise_of(self, owner: str | None, function: int) -> Gaussian | None:
        """Of an owner's observations, where noises were brought together; a new owner's is any of theirs.

        An owner's is the one under which its modules count, which is drawn towards the common one, as far as it is
        known; its own estimate is used as much as its own answer is.
        """
        owner = self._original(owner, function)
        mistrusted = self._mistrusted(owner, function)
        if mistrusted:
            return one_noise([(m.likelihoods[0].values[0], m.rows) for m in mistrusted])
        known = [m for m in active(self.members) if m.function == function]
        own = [m for m in known if m.owner == owner]
        if own:
            averaged = self._averaged_with(owner, function)
            return self._noise_of_known(own, known, own_part(averaged, self.own_share) if averaged else 0.0)
        return self._noise_of_new(known, self.noises[self.functions.index(function)])

    def _noise_of_new(self, known: Sequence[Member], pooled: PooledNoise | None) -> Gaussian | None:
        """Any of theirs; where it was looked how far new owners may be, as uncertain as each of them is."""
        noises = [(m.noise, m.weighted_rows) for m in known if m.noise is not None]
        if not noises or len(noises) < len(known):
            return None
        if self.spread is not None:
            return mixed_uncertain([(Gaussian(m.noise), noise_dof([m], known, pooled), m.weighted_rows) for m in known])
        return mixed(*zip(*noises, strict=True))

    def _noise_of_known(self, own: Sequence[Member], everybody: Sequence[Member], share: float) -> Gaussian | None:
        """`share` is that of its own answer."""
        merged = one_noise([(m.noise, m.weighted_rows) for m in own])
        if merged is None:
            return None
        pooled = self.noises[self.functions.index(own[0].function)]
        parts = [(merged, noise_dof(own, everybody, pooled), 1 - share)] if share < 1 else []
        if share > 0:
            alone = one_noise([(m.likelihoods[0].values[0], m.rows) for m in own])
            assert alone is not None  # they say under which noise they were published
            parts.append((alone, noise_dof(own, own, pooled and replace(pooled, dof=math.inf)), share))
        return uncertain(*parts)

    def report(self) -> tuple[Member, ...]:
        """Members with their agreement with the rest, and their owners' offsets."""
        with self.sites(self.members) as store:
            return remembered(self.with_evidence, self.members, store)

    # --- other members ---

    def mapped(self, members: Sequence[Member]) -> tuple[Member, ...]:
        """Members as the form knows them: over the index of their output, where outputs go together."""
        if self.coupling is None:
            return tuple(members)
        return coupled.over_index(members, self.coupling, self.form.kernel)

    def sites(self, members: Sequence[Member]) -> SiteSource:
        """The sites that members have kept, as the form takes them."""
        return self.form.grouped(stored(self.mapped(members)), owner_numbers(members))

    def add(self, new: tuple[Member, ...], store: SiteSource, choice: Choice, larger: Form | None = None) -> Grown:
        """New members' rows, from their store, under what is already there; `larger` has points for them, if known."""
        members = (*self.members, *new)
        first, numbers = len(self.members), owner_numbers(members)
        known: Form = vars(self).get("with_evidence", self.form)
        base = known if larger is None or larger is self.form else larger
        if base.can_append_owner(numbers[:first], numbers[first:]):
            limits = GrowthLimits(
                rows=sum(m.weighted_rows for m in members),
                may_append=larger is None and choice == AUTO,
                most=None if choice == ALL else affordable.held(),
            )
            form, appended, rechosen = base.grown(store, numbers, first, limits)
            new = tuple(m._replace(points_appended=m.points_appended + appended.count(i)) for i, m in enumerate(new))
            members = (*self.members, *new)
            if rechosen:  # points were chosen with everybody
                members = tuple(m._replace(added_after_merge=False) for m in members)
        else:
            # an owner's modules are one site where owners differ, so that its old ones must be read again
            self.need_sites("another module of an owner who has one here")
            with self.sites(members) as everything:
                form = base.only(everything, numbers)
        more = replace(self, form=form, members=members, likelihoods=self.pooled(members))
        lost = form.slack - self.form.slack + sum(m.slack for m in new)
        points = len(form.chosen_points) or sum(len(m.site.Z) for m in new if m.site is not None)
        return Grown(more if self.keeps_sites else more.without_sites(store, first), lost, points)

    def pooled(self, members: Sequence[Member]) -> tuple[tuple[Likelihood, ...], ...]:
        """Its likelihoods, and those that only these members have, for each function."""
        return tuple(
            pooling.with_unknown_filled(known, pooling.pool_likelihoods([m for m in members if m.function == c]))
            for c, known in zip(self.functions, self.likelihoods, strict=True)
        )

    def rebuilt(self, members: tuple[Member, ...]) -> Group:
        """Of these members, at the same kernel, mean, noise and points."""
        with self.sites(members) as store:
            form = self.form.only(store, owner_numbers(members))
        likelihoods = []
        for c, known in zip(self.functions, self.likelihoods, strict=True):
            left = {p.name for m in active(members) if m.function == c for p in m.likelihoods}
            likelihoods.append(tuple(p for p in known if p.name in left))
        return replace(self, form=form, members=members, likelihoods=tuple(likelihoods))

    def with_noise(self, known: Mapping[int, Gaussian], changed: Callable[[Member], Member]) -> Group:
        """With noises that are given, by function, and members that were changed so."""
        if any(m.function in known and m.noise_evidence is not None for m in self.members):
            self.need_sites("with_noise")
        now = replace(self, members=tuple(map(changed, self.members)))
        now = now.rebuilt(now.members) if now.keeps_sites else now
        likelihoods = [
            tuple(p.with_noise(known[c]) if c in known and isinstance(p, Gaussian) else p for p in parts)
            for c, parts in zip(self.functions, now.likelihoods, strict=True)
        ]
        noises = (None if c in known else noise for c, noise in zip(self.functions, self.noises, strict=True))
        return replace(now, likelihoods=tuple(likelihoods), noises=tuple(noises))

    def without(
        self, gone: set[str], how: How, categories: tuple[Categories, Categories], waiting: Sequence[Member]
    ) -> Group:
        """Without some members, at the same kernel and mean; levels that only they had are forgotten."""
        rest = tuple(m for m in self.members if m.name not in gone)
        form = self.form.without_points(kept_points(self.members, gone, len(self.form.Z)))
        left = replace(self, form=form).recoded(*categories, members=rest)
        left = left.rebuilt(left.members)
        known = tuple(
            unlearning.likelihoods_without(old, [m for m in rest if m.function == c])
            for c, old in zip(self.functions, self.likelihoods, strict=True)
        )
        return replace(left, likelihoods=known, unlearned=self.after_removal(gone, how, waiting, relearned=False))

    def recoded(self, old: Categories, new: Categories, *, members: tuple[Member, ...]) -> Group:
        """With codes of other levels, in its points and in these members, which are its own from now on."""
        members = tuple(m.recoded(old, new) for m in members)
        return replace(self, form=self.form.recoded(lambda Z: old.recoded(Z, new)), members=members)

    def after_removal(self, gone: set[str], how: How, waiting: Sequence[Member], *, relearned: bool) -> Unlearned:
        """What is left of modules that go now, and of those that went before; also in rows that wait."""
        later = self.mapped([m for m in waiting if m.function in self.functions])
        known = tuple(p for own in self.likelihoods for p in own)
        noise = next((n for n in self.noises if n is not None), None)
        config = how.configs[self.functions[0]]
        everybody = (*self.mapped(self.members), *later)
        by_modules = how.choice not in (None, ALL)
        chosen = Chosen(self.form, everybody, config, how.owners, noise, known, by_modules, later)
        return unlearning.after_removal(self.unlearned, chosen, gone, relearned=relearned)

    def decayed(self, share: float) -> Group:
        """All that is known to the power of a share."""
        members = decay.decayed_members(self.members, share)
        return replace(self, form=self.form.faded(self.mapped(members), share), members=members)

    def without_sites(self, store: SiteSource, first: int = 0) -> Group:
        """Names only; how well those in the store agree with the rest is written down while it is known."""
        store = self.form.grouped(store, owner_numbers(self.members)[first:])
        form = self.form.without_sites(store)
        members = remembered(form, self.members, store, first)
        ends = torch.cat([corners(store).cpu()[:, : self.dimension]] + ([] if self.extent is None else [self.extent]))
        return replace(
            self,
            form=form,
            members=members[:first] + tuple(m.with_site(None) for m in members[first:]),
            extent=torch.stack([ends.amin(0), ends.amax(0)]),
        )

    # --- other units, other points ---

    def in_units(self, changes: Sequence[Change], inputs: InputUnits) -> Group:
        """Of the functions s·f((x − shift)/scale) + b, the inputs changed so; changes of all functions."""
        own = [changes[c] for c in self.functions]
        if self.coupling is None:
            form = self.form.in_units(*own[0][:2], inputs.to(self.form.Z.device), self.effective_rows)
        else:  # which is in units of its own
            pad = torch.nn.functional.pad
            whole = InputUnits(pad(inputs.scale, (0, 1), value=1.0), pad(inputs.shift, (0, 1)))
            form = self.form.in_units(1.0, 0.0, whole.to(self.form.Z.device), 0.0)
        return replace(
            self,
            form=form,
            members=tuple(m.in_units(changes[m.function], inputs) for m in self.members),
            likelihoods=tuple(
                tuple(p.in_units(change.scale, change.shift) for p in known)
                for known, change in zip(self.likelihoods, own, strict=True)
            ),
            noises=tuple(
                None if noise is None else noise.in_units(change.scale, inputs)
                for noise, change in zip(self.noises, own, strict=True)
            ),
            extent=None if self.extent is None else inputs.of(self.extent),
            coupling=None if self.coupling is None else coupled.rescaled(self.coupling, own),
            spread=None if self.spread is None else self.spread.in_units(*own[0][:2]),
        )

    def at_points(self, points: int | Tensor | None) -> tuple[FormAtPoints, ...]:
        """What it knows of each function at points: at its own, at these, or at as many as it takes or were asked for.

        Of outputs that go together it is what modules say of each output by itself: what outputs tell each other is
        found again where they are merged, and would count twice.
        """
        if self.coupling is None:
            return (self.form.at_points(points),)
        return tuple(self._alone(c).at_points(points) for c in self.functions)

    def _alone(self, c: int) -> Form:
        """One output from its own members, at the prior that it has here."""
        assert self.coupling is not None
        self.need_sites("to_module of correlated outputs")
        own = [m for m in self.members if m.function == c]
        effects = self.form.effects.in_units(self.coupling.scale[c])
        with stored(own) as store:
            Z = self.points[self.functions.index(c)]
            i = self.functions.index(c)
            return self.form.like(self.kernels[i], self.means[i], effects, Z, store, owner_numbers(own))

    def need_sites(self, what: Part) -> None:
        if not self.keeps_sites:
            raise RecycleGPError(
                what,
                " needs the modules' sites, and this ensemble keeps only names; merge the module files again without "
                "the ones to leave out, or merge with ",
                Argument("keep", "sites"),
            )
