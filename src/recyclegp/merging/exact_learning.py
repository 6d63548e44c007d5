"""Kernel, mean and effects by the exact evidence of all pseudo-observations, with its closed-form gradient."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import optimiser
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.effects import NO_EFFECTS, Effects, stacked_covariance
from ..core.stacked import Stacked, log_evidence, stack
from ..kernels import Kernel
from . import affordable
from .owners import Owners
from .search_space import SearchSpace, detached
from .site_store import SiteStore

log = logging.getLogger(__name__)

# One evaluation costs n³. Steps that gain less than a thousandth of a nat are not worth that.
TOLERANCE = 1e-6  # of the value
GRADIENT = 1e-3  # nats per log unit


class Learned(NamedTuple):
    kernel: Kernel
    mean: float
    effects: Effects = NO_EFFECTS
    value: float = -torch.inf
    convergence: Convergence = NOTHING_TO_LEARN


def evidence(stacked: Stacked, kernel: Kernel, effects: Effects) -> Tensor:
    """E(θ) at the best mean, differentiable in kernel and effects."""
    A = stacked_covariance(stacked.gram(kernel), stacked.ones, stacked.owner, effects)
    return log_evidence(A, stacked.rho, stacked.ones).value + stacked.e


@torch.no_grad()
def best_mean(stacked: Stacked, kernel: Kernel, effects: Effects) -> float:
    """m̂, the constant mean that maximises the evidence."""
    A = stacked_covariance(stacked.gram(kernel), stacked.ones, stacked.owner, effects)
    return float(log_evidence(A, stacked.rho, stacked.ones).mean)


def learn_exactly(
    store: SiteStore,
    everything: Stacked,
    numbers: Sequence[int],
    about: Kernel,
    kernels: Sequence[Kernel],
    owners: Owners,
) -> Learned:
    """On all modules where that is affordable, and begun on some of them where it is long.

    `everything` is all that is in the store, `numbers` are those of the members' owners, `about` is where the prior of
    the kernel is centred, and `kernels` are where the search may begin.
    """
    few = affordable.decided(store.largest)
    if store.rows <= few:
        return decide(everything, about, kernels, owners)
    with store.thinned(few) as some:
        first = decide(stack(some.packs(1), numbers), about, kernels, owners)
    if store.rows > affordable.LEARNED:
        return first
    space = SearchSpace.of(about, everything.Z, _model(first.effects))
    return _learn(everything, space, [space.start(first.kernel, first.effects)])


def _model(effects: Effects) -> Owners:
    if not effects.present:
        return Owners.NONE
    return Owners.SMOOTH if float(effects.smooth) > 0 else Owners.OFFSET


def decide(stacked: Stacked, about: Kernel, kernels: Sequence[Kernel] | None, owners: Owners) -> Learned:
    """The models that were asked for, from the simplest on, each where the evidence asks for it.

    Without kernels to begin at, the kernel is `about` itself, and only effects are learned.
    """
    count = len(stacked.owner.unique())
    best: Learned | None = None
    for model in owners.candidates if count > 1 else (Owners.NONE,):
        space = SearchSpace.of(about, stacked.Z, model)
        if kernels is None:
            space = space.at(about)
        begins = [best.kernel, about] if best is not None else list(kernels or [about])
        effects = NO_EFFECTS if best is None else best.effects
        found = _learn(stacked, space, [space.start(kernel, effects) for kernel in begins])
        if best is None or model.is_worth(found.value - best.value, count):
            best = found
    assert best is not None  # there is at least one model
    return best


def _learn(stacked: Stacked, space: SearchSpace, begins: list[Tensor]) -> Learned:
    def objective(x: Tensor) -> Tensor:
        return evidence(stacked, space.kernel_at(x), space.effects_at(x)) + space.log_prior(x)

    best = optimiser.maximise_one(objective, begins, space.lower, space.upper, tolerance=TOLERANCE, gradient=GRADIENT)
    kernel, effects = space.kernel_at(best.x), detached(space.effects_at(best.x))
    log.info(
        "exact evidence %.3f after %d evaluations, owners=%s: %s, offset sd %.3g, smooth sd %.3g",
        best.value,
        best.evaluations,
        space.owners.value,
        kernel.describe(),
        effects.offset_sd,
        effects.smooth_sd,
    )
    return Learned(kernel, best_mean(stacked, kernel, effects), effects, best.value, ended(best))


def ended(best: optimiser.Single) -> Convergence:
    """How a search ended, in words."""
    message = "converged" if best.converged else "stopped before converging"
    return Convergence(best.converged, best.evaluations, message)
