"""The command line with several outputs, with classes, and with noise that varies: the library's numbers, as files."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, written
from cases_joint import CLASSES, classes, outputs, varying

INPUTS = ["day", "depth"]
FEW = ["--publish", 8, "-q"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables and modules of three owners, and their ensembles, all made by commands."""
    made = tmp_path_factory.mktemp("joint")
    for seed, (name, low, high) in enumerate([("north", 0, 4), ("south", 2, 6), ("east", 1, 5)]):
        written(outputs(seed, low, high), made / f"{name}.csv")
        target = ["--target", "heat", "--target", "salt"]
        ok("fit", made / f"{name}.csv", *target, "-o", made / f"{name}.safetensors", *FEW)
        written(classes(seed, low, high), made / f"{name}-kinds.csv")
        kinds = ["--target", "kind", "--likelihood", "categorical", "--name", name]
        ok("fit", made / f"{name}-kinds.csv", *kinds, "-o", made / f"{name}-kinds.safetensors", *FEW)
        written(varying(seed, low, high), made / f"{name}-noisy.csv")
        noisy = ["--target", "y", "--likelihood", "heteroscedastic", "--name", name]
        ok("fit", made / f"{name}-noisy.csv", *noisy, "-o", made / f"{name}-noisy.safetensors", *FEW)
    for kind in ("", "-kinds", "-noisy"):
        files = [made / f"{name}{kind}.safetensors" for name in ("north", "south", "east")]
        ok("merge", *files, "-o", made / f"all{kind}.safetensors", "--owners", "none", "-q")
    return made


# --- fit ---


def test_several_targets_are_fitted_as_the_library_does(folder, out):
    table = outputs(0, 0, 4)
    ok("fit", written(table, out.with_suffix(".csv")), "--target", "heat,salt", "-o", out, "--name", "a", *FEW)
    own = rgp.fit(table[INPUTS], table[["heat", "salt"]], publish=8, name="a")
    found = rgp.load(out)
    assert found.outputs == ("heat", "salt")
    np.testing.assert_allclose(found.predict(table[INPUTS])[0], own.predict(table[INPUTS])[0], rtol=1e-8)
    np.testing.assert_allclose(
        rgp.load(folder / "north.safetensors").predict(table[INPUTS])[0], own.predict(table[INPUTS])[0], rtol=1e-8
    )


def test_targets_may_have_decimal_commas(folder, out, tmp_path):
    table = pd.read_csv(folder / "north.csv")
    table.to_csv(tmp_path / "komma.csv", sep=";", decimal=",", index=False)
    target = ["--target", "heat,salt", "--name", "north", *FEW]
    ok("fit", tmp_path / "komma.csv", "--decimal", ",", *target, "-o", out)
    np.testing.assert_array_equal(
        rgp.load(out).predict(table[INPUTS])[0], rgp.load(folder / "north.safetensors").predict(table[INPUTS])[0]
    )


def test_missing_cells_are_used_where_they_are_allowed(out, tmp_path):
    table = outputs(0, 0, 4)
    table.loc[::3, "salt"] = np.nan
    table.loc[5, ["heat", "salt"]] = np.nan
    path = written(table, tmp_path / "gaps.csv")
    said = call("fit", path, "--target", "heat,salt", "-o", out)
    assert "heat: 1" in one_line(said)
    assert "--missing allow" in one_line(said)
    assert not out.exists()
    found = answer("fit", path, "--target", "heat,salt", "-o", out, "--missing", "allow", *FEW[:2])
    seen = table["salt"].notna().sum()
    assert {f["function"]: f["rows"] for f in found["functions"]} == {"heat": 39, "salt": seen}
    assert found["rows_left_out"] == 1
    table = table.drop(index=5)
    own = rgp.fit(table[INPUTS], table[["heat", "salt"]], publish=8, name="out", missing="allow")
    np.testing.assert_allclose(rgp.load(out).predict(table[INPUTS])[0], own.predict(table[INPUTS])[0], rtol=1e-8)
    dropped = answer("fit", path, "--target", "heat,salt", "-o", out, "--drop-missing", *FEW[:2])
    assert [f["rows"] for f in dropped["functions"]] == [seen, seen]


