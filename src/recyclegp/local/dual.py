"""Inference for any likelihood: one Gaussian pseudo-observation (α_i, β_i) per data point.

q(v) ∝ N(v; 0, I) · t_base(v) · Π_i exp(α_i f_i − ½β_i f_i²), f_i = m + V_iᵀv. The damped updates of
(α, β) are natural-gradient steps on the bound; Gaussian noise converges in one of them. `base` holds
rows of modules already known: with it the bound is (combined), without it (local). A leading axis
holds as many problems side by side, each with its own steps and its own end. Where a likelihood speaks of C functions
together there is an axis of them behind it: q is independent between functions, and they share a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import bounds, linalg
from ..core.least_squares import CentredRows
from ..core.posterior import Basis, features
from ..errors import RecycleGPError
from ..likelihoods import Likelihood, SeveralFunctions
from .constants import FIXED_POINT

POINTS = 8192  # of data, whose features are worked on at once


class PseudoObservations(NamedTuple):
    """One for each data point: its precision β, and β times its value, α."""

    alpha: Tensor
    beta: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> PseudoObservations:
        return PseudoObservations(change(self.alpha), change(self.beta))


class WhitenedData(NamedTuple):
    """Data as the whitened model sees them; leading axes (B,) or, for a joint likelihood, (B, C)."""

    V: Tensor  # (…, M, n) features
    spare: Tensor  # (…, n)  k(x,x) − ΣV²: variance the inducing points cannot explain
    y: Tensor  # (…, n)
    w: Tensor  # (…, n)  how often a row counts: 1 unless rows have weights, 0 for padding
    likelihood: Likelihood  # its parameters (…, 1)
    mean: Tensor  # (…)

    def map(self, change: Callable[[Tensor], Tensor]) -> WhitenedData:
        """Every tensor in it, changed in the same way."""
        V, spare, y, w, likelihood, mean = self
        return WhitenedData(change(V), change(spare), change(y), change(w), likelihood.map(change), change(mean))

    def select(self, chosen: Tensor | int | None) -> WhitenedData:
        """Some of the problems; None makes one of a single problem."""
        return self.map(lambda t: t[chosen])

    def together(self, functions: int) -> WhitenedData:
        """Every so many neighbouring problems as the functions of one."""
        return self.map(lambda t: t.unflatten(0, (-1, functions)))


def whiten(
    base: Basis, X: Tensor, y: Tensor, likelihood: Likelihood, mean: Tensor, w: Tensor | None = None
) -> WhitenedData:
    V = features(base, X)
    spare = (base.kernel.diagonal(X) - V.square().sum(-2)).clamp_min(0)
    own = likelihood.map(lambda p: p[..., None])
    return WhitenedData(V, spare, y, torch.ones_like(y) if w is None else w, own, mean)


class State(NamedTuple):
    observed: PseudoObservations  # (…, n)
    v: Tensor  # (…, M)
    C: Tensor  # (…, M, M)
    expected: Tensor  # (…, n)  E_q[log p(y_i|f_i)]
    bound: Tensor  # (…)
    converged: Tensor  # (…) bool

    def select(self, chosen: Tensor | int) -> State:
        observed, *rest = self
        return State(observed.map(lambda t: t[chosen]), *(t[chosen] for t in rest))


def marginals(data: WhitenedData, v: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of f at the data."""
    explained = [linalg.solve_lower(C, V).square().sum(-2) for V in data.V.split(POINTS, dim=-1)]
    mean = data.mean[..., None] + (data.V.mT @ v[..., None])[..., 0]
    return mean, (data.spare + torch.cat(explained, -1)).clamp_min(1e-12)


def posterior(data: WhitenedData, observed: PseudoObservations, base: CentredRows | None) -> tuple[Tensor, Tensor]:
    """v̂ and C of q from the pseudo-observations: CCᵀ = I + V diag(β) Vᵀ + H₀ᵀH₀."""
    pieces = zip(data.V.split(POINTS, dim=-1), observed.beta.split(POINTS, dim=-1), strict=True)
    P = torch.stack([(V * beta[..., None, :]) @ V.mT for V, beta in pieces]).sum(0)
    g = data.V @ (observed.alpha - observed.beta * data.mean[..., None])[..., None]
    if base is not None:
        P, g = P + base.H.mT @ base.H, g + base.H.mT @ base.rho[..., None]
    C = linalg.cholesky(torch.eye(P.shape[-1], dtype=P.dtype, device=P.device) + P).L
    return torch.cholesky_solve(g, C)[..., 0], C


