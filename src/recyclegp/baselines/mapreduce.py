"""Distributed inference in sparse GP regression: Gal, van der Wilk & Rasmussen 2014.

Everybody holds the same plan (Z, θ, m, σ²). In each round a node sends sums over its rows, the reducer
adds them up and forms Titsias' bound, and sends its derivatives back for the nodes' share of the
gradient. With a plan that is fixed beforehand one round is enough, and it is the merge of collapsed
modules; learning the plan is what costs rounds, with every owner present in all of them.

The paper's sums are of k_i k_iᵀ and k_i y_i with k_i = K_Zi. Nodes know Z and θ, so they can send
those of v_i = L⁻¹k_i instead: as many numbers, and whitening the sums afterwards would lose what K_ZZ
loses in conditioning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .. import arrays
from ..arrays import CountOrPoints
from ..core import linalg, optimiser
from ..core.posterior import Basis, Posterior, basis, features
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.gpytorch_objects import from_gpytorch
from ..likelihoods import Gaussian, gaussian_noise
from ..local import placement
from ..local.constants import PLACEMENT
from ..local.options import KernelLike
from ..local.search_space import SearchSpace
from .hyper import begin, log_prior, units_bytes, unpack
from .rival import NUMBER, Part, Parts, Rival, Sent, checked, together

ROWS = 8192  # of a node, whose features are held at once


class Statistics(NamedTuple):
    """What a node sends: sums over its rows, r = y − m. They add."""

    n: Tensor
    VV: Tensor  # (M, M)  Σ v_i v_iᵀ
    Vr: Tensor  # (M,)  Σ v_i r_i
    rr: Tensor  # Σ r_i²
    k: Tensor  # Σ k(x_i, x_i)


class Reduced(NamedTuple):
    """The optimal q(v) = N(v, (CCᵀ)⁻¹) and the bound there."""

    v: Tensor
    C: Tensor
    bound: Tensor


class Plan(NamedTuple):
    """What everybody agrees on."""

    kernel: Kernel
    Z: Tensor
    mean: float
    noise: float


def statistics(base: Basis, X: Tensor, y: Tensor, mean: Tensor | float) -> Statistics:
    """The map: one node's sums."""
    V, r = features(base, X), y - mean
    k = base.kernel.diagonal(X).sum()
    return Statistics(r.new_tensor(float(len(y))), V @ V.mT, V @ r, r @ r, k)


def add(parts: Sequence[Statistics]) -> Statistics:
    """The reduce."""
    return Statistics(*(torch.stack(t).sum(0) for t in zip(*parts, strict=True)))


def solve(total: Statistics, noise: Tensor) -> Reduced:
    """Titsias' bound (2009), from the sums alone."""
    identity = torch.eye(len(total.Vr), dtype=total.Vr.dtype, device=total.Vr.device)
    C = linalg.cholesky(identity + total.VV / noise).L  # CCᵀ = I + σ⁻²Σvvᵀ
    c = linalg.solve_lower(C, (total.Vr / noise)[:, None])
    # log N(y; m1, VᵀV + σ²I) = −½(n log 2πσ² + log det CCᵀ + σ⁻²‖r‖² − ‖c‖²)
    fit = -0.5 * (total.n * (2 * math.pi * noise).log() + total.rr / noise - c.square().sum()) - linalg.logdet(C)
    trace = 0.5 * (total.k - total.VV.diagonal().sum()) / noise  # tr(K − Q)/2σ²
    return Reduced(linalg.solve_upper(C, c)[:, 0], C, fit - trace)


# --- fitting ----------------------------------------------------------------------------------


def mapreduce(
    parts: Parts,
    *,
    inducing: CountOrPoints,  # the points Z, or their number: each owner then proposes some from its region
    kernel: KernelLike = "rbf",
    learn: bool = True,
    noise: float | None = None,  # its variance, kept fixed; None learns it
    mean: float = 0.0,  # constant prior mean, where the plan is not learned
    seed: int = 0,  # of the proposals
) -> Rival:
    """Sparse GP regression on everybody's rows, which stay where they are.

    With `learn` the bound is maximised over kernel, noise and mean, two messages for each trial; without it Z, the
    kernel object, `noise` and `mean` are taken as they are, and one message is enough.
    """
    data = checked(parts, "gaussian")
    D = data[0].X.shape[1]
    Z = arrays.count_or_points(inducing, "inducing", D, None, "cpu")
    if learn:
        plan, sent, rounds = learn_plan(data, Z, kernel, noise, seed)
    elif isinstance(kernel, str) or noise is None or isinstance(Z, int):
        raise RecycleGPError("learn=False needs a plan: pass points, a GPyTorch kernel with its parameters, and noise=")
    else:
        noise = arrays.number(noise, "noise", positive=True)
        plan = Plan(from_gpytorch(kernel, D), Z, arrays.number(mean, "mean"), noise)
        sent, rounds = 0.0, 0
    _, posterior = one_round(plan, data)
    sent += sums_bytes(len(plan.Z))

    def latent(points: Tensor) -> tuple[Tensor, Tensor]:
        return posterior.to(points.device).predict(points)

    return Rival("SGPR by map-reduce", latent, (Gaussian(plan.noise),), Sent(sent), D, rounds + 1)


