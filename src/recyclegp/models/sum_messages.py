"""Messages of a secure sum: bytes that any channel carries. A line that says what it is, a header in JSON, numbers.

Whatever comes from elsewhere is read here, and is either what it should be or one error.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import RecycleGPError, printable
from ..plans.masking import WORD
from ..plans.shamir import BYTES
from ..storage import strict_json
from .naming import check_name

MAGIC = b"recyclegp secure sum 1\n"
LONGEST_HEADER = 2**26  # bytes
MOST_OWNERS = 1000
KEY = 32  # bytes of a public key
SESSION = 16  # bytes that name one sum
SEALED = 2 * BYTES + 12 + 16  # bytes of two shares, with nonce and tag


class Message(NamedTuple):
    kind: str
    session: bytes
    sender: str  # an owner's name; empty: the coordinator
    said: dict[str, Any]
    numbers: np.ndarray  # (n,) words


def packed(kind: str, session: bytes, sender: str, said: Mapping[str, Any], numbers: np.ndarray | None = None) -> bytes:
    """As bytes."""
    head = {"kind": kind, "session": session.hex(), "sender": sender, "said": dict(said)}
    text = json.dumps(head, sort_keys=True).encode()
    words = b"" if numbers is None else numbers.astype(WORD).tobytes()
    return MAGIC + len(text).to_bytes(8, "little") + text + words


def read(data: bytes) -> Message:
    """What bytes say; an error where they are no message."""
    try:
        return _read(bytes(data))
    except RecycleGPError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as broken:
        raise RecycleGPError(
            f"this is no message of a secure sum ({printable(repr(broken), 200)}); ask for it again"
        ) from None


def _read(data: bytes) -> Message:
    begin = len(MAGIC) + 8
    if not data.startswith(MAGIC) or len(data) < begin:
        raise ValueError("it does not begin as one")
    length = int.from_bytes(data[len(MAGIC) : begin], "little")
    if length > min(LONGEST_HEADER, len(data) - begin):
        raise ValueError("its header is longer than the message")
    head = strict_json.parsed(data[begin : begin + length].decode())
    if set(head) != {"kind", "session", "sender", "said"} or not isinstance(head["said"], dict):
        raise ValueError("its header has other fields")
    rest = data[begin + length :]
    if len(rest) % 8 or not isinstance(head["kind"], str) or not isinstance(head["sender"], str):
        raise ValueError("it is cut short")
    if head["sender"]:
        check_name(head["sender"])
    session = bytes_of(head["session"], SESSION)
    return Message(head["kind"], session, head["sender"], head["said"], np.frombuffer(rest, WORD).astype(np.uint64))


def bytes_of(found: Any, size: int) -> bytes:
    """Exactly so many bytes, from hexadecimal digits."""
    if not isinstance(found, str) or len(found) != 2 * size:
        raise ValueError(f"{size} bytes are expected")
    return bytes.fromhex(found)


def sealed_to_text(sealed: bytes) -> str:
    return base64.b64encode(sealed).decode()


def sealed_of(found: Any) -> bytes:
    """An encrypted pair of shares."""
    try:
        sealed = base64.b64decode(found, validate=True)
    except (binascii.Error, TypeError):
        raise ValueError("a sealed share is not base64") from None
    if len(sealed) != SEALED:
        raise ValueError("a sealed share has another length")
    return sealed


def names_of(found: Any) -> tuple[str, ...]:
    """Distinct names, in order."""
    if not isinstance(found, list) or not 2 <= len(found) <= MOST_OWNERS or len(set(found)) < len(found):
        raise ValueError(f"2 to {MOST_OWNERS} different names are expected")
    for name in found:
        check_name(name)
    return tuple(found)


def by_name(found: Any, read_one: Any) -> dict[str, Any]:
    """Something of everybody."""
    if not isinstance(found, dict) or len(found) > MOST_OWNERS:
        raise ValueError("something of each owner is expected")
    for name in found:
        check_name(name)
    return {name: read_one(value) for name, value in found.items()}
