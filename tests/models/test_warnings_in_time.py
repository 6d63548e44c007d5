"""Said before somebody is misled: nothing to learn, few rows to calibrate on, nobody who could notice a mistake."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

import recyclegp as rgp
from cases_cli import call, written
from recyclegp.errors import FewCalibrationRowsWarning, NothingToLearnWarning, UncheckedWarning
from recyclegp.models.calibration import coverage_by_bad_luck
from recyclegp.storage.calibration import rank

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(40)
FROM_LOGARITHM = 2.5
FAR = np.array([20.0, 0.0])


def said(run, category):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if issubclass(w.category, category)]


def frame(**columns):
    return pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], **columns})


@pytest.mark.parametrize(
    ("inputs", "y", "options", "expected"),
    [
        (X, np.full(40, 3.0), {}, "'y' is 3"),
        (X, pd.Series(np.full(40, 3.0), name="pressure"), {}, "'pressure' is 3"),
        (X, np.full(40, FROM_LOGARITHM), {"likelihood": "lognormal"}, "'y' is 2.5"),
        (
            X,
            np.zeros(40),
            {"likelihood": "bernoulli", "labels": ["well", "ill"], "target": "state"},
            "'state' is 'well'",
        ),
        (X, np.zeros(40), {"likelihood": "poisson"}, "'y' is 0"),
        (X, np.full(40, 3.0), {"likelihood": "heteroscedastic"}, "'y' is 3"),
        (X, np.c_[Y, np.ones(40)], {"target": ["heat", "salt"]}, "'salt' is 1"),
        (np.c_[X, np.full(40, 7.0)], Y, {}, "input 3 is 7"),
        (frame(unit=7.25), Y, {}, "input 'unit' is 7.25"),
        (frame(unit=7.0), np.full(40, 3.0), {}, "'y' is 3 and input 'unit' is 7"),
    ],
)
def test_what_is_constant(inputs, y, options, expected):
    (text,) = said(lambda: rgp.fit(inputs, y, name="north", **options), NothingToLearnWarning)
    assert text == f"north: {expected} in all rows: nothing is learned of how it varies; is it the right column?"


@pytest.mark.parametrize(
    ("inputs", "y", "options"),
    [
        (X, Y, {}),
        (frame(ward="north"), Y, {}),  # a level of the owner's own
        (X, ["ant"] * 20 + ["bee"] * 20, {"likelihood": "categorical"}),
        (X[:1], Y[:1], {"allow_small": True}),
    ],
)
def test_what_is_not(inputs, y, options):
    assert said(lambda: rgp.fit(inputs, y, **options), NothingToLearnWarning) == []


def test_of_many_it_is_said_once():
    data = [(X, Y), (X, np.full(40, 3.0)), (X[:20], np.full(20, 4.0)), (X[20:], Y[20:])]
    (text,) = said(lambda: rgp.fit_many(data, names=list("abcd")), NothingToLearnWarning)
    assert text.startswith("b: 'y' is 3 in all rows; likewise in 1 other of 4 modules: nothing is learned")


@pytest.mark.parametrize("n", [1, 3, 10, 19, 30, 49])
def test_few_rows_to_calibrate_on(n):
    module = rgp.fit(X, Y, name="a")
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 6, (60, 2))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(60)
    (text,) = said(lambda: rgp.calibrate(module, x[:n], y[:n]), FewCalibrationRowsWarning)
    assert text.startswith(f"calibrated on {n} row{'s' * (n > 1)}: one time in 20, intervals of ")
    assert said(lambda: rgp.calibrate(module, x, y), FewCalibrationRowsWarning) == []


@pytest.mark.parametrize(("n", "level"), [(1, 0.5), (10, 0.9), (19, 0.95), (33, 0.8), (49, 0.95)])
def test_what_bad_luck_is(n, level):
    k = rank(level, n)
    assert coverage_by_bad_luck(n, level) == pytest.approx(beta.ppf(0.05, k, n + 1 - k), abs=1e-9)


def test_nobody_knows_the_region():
    a, b = rgp.fit(X, Y, name="a"), rgp.fit(X + FAR, Y, name="b")
    (text,) = said(lambda: rgp.merge([a, b]), UncheckedWarning)
    assert text == (
        "2 of 2 modules cannot be checked: a (the others know 0% of what it says), b (the others know 0% of what it "
        "says); a mistake in them, as another unit, would not be noticed"
    )
    assert said(lambda: rgp.merge([a]), UncheckedWarning) == []
    assert said(lambda: rgp.merge([a, b], trust=None), UncheckedWarning) == []
    whole = [rgp.fit(X[k::2], Y[k::2], name=str(k)) for k in range(2)]
    assert said(lambda: rgp.merge([*whole, b]), UncheckedWarning)[0].startswith("1 of 3 modules cannot be checked: b (")


def test_several_functions_are_said_once():
    modules = [rgp.fit(X + k * FAR, np.c_[Y, -Y], name=f"m{k}") for k in range(2)]
    assert len(said(lambda: rgp.merge(modules), UncheckedWarning)) == 1


def test_the_command_line(tmp_path):
    table = written(frame(y=3.0), tmp_path / "a.csv")
    found = call("fit", table, "-t", "y", "-o", tmp_path / "a.safetensors")
    assert found.exit_code == 0
    assert (
        "warning: a: 'y' is 3 in all rows: nothing is learned of how it varies; is it the right column?\n"
        in found.stderr
    )
