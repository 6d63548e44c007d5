"""Owners that send no module through a hub: private answers to a plan that was given, and secure sums."""

import json
import threading

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp
from cases_cli import call as run
from cases_cli import ok
from recyclegp.hub import audit, exchanges, pages
from recyclegp.hub.client import query
from recyclegp.hub.home import Home
from recyclegp.hub.owner import Owner, Promise, Rows, _words
from recyclegp.hub.protocol import RefusedError

NAMES = ("north", "south", "east", "west")
X = np.linspace(0, 8, 20)[:, None]


def plan(folder, **options):
    usual = {"kernel": "rbf(outputscale=2, lengthscale=1.5)", "noise": 0.04, "mean": 4.0, "columns": ["hour"]}
    found = rgp.Plan(points=rgp.Plan.grid([0], [8], 9), target="level", learn=False, **{**usual, **options})
    found.save(folder / "plan.safetensors")
    return found


def owner(here, folder, name, promise, share=0.1):
    """Registered; its module stays at home."""
    rows = cases.table(NAMES.index(name))
    home = Home(folder / f"{name}.hub")
    home.make()
    client = here.client(name, home.key())
    client.about()
    said = []
    table = Rows(rows[["hour"]], rows["level"].to_numpy(), None, share, None)
    found = Owner(client, home, table, share_score=False, say=said.append, promise=promise)
    found.register(None, 0.05, 5)
    found.said, found.table = said, table
    return found


def attended(owners):
    """Everybody at once, until the model is there; what fails is raised here."""
    failed = []

    def attend(one):
        try:
            one.attend(0.05)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=attend, args=(one,)) for one in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def late_is_west(here):
    """Its time is over as soon as all others have answered."""
    here.until(lambda: here.hub.run().missing() == ["west"])
    here.hub.run().save(asked=0.0)


def central(agreed, owners):
    """The model of all rows, in one place."""
    kept = [(one.table.X[one.table.kept], one.table.y[one.table.kept], name) for name, one in owners.items()]
    return agreed.combine([agreed.contribute(x, y, name=name, privacy="things") for x, y, name in kept])[0]


def ask(here, folder, **options):
    path = query("/rounds", **{"rounds": "1", "deadline": "30", **{k: str(v) for k, v in options.items()}})
    return here.coordinator().send(path, (folder / "plan.safetensors").read_bytes())


@pytest.mark.slow
def test_join_with_a_guarantee_sends_private_answers_only(tmp_path):
    pytest.importorskip("dp_accounting")
    plan(tmp_path)
    with cases.running(tmp_path / "hub", expect=9) as here:
        chief = ("--key", tmp_path / "hub" / "coordinator.pem")
        done = {}

        def join(name):
            rows = tmp_path / f"{name}.csv"
            cases.table(NAMES.index(name), rows=200).to_csv(rows, index=False)
            usual = ("--target", "level", "--publish", 7, "--poll", 0.05, "--patience", 20, "--json", "--yes")
            done[name] = run("join", here.address, rows, *usual, "--epsilon", 2, "--delta", 1e-6, "--bound", 3)

        threads = [threading.Thread(target=join, args=(name,)) for name in NAMES[:1]]
        threads[0].start()
        here.until(lambda: here.hub.registry.named("north") is not None)
        asked = ok("coordinate", here.address, "rounds", "--plan", tmp_path / "plan.safetensors", *chief)
        assert asked.stdout == "asked: north\n"
        threads[0].join()
        assert done["north"].exit_code == 0, done["north"].stderr
        facts = json.loads(done["north"].stdout)
        assert (facts["module"], facts["kind"]) == (None, "rounds")
        assert facts["rows_held_back"] >= 1
        assert here.hub.modules() == {}  # no module has left
        (path,) = here.hub.folder.rounds.glob("*/answer-*.safetensors")
        answer = rgp.load(path)
        assert answer.facts.about.guaranteed.epsilon == 2
        ledger = json.loads((tmp_path / "north.hub" / "ledger.json").read_text())
        assert len(ledger["spent"]) == 1
        events = [e["event"] for e in audit.entries(here.coordinator().fetch("/audit"))]
        assert "uploaded" not in events
        (north,) = [p for p in here.coordinator().ask("GET", "/people")["people"] if p["name"] == "north"]
        assert (north["epsilon"], north["delta"]) == (2, 1e-6)  # what the answer says, and the log for ever
        assert "epsilon" in ok("coordinate", here.address, "people", *chief).stdout
        again = run(
            *("join", here.address, tmp_path / "north.csv", "--target", "level", "--publish", 7, "--epsilon", 1),
            *("--delta", 1e-6, "--bound", 3, "--poll", 0.05),
        )
        assert again.exit_code == 5  # it is another guarantee, and is shown again
        assert "none: it stays here" in again.stderr
        assert "differentially private" in again.stderr
        left = ok("leave", tmp_path / "north.hub", "--poll", 0.05)  # the model of its answers goes
        assert "there is no model now" in left.stdout
        assert list(here.hub.folder.models.glob("*.safetensors")) == []


