"""An ensemble in its file: the form, the members, and all their sites behind one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.least_squares import CentredRows
from ..core.sites import Site
from ..errors import RecycleGPError
from ..kernels.file_form import from_json, to_json
from ..likelihoods import Likelihood
from ..merging.member import Member
from ..merging.points_form import PointsForm
from ..storage.container import Document
from ..storage.fields import (
    UNITS,
    Fields,
    convergence_from_json,
    count,
    likelihoods_from_json,
    likelihoods_to_json,
    number,
    target_from_json,
    target_to_json,
)
from .naming import check_name

AUTO = "auto"  # points were chosen automatically


class Facts(NamedTuple):
    """All that an ensemble is, in the order of its fields."""

    form: PointsForm
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    choice: int | str | None
    members: tuple[Member, ...]
    marginal: CentredRows
    convergence: Convergence
    traces_of_removed: int
    extent: Tensor | None


# --- writing ----------------------------------------------------------------------------------


def to_document(e: Facts) -> Document:
    """Fields that were added to the schema are written only where they say something."""
    form, dimension = e.form, e.form.Z.shape[1]
    header: dict[str, Any] = {
        "kind": "ensemble",
        "kernel": to_json(form.kernel, dimension),
        "mean": form.mean,
        "jitter": form.jitter,
        "likelihoods": likelihoods_to_json(e.likelihoods),
        "columns": None if e.columns is None else list(e.columns),
        "choice": e.choice,
        "units": UNITS,
        "members": [_member_header(m, dimension) for m in e.members],
    }
    if not e.convergence.converged:
        header["convergence"] = asdict(e.convergence)
    if e.traces_of_removed:
        header["traces_of_removed"] = e.traces_of_removed
    tensors = {"Z": form.Z, **_site_tensors(e.members, dimension)}
    for part, rows in (("bound", form.bound_rows), ("evidence", e.marginal)):
        tensors |= {f"{part}.{key}": value for key, value in rows._asdict().items()}
    if e.extent is not None:
        tensors["extent"] = e.extent
    return Document(header, tensors)


def _member_header(m: Member, dimension: int) -> dict[str, Any]:
    header = {
        "name": m.name,
        "rows": m.rows,
        "weight": m.weight,
        "likelihoods": likelihoods_to_json(m.likelihoods),
        "kernel": to_json(m.kernel, dimension),
        "mean": m.mean,
        "surprise": None if math.isnan(m.surprise) else m.surprise,
        "agreement": None if math.isnan(m.agreement) else m.agreement,
        "site": None if m.site is None else [len(m.site.Z), len(m.site.rho)],
        **target_to_json(m.target),
    }
    if not m.converged:
        header["converged"] = False
    if m.densities is not None:
        header["densities"] = m.densities
    if m.slack:
        header["slack"] = m.slack
    if m.appended:
        header["appended"] = m.appended
    return header


def _site_tensors(members: Sequence[Member], dimension: int) -> dict[str, Tensor]:
    """Thousands of small tensors would be thousands of headers."""
    kept = [m.site for m in members if m.site is not None]
    none = torch.zeros(0, dtype=torch.float64)
    return {
        "sites.Z": torch.cat([s.Z for s in kept]) if kept else none.reshape(0, dimension),
        "sites.Rt": torch.cat([s.Rt.flatten() for s in kept]) if kept else none,
        "sites.rho": torch.cat([s.rho for s in kept]) if kept else none,
        "sites.e": torch.stack([s.e for s in kept]) if kept else none,
    }


# --- reading ----------------------------------------------------------------------------------


def from_fields(f: Fields) -> Facts:
    Z = f.tensor("Z", None, None)
    M, D = Z.shape
    if M == 0 or D == 0:
        raise RecycleGPError("an ensemble needs at least one point")
    form = PointsForm(f.kernel(D), f.number("mean"), Z, f.number("jitter", least=0.0), _rows(f, "bound", M))
    ended = f.header.get("convergence")
    members = _members(f, D)
    if sum(m.appended for m in members) >= M:
        raise RecycleGPError("more points were appended than there are")
    return Facts(
        form=form,
        likelihoods=f.likelihoods(),
        columns=f.columns(D),
        choice=_choice(f.header["choice"]),
        members=members,
        marginal=_rows(f, "evidence", M),
        convergence=NOTHING_TO_LEARN if ended is None else convergence_from_json(ended),
        traces_of_removed=count(f.header.get("traces_of_removed", 0), "traces_of_removed"),
        extent=f.tensor("extent", 2, D) if "extent" in f.tensors else None,
    )


def _rows(f: Fields, part: str, M: int) -> CentredRows:
    H = f.tensor(f"{part}.H", None, M)
    return CentredRows(H, f.tensor(f"{part}.rho", len(H)), f.tensor(f"{part}.e"), f.tensor(f"{part}.slack"))


def _choice(choice: Any) -> int | str | None:
    if choice is None or choice == AUTO or (type(choice) is int and choice > 0):
        found: int | str | None = choice
        return found
    raise RecycleGPError(f"choice is {str(choice)[:50]}, neither a number of points nor 'auto'")


def _members(f: Fields, D: int) -> tuple[Member, ...]:
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
            target=target_from_json(e),
            converged=e.get("converged") is not False,
            densities=None if e.get("densities") is None else number(e["densities"], "densities", 0.0),
            slack=number(e.get("slack", 0.0), "slack", 0.0),
            appended=count(e.get("appended", 0), "appended"),
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
