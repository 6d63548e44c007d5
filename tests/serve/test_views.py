"""What the page is told: the numbers of the library, for whatever is chosen."""

import json

import numpy as np
import pandas as pd
import pytest

import cases_serve as cases
import recyclegp as rgp
from cases_serve import curve, places
from recyclegp import metrics
from recyclegp.serve import state, views
from recyclegp.serve.choices import Change, Choice, everybody
from recyclegp.serve.looking import Looking

BAND_SDS = 1.959963984540054


@pytest.fixture(scope="module")
def modules():
    return cases.modules()


@pytest.fixture(scope="module")
def serve_state(modules):
    test = cases.table(9, 0, 10, 50)
    return cases.serve_state(modules, test=state.Test(test[["hour"]], test["level"].to_numpy(), None, "test.csv"))


def test_about(serve_state, modules):
    told = views.about(serve_state.snapshot)
    json.dumps(told, allow_nan=False)
    assert [m["name"] for m in told["modules"]] == ["north", "south", "east", "west"]
    assert told["functions"] == ["f"]
    (first,) = told["modules"][0]["parts"]
    assert (first["rows"], first["points"], first["kernel"]) == (60, len(modules[0].inducing), "matern52")
    assert (first["kept"], first["target"]) == (modules[0].kept, "level")
    assert first["noise_sd"] == pytest.approx(modules[0].noise ** 0.5)
    assert told["columns"] == ["hour"]
    assert told["test"] == {"label": "test.csv", "rows": 50}


@pytest.mark.parametrize("on", [(0, 1, 2, 3), (0, 2), (1,)])
def test_curves_are_the_predictions_of_the_merge(serve_state, modules, on):
    view = views.view(serve_state, Choice(on))
    json.dumps(view, allow_nan=False)
    with pytest.warns(rgp.RecycleGPWarning) if 3 in on else np.errstate():
        e = rgp.merge([modules[i] for i in on])
    c = curve(view, "merged")
    mean, variance = e.predict(places(c))
    np.testing.assert_allclose(c["mean"], mean, rtol=1e-4)
    np.testing.assert_allclose(c["high"], mean + BAND_SDS * np.sqrt(variance), rtol=1e-4)
    for i in on:
        c = curve(view, modules[i].name)
        np.testing.assert_allclose(c["mean"], modules[i].predict(places(c))[0], rtol=1e-4)
    assert view["curves"]["label"] == "level"
    assert view["facts"]["rows"] == e.rows
    assert view["facts"]["evidence"] == pytest.approx(e.evidence)


def test_everybody_is_drawn_beside_a_choice(serve_state):
    assert len(views.view(serve_state, everybody(4))["curves"]["entries"]) == 5
    view = views.view(serve_state, Choice((0, 1)))
    names = [e["name"] for e in view["curves"]["entries"]]
    assert names == ["north", "south", "merged", state.Snapshot.compared]
    c = curve(view, state.Snapshot.compared)
    np.testing.assert_allclose(c["mean"], serve_state.usual().ensemble.predict(places(c))[0], rtol=1e-4)
    assert not c["banded"]


def test_colours_do_not_depend_on_who_is_on(serve_state):
    def colours(on):
        entries = views.view(serve_state, Choice(on))["curves"]["entries"]
        return {e["name"]: e["colour"] for e in entries}

    some, all_of_them = colours((1, 2)), colours((0, 1, 2, 3))
    assert some["south"] == all_of_them["south"]
    assert some["east"] == all_of_them["east"]


def test_scores(serve_state, modules):
    test = serve_state.snapshot.test
    scores = views.view(serve_state, Choice((0,)))["scores"]
    expected = metrics.score(rgp.merge(modules[:1]), test.X, test.y)
    assert scores["kind"] == "test"
    assert scores["now"]["rmse"] == pytest.approx(expected.rmse)
    assert scores["now"]["coverage"] == pytest.approx(expected.coverage)
    assert scores["all"]["nlpd"] < scores["now"]["nlpd"]  # one owner has seen a part of the hours
    assert scores["now"]["error"] is None


def test_without_a_test_table_there_is_the_evidence(modules):
    scores = views.view(cases.serve_state(modules[:3]), Choice((0, 1)))["scores"]
    assert scores["kind"] == "evidence"
    assert scores["now"]["evidence"] == pytest.approx(rgp.merge(modules[:2]).evidence)


def test_a_flagged_module_has_a_remedy_that_works(serve_state):
    rows = views.view(serve_state, everybody(4))["rows"]
    assert [r["standing"] for r in rows] == ["trusted"] * 3 + ["flagged"]
    remedy = rows[3]["remedy"]
    assert remedy["output_scale"] == [pytest.approx(0.1, rel=0.05)]
    assert not rows[3]["counts"]
    change = Change(tuple(remedy["output_scale"]), tuple(remedy["output_shift"]))
    changed = views.view(serve_state, Choice((0, 1, 2, 3), ((3, change),)))
    assert changed["rows"][3]["counts"]
    assert changed["facts"]["rows"] == 240


def test_inputs_in_other_units_have_a_remedy_that_works():
    """A clock in minutes where the others count hours."""
    some = [cases.fitted(cases.table(k, 0, 9, 120), f"m{k}") for k in range(5)]
    serve_state = cases.serve_state([*some[:4], some[4].transform(input_scale=[60.0])])
    remedy = views.view(serve_state, everybody(5))["rows"][4]["remedy"]
    assert remedy["input_scale"] == [pytest.approx(1 / 60, rel=1e-4)]
    assert (remedy["output_scale"], remedy["output_shift"]) == ([1.0], [0.0])
    change = Change(input_scale=tuple(remedy["input_scale"]))
    view = views.view(serve_state, Choice(tuple(range(5)), ((4, change),)))
    assert [r["standing"] for r in view["rows"]] == ["trusted"] * 5


