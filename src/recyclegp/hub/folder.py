"""Where a hub keeps what it knows: files only, each written whole, so that it can be stopped at any moment."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import RecycleGPError
from ..storage import strict_json
from ..storage.atomic import write_atomically
from ..storage.signing import PRIVATE, make_keys, private_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Facts: TypeAlias = dict[str, Any]  # as JSON has them
SUFFIX = ".safetensors"


class Folder:
    """The places in a hub's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = root / "modules"  # the dictionary
        self.models = root / "models"  # merged ones, by content id
        self.rounds = root / "rounds"
        self.evaluations = root / "evaluations"
        self.receipts = root / "receipts"
        self.incoming = root / "incoming"  # what is not checked, or not complete yet
        self.current = root / "current.json"  # which model is served, and what it was made of
        self.audit = root / "audit.jsonl"
        self.nonces = root / "nonces.log"

    def make(self) -> None:
        """With nobody else looking in: invitations and the hub's key are here."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(self.incoming, ignore_errors=True)  # what was being sent when a hub was stopped
        for each in (self.modules, self.models, self.rounds, self.evaluations, self.receipts, self.incoming):
            each.mkdir(exist_ok=True, mode=0o700)

    def key(self, name: str) -> Ed25519PrivateKey:
        """A private key of this hub, made at its first start."""
        path = self.root / (name + PRIVATE)
        if not path.exists():
            make_keys(self.root / name)
        return private_key(path)

    def model(self, digest: str) -> Path:
        return self.models / f"{digest}{SUFFIX}"

    def lock(self) -> Any:
        """Two hubs in one folder would each do half of the work."""
        return locked(self.root, "a hub is running here already; stop it first")


def locked(folder: Path, otherwise: str) -> Any:
    """A stream that keeps others out of a folder as long as it is open; they are told `otherwise`."""
    stream = open(folder / ".lock", "ab")  # noqa: SIM115  open as long as the program runs
    if fcntl is not None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
            raise RecycleGPError(f"{folder}: {otherwise}") from None
    return stream


def read_json(path: Path) -> Facts | None:
    """Of a file of ours; None where there is none."""
    try:
        found = strict_json.parsed(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as broken:
        raise RecycleGPError(f"{path}: not a file of this hub ({broken}); put it back from a copy") from None
    if not isinstance(found, dict):
        raise RecycleGPError(f"{path}: not a file of this hub; put it back from a copy")
    return found


def write_json(path: Path, facts: Facts) -> None:
    write_atomically(path, (json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def moved(source: Path, target: Path) -> None:
    """A file that is complete gets its place, and keeps it in a power cut."""
    with open(source, "rb") as stream:
        os.fsync(stream.fileno())
    os.replace(source, target)
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
