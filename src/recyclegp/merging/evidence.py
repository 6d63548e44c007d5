"""The block-marginal evidence of all sites in a store, with its exact gradient, chunk by chunk.

The evidence is E(θ) = max_{v, m} Σ_k e_k − ½(‖Hv + m·1 − ρ‖² + ‖v‖²) − ½logdet(I + HᵀH), and only H, ρ, 1, e
depend on θ, each chunk of rows through its own sites. One pass without gradients finds P = HᵀH and with
it v̂ and m̂. As these maximise E they need not be differentiated, and d½logdet(I+P) = ½tr((I+P)⁻¹dP):
a second pass takes each chunk's share of the gradient with (v̂, m̂, P) held fixed, and forgets its graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.effects import NO_EFFECTS, Effects
from ..core.least_squares import jensen_slack
from ..core.packing import PackedSites, project
from ..core.posterior import Basis, basis
from ..kernels import Kernel
from .site_store import SiteStore


def evidence(
    kernel: Kernel,
    Z: Tensor,
    store: SiteStore,
    price: Callable[[Tensor], Tensor],
    about: float,
    effects: Effects = NO_EFFECTS,
) -> Tensor:
    """E(θ) − price(slack) at the points Z, differentiable in θ, Z and effects; `about` is a first guess of the mean."""
    base = basis(kernel, Z, effects=effects)
    best = _maximiser(base, store, about)
    value = -0.5 * best.v.square().sum() - linalg.logdet(best.C)
    with torch.enable_grad():
        slack = best.slack.requires_grad_()
        cost = price(slack)
        (rate,) = torch.autograd.grad(cost, slack)
        sought = {"Z": Z, "offset": effects.offset, "smooth": effects.smooth}  # those that may be fixed
        inputs = {"theta": kernel.theta, "L": base.L}
        inputs |= {name: t for name, t in sought.items() if isinstance(t, Tensor) and t.requires_grad}
        leaf = {name: t.detach().requires_grad_() for name, t in inputs.items()}
        at = base._replace(
            kernel=kernel.with_theta(leaf["theta"]),
            L=leaf["L"],
            Z=leaf.get("Z", Z),
            effects=Effects(leaf.get("offset", effects.offset), leaf.get("smooth", effects.smooth)),
        )
        leaves = list(leaf.values())
        adjoints = [torch.zeros_like(t) for t in leaves]
        for packed in store.packs(len(Z)):
            share = _share(at, packed, best)
            surrogate = share.value - 0.5 * share.spread - rate * share.slack
            value = value + share.value.detach()
            for total, part in zip(adjoints, torch.autograd.grad(surrogate, leaves), strict=True):
                total += part
    # the chain's last step, (θ, Z) → L, once: a function of both with the value and the gradient collected above
    change = torch.stack([(a * t).sum() for a, t in zip(adjoints, inputs.values(), strict=True)]).sum()
    return value - cost.detach() + (change - change.detach())


def profiled_mean(kernel: Kernel, Z: Tensor, store: SiteStore, about: float, effects: Effects = NO_EFFECTS) -> float:
    """m̂, the constant mean that maximises E(θ)."""
    return _maximiser(basis(kernel, Z, effects=effects), store, about).mean


class _Best(NamedTuple):
    """v̂ and m̂ at one θ, CCᵀ = I + P, and the slack."""

    v: Tensor
    mean: float
    C: Tensor
    slack: Tensor


@torch.no_grad()
def _maximiser(base: Basis, store: SiteStore, about: float) -> _Best:
    """The maximiser from sums over all rows: P = HᵀH, and H against ρ and the constant function.

    On the basis the constant function is w = L⁻¹1, so 1 = Hw + z with a small rest z. Sums over z keep
    the digits that 1ᵀ1 − 1ᵀH(I+P)⁻¹Hᵀ1 would lose where the basis expresses constants well.
    """
    M = len(base.Z)
    w = linalg.solve_lower(base.L, torch.ones_like(base.L[:, :1]))[:, 0]
    P, g, slack = torch.zeros_like(base.L), base.L.new_zeros(M, 2), base.L.new_zeros(())
    zz, z_rho = base.L.new_zeros(()), base.L.new_zeros(())
    for packed in store.packs(M):
        p = project(base, packed)
        slack += jensen_slack(p.H, p.RKR)
        rows = p.rows(marginal=True)
        z, rho = rows.ones - rows.H @ w, rows.rho - about * rows.ones
        P += rows.H.mT @ rows.H
        g += rows.H.mT @ torch.stack([rho, z], dim=1)
        zz, z_rho = zz + z @ z, z_rho + z @ rho
    C = linalg.cholesky(torch.eye(M, dtype=P.dtype, device=P.device) + P).L
    # regress 1 on H: best = (I+P)⁻¹Hᵀ1 = w − d, and what is left of it is 1 − H best = z + Hd
    d = torch.cholesky_solve((w - g[:, 1])[:, None], C)[:, 0]
    left = zz + 2 * (d @ g[:, 1]) + d @ P @ d
    information = left + (w - d).square().sum()
    step = (z_rho + d @ g[:, 0]) / information.clamp_min(1e-300)
    # v̂ = (I+P)⁻¹Hᵀ(ρ − m̂·1), m̂ one step from the guess
    v = torch.cholesky_solve(g[:, :1], C)[:, 0] - step * (w - d)
    return _Best(v, about + float(step), C, slack)


class _Share(NamedTuple):
    """What one chunk contributes at fixed v̂, m̂ and P."""

    value: Tensor  # e − ½‖Hv̂ + m̂·1 − ρ‖²
    spread: Tensor  # tr(H(I+P)⁻¹Hᵀ)
    slack: Tensor


def _share(base: Basis, packed: PackedSites, best: _Best) -> _Share:
    p = project(base, packed)
    rows = p.rows(marginal=True)
    misfit = rows.H @ best.v + best.mean * rows.ones - rows.rho
    spread = linalg.solve_lower(best.C, rows.H.mT).square().sum()
    return _Share(rows.e - 0.5 * misfit.square().sum(), spread, jensen_slack(p.H, p.RKR))
