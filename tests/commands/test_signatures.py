"""keygen, sign, verify and merge --trusted: files of those one knows, and of nobody else."""

import json
import os
import shutil
import sys

import pytest

from cases_bad import one_line
from cases_cli import answer, call, means, ok
from hostile_files import GOLDEN
from recyclegp.extras import install


@pytest.fixture
def inbox(owners, tmp_path, monkeypatch):
    """A working folder with two modules, both signed by alice, whose key is trusted."""
    pytest.importorskip("cryptography")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(owners / "parts", "parts")
    ok("keygen", "-o", "alice", "--quiet")
    ok("keygen", "-o", "mallory", "--quiet")
    os.mkdir("keys")
    shutil.copy("alice.pub", "keys")
    ok("sign", "parts", "--key", "alice.pem", "--quiet")
    return tmp_path


def test_keygen_says_which_one_to_keep(inbox):
    lines = ok("keygen", "-o", "bob").stdout.splitlines()
    assert lines == [
        "bob.pem: your private key; keep it to yourself",
        "bob.pub: your public key; give it to those who merge",
    ]
    assert "bob.pem is there already" in one_line(call("keygen", "-o", "bob"))
    assert "No such file" in one_line(call("keygen", "-o", "absent/bob"))


def test_sign_and_verify(inbox):
    assert sorted(os.listdir("parts"))[1] == "north.safetensors.sig"
    lines = ok("verify", "parts", "--trusted", "keys").stdout.splitlines()
    assert lines == ["parts/north.safetensors: signed by alice", "parts/south.safetensors: signed by alice"]
    assert ok("verify", "parts", "--trusted", "keys", "--quiet").output == ""
    (row, _) = answer("sign", "parts", "--key", "alice.pem")
    assert row["content_id"] == answer("inspect", "parts/north.safetensors")["content_id"]


def test_verify_names_every_file_that_fails(inbox):
    os.remove("parts/north.safetensors.sig")
    shutil.copy("parts/south.safetensors", "parts/west.safetensors")
    shutil.copy("parts/south.safetensors.sig", "parts/west.safetensors.sig")
    with open("parts/south.safetensors", "ab") as stream:
        stream.write(b"more")
    result = call("verify", "parts", "--trusted", "keys")
    assert result.exit_code == 1
    north, south = result.stderr.splitlines()
    assert north.startswith("recyclegp: NOT VERIFIED: parts/north.safetensors: no signature")
    assert south.startswith("recyclegp: NOT VERIFIED: parts/south.safetensors: the signature is of another content id")
    assert result.stdout == "parts/west.safetensors: signed by alice\n"
    found = json.loads(call("verify", "parts", "--trusted", "keys", "--json").stdout)
    assert [row["signed_by"] for row in found] == [None, None, "alice"]


def test_verify_goes_on_after_a_missing_file(inbox):
    result = call("verify", "absent.safetensors", "parts", "--trusted", "keys")
    assert result.exit_code == 1
    assert "NOT VERIFIED: absent.safetensors: No such file" in result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_merge_and_add_refuse_the_rest(inbox, out):
    ok("merge", "parts", "--trusted", "keys", "-o", out, "--quiet")
    before = means(out)
    ok("merge", "parts", "-o", out, "--quiet")
    assert (means(out) == before).all()
    out.unlink()
    ok("sign", "parts/south.safetensors", "--key", "mallory.pem", "--quiet")
    os.remove("parts/north.safetensors.sig")
    said = one_line(call("merge", "parts", "--trusted", "keys", "-o", out))
    assert "2 of 2 files refused" in said
    assert "parts/north.safetensors: no signature" in said
    assert "parts/south.safetensors: signed with a key that is not trusted" in said
    assert not out.exists()
    ok("merge", "parts/north.safetensors", "-o", "city.safetensors", "--quiet")
    said = one_line(call("add", "city.safetensors", "parts/south.safetensors", "--trusted", "keys", "-o", out))
    assert "1 of 1 files refused" in said
    ok("add", "city.safetensors", "parts/south.safetensors", "-o", out, "--quiet")


def test_a_file_that_changes_after_it_was_verified(inbox, out, monkeypatch):
    from recyclegp.storage import signing

    real = signing.verify

    def swap_afterwards(path, keys):
        found = real(path, keys)
        shutil.copy(GOLDEN / "gaussian.safetensors", path)
        return found

    monkeypatch.setattr(signing, "verify", swap_afterwards)
    said = one_line(call("merge", "parts", "--trusted", "keys", "-o", out))
    assert "has changed since its signature was verified" in said
    assert not out.exists()


def test_what_cannot_be_read_is_not_signed(inbox):
    with open("broken.safetensors", "w") as stream:
        stream.write("nonsense")
    assert "not a complete recyclegp file" in one_line(call("sign", "broken.safetensors", "--key", "alice.pem"))
    assert not os.path.exists("broken.safetensors.sig")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sign", "parts", "--key", "alice.pub"], "not a private key as `recyclegp keygen` makes it"),
        (["sign", "parts", "--key", "absent.pem"], "absent.pem: No such file"),
        (["sign", "absent.safetensors", "--key", "alice.pem"], "absent.safetensors: No such file"),
        (["verify", "parts", "--trusted", "absent"], "not a folder with .pub files"),
        (["verify", "parts"], "Missing option"),
        (["merge", "parts", "--trusted", "parts", "-o", "x.safetensors"], "not a folder with .pub files"),
    ],
)
def test_mistakes(inbox, arguments, message):
    assert message in one_line(call(*arguments))


def test_without_cryptography(tmp_path, owners, monkeypatch, out):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    (tmp_path / "a.pub").touch()
    for arguments in (
        ["keygen", "-o", tmp_path / "key"],
        ["sign", owners / "parts", "--key", tmp_path / "key.pem"],
        ["verify", owners / "parts", "--trusted", tmp_path],
        ["merge", owners / "parts", "--trusted", tmp_path, "-o", out],
    ):
        assert install("sign") in one_line(call(*arguments))
