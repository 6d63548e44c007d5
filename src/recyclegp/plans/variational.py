"""Sums for likelihoods that are not Gaussian: every row as a Gaussian pseudo-observation, in the light of all others.

A plan carries the common q. At its marginals m, v of f each row has the pseudo-observation β = −2∂E/∂v, α = ∂E/∂m + βm
with E = E_q[log p(y|f)], and the sums of these are what an owner sends: G = Σβhhᵀ, b = Σh(α − βm₀). Together they are
the natural-gradient step of the central model, whoever holds the rows: its fixed point is the central variational
optimum, and the coordinator damps it until the bound rises. (Partitioned variational inference with one local step:
an owner need not remember its site, because what the others say is in q.)

c is such that, beside G and b, the sums say E_q[log t] = ΣE: −2ΣE − v̂ᵀGv̂ + 2v̂ᵀb − tr(SG), S the covariance of q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..core import bounds, linalg
from ..likelihoods import Likelihood, Outputs, SeveralFunctions
from ..local import dual
from ..local.dual import PseudoObservations, WhitenedData
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


@torch.no_grad()
def of_owner(
    priors: Sequence[Prior], totals: Sequence[Sums] | None, likelihood: Likelihood, rows: dict[int, PlanRows]
) -> tuple[Sums, ...]:
    """Of one owner's rows, at the q of these totals; without any, about the prior mean."""
    q = [bound.solve(total, UNIT) for total in totals or [nothing(p) for p in priors]]
    data = {c: _whitened(priors[c], rows[c], likelihood.parts[c]) for c in rows}

    def marginals(own: WhitenedData, at: Solved) -> tuple[Tensor, Tensor]:
        if totals is None:  # not under the prior, whose E[exp f] may overflow
            return own.mean.expand_as(own.y), torch.ones_like(own.y)
        return dual.marginals(own, at.v, at.C)

    if coupled(likelihood):
        whole = _together(list(data.values()), likelihood)
        m, v = (torch.stack(t) for t in zip(*(marginals(data[c], q[c]) for c in data), strict=True))
        expected, observed = dual.goal(whole, m, v)
        shares = zip(data, observed.alpha, observed.beta, strict=True)
        each = {c: (expected / len(data), PseudoObservations(alpha, beta)) for c, alpha, beta in shares}
    else:
        each = {c: dual.goal(own, *marginals(own, q[c])) for c, own in data.items()}
    return tuple(
        _sums(data[c], *each[c], q[c], rows[c]) if c in rows else nothing(prior) for c, prior in enumerate(priors)
    )


def _whitened(prior: Prior, rows: PlanRows, likelihood: Likelihood) -> WhitenedData:
    return dual.whiten(prior.basis(), rows.X, rows.y, likelihood, prior.Z.new_tensor(prior.mean), rows.counts)


def _together(each: list[WhitenedData], likelihood: Likelihood) -> WhitenedData:
    """One problem of several functions; nobody asks for its features, of which functions may have different numbers."""
    spare, y, w, mean = (torch.stack(t) for t in zip(*((d.spare, d.y, d.w, d.mean) for d in each), strict=True))
    return WhitenedData(each[0].V, spare, y, w, likelihood, mean)


def _sums(data: WhitenedData, expected: Tensor, observed: PseudoObservations, q: Solved, rows: PlanRows) -> Sums:
    V, (alpha, beta) = data.V, observed
    centred = alpha - beta * data.mean
    G, b = (V * beta) @ V.mT, V @ centred
    spread = linalg.solve_lower(q.C, V).square().sum(0) @ beta  # tr SG
    c = -2 * expected.sum() - q.v @ G @ q.v + 2 * q.v @ b - spread
    n = rows.counts.sum()
    zero = torch.zeros_like(c)
    return Sums(n, -n * math.log(2 * math.pi), triangle(G), b, V @ beta, c, centred.sum(), beta.sum(), zero)


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
