"""Pages of the documentation are what the kept results say, and hold every marker that is written."""

import re
from importlib import import_module

import numpy as np
import pytest
import torch
from PIL import Image

import pages

BESIDE = ("../README.md", "../SECURITY.md")
EVERY = {name: pages.DOCS / name for name in BESIDE} | {p.name: p for p in pages.DOCS.glob("*.md")}
MARKED = {name: text for name, page in EVERY.items() if "<!--=" in (text := page.read_text(encoding="utf-8"))}
SHOWN = {  # benchmark → its results, and the figures it makes of them
    "where_merging_loses": ("calibration-auto", ["where-merging-loses"]),
    "what_leaks": ("what-leaks", ["what-leaks"]),
    "private_answers": ("private-answers", ["private-answers"]),
    "robustness": ("robustness", ["robustness"]),
    "scaling": ("scaling", ["scaling-modules", "scaling-workers"]),
}


@pytest.fixture(scope="module")
def kept():
    return pages.kept()


@pytest.mark.parametrize("page", sorted(MARKED))
def test_pages_are_those_of_the_kept_results(page, kept):
    text, names = MARKED[page], pages.MARKED.findall(MARKED[page])
    assert len(set(names)) == len(names) == text.count("<!--/-->") == len(re.findall("^<!--=.+-->$", text, flags=re.M))
    assert set(kept) == set(MARKED)
    assert pages.filled(text, kept[page]) == text
    assert set(kept[page]) == set(names) or (page in pages.PARTLY and set(kept[page]) < set(names))


@pytest.mark.parametrize("name", SHOWN)
def test_an_earlier_run_is_shown(name, tmp_path, capsys):
    file, figures = SHOWN[name]
    threads = torch.get_num_threads()
    import_module(name).main(["--show", str(pages.RESULTS / f"{file}.json"), "--docs", str(tmp_path)])
    torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert all(f"# {page.name}" in said for page in tmp_path.glob("*.md"))
    for figure in figures:
        picture = np.asarray(Image.open(tmp_path / "figures" / f"{figure}.png").convert("RGB"))
        assert picture.shape[1] > 500
        assert picture.std() > 10  # something is drawn


def test_check_names_pages_that_differ(kept, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "kept", lambda: kept)
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    for page in kept:
        (tmp_path / page).write_text(MARKED[page].replace("| 0.000 | 100.0% |", "| 0.001 | 100.0% |"), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"results: robustness\.md$"):
        pages.main(["--check"])
    pages.main([])
    pages.main(["--check"])
    with pytest.raises(SystemExit, match=r"robustness\.md is not written: .* measure alarms, all, forged, .*units"):
        pages.publish(tmp_path, {"robustness.md": {"reasons": ""}})


def test_tables_and_markers():
    columns = [("name", "name", ""), ("nats", "x", "z.2f"), ("twice", lambda row: row["x"] and 2 * row["x"], ">")]
    made = pages.table(columns, [{"name": "a", "x": -0.001}, {"name": "b", "x": None}])
    assert made == "| name | nats | twice |\n|---|--:|--:|\n| a | 0.00 | -0.002 |\n| b | – | – |"
    text = "a\n\n<!--=t--><!--/-->\n\n<!--=m-->\n\n2\n\n<!--/-->\n"
    assert pages.filled(text, {"t": made}) == text.replace("<!--=t-->", f"<!--=t-->\n\n{made}\n\n")
    with pytest.raises(ValueError, match="no marker for other"):
        pages.filled(text, {"t": "7", "other": "8"})


@pytest.mark.parametrize("found", [[{"x": 0.12345678}, {"x": "λ"}], {"seconds": 1.0, "runs": [{"x": None}], "no": []}])
def test_results_are_read_as_they_were_written(found, tmp_path):
    pages.write(tmp_path / "deep" / "run.json", pages.rounded(found, ".5f"))
    assert pages.read(tmp_path / "deep" / "run.json") == pages.rounded(found, ".5f")
    assert pages.rounded({"x": (0.123456, 7)}, ".5f") == {"x": [0.12346, 7]}
