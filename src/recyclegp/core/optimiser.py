"""The only optimiser: BFGS with a line search per problem, for one problem or thousands at once.

SciPy's L-BFGS-B was tried first; its BLAS threads and torch's fight over the same cores. Problems have a handful of
parameters, so the full inverse Hessian is kept; every tensor has a leading axis of problems that stop independently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..devices import CPU, default_device
from ..errors import NotPositiveDefiniteError
from .recorded import Recorded, can_record

LONGEST = 2.0  # largest change of any (log-)parameter in one step
ARMIJO = 1e-4
HALVINGS = 25
LEVEL = 0.1  # nats: rounding may make so much of a step that promises next to nothing; at a cliff it is more
UNCLEAR = 0.1  # nats: starts that differ by less lead to the same end
HOPELESS = 20.0  # times as much as its curvature promises, a search would have to gain


class Optimum(NamedTuple):
    """Per problem: where, how high, and how the search ended."""

    x: Tensor  # (B, p)
    value: Tensor  # (B,)
    converged: Tensor  # (B,) bool
    evaluations: Tensor  # (B,) int
    metric: Tensor  # (B, p, p) inverse curvature, as far as it was learned on the way


Objective = Callable[[Tensor, Tensor], Tensor]  # (x (b, p), index (b,)) → values (b,), to be maximised


def maximise(
    objective: Objective,
    start: Tensor,
    lower: Tensor,
    upper: Tensor,
    *,
    iterations: int = 200,
    tolerance: float = 1e-9,
    least: float = 0.0,
    gradient: float = 1e-3,
    wanted: float = -math.inf,
    promise: float = 0.0,
    width: int = 2**31,
    metric: Tensor | None = None,
) -> Optimum:
    """Climb from start (B, p) within the box (p,); a problem that is stuck or fails stops alone.

    Objectives are in nats. A problem converges when its gradient is small (nats per unit of x, off the box), when the
    next step promises no more nats than `promise`, as far as its curvature is known, or when two steps running gain
    nothing: less than `tolerance` of |value|, or than `least`. A step that promises no more is
    not shortened. A problem that cannot come as high as `wanted`, even if it gained several times what its curvature
    promises, is given up. At most `width` problems are evaluated at once by each thread: it bounds the memory of the
    derivative. `metric` is that of a similar problem.
    """
    with _shared(objective, len(start), width, start.device) as workers:
        return _climb(
            workers, start, lower, upper, iterations, _Ends(tolerance, least, gradient, wanted, promise), metric
        )


class _Ends(NamedTuple):
    """When a search ends."""

    tolerance: float
    least: float
    gradient: float
    wanted: float
    promise: float

    def nothing(self, f: Tensor) -> Tensor:
        """What is no gain beside such values."""
        return (self.tolerance * f.abs().clamp_min(1.0)).clamp_min(self.least)

    def kept(self, g: Tensor, step: Tensor) -> Tensor:
        """Which are as good as there: a step d promises −½gᵀd."""
        return -0.5 * (g * step).sum(-1) <= self.promise

    def hopeless(self, f: Tensor, g: Tensor, step: Tensor) -> Tensor:
        """Which are too far below what is wanted, by what the step promises."""
        return -f - HOPELESS * 0.5 * (g * step).sum(-1) < self.wanted


class _Workers(NamedTuple):
    """An objective, and the threads that share its problems."""

    objective: Objective
    width: int
    pool: threads.Workers

    def each(self, call: Callable[[Objective, Tensor, Tensor], Any], x: Tensor, index: Tensor) -> list[Any]:
        """call(objective, x, index), some problems at a time: as many calls for each thread, of about equal size."""
        turns = math.ceil(len(x) / (self.width * self.pool.size))
        some = max(1, math.ceil(len(x) / (max(1, turns) * self.pool.size)))
        return self.pool.map(lambda *part: call(self.objective, *part), x.split(some), index.split(some))


@contextmanager
def _shared(objective: Objective, count: int, width: int, device: torch.device) -> Iterator[_Workers]:
    with threads.share_work(threads.worth(count, width) if device.type == "cpu" else 1) as shared:
        yield _Workers(objective, width, shared)


def _climb(
    workers: _Workers,
    start: Tensor,
    lower: Tensor,
    upper: Tensor,
    iterations: int,
    ends: _Ends,
    metric: Tensor | None,
) -> Optimum:
    B, p = start.shape
    x = start.detach().clamp(lower, upper)
    f, g = _evaluate(workers, x, torch.arange(B, device=x.device))
    count = torch.ones(B, dtype=torch.long, device=x.device)
    converged = torch.full_like(f, p == 0, dtype=torch.bool)
    identity = torch.eye(p, dtype=x.dtype, device=x.device)
    H = _first_metric(g, identity) if metric is None else metric.clone()
    if p == 0:  # nothing to learn
        return Optimum(x, -f, converged, count, H)
    stalled = torch.zeros(B, dtype=torch.long, device=x.device)
    fresh = torch.full((B,), metric is None, device=x.device)
    active = torch.isfinite(f).nonzero()[:, 0]
    for taken in range(iterations):
        done = _flat(x[active], g[active], lower, upper) <= ends.gradient
        converged[active[done]] = True
        active = active[~done]
        if not len(active):
            break
        step = _direction(H[active], g[active], x[active], lower, upper)
        if ends.promise:
            done = ends.kept(g[active], step)
            converged[active[done]] = True
            active, step = active[~done], step[~done]
            if not len(active):
                break
        if ends.wanted > -math.inf and taken:
            hope = ~ends.hopeless(f[active], g[active], step)
            active, step = active[hope], step[hope]
            if not len(active):
                break
        nothing = ends.nothing(f[active])
        tried = _search(workers, active, x, f, g, step, nothing, lower, upper)
        ok = tried.ok
        count[active] += tried.evaluations
        # A problem whose line search failed restarts once from steepest descent, then stops.
        failed = active[~ok]
        H[failed] = _first_metric(g[failed], identity)
        stuck = failed[fresh[failed]]
        converged[stuck] = _flat(x[stuck], g[stuck], lower, upper) <= 100 * ends.gradient
        level = active[tried.level]
        converged[level] |= fresh[level]
        fresh[failed] = True
        moved = active[ok]
        s, y = (tried.x - x[active])[ok], (tried.g - g[active])[ok]
        gain = (f[active] - tried.f)[ok]
        x[moved], f[moved], g[moved] = tried.x[ok], tried.f[ok], tried.g[ok]
        H[moved] = _update(H[moved], s, y, fresh[moved], identity)
        fresh[moved] = False
        small = gain <= nothing[ok]
        stalled[moved] = torch.where(small, stalled[moved] + 1, torch.zeros_like(stalled[moved]))
        finished = moved[stalled[moved] >= 2]
        converged[finished] = True
        stop = torch.zeros(B, dtype=torch.bool, device=x.device)
        stop[stuck] = True
        stop[finished] = True
        active = active[~stop[active]]
    return Optimum(x, -f, converged, count, H)


def maximise_from(
    objective: Objective,
    starts: list[Tensor],
    lower: Tensor,
    upper: Tensor,
    *,
    first: int,
    width: int = 2**31,
    gradient: float = 1e-3,
    tolerance: float = 1e-9,
    least: float = 0.0,
    wanted: float = -math.inf,
    promise: float = 0.0,
    metric: Tensor | None = None,
) -> Optimum:
    """`first` steps from each of several starts (B, p), side by side; from where that leads highest, on to the end.

    A start is left for a later one only where this is higher by more than what is unclear at that stage.
    """
    S, B = len(starts), len(starts[0])
    box = partial(maximise, lower=lower, upper=upper, width=width)
    go_on = partial(box, tolerance=tolerance, least=least, gradient=gradient, wanted=wanted, promise=promise)
    if S == 1:
        return go_on(objective, starts[0], metric=metric)
    many = None if metric is None else metric.repeat(S, 1, 1)
    tried = go_on(lambda x, i: objective(x, i % B), torch.cat(starts), iterations=first, metric=many)
    value = tried.value.reshape(S, B)
    value[0] += UNCLEAR
    chosen = value.argmax(0) * B + torch.arange(B, device=value.device)
    found = go_on(objective, tried.x[chosen], metric=tried.metric[chosen])
    return found._replace(evaluations=found.evaluations + tried.evaluations.reshape(S, B).sum(0))


class Single(NamedTuple):
    x: Tensor  # (p,)
    value: float
    converged: bool
    evaluations: int
    metric: Tensor  # (p, p)


def maximise_one(
    objective: Callable[[Tensor], Tensor],
    starts: list[Tensor],
    lower: Tensor,
    upper: Tensor,
    *,
    tolerance: float = 1e-9,
    least: float = 0.0,
    gradient: float = 1e-3,
    wanted: float = -math.inf,
    promise: float = 0.0,
    first: int = 5,
    metric: Tensor | None = None,
    recorded: bool = False,
) -> Single:
    """One problem, `first` steps from each of the two best of several starts (p,); it ends as `maximise` does.

    `metric` (p, p) is that of a similar problem. The objective is asked on the device of the starts; what is done with
    its handful of numbers between two questions would take longer there than on the CPU. `recorded` says that all that
    the objective does is the same for every x, so that a GPU may remember it.
    """
    device = starts[0].device
    starts, lower, upper = [s.to(CPU) for s in starts], lower.to(CPU), upper.to(CPU)
    recorded = recorded and can_record(device) and len(lower) > 0
    there = Recorded(objective, device) if recorded else lambda x: objective(x.to(device))
    outside = torch.get_default_device()

    def batched(x: Tensor, index: Tensor) -> Tensor:
        def asked(at: Tensor, _: Tensor) -> Tensor:
            with default_device(outside):
                return there(at[0])[None].to(CPU)

        return torch.cat([-_value(asked, row[None], index) for row in x])

    with default_device(CPU):
        best, extra = starts, 0
        if len(starts) > 2:
            with torch.no_grad():
                values = _height(batched, torch.stack(starts), torch.zeros(len(starts), device=CPU))
            best, extra = [starts[i] for i in values.argsort(stable=True)[:2]], len(starts)
        found = maximise_from(
            batched,
            [s[None] for s in best],
            lower,
            upper,
            first=first,
            tolerance=tolerance,
            least=least,
            gradient=gradient,
            wanted=wanted,
            promise=promise,
            metric=None if metric is None else metric[None].to(CPU),
        )
    evaluations = int(found.evaluations[0]) + extra
    x, curvature = found.x[0].to(device), found.metric[0].to(device)
    return Single(x, float(found.value[0]), bool(found.converged[0]), evaluations, curvature)


def best_start(objective: Objective, starts: list[Tensor], width: int = 2**31) -> Tensor:
    """Of several starts (B, p) the best for each problem, by the objective alone."""
    if len(starts) == 1:
        return starts[0]
    index = torch.arange(len(starts[0]), device=starts[0].device)
    return torch.stack(starts)[values(objective, starts, width).argmax(0), index]


def values(objective: Objective, places: list[Tensor], width: int = 2**31) -> Tensor:
    """(S, B)  of the objective, −∞ where it has none, at several x (B, p) for each problem."""
    index = torch.arange(len(places[0]), device=places[0].device)
    with _shared(objective, len(index), width, index.device) as workers:
        return -torch.stack([torch.cat(workers.each(_height, x, index)) for x in places])


def _value(objective: Objective, x: Tensor, index: Tensor) -> Tensor:
    """−objective, with +∞ where it has no value."""
    try:
        f = -objective(x, index)
    except NotPositiveDefiniteError:  # a step too far
        f = x.sum(-1) * torch.inf
    return torch.where(torch.isfinite(f), f, torch.full_like(f, torch.inf))


@torch.no_grad()
def _height(objective: Objective, x: Tensor, index: Tensor) -> Tensor:
    """−objective alone."""
    return _value(objective, x, index)


def _evaluate(workers: _Workers, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """−objective and its gradient."""
    f, g = zip(*workers.each(_derivative, x, index), strict=True)
    return torch.cat(f), torch.cat(g)


def _derivative(objective: Objective, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        point = x.detach().requires_grad_()
        f = _value(objective, point, index)
        finite = torch.isfinite(f)
        if not bool(finite.any()) or not x.shape[1]:
            return f.detach(), torch.zeros_like(x)
        (g,) = torch.autograd.grad(f[finite].sum(), point)
    good = finite & torch.isfinite(g).all(-1)
    f = torch.where(good, f.detach(), torch.full_like(f, torch.inf).detach())
    return f, torch.where(good[:, None], g, torch.zeros_like(g))


def _first_metric(g: Tensor, identity: Tensor) -> Tensor:
    """A first step of length at most one."""
    return identity / g.norm(dim=-1).clamp_min(1.0)[:, None, None]


def _flat(x: Tensor, g: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Largest component of the gradient that does not push against the box."""
    blocked = ((x <= lower) & (g > 0)) | ((x >= upper) & (g < 0))
    return g.masked_fill(blocked, 0.0).abs().amax(-1)