@pytest.mark.slow
def test_an_unprotected_plan_is_not_answered_privately(tmp_path):
    """Rounds from a merge, and scores, are declined; an answer that was made is sent again after a kill."""
    pytest.importorskip("dp_accounting")
    public = plan(tmp_path)
    privacy = rgp.Privacy(epsilon=2, delta=1e-6, bound=3.0, ledger=tmp_path / "ledger.json")
    with cases.running(tmp_path / "hub") as here:
        north = owner(here, tmp_path, "north", Promise(privacy, False))
        with pytest.raises(rgp.RecycleGPError, match="a module has no guarantee"):
            north.send_module()
        south = here.owner("south")
        south.send("/module", cases.content(cases.module("south", 1), tmp_path))
        here.merged("south")
        rgp.load(here.hub.model_file(None)).plan(7).save(tmp_path / "plan.safetensors")
        ask(here, tmp_path)
        (task,) = north._client.ask("GET", "/tasks")["tasks"]
        assert not north._did(task)
        assert "made from what owners have said" in north.said[-1]
        assert not north._did({"kind": "score", "id": "x", "digest": "x"})
        assert not (tmp_path / "ledger.json").exists()
        with pytest.raises(RefusedError, match="rounds are going on"):
            ask(here, tmp_path)
        exchanges.fail(here.hub, "the test says so")
        public.save(tmp_path / "plan.safetensors")
        ask(here, tmp_path)
        path = north._home.answer(public.digest)
        (task,) = north._client.ask("GET", "/tasks")["tasks"]
        path.write_bytes(
            cases.content(public.contribute(X, np.sin(X[:, 0]) + 4, name="north", privacy=privacy), tmp_path)
        )
        before = path.read_bytes()
        assert north._did(task)
        (there,) = here.hub.folder.rounds.glob("*/answer-*.safetensors")
        assert there.read_bytes() == before
        assert len(json.loads((tmp_path / "ledger.json").read_text())["spent"]) == 1


def test_a_secure_sum_is_the_sum(tmp_path):
    agreed = plan(tmp_path)
    with cases.running(tmp_path / "hub") as here:
        owners = {name: owner(here, tmp_path, name, Promise(None, True)) for name in NAMES[:3]}
        ask(here, tmp_path, secure=1)
        attended(owners.values())
        assert sorted(here.hub.current["counted"]) == sorted(owners)
        final = owners["north"].fetch(tmp_path / "merged.safetensors")
        assert list(here.hub.folder.rounds.glob("*/answer-*")) == []  # nobody's own
        assert any("under masks leave" in words for words in owners["north"].said)
        np.testing.assert_allclose(final.predict(X), central(agreed, owners).predict(X), atol=1e-6)
        ask(here, tmp_path)  # one that is not secure
        (task,) = owners["north"]._client.ask("GET", "/tasks")["tasks"]
        assert not owners["north"]._did(task)


def test_owners_of_a_secure_sum_share_its_noise(tmp_path):
    """What each has spent is in its own ledger, and in the log of the hub; the model says what is guaranteed."""
    pytest.importorskip("dp_accounting")
    plan(tmp_path)
    agreed = {"epsilon": 2.0, "delta": 1e-6, "bound": 3.0}
    with cases.running(tmp_path / "hub") as here:
        owners = {}
        for name in NAMES[:3]:
            privacy = rgp.Privacy(**agreed, ledger=tmp_path / f"{name}.json")
            owners[name] = owner(here, tmp_path, name, Promise(privacy, True))
        other = owner(here, tmp_path, NAMES[3], Promise(rgp.Privacy(epsilon=1, delta=1e-6, bound=3.0), True))
        ask(here, tmp_path, secure=1, **agreed)
        (task,) = other._client.ask("GET", "/tasks")["tasks"]
        assert not other._did(task)  # it has agreed to something else
        late = threading.Thread(target=late_is_west, args=(here,))
        late.start()
        attended(owners.values())
        late.join()
        known = owners["north"].fetch(tmp_path / "merged.safetensors").disclosure.guaranteed
        assert (known.epsilon, known.delta, known.owners) == (2.0, 1e-6, 3)
        people = {p["name"]: p["epsilon"] for p in here.coordinator().ask("GET", "/people")["people"]}
        assert people == {"coordinator": None, **dict.fromkeys(owners, 2.0), NAMES[3]: None}
        for name in owners:
            assert len(json.loads((tmp_path / f"{name}.json").read_text())["spent"]) == 1


