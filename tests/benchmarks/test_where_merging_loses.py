"""The calibration report measures, writes what it measured, and says the same when it is read again."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from calibration_cases import Cut, Setting, divide, draw, merged
from calibration_page import page
from calibration_results import LOSS, Results, Where, cells, losing
from recyclegp import RecycleGPError
from where_merging_loses import COLUMNS, QUICK, main, table

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A quick run with everything that is written of it."""
    found, threads = tmp_path_factory.mktemp("calibration"), torch.get_num_threads()
    quick = ["--quick", "--processes", "1", "--label", "this one"]
    try:
        main([*quick, "--json", str(found / "deep" / "run.json"), "--docs", str(found)])
    finally:
        torch.set_num_threads(threads)
    return found


@pytest.fixture(scope="module")
def run(folder):
    return Results.read(folder / "deep" / "run.json")


def test_every_case_is_measured(run):
    assert len(run.merged) == len(QUICK.settings()) * len(QUICK.cuts())
    assert len(run.references) == len(run.rounds) == len(QUICK.settings())
    assert not any(row.failed for row in run.merged)
    for cell in cells(run, run.references).values():
        assert np.isfinite(cell).all()
        assert 0 <= cell.coverage <= 1
    assert all(r.rounds > 1 for r in run.rounds)


def test_what_makes_no_sense_is_left_out(run):
    assert run.grid.skipped() == [50]
    assert all(row.rows < 50 for row in run.merged)


def test_table_has_the_columns_and_those_beside(run):
    shown = table(run, [run._replace(label="another")])
    assert [column.header for column in shown.columns] == [*COLUMNS, "another"]
    assert shown.row_count == len(cells(run, run.references))
    excess, beside = (list(shown.columns[i].cells) for i in (COLUMNS.index("excess"), -1))
    assert excess == beside


def test_json_round_trips(run, tmp_path):
    run.write(tmp_path / "again.json")
    assert Results.read(tmp_path / "again.json") == run


def test_a_run_beside_is_measured_by_this_ones_reference(run):
    """Else a version with a worse exact GP would seem to merge better."""
    worse = run._replace(references=[r._replace(nlpd=r.nlpd + 1) for r in run.references])
    assert cells(worse, run.references) == cells(run, run.references)


def test_cases_that_failed_lose(run):
    where = Where(0.1, "random", 1, 5)
    broken = [row._replace(nlpd=None, failed="no") if row.rows == 5 else row for row in run.merged]
    found = cells(run._replace(merged=broken), run.references)
    assert found[where].failed == 1
    assert where in losing(found)
    assert "failed" in page(run._replace(merged=broken), [])


def test_the_picture_and_the_page_are_written(folder, run):
    picture = np.asarray(Image.open(folder / "figures" / "where-merging-loses.png").convert("RGB"))
    assert picture.shape[1] > 1000
    assert picture.std() > 10  # something is drawn
    text = (folder / "calibration.md").read_text(encoding="utf-8")
    assert text == page(run, [])
    assert "where-merging-loses.png" in text
    for where in losing(cells(run, run.references)):
        assert f"**{cells(run, run.references)[where].excess:.3f}**" in text


def test_rows_depend_on_seed_and_dimension_alone():
    quiet, loud = (draw(Setting(2, noise, 3, 60)) for noise in (0.1, 0.5))
    np.testing.assert_array_equal(quiet.X, loud.X)
    np.testing.assert_array_equal(quiet.X_test, loud.X_test)
    assert not np.array_equal(quiet.X, draw(Setting(2, 0.1, 4, 60)).X)


@pytest.mark.parametrize("owners", ["random", "adjoining"])
def test_owners_share_all_rows(owners):
    drawn = draw(Setting(2, 0.1, 0, 60))
    parts = divide(drawn, Cut(20, owners))
    assert [len(y) for _, y in parts] == [20, 20, 20]
    np.testing.assert_array_equal(np.sort(np.concatenate([y for _, y in parts])), np.sort(drawn.y))
    apart = all(a[:, 0].max() <= b[:, 0].min() for (a, _), (b, _) in pairwise(parts))
    assert apart == (owners == "adjoining")


def test_a_failure_is_a_result(monkeypatch):
    def refuse(*_, **__):
        raise RecycleGPError("no")

    monkeypatch.setattr("recyclegp.merge", refuse)
    row = merged(Setting(1, 0.1, 0, 20), Cut(10, "random"), 4)
    assert row.failed == "no"
    assert row.nlpd is None


def test_the_published_page_is_what_the_kept_results_say():
    """Explanations belong into benchmarks/calibration_page.py, figures come from the files."""
    ours = Results.read(KEPT / "calibration-auto.json")
    beside = [Results.read(file) for file in sorted(KEPT.glob("calibration-*.json")) if "auto" not in file.name]
    text = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    assert text == page(ours, beside)
    assert f"{len(losing(cells(ours, ours.references)))} of 120 cases lose more than {LOSS:g} nats" in text
