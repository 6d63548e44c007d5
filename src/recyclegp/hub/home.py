"""What an owner keeps: a folder with its keys, the hub it has joined, its module and what has come back."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import printable
from ..storage.atomic import write_atomically
from ..storage.signing import PRIVATE, make_keys, private_key
from .folder import Facts, locked, read_json, write_json
from .protocol import RefusedError, fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Home:
    """One owner in one hub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = folder / "module.safetensors"
        self.merged = folder / "merged.safetensors"
        self.receipt = folder / "receipt.json"
        self.log = folder / "log.txt"
        self._facts = folder / "joined.json"

    def answer(self, plan: str) -> Path:
        """A private answer to a plan, by its digest."""
        return self.folder / f"answer-{plan[:16]}.safetensors"

    def make(self) -> None:
        """For nobody else to look into."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "posix":
            self.folder.chmod(0o700)

    def key(self) -> Ed25519PrivateKey:
        """Made when it is first needed; only the user may read its file."""
        path = self.folder / f"key{PRIVATE}"
        if not path.exists():
            make_keys(self.folder / "key")
        return private_key(path)

    def known(self) -> Facts:
        """What was written down before: address, hub, name, and how far joining has come."""
        return read_json(self._facts) or {}

    def note(self, **facts: Any) -> None:
        write_json(self._facts, {**self.known(), **facts})

    def tell(self, text: str) -> None:
        """A line in the log, for whoever asks the next morning; a disk that is full stops nobody."""
        line = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z  {printable(text)}\n"
        with suppress(OSError), open(self.log, "a", encoding="utf-8") as stream:
            stream.write(line)

    def hub(self) -> bytes | None:
        """The public key of the hub, as it was met first."""
        found = self.known().get("hub")
        return None if found is None else bytes.fromhex(found)

    def keep(self, path: Path, content: bytes) -> None:
        write_atomically(path, content)

    def lock(self) -> Any:
        """Two that join for one owner would disturb each other."""
        return locked(self.folder, "another `recyclegp join` is running here; stop it first")


def with_fingerprint(token: str, hub: bytes) -> str:
    """An invitation: it lets one in, and says which hub is meant."""
    return f"{token}-{fingerprint(hub)}"


def token_of(invitation: str, hub: bytes) -> str:
    """What a hub is sent of an invitation; nothing, if it is another hub."""
    token, _, meant = invitation.strip().partition("-")
    if meant and meant != fingerprint(hub):
        raise RefusedError(
            f"this invitation is to another hub ({meant}) than the one at this address ({fingerprint(hub)}); ask the "
            "coordinator for the address",
            403,
        )
    return token
