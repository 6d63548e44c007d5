"""recyclegp calibrate, and predict and score with what it wrote."""

import json
import os

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import INPUTS, TEST, answer, call, ok, owner, target, written

LOCAL = owner(31, 0, 6, 80)


@pytest.fixture
def local(tmp_path):
    def write(kind):
        return written(LOCAL.assign(y=target(LOCAL, kind)), tmp_path / "local.csv")

    return write


@pytest.fixture
def new(tmp_path):
    return written(TEST[INPUTS], tmp_path / "new.csv")


def test_from_a_table_to_calibrated_predictions(each_kind, local, new, tmp_path):
    path, file = each_kind / "gaussian.safetensors", tmp_path / "mine.json"
    said = ok("calibrate", path, local("gaussian"), "-t", "y", "-o", file).stdout.splitlines()
    assert [line.split()[0] for line in said] == ["file", "rows", "50%", "80%", "90%", "95%"]
    m = rgp.load(path)
    expected = rgp.calibrate(m, LOCAL[INPUTS], target(LOCAL, "gaussian"))
    assert rgp.Calibration.load(file).quantiles == expected.calibration.quantiles
    assert len(rgp.Calibration.load(file).content_id) == 64
    ok("predict", path, new, "--calibration", file, "-o", tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    made = ["mean", "sd", "lower", "upper", "y_sd", "y_lower", "y_upper", "outside"]
    assert list(table) == [*INPUTS, *made]
    assert (
        pytest.approx(np.stack(expected.predict_interval(TEST[INPUTS]))) == table[["y_lower", "y_upper"]].to_numpy().T
    )
    plain = json.loads(ok("predict", path, new, "--json").stdout)
    assert table["mean"].tolist() == pytest.approx([row["mean"] for row in plain])
    assert table["y_lower"].tolist() != pytest.approx([row["y_lower"] for row in plain])


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "bernoulli"])
def test_scores_of_calibrated_predictions(each_kind, local, tmp_path, kind):
    path, file = each_kind / f"{kind}.safetensors", tmp_path / "mine.json"
    facts = answer("calibrate", path, local(kind), "-t", "y", "-o", file, "--levels", "0.8,0.6")
    assert (facts["levels"], facts["rows"], facts["owner"]) == ([0.6, 0.8], 80, None)
    y = target(TEST, kind)
    data = written(TEST.assign(y=y), tmp_path / "test.csv")
    found = answer("score", path, data, "-t", "y", "--calibration", file)["calibrated"]
    c = rgp.calibrate(rgp.load(path), LOCAL[INPUTS], target(LOCAL, kind), levels=[0.6, 0.8])
    for row, level in zip(found, (0.6, 0.8), strict=True):
        assert row["level"] == level
        assert row["coverage"] == pytest.approx(c.covers(TEST[INPUTS], y, level).mean())
        if kind == "bernoulli":
            assert row["mean_classes"] == pytest.approx(c.predict_set(TEST[INPUTS], level).sum(1).mean())
        else:
            low, high = c.predict_interval(TEST[INPUTS], level)
            assert row["mean_width"] == pytest.approx((high - low).mean())
    assert "calibrated 80%" in ok("score", path, data, "-t", "y", "--calibration", file).stdout


def test_counts_and_classes_get_columns_of_their_own(each_kind, local, new, tmp_path):
    file = tmp_path / "mine.json"
    for kind, made in (("poisson", ["y_lower", "y_upper"]), ("bernoulli", ["classes"])):
        path = each_kind / f"{kind}.safetensors"
        ok("calibrate", path, local(kind), "-t", "y", "-o", file)
        ok("predict", path, new, "--calibration", file, "-o", tmp_path / "out.csv", "--keep", "none")
        table = pd.read_csv(tmp_path / "out.csv", dtype={"classes": str})
        assert list(table)[-len(made) - 1 :] == [*made, "outside"]
    assert set(table["classes"]) <= {"0", "1", "0|1"}
    c = rgp.calibrate(rgp.load(path), LOCAL[INPUTS], target(LOCAL, "bernoulli"))
    assert np.array_equal(table["classes"] == "0|1", c.predict_set(TEST[INPUTS]).all(1))


