"""The robustness report measures, writes what it measured, and says the same when it is read again."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from robustness import SHARES, main, read, trials, write
from robustness_cases import HONEST, SPOILED, Outcome, Trial, modules, parts
from robustness_page import cell, page, reasons, rows

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results" / "robustness.json"


def outcome(kind, bad, seed=0, owners=20, found=None, **options):
    numbers = {"clean": -0.9, "trusting": 1.5, "screened": -0.88, "poe": 2.0, "gpoe": 0.5, "rbcm": 1.0}
    counted = {"found": bad if found is None else found, "accused": 0, "reasons": ["opposite sign"], "seconds": 1.25}
    return Outcome(owners, 1, kind, bad, seed, **(numbers | counted | options))


MADE = [
    outcome(HONEST, 0, screened=-0.9, trusting=-0.9, reasons=[]),
    outcome("shifted", 4, found=3, screened=-0.7),
    outcome("shifted", 4, seed=1, accused=2),
    outcome("sign-flipped", 8),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A quick run with everything that is written of it."""
    found, threads = tmp_path_factory.mktemp("robustness"), torch.get_num_threads()
    try:
        main(["--quick", "--processes", "1", "--json", str(found / "deep" / "run.json"), "--docs", str(found)])
    finally:
        torch.set_num_threads(threads)
    return found


@pytest.mark.slow
def test_a_quick_run_finds_the_bad_ones(folder):
    found = read(folder / "deep" / "run.json")
    assert [(o.kind, o.bad) for o in found] == [(HONEST, 0), ("scaled", 6), ("shifted", 6)]
    for o in found:
        assert (o.found, o.accused) == (o.bad, 0)
        assert o.screened - o.clean < 0.05
        assert not o.bad or o.trusting - o.clean > 0.1
    assert found[0].screened == found[0].trusting == found[0].clean


@pytest.mark.slow
def test_the_page_made_again_from_the_file_is_the_same(folder, tmp_path):
    main(["--show", str(folder / "deep" / "run.json"), "--docs", str(tmp_path)])
    assert (tmp_path / "robustness.md").read_text("utf-8") == (folder / "robustness.md").read_text("utf-8")
    picture = np.asarray(Image.open(folder / "figures" / "robustness.png").convert("RGB"))
    assert picture.shape[1] > 500
    assert picture.std() > 10  # something is drawn


def test_everything_is_tried():
    found = trials(range(2), quick=False)
    assert len(found) == 2 * 2 * 2 * (1 + len(SHARES) * len(SPOILED))
    assert len(set(found)) == len(found)
    assert {t.bad for t in found if t.owners == 50} == {0, 5, 10, 15, 20}
    assert len(trials(range(1), quick=True)) == 3


def test_json_round_trips(tmp_path):
    write(tmp_path / "deep" / "made.json", MADE)
    assert read(tmp_path / "deep" / "made.json") == MADE


def test_cells_are_means_over_trials():
    c = cell(MADE[1:3])
    assert c.excess["screened"] == pytest.approx((0.2 + 0.02) / 2)
    assert c.excess["trusting"] == pytest.approx(2.4)
    assert c.worst == pytest.approx(0.2)
    assert (c.found, c.accused, c.trials) == (7 / 8, 2 / 32, 2)
    assert np.isnan(cell(MADE[:1]).found)


def test_the_page_says_what_was_measured(tmp_path, capsys):
    assert [row[:2] for row in rows(MADE)] == [["none", "0%"], ["shifted", "20%"], ["sign-flipped", "40%"]]
    text = page(MADE)
    assert "| shifted | 20% | 0.110 | 2.400 |" in text
    assert "| 87.5% | 6.25% | 2 |" in text
    assert "Up to 30% bad modules: 87.5% of them are found, 6.25% of the honest ones" in " ".join(text.split())
    assert "With 40%: 100.0% of them are found" in " ".join(text.split())
    assert "| shifted | opposite sign |" in reasons(MADE)
    write(tmp_path / "made.json", MADE)
    main(["--show", str(tmp_path / "made.json"), "--docs", str(tmp_path)])
    assert (tmp_path / "robustness.md").read_text("utf-8") == text
    assert "sign-flipped" in capsys.readouterr().out


def test_each_kind_changes_rows_as_it_says():
    trial = Trial(20, 1, "shifted", 3, 0)
    part = parts(20, 1, 0)[1]
    y = part[1]
    np.testing.assert_allclose(SPOILED["shifted"](part, trial, 1), y + 0.5)
    np.testing.assert_allclose(SPOILED["shifted"](part, trial, 2), y - 0.5)
    np.testing.assert_allclose(SPOILED["other units"](part, trial, 1), 1.8 * y + 32)
    np.testing.assert_allclose(SPOILED["sign-flipped"](part, trial, 1), -y)
    one, other = (SPOILED["random"](part, trial, k) for k in (1, 2))
    assert np.abs(one - other).max() > 1
    one, other = (SPOILED["colluding"](part, trial, k) for k in (1, 2))
    assert 0 < np.abs(one - other).max() < 1  # the same function, another noise


@pytest.mark.slow
def test_overconfident_modules_are_sure_of_the_same():
    trial = Trial(20, 1, "overconfident", 2, 0)
    found, usual = modules(trial), modules(trial._replace(bad=0))
    for one, other in zip(found[2:], usual[2:], strict=True):
        assert all((s == t).all() for s, t in zip(one.site, other.site, strict=True))
    a, b = found[0]._site, usual[0]._site
    np.testing.assert_allclose(a.Rt.mT @ a.Rt, 100 * b.Rt.mT @ b.Rt, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.Rt.mT @ a.rho, 100 * b.Rt.mT @ b.rho, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not KEPT.exists(), reason="not measured yet")
def test_the_page_in_docs_is_that_of_the_kept_results():
    assert (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8") == page(read(KEPT))
