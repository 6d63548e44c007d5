"""A module in its file: its record, and the site of each of its functions."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

from ..categories import Categories
from ..core.site import Site
from ..errors import RecycleGPError
from ..record import Latent, Record
from ..storage.container import SCHEMA, Document
from ..storage.fields import UNITS, Fields, listed
from ..storage.making import ENSEMBLE, JOINT_ENSEMBLE, JOINT_MODULE, MODULE, made_from
from ..storage.numbers import Numbers
from ..storage.record_json import (
    about_from_json,
    about_to_json,
    latent_from_json,
    latent_to_json,
    likelihoods_from_json,
    likelihoods_to_json,
)
from ..target import MOST_FUNCTIONS
from .naming import check_name, check_owner


def to_document(record: Record) -> Document:
    """Tensors of function c are called c/name; points that all functions share are in the file once."""
    import torch

    sites = [latent.known_site for latent in record.latents]
    tensors = {f"{c}/{name}": t for c, site in enumerate(sites) for name, t in site._asdict().items()}
    Z = sites[0].Z
    if all(torch.equal(Z, site.Z) for site in sites):
        tensors = {"Z": Z} | {name: t for name, t in tensors.items() if not name.endswith("/Z")}
    header = {
        "kind": MODULE,
        **about_to_json(record.about),
        "likelihoods": likelihoods_to_json(record.likelihoods),
        "units": UNITS,
        "parts": [latent_to_json(latent, Z.shape[1]) for latent in record.latents],
    }
    return Document(header, tensors)


class Makers(NamedTuple):
    """What fields become: what computes, or what can only be looked at."""

    likelihoods: Callable[[Any], tuple[Any, ...]]
    latent: Callable[[Any, Site, int, tuple[Any, ...]], Latent]  # with site, dimension and likelihoods


COMPUTING = Makers(likelihoods_from_json, latent_from_json)


def from_fields(f: Fields, make: Makers = COMPUTING) -> Record:
    likelihoods = make.likelihoods(f.header["likelihoods"])
    parts = listed(f.header["parts"], "parts", most=MOST_FUNCTIONS)
    if len(parts) != len(likelihoods[0].functions):
        raise RecycleGPError(f"{len(parts)} parts for {len(likelihoods[0].functions)} functions")
    D = _points(f, 0, None).shape[1]
    about = about_from_json(f.header, D, len(parts))
    check_name(about.name)
    check_owner(about.owner_override)
    latents = []
    for c, part in enumerate(parts):
        site = _site(f, c, D)
        _check_codes(about.categories, site.Z)
        latents.append(make.latent(part, site, D, tuple(p.parts[c] for p in likelihoods)))
    return Record(about, likelihoods, tuple(latents))


def _points(f: Fields, c: int, dimension: int | None) -> Any:
    """Its own, or those that all functions share."""
    own = f"{c}/Z"
    return f.tensor("Z" if "Z" in f.tensors and own not in f.tensors else own, None, dimension)


def _check_codes(categories: Categories, Z: Any) -> None:
    if isinstance(Z, Numbers):
        categories.check_columns(Z.column)
    else:
        categories.check_codes(Z)


def _site(f: Fields, c: int, dimension: int) -> Site:
    Z = _points(f, c, dimension)
    Rt = f.tensor(f"{c}/Rt", None, len(Z))
    if len(Z) == 0 or len(Rt) > len(Z):
        raise RecycleGPError(f"a site of {len(Rt)} rows on {len(Z)} points in {dimension}-D is not one")
    return Site(Z, Rt, f.tensor(f"{c}/rho", len(Rt)), f.tensor(f"{c}/e"))


def read_record(f: Fields, schema: int) -> Record:
    """Of a file of any schema that can be read."""
    from . import legacy_files

    return from_fields(f if schema == SCHEMA else legacy_files.module(f))


MAKERS: dict[tuple[int, str], Callable[[Fields], Record]] = {
    (1, MODULE): lambda f: read_record(f, 1),
    (2, MODULE): lambda f: read_record(f, 2),
    (2, JOINT_MODULE): lambda f: read_record(f, 2),
    (SCHEMA, MODULE): lambda f: read_record(f, SCHEMA),
}


def record_in(path: str | PathLike[str], document: Document) -> Record:
    """What a file of a module holds."""
    if document.header.get("kind") in (ENSEMBLE, JOINT_ENSEMBLE):
        raise RecycleGPError(
            f"{path}: it holds an ensemble, not a module; load it and save its to_module(name) to merge it again"
        )
    return made_from(path, document, MAKERS)
