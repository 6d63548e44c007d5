"""Who may do what: public keys, the names that belong to them, and their roles. One small file for each key.

A name belongs to the key that registers it first, for ever: also of an owner who has left, so that nobody can come back
in its place. Names that look alike but for case are the same name.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import unicodedata
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..models.naming import NEW
from ..storage import strict_json
from ..storage.atomic import write_atomically
from .protocol import RefusedError, fingerprint

SUFFIX = ".json"


class Role(Enum):
    COORDINATOR = "coordinator"  # lets owners in, starts rounds, reads the log
    OWNER = "owner"  # has a module here
    READER = "reader"  # may fetch the merged model


class Standing(Enum):
    WAITING = "waiting"  # for the coordinator
    IN = "in"
    OUT = "out"  # has left, or was expelled; its name stays its own


class Admission(Enum):
    """How a key becomes an owner."""

    INVITED = "invited"  # with a token that the coordinator has given away
    APPROVED = "approved"  # when the coordinator says so
    OPEN = "open"  # whoever asks


class Person(NamedTuple):
    """A key, and what it may do."""

    key: bytes  # 32, public
    name: str
    role: Role
    standing: Standing
    since: float  # seconds since 1970

    @property
    def id(self) -> str:
        """Short, for file names and for people."""
        return fingerprint(self.key)


class Registry:
    """Files, and the same in memory."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder / "people", most
        self._invitations = folder / "invitations"
        for each in (self._folder, self._invitations):
            each.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._by_key: dict[bytes, Person] = {}
        self._by_name: dict[str, bytes] = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            self._remember(_read(path))

    def get(self, key: bytes) -> Person | None:
        return self._by_key.get(key)

    def named(self, name: str) -> Person | None:
        key = self._by_name.get(same(name))
        return None if key is None else self._by_key[key]

    def all(self) -> list[Person]:
        return sorted(self._by_key.values(), key=lambda p: (p.since, p.name))

    def with_role(self, role: Role) -> list[Person]:
        return [p for p in self.all() if p.role is role and p.standing is Standing.IN]

    def put(self, person: Person) -> None:
        """On disk when this returns."""
        with self._lock:
            content = {
                "key": person.key.hex(),
                "name": person.name,
                "role": person.role.value,
                "standing": person.standing.value,
                "since": person.since,
            }
            write_atomically(self._folder / f"{person.key.hex()}{SUFFIX}", json.dumps(content, indent=1).encode())
            self._remember(person)

    def register(self, key: bytes, name: str, invitation: str | None, admission: Admission, now: float) -> Person:
        """The key with this name, let in or waiting. Asking again changes nothing.

        Raises:
            RefusedError: The name is somebody else's, the key has another, or the invitation is not good.
        """
        with self._lock:
            known = self.get(key)
            if known is not None and same(known.name) != same(name):
                raise RefusedError(f"this key is registered as {known.name!r}; use that name, or another key", 403)
            if known is not None and known.standing is not Standing.OUT:
                if known.standing is Standing.WAITING and invitation is not None:
                    return self._let_in(known, invitation)
                return known
            held = self.named(name)
            if held is not None and held.key != key:
                raise RefusedError(f"{name!r} is the name of another key; choose another name", 403)
            if name == NEW:
                raise RefusedError(f"{NEW!r} is somebody nobody has met; choose another name", 403)
            if len(self._by_key) >= self._most:
                raise RefusedError(f"there are {self._most:,} owners already; ask the coordinator", 403)
            person = Person(key, name, Role.OWNER, Standing.WAITING, now)
            if invitation is not None:
                return self._let_in(person, invitation)
            if admission is Admission.INVITED:
                raise RefusedError("an invitation is needed; ask the coordinator, and give it with --invitation", 403)
            if admission is Admission.OPEN and known is None:  # who was expelled does not come back by asking
                person = person._replace(standing=Standing.IN)
            self.put(person)
            return person

    def change(self, name: str, standing: Standing) -> Person:
        """Approved, or gone."""
        with self._lock:
            person = self.named(name)
            if person is None:
                raise RefusedError(f"nobody here is called {name!r}", 404)
            person = person._replace(standing=standing)
            self.put(person)
            return person

    # --- invitations ---

    def invite(self, role: Role) -> str:
        """A token that lets one key in, once. Only its hash stays here."""
        token = secrets.token_hex(16)
        write_atomically(self._invitations / _hash(token), role.value.encode())
        return token

    def _let_in(self, person: Person, invitation: str) -> Person:
        path = self._invitations / _hash(invitation)
        try:
            role = Role(path.read_text("ascii"))
        except (OSError, ValueError):
            raise RefusedError(
                "this invitation is not good, or was used; ask the coordinator for another", 403
            ) from None
        admitted = person._replace(role=role, standing=Standing.IN)
        self.put(admitted)  # first: a crash between the two lets in one who was invited, and loses nobody
        path.unlink(missing_ok=True)
        return admitted

    def _remember(self, person: Person) -> None:
        self._by_key[person.key] = person
        self._by_name[same(person.name)] = person.key


def same(name: str) -> str:
    """Names are compared in this form."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def _hash(token: str) -> str:
    return hashlib.sha256(f"recyclegp invitation {token}".encode()).hexdigest()


def _read(path: Path) -> Person:
    try:
        found: dict[str, Any] = strict_json.parsed(path.read_text("utf-8"))
        key = bytes.fromhex(found["key"])
        person = Person(
            key, str(found["name"]), Role(found["role"]), Standing(found["standing"]), float(found["since"])
        )
        if len(key) != 32 or path.name != f"{key.hex()}{SUFFIX}":
            raise ValueError("another key")
        return person
    except (ValueError, KeyError, TypeError) as broken:
        raise RecycleGPError(f"{path}: not a file of this hub ({broken}); put it back from a copy") from None
