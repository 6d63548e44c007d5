"""Who may see the page of a hub: its address holds a token. One is the coordinator's; each other person has an own one.

That of a person is made from its key, so that it needs no list, and opens nothing any more once that person has left.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from enum import Enum
from pathlib import Path

from .folder import read_json, write_json
from .registry import Person, Registry, Role, Standing

KEY, PROOF = 32, 16  # bytes of a person's token: the public key, and that this hub has given it


class Access(Enum):
    """What somebody may do on the page."""

    EVERYTHING = "everything"  # also download, and try out who counts
    LOOK = "look"


class PageTokens:
    """Made at the first start, and kept in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        found = read_json(path) or {}
        made = {"token": secrets.token_urlsafe(24), "look": secrets.token_urlsafe(24)} | found
        if made != found:
            write_json(path, made)
            path.chmod(0o600)
        self.coordinator = str(made["token"])
        self._secret = str(made["look"]).encode()

    def of(self, person: Person) -> str:
        if person.role is Role.COORDINATOR:
            return self.coordinator
        return base64.urlsafe_b64encode(person.key + self._proof(person.key)).decode()

    def access(self, given: str, registry: Registry) -> Access | None:
        """None for a token that is wrong, or of somebody who is not in any more."""
        if secrets.compare_digest(given.encode("utf-8", errors="replace"), self.coordinator.encode()):
            return Access.EVERYTHING
        try:
            content = base64.b64decode(given.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            return None
        key, proof = content[:KEY], content[KEY:]
        if not secrets.compare_digest(proof, self._proof(key)):
            return None
        person = registry.get(key)
        return Access.LOOK if person is not None and person.standing is Standing.IN else None

    def _proof(self, key: bytes) -> bytes:
        return hmac.new(self._secret, key, hashlib.sha256).digest()[:PROOF]
