"""hub, join, leave and coordinate on the command line: what they print, and with which code they end."""

import json
import logging
import re
import socket

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp
from cases_cli import call as run
from cases_cli import ok
from recyclegp.commands import telling
from recyclegp.hub import audit, server
from recyclegp.hub.registry import Admission


def join(here, folder, name, *more, seed=0):
    path = folder / f"{name}.csv"
    if not path.exists():
        cases.table(seed).to_csv(path, index=False)
    usual = ("--target", "level", "--things", "--publish", 7, "--poll", 0.05, "--patience", 20)
    return run("join", here.address, path, *usual, *more)


def code(result):
    return result.exit_code


def test_an_owner_comes_and_goes(tmp_path, monkeypatch):
    with cases.running(tmp_path / "hub", admission=Admission.INVITED, evaluate=True) as here:
        chief = ("--key", tmp_path / "hub" / "coordinator.pem")
        refused = join(here, tmp_path, "north")
        assert (code(refused), refused.stdout) == (5, "")  # nobody has agreed
        assert "points" in refused.stderr
        assert "give --yes" in refused.stderr
        assert here.hub.registry.named("north") is None  # nothing has left
        refused = join(here, tmp_path, "north", "--yes")
        assert code(refused) == 4
        assert "an invitation is needed" in refused.stderr
        (invitation,) = ok("coordinate", here.address, "invite", *chief).stdout.split()
        first = tmp_path / "north.hub" / "module.safetensors"
        made = first.stat().st_mtime_ns
        done = join(here, tmp_path, "north", "--yes", "--invitation", invitation, "--json")
        assert code(done) == 0, done.stderr
        facts = json.loads(done.stdout)
        assert facts["owners"] == 1
        assert facts["rows_held_back"] >= 1
        assert facts["alone"] == pytest.approx(facts["merged"], abs=0.5)
        assert rgp.load(facts["file"]).names == ["north"]
        assert first.stat().st_mtime_ns == made  # fitted once
        again = join(here, tmp_path, "north", "--share-score")  # agreed before, and the same module
        assert code(again) == 0, again.stderr
        assert "held back" in again.stdout
        used = join(here, tmp_path, "south", "--yes", "--invitation", invitation, seed=1)
        assert code(used) == 4
        assert "was used" in used.stderr
        people = ok("coordinate", here.address, "people", *chief).stdout
        assert "north" in people
        assert "counts" in people
        assert "one shot" in ok("coordinate", here.address, "report", *chief).stdout
        assert ok("coordinate", here.address, "page", *chief).stdout.strip() == here.page
        ok("coordinate", here.address, "scores", *chief)
        fetched = ok("coordinate", here.address, "audit", *chief, "-o", tmp_path / "log.jsonl").stdout
        entries = audit.verify(tmp_path / "log.jsonl")
        assert entries > 3
        assert f"log.jsonl: {entries} entries, each of which follows from the one before" in fetched
        lines = (tmp_path / "hub" / "audit.jsonl").read_bytes().splitlines(keepends=True)
        with monkeypatch.context() as changed:  # a hub that has taken out an entry
            changed.setattr(here.hub.audit, "read", lambda: b"".join(lines[:2] + lines[3:]))
            refused = run("coordinate", here.address, "audit", *chief, "-o", tmp_path / "log.jsonl")
            assert code(refused) == 2
            assert "the log has been changed" in refused.stderr
        left = ok("leave", tmp_path / "north.hub", "--poll", 0.05)
        assert "north has left; there is no model now" in left.stdout
        assert json.loads((tmp_path / "north.hub" / "receipt.json").read_text())["receipt"]["name"] == "north"
        gone = join(here, tmp_path, "north", "--yes")
        assert code(gone) == 4
        log = (tmp_path / "north.hub" / "log.txt").read_text().splitlines()
        assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ  .", line) for line in log)
        told = [line.partition("Z  ")[2] for line in log]
        assert told[:2] == ["join: begins", "join: ends with code 5"]
        assert f"{here.address} has module {facts['module']}" in told
        assert any(line.startswith(f"the merged model is {facts['file']}, owners: 1; merged ") for line in told)
        assert told[told.index("leave: begins") + 1] == "leave: done"
        assert told[-1].startswith(f"join: ends, {here.address}: an invitation is needed")


