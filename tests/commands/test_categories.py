"""Tables with columns of text on the command line: categories, dates, ids."""

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, written
from recyclegp.commands import reading

SMALL = ("--publish", 20)


def patients(seed, devices, rows=60):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, rows).round(2),
            "sex": rng.choice(["f", "m"], rows),
            "device": rng.choice(devices, rows),
            "ward": rng.integers(1, 4, rows),
        }
    )
    table["y"] = np.sin(table["age"] / 12) + 0.5 * (table["sex"] == "f") + 0.1 * rng.standard_normal(rows)
    return table


NORTH, SOUTH = patients(1, ["a", "b"]), patients(2, ["b", "c"])


@pytest.fixture
def city(tmp_path):
    for name, table in (("north", NORTH), ("south", SOUTH)):
        path = written(table, tmp_path / f"{name}.csv")
        ok("fit", path, "-t", "y", *SMALL, "--categories", "ward", "-o", tmp_path / f"{name}.safetensors", "-q")
    ok("merge", tmp_path / "north.safetensors", tmp_path / "south.safetensors", "-o", tmp_path / "city.safetensors")
    return tmp_path


def test_from_tables_to_predictions(city):
    facts = answer("inspect", city / "city.safetensors")
    assert facts["categories"] == {"sex": ["f", "m"], "device": ["a", "b", "c"], "ward": ["1", "2", "3"]}
    assert list(facts["region"]) == ["age"]
    said = ok("inspect", city / "city.safetensors").output
    assert "sex (2 levels: f, m), device (3 levels: a, b, c), ward (3 levels: 1, 2, 3)" in " ".join(said.split())
    new = SOUTH.assign(device="z").head(5)
    path = written(new, city / "new.csv")
    told = ok("predict", city / "city.safetensors", path, "-o", city / "out.csv")
    assert " ".join(told.output.split()).count("levels that the model has not seen: device (z)") == 1
    found = pd.read_csv(city / "out.csv")
    with pytest.warns(rgp.RecycleGPWarning, match="has not seen"):
        mean = rgp.load(city / "city.safetensors").predict(new.astype({"ward": str}))[0]
    np.testing.assert_allclose(found["mean"], mean)
    score = answer("score", city / "city.safetensors", city / "north.csv", "-t", "y")
    assert score["rmse"] < 0.2
    ok("update", city / "city.safetensors", path, "-t", "y", "-o", city / "more.safetensors", "-q", "--allow-small")
    assert answer("inspect", city / "more.safetensors")["categories"]["device"] == ["a", "b", "c", "z"]
    compared = answer("compare", city / "city.safetensors", city / "north.safetensors")
    assert any(row["name"] == "north" and row["standardised"] < 1 for row in compared)


def test_it_is_the_librarys_fit(city):
    made = rgp.load(city / "north.safetensors")
    X = NORTH.drop(columns="y").astype({"ward": str})
    direct = rgp.fit(X, NORTH["y"], publish=20, name="north", categories=["ward"])
    assert made.categories == direct.categories
    assert np.array_equal(made.predict(X)[0], direct.predict(X)[0])


def test_figures(city):
    for suffix in ("png", "html"):
        ok("plot", city / "city.safetensors", city / "north.safetensors", "-o", city / f"f.{suffix}", "--at", "sex=m")
    assert "sex = m" in (city / "f.html").read_text()
    assert "its levels are f, m" in one_line(
        call("plot", city / "city.safetensors", "-o", city / "g.png", "--at", "sex=x")
    )


@pytest.mark.parametrize("rows", [7, 65_536])
def test_text_that_comes_late(tmp_path, monkeypatch, rows):
    """The first rows of a column may look like numbers."""
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", rows)
    table = NORTH.assign(code=["1"] * 20 + ["x"] * 20 + ["y"] * 20)
    ok("fit", written(table, tmp_path / "a.csv"), "-t", "y", *SMALL, "-o", tmp_path / "a.safetensors")
    assert answer("inspect", tmp_path / "a.safetensors")["categories"]["code"] == ["1", "x", "y"]


@pytest.mark.parametrize("division", [("--partitions", 3), ("--partition-by", "ward")])
def test_partitions(tmp_path, division):
    path, out = written(pd.concat([NORTH, SOUTH]), tmp_path / "all.csv"), tmp_path / "all.safetensors"
    facts = answer("fit", path, "-t", "y", *SMALL, *division, "--jobs", 1, "-o", out)
    assert sorted(facts["categories"]["device"]) == ["a", "b", "c"]
    X = pd.concat([NORTH, SOUTH]).drop(columns="y")
    assert np.sqrt(np.mean((rgp.load(out).predict(X)[0] - pd.concat([NORTH, SOUTH])["y"]) ** 2)) < 0.2


