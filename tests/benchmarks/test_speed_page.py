"""The page about speed says which command and commit its tables are of, and shows what is lost as lost."""

import pytest

import provenance
import speed_page
from guard_rows import Row
from speed_rows import Row as Measured

MACHINE = {"command": "python benchmarks/x.py", "commit": "abc", "cores": 2, "torch": "2.0", "torch_threads": 1}


def test_the_guard_shows_what_is_found_allowed_and_wanted():
    rows = [Row("calls", 1234.5, 1300.0), Row("ratio", 3.5, 8.0, target=3.0), Row("gain", 2.0, 3.0, True)]
    text = speed_page.guard({"machine": MACHINE, "rows": [row._asdict() | {"name": "x"} for row in rows]})
    first, *_, calls, ratio, gain = text.splitlines()
    assert first == "`python benchmarks/x.py` at commit abc, 1 thread, 2 cores, torch 2.0."
    assert calls == "| calls | 1,234 | ≤ 1,300 | ok |  |  |"
    assert ratio == "| ratio | 3.5 | ≤ 8 | ok | ≤ 3 | LOST |"
    assert gain == "| gain | 2 | ≥ 3 | LOST |  |  |"
    before = speed_page.before({"machine": MACHINE, "rows": [row._asdict() for row in rows]})
    assert "1 of 3 rows are lost:" in before
    assert "calls" not in before
    assert before.splitlines()[-1] == "| gain | 2 | ≥ 3 | LOST |"


def test_rows_of_a_run_keep_their_verdicts_and_notes():
    lost = Measured("merge", "ours", "theirs", 2.0, 1.0, target=3.0, note="slower")
    said = {"machine": MACHINE, "options": {"quick": True}, "load_per_minute": [1.0, 2.5], "rows": [lost.as_dict()]}
    text = speed_page.speed(said)
    assert "load 1.0 to 2.5. A short run, of small sizes: not to be quoted." in text
    assert "| ours | 2 s | theirs | 1 s | 0.5× | ≥ 3 | LOST |" in text
    assert text.endswith("- *ours* / *theirs*: slower")


@pytest.mark.parametrize(("seconds", "verdict"), [(2.9, "ok"), (3.1, "LOST")])
def test_a_gpu_keeps_its_limits_or_loses(seconds, verdict):
    whole = {"modules": 50_000, "rows": 200, "fit": 1.0, "merge": seconds}
    beside = {"modules": 5_000, "rows": 200, "fit": 2.0, "merge": 2.0}
    text = speed_page.gpu({"device": "H200", "whole": whole, "whole, cpu": beside})
    assert text.startswith("H200. `python benchmarks/gpu.py --json benchmarks/results/gpu.json`, at a commit")
    assert "| fit of 50,000 × 200 rows | 1.00 | ≤ 5 | ok | 20 s | 20.0× |" in text
    assert f"| merge of 50,000 × 200 rows | {seconds:.2f} | ≤ 3 | {verdict} | 20 s | {20 / seconds:.1f}× |" in text


def test_commands_are_kept_without_folders_of_a_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/benchmarks/gpu.py"])
    found = provenance.provenance(["--quick", "--json", "/somewhere/else/gpu.json", "--only", "fit"])
    assert found["command"] == "python benchmarks/gpu.py --quick --json gpu.json --only fit"
