"""The pictures that are made of kept results: nothing stands on anything else, and words are words."""

from importlib import import_module

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from cases_pictures import collisions, symbols, texts
from pages import RESULTS, read
from plot_pictures import shrink
from recyclegp.plot.style import PALETTE


def kept(name):
    return read(RESULTS / f"{name}.json")


def leaks():
    return import_module("leak_page").picture(kept("what-leaks"))


def losing():
    beside = [kept("calibration-first"), kept("calibration-points-64")]
    return import_module("calibration_page").picture(kept("calibration-auto"), beside)


def robust():
    return import_module("robustness_page").figure(kept("robustness"))


def private():
    return import_module("private_answers").picture(kept("private-answers"))


@pytest.mark.parametrize("make", [leaks, losing, robust, private])
def test_texts_can_be_read(make):
    figure = make()
    assert collisions(figure) == []
    assert symbols(figure) == []


@pytest.mark.parametrize("make", [leaks, losing, robust, private])
def test_all_have_the_style_of_the_other_pictures(make):
    figure = make()
    for ax in figure.axes:
        assert not ax.spines["top"].get_visible()
        assert ax.title.get_text() == ""  # titles are on the left
        colours = {to_rgb(line.get_color()) for line in ax.lines}
        assert colours <= {to_rgb(c) for c in (*PALETTE, "#000000", "#8a8a8a")}


@pytest.mark.slow
def test_times_can_be_read():
    found = import_module("scaling").read(RESULTS / "scaling.json")
    for figure in import_module("scaling_page").figures(found).values():
        assert collisions(figure) == []
        assert symbols(figure) == []


def test_what_is_lost_is_said_in_words():
    said = [text for text, _ in texts(losing())]
    assert {"1 input", "2 inputs", "16 inputs", "rows of each owner"} <= set(said)
    assert "points as published now\nrows at random, noise 0.1" in said
    assert not any("publish=" in text for text in said)


def test_numbers_in_pictures_are_those_of_the_results():
    """Each line of a panel is a row of what was measured."""
    leak_page = import_module("leak_page")
    found, figure = leak_page.leaks(kept("what-leaks")["leaks"]), leaks()
    for ax, (name, some) in zip(figure.axes, found.groupby("table", sort=False), strict=True):
        assert ax.get_title("left") == leak_page.table_name(name)
        for line, kind in zip(ax.lines, leak_page.SERIES, strict=True):
            part = some[some.kind == kind].sort_values("value")
            np.testing.assert_array_equal(np.array(line.get_xydata()), part[["lost", "best_auc"]].to_numpy(float))


def test_shrunken_pictures_keep_their_colours(tmp_path):
    """Each colour becomes the nearest of few: orange does not become red."""
    rng = np.random.default_rng(0)
    picture = np.repeat(rng.integers(0, 256, (200, 200, 1), dtype=np.uint8), 3, axis=2)
    for k, colour in enumerate(PALETTE[:4]):
        picture[4 * k : 4 * k + 2, :2] = np.round(255 * np.array(to_rgb(colour)))
    Image.fromarray(picture).save(tmp_path / "raw.png")
    shrink(tmp_path / "raw.png", tmp_path / "small.png")
    with Image.open(tmp_path / "small.png") as found:
        assert found.mode == "P"
        small = np.asarray(found.convert("RGB"), dtype=int)
    for k in range(4):
        np.testing.assert_array_equal(small[4 * k, 0], picture[4 * k, 0])
    assert np.abs(small - picture).max() < 12