def evaluate(data: WhitenedData, observed: PseudoObservations, base: CentredRows | None = None) -> Tensor:
    """The bound at the q these pseudo-observations define; differentiable in data with sites fixed.

    At the fixed point that derivative is the whole derivative (the bound is stationary in q).
    """
    v, C = posterior(data, observed, base)
    m, s2 = marginals(data, v, C)
    if isinstance(data.likelihood, SeveralFunctions):
        return _bound(data.w[..., 0, :] * data.likelihood.differentiable(data.y, m, s2), base, v, C)
    return _bound(data.w * data.likelihood.expected_log_prob(data.y, m, s2), base, v, C)


def _bound(expected: Tensor, base: CentredRows | None, v: Tensor, C: Tensor) -> Tensor:
    return bounds.local(expected, v, C) if base is None else bounds.combined(expected, base, v, C)


class _Iterate(NamedTuple):
    """A state and where the natural-gradient step of length one would take its pseudo-observations."""

    state: State
    goal: PseudoObservations

    def select(self, chosen: Tensor) -> _Iterate:
        return _Iterate(self.state.select(chosen), self.goal.map(lambda t: t[chosen]))

    def put(self, index: Tensor, other: _Iterate) -> _Iterate:
        """Other values for some of the problems."""
        (observed, *rest), goal = self
        (new_observed, *new_rest), new_goal = other

        def mixed(old: Tensor, new: Tensor) -> Tensor:
            return old.index_copy(0, index, new)

        state = State(PseudoObservations(*map(mixed, observed, new_observed)), *map(mixed, rest, new_rest))
        return _Iterate(state, PseudoObservations(*map(mixed, goal, new_goal)))


def _evaluated(data: WhitenedData, observed: PseudoObservations, base: CentredRows | None) -> _Iterate:
    """A problem whose step went so far that nothing is finite any more has the bound −∞."""
    sound = torch.stack([torch.isfinite(t).flatten(1).all(-1) for t in observed]).all(0)
    kept = sound.reshape(-1, *(1,) * (observed.alpha.ndim - 1))
    observed = observed.map(lambda t: torch.where(kept, t, torch.zeros_like(t)))
    v, C = posterior(data, observed, base)
    m, s2 = marginals(data, v, C)
    expected, wanted = goal(data, m, s2)
    bound = _bound(expected, base, v, C)
    bound = torch.where(sound & torch.isfinite(bound), bound, torch.full_like(bound, -torch.inf))
    return _Iterate(State(observed, v, C, expected, bound, torch.zeros_like(sound)), wanted)


def goal(data: WhitenedData, m: Tensor, s2: Tensor) -> tuple[Tensor, PseudoObservations]:
    """E = E_q[log p(y|f)] per point, with β = −2 ∂E/∂v and α = ∂E/∂m + β m.

    β ≥ 0 for log-concave likelihoods; elsewhere (student-t) it is clipped just above 0.
    """
    if isinstance(data.likelihood, SeveralFunctions):
        value, by_mean, by_variance = data.likelihood.expected_jointly(data.y, m, s2)
        expected = data.w[..., 0, :] * value
    else:
        value, by_mean, by_variance = data.likelihood.expected_with_slopes(data.y, m, s2)
        expected = data.w * value
    beta = torch.maximum(-2 * by_variance, _least(data))
    return expected, PseudoObservations(data.w * (by_mean + beta * m), data.w * beta)


def fixed_point(
    data: WhitenedData,
    start: PseudoObservations | None = None,
    base: CentredRows | None = None,
    *,
    steps: int = FIXED_POINT.steps,
    tolerance: float = FIXED_POINT.tolerance,
) -> State:
    """`fixed_points` of one problem."""
    first = None if start is None else start.map(lambda t: t[None])
    state = fixed_points(data.select(None), first, base, steps=steps, tolerance=tolerance).select(0)
    if not bool(torch.isfinite(state.bound)):
        raise RecycleGPError("y and the kernel are of such sizes that the likelihood overflows; rescale y")
    return state


