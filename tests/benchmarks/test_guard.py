"""The guard fails where a number is outside its limit, and counts what it says it counts."""

import pytest
import torch

import guard
import guard_counts
from guard_rows import Row
from recyclegp.core import optimiser


def test_a_row_holds_its_limit_or_is_lost():
    cost, gain = Row("cost", 3.0, 3.0), Row("gain", 3.0, 4.0, at_least=True)
    assert (cost.holds, gain.holds) == (True, False)
    assert "LOST" in str(gain)
    assert gain.better(gain._replace(found=5.0)).holds
    assert cost.better(cost._replace(found=5.0)) == cost


def test_a_lost_row_is_an_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(guard, "fix_threads", lambda threads: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(guard_counts, "ROWS", {"files": lambda: iter([Row("bytes", 5.0, 4.0)])})
    assert guard.main(["--only", "files"]) == 1
    monkeypatch.setattr(guard_counts, "ROWS", {"files": lambda: iter([Row("bytes", 4.0, 4.0)])})
    assert guard.main(["--only", "files"]) == 0
    assert "1 lost" in capsys.readouterr().out


def test_tensor_calls_and_evaluations_are_counted():
    x = torch.ones(3)
    assert guard_counts.tensor_calls(lambda: (x + 1) * 2) == 2
    box = torch.full((1,), 9.0)

    def search():
        return optimiser.maximise_one(lambda at: -at.square().sum(), [torch.ones(1)], -box, box)

    assert guard_counts.evaluations(search) == search().evaluations


@pytest.mark.slow
def test_a_merge_makes_no_tensor_call_for_each_module():
    found = {row.what: row for row in guard_counts.calls_of_merges()}
    assert all(row.holds for row in found.values()), [str(row) for row in found.values()]


@pytest.mark.slow
def test_little_python_runs_for_each_module():
    rows = list(guard_counts.python_for_each())
    assert all(row.holds for row in rows), [str(row) for row in rows]


@pytest.mark.slow
def test_files_and_imports_are_within_their_limits():
    rows = [*guard_counts.files(), *guard_counts.imports()]
    assert all(row.holds for row in rows), [str(row) for row in rows]
