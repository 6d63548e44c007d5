"""Files appear whole or not at all, and errors name the file the user knows of."""

import errno
import os
import stat

import pytest

from recyclegp.storage.atomic import check_writable, create, replacing, write_atomically

fcntl = pytest.importorskip("fcntl") if os.name == "posix" else None


def test_the_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with replacing(target) as stream:
        stream.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failure_leaves_nothing(tmp_path):
    def half():
        with replacing(tmp_path / "a") as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert os.listdir(tmp_path) == []


def test_errors_name_the_target(tmp_path):
    target = tmp_path / "absent" / "a"
    for attempt in (lambda: replacing(target).__enter__(), lambda: check_writable(target)):
        with pytest.raises(FileNotFoundError) as caught:
            attempt()
        assert caught.value.filename == str(target)


def test_errors_about_other_files_keep_their_names(tmp_path):
    other = tmp_path / "other"
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "a"):
        other.read_bytes()
    assert caught.value.filename == str(other)


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX's")
def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe) as stream:
        stream.write(b"hello")
    assert os.read(reader, 10) == b"hello"
    os.close(reader)
    assert pipe.is_fifo()


def test_checking_leaves_no_trace(tmp_path):
    check_writable(tmp_path / "a")
    assert os.listdir(tmp_path) == []
    with pytest.raises(IsADirectoryError, match="a folder, not a file"):
        check_writable(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are POSIX's")
def test_permissions_and_links_stay(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    (tmp_path / "nowhere").symlink_to(tmp_path / "later")
    write_atomically(tmp_path / "nowhere", b"new")
    assert (tmp_path / "later").read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_what_killed_writers_left_is_cleaned_and_what_is_being_written_is_not(tmp_path):
    old, held, young = (tmp_path / f".{c * 32}.part" for c in "abc")
    other = tmp_path / ".mine.part"
    for path in (old, held, young, other):
        path.write_bytes(b"half")
    for path in (old, held, other):
        os.utime(path, (0, 0))
    with open(held, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        write_atomically(tmp_path / "a", b"whole")
    assert sorted(os.listdir(tmp_path)) == sorted([held.name, young.name, other.name, "a"])


@pytest.mark.skipif(os.name != "posix", reason="folders can be opened on POSIX")
def test_the_new_name_is_made_durable_after_the_file(tmp_path, monkeypatch):
    """The content first, then the name, then the folder that has it: else a power cut could leave an empty file."""
    real = {name: getattr(os, name) for name in ("fsync", "replace")}
    done = []

    def fsync(handle):
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        done.append((kind, os.path.samestat(os.fstat(handle), os.stat(tmp_path))))
        real["fsync"](handle)

    def replace(old, new):
        done.append(("rename", new == tmp_path / "a"))
        real["replace"](old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomically(tmp_path / "a", b"whole")
    assert done == [("file", False), ("rename", True), ("folder", True)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("call", ["fsync", "link", "unlink"])
def test_a_new_file_is_never_half(tmp_path, monkeypatch, call):
    """Its writer is killed at any call: a key of no bytes would be one that nobody can use, or replace."""
    target = tmp_path / "key.pem"
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, call, lambda *arguments, **options: os._exit(9))
        create(target, b"secret", 0o600)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    if not target.exists():
        create(target, b"secret", 0o600)
    assert target.read_bytes() == b"secret"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_none(tmp_path, monkeypatch, links):
    def none(*arguments):
        raise PermissionError(errno.EPERM, "this file system has none")

    if not links:
        monkeypatch.setattr(os, "link", none)
    target = tmp_path / "key.pem"
    create(target, b"first", 0o600)
    with pytest.raises(FileExistsError) as caught:
        create(target, b"second", 0o600)
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["key.pem"]
    with pytest.raises(FileNotFoundError) as absent:
        create(tmp_path / "absent" / "key.pem", b"x", 0o600)
    assert absent.value.filename == str(tmp_path / "absent" / "key.pem")