@torch.no_grad()
def fixed_points(
    data: WhitenedData,
    start: PseudoObservations | None = None,
    base: CentredRows | None = None,
    *,
    steps: int = FIXED_POINT.steps,
    tolerance: float = FIXED_POINT.tolerance,
) -> State:
    """Repeat (α, β) ← their goal until the bound stops rising.

    The plain iteration creeps where a likelihood is saturated (a hundred steps and more), so it is
    extrapolated (Anderson 1965); whatever lowers the bound is dropped for a damped plain step.
    """
    here = _begin(data, start, base)
    final, index = here, torch.isfinite(here.state.bound).nonzero()[:, 0]
    here, data, history = here.select(index), data.select(index), _History([], [], [])
    for _ in range(steps):
        if not len(index):
            break
        history = history.followed_by(here)
        small = tolerance * (1 + here.state.bound.abs())
        there = _evaluated(data, history.extrapolated(_least(data)), base)
        worse = (~(there.state.bound >= here.state.bound - small)).nonzero()[:, 0]
        stuck = torch.zeros_like(here.state.converged)
        if len(worse):
            history.restart(worse)
            better, helped = _damped(data.select(worse), here.select(worse), base)
            there = there.put(worse, better)
            stuck[worse] = ~helped
        level = (there.state.bound - here.state.bound).abs() <= small
        here = there
        # With clipped precisions the goal is not quite the maximum: where no step towards it helps, this is the end.
        ended = torch.ones_like(stuck) if not data.likelihood.log_concave else _settled(here)
        converged = torch.where(stuck, ended, level)
        here = here._replace(state=here.state._replace(converged=converged))
        on = (~(stuck | level)).nonzero()[:, 0]
        if len(on) < len(index):
            final = final.put(index, here)
            index, data, here, history = index[on], data.select(on), here.select(on), history.select(on)
    return final.put(index, here).state


def _least(data: WhitenedData) -> Tensor:
    resolution = data.likelihood.resolution(data.y, torch.zeros_like(data.y))
    return data.w * FIXED_POINT.least_precision / resolution.detach().square()


def _begin(data: WhitenedData, start: PseudoObservations | None, base: CentredRows | None) -> _Iterate:
    if start is not None:
        here = _evaluated(data, start, base)
        lost = (~torch.isfinite(here.state.bound)).nonzero()[:, 0]
        return here if not len(lost) else here.put(lost, _begin(data.select(lost), None, base))
    # from the likelihood about the prior mean, not under the prior, whose E[exp f] may overflow
    m = data.mean[..., None].expand_as(data.y)
    _, first = goal(data, m, torch.ones_like(m))
    return _evaluated(data, first, base)


def _settled(here: _Iterate) -> Tensor:
    """Are the pseudo-observations where the next step would put them, to three digits?"""
    goal = _flat(here.goal)
    gap = goal - _flat(here.state.observed)
    return gap.abs().amax(-1) <= 1e-3 * (1 + goal.abs().amax(-1))


def _damped(data: WhitenedData, here: _Iterate, base: CentredRows | None) -> tuple[_Iterate, Tensor]:
    """α ← (1−ρ)α + ρα', the same for β, with the first ρ = 1, ½, ¼ … that raises the bound.

    Also says where one did; where none does, this is as good as it gets.
    """
    result, helped = here, torch.zeros_like(here.state.converged)
    for halvings in range(FIXED_POINT.halvings):
        todo = (~helped).nonzero()[:, 0]
        if not len(todo):
            break
        old = here.select(todo)
        pairs = zip(old.state.observed, old.goal, strict=True)
        moved = PseudoObservations(*(torch.lerp(a, b, 0.5**halvings) for a, b in pairs))
        there = _evaluated(data.select(todo), moved, base)
        rises = (there.state.bound > old.state.bound).nonzero()[:, 0]
        result = result.put(todo[rises], there.select(rises))
        helped[todo[rises]] = True
    return result, helped