@torch.no_grad()
def one_round(plan: Plan, data: Sequence[Part]) -> tuple[float, Posterior]:
    """The bound, and the model at the optimal q."""
    base = basis(plan.kernel, plan.Z)
    mean, noise = (torch.tensor(t, dtype=torch.float64) for t in (plan.mean, plan.noise))
    found = solve(add([_sums(base, part, mean) for part in data]), noise)
    return float(found.bound), Posterior(base, mean, found.v, found.C)


def learn_plan(
    data: Sequence[Part], points: int | Tensor, kernel: KernelLike, noise: float | None, seed: int
) -> tuple[Plan, float, int]:
    """The plan that maximises the bound, the bytes it took from an owner, and rounds of messages."""
    space, starts = begin(data, kernel, noise)
    sent, rounds = float(units_bytes(data[0])), 1
    first = unpack(space, starts[0]).kernel
    proposals = points if isinstance(points, Tensor) else _propose(data, points, first, seed)
    if isinstance(points, int):
        sent, rounds = sent + NUMBER * proposals.numel() / len(data), rounds + 1
    Z = _choose(proposals, points, first)
    # Points depend on the kernel, which is learned with them: choose, learn, choose, learn, as `fit` does.
    for last in (False, True):
        best = optimiser.maximise_one(_objective(space, Z, data), starts, space.lower, space.upper)
        gradient = NUMBER * len(best.x)
        # each trial: the sums, and then the node's share of the gradient
        sent += best.evaluations * (sums_bytes(len(Z)) + gradient)
        rounds += 2 * best.evaluations
        h, starts = unpack(space, best.x), [best.x]
        if last or isinstance(points, Tensor):
            break
        Z = _choose(proposals, points, h.kernel)
    return Plan(h.kernel, Z, float(h.mean), float(gaussian_noise(h.likelihood))), sent, rounds


def sums_bytes(points: int) -> int:
    """A symmetric matrix, a vector and three numbers."""
    return NUMBER * (points * (points + 1) // 2 + points + 3)


def _objective(space: SearchSpace, Z: Tensor, data: Sequence[Part]) -> Callable[[Tensor], Tensor]:
    everybody = together(data)  # one machine plays all the nodes: sums of sums are sums

    def objective(phi: Tensor) -> Tensor:
        h = unpack(space, phi)
        total = _sums(basis(h.kernel, Z), everybody, h.mean)
        return solve(total, gaussian_noise(h.likelihood)).bound + log_prior(space, phi)

    return objective


def _sums(base: Basis, part: Part, mean: Tensor) -> Statistics:
    """A node's sums, in bounded memory. They are computed again for the gradient: a trial's second message."""
    pieces = zip(part.X.split(ROWS), part.y.split(ROWS), strict=True)
    return add([Statistics(*checkpoint(statistics, base, X, y, mean, use_reentrant=False)) for X, y in pieces])


def _propose(data: Sequence[Part], count: int, kernel: Kernel, seed: int) -> Tensor:
    """Each owner's share of candidates for Z: points over its region, none of them a row of its data."""
    share = math.ceil(PLACEMENT.candidates * count / len(data))
    rngs = [np.random.default_rng(placement.entropy(arrays.seed(seed), X, y)) for X, y in data]
    batched = kernel.with_theta(kernel.theta[None])
    found = [
        placement.candidates(X[None], [len(X)], share, batched, [rng]) for (X, _), rng in zip(data, rngs, strict=True)
    ]
    return torch.unique(torch.cat([some.points[some.present][:share] for some in found]), dim=0)


def _choose(proposals: Tensor, points: int | Tensor, kernel: Kernel) -> Tensor:
    """Z among the proposals, by the variance each leaves; `place` looks at the first few hundred, so they are mixed."""
    if isinstance(points, Tensor):
        return points
    rng = np.random.default_rng(0)
    mixed = proposals[torch.as_tensor(rng.permutation(len(proposals)))]
    batched = kernel.with_theta(kernel.theta.detach()[None])
    found = placement.Candidates(mixed[None], torch.ones(1, len(mixed), dtype=torch.bool))
    return placement.place(found, points, batched, [rng]).of(0)
