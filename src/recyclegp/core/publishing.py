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
from .least_squares import centre
from .packing import pack, project
from .posterior import basis
from .sites import Site


class Published(NamedTuple):
    site: Site
    jitter: float  # of the new points


def publish(site: Site, jitter: float, kernel: Kernel, mean: Tensor | float, points: Tensor) -> Published:
    """A site under GP(mean, kernel), whose points carry this jitter, at the new points.

    The new points carry as little jitter as they need: at first no more than the old ones, and no more than
    rounding errors ask for.
    """
    own = torch.as_tensor(jitter, dtype=site.Z.dtype, device=site.Z.device)
    usual = linalg.RELATIVE_JITTER * kernel.diagonal(points).mean()
    base = basis(kernel, points, torch.minimum(own, usual))
    rows = centre(project(base, pack([site], [0]), own).rows(marginal=True), mean)
    return Published(sites.from_rows(points, base.L, rows, mean), float(base.jitter))
