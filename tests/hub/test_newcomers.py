"""Owners who come while rounds go on."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp

NAMES = ("north", "south", "east", "west")


def test_who_comes_during_rounds_is_screened_and_joins(tmp_path):
    modules = {name: cases.module(name, seed) for seed, name in enumerate(NAMES)}
    with cases.running(tmp_path / "hub", expect=3, rounds=1, points=7, deadline=120) as here:
        clients = {name: here.owner(name) for name in (*NAMES, "liar")}
        for name in NAMES[:3]:
            clients[name].send("/module", cases.content(modules[name], tmp_path))
        here.until(lambda: here.hub.run() is not None)
        begun = here.hub.run().id
        assert clients["west"].ask("GET", "/tasks")["tasks"] == []
        clients["west"].send("/module", cases.content(modules["west"], tmp_path))
        clients["liar"].send("/module", cases.content(cases.module("liar", 9, sign=-1), tmp_path))
        here.until(lambda: {"west", "liar"} <= set(here.hub.run().facts["modules"]))
        assert here.hub.run().id == begun  # it goes on
        assert sorted(here.hub.run().owners) == sorted(NAMES)  # whoever contradicts the others is not asked
        path = tmp_path / "plan.safetensors"
        seen = set()
        while here.hub.run() is not None and here.hub.run().id == begun:
            for seed, name in enumerate(NAMES):
                if any(task["id"] == begun for task in clients[name].ask("GET", "/tasks")["tasks"]):
                    path.write_bytes(clients[name].fetch("/plan"))
                    rows = cases.table(seed)
                    answer = rgp.load(path).contribute(rows[["hour"]], rows["level"], name=name, privacy="things")
                    clients[name].send("/answer", cases.content(answer, tmp_path))
                    seen.add(name)
            here.until(lambda: here.hub.run() is None or here.hub.run().missing() or here.hub.run().id != begun)
        assert seen == set(NAMES)
        merged = [e for e in cases_log(here) if e["event"] == "merged" and e["kind"] == "rounds"]
        assert sorted(merged[0]["counted"]) == sorted(NAMES)


def cases_log(here):
    from recyclegp.hub import audit

    return list(audit.entries(here.coordinator().fetch("/audit")))
