"""Local models, many at a time: hyperparameters, posterior, and what is published of it.

Models of one kind and similar size are lanes of one batched problem. One model is one lane, so that
`fit` and `fit_many` are the same computation.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import threads
from ..core import optimiser, sites
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.least_squares import CentredRows
from ..core.noise import NoiseEvidence
from ..core.publishing import publish
from ..core.sites import Site
from ..kernels import Kernel
from ..likelihoods import Likelihood, gaussian_noise
from . import objectives, placement, samples, search_space
from .information import Information
from .placement import Points
from .request import EXACT_ROWS, FitRequest, Method, Share
from .samples import Samples
from .search_space import Hyperparameters, SearchSpace
from .summary import (
    Residuals,
    Summary,
    collapsed_residuals,
    exact_residuals,
    noise_evidence,
    summarise,
)

log = logging.getLogger(__name__)

ROWS_LEARNED = {Method.EXACT: 3000, Method.COLLAPSED: 6000, Method.DUAL: 2000}  # rows for the hyperparameters
LARGE = {Method.EXACT: 1500, Method.COLLAPSED: EXACT_ROWS, Method.DUAL: sys.maxsize}  # rows that make a fit long
ROWS_BEGUN = 1000  # of a large data set, on whose exact evidence a search for them begins
CLOSELY = {Method.EXACT: 1e-2, Method.COLLAPSED: 1e-3, Method.DUAL: 1e-3}  # gradient, in nats, at which a search ends
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
    kept: float  # of what the rows say about f, by its points
    noise: NoiseEvidence | None  # what the rows say about their noise, where that was learned


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
    batch, learned = _learned(requests)
    return _publish(batch, learned)


def log_evidence(requests: Sequence[FitRequest]) -> Tensor:
    """(B,)  what learning reaches for requests of one kind: the (bound on the) evidence and the prior."""
    return _learned(requests)[1].values


def _learned(requests: Sequence[FitRequest]) -> tuple[Batch, Learned]:
    template = requests[0]
    data = samples.side_by_side([(r.X, r.y) for r in requests])
    space = search_space.search_space(
        template.kernel.structure,
        template.likelihood,
        samples.scales(data, template.likelihood),
        data.w.sum(-1).clamp_max(ROWS_LEARNED[template.method]),
        theta=None if template.named else template.kernel.theta,
        noise=None if template.noise is None else data.y.new_tensor([r.noise for r in requests]),
        mean=0.0 if not (template.learn or template.named) else None,
    )
    starts = search_space.starts(space) if template.named else [space.given]
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
        learned = Learned(first, points, [NOTHING_TO_LEARN] * len(requests), torch.zeros_like(data.y[:, 0]))
    return batch, learned


# --- points -----------------------------------------------------------------------------------


def _candidates(requests: Sequence[FitRequest], placing: Sequence[np.random.Generator], kernel: Kernel) -> list[Tensor]:
    """Candidates for all the points a request will need, drawn once."""
    template = requests[0]
    published = template.publish
    if isinstance(published, Share):
        published = max(r.publish.most for r in requests if isinstance(r.publish, Share))
    counts = [p for p in (template.inducing, published) if isinstance(p, int) and p]
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
    values: Tensor  # (B,)  of the objective


def _learn(batch: Batch, starts: list[Tensor], points: Points) -> Learned:
    space, template = batch.space, batch.template
    subset = samples.side_by_side([_subset(r) for r in batch.requests])
    lanes = torch.arange(len(batch.requests), device=space.fixed.device)
    evaluations = torch.zeros(len(lanes), dtype=torch.long, device=lanes.device)
    # Automatic points depend on the kernel, which is learned with them: place, learn, place, learn.
    single = template.method is Method.EXACT or isinstance(template.inducing, Tensor)
    metric, closely = space.metric(subset.w.sum(-1)), CLOSELY[template.method]
    if subset.y.shape[1] > LARGE[template.method]:
        # Cheaper; and what few points cannot express, their bound explains away with kernels that ignore inputs.
        found = _begin(batch, subset, starts)
        evaluations += found.evaluations
        # so many more rows are as much sharper; a tenth of a nat is then nothing
        starts, metric, closely = [found.x], found.metric * ROWS_BEGUN / subset.y.shape[1], ROUGHLY
        if not single:
            points, single = _inducing(batch, space.unpack(found.x, lanes).kernel), True
    for last in (True,) if single else (False, True):
        log.debug("learning on %d of %d rows", subset.y.shape[1], batch.data.y.shape[1])
        objective = _objective(batch, points, subset)
        width = batch.width(points.Z.shape[1])
        start = optimiser.best_start(objective, starts, width)
        best = optimiser.maximise(
            objective,
            start,
            space.lower,
            space.upper,
            width=width,
            gradient=closely if last else ROUGHLY,
            metric=metric,
        )
        evaluations += best.evaluations + (len(starts) if len(starts) > 1 else 0)
        hyper = space.unpack(best.x, lanes)
        if not last:
            log.debug("placing points again")
            points, starts, metric = _inducing(batch, hyper.kernel), [best.x], best.metric
    good = zip(best.converged.tolist(), torch.isfinite(best.value).tolist(), evaluations.tolist(), strict=True)
    return Learned(hyper, points, [_end(*lane) for lane in good], best.value)


def _begin(batch: Batch, subset: Samples, starts: list[Tensor]) -> optimiser.Optimum:
    """Roughly the best hyperparameters for some of the rows, by their exact evidence."""
    few = Samples(*(t[:, :ROWS_BEGUN] for t in subset))
    space, objective = batch.space, objectives.exact_objective(batch.space, few)
    return optimiser.maximise(
        objective,
        optimiser.best_start(objective, starts, 1),
        space.lower,
        space.upper,
        width=1,
        gradient=ROUGHLY,
        metric=space.metric(few.w.sum(-1)),
    )


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


@torch.no_grad()
def _publish(batch: Batch, learned: Learned) -> list[Fitted | None]:
    """Every lane's posterior at the points it publishes; None for a lane that has no finite one."""
    log.debug("summarising %d rows", batch.data.y.shape[1])
    lanes = torch.arange(len(learned.ends), device=learned.hyper.mean.device)
    exact, hyper = batch.template.method is Method.EXACT, learned.hyper
    with threads.team(len(lanes) if lanes.device.type == "cpu" else 1) as team:
        whole = None
        if exact:
            some = lanes.split(batch.width(0))
            found = team.map(lambda few: exact_residuals(batch.data.lanes(few), hyper.lanes(few)), some)
            whole = Residuals(*(torch.cat(parts) for parts in zip(*found, strict=True)))
        points = learned.points if whole is None else _places(batch, hyper, whole, team)
        some = lanes.split(batch.width(points.Z.shape[1]))  # so that only their features are held
        parts = team.map(lambda few: _publish_some(batch, learned, points.lanes(few), few, whole), some)
    return [fitted for part in parts for fitted in part]