def test_labels_are_taken_as_they_are_written(folder, out, tmp_path):
    table = classes(0, 0, 6)
    table["kind"] = table["kind"].map(dict(zip(CLASSES, ("7", "10", "x y"), strict=True)))
    path = written(table, tmp_path / "kinds.csv")
    how = ["--target", "kind", "--likelihood", "categorical", "--classes", "7,10,x y,none of these", *FEW]
    ok("fit", path, *how, "-o", out)
    assert rgp.load(out).classes == ("7", "10", "none of these", "x y")
    own = rgp.fit(table[INPUTS], table["kind"], likelihood="categorical", publish=8, classes=["none of these"])
    np.testing.assert_allclose(
        rgp.load(out).predict_proba(table[INPUTS]), own.predict_proba(table[INPUTS]), rtol=1e-6, atol=1e-9
    )


def test_parts_come_with_units_and_digits(folder, out):
    how = ["--target", "heat,salt", "--unit", "K,g/kg", "--round", 6, "--owner", "me", *FEW]
    ok("fit", folder / "north.csv", *how, "-o", out)
    found = rgp.load(out)
    assert [str(p.target) for p in found.parts] == ["heat in K", "salt in g/kg"]
    assert found.owner == "me"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "heat,salt", "--partitions", 2], "--partitions: partitions are fitted with one function"),
        (["--target", "heat,salt", "--partition-by", "day"], "--partition-by: partitions are fitted with one function"),
        (["--target", "heat,heat"], "named twice"),
        (["--target", "heat,salt", "--likelihood", "categorical"], "has one target"),
        (["--target", "heat,salt", "--likelihood", "heteroscedastic"], "has one target"),
        (["--target", "heat", "--missing", "allow"], "it is for several targets"),
        (["--target", "heat,salt", "--missing", "maybe"], "use refuse or allow"),
        (["--target", "heat,salt", "--missing", "allow", "--drop-missing"], "give one"),
        (["--target", "heat", "--classes", "a,b"], "they are for --likelihood categorical"),
        (["--target", "heat", "--likelihood", "categorical", "--positive", "a"], "takes labels as they are"),
        (["--target", "heat,salt", "--inputs", "day,salt"], "it is among the inputs"),
        (["--target", "heat,sweet"], "no column 'sweet'"),
        (["--target", "heat", "--likelihood", "heteroscedastic", "--noise", 1], "it is learned as a function"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(folder, out, options, said):
    result = call("fit", folder / "north.csv", *options, "-o", out)
    assert said in one_line(result)
    assert not out.exists()


def test_one_class_only_is_refused(tmp_path, out):
    table = classes(0, 0, 6).assign(kind="low")
    result = call("fit", written(table, tmp_path / "t.csv"), "-t", "kind", "--likelihood", "categorical", "-o", out)
    assert "one class only (low)" in one_line(result)
    assert not out.exists()


def test_missing_labels_and_text_are_refused(tmp_path, out):
    table = classes(0, 0, 6)
    table.loc[3, "kind"] = None
    path = written(table, tmp_path / "t.csv")
    result = call("fit", path, "-t", "kind", "--likelihood", "categorical", "-o", out)
    assert "kind: 1" in one_line(result)
    assert "--missing" not in one_line(result)
    assert not out.exists()
    assert answer("fit", path, "-t", "kind", "--likelihood", "categorical", "-o", out, "--drop-missing")["rows"] == 59
    result = call("fit", path, "-t", "kind,depth", "-o", out.with_name("b.safetensors"))
    assert "holds text ('" in one_line(result)
    assert "categorical" in one_line(result)


# --- predict and score ---


def test_predictions_of_outputs_have_their_names(folder, tmp_path):
    test = outputs(7, 0, 6, 12)
    path = written(test[INPUTS], tmp_path / "new.csv")
    found = pd.read_csv(io.StringIO(ok("predict", folder / "all.safetensors", path, "--keep", "day").stdout))
    model = rgp.load(folder / "all.safetensors")
    mean, variance = model.predict(test[INPUTS])
    of_y = model.predict_y(test[INPUTS])[1]
    low, high = model.predict_interval(test[INPUTS])
    for c, name in enumerate(("heat", "salt")):
        np.testing.assert_allclose(found[f"{name}_mean"], mean[:, c], rtol=1e-8)
        np.testing.assert_allclose(found[f"{name}_sd"], np.sqrt(variance[:, c]), rtol=1e-8)
        np.testing.assert_allclose(
            found[f"{name}_upper"], mean[:, c] + 1.959963985 * np.sqrt(variance[:, c]), rtol=1e-8
        )
        np.testing.assert_allclose(found[f"{name}_y_sd"], np.sqrt(of_y[:, c]), rtol=1e-8)
        np.testing.assert_allclose(found[f"{name}_y_lower"], low[:, c], rtol=1e-8)
        np.testing.assert_allclose(found[f"{name}_y_upper"], high[:, c], rtol=1e-8)


def test_predictions_of_classes_are_probabilities_and_the_likeliest(folder, tmp_path):
    test = classes(7, 0, 6, 12)
    path = written(test, tmp_path / "new.csv")
    target = tmp_path / "p.csv"
    ok("predict", folder / "all-kinds.safetensors", path, "-o", target, "--keep", "none")
    found = pd.read_csv(target)
    assert list(found.columns) == ["p_low", "p_middle", "p_top", "class", "outside"]
    model = rgp.load(folder / "all-kinds.safetensors")
    np.testing.assert_allclose(found.iloc[:, :3], model.predict_proba(test[INPUTS]), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.iloc[:, :3].sum(axis=1), 1)
    assert list(found["class"]) == list(model.predict_class(test[INPUTS]))


def test_predictions_with_varying_noise_have_its_band(folder, tmp_path):
    test = varying(7, 0, 6, 12)
    path = written(test[["day"]], tmp_path / "new.csv")
    found = pd.read_csv(io.StringIO(ok("predict", folder / "all-noisy.safetensors", path).stdout))
    model = rgp.load(folder / "all-noisy.safetensors")
    low, high = model.predict_interval(test[["day"]])
    np.testing.assert_allclose(found["y_lower"], low, rtol=1e-8)
    np.testing.assert_allclose(found["y_upper"], high, rtol=1e-8)
    np.testing.assert_allclose(found["sd"], np.sqrt(model.predict(test[["day"]])[1]), rtol=1e-8)
    calm, wild = found["day"] < 2, found["day"] > 4
    assert found.loc[wild, "y_sd"].mean() > 1.5 * found.loc[calm, "y_sd"].mean()


def test_each_output_is_scored_by_itself(folder, tmp_path):
    test = outputs(7, 0, 6, 30).assign(ward=["a", "b", "c"] * 10)
    test.loc[:9, "salt"] = np.nan
    path = written(test, tmp_path / "test.csv")
    how = ["score", folder / "all.safetensors", path, "--missing", "allow", "--target"]
    found = answer(*how, "heat,salt")
    model = rgp.load(folder / "all.safetensors")
    density = model.log_density(test[INPUTS], test[["heat", "salt"]])
    mean = model.predict_y(test[INPUTS])[0]
    for c, row in enumerate(found["scores"]):
        seen = test[row["name"]].notna().to_numpy()
        y = test[row["name"]].to_numpy()[seen]
        assert row["rows"] == seen.sum() == (30, 20)[c]
        assert row["nlpd"] == pytest.approx(-density[seen, c].mean())
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean((mean[seen, c] - y) ** 2)))
        assert row["crps"] == pytest.approx(rgp.metrics.score_outputs(model, test[INPUTS], test)[row["name"]].crps)
        for level, field in ((0.5, "coverage_50"), (0.8, "coverage_80"), (0.95, "coverage")):
            low, high = model.predict_interval(test[INPUTS], level)
            assert row[field] == pytest.approx(np.mean((low[seen, c] <= y) & (y <= high[seen, c])))
    alone = answer(*how, "heat")
    assert alone["scores"] == found["scores"][:1]
    assert "salt" in ok(*how, "heat,salt").stdout
    split = answer(*how, "heat,salt", "--by", "ward", "--plot", tmp_path / "pit.png")
    assert (tmp_path / "pit.png").stat().st_size > 10_000
    for c, row in enumerate(split["scores"]):
        assert [g["group"] for g in row["groups"]] == ["a", "b", "c"]
        some = test["ward"].eq("b") & test[row["name"]].notna()
        assert row["groups"][1]["rows"] == some.sum()
        assert row["groups"][1]["nlpd"] == pytest.approx(-density[some, c].mean())
    said = ok(*how, "heat,salt", "--by", "ward").stdout
    assert "heat, by ward" in said
    assert "salt, by ward" in said


