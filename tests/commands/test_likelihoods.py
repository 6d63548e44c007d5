"""Likelihoods that hospitals have, from a table to predictions: the library's numbers."""

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, owner, written

INPUTS = ["day", "depth"]
FEW = ["--publish", 8, "--things", "-q"]


@pytest.fixture(scope="module")
def positive(tmp_path_factory):
    """Tables, modules and the ensemble of two owners with a positive target."""
    folder = tmp_path_factory.mktemp("positive")
    for seed, name in enumerate(("north", "south")):
        table = owner(seed, 0, 5).assign(y=lambda t: np.exp(t["y"] + 2))
        written(table, folder / f"{name}.csv")
        how = ["--target", "y", "--likelihood", "lognormal", "--unit", "mg/L", "-o", folder / f"{name}.safetensors"]
        ok("fit", folder / f"{name}.csv", *how, *FEW)
    ok("merge", folder / "north.safetensors", folder / "south.safetensors", "-o", folder / "both.safetensors", "-q")
    return folder


def test_positive_targets_are_predicted_in_their_units(positive, tmp_path):
    e, table = rgp.load(positive / "both.safetensors"), pd.read_csv(positive / "north.csv")
    ok("predict", positive / "both.safetensors", positive / "north.csv", "-o", tmp_path / "p.csv", "-q")
    found = pd.read_csv(tmp_path / "p.csv")
    mean, variance = e.predict_y(table[INPUTS])
    low, high = e.predict_interval(table[INPUTS])
    expected = {"y_mean": mean, "y_sd": np.sqrt(variance), "y_lower": low, "y_upper": high}
    for column, values in expected.items():
        np.testing.assert_allclose(found[column], values, rtol=1e-6)
    np.testing.assert_allclose(found["mean"], e.predict(table[INPUTS])[0], rtol=1e-6)  # of log y


def test_positive_targets_are_scored_and_inspected(positive):
    e, table = rgp.load(positive / "both.safetensors"), pd.read_csv(positive / "south.csv")
    found = answer("score", positive / "both.safetensors", positive / "south.csv", "--target", "y")
    expected = rgp.metrics.score(e, table[INPUTS], table["y"])
    assert found["nlpd"] == pytest.approx(expected.nlpd, rel=1e-6)
    assert found["crps"] == pytest.approx(expected.crps, rel=1e-6)
    assert "lognormal" in ok("inspect", positive / "both.safetensors").output


def test_positive_targets_in_another_unit(positive, tmp_path):
    moved = tmp_path / "moved.safetensors"
    ok("transform", positive / "north.safetensors", "--output-scale", 1000, "--unit", "ug/L", "-o", moved, "-q")
    X = pd.read_csv(positive / "north.csv")[INPUTS]
    before, after = rgp.load(positive / "north.safetensors"), rgp.load(moved)
    np.testing.assert_allclose(after.predict_y(X)[0], 1000 * before.predict_y(X)[0], rtol=1e-9)
    said = one_line(
        call("transform", positive / "north.safetensors", "--output-shift", 1, "-o", tmp_path / "no.safetensors")
    )
    assert "--output-shift" in said
    assert "positive" in said


def test_zeros_are_refused(tmp_path):
    table = written(owner(0, 0, 4).assign(y=lambda t: t["y"].clip(lower=0)), tmp_path / "zeros.csv")
    said = one_line(call("fit", table, "--target", "y", "--likelihood", "lognormal", "-o", tmp_path / "m.safetensors"))
    assert "are zero or negative" in said
    assert "--likelihood gaussian" in said
