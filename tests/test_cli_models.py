"""recyclegp merge, inspect, compare, update, add, remove, reweight: files in, files out, as the library would."""

import hashlib
import json
import os

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, owner, written

NORTH, SOUTH, NEW = owner(0, 0, 4), owner(1, 3, 7), owner(2, 0, 7, 12)
X = NEW[["day", "depth"]]


def module(table, name, **options):
    inputs = [c for c in table if c != "y"]
    return rgp.fit(table[inputs], table["y"], publish=6, name=name, **options)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Two modules and their ensemble."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "parts").mkdir()
    module(NORTH, "north").save(folder / "parts" / "north.safetensors")
    module(SOUTH[["depth", "day", "y"]], "south").save(folder / "parts" / "south.safetensors")
    rgp.merge(folder / "parts").save(folder / "city.safetensors")
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.safetensors"


def means(path):
    return rgp.load(path).predict(X)[0]


# --- merge ------------------------------------------------------------------------------------


def test_merge_of_files_a_folder_and_patterns(models, out, monkeypatch):
    monkeypatch.chdir(models)
    expected = means("city.safetensors")
    north, south = "parts/north.safetensors", "parts/south.safetensors"
    for files in ([north, south], ["parts"], ["parts/*.safetensors"], ["p*/*th.*"], [north, "parts"]):
        facts = answer("merge", *files, "-o", out)
        assert facts["names"] == ["north", "south"], files
        assert np.array_equal(means(out), expected)


def test_columns_are_aligned_by_name(models, out):
    facts = answer("merge", models / "parts", "-o", out)
    assert facts["columns"] == ["day", "depth"]
    assert np.array_equal(rgp.load(out).predict(X[["depth", "day"]])[0], means(out))
    turned = rgp.merge([module(NORTH, "north"), module(SOUTH, "south")])  # all in one order to begin with
    assert means(out) == pytest.approx(turned.predict(X)[0], abs=0.05)


def test_merge_options(models, out):
    parts = [rgp.load(models / "parts" / f"{name}.safetensors") for name in ("north", "south")]
    facts = answer("merge", models / "parts", "--inducing", 5, "--no-learn", "--weights", "south=0.5", "-o", out)
    direct = rgp.merge(parts, inducing=5, learn=False, weights={"south": 0.5})
    assert facts["points"] == 5
    assert np.array_equal(means(out), direct.predict(X)[0])
    facts = answer("merge", models / "parts", "--kernel", "matern32", "--keep", "names", "-o", out)
    assert facts["kernel"].startswith("matern32(")
    assert facts["keeps"] == "names"


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


def test_ensembles_are_recycled_only_on_request(models, tmp_path, out):
    module(owner(3, 6, 9), "east").save(tmp_path / "east.safetensors")
    files = (models / "city.safetensors", tmp_path / "east.safetensors")
    assert "--recycle takes it as one module" in one_line(call("merge", *files, "-o", out))
    assert answer("merge", *files, "--recycle", "-o", out)["names"] == ["city", "east"]


def test_a_file_named_twice_counts_once_and_is_said(models, out):
    north = models / "parts" / "north.safetensors"
    result = call("merge", models / "parts", north, "-o", out, "--json")
    assert result.stderr == f"recyclegp: warning: {north} is named twice; it counts once\n"
    assert json.loads(result.stdout)["names"] == ["north", "south"]


def test_modules_of_one_name(models, tmp_path, out):
    (tmp_path / "other.safetensors").write_bytes((models / "parts" / "north.safetensors").read_bytes())
    files = (models / "parts", tmp_path / "other.safetensors")
    said = one_line(call("merge", *files, "-o", out))
    assert "called 'north', as one of" in said
    assert "--file-names" in said
    assert answer("merge", *files, "--file-names", "-o", out)["names"] == ["north", "south", "other"]