class _History(NamedTuple):
    """The last few goals and residuals (B, 2n or 2Cn) of each problem; `known` is False where it began anew."""

    goals: list[Tensor]
    residuals: list[Tensor]
    known: list[Tensor]

    def followed_by(self, here: _Iterate) -> _History:
        goal = _flat(here.goal)
        new = (goal, goal - _flat(here.state.observed), torch.ones_like(here.state.converged))
        return _History(*([*old[1 - FIXED_POINT.memory :], latest] for old, latest in zip(self, new, strict=True)))

    def select(self, chosen: Tensor) -> _History:
        return _History(*([t[chosen] for t in part] for part in self))

    def restart(self, index: Tensor) -> None:
        for known in self.known:
            known[index] = False

    def extrapolated(self, least: Tensor) -> PseudoObservations:
        """The combination of past goals whose predicted residual is smallest."""
        goals, residuals = torch.stack(self.goals, 1), torch.stack(self.residuals, 1)  # (B, h, 2n)
        known = torch.stack(self.known, 1)
        new = goals[:, -1]
        if len(self.goals) > 1:
            usable = (known[:, 1:] & known[:, :-1])[..., None]  # what lies before a restart gets the weight zero
            change = torch.where(usable, residuals.diff(dim=1), torch.zeros_like(residuals[:, 1:]))
            A = change @ change.mT
            count = usable.sum((1, 2)).clamp_min(1)
            ridge = 1e-12 * A.diagonal(dim1=-2, dim2=-1).sum(-1) / count + torch.finfo(A.dtype).tiny
            identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
            weights = torch.linalg.solve(
                A + ridge[:, None, None] * identity, change @ residuals[:, -1, :, None]
            )  # (B, h−1, 1)
            new = new - (goals.diff(dim=1) * weights).sum(1)
        alpha, beta = (t.reshape(least.shape) for t in new.chunk(2, -1))
        return PseudoObservations(alpha, torch.maximum(beta, least))


def _flat(observed: PseudoObservations) -> Tensor:
    """(B, 2n), or (B, 2Cn) for C functions."""
    return torch.cat([t.flatten(1) for t in observed], -1)


def bounded(data: WhitenedData, state: State) -> PseudoObservations:
    """Pseudo-observations of which none lies more than a few times as far from f as the observation itself.

    Where a likelihood is not log-concave an outlier has hardly any precision β but still a slope α − βf: a tilt that
    the prior of its own model holds, and that moves f without limit under a wider prior, as an ensemble may have. Its
    precision is raised until its value is within reach; the slope, and with it the mean of q, stays.
    """
    observed = state.observed
    if data.likelihood.log_concave:
        return observed
    m, _ = marginals(data, state.v, state.C)
    slope = observed.alpha - observed.beta * m
    distance = (data.y - m).abs()
    least = slope.abs() / (FIXED_POINT.reach * torch.where(distance > 0, distance, torch.inf))
    beta = torch.maximum(observed.beta, least)
    return PseudoObservations(slope + beta * m, beta)


def rows(data: WhitenedData, state: State) -> CentredRows:
    """The data's contribution as centred rows, with e such that E_q[log t] = Σ E_q[log p(y_i|f_i)]."""
    observed = bounded(data, state)
    root = observed.beta.sqrt()
    # ρ̃_i = (α_i − m β_i)/√β_i
    target = (observed.alpha - data.mean[..., None] * observed.beta) / torch.where(root > 0, root, 1.0)
    T, c = data.V.mT[..., :0, :], target[..., :0]
    for V, r, rho in zip(data.V.split(POINTS, -1), root.split(POINTS, -1), target.split(POINTS, -1), strict=True):
        T, c, _ = linalg.compress(linalg.Equations(T, c), linalg.Equations(r[..., None] * V.mT, rho))
    zero = torch.zeros_like(data.mean)
    # The residual dropped by compression is constant in v, and e is determined after it.
    quadratic = CentredRows(T, c, zero, zero)
    expected = state.expected.sum(-1)
    if isinstance(data.likelihood, SeveralFunctions):  # in equal shares, which add up
        expected = expected[..., None] / data.mean.shape[-1]
    e = expected - bounds.expected_rows(quadratic, state.v, state.C)
    return quadratic._replace(e=e)
