"""The page in a real browser: maps, levels, tables, what is taken from it, and what a reload keeps."""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import cases_serve as cases
import recyclegp as rgp
from cases_browser import CHROMIUM, overflow
from recyclegp import metrics
from recyclegp.commands.served_tables import ServedTables

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")]

READER = ServedTables()


def over_two(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"east": rng.uniform(0, 4, 60) + seed, "north": rng.uniform(-2, 1, 60)})
    y = pd.Series(np.sin(X["east"]) + X["north"] + 0.1 * rng.standard_normal(60), name="level")
    return rgp.fit(X, y, name=f"m{seed}", publish=12)


def with_wards(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"hour": rng.uniform(0, 6, 80), "ward": rng.choice(["north", "south", cases.EVIL[:20]], 80)})
    y = pd.Series(np.sin(X["hour"]) + 3 * (X["ward"] == "south") + 0.1 * rng.standard_normal(80), name="level")
    return rgp.fit(X, y, name=f"m{seed}", publish=20)


@pytest.fixture(scope="module")
def plane():
    modules = [over_two(seed) for seed in range(3)]
    with cases.running(cases.serve_state(modules, reader=READER)) as address:
        yield address, modules


@pytest.fixture(scope="module")
def wards():
    modules = [with_wards(seed) for seed in range(2)]
    with cases.running(cases.serve_state(modules, reader=READER)) as address:
        yield address, modules


@pytest.fixture
def line():
    """Four owners, one of whom is in other units; tables that are shown stay with the page of one test."""
    modules = cases.modules()
    with cases.running(cases.serve_state(modules, reader=READER)) as address:
        yield address, modules


def both(v):
    v.page.locator("#column").select_option("")
    v.settle()


def saved(v, press, path):
    with v.page.expect_download() as started:
        press.click()
    started.value.save_as(path)
    return started.value.suggested_filename


def number(text):
    return float(text.replace("−", "-"))


# --- maps ---


def test_two_inputs_have_a_map_that_can_be_read(visit, plane):
    address, modules = plane
    v = visit(address)
    both(v)
    assert v.page.locator("#curves-title").inner_text() == "Map"
    assert v.page.locator("#curves canvas").count() == 2
    shown = v.page.evaluate("""() => [...document.querySelectorAll('#curves canvas')].map(c => {
        const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, box = c.getBoundingClientRect();
        return [new Set(Array.from({length: pixels.length / 4}, (_, i) => pixels.slice(4 * i, 4 * i + 3).join())).size,
                pixels.filter((_, i) => i % 4 === 3).every(a => a === 255), box.width, box.height];
    })""")
    for colours, opaque, width, height in shown:
        assert colours > 30
        assert opaque
        assert min(width, height) > 100
    svg = v.page.locator("#curves svg").first
    box = svg.bounding_box()
    v.page.mouse.move(box["x"] + 0.35 * box["width"], box["y"] + 0.4 * box["height"])
    tip = v.page.locator("#curves .tip").first
    place = [number(part.split(" = ")[1]) for part in tip.locator("div").inner_text().split(", ")]
    mean, sd = (number(cell) for cell in tip.locator("tbody td").all_inner_texts())
    expected = rgp.merge(modules).predict([place])
    assert mean == pytest.approx(float(expected[0][0]), abs=0.02)
    assert sd == pytest.approx(float(np.sqrt(expected[1][0])), abs=0.02)
    assert v.complaints == []


def test_pixels_are_where_the_axes_are(visit, plane):
    """The canvas covers the frame of its map and no more."""
    v = visit(plane[0])
    both(v)
    gaps = v.page.evaluate("""() => {
        const canvas = document.querySelector('#curves canvas'), c = canvas.getBoundingClientRect();
        const frame = document.querySelector('#curves svg clipPath rect');
        const svg = document.querySelector('#curves svg'), s = svg.getBoundingClientRect();
        const ratio = s.width / svg.viewBox.baseVal.width, value = name => Number(frame.getAttribute(name)) * ratio;
        const half = c.width / canvas.width / 2;
        return [c.left + half - s.left - value('x'), c.right - half - s.left - value('x') - value('width'),
                c.top + half - s.top - value('y')];
    }""")
    np.testing.assert_allclose(gaps, 0, atol=0.6)


def test_a_map_may_be_of_one_owner(visit, plane):
    address, modules = plane
    v = visit(address)
    both(v)
    v.page.locator("#whose").select_option("m1")
    v.settle()
    values = v.page.evaluate("data.layers[0].values[0]")
    drawn = v.page.evaluate("[data.region, data.side]")
    x, y = (np.linspace(*limits, drawn[1]) for limits in drawn[0])
    X = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    known = np.array([value is not None for value in values])
    expected = modules[1].predict(X[known])[0]
    np.testing.assert_allclose(np.array(values, dtype=float)[known], expected, rtol=1e-3, atol=1e-3)
    v.switch("m1")  # who is switched off has no map: it is that of the merged model again
    assert v.page.locator("#whose").input_value() == ""
    assert None not in v.page.evaluate("data.layers[0].values[0]")
    assert v.complaints == []


