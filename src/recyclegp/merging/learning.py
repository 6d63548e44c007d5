"""The ensemble's kernel, mean and points: selected, learned by the evidence, and selected again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import optimiser
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..kernels import Kernel, learned
from ..kernels.units import lengths
from .evidence import evidence, profiled_mean
from .member import Member
from .points import PointsWanted, select, slack_left
from .pooling import largest_kernel, median_mean
from .site_store import SiteStore

log = logging.getLogger(__name__)

FORGIVEN = 30.0  # nats of slack up to which the kernel may be adapted to the points
CRAMPED = 10.0  # nats of slack above which a given number of points is too small to stay where modules put theirs
MOVABLE = 512  # coordinates that may be learned beside the kernel
FARTHEST = 5.0  # lengthscales that a point may move
FIRST_POINTS = 1024  # of the modules, on which a first kernel is learned
PRIOR_SD = 2.0  # how far, in log units, learned kernel parameters stay near their pooled values
REACH = 12.0  # bounds, in log units about them


class Choice(NamedTuple):
    kernel: Kernel
    mean: float
    Z: Tensor
    convergence: Convergence = NOTHING_TO_LEARN


def choose(start: Kernel, members: Sequence[Member], store: SiteStore, wanted: PointsWanted, *, learn: bool) -> Choice:
    """ψ*, m and Z_*: select points, learn by the evidence, select again; move them where they are too few.

    A number of points that cannot express what the modules know is best spent between the modules' points. Points
    given as such stay.
    """
    tolerance = slack_tolerance(sum(m.weighted_rows for m in members))
    kernel, mean = start, median_mean(members)
    if learn and wanted.given is None:
        # The median kernel only decides where a first few points go, and may want far too many of them: some of
        # the modules are enough to find a better one.
        with store.thinned(FIRST_POINTS) as some:
            first = [Choice(k, mean, select(k, some, wanted.count, tolerance)) for k in _starts(start, members)]
            kernel, mean, *_ = _learn(_best(first, some), some, start)
    elif learn:
        assert wanted.given is not None
        kernel = _best([Choice(k, mean, wanted.given) for k in _starts(start, members)], store).kernel
    Z = wanted.given if wanted.given is not None else select(kernel, store, wanted.count, tolerance)
    found = Choice(kernel, mean, Z)
    if learn:
        found = _learn(found, store, start)
        movable = wanted.count is not None and Z.numel() <= MOVABLE
        if movable and float(slack_left(found.kernel, store, Z)[-1]) > CRAMPED:
            # moving points is a refinement, which may end when its steps are used up
            found = _learn(found, store, start, move=True)._replace(convergence=found.convergence)
    return found


def _starts(start: Kernel, members: Sequence[Member]) -> list[Kernel]:
    """Where learning may begin: one module with few rows and an odd kernel must not decide it."""
    largest = largest_kernel(members, start.structure)
    return [start] if largest is None or largest == start else [start, largest]


@torch.no_grad()
def _best(choices: Sequence[Choice], store: SiteStore) -> Choice:
    """Of several kernels, each with its points, the one that the evidence prefers."""
    if len(choices) == 1:
        return choices[0]

    def value(c: Choice) -> float:
        return optimiser.value_or_lowest(lambda: evidence(c.kernel, c.Z, store, price, c.mean))

    return max(choices, key=value)


def slack_tolerance(rows: float) -> float:
    """Slack, in nats, at which automatic selection stops adding points: beside so many rows it is nothing."""
    return min(10.0, max(0.1, 1e-4 * rows))


def _units(kernel: Kernel, Z: Tensor) -> Tensor:
    """In which points move: lengthscales, or where a kernel has none the spread of the points."""
    found = lengths(kernel, Z.shape[1])
    spread = Z.std(0) if len(Z) > 1 else torch.ones_like(found)
    return torch.where(torch.isfinite(found), found, torch.where(spread > 0, spread, torch.ones_like(spread)))


def price(slack: Tensor) -> Tensor:
    """c·log(1 + slack/c): about the slack where it is small, next to nothing where it is large."""
    return FORGIVEN * torch.log1p(slack / FORGIVEN)


def _learn(first: Choice, store: SiteStore, about: Kernel, *, move: bool = False) -> Choice:
    """Maximise E − price(slack) over θ, and over Z_* where they may move, with the mean profiled out.

    A little slack is bought back like this, as by the bound E − slack: predictions are the bound's, and better at a
    kernel the points can express. But with far too few points the bound itself would buy all of it back with ever
    longer lengthscales.
    """
    M, D = first.Z.shape
    free = torch.tensor(learned(first.kernel.structure))
    theta, centre = first.kernel.theta[free], about.theta[free]
    unit = _units(first.kernel, first.Z)
    steps = first.Z.new_zeros(M * D if move else 0)  # of the points, in lengthscales

    def kernel_at(x: Tensor) -> Kernel:
        whole = first.kernel.theta.clone()
        whole[free] = x[: len(theta)]
        return first.kernel.with_theta(whole)

    def points_at(x: Tensor) -> Tensor:
        return first.Z + unit * x[len(theta) :].reshape(M, D) if move else first.Z

    def objective(x: Tensor) -> Tensor:
        prior = -0.5 * ((x[: len(theta)] - centre) / PRIOR_SD).square().sum()
        return evidence(kernel_at(x), points_at(x), store, price, first.mean) + prior

    reach = torch.cat([torch.full_like(theta, REACH), torch.full_like(steps, FARTHEST)])
    middle = torch.cat([centre, steps])
    best = optimiser.maximise_one(objective, [torch.cat([theta, steps])], middle - reach, middle + reach)
    kernel, Z = kernel_at(best.x), points_at(best.x)
    log.info("evidence %.3f after %d evaluations: %s", best.value, best.evaluations, kernel.describe())
    message = "converged" if best.converged else "stopped before converging"
    end = Convergence(best.converged, best.evaluations, message)
    return Choice(kernel, profiled_mean(kernel, Z, store, first.mean), Z, end)
