"""Integrals of the softmax over independent Gaussian functions, by one-dimensional sums.

If G_c are independent standard Gumbel variables, max_c (f_c + G_c) is attained by class c with probability
softmax_c(f), and its mean is log Σ exp f_c plus Euler's constant. With f_c ~ N(m_c, v_c) independent of each other the
distribution function of f_c + G_c is

    F_c(x) = E[exp(−e^{−(x − f_c)})]

and everything about the C functions together is an integral over x alone:

    E[log Σ exp f_c] = ∫ x d(Π_c F_c) − γ        E[softmax_c(f)] = ∫ F_c' Π_{j≠c} F_j dx

Both sums are trapezoid sums: exp(−e^{−x}) is analytic in a strip of width π about the real line, so that their errors
fall exponentially in the spacing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

EULER = 0.5772156649015329
SPACING = 0.65  # of either sum, in units of f, unless that takes too many terms
FINEST = 0.9  # spacing in standard deviations of f that is enough for the Gaussian itself
REACH = 5.0  # standard deviations that are summed over, either side
BELOW, ABOVE = 2.8, 15.0  # where a Gumbel variable's distribution function is 0 and 1
MOST_NODES, MOST_PLACES = 97, 385  # terms of the inner and of the outer sum
LARGEST_EXPONENT = 700.0  # whose exp is finite, and neither is that of its negative zero
LARGEST_RATIO = 800.0  # whose exp(−r) is zero, and so is r exp(−r)
VALUES = 2**21  # of the integrand, held at once


class SoftmaxMoments(NamedTuple):
    """Under f_c ~ N(m_c, v_c), for each of n rows and C classes."""

    log_sum: Tensor  # (n,)  E[log Σ exp f_c]
    probability: Tensor  # (n, C)  E[softmax_c(f)], which is the slope of log_sum by m_c
    curvature: Tensor  # (n, C)  E[softmax_c(f)(1 − softmax_c(f))], twice its slope by v_c


@torch.no_grad()
def softmax_moments(mean: Tensor, variance: Tensor) -> SoftmaxMoments:
    """Of mean and variance (n, C)."""
    sd = variance.clamp_min(0).sqrt()
    top = mean.amax(-1, keepdim=True)  # probabilities depend on differences alone, which are small numbers
    mean = mean - top
    grids = _grids(mean, sd)
    kinds, kind = torch.unique(grids, dim=0, return_inverse=True)
    parts, order = [], []
    for i, (nodes, places) in enumerate(kinds.tolist()):
        for rows in (kind == i).nonzero()[:, 0].split(max(1, VALUES // (mean.shape[-1] * nodes * places))):
            parts.append(_some(mean[rows], sd[rows], nodes, places))
            order.append(rows)
    if not parts:
        return SoftmaxMoments(mean.new_zeros(0), mean, mean)
    back = torch.cat(order).argsort()
    log_sum, probability, curvature = (torch.cat(part)[back] for part in zip(*parts, strict=True))
    return SoftmaxMoments(log_sum + top[:, 0], probability, curvature)


def _grids(mean: Tensor, sd: Tensor) -> Tensor:
    """(n, 2)  terms of the inner and of the outer sum of each row: its own, whatever other rows there are."""
    widest = sd.amax(-1).clamp_min(1e-9)
    reach = (mean + REACH * sd).amax(-1) - (mean - REACH * sd).amax(-1)
    nodes = 1 + 2 * (REACH / (SPACING / widest).clamp_max(FINEST)).ceil()
    places = 1 + ((reach + BELOW + ABOVE) / SPACING).ceil()
    return torch.stack([_rounded(nodes, MOST_NODES), _rounded(places, MOST_PLACES)], -1)


def _rounded(count: Tensor, most: int) -> Tensor:
    """No fewer, in steps of a quarter, so that many rows have the same; odd, as sums about a middle are."""
    steps = (count.clamp_max(most).log() / math.log(1.25)).ceil()
    up = torch.exp(math.log(1.25) * steps).floor()
    return (up + (up % 2 == 0)).clamp_max(most).to(torch.long)


def _some(mean: Tensor, sd: Tensor, nodes: int, places: int) -> SoftmaxMoments:
    z = torch.linspace(-REACH, REACH, nodes, dtype=mean.dtype, device=mean.device)
    weight = torch.exp(-0.5 * z.square())
    weight = weight / weight.sum()
    low = (mean - REACH * sd).amax(-1) - BELOW  # below it one of the factors of ΠF is zero
    high = (mean + REACH * sd).amax(-1) + ABOVE
    step = (high - low) / (places - 1)
    x = low[:, None] + step[:, None] * torch.arange(places, dtype=mean.dtype, device=mean.device)
    # E[…] over f: exp(−r) with r = e^{−(x − m)} e^{s z}
    ratio = _exp(mean[:, :, None] - x[:, None, :])[..., None] * _exp(sd[:, :, None] * z)[:, :, None, :]
    ratio.clamp_max_(LARGEST_RATIO)
    chance = torch.exp(-ratio).mul_(weight)
    F = chance.sum(-1)  # (n, C, places)
    density = chance.mul_(ratio).sum(-1)  # F'
    slope = chance.mul_(ratio).sum(-1) - density  # F''
    others = _products_of_others(F)
    step = step[:, None]
    both = (others * density).sum(-1) * step
    # E[max] = high − ∫ ΠF dx
    log_sum = high - (others[:, 0] * F[:, 0]).sum(-1) * step[:, 0] + 0.5 * step[:, 0] - EULER
    curvature = -(others * slope).sum(-1) * step
    total = both.sum(-1, keepdim=True)
    known = torch.isfinite(total) & (total > 0)  # functions that reach too far for any sum say nothing
    probability = torch.where(known, both / total, torch.full_like(both, 1 / both.shape[-1]))
    return SoftmaxMoments(log_sum, probability, curvature.clamp_min(0.0))


def _exp(exponent: Tensor) -> Tensor:
    """Whose products with each other are numbers."""
    return exponent.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()


def _products_of_others(F: Tensor) -> Tensor:
    """Π_{j≠c} F_j for each c (axis 1), without dividing: products from the left times products from the right."""
    one = torch.ones_like(F[:, :1])
    left = torch.cat([one, F[:, :-1]], 1).cumprod(1)
    right = torch.cat([F[:, 1:], one], 1).flip(1).cumprod(1).flip(1)
    return left * right
