"""The one object that travels: a Gaussian pseudo-likelihood of f at a few points.

    t(u) = exp(e − ½‖Rᵀu − ρ‖²),  u = f(Z)  (values of f itself, prior mean included),  Λ = RRᵀ, λ = Rρ

It is kept as this square root. Storing moments (μ, S) and subtracting inverses afterwards,
Λ = S⁻¹ − K⁻¹, would cancel catastrophically.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels.units import InputUnits
from . import linalg
from .least_squares import CentredRows, compress
from .site import Site as Site

FLOOR = 1e-8  # least precision a site may add, in units of the prior's, per whitened direction


def from_rows(Z: Tensor, L: Tensor, rows: CentredRows, mean: Tensor | float) -> Site:
    """Rows about v → a site about u = m1 + Lv:  Rᵀ = TL⁻¹,  ρ = ρ̃ + m Rᵀ1."""
    small = compress(rows)
    Rt = linalg.solve_right(L, small.H)
    return Site(Z, Rt, small.rho + mean * Rt.sum(-1), small.e - small.slack)


class Converted(NamedTuple):
    """A site made of moments, and how many directions of their covariance were wider than the prior."""

    site: Site
    floored: int


def from_moments(
    Z: Tensor, L: Tensor, mean: Tensor | float, mu: Tensor, S: Tensor, reach: float = math.inf
) -> Converted:
    """q(u) = N(μ, S) fitted elsewhere under the prior N(m, LLᵀ) → the site."""
    S_w = linalg.solve_lower(L, linalg.solve_lower(L, S).mT)
    mu_w = linalg.solve_lower(L, (mu - mean)[:, None])[:, 0]
    return from_whitened(Z, L, mean, mu_w, S_w, reach)


def from_whitened(
    Z: Tensor, L: Tensor, mean: Tensor | float, mu_w: Tensor, S_w: Tensor, reach: float = math.inf
) -> Converted:
    """The same, where v = L⁻¹(u − m) has the moments (μ_w, S_w).

    S_w = L⁻¹SL⁻ᵀ = U diag(s) Uᵀ; where s > 1 the local fit had not converged, and its precision
    1/s − 1 is floored there with the mean kept. e is left at zero.

    A floored direction whose mean has moved by μ says "μ/p, with precision p". With a tiny p that is thousands of the
    prior's standard deviations away, and a kernel learned later would grow until it explained it. A finite `reach`
    raises p to (μ/reach)², but not beyond 1, so that it stays within √2 times so many.
    """
    s, U = torch.linalg.eigh(0.5 * (S_w + S_w.mT))
    s = s.clamp_min(torch.finfo(s.dtype).tiny)
    wide = s > 1 + 1e-6
    mu_s = U.mT @ mu_w
    precision = torch.maximum(1 / s - 1, torch.where(wide, (mu_s / reach).square().clamp(FLOOR, 1.0), FLOOR))
    T = precision.sqrt()[:, None] * U.mT
    # Tᵀρ̃ = S_w⁻¹μ_w, so that the posterior mean is kept
    rho = (precision + 1) / precision.sqrt() * mu_s
    Rt = linalg.solve_right(L, T)
    return Converted(Site(Z, Rt, rho + mean * Rt.sum(-1), rho.new_zeros(())), int(wide.sum()))


def to_rows(site: Site, L: Tensor, mean: Tensor | float) -> CentredRows:
    """The site seen from its own prior N(m, LLᵀ): H = RᵀL."""
    return CentredRows(site.Rt @ L, site.rho - mean * site.Rt.sum(-1), site.e, torch.zeros_like(site.e))


def weighted(site: Site, weight: Tensor) -> Site:
    """tʷ: √w R, √w ρ, w e; of one site, or of many stacked with a weight (K,) for each."""
    root = weight.sqrt()
    return Site(site.Z, root[..., None, None] * site.Rt, root[..., None] * site.rho, weight * site.e)


def in_units(site: Site, scale: float, shift: float, effective_rows: float) -> Site:
    """The same statement about u' = s·u + b, from n rows: R/s, ρ + b Rᵀ1/s, e − n log|s|."""
    Rt = site.Rt / scale
    e = site.e - effective_rows * site.e.new_tensor(abs(scale)).log()
    return Site(site.Z, Rt, site.rho + shift * Rt.sum(-1), e)


def moved(site: Site, inputs: InputUnits) -> Site:
    """The same statement about f((x − shift)/scale), whose points are scale∘Z + shift."""
    return site._replace(Z=inputs.of(site.Z))


def box(Z: Tensor) -> Tensor:
    """(2, D): the corners of the box around points."""
    return torch.stack([Z.amin(0), Z.amax(0)])
