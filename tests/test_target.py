"""What y means, and when two owners cannot mean the same."""

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from recyclegp.target import NO_TARGET, Target, contradiction, described, target_name, united, with_unit


@pytest.mark.parametrize(
    ("a", "b", "contradict"),
    [
        (NO_TARGET, Target("y", "mmHg", ("ok", "ill")), False),
        (Target(unit="mmHg"), Target(unit="mmHg"), False),
        (Target(unit="mmHg"), Target(unit="kPa"), True),
        (Target(labels=("ok", "ill")), Target(labels=("ok", "ill")), False),
        (Target(labels=("ok", "ill")), Target(labels=("ill", "ok")), True),
        (Target(labels=(None, "ill")), Target(labels=("ok", "ill")), False),
        (Target(labels=(None, "ill")), Target(labels=("ill", "ok")), True),
        (Target(labels=("ok", None)), Target(labels=(None, "ok")), True),
        (Target(labels=(None, "ill")), Target(labels=(None, "dead")), True),
    ],
)
def test_contradictions(a, b, contradict):
    assert (contradiction(a, b) is not None) == (contradiction(b, a) is not None) == contradict


def test_names_come_with_series_and_frames():
    assert target_name(pd.Series([1.0], name="pressure")) == "pressure"
    assert target_name(pd.DataFrame({"pressure": [1.0]})) == "pressure"
    assert target_name(pd.Series([1.0])) is None
    assert target_name(pd.Series([1.0], name="a\nb")) is None
    assert described(pd.Series([1.0], name="pressure"), "other", None, None) == Target("other")
    assert str(Target("pressure", "mmHg")) == "pressure in mmHg"
    assert str(Target("state", None, (None, "ill"))) == "state ill against the rest"


def test_a_unit_is_said_once():
    assert with_unit("pressure", "mmHg") == "pressure (mmHg)"
    assert with_unit("pressure (mmHg)", "mmHg") == with_unit("pressure (mmHg)", None) == "pressure (mmHg)"
    assert with_unit("pressure (kPa)", "mmHg") == "pressure (kPa) (mmHg)"
    assert str(Target("pressure [mmHg]", "mmHg")) == "pressure [mmHg]"
    assert str(Target(None, "mmHg")) == "in mmHg"


@pytest.mark.parametrize(
    ("said", "together"),
    [
        ([], NO_TARGET),
        ([NO_TARGET, Target("y")], Target("y")),
        ([Target("y"), Target("y", "mmHg")], Target("y", "mmHg")),
        ([Target(None, "mmHg"), Target("y")], Target("y", "mmHg")),
        ([Target("y"), Target("z")], NO_TARGET),
        ([Target("y", "mmHg"), Target("y", "kPa")], NO_TARGET),
        ([Target("y", None, (None, "ill")), Target("y", None, ("well", "ill"))], Target("y", None, ("well", "ill"))),
        ([Target("y", None, ("well", None)), Target("y", None, (None, "well"))], NO_TARGET),
    ],
)
def test_what_several_say_together(said, together):
    assert united(said) == united(said[::-1]) == together


def test_names_survive_a_merge_with_modules_that_have_none(tmp_path):
    x = np.linspace(0, 6, 40)[:, None]
    named = rgp.fit(x, np.sin(x[:, 0]), noise=0.01, target="pressure", unit="mmHg", name="a")
    half = rgp.fit(x + 0.01, np.sin(x[:, 0]), noise=0.01, target="pressure", name="b")
    without = rgp.fit(x + 0.02, np.sin(x[:, 0]), noise=0.01, name="c")
    merged = rgp.merge([without, half, named])
    assert merged.target == Target("pressure", "mmHg")
    merged.save(tmp_path / "m.safetensors")
    assert rgp.load(tmp_path / "m.safetensors").target == merged.to_module("m").target == merged.target
    assert rgp.merge([without, named]).add(half).target == merged.target
