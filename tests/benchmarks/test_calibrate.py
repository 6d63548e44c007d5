"""The benchmark of calibrated intervals measures, and intervals hold what they should."""

import pytest
import torch

from calibrate import ALLOWED, DATA, KERNELS, LEVELS, main, read, values
from pages import RESULTS


@pytest.mark.slow
def test_a_quick_run(tmp_path, capsys):
    threads = torch.get_num_threads()
    main(["--quick", "--json", str(tmp_path / "run.json")])
    torch.set_num_threads(threads)
    rows = read(tmp_path / "run.json")
    assert len(rows) == len(KERNELS) * len(LEVELS)
    assert all(abs(row.calibrated - row.level) < 0.04 for row in rows)
    wrong = [row for row in rows if row.kernel == "rbf, made wrong"]
    assert all(row.plain < row.level - 0.2 and row.widened > 1.5 for row in wrong)
    assert values(rows)["calibrate.md"]["all"] in capsys.readouterr().out


def test_what_is_kept_holds():
    rows = read(RESULTS / "calibrate.json")
    assert {row.data for row in rows} == {data.name for data in DATA}
    assert max(abs(row.calibrated - row.level) for row in rows) <= ALLOWED


def test_data_that_are_not_there_are_skipped(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("calibrate.DATA", [data for data in DATA if "kin40k" in data.name])
    main(["--data-dir", str(tmp_path)])
    said = capsys.readouterr()
    assert "skipped: kin40k" in said.err
    assert "0 of 0" in said.out
