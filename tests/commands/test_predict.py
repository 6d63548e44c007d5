"""recyclegp predict: the library's numbers, in chunks, as columns."""

import io
import json
import os

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import INPUTS, TEST, TRAIN, answer, call, ok, owner, written
from recyclegp.commands import reading, reading_text


@pytest.fixture
def data(tmp_path):
    table = TEST[INPUTS].assign(id=[f"{i:03d}" for i in range(len(TEST))])
    return written(table[["id", "depth", "day"]], tmp_path / "new.csv")


def predicted(model, data, *options):
    return pd.read_csv(io.StringIO(ok("predict", model, data, *options).stdout), dtype={"id": str})


# --- predict ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_measurements(each_kind, data, tmp_path):
    path = each_kind / "gaussian.safetensors"
    said = ok("predict", path, data, "-o", tmp_path / "out.csv")
    assert said.stdout.startswith(f"{tmp_path / 'out.csv'}: 50 predictions")
    table = pd.read_csv(tmp_path / "out.csv", dtype={"id": str})
    kept, made = ["id", "depth", "day"], ["mean", "sd", "lower", "upper", "y_sd", "y_lower", "y_upper", "outside"]
    assert list(table) == kept + made
    m = rgp.load(path)
    (mean, variance), (_, of_y) = m.predict(TEST), m.predict_y(TEST)
    assert np.array_equal(table["mean"], mean)  # bit for bit through the file
    z = stats.norm.ppf(0.975)
    for name, sd in (("", np.sqrt(variance)), ("y_", np.sqrt(of_y))):
        assert table[f"{name}sd"].to_numpy() == pytest.approx(sd, rel=1e-12)
        assert table[f"{name}lower"].to_numpy() == pytest.approx(mean - z * sd, rel=1e-9, abs=1e-9)
        assert table[f"{name}upper"].to_numpy() == pytest.approx(mean + z * sd, rel=1e-9, abs=1e-9)
    assert table["id"].tolist() == [f"{i:03d}" for i in range(50)]
    assert np.array_equal(table[INPUTS], TEST[INPUTS])


@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit"])
def test_classes(each_kind, data, likelihood):
    path = each_kind / f"{likelihood}.safetensors"
    table = predicted(path, data, "--keep", "none")
    extra = ["probability", "probability_lower", "probability_upper"]
    assert list(table) == ["mean", "sd", "lower", "upper", *extra, "outside"]
    assert table["probability"].to_numpy() == pytest.approx(rgp.load(path).predict_proba(TEST)[:, 1], rel=1e-12)
    link = stats.norm.cdf if likelihood == "bernoulli-probit" else lambda f: 1 / (1 + np.exp(-f))
    assert table["probability_lower"].to_numpy() == pytest.approx(link(table["lower"]), rel=1e-6)
    assert table["probability_upper"].to_numpy() == pytest.approx(link(table["upper"]), rel=1e-6)


def test_counts(each_kind, data):
    table = predicted(each_kind / "poisson.safetensors", data, "--keep", "id")
    assert list(table) == ["id", "mean", "sd", "lower", "upper", "rate", "rate_lower", "rate_upper", "outside"]
    assert table["rate"].to_numpy() == pytest.approx(np.exp(table["mean"] + table["sd"] ** 2 / 2), rel=1e-9)
    assert table["rate_lower"].to_numpy() == pytest.approx(np.exp(table["lower"]), rel=1e-9)
    assert table["rate_upper"].to_numpy() == pytest.approx(np.exp(table["upper"]), rel=1e-9)


def test_student_bands_hold_95_percent(each_kind, data):
    path = each_kind / "student-t.safetensors"
    table = predicted(path, data)
    (scale2, df), few = rgp.load(path).likelihoods[0].parameters, table.iloc[::10]
    for _, row in few.iterrows():
        # P(Y ≤ y) by Gauss–Hermite over f, independently
        z, w = np.polynomial.hermite_e.hermegauss(80)
        f = row["mean"] + row["sd"] * z
        for name, p in (("y_lower", 0.025), ("y_upper", 0.975)):
            assert (stats.t.cdf((row[name] - f) / np.sqrt(scale2), df) @ w) / w.sum() == pytest.approx(p, abs=1e-4)