def test_a_secure_sum_survives_who_drops_out_and_a_restart(tmp_path):
    """West sends its shares, and is not heard of again; the hub is stopped in between."""
    agreed = plan(tmp_path)
    folder = tmp_path / "hub"
    with cases.running(folder) as here:
        owners = {name: owner(here, tmp_path, name, Promise(None, True)) for name in NAMES}
        ask(here, tmp_path, secure=1, deadline=60)
        for stage in range(2):  # keys and shares
            for one in owners.values():
                (task,) = one._client.ask("GET", "/tasks")["tasks"]
                assert one._did(task), one.said
            here.until(lambda wanted=stage + 1: here.hub.run().stage == wanted)
        (session,) = owners["north"]._sums
        with pytest.raises(RefusedError, match="you are 'west'"):
            owners["west"]._client.send("/sum", owners["north"]._sums[session].message)
    with cases.running(folder) as here:
        for one in owners.values():
            one._client = here.client(one._client.name, one._home.key())
            one._client.about()
        for name in ("north", "south", "east"):
            (task,) = owners[name]._client.ask("GET", "/tasks")["tasks"]
            assert owners[name]._did(task), owners[name].said
        with here.hub.lock:
            assert here.hub.run().missing() == ["west"]
            here.hub.run().save(asked=0.0)  # time has run out
        attended([one for name, one in owners.items() if name != "west"])
        assert sorted(here.hub.current["counted"]) == ["east", "north", "south"]
        final = owners["north"].fetch(tmp_path / "merged.safetensors")
        del owners["west"]
        np.testing.assert_allclose(final.predict(X), central(agreed, owners).predict(X), atol=1e-6)
        assert "went on without" in here.coordinator().fetch("/audit").decode()


def test_too_few_open_nothing(tmp_path):
    plan(tmp_path)
    with cases.running(tmp_path / "hub") as here:
        owners = [owner(here, tmp_path, name, Promise(None, True)) for name in NAMES[:3]]
        ask(here, tmp_path, secure=1)
        (task,) = owners[0]._client.ask("GET", "/tasks")["tasks"]
        assert owners[0]._did(task)
        with here.hub.lock:
            here.hub.run().save(asked=0.0)  # time has run out
        here.until(lambda: "2 are needed" in here.hub.audit.read().decode())
        assert here.hub.run() is None
        assert here.hub.current["model"] is None
        status = owners[0]._client.ask("GET", "/tasks")
        assert "the last rounds have come to nothing: only 1 owners have answered, and 2 are needed" in _words(status)
        assert "2 are needed" in pages.state(here.hub)["rounds_failed"]
        ask(here, tmp_path, secure=1)  # once more
        assert pages.state(here.hub)["rounds_failed"] is None


def test_what_is_asked_is_checked(tmp_path):
    plan(tmp_path)
    with cases.running(tmp_path / "hub") as here:
        with pytest.raises(RefusedError, match="nobody is registered"):
            ask(here, tmp_path)
        north = here.owner("north")
        with pytest.raises(RefusedError, match="2 to 1000 different owners"):
            ask(here, tmp_path, secure=1)
        for wrong in ({"rounds": 0}, {"secure": 2}, {"epsilon": 1}, {"more": 1}, {"secure": 1, "rounds": 2}):
            with pytest.raises(RefusedError):
                ask(here, tmp_path, **wrong)
        with pytest.raises(RefusedError, match="not for a owner"):
            north.send("/rounds?rounds=1&deadline=3", (tmp_path / "plan.safetensors").read_bytes())
        with pytest.raises(RefusedError, match="no secure sum now"):
            north.fetch("/sum")
        assert list(here.hub.folder.rounds.iterdir()) == []
        assert ask(here, tmp_path)["owners"] == ["north"]
        assert [t["kind"] for t in here.owner("south").ask("GET", "/tasks")["tasks"]] == ["answer"]  # joins late
    refused = run("coordinate", "http://127.0.0.1:9", "rounds", "--secure", "--key", tmp_path / "hub/coordinator.pem")
    assert refused.exit_code == 2
    assert "give --plan" in refused.stderr
