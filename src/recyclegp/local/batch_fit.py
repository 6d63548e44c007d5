"""Local models, many at a time: their hyperparameters, then what is published of them. One is a batch of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ..core import linalg, optimiser
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..devices import let_malloc_keep_more
from ..likelihoods import Moments, gaussian_noise
from ..logs import logger
from . import fewer_rows, objectives, samples, search_space
from .batch import Batch, LearnedBatch, batch_of, exact_width, inducing
from .constants import SEARCH
from .fewer_rows import begins
from .placement import Points
from .publishing import PublishedBatch, publish_all
from .request import FitRequest, Method
from .samples import Sample, Samples
from .together import ALONE, Group, GroupSpace

log = logger(__name__)


def step_cost(request: FitRequest) -> float:
    """Multiplications in one step of learning one model, roughly."""
    n = min(len(request.y), SEARCH.rows[request.method])
    points = len(request.inducing) if isinstance(request.inducing, Tensor) else request.inducing
    return float(n) ** 3 if request.method is Method.EXACT else float(n * points * (points + 20))


def solve(requests: Sequence[FitRequest], group: Group = ALONE) -> PublishedBatch:
    """The models of requests of one kind, but for those that failed; neighbouring ones may be one model's functions."""
    let_malloc_keep_more()
    batch, learned = _learned(requests, group)
    return publish_all(batch, learned)


def log_evidence(requests: Sequence[FitRequest], group: Group = ALONE) -> Tensor:
    """(B,)  what learning reaches for requests of one kind: the (bound on the) evidence and the prior."""
    return _learned(requests, group)[1].values


@torch.no_grad()
def leave_one_out(requests: Sequence[FitRequest], group: Group = ALONE) -> Moments:
    """(B, n)  what all other rows say about f at each row, of exact models at their best hyperparameters.

    μ_i = y_i − α_i/[A⁻¹]_ii, with variance 1/[A⁻¹]_ii for y
    """
    batch, learned = _learned(requests, group)
    X, y, w, _ = batch.data
    real = (w > 0).to(y.dtype)
    noise = gaussian_noise(learned.hyper.likelihood)[:, None] / torch.where(w > 0, w, 1.0).square()
    K = real[:, :, None] * learned.hyper.kernel.matrix(X, X) * real[:, None, :]
    L = linalg.cholesky(K + torch.diag_embed(real * noise + (1 - real))).L
    alpha = torch.cholesky_solve((real * (y - learned.hyper.mean[:, None]))[..., None], L)[..., 0]
    spread = 1 / torch.cholesky_inverse(L).diagonal(dim1=-2, dim2=-1)
    return Moments(y - alpha * spread, (spread - noise).clamp_min(0))


def _learned(requests: Sequence[FitRequest], group: Group) -> tuple[Batch, LearnedBatch]:
    template = requests[0]
    data = samples.side_by_side([r.sample for r in requests], template.device)
    space = search_space.search_space(
        template.kernel.structure,
        template.likelihood,
        group.scales(samples.scales(data, template.likelihood)),
        data.shares.sum(-1).clamp_max(SEARCH.rows[template.method]),
        theta=None if template.named else template.kernel.theta,
        noise=None if template.noise is None else data.y.new_tensor([r.noise for r in requests]),
        mean=0.0 if not (template.learn or template.named) else None,
    )
    starts = search_space.starts(space) if template.named else [space.given]
    index = torch.arange(len(requests), device=data.X.device)
    # The first points must serve every lengthscale that is tried: placed for the shortest, none is left out.
    first = space.unpack(starts[0] if template.learn else space.given, index)
    log.debug("placing points")
    batch = batch_of(requests, data, space, first.kernel, group)
    points = inducing(batch, first.kernel)
    if template.learn:
        learned = _learn(batch, starts, points)
    else:
        learned = LearnedBatch(first, points, [NOTHING_TO_LEARN] * len(requests), torch.zeros_like(data.y[:, 0]))
    return batch, learned


# --- hyperparameters --------------------------------------------------------------------------