@pytest.mark.parametrize("owner", [None, "new", "ward-1", "ward-3"])
def test_predictions_and_scores_of_an_owner(wards, data, tmp_path, owner):
    path, options = wards / "city.safetensors", () if owner is None else ("--owner", owner)
    e, table = rgp.load(path), predicted(path, data, *options)
    (mean, variance), (_, of_y) = e.predict(TEST, owner), e.predict_y(TEST, owner=owner)
    assert table["mean"].to_numpy() == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert table["sd"].to_numpy() == pytest.approx(np.sqrt(variance), rel=1e-9)
    assert table["y_sd"].to_numpy() == pytest.approx(np.sqrt(of_y), rel=1e-9)
    y_mean = e.predict_y(TEST, owner=owner)[0]
    low, high = e.predict_interval(TEST, owner=owner)
    assert table["y_lower"].to_numpy() == pytest.approx(low, rel=1e-9, abs=1e-9)
    assert table["y_upper"].to_numpy() == pytest.approx(high, rel=1e-9, abs=1e-9)
    found = answer("score", path, written(TEST, tmp_path / "test.csv"), "-t", "y", *options)
    assert found["nlpd"] == pytest.approx(-np.mean(e.log_density(TEST, TEST["y"], owner=owner)))
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y_mean - TEST["y"]) ** 2)))


@pytest.mark.filterwarnings("ignore::recyclegp.errors.NothingToLearnWarning")  # one ward has one class
def test_probabilities_of_an_owner(data, out):
    """Without an owner they are a new owner's, who is less certain, and so is their band."""
    wards = []
    for seed, offset in enumerate((-3.0, 0.0, 3.0)):
        table = owner(seed, 0, 6, 150)
        options = {"likelihood": "bernoulli", "inducing": 20, "publish": 8, "learn": False, "name": f"w{seed}"}
        wards.append(rgp.fit(table[INPUTS], table["y"] + offset > 0.3, **options))
    rgp.merge(wards, owners="offset", learn=False).save(out)
    e = rgp.load(out)
    assert e.offset_sd > 0
    for options, whose in ([], "new"), (["--owner", "w2"], "w2"):
        table = predicted(out, data, *options)
        expected = e.predict_proba(TEST, owner=whose)[:, 1]
        assert table["probability"].to_numpy() == pytest.approx(expected, rel=1e-9)
        mean, variance = e.predict(TEST, whose)
        upper = 1 / (1 + np.exp(-(mean + stats.norm.ppf(0.975) * np.sqrt(variance))))
        assert table["probability_upper"].to_numpy() == pytest.approx(upper, rel=1e-6)


def test_owners_who_are_not_there(wards, each_kind, data, tmp_path):
    test = written(TEST, tmp_path / "test.csv")
    for command, options in (("predict", []), ("score", ["-t", "y"])):
        said = one_line(call(command, wards / "city.safetensors", test, *options, "--owner", "ward-9"))
        assert "--owner ward-9: nobody here is called so; there are ward-1, ward-2, ward-3, ward-4, and 'new'" in said
        said = one_line(call(command, each_kind / "gaussian.safetensors", test, *options, "--owner", "new"))
        assert "--owner new: the module is of 'gaussian' alone; leave owner out" in said


def test_several_likelihoods(each_kind, data):
    path = each_kind / "mixed.safetensors"
    alone = ok("predict", path, data, "-o", data.with_name("out.csv"))
    assert list(pd.read_csv(data.with_name("out.csv")))[3:] == ["mean", "sd", "lower", "upper", "outside"]
    assert "--likelihood of observations (gaussian, bernoulli)" in alone.stderr
    assert "probability" in predicted(path, data, "--likelihood", "bernoulli")
    assert "y_upper" in predicted(path, data, "--likelihood", "gaussian")
    said = one_line(call("predict", path, data, "--likelihood", "poisson"))
    assert "this model has gaussian, bernoulli" in said


