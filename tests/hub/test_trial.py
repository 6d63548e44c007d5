"""A real trial: a hub and five `join` processes. One is killed and resumed, one leaves, one is malicious."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp
from recyclegp.hub import audit
from recyclegp.hub.client import HubClient
from recyclegp.hub.protocol import RefusedError
from recyclegp.storage.signing import private_key

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HONEST = ("north", "south", "east")
PROGRAM = "from recyclegp.cli import app; app()"


class Programs:
    """Processes of the command line, all of which end with the test."""

    def __init__(self, folder):
        self.folder, self.started = folder, []

    def start(self, *arguments):
        command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        log = open(self.folder / f"log-{len(self.started)}.txt", "w+")  # noqa: SIM115
        self.started.append((subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env), log))
        return self.started[-1][0]

    def finished(self, process, code=0, seconds=300):
        out, _ = process.communicate(timeout=seconds)
        log = next(log for p, log in self.started if p is process)
        log.seek(0)
        said = log.read()
        assert process.returncode == code, said
        return out, said

    def end(self):
        for process, log in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            log.close()


@pytest.fixture
def programs(tmp_path):
    found = Programs(tmp_path)
    yield found
    found.end()


def started_hub(programs, folder, *options, port=0):
    process = programs.start("hub", folder, "--port", port, "--json", *options)
    facts = ""
    while not facts.rstrip().endswith("}"):
        line = process.stdout.readline()
        assert line, "the hub has ended"
        facts += line
    return process, json.loads(facts)


def joining(programs, folder, address, name, *options):
    arguments = ("--target", "level", "--yes", "--things", "--publish", 7, "--poll", 0.3, "--json", *options)
    return programs.start("join", address, folder / f"{name}.csv", *arguments)


def test_five_owners(programs, tmp_path):
    for seed, name in enumerate((*HONEST, "leaver", "liar")):
        sign = -1 if name == "liar" else 1
        cases.table(seed, rows=50, sign=sign).to_csv(tmp_path / f"{name}.csv", index=False)
    options = ("--admission", "open", "--expect", 5, "--rounds", 1, "--points", 8)
    hub, facts = started_hub(programs, tmp_path / "hub", *options)
    address = facts["address"]
    port = address.rpartition(":")[2]

    first = joining(programs, tmp_path, address, "north")
    home = tmp_path / "north.hub"
    until(lambda: (home / "key.pem").exists())
    assert stat.S_IMODE((home / "key.pem").stat().st_mode) == 0o600
    until(lambda: uploaded(tmp_path / "hub", "north"))
    first.send_signal(signal.SIGKILL)  # while it waits for the others
    first.wait()
    made = (home / "module.safetensors").stat().st_mtime_ns

    running = {name: joining(programs, tmp_path, address, name) for name in ("south", "leaver")}
    until(lambda: uploaded(tmp_path / "hub", "south") and uploaded(tmp_path / "hub", "leaver"))
    hub.send_signal(signal.SIGKILL)  # the hub, too; it comes back at the same port, and owners wait
    hub.wait()
    hub, facts = started_hub(programs, tmp_path / "hub", *options, port=port)

    thief = HubClient(address, cases.new_key(), "north", patience=20)  # somebody who says that it is north
    with pytest.raises(RefusedError, match="the name of another key"):
        thief.ask("POST", "/register", {"invitation": None})
    running["east"] = joining(programs, tmp_path, address, "east")
    running["liar"] = joining(programs, tmp_path, address, "liar")
    running["north"] = joining(programs, tmp_path, address, "north")  # resumed
    _, said = programs.finished(running["liar"], code=6)
    assert "does not count your module" in said
    forger = HubClient(address, private_key(tmp_path / "liar.hub" / "key.pem"), "liar", patience=20)
    with pytest.raises(RefusedError, match="is of 'north'"):  # a module in the name of another
        forger.send("/module", (home / "module.safetensors").read_bytes())

    results = {name: json.loads(programs.finished(running[name])[0]) for name in (*HONEST, "leaver")}
    assert (home / "module.safetensors").stat().st_mtime_ns == made  # what was there was not fitted again
    assert {r["kind"] for r in results.values()} == {"rounds"}
    assert all(r["owners"] == 4 and r["rows_held_back"] >= 1 for r in results.values())

    gone = programs.start("leave", tmp_path / "leaver.hub", "--json")
    again = {name: joining(programs, tmp_path, address, name, "--stay") for name in HONEST}
    receipt = json.loads(programs.finished(gone)[0])["receipt"]
    assert receipt["name"] == "leaver"
    assert receipt["model_after"] not in (None, receipt["model_before"])
    coordinator = HubClient(address, private_key(tmp_path / "hub" / "coordinator.pem"), "coordinator", patience=20)
    until(lambda: (r := coordinator.ask("GET", "/report"))["kind"] == "rounds" and len(r["counted"]) == 3)
    (tmp_path / "final.safetensors").write_bytes(coordinator.fetch("/model"))
    for process in again.values():
        process.terminate()

    # the same without the liar and without the leaver, as if neither had ever been there
    modules = [rgp.load(tmp_path / f"{name}.hub" / "module.safetensors") for name in sorted(HONEST)]
    plan = rgp.merge(modules).plan(8)
    rows = {m.name: cases.table(HONEST.index(m.name), rows=50) for m in modules}
    alone, _ = plan.combine([contributed(plan, name, own) for name, own in rows.items()])
    final = rgp.load(tmp_path / "final.safetensors")
    assert sorted(final.names) == sorted(HONEST)
    x = np.linspace(-1, 9, 40)[:, None]
    for got, wanted in zip(final.predict(x), alone.predict(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-8)
    log = tmp_path / "audit.jsonl"
    log.write_bytes(coordinator.fetch("/audit"))
    assert audit.verify(log) > 20
    events = [entry["event"] for entry in audit.entries(log.read_bytes())]
    assert events.count("started") == 2
    assert {"withdrew", "receipt", "refused", "rounds ended"} <= set(events)


def contributed(plan, name, table):
    from recyclegp.local.held_back import is_held_back

    kept = table[~is_held_back(table[["hour"]], table["level"].to_numpy(), 0.1)]
    return plan.contribute(kept[["hour"]], kept["level"].to_numpy(), name=name, privacy="things", allow_small=True)


def uploaded(folder, name):
    log = folder / "audit.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return any('"uploaded"' in line and f'"by": "{name}"' in line for line in lines)


def until(true, seconds=240):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
