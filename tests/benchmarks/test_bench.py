"""The speed benchmark runs, says what it measured, and computes its ratios from the times it reports."""

import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import peer_sklearn
import speed_fit
import speed_merge
import speed_whole
from data import adjoining, intervals
from speed_cases import merged, timing_case
from speed_rows import Options, Row, interleaved, line, markdown

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_quick_run(tmp_path):
    path = tmp_path / "deep" / "speed.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "speed.py"), "--quick", "--only", "predict", "--threads", "1"]
    done = subprocess.run([*command, "--json", str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    assert not any(secret in text for secret in (f'"{os.uname().nodename}"', str(ROOT), str(Path.home())))
    found = json.loads(text, parse_constant=pytest.fail)  # NaN is no JSON
    assert found["machine"]["torch_threads"] == 1
    assert {found["machine"]["environment"][name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")} == {"1"}
    assert [row["section"] for row in found["rows"]] == ["predict", "predict"]
    for said in found["rows"]:
        assert said["name"] in done.stdout
        assert said["against"] in done.stdout
        for side in ("ours", "other"):
            assert said[side] == pytest.approx(np.median(said["raw"][side]))
            assert len(said["raw"][side]) >= 3
        above, below = said["ratio_of"].split("/")
        assert said["ratio"] == pytest.approx(said[above] / said[below])
        assert said["verdict"] == ("ok" if said["ratio"] <= said["target"] else "LOST")
        row = Row.from_dict(said)
        assert row.as_dict() == said
        assert f"| {row.name} | " in markdown([row])


def test_verdicts():
    row = Row("s", "a", "b", ours=2.0, other=300.0, target=100.0)
    assert (row.ratio, row.verdict) == (150.0, "ok")
    assert row._replace(other=100.0).verdict == "LOST"
    assert row._replace(other=100.0, bounded=True).verdict == "open"  # stopped too early to say
    assert row._replace(cost=True, other=0.5).ratio == 4.0
    assert row._replace(cost=True, other=0.5, target=3.0).verdict == "LOST"
    assert row._replace(target=None).verdict == ""
    assert "> " not in line(row)
    assert ">150×" in line(row._replace(bounded=True))


def test_contestants_take_turns():
    order = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3
    assert [len(t) for t in times.values()] == [2, 2]


def test_a_missing_peer_is_a_row(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    rows = list(speed_fit.against_sklearn(speed_fit.QUICK, [1.0], adjoining(2, 20, np.random.default_rng(0)), 2))
    assert all("not installed: make bench installs it" in line(row) for row in rows)
    json.dumps([row.as_dict() for row in rows], allow_nan=False)
    assert [row.ratio for row in rows] == [None, None]


def test_the_evidence_that_is_timed_is_the_one_merge_maximises():
    case = timing_case(20, 8, 1, 0)
    calls = []
    assert speed_merge.evaluation(case, lambda step: calls.append(step()) or "measured") == "measured"
    assert len(calls) == 1
    assert math.isfinite(merged(case, 20).bound)  # and merging still works


def test_intervals_come_one_at_a_time_and_adjoin():
    parts = list(intervals(4, 50, 3))
    assert [X.shape for X, _ in parts] == [(50, 1)] * 4
    ends = pairwise(np.linspace(0, 5.5, 5))
    assert all(a <= X.min() and X.max() <= b for (X, _), (a, b) in zip(parts, ends, strict=True))
    np.testing.assert_array_equal(next(intervals(4, 50, 3))[1], parts[0][1])


def test_whole_stops_at_the_cap_and_says_so():
    first, _ = speed_whole.rows(Options(quick=True, threads=1, seed=0, cap=0.01))
    assert "raise --cap" in line(first)
    assert first.verdict == "–"


def test_scikit_learns_evidence_is_in_the_units_of_y():
    pytest.importorskip("sklearn")
    X, y = adjoining(4, 40, np.random.default_rng(1))[0]
    assert peer_sklearn.one(X, 10 * y) == pytest.approx(peer_sklearn.one(X, y) - 40 * np.log(10), abs=1e-3)
