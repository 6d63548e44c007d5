"""recyclegp fit --partition-by and --partitions: a large table, and a folder of Parquet files."""

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_cli import answer, call, ok
from recyclegp.commands import reading
from recyclegp.engines.tasks import read_chunk

pytest.importorskip("pyarrow")
pytest.importorskip("joblib")

ROWS = 240
WARDS = ["north", "east", "south", "west"]


@pytest.fixture(scope="module")
def table():
    """Four wards in turns, each with a region of its own."""
    rng = np.random.default_rng(0)
    ward = np.arange(ROWS) % 4
    day = 2.0 * ward + rng.uniform(0, 2.5, ROWS)
    y = np.sin(day) + 0.1 * rng.standard_normal(ROWS)
    return pd.DataFrame({"day": day, "ward": np.array(WARDS)[ward], "y": y})


@pytest.fixture
def folder(table, tmp_path):
    made = tmp_path / "rows"
    made.mkdir()
    for i in range(3):
        table[i * 80 : (i + 1) * 80].to_parquet(made / f"{i}.parquet", index=False)
    return made


def refused(message, *arguments):
    result = call("fit", *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.startswith("recyclegp: ")
    assert "Traceback" not in result.stderr


def by_ward(table):
    return [(part[["day"]], part["y"]) for part in (table[table["ward"] == w] for w in WARDS)]


def test_a_module_for_each_value_and_one_ensemble(folder, table, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 37)  # pieces that end anywhere
    out = tmp_path / "city.safetensors"
    said = answer("fit", folder, "-t", "y", "--partition-by", "ward", "--jobs", 1, "-o", out)
    assert (said["kind"], said["names"], said["rows"]) == ("ensemble", WARDS, ROWS)
    assert said["columns"] == ["day"]
    expected = rgp.merge(rgp.fit_many(by_ward(table), names=WARDS), keep="names", owners=None, trust=None)
    e = rgp.load(out)
    assert e.evidence == pytest.approx(expected.evidence, rel=1e-4)
    assert e.target.name == "y"
    X = pd.DataFrame({"day": np.linspace(0, 8, 9)})
    np.testing.assert_allclose(e.predict(X)[0], expected.predict(X)[0], atol=1e-4)
    assert {p.name for p in tmp_path.iterdir()} == {"rows", "city.safetensors"}  # and no rows


def test_partitions_in_the_order_of_rows(folder, table, tmp_path):
    out = tmp_path / "city.safetensors"
    said = answer("fit", folder, "-t", "y", "-i", "day", "--partitions", 3, "--jobs", 1, "-o", out)
    assert said["names"] == ["part-0", "part-1", "part-2"]
    data = [(part[["day"]], part["y"]) for part in (table[:80], table[80:160], table[160:])]
    expected = rgp.merge(rgp.fit_many(data, names=said["names"]), keep="names", owners=None, trust=None)
    assert rgp.load(out).evidence == pytest.approx(expected.evidence, rel=1e-4)


def test_one_file_and_csv_too(table, tmp_path):
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    table.to_csv(tmp_path / "rows.csv", index=False)
    for name in ("rows.parquet", "rows.csv"):
        options = ("--partitions", 4, "--inputs", "day", "--jobs", 1, "-o", tmp_path / "city.safetensors")
        assert answer("fit", tmp_path / name, "-t", "y", *options)["modules"] == 4


def test_modules_are_kept_and_found_again(folder, tmp_path):
    modules, out = tmp_path / "modules", tmp_path / "city.safetensors"
    options = ("-t", "y", "--partition-by", "ward", "--jobs", 1)
    said = answer("fit", folder, *options, "-o", modules)
    assert (said["modules"], said["files"], said["found"], said["rows"]) == (4, 4, 0, ROWS)
    names = [m.name for path in sorted(modules.iterdir()) for m in read_chunk(path).modules]
    assert names == WARDS
    assert answer("fit", folder, *options, "-o", modules)["found"] == 4
    assert "not fitted again" in ok("fit", folder, *options, "-o", modules).stdout
    before = {p.name: p.stat().st_mtime_ns for p in modules.iterdir()}
    ok("fit", folder, *options, "--modules", modules, "-o", out)
    assert {p.name: p.stat().st_mtime_ns for p in modules.iterdir()} == before
    assert rgp.load(out).names == WARDS


def test_classes_by_their_labels(folder, table, tmp_path):
    labelled = table.assign(y=np.where(table["y"] > 0, "ill", "well"))
    labelled.to_parquet(tmp_path / "rows.parquet", index=False)
    options = ("-t", "y", "--partition-by", "ward", "--likelihood", "bernoulli", "--positive", "ill", "--jobs", 1)
    ok("fit", tmp_path / "rows.parquet", *options, "--publish", 5, "-o", tmp_path / "a.safetensors")
    assert rgp.load(tmp_path / "a.safetensors").target.labels == ("well", "ill")


def test_numbers_are_the_same_value_beside_missing_ones(table, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 50)
    holes = table.assign(ward=pd.array([None if i == 3 else i % 2 for i in range(ROWS)], dtype="Int64"))
    path = tmp_path / "rows.parquet"
    holes.to_parquet(path, index=False)
    options = (path, "-t", "y", "--partition-by", "ward", "--jobs", 1, "-o", tmp_path / "a.safetensors")
    refused("--partition-by ward: 1 row has no value there", *options)
    said = answer("fit", *options, "--drop-missing")
    assert said["names"] == ["0", "1"]
    assert said["rows"] == ROWS - 1


def test_missing_rows(table, tmp_path):
    path = tmp_path / "rows.parquet"
    table.assign(day=table["day"].where(table.index != 7)).to_parquet(path, index=False)
    options = (path, "-t", "y", "--partition-by", "ward", "--jobs", 1, "-o", tmp_path / "a.safetensors")
    refused("1 of 240 rows has missing", *options)
    said = answer("fit", *options, "--drop-missing")
    assert (said["rows"], said["rows_left_out"]) == (ROWS - 1, 1)


def test_wrong_combinations(folder, tmp_path):
    out = tmp_path / "a.safetensors"
    refused("two ways to divide", folder, "-t", "y", "--partition-by", "ward", "--partitions", 3, "-o", out)
    refused("a folder is not a table for one model; Parquet files", folder, "-t", "y", "-o", out)
    file = folder / "0.parquet"
    for extra in (("--dask", "tcp://127.0.0.1:1"), ("--jobs", 2), ("--modules", "m"), ("--skip-failed",)):
        refused(f"{extra[0]}: it is for many partitions", file, "-t", "y", "-o", out, *extra)
    parts = (folder, "-t", "y", "--partition-by", "ward")
    for extra in (("--name", "a"), ("--owner", "a"), ("--time", 3), ("--round", 3)):
        refused(f"{extra[0]}: it is for a single module", *parts, "-o", out, *extra)
    refused("leave --jobs out", *parts, "--jobs", 2, "--dask", "tcp://127.0.0.1:1", "-o", out)
    refused("and so is --modules", *parts, "--modules", tmp_path / "m", "-o", tmp_path / "n")
    refused("the rows are in this folder", *parts, "-o", folder)
    refused("a file that is there", *parts, "-o", file)
    refused("No such file", *parts, "-o", tmp_path / "absent" / "a.safetensors")
    refused("no column 'colour'", folder, "-t", "y", "--partition-by", "colour", "-o", out)
    refused("--partitions 500: there are 240 rows", folder, "-t", "y", "-i", "day", "--partitions", 500, "-o", out)


def test_folders_that_are_no_table(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    parts = ("-t", "y", "--partitions", 2, "-o", tmp_path / "a.safetensors")
    refused("holds no *.parquet files", tmp_path / "empty", *parts)
    pd.DataFrame({"z": [1.0]}).to_parquet(folder / "9.parquet", index=False)
    refused("files of one table have the same columns", folder, *parts)


@pytest.mark.slow
def test_on_a_cluster(folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    local, out = tmp_path / "local.safetensors", tmp_path / "cluster.safetensors"
    options = ("-t", "y", "--partition-by", "ward")
    ok("fit", folder, *options, "--jobs", 1, "-o", local)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        ok("fit", folder, *options, "--dask", cluster.scheduler_address, "-o", out)
    assert local.read_bytes() == out.read_bytes()


@pytest.mark.slow
def test_no_cluster(folder, tmp_path, monkeypatch):
    from recyclegp.engines import dask

    monkeypatch.setattr(dask, "PATIENCE", 0.5)
    parts = (folder, "-t", "y", "--partition-by", "ward", "-o", tmp_path / "a.safetensors")
    refused("no scheduler answers there", *parts, "--dask", "tcp://127.0.0.1:9")
