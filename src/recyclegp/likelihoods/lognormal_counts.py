"""Counts Y ~ Poisson(eᶠ) with f ~ N(m, v): distribution function, and what CRPS is made of."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SPACING = 0.25  # of sums, in standard deviations of what is summed over: enough for functions no narrower than it
SMALL = 32  # counts below it are summed one by one
NODES = 96  # at which sums over all others are evaluated
REACH = 9.0  # standard deviations of log Y that these span
VALUES = 2**22  # of an integrand, held at once


def up_to(k: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """P(Y ≤ k), for whole k or any number between them; all three of one shape.

    Y ≤ k where a Gamma(k+1) variable G is above eᶠ. One of f and log G is integrated over, the other's distribution
    is known: over f where it is the narrower of the two, else over log G.
    """
    whole = [t.flatten() for t in torch.broadcast_tensors(k, m, v)]
    over_f = whole[2] * (whole[0] + 1) <= 1  # log G has a standard deviation of about 1/√(k+1)
    found = torch.zeros_like(whole[0])
    for chosen, integrate in ((over_f, _over_f), (~over_f, _over_log_gamma)):
        index = (chosen & (whole[0] >= 0)).nonzero()[:, 0]
        for some in index.split(VALUES // 256):
            found = found.index_put((some,), integrate(*(t[some, None] for t in whole)))
    return found.reshape(torch.broadcast_shapes(k.shape, m.shape, v.shape))


def crps(y: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """E|Y − y| − ½E|Y − Y'|, each (n,)."""
    rate = (m + 0.5 * v).exp()
    # E|Y − y| = E[Y] − y + 2E[(y − Y)⁺], and E[Y; Y ≤ y] = E[Y]·P(Y ≤ y−1) under f ~ N(m + v, v)
    distance = rate - y + 2 * (y * up_to(y, m, v) - rate * up_to(y - 1, m + v, v))
    parts = [_half_distance(m_[:, None], v_[:, None]) for m_, v_ in zip(m.split(4096), v.split(4096), strict=True)]
    return distance - torch.cat(parts)


def _half_distance(m: Tensor, v: Tensor) -> Tensor:
    """½E|Y − Y'| = Σ_k F(k)(1 − F(k)): small counts one by one, the rest as an integral over log k."""
    sd = (v + (-m).exp()).sqrt()  # of log Y, about
    first = torch.full_like(m, SMALL - 0.5).log()
    low, high = torch.maximum(first, m - REACH * sd), torch.maximum(first, m + REACH * sd)
    x, w = (torch.as_tensor(t, dtype=m.dtype, device=m.device) for t in np.polynomial.legendre.leggauss(NODES))
    large = (0.5 * (low + high) + 0.5 * (high - low) * x).exp()
    small = torch.arange(SMALL, dtype=m.dtype, device=m.device).expand(len(m), -1)
    width = torch.cat([torch.ones_like(small), 0.5 * (high - low) * w * large], 1)
    F = up_to(torch.cat([small, large], 1), m, v)
    return (F * (1 - F) * width).sum(-1)


def _over_f(k: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """E[Q(k+1, eᶠ)], with Q the regularised upper incomplete gamma function."""
    z = torch.arange(-9.0, 9.0 + SPACING, SPACING, dtype=m.dtype, device=m.device)
    rate = (m + v.sqrt() * z).exp()
    weight = torch.softmax(-0.5 * z.square(), 0)
    return (torch.special.gammaincc((k + 1).expand_as(rate), rate) * weight).sum(-1)


def _over_log_gamma(k: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """E[Φ((log G − m)/√v)]: the density of τ = log(G/a), a = k+1, is proportional to exp(a(τ − exp τ))."""
    a = k + 1
    # a tail to the left, long where a is small
    x = torch.arange(-40.0, 9.0 + SPACING, SPACING, dtype=m.dtype, device=m.device)
    tau = x / a.sqrt()
    weight = torch.softmax(a * (tau - tau.expm1()), -1)
    return (torch.special.ndtr((a.log() + tau - m) / v.sqrt()) * weight).sum(-1)
