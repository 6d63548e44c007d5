"""Products of experts and committee machines: K Gaussian predictions of f(x) become one, point by point.

Everything is about the latent f; noise is added for y, and for classes the combined Gaussian is pushed
through the likelihood, both afterwards and by whoever asks. Each rule is stated with a prior of its own
for every expert, π_k = N(m_k, s_k), which differ where experts learned their own hyperparameters.
An expert then contributes p_k/π_k, what its data said, and the committee's prior p_0 is the geometric
mean of the π_k (its natural parameters are their means). With one prior for all, each rule is the
published one. The first expert's prior in place of every π_k is not: it is not what was updated.

    PoE           Π p_k                                       Hinton 2002
    gPoE          Π p_k^β_k      β_k = 1/K, or ∝ entropy      Cao & Fleet 2014
    BCM           p_0 Π (p_k/π_k)                             Tresp 2000
    rBCM          p_0 Π (p_k/π_k)^β_k   β_k = entropy         Deisenroth & Ng 2015
    GRBCM         rBCM about p_c, β_1 = 1                     Liu et al. 2018

with entropy_k = ½(log s_k − log v_k), the difference in differential entropy between prior and
posterior. GRBCM's experts have all seen the data of a communication expert, whose prediction p_c takes
the place of every π_k; β_1 here is Liu et al.'s β_2, since their first expert is p_c. Their code
combines predictions of y, noise included. Here it is f for all rules, which served GRBCM and rBCM better
on the paper's toy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import RecycleGPError

RULES = ("poe", "gpoe", "gpoe-entropy", "bcm", "rbcm", "grbcm")
SMALLEST = 1e-14  # of the prior variance: an expert may be sure of f, but a precision must be finite


class Predictions(NamedTuple):
    """Of one expert (n,), or of K of them (K, n)."""

    mean: Tensor
    variance: Tensor
    prior_mean: Tensor
    prior_variance: Tensor


class Combination(NamedTuple):
    mean: Tensor  # (n,)
    variance: Tensor  # (n,)
    failed: Tensor  # (n,) bool: the combined precision was not positive, and p_0 was put there


def combine(rule: str, experts: Predictions) -> Combination:
    """The rule's Gaussian at each point. For "grbcm" the priors are the communication expert's prediction.

    A committee's precision is a sum of differences 1/v_k − 1/s_k. They are positive wherever an
    expert's data narrowed its own prior; experts from elsewhere (or compared with a prior that is not
    theirs) can make the sum negative, which no Gaussian has: there p_0 is returned, and marked.
    """
    mean, variance, prior_mean, prior_variance = torch.broadcast_tensors(*experts)
    if mean.ndim != 2 or not len(mean):
        raise RecycleGPError(f"experts' predictions have shape {tuple(mean.shape)}; pass (K, n) with K ≥ 1")
    precision = 1 / torch.maximum(variance, SMALLEST * prior_variance)
    prior_precision = 1 / prior_variance
    beta = weights(rule, variance, prior_variance)
    # p_0: precision and precision·mean are the means of the priors'
    first, first_pull = prior_precision.mean(0), (prior_precision * prior_mean).mean(0)
    # Π p_k^β_k:  Λ = Σ β_k/v_k,  λ = Σ β_k μ_k/v_k
    total, pull = (beta * precision).sum(0), (beta * precision * mean).sum(0)
    if rule in ("bcm", "rbcm", "grbcm"):
        # p_0 Π (p_k/π_k)^β_k:  Λ = 1/s_0 + Σ β_k(1/v_k − 1/s_k),  λ likewise
        total = first + (beta * (precision - prior_precision)).sum(0)
        pull = first_pull + (beta * (precision * mean - prior_precision * prior_mean)).sum(0)
    failed = ~(total > 0)
    total, pull = torch.where(failed, first, total), torch.where(failed, first_pull, pull)
    return Combination(pull / total, 1 / total, failed)


def weights(rule: str, variance: Tensor, prior_variance: Tensor) -> Tensor:
    """β_k (K, n)."""
    K = len(variance)
    if rule in ("poe", "bcm"):
        return torch.ones_like(variance)
    if rule == "gpoe":
        return torch.full_like(variance, 1 / K)
    if rule not in RULES:
        raise RecycleGPError(f"rule={rule!r} is not known; use one of {', '.join(RULES)}")
    smallest = SMALLEST * prior_variance
    # a posterior wider than its prior has learned nothing: its weight is zero, not negative
    entropy = 0.5 * (prior_variance / torch.maximum(variance, smallest)).log().clamp_min(0)
    if rule == "gpoe-entropy":
        total = entropy.sum(0)
        # far from all data nobody has learned anything, and all count alike
        return torch.where(total > 0, entropy / total.clamp_min(torch.finfo(total.dtype).tiny), 1 / K)
    if rule == "grbcm":
        return torch.cat([torch.ones_like(entropy[:1]), entropy[1:]])  # β_1 = 1: one expert is then itself
    return entropy
