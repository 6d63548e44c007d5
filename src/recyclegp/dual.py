"""Inference for any likelihood: one Gaussian pseudo-observation (α_i, β_i) per data point.

q(v) ∝ N(v; 0, I) · t_base(v) · Π_i exp(α_i f_i − ½β_i f_i²), f_i = m + V_iᵀv. The damped updates of
(α, β) are natural-gradient steps on the bound; Gaussian noise converges in one of them. `base` holds
rows of modules already known: with it the bound is (combined), without it (local). A leading axis
holds as many problems side by side, each with its own steps and its own end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import bounds, linalg
from .errors import RecycleGPError
from .least_squares import Rows
from .likelihoods import Dual, dual, expected_log_prob, smallest_precision

CHUNK = 8192  # data points whose features are worked on at once
MEMORY = 6  # steps the extrapolation looks back


class Data(NamedTuple):
    """Data as the whitened model sees them."""

    V: Tensor  # (…, M, n) features
    spare: Tensor  # (…, n)  k(x,x) − ΣV²: variance the inducing points cannot explain
    y: Tensor  # (…, n)
    w: Tensor  # (…, n)  1, or 0 for a row of padding
    likelihood: str
    log_p: Tensor  # (…, p)
    mean: Tensor  # (…)

    def at(self, lanes: Tensor | int | None) -> Data:
        """Some of the problems; None makes one of a single problem."""
        V, spare, y, w, name, log_p, mean = self
        return Data(V[lanes], spare[lanes], y[lanes], w[lanes], name, log_p[lanes], mean[lanes])

    def detach(self) -> Data:
        V, spare, y, w, name, log_p, mean = self
        return Data(V.detach(), spare.detach(), y, w, name, log_p.detach(), mean.detach())


class State(NamedTuple):
    sites: Dual  # (…, n)
    v: Tensor  # (…, M)
    C: Tensor  # (…, M, M)
    expected: Tensor  # (…, n)  E_q[log p(y_i|f_i)]
    bound: Tensor  # (…)
    converged: Tensor  # (…) bool

    def at(self, lanes: Tensor | int) -> State:
        sites, *rest = self
        return State(Dual(*(t[lanes] for t in sites)), *(t[lanes] for t in rest))


def marginals(data: Data, v: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of f at the data."""
    explained = [linalg.solve_lower(C, V).square().sum(-2) for V in data.V.split(CHUNK, dim=-1)]
    mean = data.mean[..., None] + (data.V.mT @ v[..., None])[..., 0]
    return mean, (data.spare + torch.cat(explained, -1)).clamp_min(1e-12)


def posterior(data: Data, sites: Dual, base: Rows | None) -> tuple[Tensor, Tensor]:
    """v̂ and C of q from the pseudo-observations: CCᵀ = I + V diag(β) Vᵀ + H₀ᵀH₀."""
    pieces = zip(data.V.split(CHUNK, dim=-1), sites.beta.split(CHUNK, dim=-1), strict=True)
    P = torch.stack([(V * beta[..., None, :]) @ V.mT for V, beta in pieces]).sum(0)
    g = data.V @ (sites.alpha - sites.beta * data.mean[..., None])[..., None]
    if base is not None:
        P, g = P + base.H.mT @ base.H, g + base.H.mT @ base.rho[..., None]
    C = linalg.cholesky(torch.eye(P.shape[-1], dtype=P.dtype, device=P.device) + P).L
    return torch.cholesky_solve(g, C)[..., 0], C


def evaluate(data: Data, sites: Dual, base: Rows | None = None) -> Tensor:
    """The bound at the q these pseudo-observations define; differentiable in data with sites fixed.

    At the fixed point that derivative is the whole derivative (the bound is stationary in q).
    """
    v, C = posterior(data, sites, base)
    m, s2 = marginals(data, v, C)
    expected = expected_log_prob(data.likelihood, data.y.flatten(), m.flatten(), s2.flatten(), _parameters(data))
    return _bound(data.w * expected.reshape(m.shape), base, v, C)


def _parameters(data: Data) -> Tensor:
    """The likelihood's parameters for each data point: (p, number of points)."""
    return data.log_p.mT[..., None].expand(-1, *data.y.shape).flatten(1) if data.y.ndim > 1 else data.log_p


def _bound(expected: Tensor, base: Rows | None, v: Tensor, C: Tensor) -> Tensor:
    return bounds.local(expected, v, C) if base is None else bounds.combined(expected, base, v, C)


