"""Kernel, mean and effects by the exact evidence of all pseudo-observations, with its closed-form gradient."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..core import optimiser
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.effects import NO_EFFECTS, Effects
from ..core.stacked import Evidence, Stacked, log_evidence, stack
from ..kernels import Kernel
from ..kernels.units import alike, smoother
from . import affordable
from .constants import EFFECTS, LEARNING, NOISE
from .noise import PooledNoise, Readings, StackedNoise
from .owners import Owners
from .search_space import Curvature, SearchSpace, detached, detached_noise
from .site_source import SiteSource

log = logging.getLogger(__name__)

RECORDED = 2048  # rows: of more, arithmetic takes the time, and a recording keeps all that it has made


class Question(NamedTuple):
    """What was asked of some of the modules: whose answer is known need not be learned again."""

    store: SiteSource  # of all of them; as it is then
    about: Kernel
    owners: Owners
    approximate: bool

    def is_same(self, other: Question | None) -> bool:
        return other is not None and self.store is other.store and self[1:] == other[1:]


class Learned(NamedTuple):
    kernel: Kernel
    mean: float
    effects: Effects = NO_EFFECTS
    value: float = -torch.inf
    convergence: Convergence = NOTHING_TO_LEARN
    noise: PooledNoise | None = None
    unclear: bool = False  # more modules might show that owners differ
    of_all: bool = False  # was it learned from all modules?
    curvature: Curvature | None = None  # where the search ended
    nothing_missed: bool = False  # noises were no better explained by what modules have missed of f
    question: Question | None = None  # to which this is the answer, of some of the modules

    @property
    def ended_at(self) -> PooledNoise | None:
        """Noise where the search ended, also if all have one noise then."""
        return self.noise if self.curvature is None else self.curvature.noise


class Sites(NamedTuple):
    """What is learned from: stacked sites, and what their members say about their noise, if that is to be pooled."""

    stacked: Stacked
    noise: StackedNoise | None = None

    @staticmethod
    def of(store: SiteSource, numbers: Sequence[int], readings: Readings | None = None) -> Sites:
        """All that is in a store; `numbers` are those of the members' owners."""
        stacked = stack(store.packs(1), numbers)
        noise = None if readings is None else StackedNoise.of(stacked, readings)
        return Sites(stacked, noise if noise is not None and bool(noise.readings.known.any()) else None)

    def log_evidence(self, kernel: Kernel, effects: Effects, noise: PooledNoise | None = None) -> Evidence:
        """E(θ) at the best mean, and that mean, noises integrated out; differentiable in kernel, effects and noise."""
        s = self.stacked
        if self.noise is None or noise is None:
            found = log_evidence(s.covariance(kernel, effects), s.rho, s.ones)
            return Evidence(found.value + s.e, found.mean)
        under = self.noise.under(noise, kernel)
        tau = self.noise.readings.factors(noise, under)
        missed = self.noise.missed(noise, under)
        found = log_evidence(s.covariance(kernel, effects, self.noise.diagonal(tau), missed), s.rho, s.ones)
        value = found.value + s.e + self.noise.constant(tau) + self.noise.readings.log_spread(noise, under.missed)
        return Evidence(value, found.mean)


def learn_exactly(
    store: SiteSource,
    numbers: Sequence[int],
    about: Kernel,
    kernels: Sequence[Kernel],
    owners: Owners,
    readings: Readings | None = None,
    *,
    approximate: bool = False,
    known: Learned | None = None,
) -> Learned:
    """On all modules where that is affordable, and begun on some of them where it is long.

    `numbers` are those of the members' owners, `about` is where the prior of the kernel is centred, `kernels` are where
    the search may begin, and `readings` are what members say about their noise, where it is to be pooled. `approximate`
    says that some likelihoods are. `known` is what fewer modules have said: it begins there.
    """
    few = affordable.decided(store.largest)
    if store.rows <= few:
        return decide(Sites.of(store, numbers, readings), about, kernels, owners, approximate=approximate, known=known)
    with store.thinned(few) as some:
        first = decide(Sites.of(some, numbers, readings), about, kernels, owners, approximate=approximate, known=known)
    if store.rows > affordable.learned():
        return first
    everything = Sites.of(store, numbers, readings)
    space = SearchSpace.of(about, everything.stacked.Z, _model(first.effects))
    if first.noise is not None and everything.noise is not None:
        space = replace(space.pooling(everything.noise.readings.level), missed=first.noise.has_missed)
    begins = [space.start(first.kernel, first.effects, first.ended_at)]
    return _as_residuals_say(everything, _learn(everything, space, begins, first.curvature))