def _places(batch: Batch, hyper: Hyperparameters, whole: Residuals, team: threads.Team) -> Points:
    """Where the exact method publishes: its only points."""
    goals = [r.publish for r in batch.requests if r.publish is not None]
    if not isinstance(goals[0], Share):
        return _points(batch, [g for g in goals if not isinstance(g, Share)], hyper.kernel)
    lanes = torch.arange(len(goals), device=hyper.mean.device)
    # what is left out is at most n/2σ² times the mean variance left: with a fifth of what may be, there are enough
    noise, n = gaussian_noise(hyper.likelihood), batch.data.w.sum(-1)
    spare = 0.2 * (1 - goals[0].kept) * whole.total.nan_to_num(0.0) * 2 * noise / n
    most = torch.tensor([g.most for g in goals if isinstance(g, Share)], device=lanes.device)
    points = placement.place(batch.candidates, int(most.max()), hyper.kernel, batch.placing, spare, team)
    limited = points._replace(real=points.real & (torch.arange(points.Z.shape[1], device=lanes.device) < most[:, None]))
    some = lanes.split(batch.width(points.Z.shape[1]))
    parts = team.map(lambda few: _enough(batch, hyper, limited.lanes(few), few), some)
    widest = max(p.Z.shape[1] for p in parts)
    return Points(
        torch.cat([torch.nn.functional.pad(p.Z, (0, 0, 0, widest - p.Z.shape[1])) for p in parts]),
        torch.cat([torch.nn.functional.pad(p.real, (0, widest - p.real.shape[1])) for p in parts]),
    )


