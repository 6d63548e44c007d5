"""What y means, and when two owners cannot mean the same."""

import pandas as pd
import pytest

from recyclegp.target import NO_TARGET, Target, contradiction, described, target_name


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
