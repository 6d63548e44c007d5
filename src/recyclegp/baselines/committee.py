"""Experts that answer together: exact GPs on each owner's rows, or modules that were already fitted.

Hyperparameters are each expert's own (it maximises its own evidence, exactly as `fit` does) or shared
(one θ maximises the sum of the evidences: Deisenroth & Ng 2015). What leaves a data owner:

    modules   the module, once; whoever holds them all then answers alone
    exact     16 bytes per test point (a mean and a variance), since the posterior needs every row;
              own hyperparameters: besides, its kernel, mean and noise once (for the prior and for y)
              shared ones: besides, its data's location and scale, then for each trial θ an evidence and gradient
              GRBCM: besides, the owner's rows that fell into the communication subset

Products of experts and committee machines: K Gaussian predictions of f(x) become one, point by point.

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

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..core import linalg
from ..errors import RecycleGPError, RecycleGPWarning
from ..kernels import learned
from ..likelihoods import Gaussian, Likelihood
from ..local.options import KernelLike
from ..merging.member import Member
from ..merging.pooling import pool_likelihoods
from ..models.fit import fit_many
from ..models.module import Module
from .hyper import Prior, shared_prior, units_bytes
from .rival import NUMBER, ROWS, Part, Parts, Rival, Sent, checked, for_hyperparameters, module_bytes, together

RULES = ("poe", "gpoe", "gpoe-entropy", "bcm", "rbcm", "grbcm")
SMALLEST = 1e-14  # of the prior variance: an expert may be sure of f, but a precision must be finite
FEATURES = 2**23  # numbers in the features of one expert's answer that are held at once


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


Expert = Callable[[Tensor], Predictions]


@dataclass(frozen=True)
class ExactGP:
    """The posterior of f given rows, under a prior with fixed hyperparameters."""

    prior: Prior
    X: Tensor
    L: Tensor  # LLᵀ = K_XX + σ²I
    z: Tensor  # L⁻¹(y − m)

    @torch.no_grad()
    def __call__(self, points: Tensor) -> Predictions:
        kernel = self.prior.kernel.to(points.device)
        means, variances, priors = [], [], []
        for chunk in points.split(max(1, FEATURES // max(1, len(self.X)))):
            prior = kernel.diagonal(chunk)
            V = linalg.solve_lower(self.L, kernel.matrix(self.X, chunk))
            # mean = m + K_xX(K+σ²I)⁻¹(y−m),  var = k(x,x) − K_xX(K+σ²I)⁻¹K_Xx
            means.append(self.prior.mean + V.mT @ self.z)
            variances.append((prior - V.square().sum(0)).clamp_min(0))
            priors.append(prior)
        mean = torch.cat(means)
        return Predictions(mean, torch.cat(variances), torch.full_like(mean, self.prior.mean), torch.cat(priors))


@torch.no_grad()
def condition(prior: Prior, X: Tensor, y: Tensor) -> ExactGP:
    K = prior.kernel.to(X.device).matrix(X, X)
    K.diagonal().add_(prior.noise)
    L = linalg.cholesky(K).L
    return ExactGP(prior, X, L, linalg.solve_lower(L, (y - prior.mean)[:, None])[:, 0])


@torch.no_grad()
def answer(module: Module, points: Tensor) -> Predictions:
    """A module as an expert."""
    mean, variance = module.predict(points)
    prior = module.kernel_spec.to(points.device).diagonal(points)
    return Predictions(mean, variance, torch.full_like(mean, module.mean), prior)


@dataclass(frozen=True)
class Committee:
    """Fitted experts; `rival(rule)` is what they predict together. Fitting is done once for all rules."""

    name: str
    experts: tuple[Expert, ...]
    likelihoods: tuple[Likelihood, ...]
    sent: Sent
    dimension: int
    rounds: int
    communication: Expert | None = None  # GRBCM: what all other experts have seen as well

    def rival(self, rule: str) -> Rival:
        if (rule == "grbcm") != (self.communication is not None):
            raise RecycleGPError("rule 'grbcm' needs communication_experts, and they need rule 'grbcm'")

        def latent(points: Tensor) -> tuple[Tensor, Tensor]:
            mean, variance, failed = combine(rule, self.answers(points))
            if bool(failed.any()):
                warnings.warn(
                    f"{rule}: the combined precision is not positive at {int(failed.sum())} of {len(points)} points; "
                    "the prior is returned there",
                    RecycleGPWarning,
                    stacklevel=4,
                )
            return mean, variance

        return Rival(f"{rule} ({self.name})", latent, self.likelihoods, self.sent, self.dimension, self.rounds)

    def answers(self, points: Tensor) -> Predictions:
        """(K, n); where there is a communication expert, its prediction is everybody's prior."""
        # into one place made beforehand: thousands of small answers would pin the heap that each expert's work needed
        found = points.new_empty(len(Predictions._fields), len(self.experts), len(points))
        for k, expert in enumerate(self.experts):
            found[:, k] = torch.stack(expert(points))
        each = Predictions(*found)
        if self.communication is None:
            return each
        common = self.communication(points)
        return each._replace(prior_mean=common.mean[None], prior_variance=common.variance[None])


