"""Local models, many at a time: hyperparameters, posterior, and what is published of it.

Models of one kind and similar size are lanes of one batched problem. One model is one lane, so that
`fit` and `fit_many` are the same computation.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import least_squares, optimiser, sites
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.least_squares import CentredRows
from ..core.posterior import Basis
from ..core.publishing import Published, publish
from ..core.sites import Site
from ..kernels import Kernel
from ..likelihoods import Likelihood, gaussian_noise
from . import dual, objectives, observations, placement, samples, search_space
from .placement import Points
from .request import FitRequest, Method
from .samples import Samples
from .search_space import Hyperparameters, SearchSpace

log = logging.getLogger(__name__)

ROWS_LEARNED = {Method.EXACT: 1000, Method.COLLAPSED: 4000, Method.DUAL: 2000}  # rows for the hyperparameters
ROUGHLY = 0.1  # gradient, in nats, to which the kernel is learned that only decides where points go
FEATURES = 2**20  # numbers in the features of the lanes that are evaluated at once


@dataclass(frozen=True)
class Fitted:
    """One fitted model in what it publishes."""

    site: Site
    jitter: float
    kernel: Kernel
    mean: float
    likelihood: Likelihood
    convergence: Convergence


class Batch(NamedTuple):
    """Requests of one kind side by side."""

    requests: Sequence[FitRequest]
    data: Samples
    space: SearchSpace
    placing: Sequence[np.random.Generator]  # random numbers for where points go
    candidates: Sequence[Tensor]  # for automatic points, none of them a row

    @property
    def template(self) -> FitRequest:
        """Any of them, for what they all have in common."""
        return self.requests[0]

    def width(self, points: int) -> int:
        """Lanes whose features may be held at once."""
        n = self.data.y.shape[1]
        return max(1, FEATURES // (n * max(points, n if self.template.method is Method.EXACT else 1)))


def step_cost(request: FitRequest) -> float:
    """Multiplications in one step of learning one model, roughly."""
    n = min(len(request.y), ROWS_LEARNED[request.method])
    points = len(request.inducing) if isinstance(request.inducing, Tensor) else request.inducing
    return float(n) ** 3 if request.method is Method.EXACT else float(n * points * (points + 20))


def solve(requests: Sequence[FitRequest]) -> list[Fitted | None]:
    """The models of requests of one kind; None for a lane that failed."""
    template = requests[0]
    data = samples.side_by_side([(r.X, r.y) for r in requests])
    space = search_space.search_space(
        template.kernel.structure,
        template.likelihood,
        samples.scales(data, template.likelihood),
        theta=None if template.named else template.kernel.theta,
        noise=None if template.noise is None else data.y.new_tensor([r.noise for r in requests]),
        mean=0.0 if not (template.learn or template.named) else None,
    )
    starts = search_space.starts(space, data.w.sum(-1), data.X.shape[2]) if template.named else [space.given]
    lanes = torch.arange(len(requests), device=data.X.device)
    # The first points must serve every lengthscale that is tried: placed for the shortest, none is left out.
    first = space.unpack(starts[0] if template.learn else space.given, lanes)
    placing = [np.random.default_rng([*r.entropy, 1]) for r in requests]
    log.debug("placing points")
    batch = Batch(requests, data, space, placing, _candidates(requests, placing, first.kernel))
    points = _inducing(batch, first.kernel)
    if template.learn:
        learned = _learn(batch, starts, points)
    else:
        learned = Learned(first, points, [NOTHING_TO_LEARN] * len(requests))
    return _publish(batch, learned)


# --- points -----------------------------------------------------------------------------------


def _candidates(requests: Sequence[FitRequest], placing: Sequence[np.random.Generator], kernel: Kernel) -> list[Tensor]:
    """Candidates for all the points a request will need, drawn once."""
    template = requests[0]
    counts = [p for p in (template.inducing, template.publish) if isinstance(p, int) and p]
    if not counts:
        return []
    # If publish equals inducing, the inducing points are published.
    wanted = counts[0] if isinstance(template.inducing, int) and template.inducing else counts[-1]
    return placement.candidates([r.X for r in requests], wanted, kernel, placing)


def _inducing(batch: Batch, kernel: Kernel) -> Points:
    """The points that were given, or automatic ones for these kernels; none for the exact method."""
    return _points(batch, [r.inducing for r in batch.requests], kernel)


def _points(batch: Batch, wanted: Sequence[int | Tensor], kernel: Kernel) -> Points:
    given = [w for w in wanted if isinstance(w, Tensor)]
    if given:
        Z = torch.stack(given)
        return Points(Z, torch.ones_like(Z[..., 0], dtype=torch.bool))
    count = max(w for w in wanted if isinstance(w, int))
    if not count:
        return Points(batch.data.X[:, :0], batch.data.X[:, :0, 0] > 0)
    return placement.place(batch.candidates, count, kernel, batch.placing)


# --- hyperparameters --------------------------------------------------------------------------


class Learned(NamedTuple):
    """Hyperparameters, the inducing points they were learned at, and how each search ended."""

    hyper: Hyperparameters
    points: Points
    ends: list[Convergence]


def _learn(batch: Batch, starts: list[Tensor], points: Points) -> Learned:
    space, template = batch.space, batch.template
    subset = samples.side_by_side([_subset(r) for r in batch.requests])
    lanes = torch.arange(len(batch.requests), device=space.fixed.device)
    evaluations = torch.zeros(len(lanes), dtype=torch.long, device=lanes.device)
    # Automatic points depend on the kernel, which is learned with them: place, learn, place, learn.
    single = template.method is Method.EXACT or isinstance(template.inducing, Tensor)
    metric = space.metric(subset.w.sum(-1))
    for last in (True,) if single else (False, True):
        log.debug("learning on %d of %d rows", subset.y.shape[1], batch.data.y.shape[1])
        objective = _objective(batch, points, subset)
        width = batch.width(points.Z.shape[1])
        start = optimiser.best_start(objective, starts, width)
        best = optimiser.maximise(
            objective, start, space.lower, space.upper, width=width, gradient=1e-3 if last else ROUGHLY, metric=metric
        )
        evaluations += best.evaluations + (len(starts) if len(starts) > 1 else 0)
        hyper = space.unpack(best.x, lanes)
        if not last:
            log.debug("placing points again")
            points, starts, metric = _inducing(batch, hyper.kernel), [best.x], best.metric
    good = zip(best.converged.tolist(), torch.isfinite(best.value).tolist(), evaluations.tolist(), strict=True)
    return Learned(hyper, points, [_end(*lane) for lane in good])


def _end(converged: bool, finite: bool, evaluations: int) -> Convergence:
    message = "converged" if converged else "stopped before converging" if finite else "failed"
    return Convergence(converged, evaluations, message)


def _subset(request: FitRequest) -> tuple[Tensor, Tensor]:
    """The rows from which hyperparameters are learned; nothing else draws from their random numbers."""
    rng = np.random.default_rng([*request.entropy, 2])
    some = rng.permutation(len(request.y))[: ROWS_LEARNED[request.method]]
    chosen = torch.as_tensor(some, device=request.X.device)
    return request.X[chosen], request.y[chosen]


def _objective(batch: Batch, points: Points, subset: Samples) -> optimiser.Objective:
    if batch.template.method is Method.EXACT:
        return objectives.exact_objective(batch.space, subset)
    if batch.template.method is Method.COLLAPSED:
        return objectives.collapsed_objective(batch.space, points, subset)
    return objectives.dual_objective(batch.space, points, subset)


# --- posterior, and what is published of it -----------------------------------------------------


class Summary(NamedTuple):
    """Everything the data say about f, as rows about its values at the points; settled?"""

    base: Basis
    rows: CentredRows
    settled: Tensor


@torch.no_grad()
def _summarise(batch: Batch, points: Points, hyper: Hyperparameters, lanes: Tensor) -> Summary:
    method, (X, y, w) = batch.template.method, batch.data.lanes(lanes)
    base = points.basis(hyper.kernel)
    settled = torch.ones_like(hyper.mean, dtype=torch.bool)
    if method is Method.EXACT:
        rows = observations.gaussian_rows(base, X, y, gaussian_noise(hyper.likelihood), marginal=True, w=w)
        return Summary(base, least_squares.centre(rows, hyper.mean), settled)
    if method is Method.COLLAPSED:
        rows_ = observations.stream(base, X, y, gaussian_noise(hyper.likelihood), hyper.mean, w)
        return Summary(base, rows_, settled)
    data = dual.whiten(base, X, y, hyper.likelihood, hyper.mean, w)
    state = dual.fixed_points(data)
    return Summary(base, dual.rows(data, state), state.converged)


@torch.no_grad()
def _publish(batch: Batch, learned: Learned) -> list[Fitted | None]:
    hyper, points, ends = learned
    goals = [r.publish for r in batch.requests if r.publish is not None]
    exact = batch.template.method is Method.EXACT
    fewer = bool(goals) and (isinstance(goals[0], Tensor) or goals[0] < points.Z.shape[1])
    # where to publish: for the exact method these are its only points
    target = _points(batch, goals, hyper.kernel) if exact or fewer else None
    if exact and target is not None:
        points, target = target, None
    log.debug("summarising %d rows", batch.data.y.shape[1])
    made: list[Fitted | None] = []
    lanes = torch.arange(len(ends), device=hyper.mean.device)
    for some in lanes.split(batch.width(points.Z.shape[1])):  # so that only their features are held
        summary = _summarise(batch, points.lanes(some), hyper.lanes(some), some)
        sound = _finite(summary)
        for i, lane in enumerate(some.tolist()):
            if not sound[i]:
                made.append(None)
                continue
            aim = None if target is None else target.of(lane)
            made.append(_one(batch.requests[lane], ends[lane], hyper.lanes(lane), points.of(lane), summary, i, aim))
    return made


def _finite(summary: Summary) -> list[bool]:
    """Is there a number everywhere, lane by lane?"""
    tensors = (summary.base.L, *summary.rows)
    return (
        torch.stack([torch.isfinite(t).flatten(1).all(1) if t.ndim > 1 else torch.isfinite(t) for t in tensors])
        .all(0)
        .tolist()
    )


def _one(
    request: FitRequest,
    end: Convergence,
    hyper: Hyperparameters,
    Z: Tensor,
    summary: Summary,
    i: int,
    target: Tensor | None,
) -> Fitted:
    """Lane i of a summary, published at `target` where that is smaller."""
    M = len(Z)  # what follows is padding
    rows = CentredRows(summary.rows.H[i, :, :M], *(t[i] for t in summary.rows[1:]))
    site = sites.from_rows(Z, summary.base.L[i, :M, :M], rows, hyper.mean)
    made = Published(site, float(summary.base.jitter[i]))
    if target is not None and (isinstance(request.publish, Tensor) or len(target) < M):
        made = publish(made.site, made.jitter, hyper.kernel, hyper.mean, target)
    if not bool(summary.settled[i]):
        end = replace(end, converged=False, message="the posterior had not settled")
    likelihood = hyper.likelihood.with_values(*hyper.likelihood.parameters)  # plain numbers
    return Fitted(made.site, made.jitter, hyper.kernel, float(hyper.mean), likelihood, end)
