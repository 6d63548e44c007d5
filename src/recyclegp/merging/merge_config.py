"""How an ensemble's kernel and noise were chosen, and whom it trusts: what relearning does again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import torch

from .. import threads
from ..core.sites import weighted
from ..kernels import DEFAULT_KERNEL, Kernel, Node, parse
from ..kernels.units import InputUnits, in_units, scaled
from ..local.kernel_choice import AUTO
from ..record import IMPORTED
from .build import build, chosen_kernel, step_cost
from .constants import INFLUENCE, SCREENING, UNFINISHED
from .exact_learning import Learned
from .form import Form, Merged
from .member import Member, Members
from .moved import is_moved
from .owners import Owners
from .points import PointsWanted
from .pooling import all_too_large, discrete_columns, kernel_by_name, most_common_kernel
from .problem import MergeProblem
from .site_source import SiteSource
from .trust import Trust, apply_screening
from .unfinished import agreeing_share, consistent_share, is_absurd, is_unfinished
from .verdicts import ELSEWHERE, TRUSTED, Standing, Verdict


class Held(Enum):
    """Why the kernel was not learned, where it should have been."""

    NOTHING = "nothing"  # it was
    UNFINISHED = "unfinished"  # no module's search had ended
    ABSURD = "absurd"  # what was learned is far outside what any module says
    LARGE = "large"  # it has more parameters than are learned


class MergeResult(NamedTuple):
    """What was chosen, the members as they were screened, and the sites of those that count."""

    merged: Merged
    members: tuple[Member, ...]
    sites: SiteSource
    held: Held = Held.NOTHING


class MergeConfig(NamedTuple):
    kernel: Kernel | str | None = None  # one that was given, a structure by name, "auto", or None for the members' own
    learn: bool = True
    pool_noise: bool = True
    trust: Trust = Trust.LEARN  # without learning nobody is screened
    noise: float | None = None  # one that was given, to which all Gaussian modules come; None: as `pool_noise` says

    def start(self, members: Sequence[Member], store: SiteSource, dimension: int, owners: Owners) -> Kernel:
        """Where learning begins: the given kernel, or one from the members."""
        return self._start(members, store, dimension, owners).to(store.device)

    def _start(self, members: Sequence[Member], store: SiteSource, dimension: int, owners: Owners) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if not isinstance(self.kernel, str) or self._takes_theirs(members, dimension):
            return most_common_kernel(members)
        if self.kernel == AUTO:
            return chosen_kernel(members, store, dimension, owners)
        return kernel_by_name(self.kernel, members, store, dimension)

    def _takes_theirs(self, members: Sequence[Member], dimension: int) -> bool:
        """Is the structure that of the members? Between levels nothing is smooth or rough, so nothing is compared."""
        return self.kernel is None or (self.kernel == AUTO and len(discrete_columns(members)) == dimension)

    def run(
        self,
        members: Sequence[Member],
        store: SiteSource,
        wanted: PointsWanted,
        dimension: int,
        owners: Owners,
    ) -> MergeResult:
        """All that is chosen, chosen from these members: in the same way whenever it is done."""
        if self.learn and self._takes_theirs(members, dimension) and all_too_large(members):
            # nor is anybody screened, under such a kernel
            found = self._replace(learn=False).run(members, store, wanted, dimension, owners)
            return found._replace(held=Held.LARGE)
        with threads.limit_threads(step_cost(store, wanted)):
            trust = self.trust if self.learn else Trust.NONE
            whom, sites, learned = apply_screening(
                Members.of(members), store, trust=trust, owners=owners, pool_noise=self.pool_noise
            )
            start = self.start(whom, sites, dimension, owners)
            # somebody has chosen any other kernel than the one that everybody has: it stays
            open_kernel = self.kernel is None and start.structure == _default(whom, dimension)
            same = learned is not None and learned.kernel.structure == start.structure
            first = learned if open_kernel or (self.kernel is None and same) else None
            problem = MergeProblem(start, whom, sites, wanted, self.learn, owners, self.pool_noise, open_kernel, first)
            return _built(problem, screened=trust is not Trust.NONE)

    def in_units(self, scale: float, inputs: InputUnits) -> MergeConfig:
        """For the ensemble of s·f((x − shift)/scale) + b, the inputs changed so."""
        kernel = in_units(self.kernel, scale, inputs) if isinstance(self.kernel, Kernel) else self.kernel
        return self._replace(kernel=kernel, noise=None if self.noise is None else self.noise * scale**2)

    def with_noise(self, noise: float | None) -> MergeConfig:
        """With a noise that is given; as it is where none is."""
        return self if noise is None else self._replace(pool_noise=False, noise=noise)


def _default(members: Sequence[Member], dimension: int) -> Node:
    """The structure that fits have if nobody says which."""
    return parse(DEFAULT_KERNEL, dimension, discrete_columns(members)).structure


def _built(problem: MergeProblem, *, screened: bool) -> MergeResult:
    """What can be learned, from those whose searches had ended; an absurd result is none."""
    as_they_are = tuple(problem.members), problem.store
    if not problem.learn:
        return MergeResult(build(problem), *as_they_are)
    open_ones = [i for i, m in enumerate(problem.members) if not m.latent.convergence.converged and m.weight > 0]
    unfinished = [i for i in open_ones if is_unfinished(problem.members[i].about, problem.members[i].latent)]
    held = replace(problem, learn=False, first=None)
    if doubtful := _doubtful(problem, unfinished) if screened else []:
        unfinished += doubtful
        problem = replace(problem, first=None)  # which was learned from them, too
    silent = [*unfinished, *_in_question(problem, unfinished)]  # from whom nothing is learned
    others = problem.store.without(silent) if silent else problem.store
    if not others.sites:
        return MergeResult(_of_best_size(held), *as_they_are, Held.UNFINISHED)
    found = build((replace(problem, store=others) if silent else problem).as_smooth_as_it_is)
    if screened and (moving := _who_move(problem, silent)):
        rest = build(replace(problem, store=problem.store.without({*silent, *moving}), first=None).as_smooth_as_it_is)
        if _are_moved(problem, rest.form, found.form, {*silent, *moving}):
            problem = replace(problem, members=_told_that_they_move(problem.members, moving))
            found, silent = rest, [*silent, *moving]
    form = found.form
    if is_absurd(form.kernel, form.mean, problem.members):
        return MergeResult(build(held), *as_they_are, Held.ABSURD)
    if not silent:
        return MergeResult(found, *as_they_are)
    learned = Learned(form.kernel, form.mean, form.effects, convergence=found.convergence, noise=found.noise)
    members, store = _as_far_as_they_agree(problem, form, set(silent))
    last = replace(held, first=learned, members=members, store=store)
    return MergeResult(build(last), members, store)


def _in_question(problem: MergeProblem, unfinished: Sequence[int]) -> list[int]:
    """Who decides nothing for all, and counts as far as it agrees with what the others know; where they are few.

    Their unit nobody knows, or they say far more than most where nobody can check it, or f would be elsewhere.
    """
    judged, counting = _judged(problem, unfinished)
    found = [i for i, v in judged if v.decides_nothing]
    few = len(found) <= (1 - INFLUENCE.honest) * len(problem.members) and 2 * len(found) < counting
    return found if few else []


def _judged(problem: MergeProblem, apart: Sequence[int]) -> tuple[list[tuple[int, Verdict]], int]:
    """Those who count, and are not of these, but are not trusted; and how many count and are not of these."""
    others = set(apart)
    found = [
        (i, m.verdict)
        for i, m in enumerate(problem.members)
        if m.verdict is not TRUSTED and m.verdict is not None and m.weight > 0 and i not in others
    ]
    weights = Members.of(problem.members).weights
    return found, sum([w > 0 for w in weights]) - sum([weights[i] > 0 for i in others])


def _who_move(problem: MergeProblem, silent: Sequence[int]) -> list[int]:
    """Others who are not trusted, and may have moved f; where they are few beside those who are."""
    judged, counting = _judged(problem, silent)
    found = [i for i, v in judged if v.standing is Standing.UNCHECKED]
    few = len(found) + len(silent) <= SCREENING.most_forged * len(problem.members)
    enough = counting - len(found) >= SCREENING.min_trusted_to_rule_out_effects
    return found if few and enough else []


def _are_moved(problem: MergeProblem, rest: Form, found: Form, apart: set[int]) -> bool:
    """Is f elsewhere with them, at the points of all the others, or between them?"""
    Z = torch.cat([site.Z for i, site in problem.store.each() if i not in apart])
    Z = Z[torch.linspace(0, len(Z) - 1, min(len(Z), SCREENING.points)).long()]
    between = (Z + Z.roll(len(Z) // 2, 0)) / 2
    discrete = sorted(rest.kernel.structure.discrete)
    between[:, discrete] = Z[:, discrete]
    Z = torch.cat([Z, between])
    own = float(torch.as_tensor(rest.effects.diagonal(rest.kernel, Z)).mean())
    return is_moved(rest.posterior.predict(Z), found.posterior.predict(Z), own, rest.kernel.diagonal(Z))


def _told_that_they_move(members: Sequence[Member], moving: Sequence[int]) -> list[Member]:
    told = list(members)
    for i in moving:
        verdict = told[i].verdict
        assert verdict is not None
        told[i] = told[i]._replace(verdict=verdict.moving)
    return told


def _doubtful(problem: MergeProblem, unfinished: Sequence[int]) -> list[int]:
    """Other models from elsewhere that are far too sure of themselves beside modules that were fitted here.

    A search that was stopped early need not show it: q may be narrower than its prior at every step. Those that were
    fitted here decide, with owners' effects if they have some, where they are more than those in doubt.
    """
    imported = {i for i, m in enumerate(problem.members) if m.about.method in IMPORTED and m.weight > 0}
    if not imported:
        return []
    counting = {i for i, m in enumerate(problem.members) if m.weight > 0}
    fitted, asked = counting - imported, imported.difference(unfinished)
    if len(fitted) < UNFINISHED.fewest_judges or not asked:
        return []
    known = problem.store.without(set(range(len(problem.members))) - fitted)
    form = build(replace(problem, store=known, first=None).as_smooth_as_it_is).form
    sites = [(i, site) for i, site in problem.store.each() if i in asked]
    share = {i: agreeing_share(site, form.posterior, form.kernel, form.effects) for i, site in sites}
    found = sorted(i for i in share if share[i] < UNFINISHED.least_agreeing)
    return found if len(found) < len(fitted) else []


def _as_far_as_they_agree(problem: MergeProblem, form: Form, silent: set[int]) -> tuple[tuple[Member, ...], SiteSource]:
    """Modules from whom nothing was learned count as much as what the others know allows."""
    members, left = list(problem.members), torch.ones(len(problem.members), dtype=torch.float64)
    known = form.posterior, form.kernel, form.effects
    for i, site in problem.store.each():
        if i not in silent:
            continue
        m, v = members[i], members[i].verdict or TRUSTED
        if v.decides_nothing:
            share = consistent_share(site, *known)
        else:
            # screening has asked the same, under another kernel: the smaller of both shares counts, not their product
            counted = 1.0 if v.weight is None else m.weight / v.weight
            whole = weighted(site, site.Rt.new_tensor(1 / counted))
            share = min(1.0, agreeing_share(whole, *known) / counted)
        if share < 1:
            members[i], left[i] = _counting_less(m, share), share
    return tuple(members), problem.store.weighted(left)


def _counting_less(m: Member, share: float) -> Member:
    v = m.verdict or TRUSTED
    before = m.weight if v.weight is None else v.weight
    if v.decides_nothing:
        less = f"it is {1 / share:.3g} times too sure: it counts that much less"
        told = v._replace(reason=f"{v.reason}; beside what the others know {less}", share=share * v.share)
    else:
        why = "its search had not ended" if is_unfinished(m.about, m.latent) else ELSEWHERE
        left = share * m.weight / before
        less = f"it is {1 / left:.3g} times too sure: it counts that much less"
        told = Verdict(Standing.UNCHECKED, f"{why}, and {less}", share=left)
    return m._replace(weight=share * m.weight, verdict=told._replace(weight=before))


def _of_best_size(problem: MergeProblem) -> Merged:
    """With f so many times larger or smaller that modules might still be right about it, by the evidence."""
    steps = torch.linspace(-1, 1, UNFINISHED.steps).tolist()
    kernels = [scaled(problem.start, UNFINISHED.size_factor**step) for step in steps]
    found = [build(replace(problem, start=kernel)) for kernel in kernels]
    return max(found, key=lambda merged: merged.form.evidence(problem.store))


USUAL = MergeConfig()  # what merge does by default
