"""recyclegp update, add, remove and reweight: as the library would."""

import os

import numpy as np
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import NEW, X, answer, call, means, module, ok, owner, written


def test_update_is_the_librarys(owners, tmp_path, out):
    data = written(NEW, tmp_path / "new.csv")
    facts = answer("update", owners / "city.safetensors", data, "-t", "y", "--name", "july", "-o", out)
    assert facts["names"] == ["north", "south", "july"]
    direct = rgp.load(owners / "city.safetensors").update(X, NEW["y"])
    np.testing.assert_allclose(means(out), direct.predict(X)[0], rtol=1e-9, atol=1e-9)


def test_update_with_measurement_errors(owners, tmp_path, out):
    """One per row, as variances or as standard deviations; their column is no input."""
    error = np.linspace(0.05, 0.8, len(NEW))
    direct = rgp.load(owners / "city.safetensors").update(X, NEW["y"], noise=error**2)
    for option, column in (("--noise-column", error**2), ("--noise-sd-column", error)):
        data = written(NEW.assign(error=column), tmp_path / "new.csv")
        ok("update", owners / "city.safetensors", data, "-t", "y", option, "error", "-o", out)
        np.testing.assert_allclose(means(out), direct.predict(X)[0], rtol=1e-9, atol=1e-9)
    both = ("--noise", "0.1", "--noise-column", "error")
    refused = one_line(call("update", owners / "city.safetensors", data, "-t", "y", *both, "-o", out))
    assert "--noise and --noise-column: both say what the noise is; give one of them" in refused


def test_update_with_classes(owners, tmp_path, out):
    table = X.assign(y=np.where(NEW["y"] > 0, "high", "low"))
    data = written(table, tmp_path / "new.csv")
    options = ("-t", "y", "--likelihood", "bernoulli", "-o", out)
    assert "--positive low" in one_line(call("update", owners / "city.safetensors", data, *options))
    facts = answer("update", owners / "city.safetensors", data, *options, "--positive", "high")
    assert facts["likelihoods"] == ["gaussian", "bernoulli"]
    direct = rgp.load(owners / "city.safetensors").update(X, NEW["y"] > 0, likelihood="bernoulli")
    np.testing.assert_allclose(means(out), direct.predict(X)[0], rtol=1e-9, atol=1e-9)


def test_update_of_an_owner(wards, tmp_path, out):
    city = rgp.load(wards / "city.safetensors")
    data = written(NEW, tmp_path / "new.csv")
    for options, whose in (([], None), (["--owner", "ward-2"], "ward-2")):
        facts = answer("update", wards / "city.safetensors", data, "-t", "y", *options, "-o", out)
        direct = city.update(X, NEW["y"], owner=whose)
        assert facts["owners"] == direct.owners
        asked = whose or "update-1"
        expected = direct.predict(X, asked)[0]
        np.testing.assert_allclose(rgp.load(out).predict(X, asked)[0], expected, rtol=1e-9, atol=1e-9)
    said = one_line(call("update", wards / "city.safetensors", data, "-t", "y", "--owner", "new", "-o", out))
    assert "--owner new; use 1 to 200 printable characters, but not 'new'" in said


def test_add_then_remove_is_never_added(owners, tmp_path, out):
    module(owner(3, 6, 9), "east").save(tmp_path / "east.safetensors")
    more = tmp_path / "more.safetensors"
    assert answer("add", owners / "city.safetensors", tmp_path / "east.safetensors", "-o", more)["modules"] == 3
    assert not np.array_equal(means(more), means(owners / "city.safetensors"))
    assert answer("remove", more, "east", "-o", out)["names"] == ["north", "south"]
    assert means(out) == pytest.approx(means(owners / "city.safetensors"), abs=1e-9)
    again = one_line(call("add", more, tmp_path / "east.safetensors", "-o", out))
    assert "called 'east', as one of the ensemble" in again


def test_reweight_and_in_place(owners, out):
    out.write_bytes((owners / "city.safetensors").read_bytes())
    facts = answer("reweight", out, "south=0.5", "north=2", "-o", out)
    direct = rgp.load(owners / "city.safetensors").reweight({"south": 0.5, "north": 2.0})
    np.testing.assert_allclose(means(out), direct.predict(X)[0], rtol=1e-9, atol=1e-9)
    assert facts["rows"] == 100


