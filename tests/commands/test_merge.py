"""recyclegp merge: files, folders and patterns in, one file out, as the library would."""

import json
import os

import numpy as np
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import NORTH, SOUTH, X, answer, call, means, module, owner, written


@pytest.mark.slow
def test_merge_of_files_a_folder_and_patterns(owners, out, monkeypatch):
    monkeypatch.chdir(owners)
    expected = means("city.safetensors")
    north, south = "parts/north.safetensors", "parts/south.safetensors"
    for files in ([north, south], ["parts"], ["parts/*.safetensors"], ["p*/*th.*"], [north, "parts"]):
        facts = answer("merge", *files, "-o", out)
        assert facts["names"] == ["north", "south"], files
        assert np.array_equal(means(out), expected)


def test_columns_are_aligned_by_name(owners, out):
    facts = answer("merge", owners / "parts", "-o", out)
    assert facts["columns"] == ["day", "depth"]
    assert np.array_equal(rgp.load(out).predict(X[["depth", "day"]])[0], means(out))
    turned = rgp.merge([module(NORTH, "north"), module(SOUTH, "south")])  # all in one order to begin with
    assert means(out) == pytest.approx(turned.predict(X)[0], abs=0.05)


def test_merge_options(owners, out):
    parts = [rgp.load(owners / "parts" / f"{name}.safetensors") for name in ("north", "south")]
    facts = answer("merge", owners / "parts", "--inducing", 5, "--no-learn", "--weights", "south=0.5", "-o", out)
    direct = rgp.merge(parts, inducing=5, learn=False, weights={"south": 0.5})
    assert facts["points"] == 5
    assert np.array_equal(means(out), direct.predict(X)[0])
    facts = answer("merge", owners / "parts", "--kernel", "matern32", "--keep", "names", "-o", out)
    assert facts["kernel"].startswith("matern32(")
    assert facts["keeps"] == "names"


def test_a_noise_that_is_known(owners, out):
    assert answer("merge", owners / "parts", "--no-learn", "--noise", 0.09, "-o", out)["noise"] == 0.09
    kept = answer("merge", owners / "parts", "--no-learn", "--noise", "keep", "-o", out)["noise"]
    assert kept != 0.09
    for wrong, said in (("loud", "--noise loud: use pool, keep, a variance"), ("-1", "--noise -1; pass a positive")):
        assert said in one_line(call("merge", owners / "parts", "--noise", wrong, "-o", out))


def test_ages_reach_the_merge(owners, tmp_path, out):
    parts = [rgp.load(owners / "parts" / f"{name}.safetensors") for name in ("north", "south")]
    for part, time in zip(parts, ("2026-03-01", "2026-03-11"), strict=True):
        part.at_time(time).save(tmp_path / f"{part.name}.safetensors")
    options = ("--no-learn", "--half-life", 5, "-o", out)
    answer("merge", tmp_path, *options)
    assert [r["weight"] for r in rgp.load(out).report()] == [0.25, 1.0]
    answer("merge", tmp_path / "north.safetensors", tmp_path / "south.safetensors", *options, "--now", "2026-03-16")
    assert [r["weight"] for r in rgp.load(out).report()] == [0.125, 0.5]
    assert "--half-life needs ages, and north, south do not say when" in one_line(
        call("merge", owners / "parts", *options)
    )
    later = one_line(call("merge", tmp_path / "north.safetensors", *options, "--now", "soon"))
    assert "--now soon: write a number, or a date" in later


def test_owners_and_all_points_reach_the_merge(wards, out):
    parts = [rgp.load(path) for path in sorted((wards / "parts").iterdir())]
    for given, asked in (("auto", "auto"), ("offset", "offset"), ("none", None)):
        options = ("--inducing", "all", "--no-learn", "--owners", given)
        facts = answer("merge", wards / "parts", *options, "-o", out)
        direct = rgp.merge(parts, inducing="all", learn=False, owners=asked)
        assert facts["form"] == "exact"
        assert facts["offset_sd"] == pytest.approx(direct.offset_sd, rel=1e-12)
        assert (facts["offset_sd"] > 0) == (given == "offset")
        assert means(out) == pytest.approx(direct.predict(X)[0], rel=1e-9, abs=1e-9)
    assert facts["owners"] == ["ward-1", "ward-2", "ward-3", "ward-4"]