def test_modules_of_different_columns(models, tmp_path, out):
    strange = NORTH.rename(columns={"depth": "height"})
    module(strange, "strange").save(tmp_path / "strange.safetensors")
    said = one_line(call("merge", models / "parts" / "north.safetensors", tmp_path / "strange.safetensors", "-o", out))
    assert "'north' and 'strange' have different columns (day, depth against day, height)" in said
    module(NORTH[["day", "y"]], "narrow").save(tmp_path / "narrow.safetensors")
    said = one_line(call("merge", models / "parts", tmp_path / "narrow.safetensors", "-o", out))
    assert "has 1 input columns (day) where the others have 2 input columns (day, depth)" in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing/*"], "nothing/*: no file matches"),
        (["."], "the folder holds no *.safetensors files"),
        (["absent.safetensors"], "absent.safetensors: No such file or directory"),
        (["parts", "--weights", "north"], "write NAME=NUMBER"),
        (["parts", "--weights", "west=2"], "weights names modules that are not here: west"),
        (["parts", "--weights", "north=-1"], "weights must not be negative"),
        (["parts", "--inducing", "few"], "give a positive number of points, or auto"),
        (["parts", "--keep", "all"], "--keep 'all'; use 'sites' or 'names'"),
        (["parts", "--kernel", "rfb"], "--kernel 'rfb' cannot be read"),
        (["north.csv"], "not a complete recyclegp file"),
    ],
)
def test_merges_that_cannot_be(models, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    written(NORTH, tmp_path / "north.csv")
    os.symlink(models / "parts", "parts")
    assert message in one_line(call("merge", *arguments, "-o", "out.safetensors"))
    assert sorted(os.listdir()) == ["north.csv", "parts"]


def test_the_output_is_never_one_of_the_modules(models):
    north = models / "parts" / "north.safetensors"
    before = north.read_bytes()
    assert "among those that are read" in one_line(call("merge", models / "parts", "-o", north))
    assert north.read_bytes() == before


# --- what is in a file ------------------------------------------------------------------------


def test_inspect_says_what_is_in_a_module(models):
    path = models / "parts" / "north.safetensors"
    facts, m = answer("inspect", path), rgp.load(path)
    assert facts["content_id"] == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert facts["bytes"] == path.stat().st_size
    assert (facts["kind"], facts["name"], facts["rows"], facts["schema"]) == ("module", "north", 40, 1)
    assert facts["region"]["day"] == [m.inducing[:, 0].min(), m.inducing[:, 0].max()]
    assert facts["noise"] == m.noise
    assert facts["contains_data_rows"] is False
    words = ok("inspect", path).stdout
    for phrase in ("north, 40 rows of 2 inputs", "day from ", "rbf(", "schema 1", "yes, after", "no, only 6 points"):
        assert phrase in words, words
    assert facts["content_id"] in words


def test_inspect_says_what_is_in_an_ensemble(models):
    path = models / "city.safetensors"
    facts, e = answer("inspect", path), rgp.load(path)
    assert (facts["kind"], facts["names"], facts["keeps"]) == ("ensemble", ["north", "south"], "sites")
    assert (facts["slack"], facts["bound"], facts["evidence"]) == (e.slack, e.bound, e.evidence)
    words = ok("inspect", path).stdout
    assert "of 2 modules (north, south), 80 rows of 2 inputs" in words
    assert "can be removed" in words


def test_inspect_does_not_vouch_for_points_from_elsewhere(tmp_path):
    m = module(NORTH, "m")
    rgp.Module.from_moments(
        [[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0], 0.01 * np.eye(2), kernel=m.kernel, noise=0.1, name="w"
    ).save(tmp_path / "w.safetensors")
    assert answer("inspect", tmp_path / "w.safetensors")["contains_data_rows"] is None
    words = ok("inspect", tmp_path / "w.safetensors").stdout
    assert "not known: another program chose its 2 points" in words
    assert "the columns have no names" in words


def test_inspect_of_many_is_a_table(models):
    parts = answer("inspect", models / "parts")
    assert [f["name"] for f in parts] == ["north", "south"]
    table = ok("inspect", models / "parts", models / "city.safetensors").stdout
    assert len(table.splitlines()) == 4
    for phrase in ("north", "south", "ensemble of 2", parts[0]["content_id"][7:15]):
        assert phrase in table


def test_inspect_as_a_check(models, tmp_path):
    assert ok("inspect", models / "parts", "-q").output == ""
    (tmp_path / "bad.safetensors").write_bytes((models / "city.safetensors").read_bytes()[:-5])
    assert "not a complete recyclegp file" in one_line(call("inspect", tmp_path / "bad.safetensors", "-q"))


def test_compare_gives_the_report_and_the_differences(models):
    city = rgp.load(models / "city.safetensors")
    rows = {r["name"]: r for r in answer("compare", models / "city.safetensors", models / "parts")}
    for expected in city.report():
        for key, value in expected.items():
            assert rows[expected["name"]][key] == value
    for name in ("north", "south"):
        m = rgp.load(models / "parts" / f"{name}.safetensors")
        where = pd.DataFrame(m.inducing, columns=m.columns)
        (a, va), (b, vb) = m.predict(where), city.predict(where)
        assert rows[name]["difference"] == pytest.approx(np.mean(np.abs(a - b)))
        assert rows[name]["standardised"] == pytest.approx(np.mean(np.abs(a - b) / np.sqrt(va + vb)))
        kl = np.log(np.sqrt(vb / va)) + (va + (a - b) ** 2) / (2 * vb) - 0.5
        assert rows[name]["nats"] == pytest.approx(np.mean(kl))


def test_compare_with_a_stranger(models, tmp_path):
    far = NORTH.assign(y=NORTH["y"] + 9)
    module(far, "far").save(tmp_path / "far.safetensors")
    rows = answer("compare", models / "city.safetensors", tmp_path / "far.safetensors", models / "parts")
    stranger = rows[-1]
    assert (stranger["name"], stranger["member"], stranger["agreement"]) == ("far", False, None)
    assert stranger["standardised"] > 5 * max(r["standardised"] for r in rows[:-1])
    table = ok("compare", models / "city.safetensors", tmp_path / "far.safetensors").stdout
    assert "far (not in it)" in table
    assert "needs an ensemble" in one_line(call("compare", models / "parts" / "north.safetensors"))


def test_compare_puts_the_least_agreeing_first(models, tmp_path, out):
    module(NORTH.assign(y=NORTH["y"] + 2), "odd").save(tmp_path / "odd.safetensors")
    module(owner(5, 0, 7), "third").save(tmp_path / "third.safetensors")
    ok("merge", models / "parts", tmp_path / "odd.safetensors", tmp_path / "third.safetensors", "-o", out)
    agreement = [r["agreement"] for r in answer("compare", out)]
    assert agreement == sorted(agreement)


# --- operations -------------------------------------------------------------------------------


def test_update_is_the_librarys(models, tmp_path, out):
    data = written(NEW, tmp_path / "new.csv")
    facts = answer("update", models / "city.safetensors", data, "-t", "y", "--name", "july", "-o", out)
    assert facts["names"] == ["north", "south", "july"]
    direct = rgp.load(models / "city.safetensors").update(X, NEW["y"])
    assert np.array_equal(means(out), direct.predict(X)[0])


def test_update_with_classes(models, tmp_path, out):
    table = X.assign(y=np.where(NEW["y"] > 0, "high", "low"))
    data = written(table, tmp_path / "new.csv")
    options = ("-t", "y", "--likelihood", "bernoulli", "-o", out)
    assert "--positive low" in one_line(call("update", models / "city.safetensors", data, *options))
    facts = answer("update", models / "city.safetensors", data, *options, "--positive", "high")
    assert facts["likelihoods"] == ["gaussian", "bernoulli"]
    direct = rgp.load(models / "city.safetensors").update(X, NEW["y"] > 0, likelihood="bernoulli")
    assert np.array_equal(means(out), direct.predict(X)[0])


def test_add_then_remove_is_never_added(models, tmp_path, out):
    module(owner(3, 6, 9), "east").save(tmp_path / "east.safetensors")
    more = tmp_path / "more.safetensors"
    assert answer("add", models / "city.safetensors", tmp_path / "east.safetensors", "-o", more)["modules"] == 3
    assert not np.array_equal(means(more), means(models / "city.safetensors"))
    assert answer("remove", more, "east", "-o", out)["names"] == ["north", "south"]
    assert means(out) == pytest.approx(means(models / "city.safetensors"), abs=1e-9)
    again = one_line(call("add", more, tmp_path / "east.safetensors", "-o", out))
    assert "called 'east', as one of the ensemble" in again


def test_reweight_and_in_place(models, out):
    out.write_bytes((models / "city.safetensors").read_bytes())
    facts = answer("reweight", out, "south=0.5", "north=2", "-o", out)
    direct = rgp.load(models / "city.safetensors").reweight({"south": 0.5, "north": 2.0})
    assert np.array_equal(means(out), direct.predict(X)[0])
    assert facts["rows"] == 100


def test_relearning_chooses_anew(models, tmp_path, out):
    module(owner(3, 6, 9), "east").save(tmp_path / "east.safetensors")
    old = answer("inspect", models / "city.safetensors")["kernel"]
    new = answer("add", models / "city.safetensors", tmp_path / "east.safetensors", "--relearn", "-o", out)["kernel"]
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
def test_operations_that_cannot_be(models, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(models)
    command, model, *rest = arguments
    assert message in one_line(call(command, f"{model}.safetensors", *rest, "-o", tmp_path / "out.safetensors"))
    assert os.listdir(tmp_path) == []


def test_names_only_ensembles_say_what_they_cannot(models, tmp_path, out):
    ok("merge", models / "parts", "--keep", "names", "-o", tmp_path / "small.safetensors")
    assert "this ensemble keeps only names" in one_line(
        call("remove", tmp_path / "small.safetensors", "north", "-o", out)
    )
