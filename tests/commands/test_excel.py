"""Workbooks are tables like any other: the same module comes of them as of the same rows in CSV."""

import datetime

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import NORTH, call, means, ok, written

openpyxl = pytest.importorskip("openpyxl")


def workbook(path, **sheets):
    """Of rows of cells for each sheet; a name that begins with _ is hidden text for nobody."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(path)
    return path


def cells(table):
    return [list(table.columns), *table.astype(object).where(table.notna(), None).itertuples(index=False)]


def module(tmp_path, path, *options):
    ok("fit", path, "-t", "y", "-o", tmp_path / "m.safetensors", *options)
    return rgp.load(tmp_path / "m.safetensors")


def test_the_same_as_csv(tmp_path, out):
    ok("fit", written(NORTH, tmp_path / "north.csv"), "-t", "y", "-o", tmp_path / "m.safetensors")
    ok("fit", workbook(tmp_path / "north.xlsx", Rows=cells(NORTH)), "-t", "y", "-o", out, "--name", "m")
    np.testing.assert_allclose(means(out), means(tmp_path / "m.safetensors"), rtol=1e-9)  # cells have 16 digits


def mixed(rows=60):
    """As hospitals have them: an id, a date, a word, a truth value, a number with gaps."""
    rng = np.random.default_rng(0)
    day = [datetime.datetime(2025, 3, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 300, rows)]
    age = rng.uniform(20, 80, rows)
    dose = [None if i % 20 == 7 else float(v) for i, v in enumerate(rng.integers(1, 5, rows))]
    return pd.DataFrame(
        {
            "id": [f"p-{i}" for i in range(rows)],
            "seen": pd.Series(day, dtype=object),
            "sex": ["f" if i % 3 else "m" for i in range(rows)],
            "smokes": [i % 4 == 0 for i in range(rows)],
            "age": age,
            "dose": pd.Series(dose, dtype=object),
            "y": np.sin(age / 10) + 0.1 * rng.standard_normal(rows),
        }
    )


@pytest.mark.parametrize("kind", ["xlsx", "csv"])
def test_dates_words_and_gaps(tmp_path, kind):
    table = mixed()
    path = tmp_path / f"t.{kind}"
    if kind == "xlsx":
        workbook(path, Rows=[*cells(table)[:5], [None] * 7, *cells(table)[5:], [None] * 7])
    else:
        table.assign(seen=[d.date() for d in table["seen"]]).to_csv(path, index=False)
    m = module(tmp_path, path, "-i", "seen,sex,smokes,age,dose", "--dates", "days", "--drop-missing")
    assert m.rows == 57
    assert m.columns == ("seen", "sex", "smokes", "age", "dose")
    assert m.categories.names(1) == ("f", "m")
    assert m.categories.names(2) == ("False", "True")
    assert m.region[0][0] > 20_000  # days since 1970
    how = ["--dates", "days", "--drop-missing", "--keep", "id,seen"]
    first = ok("predict", tmp_path / "m.safetensors", path, *how).stdout.splitlines()[1]
    assert first.split(",")[:2] == ["p-0", table["seen"][0].date().isoformat()]


def test_decimal_commas_in_text(tmp_path):
    rows = [[f"{x:.6f}".replace(".", ","), f"{np.sin(x):.6f}".replace(".", ",")] for x in np.linspace(0, 6, 40)]
    path = workbook(tmp_path / "t.xlsx", Rows=[["x", "y"], *rows])
    assert "not a comma; or say so with --decimal ," in one_line(
        call("fit", path, "-t", "y", "-o", tmp_path / "a.safetensors")
    )
    np.testing.assert_allclose(module(tmp_path, path, "--decimal", ",").predict([[1.5]])[0], np.sin(1.5), atol=0.1)


def test_sheets(tmp_path, out):
    path = workbook(tmp_path / "t.xlsx", Notes=[["read me"]], Rows=cells(NORTH), Empty=[])
    said = one_line(call("fit", path, "-t", "y", "-o", out))
    assert said == f"recyclegp: {path}: it has the sheets Notes, Rows; say which with --sheet Notes"
    assert module(tmp_path, path, "--sheet", "Rows").rows == len(NORTH)
    assert "--sheet Row: " in one_line(call("fit", path, "-t", "y", "--sheet", "Row", "-o", out))


BAD = {
    "empty": ({"A": []}, [], "it is empty"),
    "empty, named": ({"A": [], "B": [["x"], [1]]}, ["--sheet", "A"], "sheet 'A' is empty"),
    "no rows": ({"A": [["x", "y"]]}, [], "there are no rows below the header"),
    "cells without a name": ({"A": [["x", "y"], [1, 2], [3, 4, 5]]}, [], "cells beside its 2 columns"),
    "names repeat": ({"A": [["x", "x", "y"], [1, 2, 3]]}, [], "column names repeat"),
    "a column without a name": ({"A": [["x", None, "y"], [1, 2, 3]]}, [], "a column has no name"),
    "text": ({"A": [["x", "y"], *([i, float(i)] for i in range(9)), [1, "high"]]}, [], "text ('high' in row 10)"),
    "an encoding": ({"A": [["x", "y"], [1, 2]]}, ["--encoding", "utf-8"], "--encoding utf-8: it is for tables in CSV"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused(tmp_path, out, what):
    sheets, options, message = BAD[what]
    path = workbook(tmp_path / "t.xlsx", **sheets)
    assert message in one_line(call("fit", path, "-t", "y", *options, "-o", out))
    assert not out.exists()


@pytest.mark.parametrize("content", [b"no workbook at all", b"PK\x03\x04 cut short"])
def test_what_is_no_workbook(tmp_path, out, content):
    (tmp_path / "t.xlsx").write_bytes(content)
    assert "not a workbook that can be read" in one_line(call("fit", tmp_path / "t.xlsx", "-t", "y", "-o", out))


def test_missing_words_and_errors_of_formulas(tmp_path):
    rows = [[float(x), float(np.sin(x))] for x in np.linspace(0, 6, 40)]
    path = workbook(tmp_path / "t.xlsx", A=[["x", "y"], *rows, ["NA", 1.0], ["#N/A", 2.0], [3.0, None]])
    assert module(tmp_path, path, "--drop-missing").rows == 40
