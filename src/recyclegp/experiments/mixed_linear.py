"""The linear rival of owners who differ: a generalised linear model with a constant for each owner, of all their rows.

    η_i = (1, x_i)ᵀβ + b_k,    b_k ~ N(0, τ²),    y_i ~ N(η_i, σ²), or of a Bernoulli or a Poisson with logit or log η_i

For numbers τ² and σ² are found by restricted maximum likelihood and all else is exact; for the others β and b are at
their mode, with Laplace's approximation. β has a wide normal prior, in units of standardised inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays
from ..baselines.rival import Parts
from ..core import linalg
from ..likelihoods import Bernoulli, Gaussian, Likelihood, Poisson

FLAT = 1e4  # sd of β for numbers, in units of σ,
WIDE = 10.0  # and for the others
# τ, for numbers in units of σ: first these, then those about the best of them
RATIOS = torch.logspace(-2, 1.5, 15, dtype=torch.float64)
CLOSER = torch.logspace(-0.25, 0.25, 15, dtype=torch.float64)
STEPS = 50  # of Newton's method, at most
CLOSE = 1e-8  # nats: a step that gains less is the last
LEAST = 1e-10  # precision of a row that says nothing


class _Rows(NamedTuple):
    F: Tensor  # (n, p): ones, and standardised inputs
    y: Tensor  # (n,)
    owner: Tensor  # (n,)
    owners: int
    wide: float  # sd of β

    def sums(self, values: Tensor) -> Tensor:
        """(K, …): sums over each owner's rows of (n, …)."""
        return values.new_zeros(self.owners, *values.shape[1:]).index_add(0, self.owner, values)

    def eta(self, at: _Solved) -> Tensor:
        return self.F @ at.beta + at.b[self.owner]

    def log_prior(self, at: _Solved, tau: Tensor) -> Tensor:
        """Of β and b, without what does not depend on them."""
        return -0.5 * (at.b.square().sum() / tau**2 + at.beta.square().sum() / self.wide**2)


class _Solved(NamedTuple):
    """H = [[A, Bᵀ], [B, diag c]], the precision of (β, b) at its mode."""

    beta: Tensor  # (p,)
    b: Tensor  # (K,)
    B: Tensor  # (K, p)
    c: Tensor  # (K,)
    L: Tensor  # of the Schur complement A − Bᵀ diag(c)⁻¹ B

    @property
    def logdet(self) -> Tensor:
        return linalg.logdet(self.L) + self.c.log().sum()


def _solve(rows: _Rows, w: Tensor, z: Tensor, tau: Tensor) -> _Solved:
    """The mode of (β, b) where each row says η_i ≈ z_i with precision w_i: a weighted ridge regression."""
    WF = w[:, None] * rows.F
    B, c = rows.sums(WF), rows.sums(w) + tau**-2
    p = rows.F.shape[1]
    A = rows.F.mT @ WF + torch.eye(p, dtype=w.dtype) / rows.wide**2
    L = linalg.cholesky(A - B.mT @ (B / c[:, None])).L
    g = rows.sums(w * z)
    beta = linalg.solve_upper(L, linalg.solve_lower(L, (WF.mT @ z - B.mT @ (g / c))[:, None]))[:, 0]
    return _Solved(beta, (g - B @ beta) / c, B, c, L)


@dataclass(frozen=True)
class MixedLinear:
    """Asked for the η of one owner at a time."""

    likelihood: Likelihood
    spread: float  # τ: the sd of the owners' constants
    _zero: Tensor  # of the inputs
    _unit: Tensor
    _solved: _Solved
    _scale: tuple[float, float]  # y = zero + unit·η, for numbers
    _noise: float  # the variance of η is this much of H⁻¹

    def seen_by(self, k: int) -> SeenByOwner:
        return SeenByOwner(self, k)

    def predict(self, X: Any, k: int) -> tuple[Any, Any]:
        """E[η] = (1, x)ᵀβ + b_k; Var[η] = aᵀS⁻¹a + 1/c_k, with a = (1, x) − B_k/c_k and S the Schur complement."""
        beta, b, B, c, L = self._solved
        F = _features((arrays.aligned(X, len(self._unit), None) - self._zero) / self._unit)
        a = F - B[k] / c[k]
        mean, variance = F @ beta + b[k], linalg.solve_lower(L, a.mT).square().sum(0) + 1 / c[k]
        zero, unit = self._scale
        return arrays.like(X, zero + unit * mean), arrays.like(X, unit**2 * self._noise * variance)


