"""People or things: a named choice, which is written into the file; whoever does not choose is told what it means."""

import warnings

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_cli import answer, call, ok, written
from recyclegp.errors import PrivacyWarning
from recyclegp.local.options import Publishing
from recyclegp.record import Privacy
from recyclegp.sklearn import RecyclableGPRegressor


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(n)


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [w.message for w in caught if issubclass(w.category, PrivacyWarning)]


def test_nobody_has_chosen():
    (said,) = warned(lambda: rgp.fit(*rows(60), name="ward", publish=12))
    assert str(said) == (
        "ward has 12 points for 60 rows: enough to find out who some of them are and what they had; "
        "if they are people, pass privacy='people', else privacy='things'"
    )
    assert "pass --people, else --things" in said.worded(shell=True)
    assert warned(lambda: rgp.fit(*rows(60), publish=6)) == []  # a tenth
    assert warned(lambda: rgp.fit(*rows(60), publish=12, privacy="things")) == []
    assert warned(lambda: rgp.fit(*rows(60), privacy="people")) == []
    assert warned(lambda: rgp.fit(*rows(60), rows_per_point=10)) == []


def test_many_are_warned_of_once():
    data = [rows(n) for n in (40, 60, 50)]
    (said,) = warned(lambda: rgp.fit_many(data, names=list("abc"), publish=5))
    assert str(said).startswith("a has 5 points for 40 rows:")
    (said,) = warned(lambda: rgp.fit_many(data, names=list("abc"), publish=10))
    assert str(said).startswith(
        "a has 10 points for 40 rows, and 2 others of 3 modules have more than 0.1 for each row:"
    )
    assert warned(lambda: rgp.fit_many(data, names=list("abc"), publish=10, privacy="things")) == []


def test_estimators():
    X, y = rows(60)
    (said,) = warned(lambda: RecyclableGPRegressor(name="a", publish=12, n_partitions=2).fit(X, y))
    assert "12 points for 30 rows" in str(said)
    assert warned(lambda: RecyclableGPRegressor(publish=12, privacy="things").fit(X, y)) == []
    made = RecyclableGPRegressor(privacy="people").fit(X, y).modules_[0]
    assert made.about.privacy is Privacy.PEOPLE


def test_a_choice_by_name_is_a_value():
    assert Publishing(privacy="people") == Publishing(privacy=Privacy.PEOPLE)
    with pytest.raises(rgp.RecycleGPError, match="privacy is 'person'; use 'people' or 'things'"):
        rgp.fit(*rows(60), privacy="person")


@pytest.mark.parametrize("chosen", [None, *Privacy])
def test_the_choice_is_in_every_file(tmp_path, chosen):
    one, other = rgp.fit(*rows(200), name="a", privacy=chosen), rgp.fit(*rows(200, 1), name="b", privacy=chosen)
    one.save(tmp_path / "a")
    assert rgp.load(tmp_path / "a").about.privacy is chosen
    rgp.fit_many([rows(60), rows(50)], privacy=chosen).save(tmp_path / "many")
    assert [m.about.privacy for m in rgp.load_many(tmp_path / "many")] == [chosen, chosen]
    rgp.merge([one, other]).save(tmp_path / "both")
    assert rgp.load(tmp_path / "both").to_module("c").about.privacy is chosen
    mixed = rgp.merge([one, rgp.fit(*rows(200, 2), name="d", privacy="people")]).to_module("e")
    assert mixed.about.privacy is (chosen if chosen is Privacy.PEOPLE else None)


def test_the_command_line(tmp_path):
    X, y = rows(60)
    table = written(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), tmp_path / "t.csv")
    out = tmp_path / "m.safetensors"
    how = ["fit", table, "--target", "y", "--kernel", "rbf", "-o", out]
    assert "recyclegp: warning: m has 12 points for 60 rows" in ok(*how, "--publish", "12").stderr
    assert answer("inspect", out)["privacy"] is None
    for choice in ("people", "things"):
        assert "warning" not in ok(*how, f"--{choice}").stderr
        assert answer("inspect", out)["privacy"] == choice
        assert choice in ok("inspect", out).stdout
    both = call(*how, "--people", "--things")
    assert both.exit_code != 0
    assert "--people and --things exclude each other; give one of them" in both.stderr
    ok(*how[:-1], tmp_path / "e.safetensors", "--partitions", "2", "--people", "--jobs", "1")
    assert answer("inspect", tmp_path / "e.safetensors")["privacy"] == "people"
