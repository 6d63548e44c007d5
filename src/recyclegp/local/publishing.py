"""What is published of local models: the posterior at a few points, what these keep, and what is known of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import arrays, threads
from ..core import site_columns, sites
from ..core.convergence import Convergence
from ..core.publishing import publish as publish_at
from ..core.rounding import significant
from ..kernels import Kernel
from ..likelihoods import gaussian_noise
from ..logs import logger
from . import batch as batches
from . import fitted, people, placement
from .batch import Batch, LearnedBatch, same_rows
from .constants import PEOPLE, PUBLISHED
from .fitted import Fitted
from .placement import Points
from .request import Method, Share
from .search_space import Hyperparameters
from .summary import (
    Information,
    Residuals,
    Summary,
    collapsed_residuals,
    exact_residuals,
    information,
    noise_evidence,
    summarise,
)

log = logger(__name__)

UNSETTLED = "the posterior had not settled"


class PublishedBatch(NamedTuple):
    """Models that have a finite posterior, and which of the batch they are."""

    positions: list[int]
    models: Fitted | None  # None where there are none


@torch.no_grad()
def publish_all(batch: Batch, learned: LearnedBatch) -> PublishedBatch:
    """Every model's posterior at the points it publishes."""
    log.debug("summarising %d rows", batch.data.y.shape[1])
    index = torch.arange(len(learned.ends), device=learned.hyper.mean.device)
    template, places = batch.template, batch  # of whose rows follows where points are
    if people.are_people(template):
        hyper = people.coarse(learned.hyper, batch.data, batch.requests)
        rows = people.made_up_rows(batch.data, batch.requests)
        places = batches.batch_of(batch.requests, rows, batch.space, hyper.kernel, batch.group)
        learned = learned._replace(hyper=hyper, points=batches.inducing(places, hyper.kernel))
    hyper = learned.hyper
    exact = template.method is Method.EXACT
    worth = threads.worth(len(index), batch.width(learned.points.Z.shape[1])) if index.device.type == "cpu" else 1
    with threads.share_work(worth) as workers:
        whole = None
        if exact and (template.learns_noise or isinstance(template.publish, Share)):
            some = index.split(batch.width(0))
            found = workers.map(lambda few: exact_residuals(batch.data.select(few), hyper.select(few)), some)
            whole = Residuals(*(torch.cat(parts) for parts in zip(*found, strict=True)))
        points = batch.shared(_places(places, hyper, whole, workers)) if exact else learned.points
        fewer = None if exact else _fewer_points(places, learned)
        some = index.split(batch.width(points.Z.shape[1]))  # so that only their features are held
        parts = workers.map(
            lambda few: _publish_some(batch, places, learned, points.select(few), few, whole, fewer), some
        )
    models = [part.models for part in parts if part.models is not None]
    return PublishedBatch([i for part in parts for i in part.positions], fitted.concatenate(models) if models else None)


def _places(batch: Batch, hyper: Hyperparameters, whole: Residuals | None, workers: threads.Workers) -> Points:
    """Where the exact method publishes: its only points. `whole` is needed where these are to keep a share."""
    goals = [r.publish for r in batch.requests if r.publish is not None]
    index = torch.arange(len(goals), device=hyper.mean.device)
    if isinstance(goals[0], Tensor):
        return batches.points(batch, [g for g in goals if isinstance(g, Tensor)], hyper.kernel)
    if isinstance(goals[0], Share):
        assert whole is not None
        # What is left out is at most Σ1/2σ_i² times the mean variance left, if this is alike everywhere: with a fifth
        # of what may be, there are enough.
        precision = batch.data.w.square().sum(-1) / gaussian_noise(hyper.likelihood)
        spare = PUBLISHED.spare * (1 - goals[0].kept) * whole.total.nan_to_num(0.0) * 2 / precision
        most = [g.most for g in goals if isinstance(g, Share)]
        points = batch.placed(most, hyper.kernel, spare, workers)
    else:
        points = batches.points(batch, [g for g in goals if isinstance(g, int)], hyper.kernel)
        if PUBLISHED.rows_each * points.Z.shape[1] < int(batch.data.rows.min()):
            return points  # owners of one region shall not all have the few points that are best there
    some = index.split(batch.width(points.Z.shape[1]))
    parts = workers.map(lambda few: _enough(batch, hyper, points.select(few), few), some)
    widest = max(p.Z.shape[1] for p in parts)
    return Points(
        torch.cat([torch.nn.functional.pad(p.Z, (0, 0, 0, widest - p.Z.shape[1])) for p in parts]),
        torch.cat([torch.nn.functional.pad(p.real, (0, widest - p.real.shape[1])) for p in parts]),
    )


