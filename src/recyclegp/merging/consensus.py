"""What a group of modules agree on, and how well every module fits it, itself left out.

Everything is about the values v ~ N(0, I) at common points: module k says H_kv ≈ ρ_k with unit noise. For trusted
modules S, P = Σ_S H_kᵀH_k and CCᵀ = I + P. With e_k = ρ_k − H_kv̂ and S_k = H_k(I+P)⁻¹H_kᵀ the others predict ρ_k with

    covariance B_k = (I − S_k)⁻¹ and error B_ke_k,  where k is one of S        (leave-one-out without leaving one out)
    covariance B_k = I + S_k      and error e_k,      where it is not
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.packing import project
from ..core.posterior import Basis
from .constants import SCREENING
from .site_source import SiteSource

LOG_2PI = math.log(2 * math.pi)


class Statements(NamedTuple):
    """What some modules of one size say about v, log N(ρ_k; H_kv, I) + e_k; rows of padding are zero."""

    H: Tensor  # (K, r, M)
    rho: Tensor  # (K, r)  less what a constant mean explains
    ones: Tensor  # (K, r)  what a constant function would be observed as
    members: Tensor  # (K,)  whose they are
    counts: Tensor  # (K,)  rows that are no padding
    size: Tensor  # (K,)  ρ_kᵀ(I + H_kH_kᵀ)⁻¹ρ_k: its squared distance from the prior mean
    known: Tensor  # (K,)  ½logdet(I + H_kH_kᵀ): nats that it says about v
    e: Tensor  # ()  Σ e_k

    @staticmethod
    def of(H: Tensor, rho: Tensor, ones: Tensor, members: Tensor, counts: Tensor, e: Tensor) -> Statements:
        """With what each of them says beside nothing but the prior."""
        prior = linalg.cholesky(torch.eye(H.shape[1], dtype=H.dtype, device=H.device) + H @ H.mT).L
        size = linalg.solve_lower(prior, rho[..., None]).square().sum((-2, -1))
        return Statements(H, rho, ones, members, counts, size, linalg.logdet(prior), e)


class Consensus(NamedTuple):
    """What trusted modules say together: v ~ N(v̂, (CCᵀ)⁻¹)."""

    trusted: Tensor  # (members,) bool
    v: Tensor  # (M,)
    C: Tensor  # (M, M)
    chi2: float  # ρᵀA⁻¹ρ with A = I + HHᵀ
    numbers: float  # in ρ

    @property
    def evidence(self) -> float:
        """log N(ρ; 0, cA), where c is as large as their χ² asks for, and not below one.

        Where the kernel, or the whole model, suits nobody, all are further from each other than they say.
        """
        c = min(SCREENING.most_usual, max(1.0, self.chi2 / max(self.numbers, 1.0)))
        return -0.5 * (self.chi2 / c + self.numbers * (math.log(c) + LOG_2PI)) - float(linalg.logdet(self.C))


class Fit(NamedTuple):
    """How each module fits the others, by its position among the members; NaN for those that say nothing."""

    chi2: Tensor  # z_k²: squared distance from what the others predict
    counts: Tensor  # of how many numbers
    together: Tensor  # log N(ρ_k; what the others predict)
    alone: Tensor  # log N(ρ_k; 0, c times its prior covariance), c ≥ 1: as if it were of a function of its own
    affine: Tensor  # the same as `together`, of a·f + b with a and b unknown: a change of units
    known: Tensor  # nats that it says about f
    shared: Tensor  # nats of these that the others know
    size: Tensor  # squared distance from the prior mean, in units of its prior covariance

    @property
    def impossible(self) -> Tensor:
        """Which say what f cannot be, whatever the others know there."""
        return self.size > SCREENING.farthest**2 * self.counts.clamp_min(1)

    @property
    def under_prior(self) -> Tensor:
        """log N(ρ_k; 0, its prior covariance): if nobody knew anything."""
        return -0.5 * (self.size + self.counts * LOG_2PI) - self.known

    @property
    def share(self) -> Tensor:
        """Of what each says the others know so much; nothing of those that say nothing."""
        return torch.where(self.known > 1e-9, self.shared / self.known.clamp_min(1e-9), torch.zeros_like(self.known))


@torch.no_grad()
def statements(base: Basis, store: SiteSource, mean: float) -> list[Statements]:
    """Every site of a store; what the points cannot express of it is integrated out."""
    found = []
    for packed in store.packs(len(base.Z)):
        K, r, M = len(packed.members), packed.Rt.shape[1], len(base.Z)
        rows = project(base, packed).rows(marginal=True)
        H, ones = rows.H.reshape(K, r, M), rows.ones.reshape(K, r)
        rho = rows.rho.reshape(K, r) - mean * ones
        counts = torch.tensor(packed.counts, dtype=torch.float64)
        found.append(Statements.of(H, rho, ones, torch.tensor(packed.members), counts, rows.e))
    return found


@torch.no_grad()
def consensus(said: Sequence[Statements], trusted: Tensor) -> Consensus:
    """Of the trusted: P = ΣH_kᵀH_k, v̂ = (I+P)⁻¹b with b = ΣH_kᵀρ_k, ρᵀA⁻¹ρ = ρᵀρ − bᵀ(I+P)⁻¹b."""
    M = said[0].H.shape[-1]
    P, b = said[0].H.new_zeros(M, M), said[0].H.new_zeros(M)
    square, count = 0.0, 0.0
    for s in said:
        inside = trusted[s.members]
        every = bool(inside.all())
        H, rho = (t.flatten(0, 1) for t in ((s.H, s.rho) if every else (s.H[inside], s.rho[inside])))
        P, b = P + H.mT @ H, b + H.mT @ rho
        square, count = square + float(rho.square().sum()), count + float(s.counts[inside].sum())
    C = linalg.cholesky(torch.eye(M, dtype=P.dtype) + P).L
    half = linalg.solve_lower(C, b[:, None])
    return Consensus(trusted, linalg.solve_upper(C, half)[:, 0], C, square - float(half.square().sum()), count)


@torch.no_grad()
def fit(said: Sequence[Statements], agreed: Consensus, mean: float, variance: float) -> Fit:
    """Every module against the consensus of the others; f has this prior mean, and this variance on average."""
    found = torch.full((len(Fit._fields), len(agreed.trusted)), math.nan, dtype=torch.float64)
    spreads = torch.tensor([SCREENING.units_sd, SCREENING.units_sd * (variance + mean**2) ** 0.5], dtype=torch.float64)
    for s in said:
        e, S = _error(s, agreed)
        inside = agreed.trusted[s.members][:, None, None]
        identity = torch.eye(S.shape[-1], dtype=S.dtype)
        Q = torch.where(inside, identity - S, identity + S)
        L = linalg.cholesky(Q).L
        half = linalg.solve_lower(L, e[..., None])
        z = half.square().sum((-2, -1))
        error = torch.where(inside, linalg.solve_upper(L, half), e[..., None])  # B_ke_k, or e_k
        columns = torch.stack([s.rho - error[..., 0] + mean * s.ones, s.ones], -1) * spreads
        # B_k⁻¹ is Q for those inside, and Q⁻¹ for the others
        weighed = torch.where(inside, Q @ columns, torch.cholesky_solve(columns, L))
        spread = (1 - 2 * inside[:, 0, 0].to(z.dtype)) * linalg.logdet(L)
        constant = 0.5 * s.counts * LOG_2PI
        together = -0.5 * z - spread - constant
        found[:, s.members] = torch.stack(
            [
                z,
                s.counts,
                together,
                _stretched(s.size, s.counts) - s.known - constant,
                together + _gain((weighed.mT @ error)[..., 0], weighed.mT @ columns),
                s.known,
                s.known - spread,
                s.size,
            ]
        )
    return Fit(*found)


def _stretched(chi2: Tensor, counts: Tensor) -> Tensor:
    """−½χ²/c − ½r·log c at the best c ≥ 1."""
    c = (chi2 / counts.clamp_min(1)).clamp_min(1)
    return -0.5 * (chi2 / c + counts * c.log())


def _gain(g: Tensor, G: Tensor) -> Tensor:
    """What coefficients w ~ N(0, t²I) of two columns X explain, at the best of some t.

    With g = XᵀB⁻¹e (K, 2) and G = XᵀB⁻¹X (K, 2, 2), of which all is written out that would be a matrix:

    ½t²gᵀ(I + t²G)⁻¹g − ½logdet(I + t²G),    det(I + t²G) = 1 + t²tr G + t⁴det G
    """
    t2 = g.new_tensor(SCREENING.units_scales).square()[:, None]  # (scales, K) from here on
    (a, b), c, (first, second) = G[:, 0].unbind(-1), G[:, 1, 1], g.unbind(-1)
    det = 1 + t2 * (a + c) + t2.square() * (a * c - b.square()).clamp_min(0)
    inside = (1 + t2 * c) * first.square() - 2 * t2 * b * first * second + (1 + t2 * a) * second.square()
    return (0.5 * t2 * inside / det - 0.5 * det.log()).amax(0) - math.log(len(t2))


class Prediction(NamedTuple):
    """What the trusted predict for one module that is not among them, in coordinates in which they are independent.

    ρ = predicted + error, the error of covariance I + diag(variance).
    """

    error: Tensor  # (r,)
    predicted: Tensor  # (r,)  with the constant mean
    ones: Tensor  # (r,)
    variance: Tensor  # (r,)


@torch.no_grad()
def predicted(said: Sequence[Statements], agreed: Consensus, member: int, mean: float) -> Prediction:
    """For one module that is not trusted."""
    s, i = next((s, int((s.members == member).nonzero()[0, 0])) for s in said if bool((s.members == member).any()))
    one = s._replace(H=s.H[i : i + 1], rho=s.rho[i : i + 1])
    e, S = _error(one, agreed)
    r = int(s.counts[i])
    variance, U = torch.linalg.eigh(S[0, :r, :r])
    error, ones = U.mT @ e[0, :r], U.mT @ s.ones[i, :r]
    return Prediction(error, U.mT @ s.rho[i, :r] - error + mean * ones, ones, variance.clamp_min(0))


def _error(s: Statements, agreed: Consensus) -> tuple[Tensor, Tensor]:
    """e_k = ρ_k − H_kv̂ (K, r) and S_k = H_k(I+P)⁻¹H_kᵀ (K, r, r)."""
    K, r, M = s.H.shape
    W = linalg.solve_lower(agreed.C, s.H.flatten(0, 1).mT).mT.reshape(K, r, M)
    return s.rho - s.H @ agreed.v, W @ W.mT