@pytest.mark.slow
def test_merge_of_hundreds_of_files(tmp_path, out):
    folder = tmp_path / "many"
    folder.mkdir()
    rng = np.random.default_rng(0)
    data = [(rng.uniform(i, i + 1, (9, 1)), rng.standard_normal(9)) for i in range(300)]
    for m in rgp.fit_many(data, names=[f"m{i}" for i in range(300)], publish=2, learn=False):
        m.save(folder / f"{m.name}.safetensors")
    facts = answer("merge", folder / "*", "--inducing", 8, "--no-learn", "--keep", "names", "-o", out)
    assert facts["modules"] == 300
    assert facts["rows"] == 2700


def test_ensembles_are_recycled_only_on_request(owners, tmp_path, out):
    module(owner(3, 6, 9), "east").save(tmp_path / "east.safetensors")
    files = (owners / "city.safetensors", tmp_path / "east.safetensors")
    assert "--recycle takes it as one module" in one_line(call("merge", *files, "-o", out))
    assert answer("merge", *files, "--recycle", "-o", out)["names"] == ["city", "east"]


def test_a_file_named_twice_counts_once_and_is_said(owners, out):
    north = owners / "parts" / "north.safetensors"
    result = call("merge", owners / "parts", north, "-o", out, "--json")
    assert result.stderr.startswith(f"recyclegp: warning: {north} is named twice; it counts once\n")
    assert json.loads(result.stdout)["names"] == ["north", "south"]


def test_modules_of_one_name(owners, tmp_path, out):
    (tmp_path / "other.safetensors").write_bytes((owners / "parts" / "north.safetensors").read_bytes())
    files = (owners / "parts", tmp_path / "other.safetensors")
    said = one_line(call("merge", *files, "-o", out))
    assert "called 'north', as one of" in said
    assert "--file-names" in said
    assert answer("merge", *files, "--file-names", "-o", out)["names"] == ["north", "south", "other"]


def test_modules_of_different_columns(owners, tmp_path, out):
    strange = NORTH.rename(columns={"depth": "height"})
    module(strange, "strange").save(tmp_path / "strange.safetensors")
    said = one_line(call("merge", owners / "parts" / "north.safetensors", tmp_path / "strange.safetensors", "-o", out))
    assert "'north' and 'strange' have different columns (day, depth against day, height)" in said
    module(NORTH[["day", "y"]], "narrow").save(tmp_path / "narrow.safetensors")
    said = one_line(call("merge", owners / "parts", tmp_path / "narrow.safetensors", "-o", out))
    assert "has 1 input column (day) where the others have 2 input columns (day, depth)" in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing/*"], "nothing/*: no file matches"),
        (["."], "the folder holds no *.safetensors files"),
        (["absent.safetensors"], "absent.safetensors: No such file or directory"),
        (["parts", "--weights", "north"], "write NAME=NUMBER"),
        (["parts", "--weights", "west=2"], "weights: no module here is called west"),
        (["parts", "--weights", "north=-1"], "weights must not be negative"),
        (["parts", "--inducing", "few"], "give a positive number of points, all, or auto"),
        (["parts", "--owners", "some"], "--owners some: use auto, offset, smooth or none"),
        (["parts", "--keep", "all"], "--keep all; use 'sites' or 'names'"),
        (["parts", "--kernel", "rfb"], "--kernel rfb cannot be read"),
        (["north.csv"], "north.csv: a table, not a model; `recyclegp fit` makes one of it"),
    ],
)
def test_merges_that_cannot_be(owners, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    written(NORTH, tmp_path / "north.csv")
    os.symlink(owners / "parts", "parts")
    assert message in one_line(call("merge", *arguments, "-o", "out.safetensors"))
    assert sorted(os.listdir()) == ["north.csv", "parts"]


def test_the_output_is_never_one_of_the_modules(owners):
    north = owners / "parts" / "north.safetensors"
    before = north.read_bytes()
    assert "among those that are read" in one_line(call("merge", owners / "parts", "-o", north))
    assert north.read_bytes() == before
