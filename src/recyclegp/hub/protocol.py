"""What a signed request is, and a signed answer: canonical bytes, headers, and how both are verified.

A request says who asks (public key and name), what (method, path, digest of the body), when, and a nonce; and which hub
is meant (its public key), so that what was sent to one hub means nothing to another. All of it is signed with Ed25519.
An answer is signed by the hub together with the nonce of the request, so that it cannot be that to another one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from ..errors import RecycleGPError
from ..extras import install

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSION = "1"
HEADER = "x-recyclegp-"
KEY, NAME, TIME, NONCE, DIGEST, SIGNATURE = (
    HEADER + what for what in ("key", "name", "time", "nonce", "digest", "signature")
)
WINDOW = 300  # seconds that clocks may differ, and for which nonces are remembered
LONGEST_NAME = 200  # characters, as names of modules have it
_HEX_32, _HEX_64 = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{64}")
_SECONDS = re.compile(r"[0-9]{1,12}")


class RefusedError(RecycleGPError):
    """A request or an answer that is not what it says, with the status that HTTP has for it."""

    def __init__(self, words: str, status: int = 401) -> None:
        super().__init__(words)
        self.status = status


class Signed(NamedTuple):
    """All that a request says beside its body."""

    method: str
    path: str  # with what follows the question mark
    key: bytes  # 32, public, of whoever asks
    name: str
    time: int  # seconds since 1970
    nonce: str  # 32 hexadecimal digits
    digest: str  # SHA-256 of the body, as hexadecimal digits
    hub: bytes  # 32, public, of the hub that is meant
    signature: str = ""  # of all that, in base64, where it has been verified

    def message(self) -> bytes:
        """What is signed. It says what for, and no field can hold the end of a line: names are quoted."""
        fields = (
            f"recyclegp request {VERSION}",
            self.method,
            self.path,
            self.key.hex(),
            quote(self.name, safe=""),
            str(self.time),
            self.nonce,
            self.digest,
            self.hub.hex(),
        )
        return "\n".join(fields).encode()

    @property
    def proof(self) -> dict[str, str | int]:
        """Enough to verify later that this was asked, where key and name are known."""
        return {
            "method": self.method,
            "path": self.path,
            "time": self.time,
            "nonce": self.nonce,
            "digest": self.digest,
            "signature": self.signature,
        }


def digest_of(body: bytes) -> str:
    """SHA-256, as hexadecimal digits."""
    return hashlib.sha256(body).hexdigest()


def fingerprint(key: bytes) -> str:
    """Of a public key, short enough to be read aloud."""
    return hashlib.sha256(key).hexdigest()[:16]


def raw(key: Ed25519PrivateKey) -> bytes:
    """The public key of a pair, as 32 bytes."""
    return bytes(key.public_key().public_bytes_raw())


# --- requests -------------------------------------------------------------------------------------


def headers(
    key: Ed25519PrivateKey, method: str, path: str, name: str, digest: str, hub: bytes, time: int
) -> dict[str, str]:
    """Of a request that nobody has made before."""
    said = Signed(method, path, raw(key), name, time, secrets.token_hex(16), digest, hub)
    return {
        KEY: base64.b64encode(said.key).decode(),
        NAME: quote(name, safe=""),
        TIME: str(time),
        NONCE: said.nonce,
        DIGEST: digest,
        SIGNATURE: base64.b64encode(key.sign(said.message())).decode(),
    }


def verified(method: str, path: str, found: Mapping[str, str], hub: bytes, now: float) -> Signed:
    """What a request says, if its signature is that of the key it names and its clock is right.

    Who has that key, and whether the nonce is new, is for others to say.

    Raises:
        RefusedError: A field is missing or malformed, the time is off, or the signature does not fit.
    """
    absent = [name for name in (KEY, NAME, TIME, NONCE, DIGEST, SIGNATURE) if name not in found]
    if absent:
        raise RefusedError(f"not a signed request: {absent[0]} is missing; use `recyclegp join`")
    name = unquote(found[NAME], errors="strict") if found[NAME].isascii() and len(found[NAME]) < 4000 else ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise RefusedError(f"{NAME}: not a name of 1 to {LONGEST_NAME} printable characters")
    if not _SECONDS.fullmatch(found[TIME]) or not _HEX_32.fullmatch(found[NONCE]):
        raise RefusedError(f"{TIME} or {NONCE} is malformed")
    if not _HEX_64.fullmatch(found[DIGEST]):
        raise RefusedError(f"{DIGEST}: not a SHA-256")
    key, signature = decoded(found[KEY], 32, KEY), decoded(found[SIGNATURE], 64, SIGNATURE)
    said = Signed(method, path, key, name, int(found[TIME]), found[NONCE], found[DIGEST], hub)
    if abs(now - said.time) > WINDOW:
        raise RefusedError(
            f"signed at {said.time}, and it is {int(now)} here: the clocks differ by more than {WINDOW} seconds, or "
            "this is an old request; set the clock, and ask again"
        )
    check_signature(key, signature, said.message(), "the signature is not one of the key that the request names")
    return said._replace(signature=found[SIGNATURE])


# --- answers --------------------------------------------------------------------------------------


def answer_message(nonce: str, status: int, digest: str) -> bytes:
    """What a hub signs of its answer to the request with this nonce."""
    return f"recyclegp answer {VERSION}\n{nonce}\n{status}\n{digest}".encode()


def answer_headers(key: Ed25519PrivateKey, nonce: str, status: int, digest: str) -> dict[str, str]:
    return {DIGEST: digest, SIGNATURE: base64.b64encode(key.sign(answer_message(nonce, status, digest))).decode()}


def check_answer(hub: bytes, nonce: str, status: int, digest: str, found: Mapping[str, str]) -> None:
    """Is this the hub's answer to our request, as it was sent?"""
    if found.get(DIGEST) != digest:
        raise RefusedError("the answer has been changed on its way; use TLS, or ask the coordinator")
    signature = decoded(found.get(SIGNATURE, ""), 64, SIGNATURE)
    check_signature(hub, signature, answer_message(nonce, status, digest), "the answer is not signed by this hub")


# --- signatures -----------------------------------------------------------------------------------


def decoded(text: str, size: int, what: str) -> bytes:
    """So many bytes from base64."""
    try:
        content = base64.b64decode(text, validate=True) if text.isascii() and len(text) < 200 else b""
    except (ValueError, binascii.Error):
        content = b""
    if len(content) != size:
        raise RefusedError(f"{what}: not {size} bytes in base64")
    return content


def check_signature(key: bytes, signature: bytes, message: bytes, otherwise: str) -> None:
    """An error in these words, unless the signature is that of this key."""
    invalid, ed25519 = _library()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (invalid, ValueError):
        raise RefusedError(otherwise) from None


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise RecycleGPError(f"a hub needs cryptography; {install('hub')}") from None
    return InvalidSignature, ed25519
