"""Sums for likelihoods that are not Gaussian: every row as a Gaussian pseudo-observation, in the light of all others.

A plan carries the common q. At its marginals m, v of f each row has the pseudo-observation β = −2∂E/∂v, α = ∂E/∂m + βm
with E = E_q[log p(y|f)], and the sums of these are what an owner sends: G = Σβhhᵀ, b = Σh(α − βm₀), which is
Σh ∂E/∂m + Gv̂. Together they are the natural-gradient step of the central model, whoever holds the rows: its fixed point
is the central variational optimum, and the coordinator damps it until the bound rises. (Partitioned variational
inference with one local step: an owner need not remember its site, because what the others say is in q.)

Where a likelihood is not log-concave (student-t), an outlier has β < 0. It counts as it is: an owner's other rows make
up for it, and only what is still negative of their G is left out, so that an answer stays a module. Clipping every row
by itself, as `local.dual` does, would move the fixed point away from the optimum.

c is such that, beside G and b, the sums say E_q[log t] = ΣE: −2ΣE − v̂ᵀGv̂ + 2v̂ᵀb − tr(SG), S the covariance of q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import bounds
from ..core.posterior import Basis, basis
from ..likelihoods import Likelihood, Outputs, SeveralFunctions
from ..local import dual
from ..local.dual import WhitenedData
from . import bound
from .bound import Solved
from .prior import Prior
from .sums import PlanRows, Sums, triangle

UNIT = 1.0  # the noise of pseudo-observations, whose precision is in their sums


def coupled(likelihood: Likelihood) -> bool:
    """Does a row speak of several functions at once?"""
    return isinstance(likelihood, SeveralFunctions) and not isinstance(likelihood, Outputs)


def nothing(prior: Prior) -> Sums:
    """Of no rows."""
    M, zero = len(prior.Z), prior.Z.new_zeros(())
    return Sums(zero, zero, prior.Z.new_zeros(M * (M + 1) // 2), *(prior.Z.new_zeros(M),) * 2, *(zero,) * 4)


class Observed(NamedTuple):
    """Rows at the marginals of q, each as often as it counts."""

    expected: Tensor  # (n,)  E
    slope: Tensor  # (n,)  ∂E/∂m
    beta: Tensor  # (n,)  −2∂E/∂v


class Seen(NamedTuple):
    """One owner's rows of each function that it has, in the light of q."""

    q: list[Solved]  # of every function
    data: dict[int, WhitenedData]
    each: dict[int, Observed]


@torch.no_grad()
def _seen(
    priors: Sequence[Prior], totals: Sequence[Sums] | None, likelihood: Likelihood, rows: dict[int, PlanRows]
) -> Seen:
    q = [bound.solve(total, UNIT) for total in totals or [nothing(p) for p in priors]]
    data = {c: _whitened(priors[c].basis(), priors[c], rows[c], likelihood.parts[c]) for c in rows}

    def marginals(own: WhitenedData, at: Solved) -> tuple[Tensor, Tensor]:
        if totals is None:  # not under the prior, whose E[exp f] may overflow
            return own.mean.expand_as(own.y), torch.ones_like(own.y)
        return dual.marginals(own, at.v, at.C)

    at = {c: marginals(own, q[c]) for c, own in data.items()}
    if coupled(likelihood):
        whole = _together(list(data.values()), likelihood)
        value, slope, beta = _observed(whole, *(torch.stack(t) for t in zip(*at.values(), strict=True)))
        each = {c: Observed(value / len(data), *own) for c, *own in zip(data, slope, beta, strict=True)}
    else:
        each = {c: _observed(own, *at[c]) for c, own in data.items()}
    if totals is None:
        each = {c: _reachable(data[c], at[c][0], own) for c, own in each.items()}
    return Seen(q, data, each)


@torch.no_grad()
def of_owner(
    priors: Sequence[Prior], totals: Sequence[Sums] | None, likelihood: Likelihood, rows: dict[int, PlanRows]
) -> tuple[Sums, ...]:
    """Of one owner's rows, at the q of these totals; without any, about the prior mean."""
    q, data, each = _seen(priors, totals, likelihood, rows)
    return tuple(
        _sums(data[c], each[c], q[c], rows[c]) if c in rows else nothing(prior) for c, prior in enumerate(priors)
    )


