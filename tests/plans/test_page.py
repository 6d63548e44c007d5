"""docs/howto-plan.md: what stands there works, in Python and by e-mail."""

import json
import re
import shlex
from pathlib import Path

import pytest

import recyclegp as rgp
from cases_cli import call, ok, owner, written

PAGE = (Path(__file__).parents[2] / "docs" / "howto-plan.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.S):
        exec(block, names)
    assert names["e"].names == [f"ward-{k}" for k in range(10)]


@pytest.mark.slow
def test_three_people_with_e_mail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wards").mkdir()
    (tmp_path / "answers").mkdir()
    for seed, name in enumerate(("north", "south", "east")):
        table = written(owner(seed, 0, 6, 80), tmp_path / f"{name}.csv")
        ok("fit", table, "--target", "y", "-o", tmp_path / "wards" / f"{name}.safetensors", "--things", "-q")
    said = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.S):
        for line in block.splitlines():
            found = call(*shlex.split(line)[1:])
            assert found.exit_code == 0, (line, found.output)
            said.append(found)
    answer, last = (json.loads(s.stdout) for s in said if s.stdout)
    assert answer["name"] == "north"
    assert answer["privacy_guarantee"] == "none"
    assert last["history"][1]["missing"] == ["east"]
    assert sorted(rgp.load("city-2.safetensors").names) == ["east", "north", "south"]
    assert any("east" in s.stderr and "no answer to this plan" in s.stderr for s in said)
