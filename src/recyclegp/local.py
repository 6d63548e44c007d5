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

from . import arrays, blocks, dual, learn, least_squares, optimise, sites
from . import inducing as placement
from .inducing import Points
from .kernels import Kernel
from .learn import Hyper, Samples, Space
from .least_squares import Rows
from .likelihoods import Likelihood
from .module import Convergence, Module
from .posterior import Basis, basis

log = logging.getLogger(__name__)

SUBSET = {"exact": 1000, "collapsed": 4000, "dual": 2000}  # rows on which hyperparameters are learned
ROUGHLY = 0.1  # gradient, in nats, to which the kernel is learned that only decides where points go
TOGETHER = 2**20  # numbers in the features of the lanes that are evaluated at once


@dataclass(frozen=True)
class Job:
    """A checked request for one module: tensors in the user's units."""

    name: str
    X: Tensor
    y: Tensor
    columns: arrays.Columns
    likelihood: str
    kernel: Kernel
    named: bool  # is the kernel a structure by name, without values of its own?
    method: str
    inducing: int | Tensor
    publish: int | Tensor | None
    noise: float | None
    learn: bool
    entropy: list[int]  # where its random numbers begin

    @property
    def kind(self) -> tuple[object, ...]:
        """What lanes of one batch must have in common; their sizes within a quarter of each other."""
        points = len(self.inducing) if isinstance(self.inducing, Tensor) else 0
        size = 0 if len(self.y) < 8 else int(np.log(len(self.y)) / np.log(1.25))
        return self.method, self.kernel.tree, self.X.shape[1], points, str(self.X.device), size


