"""Kernel, mean and effects by the exact evidence of all pseudo-observations, with its closed-form gradient."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..core import optimiser
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.effects import NO_EFFECTS, Effects, stacked_covariance
from ..core.stacked import Evidence, Stacked, log_evidence, stack
from ..kernels import Kernel
from . import affordable
from .constants import LEARNING
from .noise import NoiseModel, PooledNoise, Readings, StackedNoise, apart_is_worth
from .owners import Owners
from .search_space import SearchSpace, detached, detached_noise
from .site_source import SiteSource

log = logging.getLogger(__name__)


class Learned(NamedTuple):
    kernel: Kernel
    mean: float
    effects: Effects = NO_EFFECTS
    value: float = -torch.inf
    convergence: Convergence = NOTHING_TO_LEARN
    noise: PooledNoise | None = None
    unclear: bool = False  # more modules might show that owners differ


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
        """E(θ) at the best mean, and that mean; differentiable in kernel, effects and noise."""
        s = self.stacked
        if self.noise is None or noise is None:
            A = stacked_covariance(s.gram(kernel), s.ones, s.owner, effects)
            found = log_evidence(A, s.rho, s.ones)
            return Evidence(found.value + s.e, found.mean)
        tau = self.noise.readings.factors(noise)
        A = stacked_covariance(s.gram(kernel), s.ones, s.owner, effects, self.noise.diagonal(tau))
        found = log_evidence(A, s.rho, s.ones)
        return Evidence(found.value + s.e + self.noise.constant(tau), found.mean)


def learn_exactly(
    store: SiteSource,
    numbers: Sequence[int],
    about: Kernel,
    kernels: Sequence[Kernel],
    owners: Owners,
    readings: Readings | None = None,
) -> Learned:
    """On all modules where that is affordable, and begun on some of them where it is long.

    `numbers` are those of the members' owners, `about` is where the prior of the kernel is centred, `kernels` are where
    the search may begin, and `readings` are what members say about their noise, where it is to be pooled.
    """
    few = affordable.decided(store.largest)
    if store.rows <= few:
        return decide(Sites.of(store, numbers, readings), about, kernels, owners)
    with store.thinned(few) as some:
        first = decide(Sites.of(some, numbers, readings), about, kernels, owners)
    if store.rows > affordable.learned():
        return first
    everything = Sites.of(store, numbers, readings)
    space = SearchSpace.of(about, everything.stacked.Z, _model(first.effects))
    if first.noise is not None and everything.noise is not None:
        space = space.pooling(_noise_model(first.noise), everything.noise.readings.level)
    return _learn(everything, space, [space.start(first.kernel, first.effects, first.noise)])


def decide_from_some(
    store: SiteSource,
    numbers: Sequence[int],
    readings: Readings | None,
    about: Kernel,
    kernels: Sequence[Kernel] | None,
    owners: Owners,
) -> Learned:
    """The same by some of the modules; by more of them where it is not clear whether owners differ."""
    few, more = affordable.first(store.largest), affordable.decided(store.largest)
    with store.thinned(few) as some:
        first = decide(Sites.of(some, numbers, readings), about, kernels, owners)
    if not first.unclear or store.points <= few:
        return first
    with store.thinned(more) as some:
        begins = None if kernels is None else [first.kernel, *kernels]
        return decide(Sites.of(some, numbers, readings), about, begins, owners)


def _noise_model(noise: PooledNoise) -> NoiseModel:
    return NoiseModel.APART if math.isfinite(noise.dof) else NoiseModel.COMMON


def _model(effects: Effects) -> Owners:
    if not effects.present:
        return Owners.NONE
    return Owners.SMOOTH if float(effects.smooth) > 0 else Owners.OFFSET


def decide(sites: Sites, about: Kernel, kernels: Sequence[Kernel] | None, owners: Owners) -> Learned:
    """The models that are wanted, from the simplest on, each where the evidence asks for it.

    Without kernels to begin at, the kernel is `about` itself, and only effects are learned. Noises are one for all, and
    kept apart where that is much better.
    """
    count = len(sites.stacked.owner.unique())
    best: Learned | None = None
    unclear = False
    for model in owners.candidates if count > 1 else (Owners.NONE,):
        space = SearchSpace.of(about, sites.stacked.Z, model)
        if sites.noise is not None:
            space = space.pooling(NoiseModel.COMMON, sites.noise.readings.level)
        if kernels is None:
            space = space.at(about)
        begins = [best.kernel, about] if best is not None else list(kernels or [about])
        effects, noise = (NO_EFFECTS, None) if best is None else (best.effects, best.noise)
        found = _learn(sites, space, [space.start(kernel, effects, noise) for kernel in begins])
        if best is None or model.is_worth(found.value - best.value, count):
            best, unclear = found, False
        else:
            unclear = unclear or model.may_be_worth(found.value - best.value, count)
    assert best is not None  # there is at least one model
    best = best._replace(unclear=unclear)
    if sites.noise is None or not sites.noise.readings.differ():
        return best
    space = SearchSpace.of(about, sites.stacked.Z, _model(best.effects))
    space = space.pooling(NoiseModel.APART, sites.noise.readings.level)
    found = _learn(sites, space, [space.start(kernel, best.effects, best.noise) for kernel in (best.kernel, about)])
    apart = apart_is_worth(found.value - best.value, int(sites.noise.readings.known.sum()))
    return found._replace(unclear=unclear) if apart else best


def _learn(sites: Sites, space: SearchSpace, begins: list[Tensor]) -> Learned:
    def objective(x: Tensor) -> Tensor:
        found = sites.log_evidence(space.kernel_at(x), space.effects_at(x), space.noise_at(x))
        return found.value + space.log_prior(x)

    with threads.limit_threads(float(len(sites.stacked.rho)) ** 3):
        best = optimiser.maximise_one(
            objective, begins, space.lower, space.upper, tolerance=LEARNING.tolerance, gradient=LEARNING.gradient
        )
    kernel, effects = space.kernel_at(best.x), detached(space.effects_at(best.x))
    noise = detached_noise(space.noise_at(best.x))
    log.info(
        "exact evidence %.3f after %d evaluations, owners=%s: %s, offset sd %.3g, smooth sd %.3g",
        best.value,
        best.evaluations,
        space.owners.value,
        kernel.describe(),
        effects.offset_sd,
        effects.smooth_sd,
    )
    with torch.no_grad():
        mean = float(sites.log_evidence(kernel, effects, noise).mean)
    return Learned(kernel, mean, effects, best.value, ended(best), noise)


def ended(best: optimiser.Single) -> Convergence:
    """How a search ended, in words."""
    message = "converged" if best.converged else "stopped before converging"
    return Convergence(best.converged, best.evaluations, message)