@torch.no_grad()
def _enough(batch: Batch, hyper: Hyperparameters, points: Points, index: Tensor) -> Points:
    """Of some models' points as many as keep the share that is wanted; where all do not, they are moved."""
    data, own, goal = batch.data.select(index), hyper.select(index), batch.template.publish
    wanted = goal.kept if isinstance(goal, Share) else PUBLISHED.kept
    known = summarise(Method.EXACT, data, points, own).information
    if isinstance(goal, Share):
        points = points.first(known.needed(wanted).tolist())
        most = int(points.real.sum(-1).max())
        points = Points(points.Z[:, :most], points.real[:, :most])
    short = (known.kept[:, -1] < wanted).nonzero()[:, 0]
    if len(short):
        better = placement.moved(points.select(short), own.kernel.select(short), data.X[short], data.w[short])
        points = points._replace(Z=points.Z.index_copy(0, short, better.Z))
    return points


@torch.no_grad()
def _publish_some(
    batch: Batch,
    places: Batch,
    learned: LearnedBatch,
    points: Points,
    index: Tensor,
    whole: Residuals | None,
    fewer: Points | None,
) -> PublishedBatch:
    """Some models of the batch; `whole`: residuals of all; `fewer`: the points for publishing sparse ones."""
    data, hyper, method = batch.data.select(index), learned.hyper.select(index), batch.template.method
    summary = summarise(method, data, points, hyper, batch.group.functions)
    known = summary.information
    residuals = None
    if batch.template.learns_noise:
        residuals = collapsed_residuals(summary, data, hyper) if whole is None else whole.select(index)
    kept = known.kept[:, -1]
    if places is not batch:
        resembling = summarise(method, places.data.select(index), points, hyper, batch.group.functions).rows
        own = [batch.requests[i] for i in index.tolist()]
        alike = people.rows_alike(data, own)
        rows = people.shared(summary.rows, resembling, alike, own, batch.group.functions)
        summary = summary._replace(rows=rows)
        kept = (information(rows, torch.zeros_like(known.total)).total / known.total.clamp_min(1e-300)).clamp(1e-12, 1)
    made = _models(summary, points, hyper, kept, residuals, [learned.ends[i] for i in index.tolist()])
    sound = _finite(summary, made)
    if not len(sound):
        return PublishedBatch([], None)
    made = made if len(sound) == len(index) else made.take(sound)
    found = index.cpu()[sound].tolist()
    if method is not Method.EXACT:
        made = _at_fewer_points(batch, made, found, known, sound, hyper, fewer)
    if places is not batch:
        e, noise = people.coarse_evidence(
            made.sites.constants.cpu(), made.noise, alike.cpu()[sound], [batch.requests[i] for i in found]
        )
        kept = significant(made.kept, PEOPLE.digits)
        made = made._replace(sites=made.sites.with_constants(e), noise=noise, kept=kept)
    return PublishedBatch(found, made)


def _models(
    summary: Summary,
    points: Points,
    hyper: Hyperparameters,
    kept: Tensor,
    residuals: Residuals | None,
    ends: Sequence[Convergence],
) -> Fitted:
    """Models side by side as they are published."""
    site = sites.from_rows(points.Z, summary.base.L, summary.rows, hyper.mean[:, None])
    M, r = points.real.sum(-1), site.rho.shape[-1]
    # A model of fewer points has zeros in the columns of its padding, which is behind them: there is nothing that its
    # rows behind as many as it has points could be explained by.
    rows = M.clamp_max(r)
    used = torch.arange(r, device=M.device) < rows[:, None]
    site = site._replace(e=site.e - 0.5 * (site.rho.square() * ~used).sum(-1))
    parameters = hyper.likelihood.values
    settled = summary.settled.tolist()
    return Fitted(
        sites=site_columns.of_stacked(site, M, rows),
        theta=hyper.kernel.theta.cpu(),
        parameters=torch.stack(parameters, -1).cpu() if parameters else torch.zeros(len(M), 0, dtype=torch.float64),
        mean=hyper.mean.cpu(),
        jitter=summary.base.jitter.cpu(),
        kept=kept.cpu(),
        noise=(
            torch.full((len(M), 4), torch.nan, dtype=torch.float64)
            if residuals is None
            else noise_evidence(summary, residuals, site.e)
        ).cpu(),
        converged=torch.tensor([end.converged and fine for end, fine in zip(ends, settled, strict=True)]),
        evaluations=torch.tensor([end.evaluations for end in ends]),
        messages=tuple(end.message if fine else UNSETTLED for end, fine in zip(ends, settled, strict=True)),
    )


