"""How the sums change with the plan: exact, from the rows of one owner.

Two ways. Where the coordinator's derivative of the bound by the sums is known (`bound.adjoint`), an owner sends the
product of that with the derivative of its sums: one number for each parameter. Or it sends the derivative of its sums
itself, as many times M²/2 numbers as there are parameters, and one exchange is saved.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.posterior import Basis, basis
from .prior import Prior
from .sums import PlanRows, Sums, add, of_rows


def share(prior: Prior, rows: PlanRows, by_sums: Sums) -> Tensor:
    """(p,)  one owner's part of ∂F/∂x, which is Σ_j ∂F/∂S_j · ∂S_j/∂x."""
    with torch.enable_grad():
        x = prior.x.requires_grad_()
        whole = basis(prior.kernel_at(x), prior.Z, prior.jitter)
        # L is differentiated once, for all chunks of rows together
        L = whole.L.detach().requires_grad_()
        by_x, by_L = torch.zeros_like(x), torch.zeros_like(L)
        for part in rows.chunks(len(prior.Z), prior.effects.present):
            base = Basis(prior.kernel_at(x), prior.Z, L, whole.jitter)
            found = of_rows(base, part, prior.mean, prior.noise, prior.effects_at(x))
            value = inner(by_sums, found)
            more = torch.autograd.grad(value, (x, L))
            by_x, by_L = by_x + more[0], by_L + more[1]
        (through_L,) = torch.autograd.grad(whole.L, x, by_L)
    return (by_x + through_L).detach()


def derivatives(prior: Prior, rows: PlanRows) -> list[Sums]:
    """∂S/∂x_j for every parameter: ∂/∂u of the j-th entry of ∂(uᵀS)/∂x, which is linear in u."""
    # with points that could move, kernels use formulas that can be differentiated more than once
    Z, X = (t.detach().clone().requires_grad_() for t in (prior.Z, rows.X))
    chunks = rows._replace(X=X).chunks(len(Z), prior.effects.present)
    each = [_derivatives(prior, Z, part) for part in chunks]
    return [add(parts) for parts in zip(*each, strict=True)]


def _derivatives(prior: Prior, Z: Tensor, part: PlanRows) -> list[Sums]:
    with torch.enable_grad():
        x = prior.x.requires_grad_()
        base = basis(prior.kernel_at(x), Z, prior.jitter)
        found = of_rows(base, part, prior.mean, prior.noise, prior.effects_at(x))
        u = Sums(*(torch.zeros_like(t).requires_grad_() for t in found))
        (by_x,) = torch.autograd.grad(inner(u, found), x, create_graph=True)
        slopes = [torch.autograd.grad(own, u, retain_graph=True, allow_unused=True) for own in by_x]
    return [
        Sums(*(torch.zeros_like(t) if g is None else g.detach() for t, g in zip(u, own, strict=True))) for own in slopes
    ]


def inner(a: Sums, b: Sums) -> Tensor:
    """Σ_j a_j·b_j over all numbers of two sums."""
    return torch.stack([(s * t).sum() for s, t in zip(a, b, strict=True)]).sum()
