"""What is agreed on before a secure sum, and what its messages are called."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from . import sum_messages as messages
from .sum_messages import KEY, SESSION

INVITATION, KEYS, SEALED, SURVIVORS = "invitation", "keys", "sealed", "survivors"  # from the coordinator
OWN_KEY, SHARES, MASKED, OPENED = "key", "shares", "masked", "opened"  # from owners
STAGES = (OWN_KEY, SHARES, MASKED, OPENED)


class Terms(NamedTuple):
    """What is agreed on before: who, about what, and how many must stay."""

    session: bytes  # random, never used again
    subject: str  # what is added up: a plan's digest, and what stands beside it
    names: tuple[str, ...]
    threshold: int  # owners who must stay to the end; fewer cannot open anything
    length: int  # how many numbers

    @staticmethod
    def new(subject: str, names: Sequence[str], threshold: int | None, count: int) -> Terms:
        """Two thirds of all, unless the threshold is given."""
        several = tuple(names)
        if len(several) < 2 or len(set(several)) < len(several) or len(several) > messages.MOST_OWNERS:
            raise RecycleGPError(
                f"names has {len(several)} entries; a secure sum is of 2 to {messages.MOST_OWNERS} different owners"
            )
        chosen = -(-2 * len(several) // 3) if threshold is None else threshold
        found = Terms(secrets.token_bytes(SESSION), subject, several, chosen, count)
        found.check()
        return found

    def check(self) -> None:
        """More than half: otherwise two halves could be asked different things."""
        K, t = len(self.names), self.threshold
        if isinstance(t, bool) or not isinstance(t, int) or not K // 2 < t <= K or t < 2:
            raise RecycleGPError(
                f"threshold is {t!r}; of {K} owners it must be more than half, at least 2, and at most {K}"
            )

    def invitation(self) -> bytes:
        said = {"subject": self.subject, "names": list(self.names), "threshold": self.threshold, "count": self.length}
        return messages.packed(INVITATION, self.session, "", said)

    @staticmethod
    def of(invitation: bytes) -> Terms:
        """As they came."""
        got = messages.read(invitation)
        if got.kind != INVITATION or got.sender or set(got.said) != {"subject", "names", "threshold", "count"}:
            raise RecycleGPError("this message is no invitation to a secure sum; ask the coordinator for it")
        subject, count = got.said["subject"], got.said["count"]
        try:
            names = messages.names_of(got.said["names"])
        except (ValueError, TypeError) as broken:
            raise RecycleGPError(f"this invitation is malformed ({broken}); ask for it again") from None
        if not isinstance(subject, str) or isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise RecycleGPError("this invitation is malformed; ask for it again")
        found = Terms(got.session, subject, names, got.said["threshold"], count)
        found.check()
        return found


class Keys(NamedTuple):
    seal: bytes  # public, for shares
    mask: bytes  # public, for masks


def keys_of(found: Any) -> Keys:
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError("two public keys are expected")
    return Keys(*(messages.bytes_of(key, KEY) for key in found))


def fingerprint(terms: Terms, keys: dict[str, Keys]) -> str:
    """The same at all owners, if everybody has been told the same keys: to be compared by another way."""
    found = hashlib.sha256(terms.invitation())
    for name in sorted(keys):
        found.update(name.encode() + b"\0" + keys[name].seal + keys[name].mask)
    return " ".join(found.hexdigest()[i : i + 4] for i in range(0, 24, 4))
