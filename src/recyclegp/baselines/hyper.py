"""One set of hyperparameters for all owners, by an objective that is a sum over them.

Initial values, priors and bounds are those of `fit`, in units of all the data: their means and standard
deviations are a first, small, round of messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .. import kernels, learn, linalg, optimise
from ..kernels import Kernel
from ..learn import Hyper, Space
from .rival import NUMBER, Part, together

BATCH = 2**22  # numbers in the kernel matrices worked on at once


class Shared(NamedTuple):
    kernel: Kernel
    mean: float
    noise: float
    evaluations: int


def begin(parts: Sequence[Part], kernel: Any, noise: float | None = None) -> tuple[Kernel, Space, list[Tensor]]:
    """The kernel's structure, the space to search for Gaussian data, and where to begin."""
    X, y = together(parts)
    named = isinstance(kernel, str)
    spec = kernels.parse(kernel, X.shape[1], X.mean(0).tolist()) if named else kernels.from_gpytorch(kernel, X.shape[1])
    theta = None if named else spec.tensor(X)
    data = learn.side_by_side([(X, y)])
    fixed = None if noise is None else y.new_tensor([noise])
    space = learn.space(spec.tree, "gaussian", learn.scales(data, "gaussian"), theta=theta, noise=fixed, mean=None)
    starts = learn.starts(space, data.w.sum(-1), X.shape[1]) if named else [space.given]
    return spec, space, [start[0] for start in starts]


def unpack(space: Space, phi: Tensor) -> Hyper:
    """The one lane of a space."""
    theta, log_p, mean = space.unpack(phi[None], torch.zeros(1, dtype=torch.long, device=phi.device))
    return Hyper(theta[0], log_p[0], mean[0])


def units_bytes(part: Part) -> int:
    """What that round takes: a count, and sums of every column and its square."""
    return NUMBER * (1 + 2 * (part.X.shape[1] + 1))


def shared_prior(parts: Sequence[Part], kernel: Any) -> Shared:
    """θ, noise and mean that maximise Σ_k log p(y_k | X_k)."""
    spec, space, starts = begin(parts, kernel)
    batches = list(_batches(parts))

    def objective(phi: Tensor) -> Tensor:
        h = unpack(space, phi)
        total = space.log_prior(phi)
        for X, y in batches:
            # recomputed on the way back: memory for one batch, not for all owners'
            total = total + checkpoint(_evidence, spec.tree, h.theta, X, y - h.mean, h.log_p[0], use_reentrant=False)
        return total

    best = optimise.maximise_one(objective, starts, space.lower, space.upper)
    h = unpack(space, best.x)
    return Shared(spec.replace(h.theta), float(h.mean), float(h.log_p[0].exp()), best.evaluations)


def _batches(parts: Sequence[Part]) -> list[tuple[Tensor, Tensor]]:
    """Owners with equally many rows, stacked: (B, n, D) and (B, n)."""
    by_size: dict[int, list[Part]] = {}
    for part in parts:
        by_size.setdefault(len(part.y), []).append(part)
    found = []
    for n, group in by_size.items():
        step = max(1, BATCH // n**2)
        for some in (group[i : i + step] for i in range(0, len(group), step)):
            found.append((torch.stack([p.X for p in some]), torch.stack([p.y for p in some])))
    return found


def _evidence(tree: str, theta: Tensor, X: Tensor, residual: Tensor, log_noise: Tensor) -> Tensor:
    """Σ_k log N(y_k; m1, K_k + σ²I) over a batch of owners."""
    identity = torch.eye(X.shape[-2], dtype=X.dtype, device=X.device)
    L = linalg.cholesky(kernels.matrix(tree, theta, X, X) + log_noise.exp() * identity).L
    z = linalg.solve_lower(L, residual[..., None])
    return -0.5 * (z.square().sum() + residual.numel() * math.log(2 * math.pi)) - linalg.logdet(L).sum()