def _finite(summary: Summary, made: Fitted) -> Tensor:
    """The models in which there is an ordinary number everywhere."""
    tensors = [summary.base.L, *summary.rows]
    fine = torch.stack([torch.isfinite(t).reshape(len(t), -1).all(1) for t in tensors]).all(0).cpu()
    return (fine & made.sites.within(arrays.LARGEST) & (made.theta.abs() <= arrays.LARGEST).all(-1)).nonzero()[:, 0]


def _fewer_points(batch: Batch, learned: LearnedBatch) -> Points | None:
    """Where sparse models are to be published, if that is less than they have."""
    goals = [r.publish for r in batch.requests if isinstance(r.publish, (int, Tensor))]
    counts = [g for g in goals if isinstance(g, int)]
    if not goals or (counts and min(counts) >= learned.points.Z.shape[1]):
        return None
    return batches.points(batch, goals, learned.hyper.kernel)


def _needed(batch: Batch, known: Information) -> Tensor:
    """How many of each model's points keep the share that is wanted; all of them where none is."""
    publish, C = batch.template.publish, batch.group.functions
    if not isinstance(publish, Share):
        return torch.full((len(known.first),), known.first.shape[1])
    needed = known.needed(publish.kept).cpu()
    # functions that share their points share their number
    return needed.reshape(-1, C).amax(-1).repeat_interleave(C) if same_rows(batch.requests, batch.group) else needed


def _at_fewer_points(
    batch: Batch,
    made: Fitted,
    index: list[int],
    known: Information,
    sound: Tensor,
    hyper: Hyperparameters,
    fewer: Points | None,
) -> Fitted:
    """Sparse models at as many of their own points as are needed, or at those that are wanted."""
    needed, totals = _needed(batch, known)[sound].tolist(), known.total.cpu()[sound].tolist()
    if fewer is None and min(needed) >= int(made.sites.points.max()) and not isinstance(batch.template.publish, Share):
        return made
    targets: list[Tensor | None] = []
    for i, (position, site) in enumerate(zip(index, made.sites.each(), strict=True)):
        publish = batch.requests[position].publish
        count = min(needed[i], publish.most) if isinstance(publish, Share) else needed[i]
        own = site.Z[:count] if count < len(site.Z) else None
        wanted = own if fewer is None else fewer.of(position).cpu()
        too_many = isinstance(publish, int) and wanted is not None and len(wanted) >= len(site.Z)
        targets.append(None if too_many else wanted)
    if all(target is None for target in targets):
        return made
    new_sites, jitter, kept, noise = [], made.jitter.clone(), made.kept.clone(), made.noise.clone()
    for i, (site, target) in enumerate(zip(made.sites.each(), targets, strict=True)):
        if target is None:
            new_sites.append(site)
            continue
        kernel = Kernel(hyper.kernel.structure, made.theta[i])
        new = publish_at(site, float(jitter[i]), kernel, made.mean[i], target)
        new_sites.append(new.site)
        jitter[i] = new.jitter
        kept[i] = min(1.0, max(1e-12, new.information / max(totals[i], 1e-300)))
        evidence = fitted.noise_evidence(noise[i].tolist())
        if evidence is not None:
            rows = batch.requests[index[i]].effective_rows
            noise[i] = noise.new_tensor(evidence.published(float(made.parameters[i, 0]), rows, new.chi2, new.left_open))
    whole = site_columns.of_sites(new_sites, made.sites.dimension)
    return made._replace(sites=whole, jitter=jitter, kept=kept, noise=noise)