def decide_from_some(
    store: SiteSource,
    numbers: Sequence[int],
    readings: Readings | None,
    about: Kernel,
    kernels: Sequence[Kernel] | None,
    owners: Owners,
    *,
    approximate: bool = False,
    compare_smoothness: bool = False,
    known: Learned | None = None,
) -> Learned:
    """The same by some of the modules; by more of them where it is not clear whether owners differ.

    `known` was learned from other modules: the search begins where that has ended, and with its smoothness. That by
    more of them begins where that by fewer has ended.
    """
    few, more = affordable.first(store.largest), affordable.decided(store.largest)
    with store.thinned(few) as some:
        sites = Sites.of(some, numbers, readings)
        near = about if known is None or known.kernel.structure == about.structure else smoother(about)
        question = Question(store, near, owners, approximate)
        if known is not None and kernels is not None and question.is_same(known.question):
            first = known
        else:
            begins = kernels if near is about else []
            first = decide(sites, near, begins, owners, approximate=approximate, known=known)
            first = first._replace(question=None if kernels is None else question)
        if compare_smoothness:
            first = as_smooth_as_it_is(sites, about, first, approximate=approximate)
    if not first.unclear or store.points <= few:
        return first._replace(of_all=store.points <= few)
    if first.kernel.structure != about.structure:
        about, kernels = smoother(about), []
    with store.thinned(more) as some:
        begins, ended = (None, None) if kernels is None else ([first.kernel, *kernels], first)
        return decide(Sites.of(some, numbers, readings), about, begins, owners, approximate=approximate, known=ended)


def as_smooth_as_it_is(sites: Sites, about: Kernel, found: Learned, *, approximate: bool) -> Learned:
    """What was found, or the same with rbf in place of matern52 (or the reverse), by the evidence.

    How smooth a function is shows between rows of many owners; none of them may have enough to see it. Like is compared
    with like: where modules have missed some of f, they have also if it is smoother.
    """
    other = smoother(about) if found.kernel.structure == about.structure else about
    kernel = alike(found.kernel, other)
    if other.structure == found.kernel.structure or kernel is None:
        return found
    again = decide(sites, other, [kernel], _model(found.effects), approximate=approximate, known=found)
    return again._replace(unclear=found.unclear) if again.value > found.value else found


def _model(effects: Effects) -> Owners:
    if not effects.present:
        return Owners.NONE
    return Owners.SMOOTH if float(effects.smooth) > 0 else Owners.OFFSET


def decide(
    sites: Sites,
    about: Kernel,
    kernels: Sequence[Kernel] | None,
    owners: Owners,
    *,
    approximate: bool = False,
    known: Learned | None = None,
) -> Learned:
    """The models that are wanted, from the simplest on, each where the evidence asks for it.

    Without kernels to begin at, the kernel is `about` itself, and only effects are learned. A search with effects
    begins where that without them has ended. But if its lengths have become ever shorter to explain owners who
    contradict each other, it begins at `about`: no search comes back from there. The first search begins where a
    similar one has ended, if that is `known`.
    """
    if known is not None and _has_collapsed(known.kernel, about, sites.stacked.Z.shape[1]):
        known = None
    count = len(sites.stacked.owner.unique())
    best: Learned | None = None
    unclear = False
    for model in owners.candidates if count > 1 else (Owners.NONE,):
        space = SearchSpace.of(about, sites.stacked.Z, model)
        if sites.noise is not None:
            space = space.pooling(sites.noise.readings.level)
            if known is not None and known.noise is not None and known.noise.has_missed:
                space = replace(space, missed=True)
        if kernels is None:
            space = space.at(about)
        begins, curvature = [space.start(kernel) for kernel in (kernels or [about])], None
        if best is not None and _has_collapsed(best.kernel, about, sites.stacked.Z.shape[1]):
            begins = [space.start(about, best.effects)]
        elif known is not None and (there := alike(known.kernel, about)) is not None:
            begins, curvature = [space.start(there, known.effects, known.ended_at)], known.curvature
        price = model.price(count, approximate=approximate)
        wanted = -math.inf if best is None else best.value + min(EFFECTS.unclear, 1.0) * price
        found = _learn(sites, space, begins, curvature, wanted)
        if kernels is not None and not space.missed:
            ruled_out = known is not None and known.nothing_missed and not known.effects.present
            wins = best is not None and found.value - best.value > price
            found = found._replace(nothing_missed=True) if ruled_out and not wins else _with_missed(sites, space, found)
        if best is None or found.value - best.value > price:
            best, unclear = found, False
            known = best
        else:  # more of the modules could show it
            unclear = unclear or found.value - best.value > EFFECTS.unclear * price
    assert best is not None  # there is at least one model
    return _as_residuals_say(sites, best)._replace(unclear=unclear)


def _as_residuals_say(sites: Sites, found: Learned) -> Learned:
    """What was found, or, where its one noise is far from what the residuals say, the best as near as they know it.

    Where points leave open ten times the noise, sites show the sum of both, and a few percent more of the one are a
    fifth of the other. The residuals are of all rows, and know better. Where noises differ, or modules have missed
    some of f, the residuals have been asked.
    """
    noise, ends, curvature = found.noise, sites.noise, found.curvature
    if noise is None or ends is None or curvature is None or math.isfinite(noise.dof) or noise.has_missed:
        return found
    if _nats(noise, ends.readings, ends.readings.level_sd()) < NOISE.level_gain:
        return found
    with torch.no_grad():
        missed = ends.under(replace(noise, missed_scale=NOISE.missed), found.kernel).missed
    sd = ends.readings.level_sd(missed)
    if _nats(noise, ends.readings, sd) < NOISE.level_gain:
        return found
    space = replace(curvature.space, level_sd=sd)
    again = _learn(sites, space, [space.start(found.kernel, found.effects, found.ended_at)], curvature)
    return again._replace(nothing_missed=found.nothing_missed)