def test_relearning_chooses_anew(owners, tmp_path, out):
    module(owner(3, 6, 9), "east").save(tmp_path / "east.safetensors")
    old = answer("inspect", owners / "city.safetensors")["kernel"]
    new = answer("add", owners / "city.safetensors", tmp_path / "east.safetensors", "--relearn", "-o", out)["kernel"]
    assert new != old


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["remove", "city", "west"], "remove: no module is named west; there are north, south"),
        (["remove", "city", "north", "south"], "nothing would be left"),
        (["remove", "parts/north", "north"], "it holds a module, and remove needs an ensemble"),
        (["reweight", "city", "north"], "write NAME=NUMBER"),
        (["reweight", "city", "north=x"], "write NAME=NUMBER"),
        (["reweight", "city", "north=-1"], "weights must not be negative"),
        (["add", "parts/north", "parts/south.safetensors"], "add needs an ensemble"),
    ],
)
def test_operations_that_cannot_be(owners, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(owners)
    command, model, *rest = arguments
    assert message in one_line(call(command, f"{model}.safetensors", *rest, "-o", tmp_path / "out.safetensors"))
    assert os.listdir(tmp_path) == []


def test_names_only_ensembles_say_what_they_cannot(owners, tmp_path, out):
    ok("merge", owners / "parts", "--keep", "names", "-o", tmp_path / "small.safetensors")
    assert "this ensemble keeps only names" in one_line(
        call("remove", tmp_path / "small.safetensors", "north", "-o", out)
    )


def test_forgetting_is_the_librarys(owners, tmp_path, out):
    data = written(NEW, tmp_path / "new.csv")
    ok("update", owners / "city.safetensors", data, "-t", "y", "--forget", 0.7, "-o", out)
    direct = rgp.load(owners / "city.safetensors").update(X, NEW["y"], forget=0.7)
    np.testing.assert_allclose(means(out), direct.predict(X)[0], rtol=1e-9, atol=1e-9)
    assert [r["weight"] for r in rgp.load(out).report()] == [0.7, 0.7, 1.0]
    said = one_line(call("update", owners / "city.safetensors", data, "-t", "y", "--forget", 1.5, "-o", out))
    assert "--forget 1.5; pass what old knowledge still counts" in said


def test_what_is_left_of_a_removed_module_is_said(owners, tmp_path, out):
    facts = answer("remove", owners / "city.safetensors", "south", "--keep-kernel", "-o", out)
    assert (facts["guarantee"], facts["modules_removed"]) == ("traces are left", 1)
    assert "kernel" in facts["traces"]
    assert "had been chosen with them and are as they were" in ok("inspect", out).stdout.replace("\n", " ")
    facts = answer("remove", owners / "city.safetensors", "south", "-o", out)
    assert (facts["guarantee"], facts["traces"]) == ("as if they had never been here", [])
    assert answer("inspect", owners / "city.safetensors")["guarantee"] == "nothing was removed"


def test_remove_is_the_same_as_in_python(owners, out):
    e = rgp.load(owners / "city.safetensors")
    for options, how in (([], {}), (["--keep-kernel"], {"relearn": False})):
        ok("remove", owners / "city.safetensors", "south", *options, "-o", out)
        mine = e.remove("south", **how)
        assert rgp.load(out).unlearned == mine.unlearned
        np.testing.assert_allclose(means(out), mine.predict(X)[0], rtol=1e-9, atol=1e-9)


def test_few_rows_are_not_written(owners, tmp_path, out):
    """The remedy that is named works."""
    call_ = ("update", owners / "city.safetensors", written(NEW[:4], tmp_path / "few.csv"), "-t", "y", "-o", out)
    said = one_line(call(*call_))
    assert "update-1 (4 of 10 rows)" in said
    assert "or with --allow-small" in said
    assert not out.exists()
    ok(*call_, "--allow-small")
    few = rgp.load(out)
    assert few.report()[-1]["points_per_row"] == 0.5
    # rows that come later join these
    more = tmp_path / "more.safetensors"
    facts = answer("update", out, written(NEW, tmp_path / "new.csv"), "-t", "y", "--rows-per-point", 4, "-o", more)
    assert facts["names"] == ["north", "south", "update-1"]
    joined = rgp.load(more).report()[-1]
    assert (joined["rows"], joined["points"] <= 2 + len(NEW) // 4) == (4 + len(NEW), True)
    people = one_line(call(*call_, "--people", "--things"))
    assert "--people and --things exclude each other" in people