def test_chunks_make_no_difference(each_kind, data, tmp_path, monkeypatch):
    model = each_kind / "gaussian.safetensors"
    ok("predict", model, data, "-o", tmp_path / "a.csv")
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 7)
    ok("predict", model, data, "-o", tmp_path / "b.csv")
    a, b = (pd.read_csv(tmp_path / f"{n}.csv") for n in "ab")
    assert list(a) == list(b)
    assert a.to_numpy() == pytest.approx(b.to_numpy(), rel=1e-12)
    assert len(json.loads(ok("predict", model, data, "--json").stdout)) == 50


def test_parquet_in(each_kind, data, tmp_path):
    pd.read_csv(data, dtype={"id": str}).to_parquet(tmp_path / "new.parquet")
    model = each_kind / "gaussian.safetensors"
    assert predicted(model, tmp_path / "new.parquet").equals(predicted(model, data))


def test_for_machines(each_kind, data, tmp_path):
    model = each_kind / "gaussian.safetensors"
    rows = json.loads(ok("predict", model, data, "--keep", "id", "--json").stdout)
    assert [r["id"] for r in rows] == [f"{i:03d}" for i in range(50)]
    assert [r["mean"] for r in rows] == pytest.approx(rgp.load(model).predict(TEST)[0], rel=1e-12)
    facts = answer("predict", model, data, "-o", tmp_path / "out.csv")
    assert (facts["rows"], facts["rows_left_out"]) == (50, 0)
    assert facts["columns"][-2:] == ["y_upper", "outside"]
    assert ok("predict", model, data, "-o", tmp_path / "out.csv", "-q").output == ""


def test_rows_with_missing_values(each_kind, data, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 10)
    table = pd.read_csv(data, dtype={"id": str})
    table.loc[[12, 40], "day"] = np.nan
    written(table, data)
    model, out = each_kind / "gaussian.safetensors", tmp_path / "out.csv"
    said = ok("predict", model, data, "-o", out).stderr
    assert "2 of 50 rows lack an input (day: 2): their predictions are empty" in said
    found = pd.read_csv(out, dtype={"id": str})
    assert found["id"].tolist() == table["id"].tolist()
    assert np.flatnonzero(found["mean"].isna()).tolist() == [12, 40]
    written(table[12:14], tmp_path / "two.csv")
    said = ok("predict", model, tmp_path / "two.csv", "-o", out).stderr
    assert "1 of 2 rows lacks an input (day: 1): its prediction is empty" in said
    ok("predict", model, data, "-o", out, "--drop-missing")
    assert pd.read_csv(out, dtype={"id": str})["id"].tolist() == table.drop([12, 40])["id"].tolist()


