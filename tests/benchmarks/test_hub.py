"""The benchmark of the hub: in short, with all that it promises but the speed of the machine."""

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

PATH = Path(__file__).parents[2] / "benchmarks" / "hub.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_quick_run():
    """How quick small requests are is for a machine that does nothing else."""
    command = [sys.executable, str(PATH), "--quick", "--p99", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["many owners"]["owners"] == 20
    assert found["usual limits"]["polls"] > 20
    assert found["hostile"]["requests"] >= 2000


GOOD = {
    "many owners": {"lost": 0, "small_p99": 0.4},
    "usual limits": {"lost": 0, "turned_away": 0},
    "hostile": {"accepted": 0, "people_changed": 0, "slow_closed": 50, "memory_mib": [200.0, 290.0, 300.0, 310.0]},
}


@pytest.mark.parametrize(
    ("part", "what", "value", "words"),
    [
        ("many owners", "lost", 1, "1 modules are missing"),
        ("many owners", "small_p99", 1.2, "p99 of small requests is 1.20 s"),
        ("usual limits", "lost", 2, "under the usual limits"),
        ("usual limits", "turned_away", 3, "3 honest requests"),
        ("hostile", "accepted", 1, "accepted"),
        ("hostile", "people_changed", 1, "people"),
        ("hostile", "slow_closed", 49, "1 of those who say nothing"),
        ("hostile", "memory_mib", [200.0, 290.0, 300.0, 340.0], "memory has grown by 40 MiB"),
    ],
)
def test_what_must_not_be_is_said(part, what, value, words):
    spec = importlib.util.spec_from_file_location("benchmark_of_the_hub", PATH)
    benchmark = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = benchmark
    spec.loader.exec_module(benchmark)
    assert benchmark.problems(GOOD, 1.0) == []
    bad = copy.deepcopy(GOOD)
    bad[part][what] = value
    (said,) = benchmark.problems(bad, 1.0)
    assert words in said