def test_curves_in_other_units_do_not_squeeze_the_others(serve_state):
    view = views.view(serve_state, everybody(4))
    assert view["curves"]["span"]["high"] < 10  # though the curve in other units is at 40
    assert max(curve(view, "west")["mean"]) > 30


def test_the_map_is_of_everybody_in_their_units(serve_state):
    before = views.owners(serve_state, Choice((0,)))
    assert [p["owner"] for p in before["places"]] == ["north", "south", "east", "west"]
    after = views.owners(serve_state, Choice((0,), ((3, Change((0.1,))),)))
    far = [next(p["distance"] for p in told["pairs"] if (p["a"], p["b"]) == (3, 1)) for told in (before, after)]
    assert far[0] > 10 > 3 > far[1]


def test_notes_are_the_warnings(modules):
    named = [modules[0], cases.fitted(cases.table(5, 0, 6).rename(columns={"level": "height"}), "other")]
    (note,) = views.view(cases.serve_state(named), everybody(2))["notes"]
    assert "modules name different targets" in note


def test_modules_that_cannot_be_merged_are_said(modules):
    grams = modules[0].transform(unit="g")
    serve_state = cases.serve_state([grams, modules[1].transform(unit="kg")])
    with pytest.raises(
        rgp.RecycleGPError, match=r"in 'g' for one and in 'kg' .* transform\(output_scale=…, .*unit=…\)"
    ):
        views.view(serve_state, everybody(2))
    assert serve_state.usual() is None
    scores = views.view(serve_state, Choice((1,)))["scores"]
    assert scores["all"] is None


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "negative-binomial"])
def test_other_likelihoods_over_several_inputs(likelihood):
    some = []
    for k in range(3):
        rng = np.random.default_rng(k)
        X = pd.DataFrame(rng.uniform(0, 3, (50, 3)), columns=["a", "b", "c"])
        rate = np.exp(np.sin(2 * X["b"]))
        y = rng.poisson(rate) if likelihood != "bernoulli" else rng.uniform(size=50) < rate / 3
        some.append(
            rgp.fit(X, y.astype(float), likelihood=likelihood, name=f"m{k}", publish=8, learn=False, target="seen")
        )
    serve_state = cases.serve_state(some, settings=state.Settings(learn=False))
    for column in range(3):
        view = views.view(serve_state, everybody(3), Looking(column))
        (panel,) = view["curves"]["panels"]
        c = curve(view, "merged")
        X = np.tile(np.median(np.concatenate([m.inducing for m in [*some, serve_state.usual().ensemble]]), 0), (4, 1))
        X[:, column] = np.linspace(c["from"], c["to"], len(c["mean"]))[[0, 50, 100, 200]]
        expected = serve_state.usual().ensemble.predict_y(X)[0]
        np.testing.assert_allclose(np.array(c["mean"])[[0, 50, 100, 200]], expected, rtol=1e-4)
        assert panel["label"] == "abc"[column]
    assert view["curves"]["label"] == ("P(seen = 1)" if likelihood == "bernoulli" else "rate of seen")
    assert all(r["remedy"] is None for r in view["rows"])
    with pytest.raises(rgp.RecycleGPError, match="column 3: there are 3 inputs"):
        views.view(serve_state, everybody(3), Looking(3))


def test_results_are_computed_once_and_few_are_kept(modules, monkeypatch):
    calls = []
    merge = state.merge
    monkeypatch.setattr(state, "merge", lambda *a, **k: calls.append(1) or merge(*a, **k))
    serve_state = cases.serve_state(modules[:3], settings=state.Settings(learn=False))
    first = serve_state.merged(Choice((0, 1)))
    assert (
        serve_state.merged(Choice((0, 1), ((2, Change((2.0,))),))) is first
    )  # a change of somebody who does not count
    assert len(calls) == 1
    for k in range(state.MOST_KEPT):
        serve_state.merged(Choice((0, 1), ((0, Change((2.0 + k,))),)))
    assert len(serve_state._kept) == state.MOST_KEPT
    assert serve_state.merged(Choice((0, 1))) is not first


def wards():
    """Modules over a number and a category, of which they know different levels."""
    some = []
    for k, levels in enumerate((["a", "b"], ["b", "c"])):
        rng = np.random.default_rng(k)
        X = pd.DataFrame({"ward": rng.choice(levels, 60), "hour": rng.uniform(0, 6, 60)})
        y = np.sin(X["hour"]) + (X["ward"] == "b") + 0.1 * rng.standard_normal(60)
        some.append(rgp.fit(X, y, name=f"m{k}", publish=12))
    return some


def test_categories_are_held(tmp_path):
    some = wards()
    serve_state = cases.serve_state(some)
    told = views.about(serve_state.snapshot)
    assert told["columns"] == ["hour"]
    assert (told["modules"][0]["columns"], told["modules"][0]["categories"]) == (["ward", "hour"], [0])
    view = views.view(serve_state, everybody(2))
    assert view["curves"]["fixed"] == "ward = b"
    c = curve(view, "merged")
    X = pd.DataFrame({"ward": "b", "hour": places(c)[:, 0]})
    np.testing.assert_allclose(c["mean"], rgp.merge(some).predict(X)[0], rtol=1e-4, atol=1e-4)
    moved = views.view(serve_state, Choice((0, 1), ((0, Change(input_shift=(0.0, 1.0))),)))
    assert moved["facts"]["rows"] == 120
