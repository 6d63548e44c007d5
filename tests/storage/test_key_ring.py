"""An owner is bound to the key of the first file, and older files do not come back."""

import json
import os

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric import ed25519

from recyclegp import RecycleGPError
from recyclegp.storage import key_ring
from recyclegp.storage.key_ring import Claim, KeyRing
from recyclegp.storage.signing import Signature

ALICE, MALLORY = (ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(2))
OLD, NEW = "0" * 64, "1" * 64


def file_of(ring, owner, name, key=ALICE, version=5, digest=OLD):
    return ring.with_file("f.safetensors", [Claim(owner, name)], Signature(digest, key, b"", version))


@pytest.fixture
def ring():
    return file_of(KeyRing(), "north", "north")


def test_the_first_file_binds(ring):
    assert ring.owners_of(ALICE) == ["north"]
    assert file_of(ring, "south", "south", MALLORY).owners_of(MALLORY) == ["south"]


def test_another_key_is_refused(ring):
    with pytest.raises(RecycleGPError, match=r"claims to be of 'north', whose key is .*forget the old one"):
        file_of(ring, "north", "north-2", MALLORY)
    changed = file_of(ring.without("north"), "north", "north", MALLORY)
    assert changed.owners_of(MALLORY) == ["north"]


def test_one_of_many_claims_is_enough(ring):
    claims = [Claim("south", "a"), Claim("north", "b")]
    with pytest.raises(RecycleGPError, match="claims to be of 'north'"):
        ring.with_file("f", claims, Signature(OLD, MALLORY, b"", 9))


def test_older_files_are_refused_and_newer_ones_remembered(ring):
    newer = file_of(ring, "north", "north", version=6, digest=NEW)
    with pytest.raises(RecycleGPError, match="version 5 of 'north' is older than 6"):
        file_of(newer, "north", "north", version=5)
    with pytest.raises(RecycleGPError, match="another file of 'north' has the same version 6"):
        file_of(newer, "north", "north", version=6)
    assert file_of(newer, "north", "north", version=6, digest=NEW) == newer
    assert file_of(newer, "north", "north", version=4, digest=NEW) == newer  # the same file: nothing is forgotten
    assert file_of(newer, "north", "another", version=1)  # each module has versions of its own
    with pytest.raises(RecycleGPError, match="has no version"):
        file_of(newer, "north", "north", version=None)


def test_keys_that_were_given_beforehand(ring):
    known = ring.bound("south", MALLORY)
    with pytest.raises(RecycleGPError, match="claims to be of 'south'"):
        file_of(known, "south", "south", ALICE)
    with pytest.raises(RecycleGPError, match="'north' is bound to another key"):
        known.bound("north", MALLORY)
    with pytest.raises(RecycleGPError, match="'east' is not in the key ring; it knows north, south"):
        known.without("east")


def test_the_file(ring, tmp_path):
    path = tmp_path / "ring.json"
    assert key_ring.load(path) == KeyRing()
    key_ring.save(path, ring)
    assert key_ring.load(path) == ring
    if os.name == "posix":
        path.chmod(0o666)
        with pytest.raises(RecycleGPError, match="others may write to this key ring"):
            key_ring.load(path)
        path.chmod(0o644)
    good = json.loads(path.read_text())
    broken = [
        [],
        {},
        good | {"more": 1},
        good | {"recyclegp_keys": 2},
        good | {"owners": []},
        good | {"owners": {"a": {}}},
    ]
    entry = good["owners"]["north"]
    broken += [good | {"owners": {"north": entry | {"public_key": "AAAA"}}}]
    broken += [good | {"owners": {"north": entry | {"modules": {"m": {"version": "1", "content_id": "sha256:0"}}}}}]
    for content in broken:
        path.write_text(json.dumps(content))
        with pytest.raises(RecycleGPError, match="not a key ring as `recyclegp keys` writes it"):
            key_ring.load(path)


@pytest.mark.skipif(os.name != "posix", reason="permissions are others elsewhere")
@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o644), (0o000, 0o644), (0o077, 0o600)])
def test_a_new_ring_can_be_read_again_whatever_the_umask(ring, tmp_path, umask, mode):
    path, before = tmp_path / "ring.json", os.umask(umask)
    try:
        key_ring.save(path, ring)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode
    assert key_ring.load(path) == ring
    path.chmod(0o640)
    key_ring.save(path, ring)
    assert path.stat().st_mode & 0o777 == 0o640  # one that is there keeps its own