def test_a_reader_comes_with_an_invitation_and_fetches_the_model(tmp_path):
    with cases.running(tmp_path / "hub", admission=Admission.INVITED) as here:
        chief = ("--key", tmp_path / "hub" / "coordinator.pem")
        owner, reader = (
            ok("coordinate", here.address, "invite", *more, *chief).stdout.strip() for more in ([], ["--readers"])
        )
        assert code(join(here, tmp_path, "north", "--yes", "--invitation", owner)) == 0
        ok("keygen", "-o", tmp_path / "anna")
        anna = ("--key", tmp_path / "anna.pem", "--name", "anna")
        refused = run("coordinate", here.address, "report", *anna)
        assert code(refused) == 4
        assert "this key is not registered here" in refused.stderr
        first = ok("coordinate", here.address, "report", *anna, "--invitation", reader)
        assert "anna is registered as reader" in first.stderr
        fetched = ok("coordinate", here.address, "model", *anna, "-o", tmp_path / "model.safetensors")
        assert rgp.load(tmp_path / "model.safetensors").names == ["north"]
        assert "model.safetensors" in fetched.stdout
        assert ok("coordinate", here.address, "page", *anna).stdout.strip() != here.page
        for action in ("people", "audit", "invite"):
            assert code(run("coordinate", here.address, action, *anna)) == 4
        other = run("coordinate", here.address, "model", *anna, "--invitation", reader.replace(reader[-4:], "0000"))
        assert code(other) == 4
        assert "this invitation is to another hub" in other.stderr


def test_who_does_not_wait_for_ever(tmp_path):
    """It ends with a code of its own, whatever it waits for, and goes on where it was."""
    with cases.running(tmp_path / "hub", admission=Admission.APPROVED, expect=2) as here:
        early = join(here, tmp_path, "north", "--yes", "--wait", 0)
        assert code(early) == 7
        assert "0 seconds are over, and the coordinator has not approved this key yet; nothing is lost" in early.stderr
        shown = re.search(r"^  seen by( +)the coordinator; as a curve under your name all owners", early.stderr, re.M)
        assert re.search(rf"^  is any point a row{shown[1][11:]}\S", early.stderr, re.M)  # one below the other
        here.owner("south")
        for name in ("north", "south"):
            ok("coordinate", here.address, "approve", name, "--key", tmp_path / "hub" / "coordinator.pem")
        early = join(here, tmp_path, "north", "--wait", 0)
        assert code(early) == 7
        assert "the model is not complete" in early.stderr
        assert set(here.hub.modules()) == {"north"}  # it was sent
        here.client("south", here.keys["south"]).send("/module", cases.content(cases.module("south", 1), tmp_path))
        here.merged("north", "south")
        here.until(lambda: here.hub.state().value == "ready")
        assert code(join(here, tmp_path, "north", "--wait", 600)) == 0
        assert code(join(here, tmp_path, "north", "--wait", 0, "--stay")) == 0


def test_what_is_wrong_is_said(tmp_path):
    cases.table(0).to_csv(tmp_path / "north.csv", index=False)
    away = run("join", "http://127.0.0.1:9", tmp_path / "north.csv", "--target", "level", "--yes", "--patience", 0.3)
    assert code(away) == 3
    assert "the hub is not reachable (Connection refused)" in away.stderr
    assert not (tmp_path / "north.hub" / "module.safetensors").exists()  # nothing was fitted for nobody
    other = run("join", "http://127.0.0.1:9", tmp_path / "north.csv", "--target", "x", "--patience", 0.3)
    assert code(other) == 2
    assert "x" in other.stderr
    assert code(run("leave", tmp_path)) == 2
    assert "city/coordinator" in ok("coordinate", "--help").stdout
    key = ("--key", tmp_path / "north.hub" / "key.pem")
    for action, words in (("dance", "not an action"), ("approve", "say whom"), ("people", "takes no names")):
        names = ["x"] if action == "people" else []
        refused = run("coordinate", "http://127.0.0.1:9", action, *names, *key)
        assert code(refused) == 2
        assert words in refused.stderr
    for options, words in (
        (["--certificate", "x.pem"], "belong together"),
        (["--admission", "all"], "choose one of invited"),
        (["--host", "256.0.0.1"], "--host 256.0.0.1"),
    ):
        refused = run("hub", tmp_path / "city", *options)
        assert code(refused) == 2
        assert words in refused.stderr


def test_a_hub_that_runs_for_days_says_when_something_has_failed(capsys):
    with telling.warned():
        logging.getLogger("recyclegp.hub").warning("OSError: %s", "No space left on device\x1b[2J")
        logging.getLogger("recyclegp.hub").info("uploaded: north")
    logging.getLogger("recyclegp.hub").warning("nobody listens any more")
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  OSError: No space left on device\S+", line)
    assert "\x1b" not in line


def test_an_address_that_owners_can_use():
    assert server.called("127.0.0.1") == "127.0.0.1"
    assert server.called("::1") == "[::1]"
    assert server.called("0.0.0.0") == server.called("::") == socket.gethostname()
