"""Tables that are shown to the page: scored, predicted at, and read as strictly as modules are."""

import os
import tempfile
from io import BytesIO, StringIO

import numpy as np
import pandas as pd
import pytest

import cases_serve as cases
import recyclegp as rgp
from cases_joint import outputs
from recyclegp import metrics

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from recyclegp.commands.served_tables import ServedTables
from recyclegp.serve import app
from recyclegp.serve.worker import Limits

READER = ServedTables()


@pytest.fixture(scope="module")
def modules():
    return cases.modules()[:3]


@pytest.fixture(scope="module")
def client(modules):
    with cases.running(cases.serve_state(modules, reader=READER)) as address:
        yield cases.Client(address)


def as_csv(table):
    return table.to_csv(index=False).encode()


def show(client, content, name="test.csv", target=None, **headers):
    more = "" if target is None else f"&target={target}"
    return client.ask("POST", f"api/table?name={name}{more}", content, headers)


def read(modules, table, path, **how):
    path.write_bytes(as_csv(table))
    return ServedTables(**how).read(path, "shown.csv", modules, None)


# --- scored ---


def test_a_table_with_the_target_is_scored(client, modules):
    rows = cases.table(9, 0, 10, 50)
    assert show(client, as_csv(rows)).json() == {"file": "test.csv", "rows": 50, "scored": True}
    told = client.get("api/about").json()
    assert told["test"] == {"label": "test.csv", "rows": 50}
    assert (told["table"]["target"], told["table"]["left_out"]) == ("level", 0)
    for off, some in (([], modules), ([1], [modules[0], modules[2]])):
        scores = client.post("api/view", {"choice": {"off": off}}).json()["scores"]
        expected = metrics.score(rgp.merge(some), rows[["hour"]], rows["level"])
        assert scores["now"]["rmse"] == pytest.approx(expected.rmse, rel=1e-9)
        assert scores["now"]["nlpd"] == pytest.approx(expected.nlpd, rel=1e-9)


def test_another_table_takes_the_place_of_the_one_before(client):
    for seed, rows in ((1, 20), (2, 30)):
        assert show(client, as_csv(cases.table(seed, 0, 8, rows)), f"t{seed}.csv").status == 200
        assert client.get("api/about").json()["test"] == {"label": f"t{seed}.csv", "rows": rows}
        assert client.post("api/view", {}).json()["scores"]["kind"] == "test"


def test_the_target_can_be_named_on_the_page(client):
    rows = cases.table(3, 0, 8, 30).rename(columns={"level": "height"})
    assert not show(client, as_csv(rows)).json()["scored"]
    told = client.get("api/about").json()["table"]
    assert (told["target"], told["targets"], told["unscored"]) == (None, ["height"], "")
    assert show(client, as_csv(rows), target="height").json()["scored"]
    assert client.get("api/about").json()["table"]["target"] == "height"
    assert not show(client, as_csv(rows), target="depth").json()["scored"]
    assert "test.csv: no column 'depth'" in client.get("api/about").json()["table"]["unscored"]


def test_rows_that_lack_something_are_not_scored_but_predicted(modules, tmp_path):
    rows = cases.table(3, 0, 8, 30)
    rows.loc[:4, "level"] = np.nan
    rows.loc[10, "hour"] = np.nan
    found = read(modules, rows, tmp_path / "t.csv")
    assert (found.rows, found.left_out, len(found.test.y)) == (30, 6, 24)
    made = pd.read_csv(BytesIO(READER.predictions(rgp.merge(modules), found)))
    assert len(made) == 30
    assert made.loc[10, ["mean", "y_upper"]].isna().all()
    assert made["mean"].notna().sum() == 29


def test_a_target_that_cannot_be_scored_is_said_and_predicted_all_the_same(modules, tmp_path):
    rows = cases.table(3, 0, 8, 6).assign(level="high")
    found = read(modules, rows, tmp_path / "t.csv")
    assert found.test is None
    assert found.unscored.startswith("shown.csv: column 'level' holds text ('high' in row 1)")
    assert len(pd.read_csv(BytesIO(READER.predictions(rgp.merge(modules), found)))) == 6


def test_several_outputs_are_scored_each_on_the_rows_that_have_it(tmp_path):
    tables = [outputs(k, 0, 6, 60) for k in range(2)]
    both = [rgp.fit(t[["day"]], t[["heat", "salt"]], name=f"m{k}", publish=7) for k, t in enumerate(tables)]
    alone = rgp.fit(tables[0][["day"]], tables[0]["heat"], name="alone", publish=7)
    rows = outputs(8, 0, 6, 40)
    rows.loc[:9, "salt"] = np.nan
    found = read([alone, *both], rows[["day", "heat", "salt"]], tmp_path / "t.csv")
    assert found.target == "heat, salt"
    e = rgp.merge([alone, *both], owners=None)
    serve_state = cases.serve_state([alone, *both], settings=cases.state.Settings(owners=None))
    serve_state.show(found)
    scores = serve_state.scores(serve_state.snapshot.usual)
    expected = metrics.score_outputs(e, rows[["day"]], rows[["heat", "salt"]])
    assert scores["salt"].rmse == pytest.approx(expected["salt"].rmse, rel=1e-9)


def test_a_model_without_names_of_columns_takes_all_but_the_target(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (40, 2))
    m = rgp.fit(X, np.sin(X[:, 0]) + X[:, 1], name="m", publish=12, learn=False)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.sin(X[:, 0]) + X[:, 1])
    found = read([m], table, tmp_path / "t.csv", target="y")
    assert (found.target, len(found.test.y)) == ("y", 40)
    made = pd.read_csv(BytesIO(READER.predictions(rgp.merge([m]), found)))
    np.testing.assert_allclose(made["mean"], rgp.merge([m]).predict(X)[0], rtol=1e-6, atol=1e-6)