class SeenByOwner(NamedTuple):
    """The model, asked for the function of owner k."""

    model: MixedLinear
    owner: int

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        return (self.model.likelihood,)

    def predict(self, X: Any) -> tuple[Any, Any]:
        return self.model.predict(X, self.owner)


def mixed_linear(parts: Parts, likelihood: str = "gaussian") -> MixedLinear:
    """Of all rows: "gaussian", "bernoulli" or "poisson"."""
    X, y = (torch.cat([torch.as_tensor(t, dtype=torch.float64) for t in some]) for some in zip(*parts, strict=True))
    zero, unit = X.mean(0), X.std(0, correction=0)
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    size = torch.tensor([len(t) for _, t in parts])
    owner = torch.arange(len(parts)).repeat_interleave(size)
    rows = _Rows(_features((X - zero) / unit), y, owner, len(parts), FLAT if likelihood == "gaussian" else WIDE)
    if likelihood == "gaussian":
        y_zero, y_unit = float(y.mean()), float(y.std(correction=0)) or 1.0
        standard = rows._replace(y=(y - y_zero) / y_unit)
        _, tau, noise, solved = _best(partial(_restricted, standard))
        found = Gaussian(noise * y_unit**2)
        return MixedLinear(found, float(tau) * noise**0.5 * y_unit, zero, unit, solved, (y_zero, y_unit), noise)
    chosen = {"bernoulli": Bernoulli(), "poisson": Poisson()}[likelihood]
    _, tau, noise, solved = _best(partial(_laplace, rows, chosen))
    return MixedLinear(chosen, float(tau), zero, unit, solved, (0.0, 1.0), noise)


class _Found(NamedTuple):
    value: float  # the logarithm of what is to be largest
    tau: Tensor
    noise: float
    solved: _Solved


def _best(found: Callable[[Tensor], _Found]) -> _Found:
    about = max(map(found, RATIOS), key=lambda each: each.value)
    return max(map(found, about.tau * CLOSER), key=lambda each: each.value)


def _features(X: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(X[:, :1]), X], 1)


# --- numbers ------------------------------------------------------------------------------------


def _restricted(rows: _Rows, tau: Tensor) -> _Found:
    """The restricted likelihood at τ/σ, with the best σ²: −½[(n − p) log Q + log|H| + K log τ²], σ² = Q/(n − p)."""
    n, p = rows.F.shape
    found = _solve(rows, torch.ones_like(rows.y), rows.y, tau)
    Q = (
        (rows.y - rows.eta(found)).square().sum()
        + found.b.square().sum() / tau**2
        + found.beta.square().sum() / rows.wide**2
    )
    free = max(n - p, 1)
    value = -0.5 * (free * Q.log() + found.logdet + 2 * rows.owners * tau.log())
    return _Found(float(value), tau, float(Q / free), found)


# --- yes or no, and counts ----------------------------------------------------------------------


def _laplace(rows: _Rows, likelihood: Likelihood, tau: Tensor) -> _Found:
    """log p(y|η̂) + log p(β̂, b̂) − ½ log|H| at the mode, which Newton's method finds; steps that lose are halved."""

    def value(some: _Solved) -> Tensor:
        fit = likelihood.log_prob(rows.y, rows.eta(some)).sum()
        return fit + rows.log_prior(some, tau)

    begun = (rows.y.mean() + 0.1).log().expand_as(rows.y) if likelihood == Poisson() else torch.zeros_like(rows.y)
    now = _solve(rows, *_expanded(rows, begun, likelihood), tau)
    for _ in range(STEPS):
        new = _solve(rows, *_expanded(rows, rows.eta(now), likelihood), tau)
        gain = value(new) - value(now)
        for _ in range(STEPS):
            if gain >= 0:
                break
            new = new._replace(beta=(new.beta + now.beta) / 2, b=(new.b + now.b) / 2)
            gain = value(new) - value(now)
        now = new
        if gain < CLOSE:
            break
    evidence = value(now) - 0.5 * now.logdet - rows.owners * tau.log()
    return _Found(float(evidence), tau, 1.0, now)


def _expanded(rows: _Rows, eta: Tensor, likelihood: Likelihood) -> tuple[Tensor, Tensor]:
    """log p(y_i|η_i) to second order about η_i: the precision w_i, and the z_i that is its mode."""
    at = eta.detach().requires_grad_()
    with torch.enable_grad():
        (g,) = torch.autograd.grad(likelihood.log_prob(rows.y, at).sum(), at, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), at)
    w = (-h).clamp_min(LEAST)
    return w, eta + g.detach() / w
