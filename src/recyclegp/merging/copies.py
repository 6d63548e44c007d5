"""The same module under another name: what it says has been said already, and counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch

from ..core.sites import Site
from .member import Member, Members
from .site_source import SiteSource

Key = tuple[object, ...]


def copies(members: Sequence[Member], store: SiteSource) -> dict[int, int]:
    """By positions: which members are copies of which earlier ones, with the same function and the same site.

    Rows, mean and kernel of two fits are hardly ever equal to the last digit, so that few sites must be looked at.
    """
    means = Members.of(members).means
    if len(set(means)) == len(means):  # as nearly always
        return {}
    counted = [i for i, m in enumerate(members) if m.weight > 0 and not m.update]
    doubtful = _several(counted, [(m.function, m.latent.rows, m.latent.mean) for m in (members[i] for i in counted)])
    doubtful = _several(doubtful, [_key(members[i]) for i in doubtful])
    if not doubtful:
        return {}
    first: dict[Key, int] = {}
    found = {}
    for i, site in sorted(_sites(set(doubtful), members, store), key=lambda pair: pair[0]):
        original = first.setdefault((*_key(members[i]), *_bytes(site)), i)
        if original != i:
            found[i] = original
    return found


def _several(some: Sequence[int], keys: Sequence[Key]) -> list[int]:
    """Those of which another one has the same key."""
    count = Counter(keys)
    return [i for i, key in zip(some, keys, strict=True) if count[key] > 1] if len(count) < len(keys) else []


def is_same(one: Member, other: Member) -> bool:
    """Is one a copy of the other? Not known where sites are not kept."""
    a, b = one.site, other.site
    return a is not None and b is not None and _key(one) == _key(other) and _bytes(a) == _bytes(b)


def _key(m: Member) -> Key:
    return m.function, m.rows, m.mean, m.kernel.structure, tuple(m.kernel.theta.tolist())


def _sites(wanted: set[int], members: Sequence[Member], store: SiteSource) -> Iterator[tuple[int, Site]]:
    if all(members[i].site is not None for i in wanted):
        return ((i, members[i].latent.known_site) for i in sorted(wanted))
    return ((i, site) for i, site in store.each() if i in wanted)


def _bytes(site: Site) -> tuple[bytes, ...]:
    return tuple(
        t.detach().to("cpu", torch.float64).contiguous().numpy().tobytes() for t in (site.Z, site.rho, site.Rt)
    )