# --- predicted at ---


def test_predictions_are_those_of_what_is_chosen(client, modules):
    rows = cases.table(9, -1, 11, 40).assign(station=[f"s{k % 3}" for k in range(40)])[["station", "hour"]]
    assert not show(client, as_csv(rows), "new.csv").json()["scored"]
    answer = client.post("api/predictions", {"choice": {"off": [2]}})
    assert answer.headers["content-disposition"] == 'attachment; filename="predictions.csv"'
    assert answer.headers["content-type"].startswith("text/csv")
    made = pd.read_csv(StringIO(answer.text))
    assert list(made["station"]) == list(rows["station"])
    e = rgp.merge(modules[:2])
    mean, variance = e.predict(rows[["hour"]])
    np.testing.assert_allclose(made["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(made["sd"], np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(made["y_upper"], e.predict_interval(rows[["hour"]])[1], rtol=1e-9)
    assert set(made["outside"]) == {0, 1}


def test_a_column_that_is_called_like_a_prediction_is_said(modules, tmp_path):
    found = read(modules, cases.table(3, 0, 8, 6).assign(mean=1.0), tmp_path / "t.csv")
    with pytest.raises(rgp.RecycleGPError, match=r"shown\.csv: its column 'mean' has the name of a prediction"):
        READER.predictions(rgp.merge(modules), found)


def test_without_a_table_there_is_nothing_to_predict_at(modules):
    with cases.running(cases.serve_state(modules[:1], reader=READER)) as address:
        client = cases.Client(address)
        assert client.get("api/about").json()["table"] is None
        assert "there is no table to predict at" in client.post("api/predictions", {}).json()["error"]


# --- as strictly as modules ---


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "t.csv: the file is empty"),
        ("t.csv", b"day,level\n1,2\n", "t.csv: no column 'hour'; there are day, level"),
        ("t.exe", b"MZ", "t.exe: not a table this command reads"),
        ("t", b"hour\n1\n", "t: not a table"),
        ("t.csv", b"hour,hour\n1,2\n", "t.csv: column names repeat"),
        ("t.csv", b"hour\nnoon\n", "t.csv: column 'hour' holds text ('noon' in row 1)"),
        ("t.parquet", b"PAR1nothing", "t.parquet"),
        ("t.xlsx", b"PK\x03\x04nothing", "t.xlsx"),
        ("t.csv.gz", b"\x1f\x8bnothing", "t.csv.gz"),
    ],
)
def test_tables_that_cannot_be_read(client, name, content, message):
    before = client.get("api/about").json()
    answer = show(client, content, name)
    assert answer.status == 422
    assert message in answer.json()["error"]
    assert tempfile.gettempdir() not in answer.json()["error"]
    assert client.get("api/about").json() == before


@pytest.mark.parametrize("name", ["..%2F..%2Fetc%2Fpasswd.csv", "a.b%00.csv", "%3Cscript%3E.csv", "x" * 300 + ".csv"])
def test_names_are_only_names(client, name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answer = show(client, as_csv(cases.table(0, 0, 5, 6)), name)
    assert "/" not in answer.json().get("file", "")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("label", "suffix"),
    [("a.csv", ".csv"), ("a.CSV.GZ", ".csv.gz"), ("a.tar.gz", ".tar.gz"), ("a", ""), ("a.c/../b", ""), ("a.b c", "")],
)
def test_the_ending_says_how_it_is_read(label, suffix):
    assert app.table_suffix(label) == suffix


def test_a_table_that_is_too_large_is_not_read(client, monkeypatch):
    answer = show(client, b"x", **{"content-length": str(2**40)})
    assert (answer.status, answer.json()["error"]) == (413, "larger than the 64 MiB that this page takes")


def test_only_the_page_may_send_one(client):
    assert show(client, b"hour\n1\n", origin="http://evil.example").status == 403


def test_a_table_that_takes_for_ever_is_given_up(modules):
    with cases.running(
        cases.serve_state(modules[:1], reader=cases.SlowTables()), uploads=Limits(2.0, 2**34)
    ) as address:
        client = cases.Client(address)
        assert show(client, b"hour\n1\n").json()["error"].startswith("test.csv: given up: it took more than the 2 s")
        assert client.get("api/about").json()["table"] is None


def test_a_table_that_takes_all_memory_is_given_up(modules):
    with cases.running(
        cases.serve_state(modules[:1], reader=cases.HungryTables()), uploads=Limits(60.0, 2**31)
    ) as address:
        answer = show(cases.Client(address), b"hour\n1\n")
    assert answer.json()["error"] == "test.csv: it needs more than the 2 GiB of memory that this page allows"


def test_a_page_without_a_reader_takes_none(modules):
    with cases.running(cases.serve_state(modules[:1])) as address:
        client = cases.Client(address)
        assert not client.get("api/about").json()["tables"]
        assert "this page takes no tables" in show(client, b"hour\n1\n").json()["error"]


@pytest.mark.slow
def test_it_stays_where_the_process_that_answers_had_to_be_ended(modules):
    """The next one knows the table, too."""
    slow = cases.serve_state(modules[:2], reader=READER, settings=cases.state.Settings(owners=cases.Slow("auto")))
    with cases.running(slow, questions=Limits(1.5, 2**34)) as address:
        client = cases.Client(address)
        assert show(client, as_csv(cases.table(1, 0, 8, 20))).status == 200
        assert "given up" in client.post("api/view", {}).json()["error"]
        assert client.get("api/about").json()["table"]["rows"] == 20
