"""The digests inside a file: damage is found before anybody computes with it. docs/schema.md describes them.

`data_digests` are the SHA-256 of the tensors' bytes, one for each piece of `PIECE` bytes, so that a long file can be
checked while it is read. `head_digest` is that of all bytes before the tensors, among which `data_digests` are, with
zeros in its own place. A file that lost one of the two fields has the other: only earlier files have neither.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

from ..errors import RecycleGPError

HEAD, DATA = "head_digest", "data_digests"  # fields of the header
PIECE = 2**22  # bytes
ZEROS = "0" * 64
# Within the text of a text a quotation mark has one backslash: names that somebody chose would have more.
IN_HEAD = re.compile(rb'\\"' + HEAD.encode() + rb'\\": ?\\"([0-9a-f]{64})\\"')


def blank(size: int) -> dict[str, Any]:
    """The fields, without digests yet, for so many bytes of tensors."""
    return {HEAD: ZEROS, DATA: [ZEROS] * -(-size // PIECE)}


def fill(head: bytes, data: memoryview) -> bytes:
    """All that stands before the tensors, with the digests where `blank` has left room."""
    found = [of(data[start : start + PIECE]) for start in range(0, len(data), PIECE)]
    head = head.replace(_in_text([ZEROS] * len(found)), _in_text(found), 1)
    return replaced(IN_HEAD, head, of(head))


def check(where: re.Pattern[bytes], content: bytes) -> bool:
    """Whether there is a digest of this content in it; an error where the bytes are not those that were written."""
    found = where.search(content)
    if found is not None and of(replaced(where, content, ZEROS)) != found[1].decode():
        refuse()
    return found is not None


def replaced(where: re.Pattern[bytes], content: bytes, digest: str) -> bytes:
    """The content with another digest of itself."""
    found = where.search(content)
    assert found is not None
    return content[: found.start(1)] + digest.encode() + content[found.end(1) :]


def of_pieces(header: dict[str, Any], checked: bool, size: int) -> list[str] | None:
    """The digests of so many bytes of tensors; None for an earlier file."""
    found = header.get(DATA)
    if not checked and found is None and HEAD not in header:
        return None
    if not checked or not isinstance(found, list) or len(found) != -(-size // PIECE):
        refuse()
    return found


def of(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def refuse() -> NoReturn:
    raise RecycleGPError(
        "damaged: its bytes are not those that were written (their SHA-256 differs); ask its owner to send it again"
    )


def _in_text(digests: list[str]) -> bytes:
    return json.dumps(json.dumps({DATA: digests})[1:-1])[1:-1].encode()
