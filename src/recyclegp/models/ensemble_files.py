"""An ensemble in its file: the form, the members, and all their sites behind one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays
from ..categories import Categories
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.effects import Effects, Offset
from ..core.least_squares import CentredRows
from ..core.sites import Site
from ..core.stacked import stack
from ..errors import RecycleGPError
from ..kernels import Kernel, parse
from ..kernels.file_form import from_json, to_json
from ..likelihoods import Likelihood
from ..local.kernel_choice import AUTO as KERNEL_AUTO
from ..merging.build import Form
from ..merging.exact_form import ExactForm
from ..merging.input_units import MOST_CHANGED
from ..merging.member import Member, stored
from ..merging.merge_config import MergeConfig
from ..merging.noise import PooledNoise
from ..merging.owners import Owners, owner_numbers
from ..merging.points_form import PointsForm
from ..merging.pooling import discrete_columns
from ..merging.site_store import SiteStore
from ..merging.trust import Trust
from ..merging.verdicts import InputFactor, Standing, Units, Verdict
from ..storage import limits
from ..storage.container import Document
from ..storage.fields import (
    UNITS,
    Fields,
    categories_from_json,
    categories_to_json,
    convergence_from_json,
    count,
    fields,
    flag,
    kept_from_json,
    likelihoods_from_json,
    likelihoods_to_json,
    listed,
    noise_evidence_from_json,
    noise_evidence_to_json,
    number,
    positive,
    target_from_json,
    target_to_json,
    text,
    time_from_json,
)
from ..times import written
from .choice import ALL, AUTO
from .naming import check_name, check_owner
from .reading import LARGEST_WEIGHT
from .unlearning import Unlearned, unlearned_from_json, unlearned_to_json

EXACT, POINTS = "exact", "points"  # the forms


class Facts(NamedTuple):
    """All that an ensemble is, in the order of its fields."""

    form: Form  # with the rows that its evidence needs
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    choice: int | str | None
    members: tuple[Member, ...]
    convergence: Convergence
    unlearned: Unlearned
    extent: Tensor | None
    owners: Owners
    noise: PooledNoise | None
    recipe: MergeConfig
    categories: Categories


# --- writing ----------------------------------------------------------------------------------


def to_document(e: Facts) -> Document:
    """Fields that were added to the schema are written only where they say something."""
    form, dimension = e.form, e.form.Z.shape[1]
    limits.check_members(len(e.members))
    limits.check_points(len(form.Z))
    header: dict[str, Any] = {
        "kind": "ensemble",
        "kernel": to_json(form.kernel, dimension),
        "mean": form.mean,
        "jitter": form.jitter,
        "form": EXACT if isinstance(form, ExactForm) else POINTS,
        "owners": e.owners.value,
        "effects": {"offset": float(form.effects.offset), "smooth": float(form.effects.smooth)},
        "likelihoods": likelihoods_to_json(e.likelihoods),
        "columns": None if e.columns is None else list(e.columns),
        "choice": e.choice,
        "units": UNITS,
        "members": [_member_header(m, dimension) for m in e.members],
        **categories_to_json(e.categories),
    }
    if not e.convergence.converged:
        header["convergence"] = asdict(e.convergence)
    if e.noise is not None:
        freedom = float(e.noise.dof)
        header["noise"] = {"level": float(e.noise.level), "freedom": freedom if math.isfinite(freedom) else None}
    header |= unlearned_to_json(e.unlearned)
    if e.recipe != _recipe(None, form, e.members, dimension):
        header["recipe"] = _recipe_header(e.recipe, dimension)
    tensors = _site_tensors([m.site for m in e.members if m.site is not None], dimension, "sites")
    if isinstance(form, PointsForm):
        assert form.marginal is not None  # the evidence needs no sites
        tensors["Z"] = form.Z
        for part, rows in (("bound", form.bound_rows), ("evidence", form.marginal)):
            tensors |= {f"{part}.{key}": value for key, value in rows._asdict().items()}
    elif any(m.site is None for m in e.members):
        # without names an exact form still needs what the modules said
        owned = form.sites()
        header["anonymous"] = [[*reversed(o.site.Rt.shape), o.owner] for o in owned]
        tensors |= _site_tensors([o.site for o in owned], dimension, "anonymous")
    if e.extent is not None:
        tensors["extent"] = e.extent
    return Document(header, tensors)


def _recipe_header(recipe: MergeConfig, dimension: int) -> dict[str, Any]:
    kernel = to_json(recipe.kernel, dimension) if isinstance(recipe.kernel, Kernel) else recipe.kernel
    return {
        "kernel": kernel,
        "learn": recipe.learn,
        "pool_noise": recipe.pool_noise,
        "trust": recipe.trust.value,
    }


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
    if m.effective_rows is not None:
        header["densities"] = m.effective_rows
    if m.slack:
        header["slack"] = m.slack
    if m.points_appended:
        header["appended"] = m.points_appended
    if m.owner_override is not None:
        header["owner"] = m.owner_override
    if m.kept is not None:
        header["kept"] = m.kept
    if m.noise_evidence is not None:
        header["noise_evidence"] = noise_evidence_to_json(m.noise_evidence)
    if m.noise is not None:
        header["noise"] = m.noise
    if m.offset is not None:
        header["offset"] = [m.offset.mean, m.offset.sd]
    if m.verdict is not None:
        header["verdict"] = _verdict_header(m.verdict)
    if m.time is not None:
        header["time"] = written(m.time)
    later = {"came_later": m.added_after_merge, "update": m.update}
    return header | {key: True for key, is_so in later.items() if is_so}


def _verdict_header(v: Verdict) -> dict[str, Any]:
    header: dict[str, Any] = {"standing": v.standing.value}
    if v.reason:
        header["reason"] = v.reason
    if v.remedy is not None:
        header["remedy"] = {"scale": v.remedy.scale, "shift": v.remedy.shift}
        if v.remedy.inputs:
            header["remedy"]["inputs"] = [f._asdict() for f in v.remedy.inputs]
    if v.weight is not None:
        header["weight"] = v.weight
    return header


def _site_tensors(kept: Sequence[Site], dimension: int, part: str) -> dict[str, Tensor]:
    """Thousands of small tensors would be thousands of headers."""
    none = torch.zeros(0, dtype=torch.float64)
    return {
        f"{part}.Z": torch.cat([s.Z for s in kept]) if kept else none.reshape(0, dimension),
        f"{part}.Rt": torch.cat([s.Rt.flatten() for s in kept]) if kept else none,
        f"{part}.rho": torch.cat([s.rho for s in kept]) if kept else none,
        f"{part}.e": torch.stack([s.e for s in kept]) if kept else none,
    }


# --- reading ----------------------------------------------------------------------------------


def from_fields(f: Fields) -> Facts:
    kind = f.header.get("form", POINTS)
    if kind not in (EXACT, POINTS):
        raise RecycleGPError(f"the form is {str(kind)[:50]}, neither {EXACT!r} nor {POINTS!r}")
    D = f.tensor("sites.Z" if kind == EXACT else "Z", None, None).shape[1]
    members = _members(f, D)
    form = _exact_form(f, members, D) if kind == EXACT else _points_form(f, members, D)
    ended = f.header.get("convergence")
    return Facts(
        form=form,
        likelihoods=f.likelihoods(),
        columns=f.columns(D),
        choice=_choice(f.header["choice"]),
        members=members,
        convergence=NOTHING_TO_LEARN if ended is None else convergence_from_json(ended),
        unlearned=unlearned_from_json(f.header),
        extent=f.tensor("extent", 2, D) if "extent" in f.tensors else None,
        owners=Owners(f.header.get("owners", Owners.NONE.value)),
        noise=_noise(f.header.get("noise")),
        recipe=_recipe(f.header.get("recipe"), form, members, D),
        categories=categories_from_json(f.header, D, form.Z, *(m.site.Z for m in members if m.site is not None)),
    )


def _recipe(found: Any, form: Form, members: Sequence[Member], D: int) -> MergeConfig:
    """A file that does not say how it was made is relearned as merge does unless told, with its own structure."""
    if found is None:
        known = any(m.kernel.structure == form.kernel.structure for m in members)
        return MergeConfig(None if known else form.kernel)
    found = fields(found, "recipe")
    kernel = found["kernel"]
    if isinstance(kernel, str):
        if kernel != KERNEL_AUTO:
            parse(text(kernel, "a kernel"), D, discrete_columns(members))
    elif kernel is not None:
        kernel = from_json(kernel, D)
    trust = Trust(found.get("trust", Trust.LEARN.value))
    return MergeConfig(kernel, flag(found["learn"], "learn"), flag(found["pool_noise"], "pool_noise"), trust)


def _noise(found: Any) -> PooledNoise | None:
    if found is None:
        return None
    found = fields(found, "noise")
    freedom = found["freedom"]
    return PooledNoise(
        positive(found["level"], "a noise"),
        math.inf if freedom is None else positive(freedom, "degrees of freedom"),
    )


def _points_form(f: Fields, members: Sequence[Member], D: int) -> PointsForm:
    Z = f.tensor("Z", None, D)
    if len(Z) == 0:
        raise RecycleGPError("an ensemble needs at least one point")
    if sum(m.points_appended for m in members) >= len(Z):
        raise RecycleGPError("more points were appended than there are")
    return PointsForm(
        kernel=f.kernel(D),
        mean=f.number("mean"),
        Z=Z,
        jitter=f.number("jitter", least=0.0),
        bound_rows=_rows(f, "bound", len(Z)),
        effects=_effects(f),
        marginal=_rows(f, "evidence", len(Z)),
    )


def _exact_form(f: Fields, members: Sequence[Member], D: int) -> ExactForm:
    """Its factor is computed again: it is as large as all sites together, squared."""
    numbers = owner_numbers(members)
    if all(m.site is not None for m in members):
        store = stored(members)
    else:
        entries = listed(f.header["anonymous"], "anonymous", most=limits.MOST_MEMBERS)
        numbers = [count(owner, "an owner") for _, _, owner in entries]
        if not set(numbers) <= set(owner_numbers(members)):
            raise RecycleGPError("a site is of an owner who is not here")
        store = SiteStore()
        for i, site in enumerate(_sites(f, _shapes([[M, r] for M, r, _ in entries]), D, "anonymous")):
            store.put(site, 1.0, i)
    with store:
        limits.check_points(store.points)
        return ExactForm(f.kernel(D), f.number("mean"), stack(store.packs(1), numbers), _effects(f))


def _effects(f: Fields) -> Effects:
    found = fields(f.header.get("effects", {"offset": 0.0, "smooth": 0.0}), "effects")
    return Effects(number(found["offset"], "offset", 0.0), number(found["smooth"], "smooth", 0.0))


def _rows(f: Fields, part: str, M: int) -> CentredRows:
    H = f.tensor(f"{part}.H", None, M)
    return CentredRows(H, f.tensor(f"{part}.rho", len(H)), f.tensor(f"{part}.e"), f.tensor(f"{part}.slack"))


def _choice(choice: Any) -> int | str | None:
    if choice is None or choice in (AUTO, ALL) or (type(choice) is int and 0 < choice <= limits.MOST_POINTS):
        found: int | str | None = choice
        return found
    raise RecycleGPError(f"choice is {str(choice)[:50]}, neither a number of points nor 'auto' or 'all'")


def _members(f: Fields, D: int) -> tuple[Member, ...]:
    entries = listed(f.header["members"], "members", most=limits.MOST_MEMBERS)
    for e in entries:
        check_name(fields(e, "a module")["name"])
    if not entries or len({e["name"] for e in entries}) < len(entries):
        raise RecycleGPError("the ensemble's modules are none, or two have the same name")
    kept = iter(_sites(f, _shapes([e["site"] for e in entries if e["site"] is not None]), D, "sites"))
    return tuple(
        Member(
            name=e["name"],
            site=None if e["site"] is None else next(kept),
            rows=count(e["rows"], "rows of a module", least=1),
            weight=number(e["weight"], "a weight", 0.0, LARGEST_WEIGHT),
            likelihoods=likelihoods_from_json(e["likelihoods"]),
            kernel=from_json(e["kernel"], D),
            mean=number(e["mean"], "a mean"),
            surprise=math.nan if e["surprise"] is None else number(e["surprise"], "a surprise", 0.0),
            agreement=math.nan if e["agreement"] is None else number(e["agreement"], "an agreement", 0.0, 1.0),
            target=target_from_json(e),
            converged=flag(e.get("converged", True), "converged"),
            effective_rows=None if e.get("densities") is None else number(e["densities"], "densities", 0.0),
            slack=number(e.get("slack", 0.0), "slack", 0.0),
            points_appended=count(e.get("appended", 0), "appended"),
            owner_override=check_owner(e.get("owner")),
            kept=kept_from_json(e.get("kept")),
            noise_evidence=noise_evidence_from_json(e.get("noise_evidence"), likelihoods_from_json(e["likelihoods"])),
            noise=None if e.get("noise") is None else positive(e["noise"], "a noise"),
            offset=None if e.get("offset") is None else _offset(e["offset"]),
            verdict=None if e.get("verdict") is None else _verdict(fields(e["verdict"], "a verdict")),
            time=time_from_json(e.get("time")),
            added_after_merge=flag(e.get("came_later", False), "came_later"),
            update=flag(e.get("update", False), "update"),
        )
        for e in entries
    )


def _verdict(found: dict[str, Any]) -> Verdict:
    remedy, weight = found.get("remedy"), found.get("weight")
    reason = text(found.get("reason", ""), "the reason of a verdict")
    if not reason.isprintable():
        raise RecycleGPError("the reason of a verdict holds control characters")
    return Verdict(
        Standing(found["standing"]),
        reason,
        None if remedy is None else _units(fields(remedy, "a remedy")),
        None if weight is None else number(weight, "a weight", 0.0, LARGEST_WEIGHT),
    )


def _units(found: dict[str, Any]) -> Units:
    inputs = listed(found.get("inputs", []), "inputs of a remedy", most=MOST_CHANGED)
    changed = tuple(_input_factor(fields(entry, "an input of a remedy")) for entry in inputs)
    return Units(number(found["scale"], "a scale"), number(found["shift"], "a shift"), changed)


def _input_factor(found: dict[str, Any]) -> InputFactor:
    said, what = found["column"], "a column of a remedy"
    column = text(said, what) if isinstance(said, str) else count(said, what)
    return InputFactor(column, positive(found["scale"], "a scale"), number(found["shift"], "a shift"))


def _offset(found: Any) -> Offset:
    mean, sd = listed(found, "an offset", most=2)
    return Offset(number(mean, "an offset"), number(sd, "the sd of an offset", 0.0))


def _shapes(sizes: Sequence[Any]) -> list[tuple[int, int]]:
    shapes = [
        (count(M, "points of a site"), count(r, "rows of a site"))
        for M, r in (listed(size, "a site", most=2) for size in sizes)
    ]
    if any(M == 0 or r > M for M, r in shapes):
        raise RecycleGPError("a module's site has no points, or more rows than points")
    return shapes


def _sites(f: Fields, shapes: Sequence[tuple[int, int]], D: int, part: str) -> list[Site]:
    """Sites of (points, rows), which lie behind one another in the file."""
    Zs = f.tensor(f"{part}.Z", sum(M for M, _ in shapes), D).split([M for M, _ in shapes])
    Rts = f.tensor(f"{part}.Rt", sum(M * r for M, r in shapes)).split([M * r for M, r in shapes])
    rhos = f.tensor(f"{part}.rho", sum(r for _, r in shapes)).split([r for _, r in shapes])
    es = f.tensor(f"{part}.e", len(shapes))
    return [
        Site(Z.clone(), Rt.reshape(r, M).clone(), rho.clone(), e.clone())
        for (M, r), Z, Rt, rho, e in zip(shapes, Zs, Rts, rhos, es, strict=True)
    ]
