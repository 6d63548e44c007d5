"""How much one member may decide of what is common to all: kernel, mean, noise.

A file says itself how many rows are behind it, and how noisy they were, and nobody can check that. So no member counts
for more rows than is usual, and noise that is far larger than usual is a member's own affair: brought to the common
noise, its site would become as much surer of itself as it claims that it was noisy.

What Gaussian rows can say is bounded. With f(x) = h(x)ᵀv + what points leave open, v ~ N(0, I), ‖h(x)‖² ≤ k(x, x),
n rows of noise σ² have the precision P ≤ Σ_i h_ih_iᵀ/σ² about v, so that

    σ² tr(K_ZZ RRᵀ) ≤ n·max k(x, x)

A site that says more counts only as much as its rows can say.

What rows say of their noise is bounded, too. W = σ²(K_XX + σ²I)⁻¹ has the eigenvalues 1/(1 + λ_i/σ²), and where points
leave open the variance q of n rows on average, there are at least so many degrees of freedom for the noise:

    tr W² ≥ (n − M)(1 + nq/((n − M)σ²))⁻²

K_XX less what M points explain of it, a matrix of rank M, has the trace nq, which is no less than the sum of all but
the M largest λ_i (Weyl), and (1 + λ)⁻² is convex (Jensen). Who says that there are fewer says nothing of the common
noise.

Whoever claims more rows, or less noise, may say more. So while members are compared nobody is seen as more than ten
times surer than is usual: an owner of very many rows who agrees with the others like that counts in full, and whoever
does not is found out, however sure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..likelihoods import Gaussian
from .constants import INFLUENCE, SCREENING
from .member import Member
from .site_source import SiteSource


def usual_rows(rows: Sequence[float] | np.ndarray) -> float:
    """As many as that share of the members have at most, which is taken to be honest; no limit for one or two."""
    some = np.array(rows, dtype=float)
    some = some[some > 0]
    if len(some) < SCREENING.fewest:
        return math.inf
    last = math.ceil(INFLUENCE.honest * len(some)) - 1
    return float(np.partition(some, last)[last])


def votes(rows: Sequence[float]) -> list[float]:
    """Rows with which each counts in medians and where the most common is sought: none has more than is usual."""
    most = usual_rows(rows)
    return [min(r, most) for r in rows] if max(rows, default=0.0) > most else list(rows)


def noise_shares(rows: Tensor) -> Tensor:
    """What counts of each member's statement about its noise, (K,) in (0, 1]."""
    most = INFLUENCE.noise_rows * usual_rows(rows.cpu().numpy())
    return (most / rows.clamp_min(1e-300)).clamp_max(1.0)


def precision(store: SiteSource, members: int) -> Tensor:
    """‖R_k‖² for each point, (K,); NaN for members without a site."""
    found = torch.full((members,), math.nan, dtype=torch.float64, device=store.device)
    for p in store.packs(1):
        found[torch.tensor(p.members)] = p.Rt.square().sum((-2, -1)) / p.Z.shape[1]
    return found


def relative_precision(store: SiteSource, members: int) -> Tensor:
    """That over the median of it."""
    found = precision(store, members)
    return found / found.nanmedian().clamp_min(1e-300)


def seen_shares(store: SiteSource, members: int) -> Tensor:
    """What counts of each site while members are compared, (K,) in (0, 1]: none is seen as far surer than is usual.

    As sure per point as that share of the members are at most, which is taken to be honest. Rows and noise behind more
    than that are a file's own words: it must agree with the others as if it had no more, and then counts in full.
    """
    found = relative_precision(store, members)
    known = ~found.isnan()
    most = SCREENING.max_relative_precision * usual_rows(found[known].cpu().numpy())
    return torch.where(known, most / found.clamp_min(1e-300), torch.ones_like(found)).clamp_max(1.0)


def shown_shares(seen: Tensor, now: SiteSource, published: SiteSource) -> Tensor:
    """The same of sites as they were published: who is not seen in full is not asked about the common noise, either.

    So such a member is compared under the noise it says, however small, and no surer than the others would see it.
    """
    at_common, at_own = precision(now, len(seen)), precision(published, len(seen)).clamp_min(1e-300)
    return torch.where(seen < 1, (seen * at_common / at_own).clamp_max(1.0), seen)


def unseen_share(seen: float) -> float:
    """What counts of a site whose agreement nobody can see, if so much of it was seen."""
    return min(1.0, INFLUENCE.unseen_precision / SCREENING.max_relative_precision * seen)