def _learn(batch: Batch, starts: list[Tensor], points: Points) -> LearnedBatch:
    space, template, C = GroupSpace(batch.space, batch.group), batch.template, batch.group.functions
    starts = [space.pack(start) for start in starts]
    subset = _learned_from(batch)
    index = torch.arange(len(batch.requests), device=batch.space.fixed.device)
    evaluations = torch.zeros(len(index) // C, dtype=torch.long, device=index.device)
    # Automatic points depend on the kernel, which is learned with them: place, learn, place, learn.
    exact = template.method is Method.EXACT
    single = exact or isinstance(template.inducing, Tensor)
    metric, closely = space.metric(subset.rows), SEARCH.closely[template.method]
    promise = 0.0  # steps promise what they keep where Fisher's information says how long they are
    if exact and subset.y.shape[1] >= SEARCH.fewer_from and starts[0].shape[1]:
        found = fewer_rows.begin(space, subset, starts)
        evaluations += found.evaluations
        starts, metric, promise = [found.x], found.metric, SEARCH.promise
        if subset.y.shape[1] > SEARCH.large[template.method]:
            closely = SEARCH.roughly  # so many rows are so sharp that a tenth of a nat is nothing
    elif subset.y.shape[1] > SEARCH.large[template.method]:
        # Cheaper; and what few points cannot express, their bound explains away with kernels that ignore inputs.
        found = _begin(space, subset, starts)
        evaluations += found.evaluations
        # so many more rows are as much sharper; a tenth of a nat is then nothing
        starts, metric, closely = [found.x], found.metric * SEARCH.first_rows / subset.y.shape[1], SEARCH.roughly
        if not single:
            points, single = inducing(batch, batch.space.unpack(space.unpack_functions(found.x), index).kernel), True
    for last in (True,) if single else (False, True):
        rows = subset if last else _standing_in(batch, points, subset)
        log.debug("learning on %d of %d rows", rows.y.shape[1], batch.data.y.shape[1])
        objective = space.objective(_bound(batch, points, rows))
        width = exact_width(batch.space.structure, subset, C) if exact else batch.width(points.Z.shape[1]) // C
        some = rows is not subset
        ends = (closely, promise) if last else (SEARCH.roughly, SEARCH.rough_promise if some else 0.0)
        best = _search(space, objective, starts, width, *ends, metric)
        evaluations += best.evaluations + (len(starts) if len(starts) > 1 else 0)
        hyper = batch.space.unpack(space.unpack_functions(best.x), index)
        if not last:
            log.debug("placing points again")
            points, starts, metric = inducing(batch, hyper.kernel), [best.x], best.metric
            if some:
                promise = SEARCH.promise
                metric = fewer_rows.metric(space, subset, subset.some(0.0, SEARCH.few_for_curvature), best.x)
    good = zip(best.converged.tolist(), torch.isfinite(best.value).tolist(), evaluations.tolist(), strict=True)
    ended = [end for end in (_end(*problem) for problem in good) for _ in range(C)]
    return LearnedBatch(hyper, points, ended, best.value)


def _begin(space: GroupSpace, subset: Samples, starts: list[Tensor]) -> optimiser.Optimum:
    """Roughly the best hyperparameters for some of the rows, by their exact evidence."""
    few = subset.map(lambda t: t[:, : SEARCH.first_rows])
    objective = space.objective(objectives.exact_objective(space.space, few))
    width = exact_width(space.space.structure, few, space.group.functions)
    return _search(space, objective, starts, width, SEARCH.roughly, 0.0, space.metric(few.rows))


def _search(
    space: GroupSpace,
    objective: optimiser.Objective,
    starts: list[Tensor],
    width: int,
    gradient: float,
    promise: float,
    metric: Tensor,
) -> optimiser.Optimum:
    """From the best of several starts, by their values; and a little way from one beside it, if that leads higher."""
    return optimiser.maximise_from(
        objective,
        begins(space, objective, starts, width),
        space.box(space.space.lower),
        space.box(space.space.upper),
        first=round(SEARCH.first + SEARCH.first_each * starts[0].shape[1]),
        width=width,
        gradient=gradient,
        promise=promise,
        metric=metric,
    )


@cache
def _end(converged: bool, finite: bool, evaluations: int) -> Convergence:
    message = "converged" if converged else "stopped before converging" if finite else "failed"
    return Convergence(converged, evaluations, message)


def _learned_from(batch: Batch) -> Samples:
    """The rows from which hyperparameters are learned: all of them where they are few, else some in random order."""
    method = batch.template.method
    if batch.data.y.shape[1] <= min(SEARCH.rows[method], SEARCH.large[method]):
        return batch.data
    return samples.side_by_side([_subset(r) for r in batch.requests], batch.template.device)


def _subset(request: FitRequest) -> Sample:
    """Some of the rows; nothing else draws from their random numbers."""
    rng = np.random.default_rng([*request.entropy, 2])
    some = rng.permutation(len(request.y))[: SEARCH.rows[request.method]]
    return request.sample.take(torch.as_tensor(some, device=request.X.device))


def _standing_in(batch: Batch, points: Points, data: Samples) -> Samples:
    """Rows that count for all of them, from which the kernel is learned that only decides where points go.

    They must be many beside the points: what these can express they otherwise take for the function, noise and all.
    """
    M, D = points.Z.shape[1:]
    fewest = max(SEARCH.fewest_collapsed, SEARCH.fewest_for_points * M * D)
    if batch.template.method is not Method.COLLAPSED or data.y.shape[1] < 3 * fewest:
        return data
    return data.some(SEARCH.fewer_collapsed, fewest).standing_for(data.rows)


def _bound(batch: Batch, points: Points, subset: Samples) -> optimiser.Objective:
    if batch.template.method is Method.EXACT:
        return objectives.exact_objective(batch.space, subset)
    if batch.template.method is Method.COLLAPSED:
        return objectives.collapsed_objective(batch.space, points, subset)
    return objectives.dual_objective(batch.space, points, subset, batch.group.functions)