def test_classes_are_scored(folder, tmp_path):
    test = classes(7, 0, 6, 30)
    path = written(test, tmp_path / "test.csv")
    how = ["score", folder / "all-kinds.safetensors", path, "--target", "kind"]
    row = answer(*how, "--by", "depth", "--plot", tmp_path / "curve.svg")
    assert "the most probable class" in (tmp_path / "curve.svg").read_text()
    model = rgp.load(folder / "all-kinds.safetensors")
    p = model.predict_proba(test[INPUTS])
    true = np.array([CLASSES.index(k) for k in test["kind"]])
    assert row["log_loss"] == pytest.approx(-np.mean(np.log(p[np.arange(30), true])))
    assert row["error_rate"] == pytest.approx(np.mean(p.argmax(1) != true))
    assert row["brier"] == pytest.approx(((p - np.eye(3)[true]) ** 2).sum(1).mean())
    one_against_rest = [np.mean(p[true == c, c][:, None] > p[true != c, c]) for c in range(3)]
    assert row["auroc"] == pytest.approx(np.mean(one_against_rest))
    assert row["ece"] == pytest.approx(rgp.metrics.ece(p, true))
    assert (row["holds"], row["rows"], len(row["groups"])) == ("classes", 30, 4)
    assert sum(g["rows"] for g in row["groups"]) == 30
    said = ok(*how).stdout
    assert all(word in said for word in ("log-loss", "Brier", "AUROC", "ECE", "error rate"))


