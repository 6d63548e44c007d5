"""A hub over HTTP: who may do what, what is refused, rounds, scores, receipts, and what a restart leaves."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
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
from recyclegp.hub import audit, evaluations, protocol, receipts
from recyclegp.hub.client import HubClient, UnreachableError, query
from recyclegp.hub.evaluations import Score
from recyclegp.hub.home import Home
from recyclegp.hub.hub import Hub
from recyclegp.hub.limits import Limits, Rate
from recyclegp.hub.owner import Owner, Rows
from recyclegp.hub.protocol import RefusedError
from recyclegp.hub.registry import Admission, Person, Role, Standing
from recyclegp.hub.server import Certificate

NAMES = ("north", "south", "east")


@pytest.fixture(scope="module")
def modules():
    return {name: cases.module(name, seed) for seed, name in enumerate(NAMES)}


def raw(here, method, path, headers=None, body=b""):
    connection = http.client.HTTPConnection(here.address.removeprefix("http://"), timeout=30)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def signed(here, key, name, method, path, body=b"", **changed):
    digest = protocol.digest_of(body)
    return {**protocol.headers(key, method, path, name, digest, here.hub.public, int(time.time())), **changed}


def test_a_hub_that_is_killed_before_it_has_signed_a_receipt_signs_it_later(tmp_path, modules, monkeypatch):
    """The model without the owner is there already, so that nothing else would make it look again."""
    with cases.running(tmp_path / "hub") as here:
        clients = {name: here.owner(name) for name in NAMES}
        for name, client in clients.items():
            client.send("/module", cases.content(modules[name], tmp_path))
        here.merged(*NAMES)
        monkeypatch.setattr(Hub, "sign_owed", lambda hub: None)  # as if it had been killed there
        left = clients["south"].ask("DELETE", "/module")["receipt"]
        here.merged("north", "east")
    monkeypatch.undo()
    path = tmp_path / "hub" / "receipts" / f"{left}.json"
    assert json.loads(path.read_text())["signature"] is None
    with cases.running(tmp_path / "hub") as here:
        receipts.check(json.loads(path.read_text()), here.hub.public)


def test_modules_are_merged_as_they_arrive(tmp_path, modules):
    with cases.running(tmp_path / "hub") as here:
        clients = {name: here.owner(name) for name in NAMES}
        for name, client in clients.items():
            sent = cases.content(modules[name], tmp_path)
            assert client.send("/module", sent) == {"module": protocol.digest_of(sent)}
            assert client.send("/module", sent) == {"module": protocol.digest_of(sent)}  # once more changes nothing
        here.merged(*NAMES)
        content = clients["north"].fetch("/model")
        (tmp_path / "got.safetensors").write_bytes(content)
        got, wanted = rgp.load(tmp_path / "got.safetensors"), rgp.merge(list(modules.values()))
        x = np.linspace(0, 8, 20)[:, None]
        np.testing.assert_allclose(got.predict(x), wanted.predict(x), atol=1e-9)
        report = clients["north"].ask("GET", "/report")
        assert sorted(report["counted"]) == sorted(NAMES)
        assert [row["rows"] for row in report["report"]] == [60, 60, 60]
        status = clients["south"].ask("GET", "/tasks")
        assert (status["state"], status["counted"], status["tasks"]) == ("ready", True, [])

        left = clients["south"].ask("DELETE", "/module")["receipt"]
        assert clients["south"].ask("DELETE", "/module")["receipt"] == left  # the answer may have been lost
        here.merged("north", "east")
        here.until(lambda: clients["south"].ask("GET", f"/receipts/{left}")["signature"])
        receipt = clients["south"].ask("GET", f"/receipts/{left}")
        receipts.check(receipt, here.hub.public)
        assert receipt["receipt"]["model_after"] == here.hub.current["model"]
        assert {p.stem for p in here.hub.folder.models.glob("*.safetensors")} == {here.hub.current["model"]}
        with pytest.raises(RefusedError, match="not in this hub any more"):
            clients["south"].fetch("/model")
        with pytest.raises(RefusedError, match="no such receipt"):
            clients["north"].ask("GET", f"/receipts/{left}")
    events = [e["event"] for e in audit.entries((tmp_path / "hub" / "audit.jsonl").read_bytes())]
    assert events.count("uploaded") == 3
    assert events.count("withdrew") == 1


def test_every_upload_can_be_proved_from_the_log(tmp_path, modules):
    with cases.running(tmp_path / "hub") as here:
        here.owner("north").send("/module", cases.content(modules["north"], tmp_path))
        log = here.coordinator().fetch("/audit")
    (entry,) = [e for e in audit.entries(log) if e["event"] == "uploaded"]
    r = entry["request"]
    key = bytes.fromhex(entry["key"])
    said = protocol.Signed(
        r["method"], r["path"], key, entry["by"], r["time"], r["nonce"], r["digest"], here.hub.public
    )
    protocol.check_signature(key, protocol.decoded(r["signature"], 64, ""), said.message(), "no")
    assert r["digest"] == entry["module"]


def test_what_is_refused(tmp_path, modules):
    limits = Limits(1000, 500, *(Rate(1e6, 1e6),) * 3)
    with cases.running(tmp_path / "hub", limits=limits) as here:
        key, other = cases.new_key(), cases.new_key()
        north = here.owner("north", key)
        small = b"{}"
        good = signed(here, key, "north", "GET", "/tasks")
        assert raw(here, "GET", "/tasks", good)[0] == 200
        assert raw(here, "GET", "/tasks", good)[0] == 409  # replayed
        assert raw(here, "GET", "/tasks")[0] == 401
        assert raw(here, "GET", "/tasks", signed(here, other, "north", "GET", "/tasks"))[0] == 401  # not registered
        assert raw(here, "GET", "/tasks", signed(here, key, "south", "GET", "/tasks"))[0] == 403
        forged = signed(here, other, "north", "GET", "/tasks") | {protocol.KEY: good[protocol.KEY]}
        assert raw(here, "GET", "/tasks", forged)[0] == 401
        changed = signed(here, key, "north", "PUT", "/module", small)
        assert raw(here, "PUT", "/module", changed, b"[]")[0] == 400
        large = b"x" * 1001
        assert raw(here, "PUT", "/module", signed(here, key, "north", "PUT", "/module", large), large)[0] == 413
        assert raw(here, "PUT", "/module", signed(here, key, "north", "PUT", "/module", small), small)[0] == 422
        with pytest.raises(RefusedError, match="name of another key"):
            here.owner("north", other)
        for path, method in (("/people", "GET"), ("/audit", "GET"), ("/evaluations", "POST")):
            with pytest.raises(RefusedError, match="not for a owner"):
                north.ask(method, path)
        for path in ("/model?digest=../../hub.pem", "/model?digest=" + "a" * 64, "/receipts/..%2f..%2fhub"):
            with pytest.raises(RefusedError):
                north.fetch(path)
        for question in ({}, {"invitation": 3}, {"invitation": None, "role": "coordinator"}, [], "x"):
            with pytest.raises(RefusedError):
                north.ask("POST", "/register", question)
        assert list(here.hub.folder.incoming.iterdir()) == []
        assert here.hub.modules() == {}


def test_only_the_owner_replaces_a_module(tmp_path, modules):
    with cases.running(tmp_path / "hub") as here:
        north, liar = here.owner("north"), here.owner("liar")
        north.send("/module", cases.content(modules["north"], tmp_path))
        for bad in (modules["north"], modules["south"], cases.module("liar").owned_by("north")):
            with pytest.raises(RefusedError, match=r"this module is of '(north|south)'"):
                liar.send("/module", cases.content(bad, tmp_path))
        with pytest.raises(RefusedError, match="not a module"):
            north.send("/module", cases.content(rgp.merge([modules["north"]]).plan(4), tmp_path))
        another = cases.content(cases.module("north", 9), tmp_path)
        north.send("/module", another)
        assert here.hub.modules() == {"north": protocol.digest_of(another)}
        events = [e["event"] for e in audit.entries(here.coordinator().fetch("/audit"))]
        assert events.count("replaced") == 1
        assert events.count("refused") == 4


def test_silent_connections_end(tmp_path, monkeypatch):
    monkeypatch.setattr("recyclegp.hub.server.HEAD_SECONDS", 0.1)
    monkeypatch.setattr("recyclegp.hub.server.LOOK", 0.05)
    with cases.running(tmp_path / "hub") as here:
        host, port = here.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=300) as silent:
            with contextlib.suppress(ConnectionError):  # on a busy machine it has ended before
                silent.sendall(b"GET /hub HTTP/1.1\r\nhost: x")
            assert ended(silent)


def ended(connection):
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def test_slow_bodies_end(tmp_path):
    """Only this question has so short a time: questions of others have no bodies, and nobody waits for these."""
    limits = Limits(of_key=Rate(1e6, 1e6), of_address=Rate(1e6, 1e6), refused=Rate(1e6, 1e6), body_seconds=0.1)
    with cases.running(tmp_path / "hub", limits=limits) as here:
        key = cases.new_key()
        here.hub.registry.put(Person(protocol.raw(key), "north", Role.OWNER, Standing.IN, 0.0))
        host, port = here.address.removeprefix("http://").split(":")
        headers = signed(here, key, "north", "POST", "/score", b"x" * 100) | {"content-length": "100"}
        with socket.create_connection((host, int(port)), timeout=300) as slow:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            slow.sendall(f"POST /score HTTP/1.1\r\nhost: x\r\n{lines}\r\nx".encode())
            assert b"408" in slow.recv(1000)


def test_rates(tmp_path):
    limits = Limits(of_key=Rate(0.01, 3), of_address=Rate(1e6, 1e6), refused=Rate(0.01, 5))
    with cases.running(tmp_path / "hub", limits=limits) as here:
        key = cases.new_key()
        statuses = [raw(here, "GET", "/tasks", signed(here, key, "a", "GET", "/tasks"))[0] for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert raw(here, "GET", "/hub")[0] == 429  # the address has been refused too often


def test_behind_a_proxy_addresses_are_those_that_it_names(tmp_path):
    """Otherwise all owners together would have what one may take; and what strangers say of themselves is nothing."""
    limits = Limits(of_key=Rate(1e6, 1e6), of_address=Rate(1e6, 1e6), refused=Rate(1e-9, 2))
    for behind in (True, False):
        with cases.running(tmp_path / f"hub-{behind}", limits=limits, behind_proxy=behind) as here:
            one, other = {"x-forwarded-for": "192.0.2.1"}, {"x-forwarded-for": "192.0.2.2"}
            assert [raw(here, "GET", "/tasks", one)[0] for _ in range(3)] == [401, 401, 429]
            assert raw(here, "GET", "/tasks", other)[0] == (401 if behind else 429)


def test_registering_is_not_repeated_by_others(tmp_path):
    """Who has left stays away, although somebody has recorded how it came."""
    with cases.running(tmp_path / "hub") as here:
        key = cases.new_key()
        body = b'{"invitation": null}'
        recorded = signed(here, key, "north", "POST", "/register", body)
        assert raw(here, "POST", "/register", recorded, body)[0] == 200
        here.client("north", key).ask("DELETE", "/module")
        assert here.hub.registry.named("north").standing is Standing.OUT
        assert raw(here, "POST", "/register", recorded, body)[0] == 409
        assert here.hub.registry.named("north").standing is Standing.OUT


def test_admission_and_roles(tmp_path, modules):
    with cases.running(tmp_path / "hub", admission=Admission.INVITED) as here:
        chief = here.coordinator()
        with pytest.raises(RefusedError, match="invitation is needed"):
            here.owner("north")
        (token,) = chief.ask("POST", "/invitations", {"role": "reader", "count": 1})["invitations"]
        reader = here.client("reader")
        assert reader.ask("POST", "/register", {"invitation": token})["role"] == "reader"
        with pytest.raises(RefusedError, match="not for a reader"):
            reader.send("/module", cases.content(modules["north"], tmp_path))
        with pytest.raises(RefusedError, match="no merged model yet"):
            reader.fetch("/model")
        (token,) = chief.ask("POST", "/invitations", {"role": "owner", "count": 1})["invitations"]
        north = here.client("north")
        north.ask("POST", "/register", {"invitation": token})
        north.send("/module", cases.content(modules["north"], tmp_path))
        here.merged("north")
        assert len(reader.fetch("/model")) > 1000
        chief.ask("POST", "/people", {"name": "north", "standing": "out"})
        here.merged()
        with pytest.raises(RefusedError, match="no merged model yet"):
            reader.fetch("/model")
        with pytest.raises(RefusedError, match="role must be"):
            chief.ask("POST", "/invitations", {"role": "king", "count": 1})


def test_rounds_go_on_after_a_restart(tmp_path, modules):
    """One exchange is half answered when the hub stops; the model is that of rounds in one place."""
    folder = tmp_path / "hub"
    keys = {name: cases.new_key() for name in NAMES}
    plan = rgp.merge([modules[name] for name in sorted(NAMES)]).plan(7)

    def answer(asked, name):
        rows = cases.table(NAMES.index(name))
        return asked.contribute(rows[["hour"]], rows["level"], name=name, privacy="things")

    with cases.running(folder, expect=3, rounds=2, points=7) as here:
        for name in NAMES:
            here.owner(name, keys[name]).send("/module", cases.content(modules[name], tmp_path))
        here.until(lambda: here.hub.run() is not None)
        north = here.client("north", keys["north"])
        (tmp_path / "plan.safetensors").write_bytes(north.fetch("/plan"))
        asked = rgp.load(tmp_path / "plan.safetensors")
        assert [t["kind"] for t in north.ask("GET", "/tasks")["tasks"]] == ["answer"]
        with pytest.raises(RefusedError, match="you are 'north'"):
            north.send("/answer", cases.content(answer(asked, "south"), tmp_path))
        north.send("/answer", cases.content(answer(asked, "north"), tmp_path))
        with pytest.raises(RefusedError, match="have answered"):
            north.send("/answer", cases.content(answer(asked, "north"), tmp_path))
        assert north.ask("GET", "/tasks")["tasks"] == []
    with cases.running(folder, expect=3, rounds=2, points=7) as here:
        run = here.hub.run()
        assert run.missing() == ["east", "south"]
        while here.hub.run() is not None:
            for name in NAMES:
                client = here.client(name, keys[name])
                if client.ask("GET", "/tasks")["tasks"]:
                    (tmp_path / "plan.safetensors").write_bytes(client.fetch("/plan"))
                    client.send(
                        "/answer", cases.content(answer(rgp.load(tmp_path / "plan.safetensors"), name), tmp_path)
                    )
            time.sleep(0.05)
        assert here.hub.current["kind"] == "rounds"
        final = rgp.load(here.hub.model_file(None))
    while True:  # the same in one place
        e, following = plan.combine([answer(plan, name) for name in sorted(NAMES)])
        if following.done or not (following.evaluations < 2 or following.asks == "slopes"):
            break
        plan = following
    x = np.linspace(0, 8, 20)[:, None]
    np.testing.assert_allclose(final.predict(x), e.predict(x), atol=1e-7)


def test_whoever_is_late_is_not_waited_for_for_ever(tmp_path, modules):
    with cases.running(tmp_path / "hub", expect=2, rounds=1, points=7, deadline=1e6) as here:
        clients = {name: here.owner(name) for name in NAMES[:2]}
        for name, client in clients.items():
            client.send("/module", cases.content(modules[name], tmp_path))
        here.until(lambda: here.hub.run() is not None)
        (tmp_path / "plan.safetensors").write_bytes(clients["north"].fetch("/plan"))
        rows = cases.table(0)
        plan = rgp.load(tmp_path / "plan.safetensors")
        answer = plan.contribute(rows[["hour"]], rows["level"], name="north", privacy="things")
        clients["north"].send("/answer", cases.content(answer, tmp_path))
        with here.hub.lock:
            here.hub.run().save(asked=0.0)  # that long ago
        here.until(lambda: here.hub.current["kind"] == "rounds")
        assert here.hub.current["counted"] == ["north"]


def test_scores_are_sums(tmp_path, modules):
    with cases.running(tmp_path / "hub", expect=3, evaluate=True) as here:
        owners = {}
        for seed, name in enumerate(NAMES):
            rows = cases.table(seed)
            home = Home(tmp_path / f"{name}.hub")
            home.make()
            X, y = rows[["hour"]], rows["level"].to_numpy()
            rgp.fit(X, y, name=name, publish=7, learn=False, noise=0.04, hold_back=0.2).save(home.module)
            client = here.client(name, home.key())
            client.about()
            said = []
            own = Rows(X, y, None, 0.2, "things")
            owners[name] = Owner(client, home, own, share_score=name == "north", say=said.append)
            owners[name].register(None, 0.05, 5)
            owners[name].send_module()
        for owner in owners.values():
            owner.attend(0.05)
        here.until(lambda: here.coordinator().ask("GET", "/evaluations")["evaluations"][-1]["closed"])
        (found,) = here.coordinator().ask("GET", "/evaluations")["evaluations"]
        merged = owners["north"].fetch(tmp_path / "merged.safetensors")
        gains = {name: owner.gain(merged) for name, owner in owners.items()}
        rows = sum(g.rows for g in gains.values())
        assert (found["answered"], found["rows"]) == (3, rows)
        assert found["merged"] == pytest.approx(-sum(g.merged * g.rows for g in gains.values()) / rows)
        assert found["alone"] == pytest.approx(-sum(g.alone * g.rows for g in gains.values()) / rows)
        assert found["gain_of_owners"] == {"north": pytest.approx(gains["north"].gain)}
        kept = (tmp_path / "hub" / "evaluations" / f"{found['id']}.json").read_text()
        assert set(json.loads(kept)["of_owners"]) == {"north"}
        with pytest.raises(RefusedError, match="not waited for"):
            here.client("north", Home(tmp_path / "north.hub").key()).ask(
                "POST", "/score", {"evaluation": found["id"], "rows": 1, "merged": 0, "alone": 0, "shared": False}
            )


def test_few_owners_are_not_summed(tmp_path):
    one = evaluations.ask(tmp_path, "m", [("a", "1"), ("b", "2"), ("c", "3")], 10, 0.0)
    one.add("a", "1", Score(5, -5.0, -6.0, False))
    assert one.shown(3)["rows"] is None  # not before it is closed: two such sums would tell one owner's
    one.add("b", "2", Score(5, -5.0, -6.0, False))
    assert one.due(11.0)
    one.close(11.0)
    assert one.shown(3)["merged"] is None
    assert evaluations.Evaluation(one.path).shown(2)["merged"] == -1.0
    for bad in ({"rows": 0}, {"rows": True}, {"merged": float("nan")}, {"merged": 1e9}, {"shared": 1}, {"more": 1}):
        given = {"evaluation": one.id, "rows": 2, "merged": 0.0, "alone": 0, "shared": False, **bad}
        with pytest.raises(RefusedError):
            Score.of(given)


def test_the_hub_must_stay_the_same(tmp_path):
    with cases.running(tmp_path / "one") as one, cases.running(tmp_path / "two") as two:
        client = one.client("north")
        client.about()
        moved = HubClient(two.address, cases.new_key(), "north", hub=client.hub, patience=1)
        with pytest.raises(RefusedError, match="another hub than before"):
            moved.about()


def test_a_folder_has_one_hub(tmp_path):
    hub = Hub(tmp_path, cases.settings())
    with pytest.raises(rgp.RecycleGPError, match="running here already"):
        Hub(tmp_path, cases.settings())
    hub.close()


def test_the_process_that_merges_ends_with_a_hub_that_is_killed():
    """It waits for jobs that nobody could give it any more."""
    program = (
        "import os, time\n"
        "from recyclegp.hub.server import Jobs\n"
        "if __name__ == '__main__':\n"
        "    print(Jobs(1, 2**34).submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
        try:
            parent.communicate(timeout=60)  # both write there: it is at its end when neither lives
        except subprocess.TimeoutExpired:
            os.kill(child, signal.SIGKILL)
            raise


STOPPED = """
import asyncio
from pathlib import Path
import cases_hub as cases
from recyclegp.hub.hub import Hub
from recyclegp.hub.keeper import Keeper
from recyclegp.hub.server import serving

