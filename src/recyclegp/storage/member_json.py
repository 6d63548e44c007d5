"""A member of an ensemble in files: the record of its module, and a line for each thing that merging has found out."""

from __future__ import annotations

from typing import Any

from ..arrays import Columns
from ..categories import Categories
from ..core.sites import Site
from ..merging.member import Member
from . import facts
from .container import Header
from .facts import At
from .fields import fields
from .member_state import STATE
from .record_json import (
    latent_from_json,
    latent_to_json,
    likelihoods_from_json,
    likelihoods_to_json,
    words_from_json,
    words_to_json,
)


def member_to_json(m: Member, dimension: int) -> Header:
    """`site` is how many points and rows its site has, where that is kept."""
    return {
        **words_to_json(m.about),
        **latent_to_json(m.latent, dimension),
        "likelihoods": likelihoods_to_json(m.likelihoods),
        **({} if m.site is None else {"site": [len(m.site.Z), len(m.site.rho)]}),
        **facts.to_json(m, STATE, At(dimension)),
    }


def member_from_json(entry: Any, site: Site | None, dimension: int, columns: Columns, categories: Categories) -> Member:
    found = fields(entry, "a module")
    about = likelihoods_from_json(found["likelihoods"])
    return Member(
        about=words_from_json(found, columns, categories),
        latent=latent_from_json(found, site, dimension, about),
        likelihoods=about,
        **facts.from_json(found, STATE, At(dimension)),
    )