def test_models_without_column_names(data, tmp_path):
    m = rgp.fit(TRAIN[INPUTS].to_numpy(), TRAIN["y"], publish=5, name="m")
    m.save(tmp_path / "m.safetensors")
    said = one_line(call("predict", tmp_path / "m.safetensors", data))
    assert "3 columns, and the model, which does not know their names, has 2 inputs" in said
    table = predicted(tmp_path / "m.safetensors", data, "--inputs", "day,depth")
    assert np.array_equal(table["mean"], m.predict(TEST[INPUTS].to_numpy())[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.xlsx"], "predictions are written as CSV; write to out.csv"),
        (["-o", "new.csv"], "among those that are read"),
        (["-o", "absent/out.csv"], "absent/out.csv: No such file or directory"),
        (["-o", "."], "a folder, not a file to write"),
        (["--keep", "name"], "no column 'name'; there are id, depth, day"),
        (["--inputs", "id,day"], "the model was fitted on day, depth"),
        (["--likelihood", "normal"], "--likelihood normal is not known"),
    ],
)
def test_what_is_wrong_is_one_line(each_kind, data, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in one_line(call("predict", each_kind / "gaussian.safetensors", "new.csv", *options))
    assert os.listdir() == ["new.csv"]


def test_tables_and_models_that_do_not_fit(each_kind, data, tmp_path):
    model = each_kind / "gaussian.safetensors"
    other = written(TEST[["day"]], tmp_path / "other.csv")
    assert "no column 'depth'; there are day" in one_line(call("predict", model, other))
    clash = written(TEST.rename(columns={"y": "mean"}), tmp_path / "clash.csv")
    assert "'mean' has the name of a prediction" in one_line(call("predict", model, clash))
    assert "mean" in predicted(model, clash, "--keep", "day")
    assert "a table, not a model; `recyclegp fit` makes one of it" in one_line(call("predict", data, data))
    assert "No such file" in one_line(call("predict", tmp_path / "absent.safetensors", data))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk(each_kind, data):
    said = one_line(call("predict", each_kind / "gaussian.safetensors", data, "-o", "/dev/full"))
    assert said == "recyclegp: /dev/full: No space left on device"
    assert not os.path.isfile("/dev/full")


def test_a_failure_on_the_way_leaves_the_old_file(each_kind, data, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 10)
    out = tmp_path / "out.csv"
    out.write_text("what was there before")
    text = data.read_text().splitlines()
    data.write_text("\n".join([*text[:30], "x,y,z", *text[30:]]))
    said = one_line(call("predict", each_kind / "gaussian.safetensors", data, "-o", out))
    assert "column 'day' holds text ('z' in row 30)" in said
    assert out.read_text() == "what was there before"
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "out.csv"]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_who_stops_on_the_way_closes_the_table(each_kind, data, tmp_path, monkeypatch, suffix):
    """Not whenever memory is looked through: until then the file of a traceback stays open, which is a warning."""
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 10)
    table, streams = pd.read_csv(data, dtype={"id": str}).assign(y=TEST["y"]), []
    table.to_csv(tmp_path / f"table.{suffix}", index=False)
    opened = reading_text._opened
    monkeypatch.setattr(reading_text, "_opened", lambda *args: streams.append(opened(*args)) or streams[-1])

    def fail(*args):
        raise RuntimeError("on the way")

    monkeypatch.setattr("recyclegp.commands.predictions.Predictions.frame", fail)
    monkeypatch.setattr("recyclegp.commands.scores.Gathered.add", fail)
    monkeypatch.setattr("recyclegp.commands.division._codes", fail)
    monkeypatch.setattr("recyclegp.commands.division.MOST", 15)
    model, where = each_kind / "gaussian.safetensors", tmp_path / f"table.{suffix}"
    for command in (
        ("predict", model, where, "-o", tmp_path / "out.csv"),
        ("score", model, where, "-t", "y"),
        ("fit", where, "-t", "y", "-o", tmp_path / "out", "--partition-by", "id", "--things"),
        ("fit", where, "-t", "y", "-o", tmp_path / "out", "--partitions", "2", "--categories", "id", "--things"),
    ):
        failed = call(*command)
        assert failed.exit_code != 0, command
        assert len(streams) >= 2, command
        assert all(stream.closed for stream in streams), command
        streams.clear()


def test_rows_that_nobody_has_seen(owners, tmp_path):
    """One owner has days 0 to 4 and the other 3 to 7; both have depths from -1 to 1."""
    inside = pd.DataFrame({"day": [0.5, 3.5, 6.5], "depth": [0.0, 0.5, -0.5]})
    away = pd.DataFrame({"day": [-9.0, 3.5, 20.0], "depth": [0.0, 50.0, 0.0]})
    data = written(pd.concat([inside, away]), tmp_path / "some.csv")
    path = owners / "city.safetensors"
    said = ok("predict", path, data, "-o", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["outside"].tolist() == [0, 0, 0, 1, 1, 1]
    assert "3 of 6 rows lie outside every module's region" in said.stderr
    assert answer("predict", path, data, "-o", tmp_path / "out.csv")["rows_outside"] == 3
    assert "outside" not in ok("predict", path, written(inside, data), "-o", tmp_path / "out.csv").stderr
    north = owners / "parts" / "north.safetensors"
    assert predicted(north, written(inside, data))["outside"].tolist() == [0, 0, 1]
