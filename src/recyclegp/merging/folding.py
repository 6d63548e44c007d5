"""All sites of a store on one basis, folded into one triangle of rows."""

from __future__ import annotations

import torch

from ..core.least_squares import CentredRows, centre, compress, stack
from ..core.packing import project
from ..core.posterior import Basis
from ..devices import room
from .site_store import SiteStore

NUMBERS = 2**17  # in rows folded at once, unless that is few rows: more overflow the caches


@torch.no_grad()
def fold(
    base: Basis, store: SiteStore, mean: float, start: CentredRows | None = None, *, marginal: bool
) -> CentredRows:
    """Rows of every site, under those of `start`: with their slack, or with their residuals integrated out."""
    M = len(base.Z)
    most = max(16 * M, int(room(base.Z.device) * NUMBERS / M))  # rows
    parts, height = ([], 0) if start is None else ([start], len(start.rho))
    for packed in store.packs(M):
        rows = centre(project(base, packed).rows(marginal=marginal), mean)
        if parts and height + len(rows.rho) > most:
            parts = [_folded(parts)]
            height = len(parts[0].rho)
        parts.append(rows)
        height += len(rows.rho)
    return _folded(parts)


def _folded(parts: list[CentredRows]) -> CentredRows:
    return compress(parts[0] if len(parts) == 1 else stack(parts))