def _direction(H: Tensor, g: Tensor, x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    blocked = ((x <= lower) & (g > 0)) | ((x >= upper) & (g < 0))
    free = g.masked_fill(blocked, 0.0)
    d = -(H @ free[..., None])[..., 0].masked_fill(blocked, 0.0)
    uphill = (d * free).sum(-1) >= 0
    d = torch.where(uphill[:, None], -free, d)
    return d * (LONGEST / d.abs().amax(-1, keepdim=True).clamp_min(LONGEST))


class _Tried(NamedTuple):
    """Where a line search of each problem has led."""

    x: Tensor
    f: Tensor
    g: Tensor
    evaluations: Tensor
    ok: Tensor  # bool: far enough down
    level: Tensor  # bool: the smallest step that may still gain something changes hardly anything


def _search(
    workers: _Workers,
    index: Tensor,
    x: Tensor,
    f: Tensor,
    g: Tensor,
    step: Tensor,
    nothing: Tensor,
    lower: Tensor,
    upper: Tensor,
) -> _Tried:
    """Backtracking to sufficient decrease, each problem with its own step length, while it may gain something."""
    new_x, new_f, new_g = x[index].clone(), f[index].clone(), g[index].clone()
    slope = (g[index] * step).sum(-1)
    length = torch.ones_like(slope)
    tries = torch.zeros(len(index), dtype=torch.long, device=x.device)
    ok = torch.zeros(len(index), dtype=torch.bool, device=x.device)
    hopeless, level = torch.zeros_like(ok), torch.zeros_like(ok)
    for _ in range(HALVINGS):
        todo = (~ok & ~hopeless).nonzero()[:, 0]
        if not len(todo):
            break
        trial = (x[index[todo]] + length[todo, None] * step[todo]).clamp(lower, upper)
        value, grad = _evaluate(workers, trial, index[todo])
        tries[todo] += 1
        enough = value <= f[index[todo]] + ARMIJO * length[todo] * slope[todo]
        accepted = todo[enough]
        new_x[accepted], new_f[accepted], new_g[accepted] = trial[enough], value[enough], grad[enough]
        ok[accepted] = True
        # Minimum of the parabola through f, its slope and the failed value, kept within [0.1, 0.5].
        rise = value - f[index[todo]] - length[todo] * slope[todo]
        ratio = torch.nan_to_num(-0.5 * length[todo] * slope[todo] / rise, nan=0.1).clamp(0.1, 0.5)
        length[todo] *= ratio
        hopeless = -length * slope <= nothing
        level[todo] = hopeless[todo] & ~enough & ((value - f[index[todo]]).abs() <= LEVEL)
    return _Tried(new_x, new_f, new_g, tries, ok, level)


def _update(H: Tensor, s: Tensor, y: Tensor, fresh: Tensor, identity: Tensor) -> Tensor:
    """BFGS update of the inverse Hessian; where the curvature along s is not positive, a longer step next."""
    sy = (s * y).sum(-1)
    yy = y.square().sum(-1)
    good = sy > 1e-10 * s.norm(dim=-1) * y.norm(dim=-1)
    rho = torch.where(good, 1 / sy.where(good, torch.ones_like(sy)), torch.zeros_like(sy))[:, None, None]
    scale = torch.where(good & fresh, sy / yy.clamp_min(1e-300), torch.ones_like(sy))
    H = torch.where((good & fresh)[:, None, None], scale[:, None, None] * identity, H)
    A = identity - rho * s[..., :, None] * y[..., None, :]
    updated = A @ H @ A.mT + rho * s[..., :, None] * s[..., None, :]
    return torch.where(good[:, None, None], updated, 4 * H)
