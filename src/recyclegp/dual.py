"""Inference for any likelihood: one Gaussian pseudo-observation (α_i, β_i) per data point.

q(v) ∝ N(v; 0, I) · t_base(v) · Π_i exp(α_i f_i − ½β_i f_i²), f_i = m + V_iᵀv. The damped updates of
(α, β) are natural-gradient steps on the bound; Gaussian noise converges in one of them. `base` holds
rows of modules already known: with it the bound is (combined), without it (local).
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


class Data(NamedTuple):
    """Data as the whitened model sees them."""

    V: Tensor  # (M, n) features
    spare: Tensor  # (n,)  k(x,x) − ΣV²: variance the inducing points cannot explain
    y: Tensor
    likelihood: str
    log_p: Tensor
    mean: Tensor


class State(NamedTuple):
    sites: Dual
    v: Tensor
    C: Tensor
    expected: Tensor  # E_q[log p(y_i|f_i)]
    bound: Tensor
    converged: bool


def marginals(data: Data, v: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of f at the data."""
    explained = [linalg.solve_lower(C, V).square().sum(0) for V in data.V.split(CHUNK, dim=1)]
    return data.mean + data.V.mT @ v, (data.spare + torch.cat(explained)).clamp_min(1e-12)


def posterior(data: Data, sites: Dual, base: Rows | None) -> tuple[Tensor, Tensor]:
    """v̂ and C of q from the pseudo-observations: CCᵀ = I + V diag(β) Vᵀ + H₀ᵀH₀."""
    pieces = zip(data.V.split(CHUNK, dim=1), sites.beta.split(CHUNK), strict=True)
    P = torch.stack([(V * beta) @ V.mT for V, beta in pieces]).sum(0)
    g = data.V @ (sites.alpha - sites.beta * data.mean)
    if base is not None:
        P, g = P + base.H.mT @ base.H, g + base.H.mT @ base.rho
    C = linalg.cholesky(torch.eye(len(g), dtype=P.dtype, device=P.device) + P).L
    return torch.cholesky_solve(g[:, None], C)[:, 0], C


def evaluate(data: Data, sites: Dual, base: Rows | None = None) -> State:
    """The bound at the q these pseudo-observations define; differentiable in data with sites fixed.

    At the fixed point that derivative is the whole derivative (the bound is stationary in q).
    """
    v, C = posterior(data, sites, base)
    m, s2 = marginals(data, v, C)
    expected = expected_log_prob(data.likelihood, data.y, m, s2, data.log_p)
    return State(sites, v, C, expected, _bound(expected, base, v, C), False)


def _bound(expected: Tensor, base: Rows | None, v: Tensor, C: Tensor) -> Tensor:
    return bounds.local(expected, v, C) if base is None else bounds.combined(expected, base, v, C)


class _Look(NamedTuple):
    """A state and where the natural-gradient step of length one would take its pseudo-observations."""

    state: State
    goal: Dual


def _look(data: Data, sites: Dual, base: Rows | None) -> _Look | None:
    """None where a step went so far that nothing is finite any more."""
    if not all(bool(torch.isfinite(t).all()) for t in sites):
        return None
    v, C = posterior(data, sites, base)
    expected, goal = dual(data.likelihood, data.y, *marginals(data, v, C), data.log_p)
    look = _Look(State(sites, v, C, expected, _bound(expected, base, v, C), False), goal)
    return look if bool(torch.isfinite(look.state.bound)) else None


@torch.no_grad()
def fixed_point(
    data: Data, start: Dual | None = None, base: Rows | None = None, *, steps: int = 200, tolerance: float = 1e-9
) -> State:
    """Repeat (α, β) ← their goal until the bound stops rising.

    The plain iteration creeps where a likelihood is saturated (a hundred steps and more), so it is
    extrapolated (Anderson 1965); whatever lowers the bound is dropped for a damped plain step.
    """
    least = smallest_precision(data.likelihood, data.y, data.log_p)
    here = None if start is None else _look(data, start, base)
    if here is None:
        # from the likelihood about the prior mean, not under the prior, whose E[exp f] may overflow
        narrow = data.spare.new_ones(()).expand_as(data.y)
        here = _look(data, dual(data.likelihood, data.y, data.mean.expand_as(data.y), narrow, data.log_p)[1], base)
    if here is None:
        raise RecycleGPError("y and the kernel are of such sizes that the likelihood overflows; rescale y")
    history: list[_Look] = []
    for _ in range(steps):
        history = [*history[-5:], here]
        small = tolerance * (1 + abs(float(here.state.bound)))
        there = _look(data, _extrapolated(history, least), base)
        if there is None or not there.state.bound >= here.state.bound - small:
            history, better = [], _damped(data, here, base)
            if better is None:
                return here.state._replace(converged=_settled(here))
            there = better
        gain = float(there.state.bound - here.state.bound)
        here = there
        if abs(gain) <= small:
            return here.state._replace(converged=True)
    return here.state


def _settled(here: _Look) -> bool:
    """Are the pseudo-observations where the next step would put them, to three digits?"""
    gap = torch.cat(here.goal) - torch.cat(here.state.sites)
    return bool(gap.abs().max() <= 1e-3 * (1 + torch.cat(here.goal).abs().max()))


def _damped(data: Data, here: _Look, base: Rows | None) -> _Look | None:
    """α ← (1−ρ)α + ρα', the same for β, with the first ρ = 1, ½, ¼ … that raises the bound."""
    for halvings in range(12):
        moved = (torch.lerp(a, b, 0.5**halvings) for a, b in zip(here.state.sites, here.goal, strict=True))
        there = _look(data, Dual(*moved), base)
        if there is not None and there.state.bound > here.state.bound:
            return there
    return None  # no step helps: as good as it gets


def _extrapolated(history: list[_Look], least: float) -> Dual:
    """The combination of past goals whose predicted residual is smallest."""
    goals = torch.stack([torch.cat(h.goal) for h in history], dim=1)
    residuals = goals - torch.stack([torch.cat(h.state.sites) for h in history], dim=1)
    new = goals[:, -1]
    if len(history) > 1:
        change = residuals.diff(dim=1)
        A = change.mT @ change
        ridge = 1e-12 * A.diagonal().mean() + torch.finfo(A.dtype).tiny
        weights = torch.linalg.solve(
            A + ridge * torch.eye(len(A), dtype=A.dtype, device=A.device), change.mT @ residuals[:, -1]
        )
        new = new - goals.diff(dim=1) @ weights
    alpha, beta = new.chunk(2)
    return Dual(alpha, beta.clamp_min(least))


def rows(data: Data, state: State) -> Rows:
    """The data's contribution as centred rows, with e such that E_q[log t] = Σ E_q[log p(y_i|f_i)]."""
    root = state.sites.beta.sqrt()
    # ρ̃_i = (α_i − m β_i)/√β_i
    rho = (state.sites.alpha - data.mean * state.sites.beta) / root
    T, c = data.V.new_zeros(0, len(data.V)), rho[:0]
    for V, r, target in zip(data.V.split(CHUNK, dim=1), root.split(CHUNK), rho.split(CHUNK), strict=True):
        T, c, _ = linalg.compress(torch.cat([T, r[:, None] * V.mT]), torch.cat([c, target]))
    zero = c.new_zeros(())
    # The residual dropped by compression is constant in v, and e is determined after it.
    quadratic = Rows(T, c, torch.zeros_like(c), zero, zero)
    e = state.expected.sum() - bounds.expected_rows(quadratic, state.v, state.C)
    return quadratic._replace(e=e)
