"""Whose modules are whose, and how much owners may differ."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import torch

from ..core import sites
from ..core.effects import Effects
from ..core.sites import Site
from .constants import EFFECTS
from .member import Member, Members
from .site_source import SiteSource
from .site_store import SiteStore


class Owners(Enum):
    """How owners' functions may differ from the shared one."""

    NONE = "none"  # they do not: one function for all
    OFFSET = "offset"  # each by a constant of its own
    SMOOTH = "smooth"  # each by a constant and a smooth function of its own
    AUTO = "auto"  # as much as the evidence asks for

    @property
    def candidates(self) -> tuple[Owners, ...]:
        """The models to be compared, from the simplest on."""
        return (Owners.NONE, Owners.OFFSET, Owners.SMOOTH) if self is Owners.AUTO else (self,)

    def price(self, owners: int, *, approximate: bool) -> float:
        """Nats by which a model with such effects must be better, for so many owners to be told apart.

        Owners in adjoining regions, and small ones who took their noise for signal, look a little different from each
        other also where they are not; a gain must exceed what they can pretend. Where likelihoods are approximated,
        those of classes and counts, sites say less of an owner's constant than its rows do: each was made about what
        its owner alone took f for.
        """
        least, for_few = EFFECTS.smooth_gain if self is Owners.SMOOTH else EFFECTS.offset_gain
        if approximate and self is Owners.OFFSET:
            least = EFFECTS.approximate_offset_gain
        return least + for_few / owners**2


class OwnedSite(NamedTuple):
    site: Site
    owner: int  # its number


def approximated(members: Sequence[Member]) -> bool:
    """Do members that count speak of classes or counts, of which a site is no more than an approximation?"""
    every = Members.of(members)
    families = set(every.families)
    if every.counted is not every:
        families = {type(p) for m in every.counted for p in m.likelihoods}
    return any(not (family.conjugate or family.has_units) for family in families)


def owner_numbers(members: Sequence[Member]) -> list[int]:
    """For each member the number of its owner, counted as they first appear; an owner has one for each function."""
    return Members.of(members).owner_numbers


def stack_sites(parts: Sequence[Site]) -> Site:
    """Several sites of one owner as one site at all their points."""
    if len(parts) == 1:
        return parts[0]
    return Site(
        torch.cat([s.Z for s in parts]),
        torch.block_diag(*(s.Rt for s in parts)),
        torch.cat([s.rho for s in parts]),
        torch.stack([s.e for s in parts]).sum(),
    )


def owner_site(members: Sequence[Member], owner: str, function: int | None = None) -> Site | None:
    """All that an owner's modules say, of one function or of all, weighted, as one site; None where it was not kept."""
    own = [m for m in members if m.owner == owner and function in (None, m.function) and m.weight > 0]
    now = [(m.site_now, m.weight) for m in own]
    kept = [sites.weighted(site, site.e.new_tensor(weight)) for site, weight in now if site is not None]
    return stack_sites(kept) if kept and len(kept) == len(own) else None


def by_owner(store: SiteSource, numbers: Sequence[int], effects: Effects) -> SiteSource:
    """One site for each owner, under the position of the owner's first member; the store itself if that is so.

    `numbers` are those of the owners, for each position in the store. What is an owner's own is integrated out of all
    its modules together; without effects there is nothing to integrate out, and sites stay as they are.
    """
    if not effects.present or not store.points or len(set(numbers)) == len(numbers):
        return store
    found: dict[int, list[tuple[int, Site]]] = {}
    for member, site in store.each():
        found.setdefault(numbers[member], []).append((member, site))
    whole = SiteStore()
    for own in found.values():
        own.sort(key=lambda pair: pair[0])
        whole.put(stack_sites([site for _, site in own]), 1.0, own[0][0])
    return whole
