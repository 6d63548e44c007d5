"""What is drawn: levels of categories, maps over two inputs, and pictures to keep."""

import json
import re
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import cases_serve as cases
import recyclegp as rgp
from cases_joint import CLASSES
from recyclegp.plot.numbers import MAP_SIDE
from recyclegp.serve import drawings, looking, views
from recyclegp.serve.choices import Choice, everybody
from recyclegp.serve.looking import Looking


def rows_of(seed, rows=90):
    """An hour, a ward that shifts what is measured, and a depth."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "hour": rng.uniform(0, 6, rows),
            "ward": rng.choice(["north", "a b"] if seed == 2 else ["north", "south"], rows),
            "depth": rng.uniform(-1, 2, rows),
        }
    )
    shift = X["ward"].map({"north": 0.0, "south": 3.0, "a b": -2.0})
    return X, pd.Series(np.sin(X["hour"]) + shift * np.cos(X["depth"]) + 0.1 * rng.standard_normal(rows), name="level")


@pytest.fixture(scope="module")
def with_wards():
    """Three owners, one of whom knows another level; one has its columns in another order."""
    found = []
    for seed in range(3):
        X, y = rows_of(seed)
        found.append(rgp.fit(X[["ward", "depth", "hour"]] if seed == 1 else X, y, name=f"m{seed}", publish=24))
    return cases.serve_state(found)


@pytest.fixture(scope="module")
def over_two():
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"east": rng.uniform(0, 4, 60) + seed, "north": rng.uniform(-2, 1, 60)})
        y = pd.Series(np.sin(X["east"]) + X["north"] + 0.1 * rng.standard_normal(60), name="level")
        found.append(rgp.fit(X, y, name=f"m{seed}", publish=12))
    return cases.serve_state(found)


# --- levels of categories ---


def test_levels_are_those_of_everybody(with_wards):
    told = views.about(with_wards.snapshot)
    assert told["columns"] == ["hour", "depth"]
    (ward,) = told["levels"]
    assert (ward["column"], set(ward["names"])) == ("ward", {"north", "south", "a b"})
    counts = pd.concat([rows_of(seed)[0]["ward"] for seed in range(3)]).value_counts()
    assert ward["usual"] == counts.index[0]


@pytest.mark.parametrize("level", ["north", "south", "a b"])
def test_curves_are_at_the_level_that_is_chosen(with_wards, level):
    view = views.view(with_wards, everybody(3), Looking(1, levels=(("ward", level),)))
    json.dumps(view, allow_nan=False)
    drawn, e = cases.curve(view, "merged"), with_wards.usual().ensemble
    depth = cases.places(drawn)[:, 0]
    hour = np.median(
        np.concatenate([m.inducing[:, m.columns.index("hour")] for m in [*with_wards.snapshot.modules, e]])
    )
    X = pd.DataFrame({"hour": hour.astype(float), "ward": level, "depth": depth})
    np.testing.assert_allclose(drawn["mean"], e.predict(X)[0], rtol=2e-4, atol=2e-4)
    assert view["curves"]["fixed"] == f"ward = {level}"


def test_a_level_that_only_those_know_who_are_switched_off(with_wards):
    at = Looking(0, levels=(("ward", "a b"),))
    alone = cases.serve_state(with_wards.snapshot.modules[:2])
    with pytest.raises(rgp.RecycleGPError, match=r"nobody who is switched on knows ward = a b; choose .* north, south"):
        views.view(alone, everybody(2), at)
    # who is compared with everybody as they were sent knows all levels
    assert cases.curve(views.view(with_wards, Choice((0, 1)), at), "merged")["mean"]


@pytest.mark.parametrize(
    ("levels", "message"),
    [((("hour", "1"),), "hour is no column of categories"), ((("ward", "west"),), "knows ward = west")],
)
def test_levels_that_are_not_there(with_wards, levels, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        views.view(with_wards, everybody(3), Looking(levels=levels))


def test_columns_without_names_have_levels_too():
    rng = np.random.default_rng(0)
    X = np.empty((60, 2), dtype=object)
    X[:, 0], X[:, 1] = rng.uniform(0, 5, 60), rng.choice(["a", "b"], 60)
    y = np.sin(X[:, 0].astype(float)) + 2 * (X[:, 1] == "b")
    serve_state = cases.serve_state([rgp.fit(X, y, name="m", publish=16)])
    (found,) = views.about(serve_state.snapshot)["levels"]
    assert (found["column"], set(found["names"])) == ("x2", {"a", "b"})
    for level in "ab":
        drawn = cases.curve(views.view(serve_state, everybody(1), Looking(levels=(("x2", level),))), "merged")
        rows = np.array([[x, level] for x in cases.places(drawn)[:, 0]], dtype=object)
        np.testing.assert_allclose(drawn["mean"], serve_state.usual().ensemble.predict(rows)[0], rtol=1e-4, atol=1e-4)


# --- maps ---


def grid(told):
    x, y = (np.linspace(*limits, told["side"]) for limits in told["region"])
    return np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)


def layer(told, k):
    return np.array([np.nan if v is None else v for v in told["layers"][k]["values"][0]])


def test_a_map_is_of_the_merged_model(over_two):
    told = views.view(over_two, Choice((0, 2)), Looking(None))["curves"]
    json.dumps(told, allow_nan=False)
    assert (told["kind"], told["side"], told["columns"]) == ("maps", MAP_SIDE, ["east", "north"])
    mean, variance = rgp.merge([over_two.snapshot.modules[i] for i in (0, 2)]).predict(grid(told))
    np.testing.assert_allclose(layer(told, 0), mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(layer(told, 1), np.sqrt(variance), rtol=1e-4, atol=1e-4)
    drawn = {told["entries"][m["entry"]]["name"] for m in told["models"][0]["points"]}
    assert drawn == {"m0", "m2", "merged"}


def test_a_map_of_one_module_is_where_it_has_points(over_two):
    told = views.view(over_two, everybody(3), Looking(None, whose=1))["curves"]
    m = over_two.snapshot.modules[1]
    X, values = grid(told), layer(told, 0)
    known = np.isfinite(values)
    assert 0.2 < known.mean() < 0.9
    np.testing.assert_allclose(values[known], m.predict(X[known])[0], rtol=1e-4, atol=1e-4)
    off = views.view(over_two, Choice((0, 2)), Looking(None, whose=1))["curves"]  # who is switched off has none
    assert np.isfinite(layer(off, 0)).all()


@pytest.mark.slow
def test_a_map_of_classes_shows_the_probability_of_one():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(0, 4, (120, 2)), columns=["east", "north"])
    y = np.array(CLASSES)[np.digitize(X["east"] + 0.5 * rng.standard_normal(120), [1.5, 2.5])]
    m = rgp.fit(X, y, likelihood="categorical", name="m", publish=12, learn=False)
    serve_state = cases.serve_state([m])
    for c, name in enumerate(serve_state.usual().ensemble.classes):
        told = views.view(serve_state, everybody(1), Looking(None, c))["curves"]
        assert [la["label"] for la in told["layers"]] == [f"P(y = {name})"]
        p = serve_state.usual().ensemble.predict_proba(grid(told))[:, c]
        np.testing.assert_allclose(layer(told, 0), p, rtol=1e-4, atol=1e-4)


def test_a_map_needs_two_inputs():
    serve_state = cases.serve_state(cases.modules()[:2])
    with pytest.raises(rgp.RecycleGPError, match="a map is of two inputs, and there are 1"):
        views.view(serve_state, everybody(2), Looking(None))
    with pytest.raises(rgp.RecycleGPError, match="whose 7: there are 2 modules"):
        views.view(serve_state, everybody(2), Looking(whose=7))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"levels": ["a"]}, "levels must be an object"),
        ({"levels": {"ward": 3}}, "levels must be texts"),
        ({"levels": {str(k): "a" for k in range(101)}}, "levels must be an object"),
        ({"whose": "0"}, "whose must be a whole number"),
        ({"column": True}, "column must be a whole number"),
    ],
)
def test_questions_are_checked(question, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        looking.from_json(question)


# --- pictures ---


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, None])
def test_a_picture_is_what_the_page_shows(over_two, column):
    made = views.picture(over_two, Choice((0, 2)), Looking(column), "png")
    picture = Image.open(BytesIO(made)).convert("RGB")
    assert min(picture.size) > 500
    assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 50
    words = views.picture(over_two, Choice((0, 2)), Looking(column), "svg").decode()
    said = re.findall(r"<!-- (.*?) -->", words)  # what matplotlib writes beside the outlines of letters
    assert "2 of 3 modules count" in said
    assert "east" in said
    assert any("m0" in text for text in said)
    assert not any("m1" in text for text in said)
    assert views.picture(over_two, everybody(3), Looking(column), "pdf").startswith(b"%PDF")
    with pytest.raises(rgp.RecycleGPError, match="kind: choose one of png, svg, pdf"):
        views.picture(over_two, everybody(3), Looking(column), "exe")


def test_a_picture_says_the_levels(with_wards):
    words = views.picture(with_wards, everybody(3), Looking(levels=(("ward", "south"),)), "svg").decode()
    assert "<!-- 3 of 3 modules count; at ward = south -->" in words


def test_the_curve_of_who_does_not_count_is_dotted_in_the_picture_too():
    serve_state = cases.serve_state(cases.modules())
    drawn = drawings.draw(serve_state, everybody(4), Looking())
    looks = {s.label: s.dashes for s in drawn.scene.subjects}
    assert looks == {"north": "-", "south": "-", "east": "-", "west": drawings.NOT_COUNTED, "merged": "-"}
