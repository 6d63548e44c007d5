"""An answer to an earlier plan, as sums at the present one: for an owner who has missed a round.

What it said of f at the old points is taken as observations of f there: nothing else is known of its rows. It is exact
where the old points can express what the owner knows, under the old kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import linalg
from ..core.packing import shared_points
from ..core.posterior import basis, features
from .prior import Prior
from .slopes import inner
from .sums import Sums, triangle


def restated(old: Sums, before: Prior, now: Prior, x: Tensor | None = None) -> Sums:
    """Sums at the points and parameters of `now`; differentiable in these, where x is given.

    G = HᵀH, b = Hᵀρ and h = Hᵀη say what the rows, and a constant, are seen as at the old points; c, a and o stay.
    """
    with torch.no_grad():
        old = old.shifted(now.mean - before.mean)
        values, U = torch.linalg.eigh(old.matrix())
        kept = values > torch.finfo(values.dtype).eps * values.max()
        root, U = values[kept].sqrt(), U[:, kept]
        rho, eta = (U.mT @ t / root for t in (old.b, old.h))
        Rt = linalg.solve_right(before.basis().L, root[:, None] * U.mT)  # Rᵀ(f(Z) − m) ≈ ρ with noise s
    kernel = now.kernel if x is None else now.kernel_at(x)
    V = features(basis(kernel, now.Z, now.jitter), before.Z, shared_points(now.Z, before.Z))
    H = Rt @ V.mT
    K = kernel.matrix(before.Z, before.Z)
    left = ((Rt @ K) * Rt).sum() + before.jitter * Rt.square().sum() - H.square().sum()
    return old._replace(G=triangle(H.mT @ H), b=H.mT @ rho, h=H.mT @ eta, t=old.t + left.clamp_min(0))


def expressed(old: Sums, before: Prior, now: Prior) -> Sums:
    """Sums at `now`: exactly, where only noise and mean have changed."""
    return old.shifted(now.mean - before.mean) if same_coordinates(before, now) else restated(old, before, now)


def same_coordinates(a: Prior, b: Prior) -> bool:
    """Are sums the same under both, but for the mean?"""
    ratios = [(p.effects.offset / p.noise, p.effects.smooth / p.noise) for p in (a, b)]
    near = all(abs(x - y) <= 1e-9 * abs(x) for x, y in zip(*ratios, strict=True))
    near = near and a.effects.stretch == b.effects.stretch
    return near and a.kernel == b.kernel and a.jitter == b.jitter and torch.equal(a.Z, b.Z)


def share(old: Sums, before: Prior, now: Prior, by_sums: Sums) -> Tensor:
    """Its part of the gradient: with nobody to ask, from what it said before."""
    with torch.enable_grad():
        x = now.x.requires_grad_()
        (found,) = torch.autograd.grad(inner(by_sums, restated(old, before, now, x)), x, allow_unused=True)
    return torch.zeros_like(x) if found is None else found.detach()