class Batch(NamedTuple):
    """Jobs of one kind side by side."""

    jobs: Sequence[Job]
    data: Samples
    space: Space
    rngs: Sequence[np.random.Generator]
    crowds: Sequence[Tensor]  # candidates for automatic points, none of them a row

    @property
    def one(self) -> Job:
        return self.jobs[0]

    def width(self, points: int) -> int:
        """Lanes whose features may be held at once."""
        n = self.data.y.shape[1]
        return max(1, TOGETHER // (n * max(points, n if self.one.method == "exact" else 1)))


def solve(jobs: Sequence[Job]) -> list[Module | None]:
    """The modules of jobs of one kind; None for a lane that failed."""
    one = jobs[0]
    data = learn.side_by_side([(job.X, job.y) for job in jobs])
    noise = None if one.noise is None else data.y.new_tensor([job.noise for job in jobs])
    sp = learn.space(
        one.kernel.tree,
        one.likelihood,
        learn.scales(data, one.likelihood),
        theta=None if one.named else one.kernel.tensor(data.X),
        noise=noise,
        mean=0.0 if not (one.learn or one.named) else None,
    )
    starts = learn.starts(sp, data.w.sum(-1), data.X.shape[2]) if one.named else [sp.given]
    lanes = torch.arange(len(jobs), device=data.X.device)
    # The first points must serve every lengthscale that is tried: placed for the shortest, none is left out.
    first = sp.unpack(starts[0] if one.learn else sp.given, lanes)
    rngs = [np.random.default_rng(job.entropy) for job in jobs]
    log.debug("placing points")
    batch = Batch(jobs, data, sp, rngs, _crowds(jobs, rngs, first.theta))
    points = _inducing(batch, first.theta)
    hyper, points, ends = _learned(batch, starts, points) if one.learn else (first, points, [_NOTHING] * len(jobs))
    return _modules(batch, hyper, points, ends)


_NOTHING = Convergence(True, 0, "nothing to learn")


# --- points -----------------------------------------------------------------------------------


def _crowds(jobs: Sequence[Job], rngs: Sequence[np.random.Generator], theta: Tensor) -> list[Tensor]:
    """Candidates for all the points a job will need, drawn once."""
    one = jobs[0]
    counts = [p for p in (one.inducing, one.publish) if isinstance(p, int) and p]
    if not counts:
        return []
    # published at as many points as there are means published at those very points
    wanted = counts[0] if isinstance(one.inducing, int) and one.inducing else counts[-1]
    return placement.crowds([job.X for job in jobs], wanted, one.kernel.tree, theta, rngs)


def _inducing(batch: Batch, theta: Tensor) -> Points:
    """The points that were given, or automatic ones for these kernels; none for the exact method."""
    return _points(batch, [job.inducing for job in batch.jobs], theta)


def _points(batch: Batch, wanted: Sequence[int | Tensor], theta: Tensor) -> Points:
    given = [w for w in wanted if isinstance(w, Tensor)]
    if given:
        Z = torch.stack(given)
        return Points(Z, torch.ones_like(Z[..., 0], dtype=torch.bool))
    count = max(w for w in wanted if isinstance(w, int))
    if not count:
        return Points(batch.data.X[:, :0], batch.data.X[:, :0, 0] > 0)
    return placement.place(batch.crowds, count, batch.space.tree, theta, batch.rngs)


# --- hyperparameters --------------------------------------------------------------------------


def _learned(batch: Batch, starts: list[Tensor], points: Points) -> tuple[Hyper, Points, list[Convergence]]:
    """θ, likelihood parameters and means, with the inducing points they were learned at."""
    sp, one = batch.space, batch.one
    subset = learn.side_by_side([_subset(job, rng) for job, rng in zip(batch.jobs, batch.rngs, strict=True)])
    lanes = torch.arange(len(batch.jobs), device=sp.fixed.device)
    evaluations = torch.zeros(len(lanes), dtype=torch.long, device=lanes.device)
    # Automatic points depend on the kernel, which is learned with them: place, learn, place, learn.
    single = one.method == "exact" or isinstance(one.inducing, Tensor)
    metric = sp.metric(subset.w.sum(-1))
    for last in (True,) if single else (False, True):
        log.debug("learning on %d of %d rows", subset.y.shape[1], batch.data.y.shape[1])
        objective = _objective(batch, points, subset)
        width = batch.width(points.Z.shape[1])
        start = optimise.best_start(objective, starts, width)
        best = optimise.maximise(
            objective, start, sp.lower, sp.upper, width=width, gradient=1e-3 if last else ROUGHLY, metric=metric
        )
        evaluations += best.evaluations + (len(starts) if len(starts) > 1 else 0)
        hyper = sp.unpack(best.x, lanes)
        if not last:
            log.debug("placing points again")
            points, starts, metric = _inducing(batch, hyper.theta), [best.x], best.metric
    good = zip(best.converged.tolist(), torch.isfinite(best.value).tolist(), evaluations.tolist(), strict=True)
    return hyper, points, [_end(*lane) for lane in good]


def _end(converged: bool, finite: bool, evaluations: int) -> Convergence:
    message = "converged" if converged else "stopped before converging" if finite else "failed"
    return Convergence(converged, evaluations, message)


def _subset(job: Job, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    chosen = torch.as_tensor(rng.permutation(len(job.y))[: SUBSET[job.method]], device=job.X.device)
    return job.X[chosen], job.y[chosen]


def _objective(batch: Batch, points: Points, subset: Samples) -> optimise.Objective:
    if batch.one.method == "exact":
        return learn.exact_objective(batch.space, subset)
    if batch.one.method == "collapsed":
        return learn.collapsed_objective(batch.space, points, subset)
    return learn.dual_objective(batch.space, points, subset, batch.one.likelihood)


# --- posterior, and what is published of it -----------------------------------------------------


class Summary(NamedTuple):
    """Everything the data say about f, as centred rows about its values at the points; settled?"""

    base: Basis
    rows: Rows
    settled: Tensor


@torch.no_grad()
def _summarise(batch: Batch, points: Points, hyper: Hyper, lanes: Tensor) -> Summary:
    one, (X, y, w) = batch.one, batch.data.at(lanes)
    base = points.basis(batch.space.tree, hyper.theta)
    settled = torch.ones_like(hyper.mean, dtype=torch.bool)
    if one.method == "exact":
        rows = learn.gaussian_rows(base, X, y, hyper.log_p[:, 0].exp(), marginal=True, w=w)
        return Summary(base, least_squares.centre(rows, hyper.mean), settled)
    if one.method == "collapsed":
        return Summary(base, learn.stream(base, X, y, hyper.log_p[:, 0].exp(), hyper.mean, w), settled)
    data = learn.dual_data(base, X, y, one.likelihood, hyper.log_p, hyper.mean, w)
    state = dual.fixed_points(data)
    return Summary(base, dual.rows(data, state), state.converged)


@torch.no_grad()
def _modules(batch: Batch, hyper: Hyper, points: Points, ends: list[Convergence]) -> list[Module | None]:
    goals = [job.publish for job in batch.jobs if job.publish is not None]
    exact = batch.one.method == "exact"
    fewer = bool(goals) and (isinstance(goals[0], Tensor) or goals[0] < points.Z.shape[1])
    # where to publish: for the exact method these are its only points
    target = _points(batch, goals, hyper.theta) if exact or fewer else None
    if exact and target is not None:
        points, target = target, None
    log.debug("summarising %d rows", batch.data.y.shape[1])
    made: list[Module | None] = []
    lanes = torch.arange(len(ends), device=hyper.mean.device)
    for some in lanes.split(batch.width(points.Z.shape[1])):  # so that only their features are held
        summary = _summarise(batch, points.at(some), Hyper(*(h[some] for h in hyper)), some)
        sound = _finite(summary)
        for i, lane in enumerate(some.tolist()):
            if not sound[i]:
                made.append(None)
                continue
            one = Hyper(*(h[lane] for h in hyper))
            aim = None if target is None else target.of(lane)
            made.append(_module(batch.jobs[lane], ends[lane], one, points.of(lane), summary, i, aim))
    return made


def _finite(summary: Summary) -> list[bool]:
    """Is there a number everywhere, lane by lane?"""
    tensors = (summary.base.L, *summary.rows)
    return (
        torch.stack([torch.isfinite(t).flatten(1).all(1) if t.ndim > 1 else torch.isfinite(t) for t in tensors])
        .all(0)
        .tolist()
    )


def _module(
    job: Job, end: Convergence, hyper: Hyper, Z: Tensor, summary: Summary, i: int, target: Tensor | None
) -> Module:
    """Lane i of a summary as a module, published at `target` where that is smaller."""
    (_, _, _, Ls, jitters, _), rows, settled = summary
    M = len(Z)  # what follows is padding
    L, jitter = Ls[i, :M, :M], jitters[i]
    mine = Rows(rows.H[i, :, :M], rows.rho[i], rows.ones[i], rows.e[i], rows.slack[i])
    site = sites.from_rows(Z, L, mine, hyper.mean)
    if target is not None and (isinstance(job.publish, Tensor) or len(target) < M):
        base = basis(job.kernel.tree, hyper.theta, target, jitter)
        # publish = the same projection with the residual marginalised exactly
        site = sites.from_rows(target, base.L, blocks.observe(base, site, hyper.mean, marginal=True), hyper.mean)
        jitter = base.jitter
    if not bool(settled[i]):
        end = replace(end, converged=False, message="the posterior had not settled")
    return Module(
        name=job.name,
        _site=site,
        kernel_spec=job.kernel.replace(hyper.theta),
        mean=float(hyper.mean),
        jitter=float(jitter),
        likelihoods=(Likelihood(job.likelihood, tuple(hyper.log_p.exp().tolist())),),
        rows=len(job.y),
        columns=job.columns,
        convergence=end,
        method=job.method,
    )
