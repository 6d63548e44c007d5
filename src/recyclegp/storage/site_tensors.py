"""Many sites in a few tensors of a file: thousands of small tensors would be thousands of headers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.sites import Site
from .fields import Fields


def to_tensors(sites: Sequence[Site], dimension: int, part: str) -> dict[str, Tensor]:
    """One site behind the other."""
    none = torch.zeros(0, dtype=torch.float64)
    return {
        f"{part}.Z": torch.cat([s.Z for s in sites]) if sites else none.reshape(0, dimension),
        f"{part}.Rt": torch.cat([s.Rt.flatten() for s in sites]) if sites else none,
        f"{part}.rho": torch.cat([s.rho for s in sites]) if sites else none,
        f"{part}.e": torch.stack([s.e for s in sites]) if sites else none,
    }


def from_tensors(f: Fields, sizes: Sequence[tuple[int, int]], dimension: int, part: str) -> list[Site]:
    """Sites of so many points and rows each."""
    Zs = f.tensor(f"{part}.Z", sum(M for M, _ in sizes), dimension).split([M for M, _ in sizes])
    Rts = f.tensor(f"{part}.Rt", sum(M * r for M, r in sizes)).split([M * r for M, r in sizes])
    rhos = f.tensor(f"{part}.rho", sum(r for _, r in sizes)).split([r for _, r in sizes])
    es = f.tensor(f"{part}.e", len(sizes))
    return [
        Site(Z.clone(), Rt.reshape(r, M).clone(), rho.clone(), e.clone())
        for (M, r), Z, Rt, rho, e in zip(sizes, Zs, Rts, rhos, es, strict=True)
    ]
