"""All sites on one basis, folded into one triangle of rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from ..core.least_squares import CentredRows, centre, compress, whiten
from ..core.packing import PackedSites, Projection, observe, project
from ..core.posterior import Basis
from ..devices import memory_factor
from .site_source import SiteSource

NUMBERS = 2**17  # in rows folded at once, unless that is few rows: more overflow the caches


@torch.no_grad()
def fold(
    base: Basis, store: SiteSource, mean: float, start: CentredRows | None = None, *, marginal: bool
) -> CentredRows:
    """Rows of every site, under those of `start`: with their slack, or with their residuals integrated out."""
    part = partial(_triangle, base=base.map(torch.Tensor.detach), mean=mean, marginal=marginal)
    rows = store.reduce(part, _both, len(base.Z), "fold")
    return rows if start is None else _both(start, rows)


@torch.no_grad()
def _triangle(packs: Iterator[PackedSites], *, base: Basis, mean: float, marginal: bool) -> CentredRows:
    """Of some sites."""
    if marginal:
        return _stacked((centre(project(base, packed).rows(marginal=True), mean) for packed in packs), base)
    prior: list[Tensor] = []  # tr R_kᵀK_kkR_k, summed over sites
    rows = _stacked((_observed(observe(base, packed), mean, prior) for packed in packs), base)
    return whiten(rows, base.L, torch.stack(prior).sum())


def _observed(said: Projection, mean: float, prior: list[Tensor]) -> CentredRows:
    """Rows before they are whitened, which those of the one triangle are; their slack is found there, too."""
    prior.append(said.RKR.diagonal(dim1=-2, dim2=-1).sum())
    rho = said.rho - mean * said.ones
    return CentredRows(said.H.flatten(0, 1), rho.flatten(), said.e.sum(), torch.zeros_like(prior[0]))


def _stacked(several: Iterator[CentredRows], base: Basis) -> CentredRows:
    """One triangle of rows that come in parts, of which some are folded at once."""
    M = len(base.Z)
    most = max(16 * M, int(memory_factor(base.Z.device) * NUMBERS / M))  # rows
    parts: list[CentredRows] = []
    height = 0
    for rows in several:
        if parts and height + len(rows.rho) > most:
            parts = [compress(*parts)]
            height = len(parts[0].rho)
        parts.append(rows)
        height += len(rows.rho)
    return compress(*parts)


def _both(a: CentredRows, b: CentredRows) -> CentredRows:
    """One triangle of two."""
    return compress(a, b)
