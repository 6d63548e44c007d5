"""recyclegp transform: models in other units, from the command line."""

import shlex

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_cli import NORTH, X, answer, call, module, ok, written


def there(frame):
    return frame.assign(day=24 * frame.day + 5.0, depth=1000 * frame.depth)


OPTIONS = ["--input-scale", "day=24,depth=1000", "--input-shift", "day=5", "--output-scale", "2", "--unit", "half m"]


def test_a_module(owners, out):
    file = owners / "parts" / "north.safetensors"
    facts = answer("transform", file, *OPTIONS, "--output-shift", "-3", "-o", out)
    np.testing.assert_allclose(rgp.load(out).predict(there(X))[0], 2 * rgp.load(file).predict(X)[0] - 3, rtol=1e-9)
    assert (facts["kind"], facts["name"], facts["target"]) == ("module", "north", "y in half m")
    assert "target" in ok("transform", file, "--unit", "m", "-o", out).stdout


def test_an_ensemble(owners, out):
    file = owners / "city.safetensors"
    facts = answer("transform", file, *OPTIONS, "-o", out)
    np.testing.assert_allclose(rgp.load(out).predict(there(X))[0], 2 * rgp.load(file).predict(X)[0], rtol=1e-9)
    assert (facts["kind"], facts["target"]) == ("ensemble", "y in half m")
    assert facts["region"]["depth"][1] > 500


def test_many_modules(tmp_path, out):
    pairs = [(NORTH[["day", "depth"]], NORTH["y"] + i) for i in range(3)]
    many = rgp.fit_many(pairs, names=["a", "b", "c"], publish=6)
    many.save(tmp_path / "many.safetensors")
    facts = answer("transform", tmp_path / "many.safetensors", "--input-scale", "depth=1000", "-o", out)
    assert (facts["kind"], facts["modules"]) == ("modules", 3)
    for old, new in zip(many, rgp.load_many(out), strict=True):
        np.testing.assert_allclose(new.predict(X.assign(depth=1000 * X.depth))[0], old.predict(X)[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing would change; say what with --input-scale"),
        (["--input-scale", "dose=2"], "north.safetensors: --input-scale: no input column dose; there are day, depth"),
        (["--input-shift", "dose=2"], "--input-shift: no input column dose"),
        (["--input-scale", "depth=-1"], "--input-scale depth=-1; pass positive numbers"),
        (["--input-scale", "depth"], "--input-scale depth: write NAME=NUMBER"),
        (["--input-scale", "depth=2,day"], "--input-scale depth=2,day: write NAME=NUMBER"),
        (["--input-scale", "depth=2", "--input-scale", "depth=3"], "'depth' has a number already"),
        (["--output-scale", "0"], "--output-scale 0; pass a number that is not zero"),
    ],
)
def test_units_that_are_none(owners, out, options, message):
    result = call("transform", owners / "parts" / "north.safetensors", *options, "-o", out)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not out.exists()


def test_what_cannot_have_other_units(tmp_path, out):
    """Classes have none, and columns without names go by their positions."""
    classes = rgp.fit(NORTH[["day", "depth"]], NORTH["y"] > 0, likelihood="bernoulli", publish=6)
    classes.save(tmp_path / "classes.safetensors")
    said = call("transform", tmp_path / "classes.safetensors", "--output-scale", "2", "-o", out).stderr
    assert "classes.safetensors: --output-scale and --output-shift do not apply to likelihood 'bernoulli'" in said
    rgp.fit(NORTH[["day", "depth"]].to_numpy(), NORTH["y"], publish=6).save(tmp_path / "plain.safetensors")
    said = call("transform", tmp_path / "plain.safetensors", "--input-scale", "day=2", "-o", out).stderr
    assert "plain.safetensors: --input-scale: the 2 input columns have no names; use their positions 0 to 1" in said
    assert not out.exists()
    ok("transform", tmp_path / "plain.safetensors", "--input-scale", "1=2", "-o", out)
    before, after = rgp.load(tmp_path / "plain.safetensors"), rgp.load(out)
    np.testing.assert_array_equal(after.region, before.region * [[1], [2]])


def test_the_command_that_is_proposed_makes_a_module_agree(tmp_path, monkeypatch):
    """Three hospitals, of which one has written the dose in g."""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        dose = rng.uniform(5, 50, 60)
        y = 120 - 12 * np.tanh((dose - 20) / 8) + rng.standard_normal(60)
        table = pd.DataFrame({"dose": dose / 1000 if seed == 1 else dose, "pressure": y})
        ok("fit", written(table, f"h{seed}.csv"), "--target", "pressure", "-o", f"h{seed}.safetensors")
    files = [f"h{seed}.safetensors" for seed in range(3)]
    screened = answer("screen", *files)
    assert screened["flagged"] == ["h1"]
    command = "recyclegp transform h1.safetensors --input-scale dose=1000 -o h1-new.safetensors"
    assert [row["command"] for row in screened["modules"]] == ["", command, ""]
    assert f"if the owner of h1 agrees: {command}" in ok("screen", *files).stdout
    merged = call("merge", *files, "-o", "all.safetensors")
    assert "recyclegp transform FILE --input-scale dose=1000 -o FILE-new.safetensors" in merged.stderr
    assert f"try for h1          {command}" in merged.stdout
    facts = answer("merge", *files, "-o", "all.safetensors")
    assert facts["proposals"] == [{"name": "h1", "python": "transform(input_scale={'dose': 1000})", "command": command}]
    ok(*shlex.split(command)[1:])
    again = answer("merge", "h0.safetensors", "h1-new.safetensors", "h2.safetensors", "-o", "right.safetensors")
    assert (again["not_trusted"], again["proposals"]) == ({}, [])


# --- commas -----------------------------------------------------------------------------------


def test_weights_and_names_may_be_separated_by_commas(owners, tmp_path, out):
    parts = owners / "parts"
    ok("merge", parts, "--weights", "north=2,south=0.5", "-o", out)
    assert {row["name"]: row["weight"] for row in rgp.load(out).report()} == {"north": 2.0, "south": 0.5}
    ok("merge", parts, "--weights", "north=2", "--weights", "south=0.5", "-o", out)
    assert {row["name"]: row["weight"] for row in rgp.load(out).report()} == {"north": 2.0, "south": 0.5}
    ok("reweight", out, "north=1, south=3", "-o", tmp_path / "other.safetensors")
    assert {row["weight"] for row in rgp.load(tmp_path / "other.safetensors").report()} == {1.0, 3.0}
    third = module(NORTH.iloc[1:], "east, and west")  # a name with a comma stands for itself
    third.save(tmp_path / "third.safetensors")
    ok("merge", parts, tmp_path / "third.safetensors", "--weights", "east, and west=2", "-o", out)
    assert rgp.load(out).report()[2]["weight"] == 2
    ok("remove", out, "east, and west", "--keep-kernel", "-o", tmp_path / "two.safetensors")
    assert rgp.load(tmp_path / "two.safetensors").names == ["north", "south"]
    ok("remove", out, "north,south", "--keep-kernel", "-o", tmp_path / "one.safetensors")
    assert rgp.load(tmp_path / "one.safetensors").names == ["east, and west"]