def test_parquet_and_truths(tmp_path):
    table = NORTH.assign(sex=pd.Categorical(NORTH["sex"]), smoker=NORTH["age"] > 50)
    table.to_parquet(tmp_path / "a.parquet")
    written(table, tmp_path / "b.csv")
    for name in ("a.parquet", "b.csv"):
        facts = answer("fit", tmp_path / name, "-t", "y", *SMALL, "-o", tmp_path / "a.safetensors")
        assert facts["categories"] == {"sex": ["f", "m"], "device": ["a", "b"], "smoker": ["False", "True"]}


def test_dates(tmp_path):
    table = NORTH.assign(day=pd.date_range("2024-02-27", periods=60).strftime("%Y-%m-%d"))
    path, out = written(table, tmp_path / "a.csv"), tmp_path / "a.safetensors"
    said = one_line(call("fit", path, "-t", "y", *SMALL, "-o", out))
    assert (
        "column 'day' holds dates ('2024-02-27' in row 1); read them as days since 1970-01-01 with --dates days" in said
    )
    facts = answer("fit", path, "-t", "y", *SMALL, "-o", out, "--dates", "days")
    low, high = facts["region"]["day"]
    assert 19780 < low < high < 19840  # 2024-02-27 is day 19,780
    ok("predict", out, path, "--dates", "days", "-o", tmp_path / "p.csv")
    assert "holds dates" in one_line(call("predict", out, path))
    table.assign(day=pd.date_range("2024-02-27", periods=60)).to_parquet(tmp_path / "b.parquet")
    again = answer("fit", tmp_path / "b.parquet", "-t", "y", *SMALL, "-o", out, "--dates", "days")
    assert again["region"] == facts["region"]
    assert "use --dates days" in one_line(call("fit", path, "-t", "y", "-o", out, "--dates", "years"))


@pytest.mark.parametrize("decimal", [".", ","])
def test_dates_with_the_day_first(tmp_path, decimal):
    table, out = NORTH.assign(day=pd.date_range("2024-02-27", periods=60)), tmp_path / "a.safetensors"
    iso, path = written(table, tmp_path / "iso.csv"), tmp_path / "a.csv"
    table.assign(day=table["day"].dt.strftime("%d.%m.%Y")).to_csv(path, index=False, sep=";", decimal=decimal)
    options = ("-t", "y", *SMALL, "--decimal", decimal, "-o", out)
    assert "column 'day' holds dates ('27.02.2024' in row 1)" in one_line(call("fit", path, *options))
    facts = answer("fit", path, *options, "--dates", "days")
    expected = answer("fit", iso, "-t", "y", *SMALL, "-o", out, "--dates", "days")
    assert facts["region"]["day"] == pytest.approx(expected["region"]["day"], rel=1e-9)


def test_a_month_above_twelve_is_no_date_that_can_be_read(tmp_path):
    path, out = (
        written(NORTH.assign(version=["1.13.2024", "2.2.2024"] * 30), tmp_path / "a.csv"),
        tmp_path / "a.safetensors",
    )
    said = one_line(call("fit", path, "-t", "y", *SMALL, "-o", out))
    assert f"{path}: column 'version' holds dates as text; write them as 2026-03-01 and add --dates days" in said
    facts = answer("fit", path, "-t", "y", *SMALL, "-o", out, "--categories", "version")
    assert facts["categories"]["version"] == ["1.13.2024", "2.2.2024"]


WRONG = {
    "a dash": ({"age": ["-", *range(59)]}, [], "('-'); leave cells empty where it means missing, or take the column"),
    "ids": (
        {"id": [f"p{i}" for i in range(60)]},
        [],
        "column 'id' holds 60 different texts in 60 rows, as an id would",
    ),
    "a slip": ({"age": ["old", *range(59)]}, [], "column 'age' holds text among numbers ('old'); correct it"),
    "decimal commas": ({"age": [f"{i},5" for i in range(60)]}, [], "numbers need a decimal point"),
    "a gap": ({"sex": ["", *["f"] * 59]}, [], "1 of 60 rows has missing or infinite values (sex: 1)"),
    "no input": ({}, ["--categories", "size"], "--categories size: it is none of the inputs"),
}


@pytest.mark.parametrize(("change", "options", "message"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_one_line(tmp_path, change, options, message):
    path = tmp_path / "a.csv"
    NORTH.assign(**change).to_csv(path, index=False, sep=";" if "decimal" in message else ",")
    assert message in one_line(call("fit", path, "-t", "y", *options, "-o", tmp_path / "a.safetensors"))
    assert not (tmp_path / "a.safetensors").exists()


def test_ids_all_the_same(tmp_path):
    path = written(NORTH.assign(id=[f"p{i}" for i in range(60)]), tmp_path / "a.csv")
    facts = answer("fit", path, "-t", "y", *SMALL, "--categories", "id", "-o", tmp_path / "a.safetensors")
    assert len(facts["categories"]["id"]) == 60


def test_numbers_where_the_model_has_text(city):
    """And text where it has numbers."""
    path = written(NORTH.assign(age="old"), city / "b.csv")
    said = one_line(call("predict", city / "city.safetensors", path))
    assert "column 'age' holds text ('old' in row 1); the model has numbers there" in said