class _Look(NamedTuple):
    """A state and where the natural-gradient step of length one would take its pseudo-observations."""

    state: State
    goal: Dual

    def at(self, lanes: Tensor) -> _Look:
        return _Look(self.state.at(lanes), Dual(*(t[lanes] for t in self.goal)))

    def put(self, lanes: Tensor, other: _Look) -> _Look:
        """Other values for some of the problems."""
        (sites, *rest), goal = self
        (new_sites, *new_rest), new_goal = other

        def mixed(old: Tensor, new: Tensor) -> Tensor:
            return old.index_copy(0, lanes, new)

        state = State(Dual(*map(mixed, sites, new_sites)), *map(mixed, rest, new_rest))
        return _Look(state, Dual(*map(mixed, goal, new_goal)))


def _look(data: Data, sites: Dual, base: Rows | None) -> _Look:
    """A problem whose step went so far that nothing is finite any more has the bound −∞."""
    sound = torch.stack([torch.isfinite(t).all(-1) for t in sites]).all(0)
    sites = Dual(*(torch.where(sound[:, None], t, torch.zeros_like(t)) for t in sites))
    v, C = posterior(data, sites, base)
    m, s2 = marginals(data, v, C)
    expected, goal = dual(data.likelihood, data.y.flatten(), m.flatten(), s2.flatten(), _parameters(data))
    expected, goal = data.w * expected.reshape(m.shape), Dual(*(data.w * t.reshape(m.shape) for t in goal))
    bound = _bound(expected, base, v, C)
    bound = torch.where(sound & torch.isfinite(bound), bound, torch.full_like(bound, -torch.inf))
    return _Look(State(sites, v, C, expected, bound, torch.zeros_like(sound)), goal)


def fixed_point(
    data: Data, start: Dual | None = None, base: Rows | None = None, *, steps: int = 200, tolerance: float = 1e-9
) -> State:
    """`fixed_points` of one problem."""
    first = None if start is None else Dual(*(t[None] for t in start))
    state = fixed_points(data.at(None), first, base, steps=steps, tolerance=tolerance).at(0)
    if not bool(torch.isfinite(state.bound)):
        raise RecycleGPError("y and the kernel are of such sizes that the likelihood overflows; rescale y")
    return state


@torch.no_grad()
def fixed_points(
    data: Data, start: Dual | None = None, base: Rows | None = None, *, steps: int = 200, tolerance: float = 1e-9
) -> State:
    """Repeat (α, β) ← their goal until the bound stops rising.

    The plain iteration creeps where a likelihood is saturated (a hundred steps and more), so it is
    extrapolated (Anderson 1965); whatever lowers the bound is dropped for a damped plain step.
    """
    here = _begin(data, start, base)
    final, lanes = here, torch.isfinite(here.state.bound).nonzero()[:, 0]
    here, data, history = here.at(lanes), data.at(lanes), _History([], [], [])
    for _ in range(steps):
        if not len(lanes):
            break
        history = history.followed_by(here)
        small = tolerance * (1 + here.state.bound.abs())
        there = _look(data, history.extrapolated(_least(data)), base)
        worse = (~(there.state.bound >= here.state.bound - small)).nonzero()[:, 0]
        stuck = torch.zeros_like(here.state.converged)
        if len(worse):
            history.forget(worse)
            better, helped = _damped(data.at(worse), here.at(worse), base)
            there = there.put(worse, better)
            stuck[worse] = ~helped
        level = (there.state.bound - here.state.bound).abs() <= small
        here = there
        converged = torch.where(stuck, _settled(here), level)
        here = here._replace(state=here.state._replace(converged=converged))
        on = (~(stuck | level)).nonzero()[:, 0]
        if len(on) < len(lanes):
            final = final.put(lanes, here)
            lanes, data, here, history = lanes[on], data.at(on), here.at(on), history.at(on)
    return final.put(lanes, here).state


def _least(data: Data) -> Tensor:
    flat = smallest_precision(data.likelihood, data.y.flatten(), _parameters(data))
    return data.w * (flat.reshape(data.y.shape) if flat.ndim else flat)


def _begin(data: Data, start: Dual | None, base: Rows | None) -> _Look:
    if start is not None:
        here = _look(data, start, base)
        lost = (~torch.isfinite(here.state.bound)).nonzero()[:, 0]
        return here if not len(lost) else here.put(lost, _begin(data.at(lost), None, base))
    # from the likelihood about the prior mean, not under the prior, whose E[exp f] may overflow
    m = data.mean[:, None].expand_as(data.y).flatten()
    _, sites = dual(data.likelihood, data.y.flatten(), m, torch.ones_like(m), _parameters(data))
    return _look(data, Dual(*(data.w * t.reshape(data.y.shape) for t in sites)), base)