def test_varying_noise_is_scored(folder, tmp_path):
    test = varying(7, 0, 6, 60)
    path = written(test.assign(half=test["day"] > 3), tmp_path / "test.csv")
    how = ["score", folder / "all-noisy.safetensors", path, "--target", "y"]
    row = answer(*how, "--by", "half", "--plot", tmp_path / "pit.pdf")
    assert (tmp_path / "pit.pdf").exists()
    model = rgp.load(folder / "all-noisy.safetensors")
    density, X = model.log_density(test[["day"]], test["y"]), test[["day"]]
    assert row["nlpd"] == pytest.approx(-np.mean(density))
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean((model.predict_y(X)[0] - test["y"]) ** 2)))
    low, high = model.predict_interval(X, 0.8)
    assert row["coverage_80"] == pytest.approx(np.mean((low <= test["y"]) & (test["y"] <= high)))
    assert row["crps"] == pytest.approx(rgp.metrics.score(model, X, test["y"]).crps)
    late = (test["day"] > 3).to_numpy()
    assert [g["nlpd"] for g in row["groups"]] == pytest.approx([-density[~late].mean(), -density[late].mean()])
    assert "coverage" in ok(*how).stdout


@pytest.mark.parametrize(
    ("model", "table", "options", "said"),
    [
        ("all", "north", ["-t", "heat"], "1 of the model's 2 outputs; name also salt"),
        ("all", "north", ["-t", "heat,day"], "no such output; it has heat, salt"),
        ("all-kinds", "north-kinds", ["-t", "kind,depth"], "has one target"),
        ("all-kinds", "north-kinds", ["-t", "kind", "--missing", "allow"], "it is for several outputs"),
        ("all-kinds", "north-kinds", ["-t", "kind", "--likelihood", "categorical"], "leave it out"),
        ("all", "north", ["-t", "heat,salt", "--owner", "nobody"], "nobody"),
        ("all", "north", ["-t", "heat,salt", "--by", "ward"], "ward"),
        ("all", "north", ["-t", "heat,salt", "--plot", "a.txt"], "a.txt: these figures are written as"),
    ],
)
def test_scores_that_cannot_be_are_refused(folder, model, table, options, said):
    result = call("score", folder / f"{model}.safetensors", folder / f"{table}.csv", *options)
    assert said in one_line(result)


