"""recyclegp modules: a dictionary on the command line."""

from __future__ import annotations

import json

import cases_dictionary as cases
import recyclegp as rgp
from cases_bad import one_line
from cases_cli import call, ok


def answer(*arguments):
    return json.loads(ok("modules", *arguments, "--json").stdout)


def test_add_replace_list_history_verify_remove_and_merge(tmp_path):
    folder = tmp_path / "wards"
    for name in ("north", "south"):
        cases.module(name).save(tmp_path / f"{name}.safetensors")
    assert answer(folder) == []
    files = [argument for name in ("north", "south") for argument in ("--add", tmp_path / f"{name}.safetensors")]
    added = answer(folder, *files, "--by", "anna")
    assert [(entry["name"], entry["rows"], entry["by"]) for entry in added] == [
        ("north", 30, "anna"),
        ("south", 30, "anna"),
    ]
    cases.module("south", level=1.0).save(tmp_path / "south.safetensors")
    answer(folder, "--replace", tmp_path / "south.safetensors")
    assert [entry["name"] for entry in answer(folder, "--name", "so*")] == ["south"]
    shown = ok("modules", folder).stdout
    assert "north" in shown
    assert "gaussian" in shown
    assert [event["kind"] for event in answer(folder, "--history")] == ["came", "came", "replaced"]
    assert "replaced" in ok("modules", folder, "--history").stdout
    assert answer(folder, "--verify") == {"modules": 2, "problems": []}
    assert rgp.Dictionary(folder).merge(learn=False).names == ["north", "south"]
    assert [entry["name"] for entry in answer(folder, "--remove", "north", "--by", "anna")] == ["south"]
    ok("merge", folder, "-o", tmp_path / "all.safetensors", "--no-learn", "-q")
    assert rgp.load(tmp_path / "all.safetensors").names == ["south"]


def test_what_is_wrong_is_one_line(tmp_path):
    cases.module("north").save(tmp_path / "north.safetensors")
    ok("modules", tmp_path / "d", "--add", tmp_path / "north.safetensors", "-q")
    assert "no module is named 'east'" in one_line(call("modules", tmp_path / "d", "--remove", "east"))
    cases.module("north", level=2.0).save(tmp_path / "north.safetensors")
    assert "use replace" in one_line(call("modules", tmp_path / "d", "--add", tmp_path / "north.safetensors"))
    file = next((tmp_path / "d").rglob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-8])
    damaged = call("modules", tmp_path / "d", "--verify")
    assert damaged.exit_code == 2
    assert "damaged" in damaged.stderr