# --- making them ------------------------------------------------------------------------------


def module_experts(modules: Sequence[Module]) -> Committee:
    """Modules as they are, each answering with its own posterior and its own prior."""
    pooled = _pooled(modules)
    sent = Sent(sum(module_bytes(m) for m in modules) / len(modules))
    experts = tuple(partial(answer, m) for m in modules)
    return Committee("modules", experts, pooled, sent, modules[0].dimension, 1)


def exact_experts(
    parts: Parts, *, hyperparameters: str = "own", kernel: KernelLike = "rbf", rows: int = ROWS, seed: int = 0
) -> Committee:
    """An exact GP on each owner's rows; hyperparameters are learned on at most `rows` of each owner's."""
    data = checked(parts, "gaussian")
    priors, pooled, fitted, rounds = _priors(data, hyperparameters, kernel, rows, seed)
    experts = tuple(condition(prior, *part) for prior, part in zip(priors, data, strict=True))
    sent = Sent(fitted, 2 * NUMBER)
    return Committee(f"exact, {hyperparameters} θ", experts, pooled, sent, data[0].X.shape[1], rounds)


def communication_experts(
    parts: Parts,
    *,
    size: int | None = None,
    hyperparameters: str = "shared",
    kernel: KernelLike = "rbf",
    rows: int = ROWS,
    seed: int = 0,
) -> Committee:
    """GRBCM's experts: a random subset D_c of all rows, and each owner's other rows together with D_c.

    D_c has as many rows as the average owner unless `size` says otherwise. It leaves the owners.
    """
    data = checked(parts, "gaussian")
    X, y = together(data)
    size = max(1, round(len(y) / len(data))) if size is None else min(int(arrays.number(size, "size")), len(y))
    chosen = np.zeros(len(y), dtype=bool)
    chosen[np.random.default_rng(arrays.seed(seed)).permutation(len(y))[:size]] = True
    shared = torch.as_tensor(chosen)
    common = Part(X[shared], y[shared])
    rest = [Part(p.X[~mask], p.y[~mask]) for p, mask in zip(data, shared.split([len(p.y) for p in data]), strict=True)]
    # the evidence factorises over disjoint sets, so shared θ is learned on them, and own θ on what one expert sees
    augmented = [together([common, part]) for part in rest]
    seen = [p for p in rest if len(p.y)] if hyperparameters == "shared" else augmented
    priors, pooled, fitted, rounds = _priors([common, *seen], hyperparameters, kernel, rows, seed)
    if hyperparameters == "shared":
        priors = [priors[0]] * (1 + len(augmented))
    experts = tuple(condition(prior, *part) for prior, part in zip(priors[1:], augmented, strict=True))
    moved = NUMBER * (common.X.numel() + common.y.numel()) / len(data)
    sent, communication = Sent(fitted + moved, 2 * NUMBER), condition(priors[0], *common)
    return Committee(f"exact, {hyperparameters} θ", experts, pooled, sent, X.shape[1], rounds + 1, communication)


def _priors(
    data: Sequence[Part], hyperparameters: str, kernel: KernelLike, rows: int, seed: int
) -> tuple[list[Prior], tuple[Likelihood, ...], float, int]:
    """Each part's prior, the likelihood for y, bytes sent to find them, and rounds of messages."""
    few = [_subset(part, rows, seed) for part in data]
    if hyperparameters == "shared":
        prior, evaluations = shared_prior(few, kernel)
        gradient = sum(learned(prior.kernel.structure)) + 2  # kernel, noise, mean
        sent = units_bytes(data[0]) + NUMBER * (1 + gradient) * evaluations
        return [prior] * len(data), (Gaussian(prior.noise),), sent, 1 + evaluations
    if hyperparameters != "own":
        raise RecycleGPError(f"hyperparameters={hyperparameters!r}; use 'own' or 'shared'")
    # the very hyperparameters a module of these rows would have; where it is published does not matter
    with for_hyperparameters():
        fitted = fit_many(few, method="exact", kernel=kernel, publish=1, seed=seed, progress=False, allow_small=True)
    local = [
        replace(m, latents=(m.latents[0]._replace(rows=len(whole.y)),)) for m, whole in zip(fitted, data, strict=True)
    ]
    sent = NUMBER * (len(local[0].kernel_spec.theta) + 2)
    return [Prior.of(m) for m in local], _pooled(local), sent, 1


def _pooled(modules: Sequence[Module]) -> tuple[Likelihood, ...]:
    """The likelihood of a new y from any of the modules, as `merge` would have it."""
    return pool_likelihoods([Member(m.about, m.latents[0], m.likelihoods) for m in modules])


def _subset(part: Part, rows: int, seed: int) -> Part:
    if len(part.y) <= rows:
        return part
    keep = torch.as_tensor(np.random.default_rng(arrays.seed(seed)).permutation(len(part.y))[:rows])
    return Part(part.X[keep], part.y[keep])