WORK = "import time; print('busy', flush=True); time.sleep(600)"

async def job(self, what, *arguments):
    found = asyncio.get_running_loop().run_in_executor(self._executor, exec, WORK)
    return await found

if __name__ == "__main__":
    Keeper._job = job
    hub = Hub(Path("hub"), cases.settings())
    hub.dictionary.add(cases.module("north", privacy="things"))
    try:
        with serving(hub) as running:
            running.run()
    finally:
        hub.close()
        print("closed", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_hub_that_is_stopped_ends_in_order_whatever_it_is_doing(tmp_path, how):
    """As terminals and services do it, which tell all its processes: with 0, at once, with its files closed and
    nothing said about processes."""
    env = {**os.environ, "PYTHONPATH": os.path.dirname(cases.__file__)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", STOPPED], cwd=tmp_path, env=env, **pipes) as hub:
        try:
            assert hub.stdout.readline() == "busy\n"
            os.killpg(hub.pid, how)
            said, complaints = hub.communicate(timeout=60)
        finally:
            hub.kill()
    assert (hub.returncode, said, complaints) == (0, "closed\n", "")


def test_whoever_is_impatient_does_not_end_it_in_disorder(tmp_path):
    with cases.running(tmp_path) as here:
        server = here.server
        for _ in range(2):
            server.handle_exit(signal.SIGINT, None)
        assert server.should_exit
        assert not server.force_exit


def test_nobody_there(tmp_path):
    said = []
    client = HubClient("http://127.0.0.1:9", cases.new_key(), "a", patience=1.5, say=said.append)
    with pytest.raises(UnreachableError, match=r"not reachable \(Connection refused\); tried \d+ times"):
        client.about()
    assert len(said) == 1
    with pytest.raises(rgp.RecycleGPError, match="not the address of a hub"):
        HubClient("ftp://x", cases.new_key(), "a")
    assert query("/model", digest="a b") == "/model?digest=a+b"


def test_a_hub_without_tls_is_not_asked_by_https(tmp_path, capfd):
    with cases.running(tmp_path) as here:
        address = here.address.replace("http", "https")
        with pytest.raises(UnreachableError, match="no TLS is spoken there, but perhaps http://"):
            HubClient(address, cases.new_key(), "south", patience=0.1).about()
    assert capfd.readouterr().err == ""  # what strangers send does not fill the log of a service


def test_with_tls(tmp_path):
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "chain.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", *name, *files]
    try:
        subprocess.run(made, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no openssl")
    certificate = Certificate(tmp_path / "chain.pem", tmp_path / "key.pem")
    with cases.running(tmp_path / "hub", certificate=certificate) as here:
        assert here.address.startswith("https://")
        client = here.client("north", certificate=certificate.chain)
        assert client.ask("POST", "/register", {"invitation": None})["standing"] == "in"
        with pytest.raises(UnreachableError, match="certificate is not one that this machine trusts"):
            here.client("south").about()
        plain = HubClient(here.address.replace("https", "http"), cases.new_key(), "south", patience=0.1)
        with pytest.raises(UnreachableError, match="it hangs up, and is perhaps to be asked by https://"):
            plain.about()
        assert ssl.OPENSSL_VERSION