@pytest.mark.parametrize("width", [360, 1280])
def test_maps_fit_a_phone(visit, plane, width):
    v = visit(plane[0], width=width)
    both(v)
    assert overflow(v) <= 0
    letters = v.page.evaluate("document.querySelector('#curves svg text').getBoundingClientRect().height")
    assert letters > 9


# --- levels ---


def test_the_level_of_a_category_can_be_chosen(visit, wards):
    address, modules = wards
    v = visit(address, width=360)
    choose = v.page.get_by_label("ward")
    assert set(choose.locator("option").all_inner_texts()) == {"north", "south", cases.EVIL[:20]}
    e = rgp.merge(modules)
    for level in ("south", cases.EVIL[:20]):
        choose.select_option(level)
        v.settle()
        drawn = v.curves()["merged"]
        X = pd.DataFrame({"hour": np.linspace(drawn["from"], drawn["to"], len(drawn["mean"])), "ward": level})
        np.testing.assert_allclose(drawn["mean"], e.predict(X)[0], rtol=1e-3, atol=1e-3)
    assert overflow(v) <= 0
    assert v.page.evaluate("window.hurt") is None
    assert v.complaints == []


# --- tables ---


def test_a_table_is_scored_and_predicted_at(visit, line, tmp_path):
    address, modules = line
    rows = cases.table(9, 0, 10, 50)
    rows.to_csv(tmp_path / "test.csv", index=False)
    v = visit(address, width=360)
    assert v.page.locator("[data-score=evidence]").count() == 1
    assert not v.page.locator("#predictions").is_visible()
    v.page.locator("#table").set_input_files(tmp_path / "test.csv")
    v.page.wait_for_selector("[data-score=rmse]")
    v.settle()
    e = rgp.merge(modules[:3])
    assert v.score("rmse") == pytest.approx(metrics.score(e, rows[["hour"]], rows["level"]).rmse, rel=1e-3)
    assert "On 50 rows of test.csv" in v.page.locator("#scores-hint").inner_text()
    v.switch("west")
    name = saved(v, v.page.locator("#predictions"), tmp_path / "made.csv")
    assert name == "test-predictions.csv"
    made = pd.read_csv(tmp_path / "made.csv")
    assert list(made["level"]) == pytest.approx(list(rows["level"]))
    np.testing.assert_allclose(made["mean"], e.predict(rows[["hour"]])[0], rtol=1e-9)
    assert overflow(v) <= 0
    assert v.complaints == []


def test_which_column_is_y_can_be_said(visit, line, tmp_path):
    rows = cases.table(9, 0, 10, 50).rename(columns={"level": cases.EVIL})
    rows.assign(other=1.0).to_csv(tmp_path / "test.csv", index=False)
    v = visit(line[0])
    v.page.locator("#table").set_input_files(tmp_path / "test.csv")
    v.page.wait_for_selector("#target-of:not([hidden])")
    assert v.page.locator("#target option").all_inner_texts() == ["choose…", cases.EVIL, "other"]
    v.page.locator("#target").select_option(cases.EVIL)
    v.page.wait_for_selector("[data-score=rmse]")
    assert v.score("rmse") < 0.5
    assert v.page.evaluate("window.hurt") is None
    assert v.complaints == []


def test_a_table_that_cannot_be_read_is_said(visit, line, tmp_path):
    (tmp_path / "t.csv").write_text("day\n1\n")
    (tmp_path / "m.safetensors").write_bytes(b"nothing")
    v = visit(line[0])
    v.page.locator("#table").set_input_files(tmp_path / "t.csv")
    v.page.wait_for_selector(".notice")
    assert "t.csv: no column 'hour'; there are day" in v.page.locator("#notices").inner_text()
    v.page.locator("#files").set_input_files([tmp_path / "m.safetensors"])
    v.page.wait_for_selector(".notice >> text=m.safetensors: not a complete recyclegp file")


# --- pictures ---


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_figure_can_be_taken(visit, plane, tmp_path, kind):
    v = visit(plane[0])
    both(v)
    v.page.locator("#kind").select_option(kind)
    assert saved(v, v.page.locator("#picture"), tmp_path / "f") == f"figure.{kind}"
    content = (tmp_path / "f").read_bytes()
    if kind == "png":
        assert min(Image.open(BytesIO(content)).size) > 400
    else:
        assert content.startswith(b"%PDF" if kind == "pdf" else b"<?xml")
    assert v.complaints == []


