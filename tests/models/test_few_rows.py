"""Modules of few rows say much about each of them: a warning says so, once."""

import warnings

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_cli import answer, call, ok, written
from recyclegp.errors import FewRowsWarning
from recyclegp.sklearn import RecyclableGPRegressor

pytestmark = [
    pytest.mark.filterwarnings("always::recyclegp.errors.FewRowsWarning"),
    pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning"),
]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 5, n)
    return x, np.sin(x) + 0.1 * rng.standard_normal(n)


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if issubclass(w.category, FewRowsWarning)]


def test_fit():
    (said,) = warned(lambda: rgp.fit(*rows(9), name="ward"))
    assert said.startswith("ward has 9 rows: a module of fewer than 10 says much about each of them")
    assert "allow_small=True" in said
    assert warned(lambda: rgp.fit(*rows(10))) == []
    assert warned(lambda: rgp.fit(*rows(9), allow_small=True)) == []
    with pytest.raises(TypeError, match="allow_small must be True or False, not 1"):
        rgp.fit(*rows(9), allow_small=1)


@pytest.mark.parametrize(("n", "said"), [(1, "one row is too few for a module"), (2, "2 rows are too few")])
def test_one_or_two_rows_are_refused(n, said):
    with pytest.raises(rgp.RecycleGPError, match=f"{said}.*; fit them together with others, or pass allow_small=True"):
        rgp.fit(*rows(n))
    assert rgp.fit(*rows(n), allow_small=True).rows == n
    with pytest.raises(rgp.RecycleGPError, match="it needs 20"):  # people need more
        rgp.fit(*rows(n), privacy="people")


def test_a_row_counts_as_often_as_its_weight():
    x, y = rows(2)
    assert rgp.fit(x, y, weights=[1.0, 2.0]).rows == 3
    with pytest.raises(rgp.RecycleGPError, match="2 rows are too few"):
        rgp.fit(x, y, weights=[1.5, 2.0])


def test_of_many_those_of_too_few_rows_fail():
    data = [rows(30, 1), rows(2, 2), rows(30, 3), rows(1, 4)]
    names = list("abcd")
    with pytest.raises(rgp.FitManyError, match=r"2 of the models failed \(b: 2 rows are too few") as failed:
        rgp.fit_many(data, names=names)
    assert failed.value.modules.names == ["a", "c"]
    with pytest.warns(rgp.RecycleGPWarning, match="2 models were left out"):
        kept = rgp.fit_many(data, names=names, on_failure="skip")
    assert [m.rows for m in kept] == [30, 30]
    np.testing.assert_array_equal(kept[1].predict([1.0])[0], rgp.fit_many(data[2:3], names=["c"])[0].predict([1.0])[0])
    assert rgp.fit_many(data, names=names, allow_small=True).names == names
    few = [rows(2, k) for k in range(3)]  # all at once, as plain arrays
    with pytest.raises(rgp.FitManyError, match="3 of the models failed"):
        rgp.fit_many(few)


def test_kernel_of_many_is_chosen_without_those_of_too_few_rows():
    modules = rgp.fit_many([rows(30, 1), rows(2, 2)], kernel="auto", names=["a", "b"], allow_small=True)
    assert len(modules) == 2


def test_the_warning_is_at_the_callers_line():
    with pytest.warns(FewRowsWarning) as caught:
        rgp.fit(*rows(4))
    assert caught[0].filename == __file__


def test_many_are_warned_of_once():
    data = [rows(n) for n in (30, 8, 5, 12)]
    (said,) = warned(lambda: rgp.fit_many(data, names=list("abcd")))
    assert said.startswith("c has 5 rows, and 1 other of 4 modules has fewer than 10:")
    assert warned(lambda: rgp.fit_many(data, names=list("abcd"), allow_small=True)) == []


@pytest.mark.parametrize("several", [False, True])
def test_several_outputs_are_one_module(several):
    """Which is warned of once, and not at all with allow_small."""
    x, y = rows(7)
    both = np.c_[y, -y]

    def run(**options):
        return rgp.fit_many([(x, both)], names=["a"], **options) if several else rgp.fit(x, both, name="a", **options)

    (said,) = warned(run)
    assert said.startswith("a has 7 rows: a module of fewer than 10")
    assert warned(lambda: run(allow_small=True)) == []


def test_partitions_are_warned_of_once():
    from recyclegp.engines.joblib import fit_partitions

    data = [rows(n) for n in (30, 8, 12)]
    (said,) = warned(lambda: fit_partitions(data, jobs=1))
    assert "has 8 rows: a module of fewer than 10" in said
    assert warned(lambda: fit_partitions(data, jobs=1, allow_small=True)) == []


def test_estimators_publish_nothing_and_are_silent():
    x, y = rows(8)
    assert warned(lambda: RecyclableGPRegressor().fit(x[:, None], y)) == []


def test_the_command_line(tmp_path):
    x, y = rows(7)
    table = written(pd.DataFrame({"x": x, "y": y}), tmp_path / "few.csv")
    out = tmp_path / "few.safetensors"
    said = call("fit", table, "-t", "y", "-o", out)
    assert said.exit_code == 0
    assert "warning: few has 7 rows: a module of fewer than 10" in said.stderr
    assert "or pass --allow-small\n" in said.stderr
    two = written(pd.DataFrame({"x": x[:2], "y": y[:2]}), tmp_path / "two.csv")
    assert call("fit", two, "-t", "y", "-o", out).stderr == (
        "recyclegp: 2 rows are too few for a module, which would say little but what they were; fit them together with "
        "others, or pass --allow-small\n"
    )
    assert answer("fit", two, "-t", "y", "--allow-small", "-o", out)["rows"] == 2
    assert "fewer than 10" not in ok("fit", table, "-t", "y", "--allow-small", "-o", out).stderr


def test_inspect_says_how_many_points_there_are_per_row(tmp_path):
    rgp.fit(*rows(40), publish=5, name="a").save(tmp_path / "a.safetensors")
    assert answer("inspect", tmp_path / "a.safetensors")["points_per_row"] == 5 / 40
    assert "points per row      0.12\n" in ok("inspect", tmp_path / "a.safetensors").stdout
    rgp.fit_many([rows(40), rows(20)], names=["b", "c"], publish=3).save(tmp_path / "many.safetensors")
    assert answer("inspect", tmp_path / "many.safetensors")["points_per_row"] == 6 / 60
    assert "points per row      0.1 in all" in ok("inspect", tmp_path / "many.safetensors").stdout
    table = ok("inspect", tmp_path).stdout.splitlines()
    assert "per row" in table[0]
    assert " 0.12 " in table[1]
