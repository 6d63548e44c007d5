"""Rounds over a hub that owners have scored: compared with the one-shot merge by rows that nobody was fitted to."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import json
import threading

import numpy as np

import cases_hub as cases
import recyclegp as rgp
from recyclegp.hub.home import Home
from recyclegp.hub.owner import Owner, Rows
from recyclegp.local.held_back import held_back_if_any

NAMES = ("north", "south", "east")


@pytest.mark.slow
def test_rounds_are_scored_where_owners_share_scores(tmp_path):
    tables = {name: cases.table(seed, rows=120) for seed, name in enumerate(NAMES)}
    with cases.running(tmp_path / "hub", expect=3, rounds=2, points=7) as here:
        owners = {}
        for name, rows in tables.items():
            home = Home(tmp_path / f"{name}.hub")
            home.make()
            x, y = rows[["hour"]], rows["level"].to_numpy()
            share = 0.2 if name == "east" else 0.1
            rgp.fit(x, y, name=name, publish=7, learn=False, noise=0.04, hold_back=share).save(home.module)
            client = here.client(name, home.key())
            client.about()
            table = Rows(x, y, None, share, "things")
            owners[name] = Owner(client, home, table, share_score=name != "south", say=lambda text: None)
            owners[name].register(None, 0.05, 5)
            owners[name].send_module()
        threads = [threading.Thread(target=owner.attend, args=(0.05,)) for owner in owners.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert here.hub.current["kind"] == "rounds"
        assert sorted(here.hub.current["counted"]) == sorted(NAMES)
        (run,) = here.hub.folder.rounds.glob("*/run.json")
        answers = {}
        for path in sorted(run.parent.glob("answer-*.safetensors")):
            found = rgp.load(path)
            answers.setdefault(found.name, found)
        for name, rows in tables.items():
            x, y = rows[["hour"]], rows["level"].to_numpy()
            assert answers[name].rows == owners[name]._rows.kept.sum()  # those of the module, and no other
            scored = {score.rows for _, score in answers[name].facts.scores}
            assert scored == (set() if name == "south" else {int(np.sum(held_back_if_any(x, y, 0.1)))})
        history = json.loads(run.read_text())["history"]
        assert any(entry["score"] is not None for entry in history)
