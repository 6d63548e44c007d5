"""Receipts: what a hub signs for an owner who has left, once the model has been learned without it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .folder import Facts, read_json, write_json
from .protocol import check_signature, decoded, raw

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def promise(folder: Path, facts: Facts) -> str:
    """Written down as soon as a module is gone, so that a hub that is stopped still owes it. Gives its id."""
    name = f"{facts['key'][:16]}-{int(facts['withdrawn'] * 1000):015d}"
    write_json(folder / f"{name}.json", {"receipt": facts, "signature": None})
    return name


def last_of(folder: Path, key: str) -> str | None:
    """The id of the newest one for this key, in hexadecimal digits."""
    found = sorted(folder.glob(f"{key[:16]}-*.json"))
    return found[-1].stem if found else None


def owed(folder: Path) -> list[tuple[Path, Facts]]:
    found = [(path, read_json(path) or {}) for path in sorted(folder.glob("*.json"))]
    return [(path, facts["receipt"]) for path, facts in found if facts and facts["signature"] is None]


def sign(path: Path, facts: Facts, key: Ed25519PrivateKey) -> None:
    """Complete, with what is true now."""
    whole = {**facts, "hub": raw(key).hex()}
    signature = base64.b64encode(key.sign(_message(whole))).decode()
    write_json(path, {"receipt": whole, "signature": signature})


def check(found: Mapping[str, Any], hub: bytes) -> None:
    """Is this a receipt of that hub?

    Raises:
        RefusedError: It is not.
    """
    signature = decoded(str(found.get("signature")), 64, "signature")
    check_signature(hub, signature, _message(found["receipt"]), "the receipt is not signed by this hub")


def _message(facts: Mapping[str, Any]) -> bytes:
    """What is signed. It says what for."""
    return b"recyclegp receipt 1\n" + json.dumps(facts, sort_keys=True, ensure_ascii=True, allow_nan=False).encode()