def slopes(
    priors: Sequence[Prior], totals: Sequence[Sums], likelihood: Likelihood, rows: dict[int, PlanRows]
) -> Tensor:
    """(p,)  one owner's part of the derivative of the bound by x, the kernels' parameters, at the q of these totals.

    KL[q‖p] of the whitened v does not depend on x, so that it is Σ ∂E/∂m ∂m/∂x + ∂E/∂v ∂v/∂x over rows. At the best q
    this is the whole derivative: the bound is stationary in q.
    """
    q, _, each = _seen(priors, totals, likelihood, rows)
    found = []
    for c, prior in enumerate(priors):
        x = prior.x.requires_grad_()
        if c not in rows:
            found.append(torch.zeros_like(x))
            continue
        with torch.enable_grad():
            base = basis(prior.kernel_at(x), prior.Z, prior.jitter)
            m, v = dual.marginals(_whitened(base, prior, rows[c], likelihood.parts[c]), q[c].v, q[c].C)
            value = each[c].slope @ m - 0.5 * each[c].beta @ v
            found.append(torch.autograd.grad(value, x)[0])
    return torch.cat(found).detach()


def _observed(data: WhitenedData, m: Tensor, v: Tensor) -> Observed:
    if isinstance(data.likelihood, SeveralFunctions):
        value, by_mean, by_variance = data.likelihood.expected_jointly(data.y, m, v)
        return Observed(data.w[0] * value, data.w * by_mean, -2 * data.w * by_variance)
    value, by_mean, by_variance = data.likelihood.expected_with_slopes(data.y, m, v)
    return Observed(data.w * value, data.w * by_mean, -2 * data.w * by_variance)


def _reachable(data: WhitenedData, m: Tensor, own: Observed) -> Observed:
    """Where nothing is known yet: no row pulls f beyond its own y. That is a step of reweighted least squares.

    Most rows may be far from the prior mean; with what a Student-t density says there, β < 0, f would go anywhere.
    """
    if data.likelihood.log_concave:
        return own
    distance = (data.y - m).abs()
    least = own.slope.abs() / torch.where(distance > 0, distance, torch.inf)
    return own._replace(beta=torch.maximum(own.beta, least))


def _whitened(base: Basis, prior: Prior, rows: PlanRows, likelihood: Likelihood) -> WhitenedData:
    return dual.whiten(base, rows.X, rows.y, likelihood, prior.Z.new_tensor(prior.mean), rows.counts)


def _together(each: list[WhitenedData], likelihood: Likelihood) -> WhitenedData:
    """One problem of several functions; nobody asks for its features, of which functions may have different numbers."""
    spare, y, w, mean = (torch.stack(t) for t in zip(*((d.spare, d.y, d.w, d.mean) for d in each), strict=True))
    return WhitenedData(each[0].V, spare, y, w, likelihood, mean)


def _sums(data: WhitenedData, own: Observed, q: Solved, rows: PlanRows) -> Sums:
    V, beta = data.V, own.beta
    G = (V * beta) @ V.mT
    if bool((beta < 0).any()):
        G = _positive_part(G)
    b = V @ own.slope + G @ q.v
    spread = torch.cholesky_solve(G, q.C).diagonal().sum()  # tr SG
    c = -2 * own.expected.sum() - q.v @ G @ q.v + 2 * q.v @ b - spread
    n = rows.counts.sum()
    zero = torch.zeros_like(c)
    # the mean of the plan stays: h, a and o are never asked for
    return Sums(n, -n * math.log(2 * math.pi), triangle(G), b, torch.zeros_like(b), c, zero, zero, zero)


def _positive_part(G: Tensor) -> Tensor:
    """The nearest positive semidefinite matrix."""
    values, U = torch.linalg.eigh(G)
    return (U * values.clamp_min(0)) @ U.mT


@torch.no_grad()
def value(at: Sums, total: Sums) -> Tensor:
    """The variational bound at the q of the totals `at`, at which owners have made the sums `total`: ΣE − KL[q‖p]."""
    q = bound.solve(at, UNIT)
    G = total.matrix()
    spread = torch.cholesky_solve(G, q.C).diagonal().sum()
    expected = -0.5 * (total.c + q.v @ G @ q.v - 2 * q.v @ total.b + spread)
    return expected - bounds.kl(q.v, q.C)


def between(old: Sums, new: Sums, length: float) -> Sums:
    """A damped step: natural parameters mix."""
    return Sums(*(torch.lerp(a, b, length) for a, b in zip(old, new, strict=True)))


def distance(old: Sums, new: Sums) -> float:
    """How far apart two q are, in nats: KL between them, as if their precisions were the same."""
    q, p = bound.solve(old, UNIT), bound.solve(new, UNIT)
    return 0.5 * float((q.C.mT @ (p.v - q.v)).square().sum())
