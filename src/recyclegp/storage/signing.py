"""Who vouches for a file: Ed25519 signatures of content ids, each in a small file beside the one it is of.

A content id is the SHA-256 of all bytes of a file, so the signature cannot stand among them. It is a JSON object in
FILE.sig; docs/schema.md describes it. Keys are PEM files, as OpenSSL reads and writes them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..errors import RecycleGPError
from ..extras import install
from . import strict_json
from .layout import SIGNATURE

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = 2
FIRST_FORMAT = 1  # of earlier signatures, which have no version
NEWEST = 2**62  # of versions
PRIVATE, PUBLIC = ".pem", ".pub"
# As keygen and OpenSSL write a public key: 12 bytes that say of which kind it is, and its 32, together in base64.
PUBLIC_PEM = re.compile(
    rb"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA([A-Za-z0-9+/]{43}=)\n-----END PUBLIC KEY-----\n"
)
AnyPath: TypeAlias = "str | PathLike[str]"
LARGEST = 4096  # bytes of a key or of a signature
FIELDS = {"recyclegp_signature", "content_id", "public_key", "signature"}
VERSION = "version"


class Signature(NamedTuple):
    """What stands beside a signed file."""

    content_id: str  # SHA-256, as hexadecimal digits
    public_key: bytes  # 32, of whoever signed
    signature: bytes  # 64
    version: int | None = None  # of the file; a later one is larger


class Trusted(NamedTuple):
    """A key whose signatures count."""

    name: str  # of its file
    public_key: bytes


# --- keys -------------------------------------------------------------------------------------


def make_keys(stem: Path) -> tuple[Path, Path]:
    """A new pair, in STEM.pem, which only the user may read, and STEM.pub; neither replaces a file."""
    from .atomic import create

    ed25519, encoding = _library(), _encoding()
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(encoding.Encoding.PEM, encoding.PrivateFormat.PKCS8, encoding.NoEncryption())
    public = key.public_key().public_bytes(encoding.Encoding.PEM, encoding.PublicFormat.SubjectPublicKeyInfo)
    files = stem.with_name(stem.name + PRIVATE), stem.with_name(stem.name + PUBLIC)
    for file in files:
        if file.exists():
            raise RecycleGPError(f"{file} is there already, and keys are not replaced; choose another name")
    create(files[0], secret, mode=0o600)
    try:
        create(files[1], public, mode=0o644)
    except BaseException:
        files[0].unlink()
        raise
    return files


def private_key(path: Path) -> Ed25519PrivateKey:
    ed25519, encoding = _library(), _encoding()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        found = encoding.load_pem_private_key(small(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as broken:  # TypeError: it is encrypted
        if isinstance(broken, RecycleGPError):
            raise
        found = None
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise RecycleGPError(f"{path}: not a private key as `recyclegp keygen` makes it; name its {PRIVATE} file")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise RecycleGPError(
            f"{path}: others may read this private key; allow it to yourself alone (chmod 600), and if somebody may "
            "have read it, make a new one"
        )
    return found


def public_key(path: Path) -> Ed25519PublicKey:
    return _public_key(path, small(path))


def public_bytes(path: AnyPath) -> bytes:
    """The 32 bytes of a public key in a file; where it is written plainly, its file form need not be imported."""
    content = small(path)
    plain = PUBLIC_PEM.fullmatch(content)
    return bytes(_public_key(path, content).public_bytes_raw()) if plain is None else base64.b64decode(plain[1])


def _public_key(path: AnyPath, content: bytes) -> Ed25519PublicKey:
    ed25519, encoding = _library(), _encoding()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        found = encoding.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as broken:
        if isinstance(broken, RecycleGPError):
            raise
        found = None
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise RecycleGPError(f"{path}: not a public key as `recyclegp keygen` makes it; remove it, or ask for it again")
    return found


def trusted_keys(folder: AnyPath) -> list[Trusted]:
    """Every public key in a folder."""
    files = sorted(name for name in os.listdir(folder) if name.endswith(PUBLIC)) if os.path.isdir(folder) else []
    if not files:
        raise RecycleGPError(f"{folder}: not a folder with {PUBLIC} files; put the public keys that you trust there")
    _library()  # without which none of them is of use
    return [Trusted(name.removesuffix(PUBLIC), public_bytes(os.path.join(folder, name))) for name in files]


# --- signatures -------------------------------------------------------------------------------


def content_id(path: AnyPath) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise RecycleGPError(f"{path}: not a file; name the files of modules")
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def beside(path: Path) -> Path:
    """Where the signature of a file stands."""
    return path.with_name(path.name + SIGNATURE)


def sign(path: Path, digest: str, key: Ed25519PrivateKey, version: int) -> Path:
    """Write the signature of this version of a file, with this content id; an older one is replaced."""
    content = {
        "recyclegp_signature": FORMAT,
        "content_id": f"sha256:{digest}",
        VERSION: version,
        "public_key": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        "signature": base64.b64encode(key.sign(_message(digest, version))).decode(),
    }
    from .atomic import write_atomically

    write_atomically(beside(path), (json.dumps(content, indent=1) + "\n").encode())
    return beside(path)


def verify(path: AnyPath, keys: list[Trusted]) -> tuple[Trusted, Signature]:
    """Which of these keys has signed a file, and what is signed; an error where none has."""
    found = _of_these_bytes(path)
    signer = next((key for key in keys if key.public_key == found.public_key), None)
    if signer is None:
        raise RecycleGPError(
            f"{path}: signed with a key that is not trusted ({found.public_key.hex()[:16]}…); if it should be, add its "
            f"{PUBLIC} file to the folder"
        )
    if not _fits(found):
        raise RecycleGPError(f"{path}: the signature is not one of {signer.name}'s; ask for file and signature again")
    return signer, found


def signature_of(path: AnyPath) -> Signature:
    """The signature beside a file, whoever made it, if it is one of these bytes by the key that it names."""
    found = _of_these_bytes(path)
    if not _fits(found):
        raise RecycleGPError(f"{path}: the signature was not made with the key that it names; ask for both again")
    return found


def _of_these_bytes(path: AnyPath) -> Signature:
    digest, place = content_id(path), f"{os.fspath(path)}{SIGNATURE}"
    if not os.path.exists(place):
        raise RecycleGPError(f"{path}: no signature; {os.path.basename(place)} is not beside it, ask for both")
    found = _read(place)
    if found.content_id != digest:
        raise RecycleGPError(
            f"{path}: the signature is of another content id ({found.content_id[:8]}, not {digest[:8]}): the file has "
            "been changed since; ask for both again"
        )
    return found


def _message(digest: str, version: int | None) -> bytes:
    """What is signed. It says what for, so that nobody can use it for anything else."""
    if version is None:
        return f"recyclegp signature {FIRST_FORMAT} of sha256:{digest}".encode()
    return f"recyclegp signature {FORMAT} of sha256:{digest} version {version}".encode()


def _fits(found: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature

    ed25519 = _library()
    try:
        message = _message(found.content_id, found.version)
        ed25519.Ed25519PublicKey.from_public_bytes(found.public_key).verify(found.signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _read(path: str) -> Signature:
    try:
        found = strict_json.parsed(small(path).decode())
        if not isinstance(found, dict) or type(found.get("recyclegp_signature")) is not int:
            raise ValueError("no signature")
        if found["recyclegp_signature"] not in (FIRST_FORMAT, FORMAT):
            raise RecycleGPError(f"{path}: a signature of another format; upgrade recyclegp")
        first = found["recyclegp_signature"] == FIRST_FORMAT
        if set(found) != (FIELDS if first else FIELDS | {VERSION}):
            raise ValueError("other fields")
        version = None if first else version_of(found[VERSION])
        signature = of_base64(found["signature"], 64)
        return Signature(digest_of(found["content_id"]), of_base64(found["public_key"], 32), signature, version)
    except (ValueError, RecursionError) as broken:
        if isinstance(broken, RecycleGPError):
            raise
        raise RecycleGPError(f"{path}: not a signature as `recyclegp sign` writes it; ask for it again") from None


def version_of(value: Any) -> int:
    """A version, checked; ValueError where it is none."""
    if type(value) is not int or not 0 <= value <= NEWEST:
        raise ValueError("no version")
    return value


def digest_of(value: Any) -> str:
    """The digits of a content id."""
    kind, _, digest = _text(value).partition(":")
    if kind != "sha256" or len(bytes.fromhex(digest)) != 32 or digest != digest.lower():
        raise ValueError("no content id")
    return digest


def of_base64(value: Any, size: int) -> bytes:
    try:
        content = base64.b64decode(_text(value), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if len(content) != size:
        raise ValueError("not so many bytes")
    return content


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isascii():
        raise ValueError("not text")
    return value


def small(path: AnyPath, largest: int = LARGEST) -> bytes:
    """What is in a file that should not be large."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise RecycleGPError(f"{path}: not a file; name the file of a key or a signature")
    with open(path, "rb") as stream:
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise RecycleGPError(f"{path}: too large for a key or a signature; name another file")
    return content


def _library() -> Any:
    """The module of `cryptography`, which is an optional extra, for keys."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise _absent() from None
    return ed25519


def _encoding() -> Any:
    """That for their file form. It takes long to import, and a plain public key is read without it."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ModuleNotFoundError:
        raise _absent() from None
    return serialization


def _absent() -> RecycleGPError:
    return RecycleGPError(f"signatures need cryptography; {install('sign')}")