def test_outputs_are_calibrated_one_by_one(folder, tmp_path):
    how = ["--target", "heat", "-o", tmp_path / "c.json"]
    result = call("calibrate", folder / "all.safetensors", folder / "north.csv", *how)
    assert "2 outputs; calibrate each by itself, as calibrate(model.part('heat'), X, y)" in one_line(result)
    assert not (tmp_path / "c.json").exists()


def test_classes_are_calibrated(folder, tmp_path):
    path, file = folder / "all-kinds.safetensors", tmp_path / "c.json"
    local, test = classes(21, 0, 6, 80), classes(22, 0, 6, 40)
    facts = answer("calibrate", path, written(local, tmp_path / "local.csv"), "-t", "kind", "-o", file)
    c = rgp.calibrate(rgp.load(path), local[INPUTS], local["kind"])
    assert facts["quantiles"] == pytest.approx(c.calibration.quantiles)
    assert facts["likelihood"] == "categorical"
    new = written(test, tmp_path / "new.csv")
    ok("predict", path, new, "--calibration", file, "-o", tmp_path / "p.csv", "--keep", "none")
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found) == ["p_low", "p_middle", "p_top", "class", "classes", "outside"]
    names = [[n for n, there in zip(CLASSES, row, strict=True) if there] for row in c.predict_set(test[INPUTS])]
    assert found["classes"].tolist() == ["|".join(some) for some in names]
    row = answer("score", path, new, "-t", "kind", "--calibration", file)["calibrated"][-1]
    assert row["level"] == 0.95
    assert row["coverage"] == pytest.approx(c.covers(test[INPUTS], test["kind"]).mean())
    assert row["mean_classes"] == pytest.approx(np.mean([len(some) for some in names]))


def test_varying_noise_is_calibrated(folder, tmp_path):
    path, file = folder / "all-noisy.safetensors", tmp_path / "c.json"
    local, test = varying(21, 0, 6, 80), varying(22, 0, 6, 40)
    ok("calibrate", path, written(local, tmp_path / "local.csv"), "-t", "y", "-o", file)
    c = rgp.calibrate(rgp.load(path), local[["day"]], local["y"])
    new = written(test, tmp_path / "new.csv")
    ok("predict", path, new, "--calibration", file, "-o", tmp_path / "p.csv", "--keep", "none")
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found[["y_lower", "y_upper"]].T, c.predict_interval(test[["day"]]), rtol=1e-8)
    row = answer("score", path, new, "-t", "y", "--calibration", file)["calibrated"][-1]
    assert row["coverage"] == pytest.approx(c.covers(test[["day"]], test["y"]).mean())


# --- units ---


def test_files_of_outputs_get_other_units(folder, out):
    X = outputs(7, 0, 6, 9)[INPUTS]
    there = X.assign(day=24 * X.day + 5)
    options = ["--input-scale", "day=24", "--input-shift", "day=5", "--output-scale", "heat=1.8", "--output-shift"]
    options += ["heat=32", "--unit", "heat=°F", "-o", out]
    for name in ("north", "all"):
        before = rgp.load(folder / f"{name}.safetensors")
        facts = answer("transform", folder / f"{name}.safetensors", *options)
        expected = before.predict(X)[0] * [1.8, 1] + [32, 0]
        np.testing.assert_allclose(rgp.load(out).predict(there)[0], expected, rtol=1e-8)
        assert [f["target"] for f in facts["functions"]] == ["heat in °F", "salt"]
    ok("transform", folder / "all.safetensors", "--output-scale", "2", "-o", out)
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], 2 * before.predict(X)[0], rtol=1e-8)


