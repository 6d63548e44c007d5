"""Pages of the documentation are what the kept results say, and hold every marker that is written."""

import re
import shutil
from importlib import import_module

import numpy as np
import pytest
import torch
from PIL import Image

import pages

CALIBRATION = [pages.RESULTS / f"calibration-{name}.json" for name in ("auto", "first", "points-64")]
NAMES = ("fit", "modules", "workers", "simulation")
SHOWN = {  # benchmark → arguments after --show, and figures
    "where_merging_loses": ([CALIBRATION[0], "--beside", *CALIBRATION[1:]], ["where-merging-loses"]),
    "what_leaks": ([pages.RESULTS / "what-leaks.json"], ["what-leaks"]),
    "robustness": ([pages.RESULTS / "robustness.json"], ["robustness"]),
    "scaling": (
        [pages.RESULTS / "scaling.json"],
        [f"scaling-{x}" for x in NAMES],
    ),
}
MARKED = sorted(p.name for p in pages.DOCS.glob("*.md") if "<!--=" in p.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def kept():
    return pages.kept()


@pytest.mark.parametrize("page", MARKED)
def test_markers_are_those_that_are_written(page, kept):
    text = (pages.DOCS / page).read_text(encoding="utf-8")
    names = pages.names(text)
    assert len(set(names)) == len(names) == text.count("<!--=") == text.count("<!--/-->") > 0
    assert not re.search(r"^\s*<!--=[^>]*-->.", text, flags=re.M)  # such a line would be no Markdown any more
    assert {*kept, "experiments.md"} == set(MARKED)
    assert set(kept.get(page, names)) == set(names)


@pytest.mark.parametrize("name", SHOWN)
def test_kept_results_make_the_pages_and_figures(name, tmp_path, capsys):
    threads = torch.get_num_threads()
    arguments, figures = SHOWN[name]
    import_module(name).main(["--show", *map(str, arguments), "--docs", str(tmp_path)])
    torch.set_num_threads(threads)
    said = capsys.readouterr().out
    for page in import_module(name).pages():
        assert f"# {page}" in said
        assert (tmp_path / page).read_text(encoding="utf-8") == (pages.DOCS / page).read_text(encoding="utf-8")
    for figure in figures:
        picture = np.asarray(Image.open(tmp_path / "figures" / f"{figure}.png").convert("RGB"))
        assert picture.shape[1] > 500
        assert picture.std() > 10  # something is drawn


def test_check_names_pages_that_differ(kept, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "kept", lambda: kept)
    pages.main(["--check"])
    for page in kept:
        shutil.copy(pages.DOCS / page, tmp_path)
    changed = tmp_path / "robustness.md"
    changed.write_text(changed.read_text(encoding="utf-8").replace("| 0.000 |", "| 0.001 |", 1), encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    with pytest.raises(SystemExit, match=r"results: robustness\.md$"):
        pages.main(["--check"])
    pages.main([])
    pages.main(["--check"])
    with pytest.raises(SystemExit, match=r"robustness\.md is not written: this run did not measure all, honest"):
        pages.publish(tmp_path, {"robustness.md": {"seeds": "1"}})


def test_tables_and_markers():
    columns = [("name", "name", ""), ("nats", "x", "z.2f"), ("twice", lambda row: row["x"] and 2 * row["x"], ">")]
    made = pages.table(columns, [{"name": "a", "x": -0.001}, {"name": "b", "x": None}])
    assert made == "| name | nats | twice |\n|---|--:|--:|\n| a | 0.00 | -0.002 |\n| b | – | – |"
    text = "a <!--=n-->1<!--/--> b <!--=m-->2<!--/-->\n\n<!--=t--><!--/-->\n"
    new = pages.filled(text, {"n": "7", "t": made})
    assert new == f"a <!--=n-->7<!--/--> b <!--=m-->2<!--/-->\n\n<!--=t-->\n\n{made}\n\n<!--/-->\n"
    assert pages.filled(new, {"t": ""}).count("|") == 0
    with pytest.raises(ValueError, match="no marker for other"):
        pages.filled(text, {"n": "7", "other": "8"})


@pytest.mark.parametrize("found", [[{"x": 0.12345678}, {"x": "λ"}], {"seconds": 1.0, "runs": [{"x": None}], "no": []}])
def test_results_are_read_as_they_were_written(found, tmp_path):
    pages.write(tmp_path / "deep" / "run.json", pages.rounded(found, ".5f"))
    assert pages.read(tmp_path / "deep" / "run.json") == pages.rounded(found, ".5f")
    assert pages.rounded({"x": (0.123456, 7)}, ".5f") == {"x": [0.12346, 7]}
