"""An ensemble's members in its file: a list in the header, and all their sites behind one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.sites import Site
from ..errors import RecycleGPError
from ..kernels.file_form import from_json, to_json
from ..merging.member import Member
from ..storage.fields import Fields, count, likelihoods_from_json, likelihoods_to_json, number
from .module import check_name


def headers(members: Sequence[Member], dimension: int) -> list[dict[str, Any]]:
    return [
        {
            "name": m.name,
            "rows": m.rows,
            "weight": m.weight,
            "likelihoods": likelihoods_to_json(m.likelihoods),
            "kernel": to_json(m.kernel, dimension),
            "mean": m.mean,
            "surprise": None if math.isnan(m.surprise) else m.surprise,
            "agreement": None if math.isnan(m.agreement) else m.agreement,
            "site": None if m.site is None else [len(m.site.Z), len(m.site.rho)],
        }
        for m in members
    ]


def site_tensors(members: Sequence[Member], dimension: int) -> dict[str, Tensor]:
    """Thousands of small tensors would be thousands of headers."""
    kept = [m.site for m in members if m.site is not None]
    none = torch.zeros(0, dtype=torch.float64)
    return {
        "sites.Z": torch.cat([s.Z for s in kept]) if kept else none.reshape(0, dimension),
        "sites.Rt": torch.cat([s.Rt.flatten() for s in kept]) if kept else none,
        "sites.rho": torch.cat([s.rho for s in kept]) if kept else none,
        "sites.e": torch.stack([s.e for s in kept]) if kept else none,
    }


def members(f: Fields, D: int) -> tuple[Member, ...]:
    entries = f.header["members"]
    for e in entries:
        check_name(e["name"])
    if not entries or len({e["name"] for e in entries}) < len(entries):
        raise RecycleGPError("the ensemble's modules are none, or two have the same name")
    sizes = [e["site"] for e in entries if e["site"] is not None]
    shapes = [(count(M, "points of a site"), count(r, "rows of a site")) for M, r in sizes]
    if any(M == 0 or r > M for M, r in shapes):
        raise RecycleGPError("a module's site has no points, or more rows than points")
    kept = iter(_sites(f, shapes, D))
    return tuple(
        Member(
            name=e["name"],
            site=None if e["site"] is None else next(kept),
            rows=count(e["rows"], "rows of a module", least=1),
            weight=number(e["weight"], "a weight", 0.0),
            likelihoods=likelihoods_from_json(e["likelihoods"]),
            kernel=from_json(e["kernel"], D),
            mean=number(e["mean"], "a mean"),
            surprise=math.nan if e["surprise"] is None else number(e["surprise"], "a surprise", 0.0),
            agreement=math.nan if e["agreement"] is None else number(e["agreement"], "an agreement", 0.0),
        )
        for e in entries
    )


def _sites(f: Fields, shapes: Sequence[tuple[int, int]], D: int) -> list[Site]:
    """Sites of (points, rows), which lie behind one another in the file."""
    Zs = f.tensor("sites.Z", sum(M for M, _ in shapes), D).split([M for M, _ in shapes])
    Rts = f.tensor("sites.Rt", sum(M * r for M, r in shapes)).split([M * r for M, r in shapes])
    rhos = f.tensor("sites.rho", sum(r for _, r in shapes)).split([r for _, r in shapes])
    es = f.tensor("sites.e", len(shapes))
    return [
        Site(Z.clone(), Rt.reshape(r, M).clone(), rho.clone(), e.clone())
        for (M, r), Z, Rt, rho, e in zip(shapes, Zs, Rts, rhos, es, strict=True)
    ]
