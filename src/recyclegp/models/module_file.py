"""A module in its file: its record, and the site of each of its functions."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import torch
from torch import Tensor

from ..core.sites import Site
from ..errors import RecycleGPError
from ..likelihoods import MOST_FUNCTIONS
from ..record import Record
from ..storage.container import SCHEMA, Document
from ..storage.fields import UNITS, Fields, listed
from ..storage.making import ENSEMBLE, JOINT_ENSEMBLE, JOINT_MODULE, MODULE, made_from
from ..storage.record_json import (
    about_from_json,
    about_to_json,
    latent_from_json,
    latent_to_json,
    likelihoods_from_json,
    likelihoods_to_json,
)
from . import legacy_files
from .naming import check_name, check_owner


def to_document(record: Record) -> Document:
    """Tensors of function c are called c/name; points that all functions share are in the file once."""
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


def from_fields(f: Fields) -> Record:
    likelihoods = likelihoods_from_json(f.header["likelihoods"])
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
        about.categories.check_codes(site.Z)
        latents.append(latent_from_json(part, site, D, tuple(p.parts[c] for p in likelihoods)))
    return Record(about, likelihoods, tuple(latents))


def _points(f: Fields, c: int, dimension: int | None) -> Tensor:
    """Its own, or those that all functions share."""
    own = f"{c}/Z"
    return f.tensor("Z" if "Z" in f.tensors and own not in f.tensors else own, None, dimension)


def _site(f: Fields, c: int, dimension: int) -> Site:
    Z = _points(f, c, dimension)
    Rt = f.tensor(f"{c}/Rt", None, len(Z))
    if len(Z) == 0 or len(Rt) > len(Z):
        raise RecycleGPError(f"a site of {len(Rt)} rows on {len(Z)} points in {dimension}-D is not one")
    return Site(Z, Rt, f.tensor(f"{c}/rho", len(Rt)), f.tensor(f"{c}/e"))


def read_record(f: Fields, schema: int) -> Record:
    """Of a file of any schema that can be read."""
    return from_fields(f if schema == SCHEMA else legacy_files.module(f))


MAKERS: dict[tuple[int, str], Callable[[Fields], Record]] = {
    (1, MODULE): lambda f: read_record(f, 1),
    (2, MODULE): lambda f: read_record(f, 2),
    (2, JOINT_MODULE): lambda f: read_record(f, 2),
    (SCHEMA, MODULE): from_fields,
}


def record_in(path: str | PathLike[str], document: Document) -> Record:
    """What a file of a module holds."""
    if document.header.get("kind") in (ENSEMBLE, JOINT_ENSEMBLE):
        raise RecycleGPError(
            f"{path}: it holds an ensemble, not a module; load it and save its to_module(name) to merge it again"
        )
    return made_from(path, document, MAKERS)
