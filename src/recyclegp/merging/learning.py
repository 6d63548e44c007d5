"""The ensemble's kernel, mean, effects and points: selected, learned by the evidence, and selected again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..core import optimiser
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.effects import NO_EFFECTS, Effects
from ..devices import memory_seen_once
from ..kernels import Kernel, continuous_columns
from ..logs import logger
from .constants import LEARNING, POINTS
from .evidence import Shared, evidence, profiled_mean
from .exact_learning import Learned, decide_from_some, ended
from .member import Member, Members
from .noise import PooledNoise, Readings, at_noise
from .owners import Owners, approximated, owner_numbers
from .points import PointsWanted, select, slack_left
from .pooling import largest_kernels, median_mean
from .search_space import Curvature, SearchSpace
from .site_source import SiteSource

log = logger(__name__)

LARGEST = 512  # points of a site: many matrices that are larger are not factored without asking the GPU
RECORDED = 2**25  # numbers: a recording keeps some twenty matrices of this size, 5 GiB, while it is used


class Choice(NamedTuple):
    kernel: Kernel
    mean: float
    Z: Tensor
    effects: Effects = NO_EFFECTS
    convergence: Convergence = NOTHING_TO_LEARN
    noise: PooledNoise | None = None
    curvature: Curvature | None = None  # where the search on some of the modules ended


def begin(
    start: Kernel,
    members: Sequence[Member],
    store: SiteSource,
    wanted: PointsWanted,
    *,
    learn: bool,
    owners: Owners,
    readings: Readings | None = None,
    first: Learned | None = None,
) -> Choice:
    """A first kernel, owners' effects and noise, learned from some of the modules, and the points that they ask for.

    The median kernel only decides where a first few points go, and may want far too many of them: some of the modules
    are enough to find a better one. Effects are decided by the exact evidence, never at points: what too few points
    cannot express would look like owners that differ.
    """
    if first is None:
        first = Learned(start, median_mean(members))
        if learn or owners is not Owners.NONE:
            first = _from_some(start, members, store, learn, owners, readings)
    Z = None if wanted.given is None else wanted.given.to(start.theta.device)
    if Z is None:
        tolerance = slack_tolerance(sum(Members.of(members).weighted_rows))
        Z = select(first.kernel, at_noise(store, readings, first.noise), wanted.count, tolerance)
    return Choice(first.kernel, first.mean, Z, first.effects, noise=first.noise, curvature=first.curvature)


def _from_some(
    start: Kernel,
    members: Sequence[Member],
    store: SiteSource,
    learn: bool,
    owners: Owners,
    readings: Readings | None,
) -> Learned:
    """By the exact evidence of some of the modules."""
    kernels = starts(start, members) if learn else None
    numbers, pooled = owner_numbers(members), readings if learn else None
    return decide_from_some(store, numbers, pooled, start, kernels, owners, approximate=approximated(members))


def finish(first: Choice, start: Kernel, store: SiteSource, wanted: PointsWanted) -> Choice:
    """ψ* and m by the evidence of all modules at these points; with effects, one site for each owner.

    A number of points that cannot express what the modules know is best spent between the modules' points. Points
    given as such stay.
    """
    space = SearchSpace.of(start, first.Z)
    found = _learn(first, store, space)
    movable = wanted.count is not None and first.Z.numel() <= LEARNING.movable
    movable = movable and bool(continuous_columns(first.kernel.structure, first.Z.shape[1]))
    if (
        movable
        and float(slack_left(found.kernel, store, found.Z, found.effects)[-1]) > LEARNING.move_points_above_slack
    ):
        # moving points is a refinement, which may end when its steps are used up
        found = _learn(found, store, space, move=True)._replace(convergence=found.convergence)
    return found


def starts(start: Kernel, members: Sequence[Member]) -> list[Kernel]:
    """Where learning may begin: the median of kernels that have found different things may have found nothing."""
    found = [start]
    for kernel in largest_kernels(members, start.structure):
        kernel = kernel.to(start.theta.device)
        found += [] if kernel in found else [kernel]
    return found


def slack_tolerance(rows: float) -> float:
    """Slack, in nats, at which automatic selection stops adding points: beside so many rows it is nothing."""
    return min(POINTS.most_tolerance, max(POINTS.least_tolerance, POINTS.tolerance * rows))


def _units(kernel: Kernel, Z: Tensor) -> Tensor:
    """In which points move: lengthscales, or where a kernel has none the spread of the points."""
    found = kernel.lengths(Z.shape[1])
    spread = Z.std(0) if len(Z) > 1 else torch.ones_like(found)
    unit = torch.where(torch.isfinite(found), found, torch.where(spread > 0, spread, torch.ones_like(spread)))
    unit[list(kernel.structure.discrete)] = 0.0  # there is nothing between two levels
    return unit


def price(slack: Tensor) -> Tensor:
    """c·log(1 + slack/c): about the slack where it is small, next to nothing where it is large."""
    return LEARNING.slack_scale * torch.log1p(slack / LEARNING.slack_scale)


def _learn(first: Choice, store: SiteSource, space: SearchSpace, *, move: bool = False) -> Choice:
    """Maximise E − price(slack) over θ, and over Z_* where they may move, with the mean profiled out.

    A little slack is bought back like this, as by the bound E − slack: predictions are the bound's, and better at a
    kernel the points can express. But with far too few points the bound itself would buy all of it back with ever
    longer lengthscales.
    """
    M, D = first.Z.shape
    begin = space.start(first.kernel)
    size = len(begin)
    unit = _units(first.kernel, first.Z)
    still = first.Z.new_zeros(M * D if move else 0)  # steps of the points, in lengthscales

    def points_at(x: Tensor) -> Tensor:
        return first.Z + unit * x[size:].reshape(M, D) if move else first.Z

    recorded = not move and _can_be_recorded(store, M, space, first.effects)
    shared: Shared | None = {} if recorded else None

    def objective(x: Tensor) -> Tensor:
        value = evidence(space.kernel_at(x[:size]), points_at(x), store, price, first.mean, first.effects, shared)
        return value + space.log_prior(x[:size])

    far = torch.full_like(still, LEARNING.farthest)
    lower, upper = torch.cat([space.lower, -far]), torch.cat([space.upper, far])
    with threads.limit_threads(float(M) ** 3 + store.points * M * (M + store.largest)):
        metric = None if move else space.metric(first.curvature, store.rows)
        begins, least = [torch.cat([begin, still])], LEARNING.least_gain
        # a recording asks nothing, not even how much memory there is
        with memory_seen_once() if recorded else nullcontext():
            best = optimiser.maximise_one(
                objective, begins, lower, upper, least=least, metric=metric, recorded=recorded
            )
    kernel, Z = space.kernel_at(best.x[:size]), points_at(best.x)
    log.info("evidence %.3f after %d evaluations: %s", best.value, best.evaluations, kernel.describe())
    mean = profiled_mean(kernel, Z, store, first.mean, first.effects)
    return Choice(kernel, mean, Z, first.effects, ended(best), first.noise)


def _can_be_recorded(store: SiteSource, points: int, space: SearchSpace, effects: Effects) -> bool:
    """Is one value of the evidence the same few launches for every θ, and its matrices small beside a GPU's memory?"""
    small = store.points * points <= RECORDED and store.largest <= LARGEST
    return small and store.is_held and space.can_be_recorded and effects.stretch is None