def _enough(batch: Batch, hyper: Hyperparameters, points: Points, lanes: Tensor) -> Points:
    """Of some lanes' points as many as keep the share that is wanted; where all do not, they are moved."""
    wanted = next(g.kept for g in (batch.requests[i].publish for i in lanes.tolist()) if isinstance(g, Share))
    data, own = batch.data.lanes(lanes), hyper.lanes(lanes)
    known = summarise(Method.EXACT, data, points, own).information
    first = torch.arange(points.Z.shape[1], device=lanes.device)
    points = points._replace(real=points.real & (first < known.needed(wanted)[:, None]))
    points = Points(points.Z[:, : int(points.real.sum(-1).max())], points.real[:, : int(points.real.sum(-1).max())])
    short = (known.kept[:, -1] < wanted).nonzero()[:, 0]
    if len(short):
        better = placement.moved(points.lanes(short), own.kernel.lanes(short), data.X[short], data.w[short])
        points = points._replace(Z=points.Z.index_copy(0, short, better.Z))
    return points


@torch.no_grad()
def _publish_some(
    batch: Batch, learned: Learned, points: Points, lanes: Tensor, whole: Residuals | None
) -> list[Fitted | None]:
    """Some lanes; `whole` is what is known of the residuals of all of them."""
    data, hyper, method = batch.data.lanes(lanes), learned.hyper.lanes(lanes), batch.template.method
    summary = summarise(method, data, points, hyper)
    known = summary.information
    residuals = None
    if batch.template.learns_noise:
        residuals = collapsed_residuals(summary, data, hyper) if whole is None else whole.lanes(lanes)
    sound = _finite(summary)
    made: list[Fitted | None] = []
    for i, lane in enumerate(lanes.tolist()):
        if not sound[i]:
            made.append(None)
            continue
        one = _one(batch.requests[lane], learned.ends[lane], hyper.lanes(i), points.of(i), summary, known, residuals, i)
        made.append(one if method is Method.EXACT else _fewer(batch, lane, one, known, i))
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
    known: Information,
    residuals: Residuals | None,
    i: int,
) -> Fitted:
    """Lane i of a summary."""
    M = len(Z)  # what follows is padding
    rows = CentredRows(summary.rows.H[i, :, :M], *(t[i] for t in summary.rows[1:]))
    site = sites.from_rows(Z, summary.base.L[i, :M, :M], rows, hyper.mean)
    if not bool(summary.settled[i]):
        end = replace(end, converged=False, message="the posterior had not settled")
    likelihood = hyper.likelihood.with_values(*hyper.likelihood.parameters)  # plain numbers
    return Fitted(
        site=site,
        jitter=float(summary.base.jitter[i]),
        kernel=hyper.kernel,
        mean=float(hyper.mean),
        likelihood=likelihood,
        convergence=end,
        kept=float(known.kept[i, -1]),
        noise=None if residuals is None else noise_evidence(summary, residuals, site.e, i),
    )


def _fewer(batch: Batch, lane: int, made: Fitted, known: Information, i: int) -> Fitted:
    """A sparse model published at fewer points than it has: those asked for, or as many of its own as suffice."""
    request, M = batch.requests[lane], len(made.site.Z)
    target: Tensor | None = None
    if isinstance(request.publish, Tensor):
        target = request.publish
    elif isinstance(request.publish, int) and request.publish < M:
        kernel = made.kernel.with_theta(made.kernel.theta[None])
        placing = [batch.placing[lane]]
        target = placement.place([batch.candidates[lane]], request.publish, kernel, placing).of(0)
    elif isinstance(request.publish, Share):
        m = min(int(known.needed(request.publish.kept)[i]), request.publish.most)
        target = made.site.Z[:m] if m < M else None
    if target is None:
        return made
    site, jitter, information, misfit, left_open = publish(made.site, made.jitter, made.kernel, made.mean, target)
    noise = made.noise
    if noise is not None:
        noise = noise.published(float(gaussian_noise(made.likelihood)), len(request.y), misfit, left_open)
    kept = min(1.0, max(1e-12, information / max(float(known.total[i]), 1e-300)))
    return replace(made, site=site, jitter=jitter, kept=kept, noise=noise)