def _settled(here: _Look) -> Tensor:
    """Are the pseudo-observations where the next step would put them, to three digits?"""
    goal = torch.cat(here.goal, -1)
    gap = goal - torch.cat(here.state.sites, -1)
    return gap.abs().amax(-1) <= 1e-3 * (1 + goal.abs().amax(-1))


def _damped(data: Data, here: _Look, base: Rows | None) -> tuple[_Look, Tensor]:
    """α ← (1−ρ)α + ρα', the same for β, with the first ρ = 1, ½, ¼ … that raises the bound.

    Also says where one did; where none does, this is as good as it gets.
    """
    result, helped = here, torch.zeros_like(here.state.converged)
    for halvings in range(12):
        todo = (~helped).nonzero()[:, 0]
        if not len(todo):
            break
        old = here.at(todo)
        moved = Dual(*(torch.lerp(a, b, 0.5**halvings) for a, b in zip(old.state.sites, old.goal, strict=True)))
        there = _look(data.at(todo), moved, base)
        rises = (there.state.bound > old.state.bound).nonzero()[:, 0]
        result = result.put(todo[rises], there.at(rises))
        helped[todo[rises]] = True
    return result, helped


class _History(NamedTuple):
    """The last few goals and residuals (B, 2n) of each problem; `known` is False where it began anew."""

    goals: list[Tensor]
    residuals: list[Tensor]
    known: list[Tensor]

    def followed_by(self, here: _Look) -> _History:
        goal = torch.cat(here.goal, -1)
        new = (goal, goal - torch.cat(here.state.sites, -1), torch.ones_like(here.state.converged))
        return _History(*([*old[1 - MEMORY :], latest] for old, latest in zip(self, new, strict=True)))

    def at(self, lanes: Tensor) -> _History:
        return _History(*([t[lanes] for t in part] for part in self))

    def forget(self, lanes: Tensor) -> None:
        for known in self.known:
            known[lanes] = False

    def extrapolated(self, least: Tensor) -> Dual:
        """The combination of past goals whose predicted residual is smallest."""
        goals, residuals = torch.stack(self.goals, 1), torch.stack(self.residuals, 1)  # (B, h, 2n)
        known = torch.stack(self.known, 1)
        new = goals[:, -1]
        if len(self.goals) > 1:
            usable = (known[:, 1:] & known[:, :-1])[..., None]  # what was forgotten gets the weight zero
            change = torch.where(usable, residuals.diff(dim=1), torch.zeros_like(residuals[:, 1:]))
            A = change @ change.mT
            count = usable.sum((1, 2)).clamp_min(1)
            ridge = 1e-12 * A.diagonal(dim1=-2, dim2=-1).sum(-1) / count + torch.finfo(A.dtype).tiny
            identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
            weights = torch.linalg.solve(
                A + ridge[:, None, None] * identity, change @ residuals[:, -1, :, None]
            )  # (B, h−1, 1)
            new = new - (goals.diff(dim=1) * weights).sum(1)
        alpha, beta = new.chunk(2, -1)
        return Dual(alpha, torch.maximum(beta, least))


def rows(data: Data, state: State) -> Rows:
    """The data's contribution as centred rows, with e such that E_q[log t] = Σ E_q[log p(y_i|f_i)]."""
    root = state.sites.beta.sqrt()
    # ρ̃_i = (α_i − m β_i)/√β_i
    target = (state.sites.alpha - data.mean[..., None] * state.sites.beta) / torch.where(root > 0, root, 1.0)
    T, c = data.V.mT[..., :0, :], target[..., :0]
    for V, r, rho in zip(data.V.split(CHUNK, -1), root.split(CHUNK, -1), target.split(CHUNK, -1), strict=True):
        T, c, _ = linalg.compress(torch.cat([T, r[..., None] * V.mT], -2), torch.cat([c, rho], -1))
    zero = torch.zeros_like(state.bound)
    # The residual dropped by compression is constant in v, and e is determined after it.
    quadratic = Rows(T, c, torch.zeros_like(c), zero, zero)
    e = state.expected.sum(-1) - bounds.expected_rows(quadratic, state.v, state.C)
    return quadratic._replace(e=e)
