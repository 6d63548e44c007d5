"""A hub that runs rounds, and owners whose rows are about people: nothing exact is asked of them, or answered."""

import re

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp
from cases_cli import call as run
from recyclegp.hub import audit
from recyclegp.hub.client import query
from recyclegp.hub.folder import read_json
from recyclegp.hub.home import Home
from recyclegp.hub.owner import Owner, Rows

NAMES = ("north", "south")


def log(here):
    return list(audit.entries(here.coordinator().fetch("/audit")))


@pytest.mark.slow
def test_join_with_people_where_a_hub_wants_rounds(tmp_path):
    """The one-shot merge is the model: nobody waits for answers that nobody gives."""
    path = tmp_path / "north.csv"
    cases.table(0, rows=90).to_csv(path, index=False)
    with cases.running(tmp_path / "hub", expect=2, rounds=2, points=7, deadline=600) as here:
        here.owner("south").send("/module", cases.content(cases.module("south", 1), tmp_path))
        usual = ("--target", "level", "--people", "--poll", 0.05, "--patience", 20, "--yes")
        done = run("join", here.address, path, *usual)
        assert done.exit_code == 0, done.stderr
        assert re.search(r"^  later +no sums over your rows", done.stderr, re.MULTILINE)
        assert here.hub.current["kind"] == "one shot"
        assert sorted(here.hub.current["counted"]) == sorted(NAMES)
        refused = [e["why"] for e in log(here) if e["event"] == "no rounds"]
        assert refused
        assert all(why.startswith("rows of north are about people") for why in refused)
        assert list(here.hub.folder.rounds.glob("*/answer-*")) == []


@pytest.mark.slow
def test_an_owner_of_people_declines_a_plan_and_says_why(tmp_path):
    agreed = rgp.Plan(
        points=rgp.Plan.grid([0], [8], 5), kernel="rbf", noise=0.04, mean=4.0, columns=["hour"], target="level"
    )
    agreed.save(tmp_path / "plan.safetensors")
    with cases.running(tmp_path / "hub", expect=1) as here:
        rows = cases.table(0, rows=90)
        home = Home(tmp_path / "north.hub")
        home.make()
        x, y = rows[["hour"]], rows["level"].to_numpy()
        rgp.fit(x, y, name="north", hold_back=0.1, privacy="people").save(home.module)
        client, said = here.client("north", home.key()), []
        client.about()
        owner = Owner(client, home, Rows(x, y, None, 0.1, "people"), share_score=False, say=said.append)
        owner.register(None, 0.05, 5)
        owner.send_module()
        here.merged("north")
        asked = query("/rounds", rounds="1", deadline="2")
        here.coordinator().send(asked, (tmp_path / "plan.safetensors").read_bytes())
        owner.attend(0.05)
        assert any("cannot do what the hub asks (answer): rows are about people" in words for words in said)
        assert not any("leave" in words for words in said)
        assert here.hub.current["kind"] == "one shot"
        assert list(here.hub.folder.rounds.glob("*/answer-*")) == []


def test_an_owner_of_people_who_comes_during_rounds_is_not_asked(tmp_path):
    with cases.running(tmp_path / "hub", expect=2, rounds=1, points=7, deadline=600) as here:
        clients = {name: here.owner(name) for name in (*NAMES, "west")}
        for seed, name in enumerate(NAMES):
            clients[name].send("/module", cases.content(cases.module(name, seed), tmp_path))
        here.until(lambda: here.hub.run() is not None)
        rows = cases.table(2, rows=90)
        late = rgp.fit(rows[["hour"]], rows["level"], name="west", privacy="people", noise=0.04, learn=False)
        clients["west"].send("/module", cases.content(late, tmp_path))
        here.until(lambda: "west" in here.hub.run().facts["modules"])
        assert sorted(read_json(here.hub.run().folder / "run.json")["owners"]) == sorted(NAMES)
        assert clients["west"].ask("GET", "/tasks")["tasks"] == []
