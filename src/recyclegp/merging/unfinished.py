"""Modules whose search elsewhere had not ended: what of them counts, and what may be learned beside them.

In the whitened coordinates of its own prior a site says, direction by direction, that v is o with precision p. Under
the prior o has the variance 1 + 1/p. A search that was stopped early has moved the mean of q before its variance: it
then says, with next to no precision, that v lies thousands of standard deviations away. One such direction is no
evidence about the function, and a kernel learned from it grows without limit. So those directions do not count, what is
left of the module counts as much as the share of its directions that is left, and kernel, mean, noise and effects are
learned from the other modules. Where there are none, the kernel stays that of the modules, and only its size is
chosen, within a factor of what they say.

What is left overshoots in the same way: o = μ(1 + 1/p), where μ is the mean of q, from which the prior is taken out as
if p were all that the rows know. Where nobody else speaks the same prior comes back, and the mean is μ again. Beside
modules whose searches had ended it does not, as what these know takes its place. There o = μ, with the same p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..core import linalg, sites
from ..core.effects import Effects
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import basis
from ..core.sites import Site
from ..devices import CPU
from ..kernels import Kernel
from ..record import IMPORTED, About, Latent
from .constants import UNFINISHED
from .member import Member, active


def is_unfinished(about: About, latent: Latent) -> bool:
    """Was it fitted elsewhere, by a search that had not ended?"""
    return about.method in IMPORTED and not latent.convergence.converged


def unfinished(members: Iterable[Member]) -> list[Member]:
    """Those of which that is so; nearly all others say at once that they have converged."""
    open_ones = [m for m in members if not m.latent.convergence.converged]
    return [m for m in open_ones if is_unfinished(m.about, m.latent)]


def has_finished(members: Iterable[Member]) -> bool:
    """Does anybody count whose search had ended?"""
    return any(m.weight > 0 and not is_unfinished(m.about, m.latent) for m in members)


@torch.no_grad()
def finished_part(latent: Latent, *, beside: bool) -> Latent:
    """Without the directions that say what cannot be, and with the share of its precision that is left.

    `beside`: others whose searches had ended know the same function.
    """
    site = latent.known_site
    L = basis(latent.kernel, site.Z, latent.jitter).L
    rows = sites.to_rows(site, L, latent.mean)
    # TᵀT = U diag(p) Uᵀ and Tᵀρ = Uλ: o = λ/p, whose variance under the prior is 1 + 1/p
    p, U = torch.linalg.eigh(rows.H.mT @ rows.H)
    p = p.clamp_min(torch.finfo(p.dtype).tiny)
    moved = U.mT @ (rows.H.mT @ rows.rho)
    counts = moved.square() <= UNFINISHED.farthest**2 * p * (1 + p)
    share = float(counts.double().mean())
    if share == 0:
        counts, share = p == p.max(), 1.0 / len(p)
        moved = torch.where(counts, p * torch.sign(moved), moved)
    if beside:
        moved = p * moved / (1 + p)  # λ = pμ, where μ = λ/(1 + p)
    root = (p[counts] * share).sqrt()
    Rt = linalg.solve_right(L, root[:, None] * U.mT[counts])
    rho = root * moved[counts] / p[counts]
    return latent._replace(site=Site(site.Z, Rt, rho + latent.mean * Rt.sum(-1), site.e * share))


@torch.no_grad()
def agreeing_share(site: Site, shared: FunctionPosterior, kernel: Kernel, effects: Effects) -> float:
    """Of its precision, so much that what a site says is as far from what others know as it says itself to be.

    Under what the others know, ρ ~ N(Rᵀm, RᵀCR + RᵀDR + I). Its squared distance from there, for each row, is about one
    where the site means what it says; a search that was stopped says it too surely, and its noise is so many times
    larger. Where the others know nothing, C is large, and nothing is taken away.
    """
    mean, covariance = shared.joint(site.Z)
    if effects.present:
        covariance = covariance + effects.matrix(kernel, site.Z, site.Z)
    S = site.Rt @ covariance @ site.Rt.mT + torch.eye(len(site.rho), dtype=site.rho.dtype, device=site.rho.device)
    away = linalg.solve_lower(linalg.cholesky(S).L, (site.rho - site.Rt @ mean)[:, None]).square().sum()
    return min(1.0, len(site.rho) / max(float(away), 1e-300))


@torch.no_grad()
def consistent_share(site: Site, shared: FunctionPosterior, kernel: Kernel, effects: Effects) -> float:
    """Of its precision, so much that what a site says is no farther from what others know than by chance.

    With a share s of its precision, ρ ~ N(Rᵀm, A + I/s) with A = RᵀCR + RᵀDR = U diag(c) Uᵀ, and z = Uᵀ(ρ − Rᵀm) has
    the squared distance Σ z²/(c + 1/s). Only directions count in which the others know f. `agreeing_share` takes the
    noise of a site for what it says too surely; but one that is surer than they are says the same with a tenth of that.
    """
    mean, covariance = shared.joint(site.Z)
    own = effects.matrix(kernel, site.Z, site.Z) if effects.present else torch.zeros_like(covariance)

    def said(variance: Tensor) -> Tensor:
        return site.Rt @ variance @ site.Rt.mT

    c, U = torch.linalg.eigh(said(covariance + own))
    open_f, open_before = ((U * (said(v) @ U)).sum(0) for v in (covariance, kernel.matrix(site.Z, site.Z) + own))
    known = c < UNFINISHED.open * open_before
    z2, c = (U.mT @ (site.rho - site.Rt @ mean))[known].square(), c[known].clamp_min(0)
    most = len(c) + UNFINISHED.chance * math.sqrt(2 * len(c))  # mean and standard deviations of χ²

    def far(log_noise: float) -> bool:
        return float((z2 / (c + math.exp(log_noise))).sum()) > most

    if not len(c) or float(open_f[known].mean()) <= 1:  # nor is it surer of f than they
        return agreeing_share(site, shared, kernel, effects)
    if not far(0.0):
        return 1.0
    low, high = 0.0, math.log(float(z2.sum()))  # of log 1/s: with so much noise nothing is far
    for _ in range(UNFINISHED.halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if far(middle) else (low, middle)
    return math.exp(-high)


def is_absurd(kernel: Kernel, mean: float, members: Sequence[Member]) -> bool:
    """Is f far larger, or elsewhere, than any module says?

    Modules of small regions have their kernels for what f does inside, and their means for where it is: f is as large
    as one of them says, and as their means are apart.
    """
    known = [m for m in active(members) if m.site is not None]
    if not known:
        return False
    here = float(kernel.to(CPU).diagonal(known[0].latent.known_site.Z.to(CPU)).mean())
    means = torch.tensor([m.mean for m in known], dtype=torch.float64)
    away, spread = abs(mean - float(means.median())), float(means.amax() - means.amin())
    larger = elsewhere = True
    for m in known:  # mostly the first says that neither is so, and the others need not be asked
        own = float(m.kernel.diagonal(m.latent.known_site.Z).mean())
        larger = larger and here > UNFINISHED.absurd * (own + spread**2)
        elsewhere = elsewhere and away > UNFINISHED.absurd * (own**0.5 + spread)
        if not (larger or elsewhere):
            return False
    return True
