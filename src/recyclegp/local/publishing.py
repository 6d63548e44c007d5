"""What is published of local models: the posterior at a few points, what these keep, and what is known of the noise."""

from __future__ import annotations

import logging
from dataclasses import replace

import torch
from torch import Tensor

from .. import threads
from ..core import sites
from ..core.convergence import Convergence
from ..core.least_squares import CentredRows
from ..core.publishing import publish
from ..likelihoods import gaussian_noise
from . import batch as batches
from . import placement
from .batch import Batch, Fitted, Learned
from .information import Information
from .placement import Points
from .request import FEW_ROWS_EACH, KEPT, FitRequest, Method, Share
from .search_space import Hyperparameters
from .summary import Residuals, Summary, collapsed_residuals, exact_residuals, noise_evidence, summarise

log = logging.getLogger(__name__)


@torch.no_grad()
def publish_all(batch: Batch, learned: Learned) -> list[Fitted | None]:
    """Every lane's posterior at the points it publishes; None for a lane that has no finite one."""
    log.debug("summarising %d rows", batch.data.y.shape[1])
    lanes = torch.arange(len(learned.ends), device=learned.hyper.mean.device)
    template, hyper = batch.template, learned.hyper
    exact = template.method is Method.EXACT
    with threads.team(len(lanes) if lanes.device.type == "cpu" else 1) as team:
        whole = None
        if exact and (template.learns_noise or isinstance(template.publish, Share)):
            some = lanes.split(batch.width(0))
            found = team.map(lambda few: exact_residuals(batch.data.lanes(few), hyper.lanes(few)), some)
            whole = Residuals(*(torch.cat(parts) for parts in zip(*found, strict=True)))
        points = _places(batch, hyper, whole, team) if exact else learned.points
        fewer = None if exact else _fewer_points(batch, learned)
        some = lanes.split(batch.width(points.Z.shape[1]))  # so that only their features are held
        parts = team.map(lambda few: _publish_some(batch, learned, points.lanes(few), few, whole, fewer), some)
    return [fitted for part in parts for fitted in part]


def _places(batch: Batch, hyper: Hyperparameters, whole: Residuals | None, team: threads.Team) -> Points:
    """Where the exact method publishes: its only points. `whole` is needed where these are to keep a share."""
    goals = [r.publish for r in batch.requests if r.publish is not None]
    lanes = torch.arange(len(goals), device=hyper.mean.device)
    n = batch.data.w.sum(-1)
    if isinstance(goals[0], Tensor):
        return batches.points(batch, [g for g in goals if isinstance(g, Tensor)], hyper.kernel)
    if isinstance(goals[0], Share):
        assert whole is not None
        # what is left out is at most n/2σ² times the mean variance left: with a fifth of what may be, there are enough
        spare = 0.2 * (1 - goals[0].kept) * whole.total.nan_to_num(0.0) * 2 * gaussian_noise(hyper.likelihood) / n
        most = [g.most for g in goals if isinstance(g, Share)]
        points = placement.place(batch.candidates, max(most), hyper.kernel, batch.placing, spare, team).first(most)
    else:
        points = batches.points(batch, [g for g in goals if isinstance(g, int)], hyper.kernel)
        if FEW_ROWS_EACH * points.Z.shape[1] < int(n.min()):
            return points  # owners of one region shall not all have the few points that are best there
    some = lanes.split(batch.width(points.Z.shape[1]))
    parts = team.map(lambda few: _enough(batch, hyper, points.lanes(few), few), some)
    widest = max(p.Z.shape[1] for p in parts)
    return Points(
        torch.cat([torch.nn.functional.pad(p.Z, (0, 0, 0, widest - p.Z.shape[1])) for p in parts]),
        torch.cat([torch.nn.functional.pad(p.real, (0, widest - p.real.shape[1])) for p in parts]),
    )