def test_varying_noise_and_classes_get_other_units(folder, out):
    X = varying(7, 0, 6, 9)[["day"]]
    before = rgp.load(folder / "all-noisy.safetensors")
    ok("transform", folder / "all-noisy.safetensors", "--output-scale", "-3", "--output-shift", "1", "-o", out)
    np.testing.assert_allclose(rgp.load(out).predict_y(X)[0], 1 - 3 * before.predict_y(X)[0], rtol=1e-8)
    np.testing.assert_allclose(rgp.load(out).predict_y(X)[1], 9 * before.predict_y(X)[1], rtol=1e-8)
    X = classes(7, 0, 6, 9)[INPUTS]
    before = rgp.load(folder / "all-kinds.safetensors")
    ok("transform", folder / "all-kinds.safetensors", "--input-scale", "day=24", "-o", out)
    found = rgp.load(out).predict_proba(X.assign(day=24 * X.day))
    np.testing.assert_allclose(found, before.predict_proba(X), rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("all-kinds", ["--output-scale", "2"], "--output-scale, --output-shift and unit do not apply to classes"),
        ("all-noisy", ["--output-scale", "y=2"], "--output-scale: only outputs have names"),
        ("all", ["--output-scale", "sugar=2"], "--output-scale: no output sugar; there are heat, salt"),
        ("all", ["--output-scale", "heat"], "--output-scale heat: write a number, or OUTPUT=NUMBER"),
        ("all", ["--output-scale", "salt=0"], "--output-scale=0.0; pass a number that is not zero"),
        ("all", ["--unit", "heat=K", "--unit", "kg"], "--unit kg: give one, or OUTPUT=UNIT"),
        ("all", ["--input-scale", "dose=2"], "no input column dose"),
    ],
)
def test_units_that_are_none(folder, out, name, options, said):
    assert said in one_line(call("transform", folder / f"{name}.safetensors", *options, "-o", out))
    assert not out.exists()


def test_unknown_classes_are_named(folder, tmp_path, out):
    test = classes(7, 0, 6, 10)
    test.loc[0, "kind"] = "huge"
    path = written(test, tmp_path / "test.csv")
    result = call("score", folder / "all-kinds.safetensors", path, "--target", "kind")
    assert "does not know: huge" in one_line(result)
    result = call("update", folder / "all-kinds.safetensors", path, "--target", "kind", "-o", out)
    assert "does not know: huge" in one_line(result)
    assert not out.exists()


# --- ensembles ---


def test_modules_of_one_output_join_by_the_name_of_their_target(folder, tmp_path, out):
    table = outputs(5, 3, 6)
    path = written(table[["day", "depth", "salt"]], tmp_path / "west.csv")
    ok("fit", path, "--target", "salt", "-o", tmp_path / "west.safetensors", *FEW)
    ok("merge", tmp_path / "west.safetensors", folder / "north.safetensors", "-o", out, "--owners", "none", "-q")
    found = rgp.load(out)
    assert found.part("salt").names == ["west", "north"]
    assert found.part("heat").names == ["north"]
    added = answer("add", folder / "all.safetensors", tmp_path / "west.safetensors", "-o", tmp_path / "b.safetensors")
    assert added["names"] == ["north", "south", "east", "west"]
    assert [len(f["names"]) for f in added["functions"]] == [3, 4]


def test_weights_are_those_of_the_library(folder, out):
    files = [folder / f"{name}.safetensors" for name in ("north", "south")]
    ok("merge", *files, "--weights", "north=0.5", "-o", out, "--owners", "none", "-q")
    own = rgp.merge([rgp.load(f) for f in files], weights={"north": 0.5}, owners=None)
    X = outputs(7, 0, 6, 12)[INPUTS]
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], own.predict(X)[0], rtol=1e-8)


