"""keys and --signed-by: an owner's files are those with the owner's key, and the newest ones."""

import os
import shutil

import pytest

from cases_bad import one_line
from cases_cli import answer, call, ok


@pytest.fixture
def inbox(owners, tmp_path, monkeypatch):
    """Two modules: north's, signed by alice, and south's, by bob."""
    pytest.importorskip("cryptography")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(owners / "parts", "parts")
    for name in ("alice", "bob", "mallory"):
        ok("keygen", "-o", name, "--quiet")
    ok("sign", "parts/north.safetensors", "--key", "alice.pem", "--version", 5, "--quiet")
    ok("sign", "parts/south.safetensors", "--key", "bob.pem", "--quiet")
    return tmp_path


def merge(*options):
    return call("merge", "parts", "--no-learn", "--signed-by", "ring.json", "-o", "city.safetensors", *options)


def test_first_use_binds_and_everybody_says_who_signed(inbox):
    assert merge("--quiet").exit_code == 0
    north, south = answer("keys", "ring.json")
    assert (north["owner"], south["owner"]) == ("north", "south")
    assert north["modules"]["north"]["version"] == 5
    assert south["modules"]["south"]["version"] > 1e9  # the time
    assert north["key"][:16] in ok("keys", "ring.json").stdout
    told = answer("inspect", "city.safetensors")
    assert told["signers"] == [
        {"name": "north", "key": north["key"], "version": 5},
        {"name": "south", "key": south["key"], "version": south["modules"]["south"]["version"]},
    ]
    assert f"north with key {north['key'][:16]}" in " ".join(ok("inspect", "city.safetensors").stdout.split())
    own = answer("inspect", "parts/north.safetensors")["signature"]
    assert own == {"key": north["key"], "version": 5, "why_not": None}
    assert "good, by whoever has the key" in ok("inspect", "parts/north.safetensors").stdout
    assert [row["signed_by"] for row in answer("compare", "city.safetensors")] in (
        [north["key"], south["key"]],
        [south["key"], north["key"]],
    )


def test_another_key_for_the_same_owner_is_refused(inbox):
    assert merge("--quiet").exit_code == 0
    ring = inbox / "ring.json"
    before = ring.read_text()
    os.remove("city.safetensors")
    ok("sign", "parts/south.safetensors", "--key", "mallory.pem", "--quiet")
    said = one_line(merge())
    assert "parts/south.safetensors: it claims to be of 'south', whose key is" in said
    assert not os.path.exists("city.safetensors")
    assert ring.read_text() == before
    ok("keys", "ring.json", "--forget", "south", "--quiet")
    assert merge("--quiet").exit_code == 0


def test_an_old_file_does_not_come_back(inbox):
    assert merge("--quiet").exit_code == 0
    ok("sign", "parts/north.safetensors", "--key", "alice.pem", "--version", 6, "--quiet")
    assert merge("--quiet").exit_code == 0
    ok("transform", "parts/north.safetensors", "--output-shift", 1, "-o", "old.safetensors", "--quiet")
    os.replace("old.safetensors", "parts/north.safetensors")
    ok("sign", "parts/north.safetensors", "--key", "alice.pem", "--version", 5, "--quiet")
    assert "version 5 of 'north' is older than 6, which was merged before" in one_line(merge())


def test_what_is_not_signed_is_refused(inbox):
    os.remove("parts/north.safetensors.sig")
    assert "parts/north.safetensors: no signature" in one_line(merge())
    assert not os.path.exists("ring.json")


def test_a_wrong_signature_is_never_skipped(inbox):
    """Files that cannot be read are; who has sent this one must be asked."""
    (inbox / "parts" / "broken.safetensors").write_bytes(b"no module")
    ok("keys", "ring.json", "--bind", "south=mallory.pub", "--quiet")
    os.remove("parts/north.safetensors.sig")
    assert "parts/north.safetensors: no signature" in one_line(merge("--skip-bad"))
    ok("sign", "parts/north.safetensors", "--key", "alice.pem", "--quiet")
    os.remove("parts/broken.safetensors")
    assert "parts/south.safetensors: it claims to be of 'south'" in one_line(merge("--skip-bad"))
    assert not os.path.exists("city.safetensors")


def test_keys_that_were_given_beforehand(inbox):
    ok("keys", "ring.json", "--bind", "south=mallory.pub", "--quiet")
    assert "claims to be of 'south'" in one_line(merge())
    assert "write OWNER=FILE.pub" in one_line(call("keys", "ring.json", "--bind", "south"))
    assert "is not in the key ring" in one_line(call("keys", "ring.json", "--forget", "east"))


def test_add_asks_too(inbox):
    ok(
        "merge",
        "parts/north.safetensors",
        "--no-learn",
        "--signed-by",
        "ring.json",
        "-o",
        "city.safetensors",
        "--quiet",
    )
    added = ["add", "city.safetensors", "parts/south.safetensors", "--signed-by", "ring.json", "-o", "two.safetensors"]
    ok(*added, "--quiet")
    assert [s["name"] for s in answer("inspect", "two.safetensors")["signers"]] == ["north", "south"]
    with open("parts/south.safetensors", "ab") as stream:
        stream.write(b"x")
    assert "has been changed since" in one_line(call(*added))


def test_a_signature_that_is_not_good_is_said(inbox):
    shutil.copy("parts/south.safetensors.sig", "parts/north.safetensors.sig")
    told = answer("inspect", "parts/north.safetensors")["signature"]
    assert told["key"] is None
    assert "of another content id" in told["why_not"]
    assert "NOT GOOD" in ok("inspect", "parts/north.safetensors").stdout


def test_the_page_says_who_signed(inbox):
    from recyclegp.serve import state, views

    files = [inbox / "parts" / f"{name}.safetensors" for name in ("north", "south")]
    shutil.copy("parts/north.safetensors.sig", "parts/south.safetensors.sig")
    held = [h for path in files for h in state.modules_in(path, path.name, state.BY_NAME)]
    north, south = views.about(state.Snapshot(tuple(held)))["modules"]
    key = answer("inspect", "parts/north.safetensors")["signature"]["key"]
    assert north["signed"] == f"signed with key {key[:16]}"
    assert south["signed"].startswith("signature not good: the signature is of another content id")
