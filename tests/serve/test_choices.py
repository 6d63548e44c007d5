"""What the page sends: checked, and turned into modules."""

import numpy as np
import pytest

import cases_serve as cases
import recyclegp as rgp
from cases_joint import outputs
from recyclegp.serve.choices import NO_CHANGE, Change, Choice, everybody, from_json


@pytest.fixture(scope="module")
def modules():
    return cases.modules()


def test_nothing_chosen_is_everybody(modules):
    assert from_json({}, modules) == everybody(4)


def test_switches_and_units(modules):
    given = {"off": [1], "units": {"3": {"output_scale": 0.1}, "1": {"input_shift": [0.0]}, "0": {"input_shift": [2]}}}
    assert from_json(given, modules) == Choice((0, 2, 3), ((0, Change(input_shift=(2.0,))), (3, Change((0.1,)))))
    given = {"units": {"0": {"input_scale": [1.0], "input_shift": [0]}, "2": {"input_scale": [60]}}}
    assert from_json(given, modules).changes == ((2, Change(input_scale=(60.0,))),)


def test_changes_of_those_who_do_not_count_make_no_difference():
    choice = Choice((0, 2), ((1, Change((2.0,))), (2, Change((3.0,)))))
    assert choice.counted == Choice((0, 2), ((2, Change((3.0,))),))
    assert choice.of_all(3) == Choice((0, 1, 2), choice.changes)


def test_units_are_those_of_transform(modules):
    change = Change((0.1,), (0.5,), (60.0,), (2.0,), ("kg",))
    changed = change.of(modules[3])
    X = np.linspace(1, 9, 5)[:, None]
    mean, variance = changed.predict(60 * X + 2.0)
    before, doubt = modules[3].predict(X)
    np.testing.assert_allclose(mean, 0.1 * before + 0.5, rtol=1e-9)
    np.testing.assert_allclose(variance, 0.01 * doubt, rtol=1e-7)
    assert changed.target.unit == "kg"
    assert NO_CHANGE.of(modules[0]) is modules[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "send an object"),
        ({"off": 3}, "off must be a list"),
        ({"off": [4]}, "no module at '4'; there are 4"),
        ({"off": [True]}, "no module at 'True'"),
        ({"off": [-1]}, "no module at '-1'"),
        ({"units": {"١": {}}}, "no module at"),
        ({"units": {"0": {"scale": 2}}}, "output_scale, output_shift, input_scale, input_shift, unit"),
        ({"units": {"0": {"output_scale": "2"}}}, "output_scale must be a number"),
        ({"units": {"0": {"output_scale": True}}}, "output_scale must be a number"),
        ({"units": {"0": {"output_shift": float("nan")}}}, "output_shift"),
        ({"units": {"0": {"output_shift": 1e300}}}, "output_shift"),
        ({"units": {"0": {"output_shift": 10**400}}}, "output_shift must be a number of ordinary size"),
        ({"units": {"0": {"input_shift": [1, 2]}}}, "one number for each of the 1 input columns"),
        ({"units": {"0": {"unit": 3}}}, "unit must be text"),
    ],
)
def test_what_is_wrong_is_said(modules, given, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        from_json(given, modules)


def test_units_that_cannot_be_name_the_module(modules):
    with pytest.raises(rgp.RecycleGPError, match="units of 'north': output_scale"):
        Change(output_scale=(0.0,)).of(modules[0])


def test_outputs_have_units_of_their_own():
    rows = outputs(0, 0, 6)
    both = rgp.fit(rows[["day"]], rows[["heat", "salt"]], name="both", publish=6, unit=["K", "g"])
    given = {"units": {"0": {"output_scale": [2, 1], "output_shift": [0, 5], "unit": ["R", None]}}}
    ((_, change),) = from_json(given, [both]).changes
    assert change == Change((2.0, 1.0), (0.0, 5.0), unit=("R", None))
    X = np.linspace(1, 5, 4)[:, None]
    np.testing.assert_allclose(change.of(both).predict(X)[0], both.predict(X)[0] * [2, 1] + [0, 5], rtol=1e-9)
    assert [t.unit for t in change.of(both).targets] == ["R", None]
    for wrong in ([2], 2, {"heat": 2}):
        with pytest.raises(rgp.RecycleGPError, match="output_scale: send one number for each of the 2 outputs"):
            from_json({"units": {"0": {"output_scale": wrong}}}, [both])