def test_outputs_that_go_together_are_merged_so_if_asked(folder, tmp_path, out):
    files = [folder / f"{name}.safetensors" for name in ("north", "south", "east")]
    found = answer("merge", *files, "--outputs", "1", "-o", out, "--owners", "none")
    model = rgp.load(out)
    sd = np.sqrt(np.diag(model.output_covariance))
    np.testing.assert_allclose(found["correlation"], model.output_covariance / np.outer(sd, sd))
    assert "heat and salt" in ok("inspect", out).stdout
    X = outputs(7, 0, 6, 12)[INPUTS]
    path = written(X, tmp_path / "new.csv")
    columns = pd.read_csv(io.StringIO(ok("predict", out, path).stdout))
    np.testing.assert_allclose(columns[["heat_mean", "salt_mean"]], model.predict(X)[0], rtol=1e-8)
    apart = answer("merge", *files, "--outputs", "independent", "-o", out, "--owners", "none")
    assert apart["correlation"] is None
    assert "outputs" in one_line(call("merge", *files, "--outputs", "perhaps", "-o", out))


def test_modules_are_called_by_their_files(folder, out):
    files = [folder / f"{name}-kinds.safetensors" for name in ("north", "south")]
    assert answer("merge", *files, "--file-names", "-o", out)["names"] == ["north-kinds", "south-kinds"]


def test_ensembles_of_several_functions_are_recycled(folder, out):
    recycled = answer("merge", folder / "all.safetensors", "--recycle", "-o", out)
    assert recycled["names"] == ["all"]
    assert recycled["holds"] == "outputs"
    result = call("merge", folder / "all.safetensors", "-o", out)
    assert "--recycle" in one_line(result)


def test_kinds_do_not_mix(folder, out, owners):
    result = call("merge", folder / "north.safetensors", folder / "south-kinds.safetensors", "-o", out)
    assert "one module has outputs, another classes" in one_line(result)
    assert not out.exists()
    result = call("add", owners / "city.safetensors", folder / "east.safetensors", "-o", out)
    assert "2 outputs" in one_line(result)
    assert "merge all modules anew" in one_line(result)


@pytest.mark.parametrize("kind", ["", "-kinds", "-noisy"])
def test_modules_are_removed_and_reweighted(folder, out, kind):
    before = folder / f"all{kind}.safetensors"
    assert answer("remove", before, "east", "-o", out, "--keep-kernel")["names"] == ["north", "south"]
    model = rgp.load(before)
    X = (varying if kind == "-noisy" else outputs)(7, 0, 6, 9)[["day"] if kind == "-noisy" else INPUTS]
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], model.remove("east").predict(X)[0], rtol=1e-6, atol=1e-9)
    ok("reweight", before, "east=0.5", "-o", out, "-q")
    expected = model.reweight({"east": 0.5}).predict(X)[0]
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], expected, rtol=1e-6, atol=1e-9)
    assert "nobody" in one_line(call("remove", before, "nobody", "-o", out))


@pytest.mark.parametrize(
    ("kind", "make", "target"),
    [("", outputs, "heat,salt"), ("-kinds", classes, "kind"), ("-noisy", varying, "y")],
)
def test_new_rows_come_in(folder, tmp_path, out, kind, make, target):
    new = make(11, 0, 6, 15)
    path = written(new, tmp_path / "new.csv")
    before = folder / f"all{kind}.safetensors"
    found = answer("update", before, path, "--target", target, "-o", out, "--name", "late")
    assert found["names"][-1] == "late"
    columns = target.split(",")
    X, y = new.drop(columns=columns), new[columns if len(columns) > 1 else target]
    expected = rgp.load(before).update(X, y, name="late")
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], expected.predict(X)[0], rtol=1e-6, atol=1e-8)