# --- what a reload keeps ---


def test_a_reload_keeps_all_that_is_chosen(visit, wards, plane):
    v = visit(plane[0])
    both(v)
    v.switch("m2")
    v.page.locator("#whose").select_option("m1")
    v.settle()
    v.row("m0").get_by_role("button", name="Units").click()
    v.page.locator("tr.editor").get_by_label("level × (scale)").or_(v.page.locator("tr.editor input").first).first.fill(
        "2"
    )
    v.page.locator("tr.editor").get_by_role("button", name="Apply").click()
    v.settle()
    before, drawn = v.page.evaluate("[choice(), chosen()]"), v.page.evaluate("data.layers[0].values[0]")
    assert before[0]["off"] == [2]
    assert list(before[0]["units"]) == ["0"]
    assert before[1]["whose"] == "m1"
    v.page.reload()
    v.settle()
    assert v.page.evaluate("[choice(), chosen()]") == before
    assert v.page.evaluate("data.layers[0].values[0]") == drawn
    assert not v.row("m2").get_by_role("switch").is_checked()
    assert (v.page.locator("#column").input_value(), v.page.locator("#whose").input_value()) == ("", "1")

    v = visit(wards[0])
    v.page.get_by_label("ward").select_option("south")
    v.settle()
    drawn = v.curve()
    v.page.reload()
    v.settle()
    assert v.page.get_by_label("ward").input_value() == "south"
    assert v.curve() == drawn


def test_a_reload_keeps_the_function_and_the_table(visit, tmp_path):
    rng = np.random.default_rng(0)
    day = pd.DataFrame({"day": rng.uniform(0, 6, 60)})
    y = pd.DataFrame({"heat": np.sin(day["day"]), "salt": np.cos(day["day"])}) + 0.1 * rng.standard_normal((60, 2))
    modules = [rgp.fit(day, y, name=f"m{k}", publish=7, learn=False, seed=k) for k in range(2)]
    day.join(y).to_csv(tmp_path / "t.csv", index=False)
    with cases.running(cases.serve_state(modules, reader=READER)) as address:
        v = visit(address)
        v.page.locator("#function").select_option("1")
        v.settle()
        v.page.locator("#table").set_input_files(tmp_path / "t.csv")
        v.page.wait_for_selector("[data-score=rmse]")
        v.settle()
        score = v.score()
        v.page.reload()
        v.settle()
        assert v.page.locator("h1").inner_text() == "salt by day"
        assert v.score() == score
        assert v.page.locator("#of-table").inner_text() == "t.csv: 60 rows"
        assert v.page.locator("#predictions").is_visible()
        assert v.complaints == []


# --- the map of owners ---


def test_the_map_of_owners_shows_the_verdicts(visit, line):
    v = visit(line[0])
    assert v.page.locator("#map .ring.flagged").count() == 1
    assert "Ringed: contradicts the others together" in v.page.locator("#map-hint").inner_text()
    west = v.page.locator("#map g[role=switch]").nth(3)
    assert "scaled by about 10" in west.locator("title").text_content()
    v.switch("west")
    assert v.page.locator("#map .ring").count() == 0


def test_those_who_agree_stand_together(visit):
    """However few they are, the map is not stretched until they look far apart."""
    with cases.running(cases.serve_state(cases.modules()[:3])) as address:
        v = visit(address)
        text = v.page.locator("#map .bar text").text_content()
        bar = v.page.locator("#map .bar path").bounding_box()["width"]
        dots = [d.bounding_box() for d in v.page.locator("#map g[role=switch] circle").all()]
    assert text == "2 standard deviations"
    centres = np.array([(d["x"] + d["width"] / 2, d["y"] + d["height"] / 2) for d in dots])
    assert np.linalg.norm(centres[:, None] - centres[None], axis=-1).max() < 1.2 * bar


def test_the_map_does_not_turn_when_somebody_is_switched_off(visit, line):
    v = visit(line[0])
    before = v.page.evaluate("[...placed.values()]")
    v.switch("south")
    after = v.page.evaluate("[...placed.values()]")
    both = [np.array(xy) - np.mean(xy, axis=0) for xy in (before, after)]
    U, _, Vt = np.linalg.svd(both[0].T @ both[1])
    np.testing.assert_allclose(U @ Vt, np.eye(2), atol=1e-6)  # nothing turned would be nearer to what was there


def test_the_table_says_how_many_points_there_are_for_each_row(visit, line):
    v = visit(line[0], width=360)
    for row in v.page.locator("#modules tbody tr").all():
        assert row.locator("[data-label=points]").inner_text().split("\n")[-2:] == ["7", "0.12 per row"]