@torch.no_grad()
def _enough(batch: Batch, hyper: Hyperparameters, points: Points, lanes: Tensor) -> Points:
    """Of some lanes' points as many as keep the share that is wanted; where all do not, they are moved."""
    data, own, goal = batch.data.lanes(lanes), hyper.lanes(lanes), batch.template.publish
    wanted = goal.kept if isinstance(goal, Share) else KEPT
    known = summarise(Method.EXACT, data, points, own).information
    if isinstance(goal, Share):
        points = points.first(known.needed(wanted).tolist())
        most = int(points.real.sum(-1).max())
        points = Points(points.Z[:, :most], points.real[:, :most])
    short = (known.kept[:, -1] < wanted).nonzero()[:, 0]
    if len(short):
        better = placement.moved(points.lanes(short), own.kernel.lanes(short), data.X[short], data.w[short])
        points = points._replace(Z=points.Z.index_copy(0, short, better.Z))
    return points


@torch.no_grad()
def _publish_some(
    batch: Batch, learned: Learned, points: Points, lanes: Tensor, whole: Residuals | None, fewer: Points | None
) -> list[Fitted | None]:
    """Some lanes; `whole` are the residuals of all lanes, `fewer` the points that sparse ones shall be published at."""
    data, hyper, method = batch.data.lanes(lanes), learned.hyper.lanes(lanes), batch.template.method
    summary = summarise(method, data, points, hyper)
    known = summary.information
    kept, needed = known.kept[:, -1].tolist(), _needed(batch.template, known)
    residuals = None
    if batch.template.learns_noise:
        residuals = collapsed_residuals(summary, data, hyper) if whole is None else whole.lanes(lanes)
    sound = _finite(summary)
    made: list[Fitted | None] = []
    for i, lane in enumerate(lanes.tolist()):
        if not sound[i]:
            made.append(None)
            continue
        request = batch.requests[lane]
        one = _one(learned.ends[lane], hyper.lanes(i), points.of(i), summary, kept[i], residuals, i)
        if method is not Method.EXACT:
            target = _enough_of_its_own(request, one, needed[i]) if fewer is None else fewer.of(lane)
            one = one if target is None else _published_again(request, one, target, float(known.total[i]))
        made.append(one)
    return made


def _finite(summary: Summary) -> list[bool]:
    """Is there a number everywhere, lane by lane?"""
    tensors = (summary.base.L, *summary.rows)
    return (
        torch.stack([torch.isfinite(t).flatten(1).all(1) if t.ndim > 1 else torch.isfinite(t) for t in tensors])
        .all(0)
        .tolist()
    )


def _needed(template: FitRequest, known: Information) -> list[int]:
    """How many of each lane's points keep the share that is wanted; all of them where none is."""
    if isinstance(template.publish, Share):
        return known.needed(template.publish.kept).tolist()
    return [known.first.shape[1]] * len(known.first)


def _one(
    end: Convergence,
    hyper: Hyperparameters,
    Z: Tensor,
    summary: Summary,
    kept: float,
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
        kept=kept,
        noise=None if residuals is None else noise_evidence(summary, residuals, site.e, i),
    )


def _fewer_points(batch: Batch, learned: Learned) -> Points | None:
    """Where sparse models are to be published, if that was asked for and is less than they have."""
    goals = [r.publish for r in batch.requests if isinstance(r.publish, (int, Tensor))]
    counts = [g for g in goals if isinstance(g, int)]
    if not goals or (counts and min(counts) >= learned.points.Z.shape[1]):
        return None
    return batches.points(batch, goals, learned.hyper.kernel)


def _enough_of_its_own(request: FitRequest, made: Fitted, needed: int) -> Tensor | None:
    """As many of a sparse model's points as are needed; None for all of them."""
    count = min(needed, request.publish.most) if isinstance(request.publish, Share) else needed
    return made.site.Z[:count] if count < len(made.site.Z) else None


def _published_again(request: FitRequest, made: Fitted, target: Tensor, total: float) -> Fitted:
    """A sparse model, whose rows say so many nats in all, at other points than those it was fitted with."""
    if isinstance(request.publish, int) and len(target) >= len(made.site.Z):
        return made
    site, jitter, information, misfit, left_open = publish(made.site, made.jitter, made.kernel, made.mean, target)
    noise = made.noise
    if noise is not None:
        noise = noise.published(float(gaussian_noise(made.likelihood)), len(request.y), misfit, left_open)
    kept = min(1.0, max(1e-12, information / max(total, 1e-300)))
    return replace(made, site=site, jitter=jitter, kept=kept, noise=noise)
