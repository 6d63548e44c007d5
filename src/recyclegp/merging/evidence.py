"""The block-marginal evidence of all sites, with its exact gradient, chunk by chunk, wherever they are.

The evidence is E(θ) = max_{v, m} Σ_k e_k − ½(‖Hv + m·1 − ρ‖² + ‖v‖²) − ½logdet(I + HᵀH), and only H, ρ, 1, e
depend on θ, each chunk of rows through its own sites. One pass without gradients finds P = HᵀH and with
it v̂ and m̂. As these maximise E they need not be differentiated, and d½logdet(I+P) = ½tr((I+P)⁻¹dP):
a second pass takes each chunk's share of the gradient with (v̂, m̂, P) held fixed, and frees its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.effects import NO_EFFECTS, Effects
from ..core.least_squares import jensen_slack
from ..core.packing import PackedSites, project, shared_points
from ..core.posterior import Basis, SharedPoints, basis
from ..kernels import Kernel
from .site_source import SiteSource, added

Shared = dict[tuple[int, int], SharedPoints]  # by the first member of a pack, and how many it has


def evidence(
    kernel: Kernel,
    Z: Tensor,
    store: SiteSource,
    price: Callable[[Tensor], Tensor],
    about: float,
    effects: Effects = NO_EFFECTS,
    shared: Shared | None = None,
) -> Tensor:
    """E(θ) − price(slack) at the points Z, differentiable in θ, Z and effects; `about` is a first guess of the mean.

    `shared` remembers from one θ to the next which points of sites are points of Z.
    """
    base = basis(kernel, Z, effects=effects)
    fixed = _detached(base)
    best = _maximiser(fixed, store, about, shared)
    with torch.enable_grad():
        slack = best.slack.detach().requires_grad_()
        cost = price(slack)
        (rate,) = torch.autograd.grad(cost, slack)
    may_vary = {"Z": Z, "offset": effects.offset, "smooth": effects.smooth}  # those that may be fixed
    inputs = {"theta": kernel.theta, "L": base.L, "jitter": base.jitter}
    inputs |= {name: t for name, t in may_vary.items() if isinstance(t, Tensor) and t.requires_grad}
    part = partial(_slope, base=fixed, best=best, rate=rate, sought=tuple(inputs), shared=shared)
    found = store.reduce(part, _both_slopes, len(Z), "evidence-gradient")
    value = found.value - 0.5 * best.v.square().sum() - linalg.logdet(best.C)
    # the chain's last step, (θ, Z) → L, ε, once: a function of both with the value and the gradient collected above
    change = torch.stack([(a * t).sum() for a, t in zip(found.adjoints, inputs.values(), strict=True)]).sum()
    return value - cost.detach() + (change - change.detach())


def profiled_mean(kernel: Kernel, Z: Tensor, store: SiteSource, about: float, effects: Effects = NO_EFFECTS) -> float:
    """m̂, the constant mean that maximises E(θ)."""
    return float(_maximiser(_detached(basis(kernel, Z, effects=effects)), store, about).mean)


def _shared(base: Basis, packed: PackedSites, known: Shared | None) -> SharedPoints | None:
    """Which points of these sites are points of the basis, if that is remembered."""
    if known is None:
        return None
    which = packed.members[0], len(packed.members)  # no two packs of a store have members in common
    if which not in known:
        known[which] = shared_points(base.Z, packed.Z.flatten(0, 1))
    return known[which]


class _Best(NamedTuple):
    """v̂ and m̂ at one θ, CCᵀ = I + P, and the slack."""

    v: Tensor
    mean: Tensor
    C: Tensor
    slack: Tensor


class _Sums(NamedTuple):
    """Over rows: P = HᵀH, Hᵀ[ρ, z], zᵀz, zᵀρ, and the slack of their sites."""

    P: Tensor
    g: Tensor  # (M, 2)
    zz: Tensor
    z_rho: Tensor
    slack: Tensor


@torch.no_grad()
def _sums(packs: Iterator[PackedSites], *, base: Basis, w: Tensor, about: float, shared: Shared | None = None) -> _Sums:
    M = len(base.Z)
    P, g, slack = torch.zeros_like(base.L), base.L.new_zeros(M, 2), base.L.new_zeros(())
    zz, z_rho = base.L.new_zeros(()), base.L.new_zeros(())
    for packed in packs:
        p = project(base, packed, shared=_shared(base, packed, shared))
        slack += jensen_slack(p.H, p.RKR)
        rows = p.rows(marginal=True)
        z, rho = rows.ones - rows.H @ w, rows.rho - about * rows.ones
        P += rows.H.mT @ rows.H
        g += rows.H.mT @ torch.stack([rho, z], dim=1)
        zz, z_rho = zz + z @ z, z_rho + z @ rho
    return _Sums(P, g, zz, z_rho, slack)


@torch.no_grad()
def _maximiser(base: Basis, store: SiteSource, about: float, shared: Shared | None = None) -> _Best:
    """The maximiser from sums over all rows: P = HᵀH, and H against ρ and the constant function.

    On the basis the constant function is w = L⁻¹1, so 1 = Hw + z with a small rest z. Sums over z keep
    the digits that 1ᵀ1 − 1ᵀH(I+P)⁻¹Hᵀ1 would lose where the basis expresses constants well.
    """
    M = len(base.Z)
    w = linalg.solve_lower(base.L, torch.ones_like(base.L[:, :1]))[:, 0]
    part = partial(_sums, base=base, w=w, about=about, shared=shared)
    P, g, zz, z_rho, slack = store.reduce(part, added, M, "evidence")
    C = linalg.cholesky(torch.eye(M, dtype=P.dtype, device=P.device) + P).L
    # regress 1 on H: best = (I+P)⁻¹Hᵀ1 = w − d, and what is left of it is 1 − H best = z + Hd
    d = torch.cholesky_solve((w - g[:, 1])[:, None], C)[:, 0]
    left = zz + 2 * (d @ g[:, 1]) + d @ P @ d
    information = left + (w - d).square().sum()
    step = (z_rho + d @ g[:, 0]) / information.clamp_min(1e-300)
    # v̂ = (I+P)⁻¹Hᵀ(ρ − m̂·1), m̂ one step from the guess
    v = torch.cholesky_solve(g[:, :1], C)[:, 0] - step * (w - d)
    return _Best(v, about + step, C, slack)


class _Slope(NamedTuple):
    """What some sites contribute to the value, and to its gradient by each of the sought tensors."""

    value: Tensor
    adjoints: tuple[Tensor, ...]


def _slope(
    packs: Iterator[PackedSites],
    *,
    base: Basis,
    best: _Best,
    rate: Tensor,
    sought: tuple[str, ...],
    shared: Shared | None = None,
) -> _Slope:
    """At fixed v̂, m̂ and P, chunk by chunk, each of which frees its graph; slack is bought at `rate`."""
    effects = base.effects
    values: dict[str, Any] = {"theta": base.kernel.theta, "L": base.L, "jitter": base.jitter, "Z": base.Z}
    values |= {"offset": effects.offset, "smooth": effects.smooth}
    with torch.enable_grad():
        leaf = {name: values[name].detach().requires_grad_() for name in sought}
        at = base._replace(
            kernel=base.kernel.with_theta(leaf["theta"]),
            L=leaf["L"],
            jitter=leaf["jitter"],
            Z=leaf.get("Z", base.Z),
            effects=replace(
                effects, offset=leaf.get("offset", effects.offset), smooth=leaf.get("smooth", effects.smooth)
            ),
        )
        leaves = list(leaf.values())
        value, adjoints = base.L.new_zeros(()), [torch.zeros_like(t) for t in leaves]
        for packed in packs:
            p = project(at, packed, shared=_shared(base, packed, shared))
            rows = p.rows(marginal=True)
            residual = rows.H @ best.v + best.mean * rows.ones - rows.rho
            own = rows.e - 0.5 * residual.square().sum()
            spread = linalg.solve_lower(best.C, rows.H.mT).square().sum()  # tr(H(I+P)⁻¹Hᵀ)
            surrogate = own - 0.5 * spread - rate * jensen_slack(p.H, p.RKR)
            value = value + own.detach()
            for total, part in zip(adjoints, torch.autograd.grad(surrogate, leaves), strict=True):
                total += part
    return _Slope(value, tuple(adjoints))


def _both_slopes(a: _Slope, b: _Slope) -> _Slope:
    return _Slope(a.value + b.value, tuple(x + y for x, y in zip(a.adjoints, b.adjoints, strict=True)))


def _detached(base: Basis) -> Basis:
    """The same outside every derivative, so that it can travel."""
    offset, smooth = (v.detach() if isinstance(v, Tensor) else v for v in (base.effects.offset, base.effects.smooth))
    return base.map(torch.Tensor.detach)._replace(effects=replace(base.effects, offset=offset, smooth=smooth))