def _nats(noise: PooledNoise, readings: Readings, sd: float) -> float:
    """By how much this noise is less probable if residuals know its logarithm as well as that, and not as is usual."""
    away = math.log(float(noise.level) / readings.level)
    return 0.5 * away**2 * (sd**-2 - NOISE.level_sd**-2)


def _with_missed(sites: Sites, space: SearchSpace, found: Learned) -> Learned:
    """What was found, or the same with c, the share of what modules have missed of f that is in their noise.

    Where it is much, noises that are alike look different, their level is far too high, and smooth functions look like
    owners that differ. A search does not find c from there, so it begins at a level as of those that have missed least.
    It is worth while where most modules have missed more than their noise. Owners' own smooth functions explain them
    about as well as c does; but only with c are modules less certain of what they have smoothed, so that it stays.
    """
    noise, ends = found.noise, sites.noise
    if noise is None or ends is None:
        return found
    with torch.no_grad():
        missed = ends.under(replace(noise, missed_scale=NOISE.missed), found.kernel).missed
    known = ends.readings.known
    if float((missed / ends.readings.estimate)[known].median()) < NOISE.missed_by_most:
        return found
    space = replace(space, missed=True)
    level = ends.readings.low_level
    tried = [replace(noise, level=level, missed_scale=c, dof=NOISE.missed_dof) for c in NOISE.missed_tried]
    begins = [space.start(found.kernel, found.effects, noise) for noise in tried]
    least = NOISE.missed_gain if space.owners is not Owners.SMOOTH else -NOISE.missed_loss
    again = _learn(sites, space, begins, found.curvature, found.value + min(least, 0.0))
    gain = again.value - found.value
    return again if gain > least else found._replace(nothing_missed=gain < 0)


def _has_collapsed(kernel: Kernel, about: Kernel, dimension: int) -> bool:
    """Is a length much shorter than it is in the middle of the modules' own kernels?"""
    return bool((about.lengths(dimension) > EFFECTS.collapsed * kernel.lengths(dimension)).any())


def _learn(
    sites: Sites,
    space: SearchSpace,
    begins: list[Tensor],
    known: Curvature | None = None,
    wanted: float = -math.inf,
) -> Learned:
    """From one of these starts; where a similar search has ended, with what it knows of the curvature.

    Given up where it cannot come as high as is wanted; then nobody asks for its mean.
    """
    rows = len(sites.stacked.rho)
    objective = _objective(sites, space)
    with threads.limit_threads(float(rows) ** 3):
        best = optimiser.maximise_one(
            objective,
            begins,
            space.lower,
            space.upper,
            tolerance=LEARNING.tolerance,
            gradient=LEARNING.gradient,
            wanted=wanted,
            metric=space.metric(known, rows),
            recorded=rows <= RECORDED and space.can_be_recorded,
        )
    kernel, owners = space.kernel_at(best.x), len(sites.stacked.owner.unique())
    effects = detached(space.effects_at(best.x), owners)
    noise = ended_at = detached_noise(space.noise_at(best.x), kernel)
    log.info(
        "exact evidence %.3f after %d evaluations, owners=%s: %s, offset sd %.3g, smooth sd %.3g",
        best.value,
        best.evaluations,
        space.owners.value,
        kernel.describe(),
        effects.offset_sd,
        effects.smooth_sd,
    )
    mean, given_up = math.nan, best.value < wanted
    if not given_up:
        mean, noise = _settled(sites, kernel, effects, noise)
    curvature = Curvature(best.metric, space, rows, ended_at)
    return Learned(kernel, mean, effects, best.value, ended(best), noise, curvature=curvature)


@torch.no_grad()
def _settled(
    sites: Sites, kernel: Kernel, effects: Effects, noise: PooledNoise | None
) -> tuple[float, PooledNoise | None]:
    """The mean where a search has ended, and its noises: one for all, where the evidence does not ask for more."""
    value, mean = sites.log_evidence(kernel, effects, noise)
    if noise is not None:
        common = replace(noise, dof=math.inf)
        as_one = sites.log_evidence(kernel, effects, common)
        if value - as_one.value < NOISE.apart_gain:
            noise, mean = common, as_one.mean
    return float(mean), noise


def _objective(sites: Sites, space: SearchSpace) -> Callable[[Tensor], Tensor]:
    def objective(x: Tensor) -> Tensor:
        found = sites.log_evidence(space.kernel_at(x), space.effects_at(x), space.noise_at(x))
        return found.value + space.log_prior(x)

    return objective


def ended(best: optimiser.Single) -> Convergence:
    """How a search ended, in words."""
    message = "converged" if best.converged else "stopped before converging"
    return Convergence(best.converged, best.evaluations, message)
