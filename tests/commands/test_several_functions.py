"""fit, predict, score and calibrate with several outputs, classes, and noise that varies: the library's numbers."""

import io
import math

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, written
from cases_joint import CLASSES, classes, outputs, varying

INPUTS = ["day", "depth"]
FEW = ["--publish", 8, "-q"]


# --- fit ---


def test_several_targets_are_fitted_as_the_library_does(several, out):
    table = outputs(0, 0, 4)
    ok("fit", written(table, out.with_suffix(".csv")), "--target", "heat,salt", "-o", out, "--name", "a", *FEW)
    own = rgp.fit(table[INPUTS], table[["heat", "salt"]], publish=8, name="a")
    found = rgp.load(out)
    assert found.outputs == ("heat", "salt")
    np.testing.assert_allclose(found.predict(table[INPUTS])[0], own.predict(table[INPUTS])[0], rtol=1e-8)
    np.testing.assert_allclose(
        rgp.load(several / "north.safetensors").predict(table[INPUTS])[0], own.predict(table[INPUTS])[0], rtol=1e-8
    )


def test_targets_may_have_decimal_commas(several, out, tmp_path):
    table = pd.read_csv(several / "north.csv")
    table.to_csv(tmp_path / "komma.csv", sep=";", decimal=",", index=False)
    target = ["--target", "heat,salt", "--name", "north", *FEW]
    ok("fit", tmp_path / "komma.csv", "--decimal", ",", *target, "-o", out)
    np.testing.assert_array_equal(
        rgp.load(out).predict(table[INPUTS])[0], rgp.load(several / "north.safetensors").predict(table[INPUTS])[0]
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


def test_labels_are_taken_as_they_are_written(several, out, tmp_path):
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


def test_parts_come_with_units_and_digits(several, out):
    how = ["--target", "heat,salt", "--unit", "K,g/kg", "--round", 6, "--owner", "me", *FEW]
    ok("fit", several / "north.csv", *how, "-o", out)
    found = rgp.load(out)
    assert [str(target) for target in found.targets] == ["heat in K", "salt in g/kg"]
    assert found.owner == "me"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "heat,heat"], "named twice"),
        (["--target", "heat,salt", "--likelihood", "categorical"], "has one target"),
        (["--target", "heat,salt", "--likelihood", "heteroscedastic"], "has one target"),
        (["--target", "heat", "--missing", "allow"], "it is for several outputs"),
        (["--target", "heat,salt", "--missing", "maybe"], "use refuse, allow, impute or marginalise"),
        (["--target", "heat,salt", "--missing", "allow", "--drop-missing"], "give one"),
        (["--target", "heat", "--classes", "a,b"], "they are for --likelihood categorical"),
        (["--target", "heat", "--likelihood", "categorical", "--positive", "a"], "take labels as they are"),
        (["--target", "heat,salt", "--likelihood", "bernoulli", "--positive", "a"], "it is for a single target"),
        (["--target", "heat,salt", "--likelihood", "bernoulli"], "write the classes of each output as 0 and 1"),
        (["--target", "heat,salt", "--inputs", "day,salt"], "it is among the inputs"),
        (["--target", "heat,sweet"], "no column 'sweet'"),
        (["--target", "heat", "--likelihood", "heteroscedastic", "--noise", 1], "it follows from its functions"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(several, out, options, said):
    result = call("fit", several / "north.csv", *options, "-o", out)
    assert said in one_line(result)
    assert not out.exists()


def test_few_rows_may_be_allowed_for_several_targets(tmp_path, out):
    path = written(outputs(0, 0, 4, 6), tmp_path / "six.csv")
    how = ["fit", path, "--target", "heat,salt", "-o", out]
    assert "6 rows" in ok(*how).stderr
    assert "--allow-small" in ok(*how).stderr
    assert "--allow-small" not in ok(*how, "--allow-small").stderr
    partitions = ["--partitions", 1, "--jobs", 1]
    assert "--allow-small" in ok(*how, *partitions).stderr
    assert "--allow-small" not in ok(*how, *partitions, "--allow-small").stderr


def test_noise_of_each_row_holds_for_every_output(several, tmp_path, out):
    table = outputs(0, 0, 4).assign(error=np.linspace(0.1, 0.5, 40))
    path = written(table, tmp_path / "measured.csv")
    ok("fit", path, "--target", "heat,salt", "--noise-sd-column", "error", "-o", out, *FEW)
    own = rgp.fit(table[INPUTS], table[["heat", "salt"]], noise=table["error"] ** 2, publish=8, name="out")
    np.testing.assert_allclose(rgp.load(out).predict(table[INPUTS])[0], own.predict(table[INPUTS])[0], rtol=1e-8)
    how = ["--target", "heat,salt", "--noise-column", "error", "--name", "late"]
    ok("update", several / "all.safetensors", path, *how, "-o", out, "-q")
    expected = rgp.load(several / "all.safetensors").update(
        table[INPUTS], table[["heat", "salt"]], noise=table["error"], name="late"
    )
    np.testing.assert_allclose(rgp.load(out).predict(table[INPUTS])[0], expected.predict(table[INPUTS])[0], rtol=1e-6)


def test_outputs_may_be_classes_of_two(tmp_path, out):
    table = outputs(0, 0, 6)
    table["warm"], table["salty"] = (table["heat"] > 0).astype(int), (table["salt"] > 30).astype(int)
    path = written(table[[*INPUTS, "warm", "salty"]], tmp_path / "t.csv")
    ok("fit", path, "--target", "warm,salty", "--likelihood", "bernoulli", "-o", out, *FEW)
    found = pd.read_csv(io.StringIO(ok("predict", out, path, "--keep", "none").stdout))
    expected = rgp.load(out).predict_y(table[INPUTS])[0]
    np.testing.assert_allclose(found[["warm_probability", "salty_probability"]], expected, rtol=1e-8)
    scored = answer("score", out, path, "--target", "warm,salty")["scores"]
    assert [row["error_rate"] for row in scored] == pytest.approx(
        [np.mean((expected[:, c] > 0.5) != table[name]) for c, name in enumerate(("warm", "salty"))]
    )


PARTITIONED = {
    "outputs": (outputs, ["--target", "heat,salt"], {}),
    "gaps": (outputs, ["--target", "heat,salt", "--missing", "allow"], {"missing": "allow"}),
    "classes": (classes, ["--target", "kind", "--likelihood", "categorical"], {"likelihood": "categorical"}),
    "varying": (varying, ["--target", "y", "--likelihood", "heteroscedastic"], {"likelihood": "heteroscedastic"}),
}


@pytest.mark.parametrize("case", PARTITIONED)
def test_partitions_have_several_functions(tmp_path, out, case):
    pytest.importorskip("joblib")
    make, options, keywords = PARTITIONED[case]
    table = pd.concat([make(seed, 0, 6).assign(ward=f"w{seed}") for seed in range(3)], ignore_index=True)
    if case == "gaps":
        table.loc[::4, "salt"] = np.nan
    path = written(table, tmp_path / "all.csv")
    how = ["fit", path, *options, "--publish", 8, "--jobs", 1]
    said = answer(*how, "--partition-by", "ward", "-o", out)
    targets = options[1].split(",")
    inputs = [c for c in table if c not in (*targets, "ward")]
    wards = [part for _, part in table.groupby("ward")]
    data = [(part[inputs], part[targets if len(targets) > 1 else targets[0]]) for part in wards]
    modules = rgp.fit_many(data, names=["w0", "w1", "w2"], publish=8, **keywords)
    expected = rgp.merge(modules, keep="names", owners=None, trust=None)
    assert (said["kind"], said["names"]) == ("ensemble", ["w0", "w1", "w2"])
    found = rgp.load(out)
    assert found.functions == expected.functions
    assert found.evidence == pytest.approx(expected.evidence, rel=1e-4)
    np.testing.assert_allclose(found.predict(table[inputs])[0], expected.predict(table[inputs])[0], atol=1e-3)
    said = answer(*how, "--partitions", 3, "-i", ",".join(inputs), "-o", tmp_path / "folder")
    assert said["modules"] == 3
    inside = answer("inspect", tmp_path / "folder" / "chunk-000000.safetensors")
    assert (inside["kind"], [f["function"] for f in inside["functions"]]) == ("modules", list(found.functions))


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


def test_predictions_of_outputs_have_their_names(several, tmp_path):
    test = outputs(7, 0, 6, 12)
    path = written(test[INPUTS], tmp_path / "new.csv")
    found = pd.read_csv(io.StringIO(ok("predict", several / "all.safetensors", path, "--keep", "day").stdout))
    model = rgp.load(several / "all.safetensors")
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


def test_predictions_of_classes_are_probabilities_and_the_likeliest(several, tmp_path):
    test = classes(7, 0, 6, 12)
    path = written(test, tmp_path / "new.csv")
    target = tmp_path / "p.csv"
    ok("predict", several / "all-kinds.safetensors", path, "-o", target, "--keep", "none")
    found = pd.read_csv(target)
    assert list(found.columns) == ["p_low", "p_middle", "p_top", "class", "outside"]
    model = rgp.load(several / "all-kinds.safetensors")
    np.testing.assert_allclose(found.iloc[:, :3], model.predict_proba(test[INPUTS]), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.iloc[:, :3].sum(axis=1), 1)
    assert list(found["class"]) == list(model.predict_class(test[INPUTS]))


def test_predictions_with_varying_noise_have_its_band(several, tmp_path):
    test = varying(7, 0, 6, 12)
    path = written(test[["day"]], tmp_path / "new.csv")
    found = pd.read_csv(io.StringIO(ok("predict", several / "all-noisy.safetensors", path).stdout))
    model = rgp.load(several / "all-noisy.safetensors")
    low, high = model.predict_interval(test[["day"]])
    np.testing.assert_allclose(found["y_lower"], low, rtol=1e-8)
    np.testing.assert_allclose(found["y_upper"], high, rtol=1e-8)
    np.testing.assert_allclose(found["sd"], np.sqrt(model.predict(test[["day"]])[1]), rtol=1e-8)
    calm, wild = found["day"] < 2, found["day"] > 4
    assert found.loc[wild, "y_sd"].mean() > 1.5 * found.loc[calm, "y_sd"].mean()


def test_each_output_is_scored_by_itself(several, tmp_path):
    test = outputs(7, 0, 6, 30).assign(ward=["a", "b", "c"] * 10)
    test.loc[:9, "salt"] = np.nan
    path = written(test, tmp_path / "test.csv")
    how = ["score", several / "all.safetensors", path, "--missing", "allow", "--target"]
    found = answer(*how, "heat,salt")
    model = rgp.load(several / "all.safetensors")
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


def test_classes_are_scored(several, tmp_path):
    test = classes(7, 0, 6, 30)
    path = written(test, tmp_path / "test.csv")
    how = ["score", several / "all-kinds.safetensors", path, "--target", "kind"]
    row = answer(*how, "--by", "depth", "--plot", tmp_path / "curve.svg")
    assert "the most probable class" in (tmp_path / "curve.svg").read_text()
    model = rgp.load(several / "all-kinds.safetensors")
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


def test_varying_noise_is_scored(several, tmp_path):
    test = varying(7, 0, 6, 60)
    path = written(test.assign(half=test["day"] > 3), tmp_path / "test.csv")
    how = ["score", several / "all-noisy.safetensors", path, "--target", "y"]
    row = answer(*how, "--by", "half", "--plot", tmp_path / "pit.pdf")
    assert (tmp_path / "pit.pdf").exists()
    model = rgp.load(several / "all-noisy.safetensors")
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
def test_scores_that_cannot_be_are_refused(several, model, table, options, said):
    result = call("score", several / f"{model}.safetensors", several / f"{table}.csv", *options)
    assert said in one_line(result)


def test_outputs_are_calibrated_one_by_one(several, tmp_path):
    model, table, made = several / "all.safetensors", several / "north.csv", tmp_path / "c.json"
    said = one_line(call("calibrate", model, table, "--target", "depth", "-o", made))
    assert "--target depth" in said
    assert "2 outputs: heat, salt; a calibration is of one of them" in said
    assert not made.exists()
    rows = answer("calibrate", model, table, "--target", "salt", "-o", made)["rows"]
    ok("predict", model, table, "--calibration", made, "-o", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")
    inside = (found["salt_y_lower"] <= found["salt"]) & (found["salt"] <= found["salt_y_upper"])
    assert inside.sum() == math.ceil((rows + 1) * 0.95)
    scored = answer("score", model, table, "--target", "heat,salt", "--calibration", made)["scores"]
    by_name = {one["name"]: one for one in scored}
    assert "calibrated" not in by_name["heat"]
    level = next(row for row in by_name["salt"]["calibrated"] if row["level"] == 0.95)
    assert level["coverage"] == pytest.approx(inside.mean())


def test_classes_are_calibrated(several, tmp_path):
    path, file = several / "all-kinds.safetensors", tmp_path / "c.json"
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


def test_varying_noise_is_calibrated(several, tmp_path):
    path, file = several / "all-noisy.safetensors", tmp_path / "c.json"
    local, test = varying(21, 0, 6, 80), varying(22, 0, 6, 40)
    ok("calibrate", path, written(local, tmp_path / "local.csv"), "-t", "y", "-o", file)
    c = rgp.calibrate(rgp.load(path), local[["day"]], local["y"])
    new = written(test, tmp_path / "new.csv")
    ok("predict", path, new, "--calibration", file, "-o", tmp_path / "p.csv", "--keep", "none")
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found[["y_lower", "y_upper"]].T, c.predict_interval(test[["day"]]), rtol=1e-8)
    row = answer("score", path, new, "-t", "y", "--calibration", file)["calibrated"][-1]
    assert row["coverage"] == pytest.approx(c.covers(test[["day"]], test["y"]).mean())