def test_text_classes_keep_their_words(tmp_path):
    ill = np.where(LOCAL["y"] > 0, "ill", "well")
    data = written(LOCAL.assign(y=ill), tmp_path / "rows.csv")
    path, file = tmp_path / "m.safetensors", tmp_path / "c.json"
    ok("fit", data, "-t", "y", "--likelihood", "bernoulli", "--positive", "ill", "-o", path, "-q")
    ok("calibrate", path, data, "-t", "y", "--positive", "ill", "-o", file)
    ok("predict", path, data, "--calibration", file, "-o", tmp_path / "out.csv", "--keep", "none")
    assert set(pd.read_csv(tmp_path / "out.csv")["classes"]) <= {"ill", "well", "well|ill"}
    said = one_line(call("calibrate", path, data, "-t", "y", "--positive", "well", "-o", file))
    assert "contradicts the model" in said


def test_whose_rows_they_are(wards, tmp_path):
    path, file = wards / "city.safetensors", tmp_path / "mine.json"
    data = written(LOCAL.assign(y=LOCAL["y"] + 0.9), tmp_path / "local.csv")
    assert answer("calibrate", path, data, "-t", "y", "-o", file, "--owner", "ward-3")["owner"] == "ward-3"
    ok("predict", path, data, "--calibration", file, "-o", tmp_path / "out.csv", "--keep", "none")
    e, table = rgp.load(path), pd.read_csv(tmp_path / "out.csv")
    assert table["mean"].to_numpy() == pytest.approx(e.predict(LOCAL[INPUTS], "ward-3")[0])
    said = one_line(call("predict", path, data, "--calibration", file, "--owner", "ward-1"))
    assert "--owner ward-1" in said
    assert "was calibrated for ward-3" in said


def test_a_calibration_is_of_one_model(each_kind, local, new, tmp_path):
    file = tmp_path / "mine.json"
    ok("calibrate", each_kind / "gaussian.safetensors", local("gaussian"), "-t", "y", "-o", file)
    for kind in ("student-t", "poisson"):
        said = one_line(call("predict", each_kind / f"{kind}.safetensors", new, "--calibration", file))
        assert "made for another model" in said
    said = one_line(
        call("predict", each_kind / "gaussian.safetensors", new, "--calibration", file, "--likelihood", "poisson")
    )
    assert "--likelihood poisson" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "c.csv"], "a calibration is written as JSON; write to c.json"),
        (["-o", "absent/c.json"], "absent/c.json: No such file or directory"),
        (["-o", "c.json", "--levels", "0.9,most"], "--levels most: write numbers between 0 and 1"),
        (["-o", "c.json", "--levels", "95"], "--levels 95; pass a number between 0 and 1"),
        (["-o", "c.json", "--levels", "0.999"], "there are 80 calibration rows, and 999 are needed"),
        (["-o", "c.json", "--owner", "ward-9"], "leave owner out"),
    ],
)
def test_what_is_wrong_is_one_line(each_kind, local, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    local("gaussian")
    assert message in one_line(call("calibrate", each_kind / "gaussian.safetensors", "local.csv", "-t", "y", *options))
    assert os.listdir() == ["local.csv"]


def test_too_few_rows_for_the_bands_of_predict(each_kind, new, tmp_path):
    path, file = each_kind / "gaussian.safetensors", tmp_path / "few.json"
    ok("calibrate", path, written(LOCAL[:12], tmp_path / "few.csv"), "-t", "y", "-o", file)
    out = tmp_path / "out.csv"
    said = one_line(call("predict", path, new, "--calibration", file, "-o", out))
    assert "0.95 needs a calibration with at least 19 rows, and this one has 12" in said
    assert not out.exists()
