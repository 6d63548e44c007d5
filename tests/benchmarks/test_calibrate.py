"""The benchmark of calibrated intervals measures, and the page says what it measured."""

from pathlib import Path

import pytest
import torch

from calibrate import ALLOWED, DATA, KERNELS, LEVELS, main, read, table

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results" / "calibrate.json"


@pytest.mark.slow
def test_a_quick_run(tmp_path, capsys):
    threads = torch.get_num_threads()
    try:
        main(["--quick", "--json", str(tmp_path / "deep" / "run.json")])
    finally:
        torch.set_num_threads(threads)
    rows = read(tmp_path / "deep" / "run.json")
    assert len(rows) == len(KERNELS) * len(LEVELS)
    assert all(abs(row.calibrated - row.level) < 0.04 for row in rows)
    wrong = [row for row in rows if row.kernel == "rbf, made wrong"]
    assert all(row.plain < row.level - 0.2 and row.widened > 1.5 for row in wrong)
    assert table(rows) in capsys.readouterr().out


def test_what_is_kept_holds_and_is_on_the_page():
    rows = read(KEPT)
    assert {row.data for row in rows} == {data.name for data in DATA}
    assert max(abs(row.calibrated - row.level) for row in rows) <= ALLOWED
    page = (ROOT / "docs" / "calibrate.md").read_text(encoding="utf-8")
    assert table(rows) in page
    worst = max(abs(row.calibrated - row.level) for row in rows)
    plain = {k: max(abs(row.plain - row.level) for row in rows if row.kernel == k) for k in KERNELS}
    assert f"within {100 * worst:.1f} percentage points" in page
    assert f"off by up to {100 * plain['rbf, learned']:.1f} points" in page
    assert f"by up to {100 * plain['rbf, made wrong']:.0f}." in page


def test_data_that_are_not_there_are_skipped(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("calibrate.DATA", [data for data in DATA if "kin40k" in data.name])
    main(["--data-dir", str(tmp_path)])
    said = capsys.readouterr()
    assert "skipped: kin40k" in said.err
    assert "0 of 0" in said.out
