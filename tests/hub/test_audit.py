"""The log on a disk that fails: nothing half, nothing unsaid, and it goes on when the disk does."""

import errno
import os
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("cryptography")

import cases_hub as cases
from recyclegp.hub import audit, leaving, nonces, protocol
from recyclegp.hub.folder import read_json
from recyclegp.hub.hub import Hub
from recyclegp.hub.registry import Admission

LONG = "x" * 1000


class Faults:
    """Calls to the disk of which the n-th fails, and all others behind it where that is asked."""

    def __init__(self, monkeypatch, at, *, lasting, half):
        self.at, self.lasting, self.half, self.calls = at, lasting, half, 0
        for name in ("write", "fsync", "ftruncate", "open"):
            monkeypatch.setattr(audit.os, name, self.failing(name, getattr(os, name)))

    def failing(self, name, real):
        def call(*arguments):
            self.calls += 1
            if self.calls == self.at or (self.lasting and self.calls > self.at):
                if name == "write" and self.half:
                    real(arguments[0], arguments[1][:20])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        return call


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
def test_any_call_may_fail(tmp_path, monkeypatch, at, lasting, half):
    log = audit.Audit(tmp_path / "audit.jsonl")
    log.append("first")
    with monkeypatch.context() as patched:
        Faults(patched, at, lasting=lasting, half=half)
        said = ["first"]
        for i in range(4):
            before = log.head, log.entries
            try:
                log.append(f"event {i}")
                said.append(f"event {i}")
            except OSError:
                assert (log.head, log.entries) == before
            assert [e["event"] for e in audit.entries(log.read())] == said
    log.append("last")
    log.close()
    log.close()
    assert [e["event"] for e in audit.entries(log.path.read_bytes())] == [*said, "last"]
    assert audit.verify(log.path) == len(said) + 1
    assert audit.Audit(log.path).head == log.head


def test_a_limit_of_the_system_and_its_end(tmp_path):
    """What the kernel does itself: the first part of a line is written, the rest is refused."""
    resource = pytest.importorskip("resource")
    log = audit.Audit(tmp_path / "audit.jsonl")
    log.append("first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 100, hard))
    try:
        for _ in range(3):
            with pytest.raises(OSError, match="large"):
                log.append("too long", words=LONG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append("second", words=LONG)
    log.close()
    assert [e["event"] for e in audit.entries(log.path.read_bytes())] == ["first", "second"]


@pytest.fixture
def hub(tmp_path):
    found = Hub(tmp_path / "hub", cases.settings(admission=Admission.OPEN))
    yield found
    found.close()


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def asked(hub, key, method, content=b""):
    headers = protocol.headers(
        key, method, "/module", "north", protocol.digest_of(content), hub.public, int(time.time())
    )
    return protocol.verified(method, "/module", headers, hub.public, time.time())


def events(hub, *wanted):
    return [(e["event"], e["module"]) for e in audit.entries(hub.audit.read()) if e["event"] in wanted]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_module_that_is_here_is_in_the_log_once_its_owner_has_heard_so(hub, tmp_path, monkeypatch, restarted):
    key = cases.new_key()
    path = tmp_path / "north.safetensors"
    for seed in (0, 1):
        cases.module("north", seed).save(path)
        content = path.read_bytes()
        said = asked(hub, key, "PUT", content)
        person = hub.register(said, None)
        with monkeypatch.context() as patched:
            patched.setattr(hub.audit, "append", full)
            with pytest.raises(OSError, match="No space"):
                hub.put_module(person, path, said)
        assert hub.dictionary.list()[0].digest == said.digest  # it is there, and nobody has said so
        if restarted:
            hub.close()
            hub.__init__(hub.folder.root, hub.settings)
        again = asked(hub, key, "PUT", content)
        for _ in range(2):
            assert hub.put_module(person, path, again) == said.digest
        assert events(hub, "uploaded", "replaced")[seed:] == [("replaced" if seed else "uploaded", said.digest)]
    with monkeypatch.context() as patched:
        patched.setattr(hub.audit, "append", full)
        with pytest.raises(OSError, match="No space"):
            leaving.leave(hub, person, asked(hub, key, "DELETE"))
    assert hub.modules() == {}
    if restarted:
        hub.close()
        hub.__init__(hub.folder.root, hub.settings)
    receipt = leaving.leave(hub, person, asked(hub, key, "DELETE"))
    assert events(hub, "withdrew") == [("withdrew", said.digest)]
    assert read_json(hub.folder.receipts / f"{receipt}.json")["receipt"]["module"] == said.digest


@pytest.mark.parametrize("what", ["write", "rewrite"])
def test_nonces_on_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch, what):
    """Nothing passes that could not be written down, and what has passed once never does again."""
    path, now = tmp_path / "nonces.log", time.time()
    found = nonces.Nonces(path, now)
    keys = [f"{i:032x}" for i in range(8)]
    said = [protocol.Signed("GET", "/", b"k" * 32, "a", int(now), key, "", b"") for key in keys]
    found.once(said[0], now)
    with monkeypatch.context() as patched:
        patched.setattr(nonces.os, "write", full)
        patched.setattr(nonces, "write_atomically", full)
        if what == "rewrite":
            patched.setattr(nonces, "REWRITTEN", -100)
        for one in said[1:4]:
            with pytest.raises(OSError, match="No space"):
                found.once(one, now)
    for one in said[4:6]:
        found.once(one, now)
    found.close()
    again = nonces.Nonces(path, now)
    for one in (said[0], *said[4:6]):
        with pytest.raises(protocol.RefusedError, match="made before"):
            again.once(one, now)
    again.once(said[7], now)
    again.close()