def test_new_rows_may_lack_an_output(folder, tmp_path, out):
    new = outputs(11, 0, 6, 15)[["day", "depth", "salt"]]
    path = written(new, tmp_path / "new.csv")
    result = call("update", folder / "all.safetensors", path, "-t", "salt", "-o", out)
    assert "name also heat" in one_line(result)
    assert "--missing allow" in one_line(result)
    found = answer("update", folder / "all.safetensors", path, "-t", "salt", "-o", out, "--missing", "allow")
    assert [len(f["names"]) for f in found["functions"]] == [3, 4]


# --- what is in a file ---


def test_inspect_says_what_each_function_is(folder):
    module, model = answer("inspect", folder / "north.safetensors"), rgp.load(folder / "north.safetensors")
    assert (module["kind"], module["holds"], module["name"]) == ("joint module", "outputs", "north")
    for f, part in zip(module["functions"], model.parts, strict=True):
        assert f["rows"] == 40
        assert f["points"] == 8
        assert f["noise"] == part.noise
        assert f["kept"] == part.kept
        assert f["kernel"] == part.kernel_spec.describe()
    said = ok("inspect", folder / "all.safetensors").stdout
    assert "function heat" in said
    words = " ".join(ok("inspect", folder / "north.safetensors").stdout.split())
    assert words.count("40 rows, 8 points (0.2 per row)") == 2
    assert words.count(", converged") == 2
    assert "of 3 modules (north, south, east)" in said
    assert "2 outputs: heat, salt" in said
    assert "3 classes: low, middle, top" in ok("inspect", folder / "all-kinds.safetensors").stdout
    assert "noise, which varies" in ok("inspect", folder / "all-noisy.safetensors").stdout
    table = ok("inspect", folder).stdout
    assert "ensemble of 3, 3 classes" in table
    assert "north, 2 outputs" in table
    assert "north, varying noise" in table


def test_compare_has_rows_of_each_function(folder):
    rows = answer("compare", folder / "all.safetensors", folder / "north.safetensors", folder / "east.safetensors")
    assert {(r["function"], r["name"]) for r in rows} == {
        (f, n) for f in ("heat", "salt") for n in ("north", "south", "east")
    }
    merged, north = (
        rgp.load(folder / "all.safetensors").part("salt"),
        rgp.load(folder / "north.safetensors").part("salt"),
    )
    row = next(r for r in rows if (r["function"], r["name"]) == ("salt", "north"))
    gap = np.abs(merged.predict(north.inducing)[0] - north.predict(north.inducing)[0])
    assert row["difference"] == pytest.approx(gap.mean(), rel=1e-6)
    assert "salt" in ok("compare", folder / "all.safetensors").stdout


def test_screening_names_the_output_that_is_wrong(folder, tmp_path):
    for seed, (name, low, high) in enumerate([("a", 0, 6), ("b", 0, 6), ("c", 0, 6), ("d", 0, 6), ("e", 0, 6)]):
        table = outputs(seed, low, high, 60)
        if name == "c":
            table["salt"] = 60 - table["salt"]  # the opposite sign about 30
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rgp.fit(table[INPUTS], table[["heat", "salt"]], name=name).save(tmp_path / f"{name}.safetensors")
    found = answer("screen", tmp_path)
    assert found["flagged"] == ["c"]
    row = next(r for r in found["modules"] if r["name"] == "c")
    assert row["reason"].startswith("salt: ")
    assert "heat" not in row["reason"]


def test_files_are_signed_and_verified(folder, tmp_path):
    ok("keygen", "-o", tmp_path / "key")
    for name in ("north", "all-kinds"):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes((folder / f"{name}.safetensors").read_bytes())
        ok("sign", path, "--key", tmp_path / "key.pem")
        assert "signed by key" in ok("verify", path, "--trusted", tmp_path).stdout
    merged = ["merge", tmp_path / "north.safetensors", "-o", tmp_path / "out.safetensors", "--trusted", tmp_path]
    ok(*merged)
    data = bytearray((tmp_path / "north.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "north.safetensors").write_bytes(data)
    assert call(*merged).exit_code == 2
