"""Counts Y with mean eᶠ, f ~ N(m, v): distribution function, and what CRPS is made of.

Y ~ Poisson(eᶠ), or with a dispersion r Poisson(γeᶠ/r) with γ ~ Gamma(r): a negative binomial.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .. import arrays

LARGEST_LOG = math.log(arrays.LARGEST)
SPACING = 0.25  # of sums, in standard deviations of what is summed over: enough for functions no narrower than it
SMALL = 32  # counts below it are summed one by one
NODES = 96  # at which sums over all others are evaluated
REACH = 9.0  # standard deviations of log Y that these span
RATIO_NODES = 641  # of sums over log G/γ,
RATIO_REACH = 8.0  # from −sinh to sinh of it, in standard deviations about its mode
VALUES = 2**22  # of an integrand, held at once


def expected_rate(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """E[eᶠ], and the variance of f for what else is made of it: both up to what does not overflow."""
    # E[eᶠ] = exp(m + v/2)
    return (mean + variance / 2).clamp_max(LARGEST_LOG).exp(), variance.clamp_max(LARGEST_LOG)


def up_to(k: Tensor, m: Tensor, v: Tensor, r: Tensor | None = None) -> Tensor:
    """P(Y ≤ k), for whole k or any number between them; all of one shape.

    Y ≤ k where a Gamma(k+1) variable G is above the rate. One of f and log G (or log G/γ) is integrated over, the
    other's distribution is known: over f where it is the narrower of the two.
    """
    whole = [t.flatten() for t in torch.broadcast_tensors(k, m, v, *([] if r is None else [r]))]
    # log G has a variance of about 1/(k+1), log γ one of about 1/r
    spread = 1 / (whole[0] + 1) + (0.0 if r is None else 1 / whole[3])
    over_f = whole[2] <= spread
    found = torch.zeros_like(whole[0])
    for chosen, integrate in ((over_f, _over_f), (~over_f, _over_log_gamma if r is None else _over_log_ratio)):
        index = (chosen & (whole[0] >= 0)).nonzero()[:, 0]
        for some in index.split(VALUES // 1024):
            found = found.index_put((some,), integrate(*(t[some, None] for t in whole)))
    return found.reshape(np.broadcast_shapes(k.shape, m.shape, v.shape))


def crps(y: Tensor, m: Tensor, v: Tensor, r: Tensor | None = None) -> Tensor:
    """E|Y − y| − ½E|Y − Y'|, each (n,)."""
    rate = (m + 0.5 * v).exp()
    # E|Y − y| = E[Y] − y + 2E[(y − Y)⁺], and E[Y; Y ≤ y] = E[Y]·P(Y ≤ y−1) under f ~ N(m + v, v), where r is one more
    # and the mean larger by (r+1)/r: k·p(k) = μ·p(k−1) at these
    more = () if r is None else (r + 1,)
    f = m + v + (0.0 if r is None else (1 / r).log1p())
    distance = rate - y + 2 * (y * up_to(y, m, v, r) - rate * up_to(y - 1, f, v, *more))
    columns = [m, v] if r is None else [m, v, r.expand_as(m)]
    parts = [
        _half_distance(*(t[:, None] for t in part)) for part in zip(*(c.split(4096) for c in columns), strict=True)
    ]
    return distance - torch.cat(parts)


def _half_distance(m: Tensor, v: Tensor, r: Tensor | None = None) -> Tensor:
    """½E|Y − Y'| = Σ_k F(k)(1 − F(k)): small counts one by one, the rest as an integral over log k."""
    sd = (v + (-m).exp() + (0.0 if r is None else 1 / r)).sqrt()  # of log Y, about
    first = torch.full_like(m, SMALL - 0.5).log()
    low, high = torch.maximum(first, m - REACH * sd), torch.maximum(first, m + REACH * sd)
    x, w = (torch.as_tensor(t, dtype=m.dtype, device=m.device) for t in np.polynomial.legendre.leggauss(NODES))
    large = (0.5 * (low + high) + 0.5 * (high - low) * x).exp()
    small = torch.arange(SMALL, dtype=m.dtype, device=m.device).expand(len(m), -1)
    width = torch.cat([torch.ones_like(small), 0.5 * (high - low) * w * large], 1)
    F = up_to(torch.cat([small, large], 1), m, v, r)
    return (F * (1 - F) * width).sum(-1)


def _over_f(k: Tensor, m: Tensor, v: Tensor, r: Tensor | None = None) -> Tensor:
    """E[P(Y ≤ k | f)]: Q(k+1, eᶠ), the upper incomplete gamma function, or I(r, k+1) of beta at r/(r + eᶠ)."""
    z = torch.arange(-9.0, 9.0 + SPACING, SPACING, dtype=m.dtype, device=m.device)
    f = m + v.sqrt() * z
    weight = torch.softmax(-0.5 * z.square(), 0)
    if r is None:
        known = torch.special.gammaincc((k + 1).expand_as(f), f.exp())
    else:
        from scipy.special import betainc

        at = torch.sigmoid(r.log() - f)
        known = torch.as_tensor(betainc(*(t.detach().cpu().numpy() for t in (r, k + 1, at))), device=m.device)
    return (known * weight).sum(-1)


def _over_log_gamma(k: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """E[Φ((log G − m)/√v)]: the density of τ = log(G/a), a = k+1, is proportional to exp(a(τ − exp τ))."""
    a = k + 1
    # a tail to the left, long where a is small
    x = torch.arange(-40.0, 9.0 + SPACING, SPACING, dtype=m.dtype, device=m.device)
    tau = x / a.sqrt()
    weight = torch.softmax(a * (tau - tau.expm1()), -1)
    return (torch.special.ndtr((a.log() + tau - m) / v.sqrt()) * weight).sum(-1)


def _over_log_ratio(k: Tensor, m: Tensor, v: Tensor, r: Tensor) -> Tensor:
    """E[Φ((log rG/γ − m)/√v)]: the density of t = log G/γ is proportional to exp(at)/(1 + exp t)^(a+r), a = k+1."""
    a = k + 1
    mode, scale = (a / r).log(), (1 / a + 1 / r).sqrt()
    # t = mode + scale·sinh u reaches far into both tails, exp(at) and exp(−rt)
    u = torch.linspace(-RATIO_REACH, RATIO_REACH, RATIO_NODES, dtype=m.dtype, device=m.device)
    t = mode + scale * u.sinh()
    log_sigmoid = torch.nn.functional.logsigmoid
    weight = torch.softmax(a * log_sigmoid(t) + r * log_sigmoid(-t) + u.cosh().log(), -1)
    return (torch.special.ndtr((r.log() + t - m) / v.sqrt()) * weight).sum(-1)
