"""Signatures: only of the very bytes, only by keys one trusts, and keys that nobody else can read."""

import base64
import json
import os
import shutil
import stat
import subprocess

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from hostile_files import GOLDEN
from recyclegp import RecycleGPError
from recyclegp.storage import signing


@pytest.fixture
def signed(tmp_path):
    """A folder with a file, its signature by alice, alice's key, and keys/ with her public one."""
    (tmp_path / "keys").mkdir()
    for name in ("alice", "mallory"):
        signing.make_keys(tmp_path / name)
    shutil.copy(tmp_path / "alice.pub", tmp_path / "keys")
    file = tmp_path / "m.safetensors"
    shutil.copy(GOLDEN / "gaussian.safetensors", file)
    signing.sign(file, signing.content_id(file), signing.private_key(tmp_path / "alice.pem"), 7)
    return tmp_path


def verify(folder):
    return signing.verify(folder / "m.safetensors", signing.trusted_keys(folder / "keys"))


def refused(folder, message):
    with pytest.raises(RecycleGPError, match=message) as caught:
        verify(folder)
    assert "m.safetensors" in str(caught.value)


def test_a_signature_is_found_good(signed):
    signer, found = verify(signed)
    assert signer.name == "alice"
    assert found.version == 7
    assert found.content_id == signing.content_id(signed / "m.safetensors")


@pytest.mark.parametrize("place", [0, 100, 900, -1])
def test_every_changed_byte_is_noticed(signed, place):
    file = signed / "m.safetensors"
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    refused(signed, "has been changed since")


def test_the_signature_of_another_file(signed):
    shutil.copy(GOLDEN / "poisson.safetensors", signed / "m.safetensors")
    refused(signed, "the signature is of another content id")


def test_no_signature(signed):
    (signed / "m.safetensors.sig").unlink()
    refused(signed, r"no signature; m.safetensors.sig is not beside it")


def test_a_key_that_is_not_trusted(signed):
    file = signed / "m.safetensors"
    signing.sign(file, signing.content_id(file), signing.private_key(signed / "mallory.pem"), 7)
    refused(signed, "signed with a key that is not trusted")


def changed(folder, **fields):
    path = folder / "m.safetensors.sig"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_somebody_elses_signature_under_a_trusted_key(signed):
    key = signing.private_key(signed / "mallory.pem")
    message = f"recyclegp signature 2 of sha256:{signing.content_id(signed / 'm.safetensors')} version 7".encode()
    changed(signed, signature=base64.b64encode(key.sign(message)).decode())
    refused(signed, "not one of alice's")


def test_the_content_id_itself_is_not_what_is_signed(signed):
    """What somebody signs elsewhere, for another purpose, is of no use here."""
    key = signing.private_key(signed / "alice.pem")
    digest = signing.content_id(signed / "m.safetensors")
    for message in (digest.encode(), bytes.fromhex(digest), f"sha256:{digest}".encode()):
        changed(signed, signature=base64.b64encode(key.sign(message)).decode())
        refused(signed, "not one of alice's")


@pytest.mark.parametrize(
    "fields",
    [
        {"recyclegp_signature": True},
        {"recyclegp_signature": 1.0},
        {"content_id": 5},
        {"content_id": "md5:00"},
        {"content_id": "sha256:zz"},
        {"public_key": ""},
        {"public_key": None},
        {"public_key": "ü" * 44},
        {"signature": "AAAA"},
        {"signature": "*" * 88},
        {"version": -1},
        {"version": 7.0},
        {"version": None},
        {"more": 1},
    ],
    ids=str,
)
def test_broken_signatures(signed, fields):
    changed(signed, **fields)
    refused(signed, "not a signature as `recyclegp sign` writes it")


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[]", b"[" * 4000, b'{"a": 1, "a": 2}', b"x" * 10_000], ids=range(6)
)
def test_signatures_that_are_none(signed, content):
    (signed / "m.safetensors.sig").write_bytes(content)
    refused(signed, "not a signature|too large")


def test_another_format(signed):
    changed(signed, recyclegp_signature=3)
    refused(signed, "upgrade recyclegp")


