"""Modules of several functions on the page: one function is looked at, with verdicts, units and scores of its own."""

import json

import numpy as np
import pytest

import cases_serve as cases
import recyclegp as rgp
from cases_joint import CLASSES, classes, outputs, varying
from recyclegp import metrics
from recyclegp.serve import state, views
from recyclegp.serve.choices import Change, Choice, everybody
from recyclegp.serve.looking import Looking

HEAT, SALT = 0, 1
BAND_SDS = 1.959963984540054


def fitted(make, y, names, **how):
    tables = [make(k, 0, 6, 60) for k in range(len(names))]
    return [rgp.fit(t[["day"]], t[y], name=name, publish=7, **how) for t, name in zip(tables, names, strict=True)]


@pytest.fixture(scope="module")
def modules():
    """Four owners of two outputs, one with salt ten times as large, and one who has seen heat alone."""
    found = fitted(outputs, ["heat", "salt"], ["north", "south", "east", "west"])
    rows = outputs(9, 0, 6, 60)
    alone = rgp.fit(rows[["day"]], rows["heat"], name="alone", publish=7)
    return [*found[:3], found[3].transform(output_scale={"salt": 10.0}), alone]


@pytest.fixture(scope="module")
def serve_state(modules):
    rows = outputs(11, 0, 6, 50)
    rows.loc[:9, "salt"] = np.nan
    return cases.serve_state(modules, test=state.Test(rows[["day"]], rows[["heat", "salt"]], None, "test.csv"))


def curve(view, name):
    found = cases.curve(view, name)
    return cases.places(found), found


def test_a_module_has_a_part_for_each_function_that_it_has(serve_state, modules):
    told = views.about(serve_state.snapshot)
    json.dumps(told, allow_nan=False)
    assert told["functions"] == ["heat", "salt"]
    north, alone = told["modules"][0], told["modules"][4]
    assert north["outputs"] == ["heat", "salt"]
    assert [part["noise_sd"] for part in north["parts"]] == pytest.approx(np.sqrt(modules[0].noise))
    assert [part["output"] for part in north["parts"]] == [0, 1]
    assert [part["has_units"] for part in north["parts"]] == [True, True]
    assert alone["outputs"] == ["y"]
    assert (alone["parts"][HEAT]["rows"], alone["parts"][SALT]) == (60, None)


