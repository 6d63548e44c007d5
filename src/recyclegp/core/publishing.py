"""Publish: the same posterior at other, usually fewer, points, by exact marginalisation.

    W = K_ZZ'K_Z'Z'⁻¹,  Q = K_ZZ − WK_Z'Z,  BBᵀ = I + RᵀQR
    R'ᵀ = B⁻¹RᵀW,   ρ' = B⁻¹(ρ − mRᵀ1) + mR'ᵀ1,   e' = e − logdet B,   then compressed

This is `project` with the residual integrated out: merging one module onto the new points.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels import Kernel
from . import linalg, sites
from .least_squares import CentredRows, centre, jensen_slack
from .packing import pack, project
from .posterior import basis
from .sites import Site


class PublishedSite(NamedTuple):
    site: Site
    jitter: float  # of the new points
    information: float  # nats about f that it holds
    chi2: float  # ‖·‖² of the old pseudo-observations that the new points cannot explain, in units of its covariance
    left_open: float  # tr RᵀQR: their variance that the new points leave open, in units of their noise


def information(rows: CentredRows) -> float:
    """½logdet(I + P): nats that rows about the whitened values say about f."""
    identity = torch.eye(rows.H.shape[-1], dtype=rows.H.dtype, device=rows.H.device)
    return float(linalg.logdet(linalg.cholesky(identity + rows.H.mT @ rows.H).L))


def publish(site: Site, jitter: float, kernel: Kernel, mean: Tensor | float, points: Tensor) -> PublishedSite:
    """A site under GP(mean, kernel), whose points carry this jitter, at the new points.

    The new points carry as little jitter as they need: at first no more than the old ones, and no more than
    rounding errors ask for.
    """
    own = torch.as_tensor(jitter, dtype=site.Z.dtype, device=site.Z.device)
    usual = linalg.RELATIVE_JITTER * kernel.diagonal(points).mean()
    base = basis(kernel, points, torch.minimum(own, usual))
    said = project(base, pack([site], [0]), own)
    rows = centre(said.rows(marginal=True), mean)
    made = sites.from_rows(points, base.L, rows, mean)
    return PublishedSite(
        site=made,
        jitter=float(base.jitter),
        information=information(rows),
        chi2=max(0.0, 2 * float(rows.e - made.e)),
        left_open=2 * float(jensen_slack(said.H, said.RKR)),
    )