def test_another_version_than_was_signed(signed):
    changed(signed, version=8)
    refused(signed, "not one of alice's")
    with pytest.raises(RecycleGPError, match="not made with the key that it names"):
        signing.signature_of(signed / "m.safetensors")


def test_signatures_of_the_first_format_are_still_good(signed):
    """They have no version."""
    file = signed / "m.safetensors"
    key, digest = signing.private_key(signed / "alice.pem"), signing.content_id(file)
    content = {
        "recyclegp_signature": 1,
        "content_id": f"sha256:{digest}",
        "public_key": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        "signature": base64.b64encode(key.sign(f"recyclegp signature 1 of sha256:{digest}".encode())).decode(),
    }
    (signed / "m.safetensors.sig").write_text(json.dumps(content))
    assert verify(signed)[0].name == "alice"
    assert signing.signature_of(file).version is None
    changed(signed, version=1)
    refused(signed, "not a signature as")


# --- keys -------------------------------------------------------------------------------------


def test_keys_are_not_replaced(tmp_path):
    private, public = signing.make_keys(tmp_path / "key")
    before = private.read_bytes(), public.read_bytes()
    with pytest.raises(RecycleGPError, match=r"key\.pem is there already"):
        signing.make_keys(tmp_path / "key")
    private.unlink()
    with pytest.raises(RecycleGPError, match=r"key\.pub is there already"):
        signing.make_keys(tmp_path / "key")
    assert public.read_bytes() == before[1]
    assert os.listdir(tmp_path) == ["key.pub"]


def test_no_half_of_a_pair_is_left(tmp_path, monkeypatch):
    real = os.fsync
    calls = []

    def fail(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:  # after those of the private key and of the folder
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        signing.make_keys(tmp_path / "key")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_only_the_user_may_read_a_private_key(tmp_path):
    private, _ = signing.make_keys(tmp_path / "a.b")
    assert private.name == "a.b.pem"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o606])
def test_a_private_key_that_others_may_read_is_refused(tmp_path, mode):
    private, _ = signing.make_keys(tmp_path / "key")
    assert signing.private_key(private)
    private.chmod(mode)
    with pytest.raises(RecycleGPError, match=r"others may read this private key.*chmod 600"):
        signing.private_key(private)


def test_keys_that_are_none(tmp_path):
    private, public = signing.make_keys(tmp_path / "key")
    other = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = ed25519.Ed25519PrivateKey.generate()
    contents = [b"", b"text", public.read_bytes(), other.private_bytes(pem, pkcs8, serialization.NoEncryption())]
    contents.append(locked.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"word")))
    contents.append(private.read_bytes().replace(b"MC4CAQAwBQYDK2Vw", b"MC4CAQAwBQYDK0Vw"))  # of a kind nobody knows
    for content in contents:
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(RecycleGPError, match="not a private key as `recyclegp keygen` makes it"):
            signing.private_key(tmp_path / "x")
    (tmp_path / "x").write_bytes(private.read_bytes())
    for content in (private.read_bytes(), public.read_bytes().replace(b"MCowBQYDK2Vw", b"MCowBQYDK0Vw")):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(RecycleGPError, match="not a public key"):
            signing.public_key(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        signing.private_key(tmp_path / "absent")
    for folder in (tmp_path / "absent", private):
        with pytest.raises(RecycleGPError, match=r"not a folder with \.pub files"):
            signing.trusted_keys(folder)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="asks another program")
def test_openssl_agrees(signed):
    found = json.loads((signed / "m.safetensors.sig").read_text())
    (signed / "message").write_text(f"recyclegp signature 2 of {found['content_id']} version 7")
    (signed / "signature").write_bytes(base64.b64decode(found["signature"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "alice.pub", "-rawin"]
    command += ["-in", "message", "-sigfile", "signature"]
    done = subprocess.run(command, cwd=signed, capture_output=True, text=True, check=False)
    if "rawin" in done.stderr or "only supported with" in done.stderr:
        pytest.skip("an openssl without Ed25519")
    assert done.returncode == 0, done.stderr
