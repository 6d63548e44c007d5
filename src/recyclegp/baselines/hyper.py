"""One set of hyperparameters for all owners, by an objective that is a sum over them.

Initial values, priors and bounds are those of `fit`, in units of all the data: their means and standard
deviations are a first, small, round of messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..core import linalg, optimiser
from ..kernels import Kernel, parse
from ..kernels.gpytorch_objects import from_gpytorch
from ..likelihoods import Gaussian, gaussian_noise
from ..local import samples, search_space
from ..local.options import KernelLike
from ..local.samples import Sample
from ..local.search_space import Hyperparameters, SearchSpace
from ..models.module import Module
from .rival import NUMBER, Part, together

COVARIANCES = 2**22  # numbers in the kernel matrices worked on at once


class Prior(NamedTuple):
    """GP(mean, kernel) for f, and the noise variance of y."""

    kernel: Kernel
    mean: float
    noise: float

    @classmethod
    def of(cls, module: Module) -> Prior:
        return cls(module.kernel_spec, module.mean, module.likelihoods[0].parameters[0])


def begin(parts: Sequence[Part], kernel: KernelLike, noise: float | None = None) -> tuple[SearchSpace, list[Tensor]]:
    """The space to search, of one model, and where in it searches may begin.

    For Gaussian data, in units of everybody's rows together; the centre of a linear kernel is their mean.
    """
    X, y = together(parts)
    named = isinstance(kernel, str)
    first = parse(kernel, X.shape[1]) if named else from_gpytorch(kernel, X.shape[1])
    likelihood = Gaussian()
    data = samples.side_by_side([Sample(X, y, None)], X.device)
    space = search_space.search_space(
        first.structure,
        likelihood,
        samples.scales(data, likelihood),
        data.rows,
        theta=None if named else first.theta.to(X),
        noise=None if noise is None else y.new_tensor([noise]),
    )
    starts = search_space.starts(space) if named else [space.given]
    return space, [start[0] for start in starts]


def unpack(space: SearchSpace, phi: Tensor) -> Hyperparameters:
    """The one model of a space."""
    return space.unpack(phi[None], torch.zeros(1, dtype=torch.long, device=phi.device)).select(0)


def log_prior(space: SearchSpace, phi: Tensor) -> Tensor:
    """Of the one model of a space."""
    return space.log_prior(phi[None], torch.zeros(1, dtype=torch.long, device=phi.device))[0]


def units_bytes(part: Part) -> int:
    """What that round takes: a count, and sums of every column and its square."""
    return NUMBER * (1 + 2 * (part.X.shape[1] + 1))


def shared_prior(parts: Sequence[Part], kernel: KernelLike) -> tuple[Prior, int]:
    """θ, noise and mean that maximise Σ_k log p(y_k | X_k), and how many trials it took."""
    space, starts = begin(parts, kernel)
    batches = list(_batches(parts))

    def objective(phi: Tensor) -> Tensor:
        h = unpack(space, phi)
        noise, total = gaussian_noise(h.likelihood), log_prior(space, phi)
        for X, y in batches:
            # recomputed on the way back: memory for one batch, not for all owners'
            total = total + checkpoint(_evidence, h.kernel, X, y - h.mean, noise, use_reentrant=False)
        return total

    best = optimiser.maximise_one(objective, starts, space.lower, space.upper)
    h = unpack(space, best.x)
    return Prior(h.kernel, float(h.mean), float(gaussian_noise(h.likelihood))), best.evaluations


def _batches(parts: Sequence[Part]) -> list[tuple[Tensor, Tensor]]:
    """Owners with equally many rows, stacked: (B, n, D) and (B, n)."""
    by_size: dict[int, list[Part]] = {}
    for part in parts:
        by_size.setdefault(len(part.y), []).append(part)
    found = []
    for n, group in by_size.items():
        step = max(1, COVARIANCES // n**2)
        for some in (group[i : i + step] for i in range(0, len(group), step)):
            found.append((torch.stack([p.X for p in some]), torch.stack([p.y for p in some])))
    return found


def _evidence(kernel: Kernel, X: Tensor, residual: Tensor, noise: Tensor) -> Tensor:
    """Σ_k log N(y_k; m1, K_k + σ²I) over a batch of owners."""
    identity = torch.eye(X.shape[-2], dtype=X.dtype, device=X.device)
    L = linalg.cholesky(kernel.matrix(X, X) + noise * identity).L
    z = linalg.solve_lower(L, residual[..., None])
    return -0.5 * (z.square().sum() + residual.numel() * math.log(2 * math.pi)) - linalg.logdet(L).sum()