@pytest.mark.parametrize("function", [HEAT, SALT])
def test_curves_are_those_of_the_whole_model(serve_state, modules, function):
    view = views.view(serve_state, Choice((0, 1, 4)), Looking(function=function))
    json.dumps(view, allow_nan=False)
    e = rgp.merge([modules[i] for i in (0, 1, 4)])
    x, drawn = curve(view, "merged")
    mean, variance = (part[:, function] for part in e.predict(x))
    np.testing.assert_allclose(drawn["mean"], mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(drawn["high"], mean + BAND_SDS * np.sqrt(variance), rtol=1e-4, atol=1e-4)
    names = [entry["name"] for entry in view["curves"]["entries"]]
    assert names == ["north", "south", *(["alone"] if function == HEAT else []), "merged", state.Snapshot.compared]
    assert view["curves"]["label"] == ("heat", "salt")[function]
    assert view["facts"]["modules"] == 3 - function
    assert view["facts"]["noise_sd"] == pytest.approx(np.sqrt(e.noise[function]))


def test_verdicts_and_remedies_are_of_one_function(serve_state, modules):
    heat, salt = (views.view(serve_state, everybody(5), Looking(function=function)) for function in (HEAT, SALT))
    assert heat["flagged"] == salt["flagged"] == [0, 1]
    assert [(r["position"], r["standing"]) for r in heat["rows"]] == [(i, "trusted") for i in range(5)]
    assert [(r["position"], r["standing"], r["counts"]) for r in salt["rows"]] == [
        *((i, "trusted", True) for i in range(3)),
        (3, "flagged", False),
    ]
    remedy = salt["rows"][3]["remedy"]
    assert remedy["output_scale"] == [1.0, pytest.approx(0.1, rel=0.05)]
    assert remedy["output_shift"][HEAT] == 0.0
    change = Change(tuple(remedy["output_scale"]), tuple(remedy["output_shift"]))
    changed = views.view(serve_state, Choice(tuple(range(5)), ((3, change),)), Looking(function=SALT))
    assert changed["flagged"] == [0, 0]
    assert all(r["counts"] for r in changed["rows"])


def test_each_output_has_scores_of_its_own(serve_state):
    test, e = serve_state.snapshot.test, serve_state.usual().ensemble
    expected = metrics.score_outputs(e, test.X, test.y)
    for function, name in enumerate(("heat", "salt")):
        scores = views.view(serve_state, everybody(5), Looking(function=function))["scores"]
        assert scores["now"]["rmse"] == pytest.approx(expected[name].rmse)
        assert scores["all"]["nlpd"] == pytest.approx(expected[name].nlpd)


def test_the_map_is_of_those_who_have_the_function(serve_state):
    heat, salt = (views.owners(serve_state, everybody(5), function) for function in (HEAT, SALT))
    assert [p["owner"] for p in heat["places"]] == ["north", "south", "east", "west", "alone"]
    assert [p["modules"] for p in salt["places"]] == [[0], [1], [2], [3]]
    far = [max(p["distance"] for p in told["pairs"] if p["a"] == 3) for told in (heat, salt)]
    assert far[0] < 3 < 10 < far[1]


def test_a_function_that_nobody_has_who_is_switched_on(serve_state, modules):
    with pytest.raises(rgp.RecycleGPError, match="nobody who is switched on has salt"):
        views.view(serve_state, Choice((4,)), Looking(function=SALT))
    x, drawn = curve(
        views.view(serve_state, Choice((4,)), Looking(function=HEAT)), "merged"
    )  # which has one function then
    np.testing.assert_allclose(drawn["mean"], rgp.merge(modules[4:]).predict(x)[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(rgp.RecycleGPError, match="function 2: there are 2"):
        views.view(serve_state, everybody(5), Looking(function=2))


def test_of_classes_the_probability_of_one_is_looked_at():
    some = fitted(classes, "kind", ["north", "south"], likelihood="categorical")
    test = classes(7, 0, 6)
    serve_state = cases.serve_state(some, test=state.Test(test[["day"]], test["kind"], None, "test.csv"))
    told = views.about(serve_state.snapshot)
    assert told["functions"] == list(CLASSES)
    assert not any(part["has_units"] for m in told["modules"] for part in m["parts"])
    e = rgp.merge(some)
    for c, name in enumerate(CLASSES):
        view = views.view(serve_state, everybody(2), Looking(function=c))
        json.dumps(view, allow_nan=False)
        for model, label in ((e, "merged"), (some[0], "north")):
            x, drawn = curve(view, label)
            np.testing.assert_allclose(drawn["mean"], model.predict_proba(x)[:, c], rtol=1e-4, atol=1e-4)
            assert not drawn["banded"]
            assert "low" not in drawn
        assert view["curves"]["label"] == f"P(kind = {name})"
        assert view["curves"]["span"]["high"] == 1.0
        assert view["scores"]["now"]["error"] == pytest.approx(metrics.score(e, test[["day"]], test["kind"]).error)
    assert len(views.owners(serve_state, everybody(2), 1)["places"]) == 2


def test_noise_that_varies_can_be_looked_at():
    some = fitted(varying, "y", ["north", "south"], likelihood="heteroscedastic")
    serve_state = cases.serve_state(some)
    assert views.about(serve_state.snapshot)["functions"] == ["f", "log noise"]
    e = rgp.merge(some)
    x, drawn = curve(views.view(serve_state, everybody(2)), "merged")
    np.testing.assert_allclose(drawn["noisy"][1], e.predict_interval(x)[1], rtol=1e-4, atol=1e-4)
    view = views.view(serve_state, everybody(2), Looking(function=1))
    x, drawn = curve(view, "merged")
    np.testing.assert_allclose(drawn["mean"], np.log(e.predict_noise(x)), rtol=1e-4, atol=1e-4)
    assert "noisy" not in drawn
    assert view["curves"]["label"] == "log noise"


def test_the_route_takes_the_function(modules):
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    with cases.running(cases.serve_state(modules[:2])) as address:
        client = cases.Client(address)
        told = [client.post("api/view", {"function": k}).json()["curves"]["label"] for k in (HEAT, SALT)]
        assert told == ["heat", "salt"]
        assert len(client.post("api/owners", {"function": SALT}).json()["places"]) == 2
