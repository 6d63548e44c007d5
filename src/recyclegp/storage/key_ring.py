"""Who has which key: an owner is bound to the key with which a file of that owner was first signed.

A ring is a JSON file of whoever merges. It also remembers the newest version of each module that it has seen, so that
an older file, honestly signed, cannot come back in place of a newer one. docs/schema.md describes the file.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from . import signing, strict_json
from .atomic import locked, write_atomically
from .signing import Signature

FORMAT = 1
LARGEST = 2**26  # bytes
OTHERS_WRITE = 0o022  # permissions that a ring must not give


class Claim(NamedTuple):
    """What a file says of one of its modules."""

    owner: str
    name: str


class Seen(NamedTuple):
    """The newest file of a module."""

    version: int
    content_id: str


class Binding(NamedTuple):
    """An owner's key, and the newest of each of its modules."""

    public_key: bytes
    modules: Mapping[str, Seen]


@dataclass(frozen=True)
class KeyRing:
    """Owners and their keys."""

    owners: Mapping[str, Binding] = field(default_factory=dict)

    def with_file(self, path: Path, claims: Iterable[Claim], found: Signature) -> KeyRing:
        """With what a signed file says, where that is nothing that contradicts what is known."""
        if found.version is None:
            raise RecycleGPError(f"{path}: its signature has no version, as earlier ones; ask for it to be signed anew")
        owners = dict(self.owners)
        for owner, name in claims:
            bound = owners.get(owner, Binding(found.public_key, {}))
            _check_key(path, owner, bound.public_key, found.public_key)
            before = bound.modules.get(name)
            _check_version(path, name, before, found)
            newest = found.version if before is None else max(before.version, found.version)
            owners[owner] = bound._replace(modules={**bound.modules, name: Seen(newest, found.content_id)})
        return KeyRing(owners)

    def bound(self, owner: str, public_key: bytes) -> KeyRing:
        """With an owner's key, told by the owner beforehand."""
        known = self.owners.get(owner)
        if known is not None and known.public_key != public_key:
            raise RecycleGPError(
                f"{owner!r} is bound to another key ({short(known.public_key)}); forget that one first, if its owner "
                "has told you so"
            )
        return KeyRing({**self.owners, owner: known or Binding(public_key, {})})

    def without(self, owner: str) -> KeyRing:
        if owner not in self.owners:
            raise RecycleGPError(f"{owner!r} is not in the key ring; it knows {', '.join(self.owners) or 'nobody'}")
        return KeyRing({name: bound for name, bound in self.owners.items() if name != owner})

    def owners_of(self, public_key: bytes) -> list[str]:
        return [owner for owner, bound in self.owners.items() if bound.public_key == public_key]


def _check_key(path: Path, owner: str, known: bytes, found: bytes) -> None:
    if known != found:
        raise RecycleGPError(
            f"{path}: it claims to be of {owner!r}, whose key is {short(known)}, and is signed with {short(found)}; "
            f"ask {owner!r} by another way, and if the key has changed, forget the old one (command keys) first"
        )


def _check_version(path: Path, name: str, known: Seen | None, found: Signature) -> None:
    assert found.version is not None
    if known is None or found.version > known.version or found.content_id == known.content_id:
        return
    if found.version == known.version:
        raise RecycleGPError(
            f"{path}: another file of {name!r} has the same version {found.version}; ask for both anew"
        )
    raise RecycleGPError(
        f"{path}: version {found.version} of {name!r} is older than {known.version}, which was merged before; ask for "
        "the newest one"
    )


def short(public_key: bytes) -> str:
    """So that people can compare it."""
    return public_key.hex()[:16]


# --- the file -------------------------------------------------------------------------------------


def load(path: Path) -> KeyRing:
    """The ring in a file; an empty one where there is none yet."""
    if not path.exists():
        return KeyRing()
    if os.name == "posix" and path.stat().st_mode & OTHERS_WRITE:
        raise RecycleGPError(f"{path}: others may write to this key ring; allow it to yourself alone (chmod 644)")
    content = signing.small(path, LARGEST)
    try:
        found = strict_json.parsed(content.decode())
        if (
            not isinstance(found, dict)
            or set(found) != {"recyclegp_keys", "owners"}
            or found["recyclegp_keys"] != FORMAT
        ):
            raise ValueError("other fields")
        return KeyRing({owner: _binding(entry) for owner, entry in found["owners"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        if isinstance(broken, RecycleGPError):
            raise
        raise RecycleGPError(f"{path}: not a key ring as `recyclegp keys` writes it; name another file") from None


def save(path: Path, ring: KeyRing) -> None:
    """All or nothing. Nobody else may write to a new one, whatever the umask: `load` would refuse it."""
    owners = {
        owner: {
            "public_key": base64.b64encode(bound.public_key).decode(),
            "modules": {
                name: {"version": seen.version, "content_id": f"sha256:{seen.content_id}"}
                for name, seen in sorted(bound.modules.items())
            },
        }
        for owner, bound in sorted(ring.owners.items())
    }
    content = json.dumps({"recyclegp_keys": FORMAT, "owners": owners}, indent=1) + "\n"
    write_atomically(path, content.encode(), withheld=OTHERS_WRITE)


@contextmanager
def changing(path: Path) -> Iterator[KeyRing]:
    """The ring, which nobody else changes meanwhile."""
    with locked(path):
        yield load(path)


def _binding(entry: Any) -> Binding:
    if set(entry) != {"public_key", "modules"}:
        raise ValueError("other fields")
    modules = {name: _seen(one) for name, one in entry["modules"].items()}
    return Binding(signing.of_base64(entry["public_key"], 32), modules)


def _seen(entry: Any) -> Seen:
    if set(entry) != {"version", "content_id"}:
        raise ValueError("other fields")
    return Seen(signing.version_of(entry["version"]), signing.digest_of(entry["content_id"]))