@torch.no_grad()
def believable_shares(members: Sequence[Member], store: SiteSource) -> dict[int, float]:
    """What counts of sites that say more than their rows can, by members' positions. Only striking ones are asked."""
    sure = relative_precision(store, len(members)) > SCREENING.max_relative_precision
    found: dict[int, float] = {}
    for p in store.packs(1) if bool(sure.any()) else ():
        for i in sure[torch.tensor(p.members)].nonzero()[:, 0].tolist():
            k = p.members[i]
            share = believable_share(members[k], p.Z[i], p.Rt[i])
            found |= {k: share} if share < 1 else {}
    return found


def believable_share(m: Member, Z: Tensor, Rt: Tensor) -> float:
    """What counts of a member's site as it was published, with its weight: all of it where its rows can say that."""
    likelihood = m.likelihoods[0]
    if not isinstance(likelihood, Gaussian) or not likelihood.known:
        return 1.0
    K = m.kernel.to(Z.device).matrix(Z, Z)
    said = float(likelihood.values[0]) * float(((Rt @ K) * Rt).sum())
    most = INFLUENCE.more_than_rows * m.effective_row_count * m.weight * float(K.diagonal().amax())
    return most / said if said > most else 1.0


def noise_of_rows(noise: Tensor, chi2: Tensor, rows: Tensor, points: Tensor, residual: Tensor, dof: Tensor) -> Tensor:
    """The variance that what rows say of their noise amounts to, where it is less than what is published, all (K,).

    What no f(Z) explains of n rows, χ² in units of their noise, is about n less the number of points.
    """
    of_chi2 = noise * chi2 / (rows - points).clamp_min(1e-300)
    of_residual = residual / dof.clamp_min(1e-300)
    least = torch.where(rows > 2 * points, torch.minimum(noise, of_chi2), noise)
    return torch.where(dof > 0.5 * rows, torch.minimum(least, of_residual), least)


def of_rows_like_theirs(noise: Tensor, least: Tensor, known: Tensor) -> Tensor:
    """Which of those whose noise is known have rows that do not say a far smaller one than usual, nor they, (K,) bool.

    Such rows would make the common noise as small as one likes. Whoever publishes so small a noise is another matter:
    brought to the common one, it is less sure of itself. And so is a noise that all rows say is smaller.
    """
    if int(known.sum()) < SCREENING.fewest:
        return known
    usual = torch.median(least[known])
    return known & ~((least * INFLUENCE.noisier < usual) & (least * INFLUENCE.contradicts < noise))


def of_one_noise(claimed: Tensor, least: Tensor, known: Tensor) -> Tensor:
    """Which of those whose noise is known do not say two at once, far apart unlike those of the others, (K,) bool.

    With the one a member pulls at the common noise, and with the other at how far noises differ: between them both are
    torn away from what everybody else says. A noise that was given to all, and is too large, is no such statement.
    """
    if int(known.sum()) < SCREENING.fewest:
        return known
    times = claimed / least.clamp_min(1e-300)
    return known & (times <= INFLUENCE.contradicts * torch.median(times[known]).clamp_min(1))


def least_dof(noise: Tensor, residual_variance: Tensor, rows: Tensor, points: Tensor) -> Tensor:
    """(n − M)(1 + nq/((n − M)σ²))⁻², all (K,); zero where there are as many points as rows."""
    left = (rows - points).clamp_min(0)
    each = rows * residual_variance / (left * noise).clamp_min(1e-300)
    return torch.where(left > 0, left * (1 + each).pow(-2), 0.0)


def of_enough_dof(dof: Tensor, least: Tensor, known: Tensor) -> Tensor:
    """Which of those whose noise is known do not deny the degrees of freedom that rows must leave for it, (K,) bool.

    Such a member says how likely its rows are at its noise, and that they know nothing of this noise: so the common one
    would have to be as small. Numbers for people are coarse, and less than one degree of freedom is next to none.
    """
    return known & ((dof >= INFLUENCE.least_dof * least) | (least < 1))


def of_usual_noise(noise: Tensor, known: Tensor) -> Tensor:
    """Which of those whose noise is known do not claim to be far noisier than the others, (K,) bool."""
    if int(known.sum()) < SCREENING.fewest:
        return known
    return known & (noise <= INFLUENCE.noisier * torch.median(noise[known]))
