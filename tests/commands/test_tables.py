"""Tables as they come: decimal commas, pipes, damaged files among good ones."""

import gzip
import io
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import NORTH, SOUTH, X, answer, call, means, ok, written
from recyclegp.cli import app


def piped(table, *arguments):
    content = table if isinstance(table, bytes) else table.to_csv(index=False).encode()
    return CliRunner().invoke(app, list(map(str, arguments)), input=content)


@pytest.fixture
def plain(tmp_path):
    """What everything else must equal."""
    ok("fit", written(NORTH, tmp_path / "plain.csv"), "-t", "y", "--publish", 6, "-o", tmp_path / "plain.safetensors")
    return means(tmp_path / "plain.safetensors")


# --- decimal commas ---------------------------------------------------------------------------


def european(table, path, sep=";"):
    table.to_csv(path, index=False, sep=sep, decimal=",", float_format="%.17g")
    return path


@pytest.mark.parametrize("sep", [";", "\t"])
def test_decimal_commas(tmp_path, out, plain, sep):
    ok("fit", european(NORTH, tmp_path / "a.csv", sep), "-t", "y", "--decimal", ",", "--publish", 6, "-o", out)
    np.testing.assert_allclose(means(out), plain, rtol=1e-9)


def test_decimal_commas_in_questions_scores_and_updates(tmp_path, owners):
    city, rows = owners / "city.safetensors", SOUTH.assign(ward="a,b")
    written(rows, tmp_path / "p.csv")
    european(rows, tmp_path / "e.csv")
    scores = [
        answer("score", city, tmp_path / name, "-t", "y", *more)
        for name, more in (("p.csv", ()), ("e.csv", ("--decimal", ",")))
    ]
    assert scores[0]["nlpd"] == pytest.approx(scores[1]["nlpd"], rel=1e-9)
    ok("predict", city, tmp_path / "e.csv", "--decimal", ",", "-o", tmp_path / "out.csv")
    made = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(made["mean"], rgp.load(city).predict(SOUTH[["day", "depth"]])[0], rtol=1e-9)
    assert set(made["ward"]) == {"a,b"}
    new = tmp_path / "new.safetensors"
    ok("update", city, tmp_path / "e.csv", "-t", "y", "--decimal", ",", "-o", new)
    assert rgp.load(new).rows == 120


BAD = {
    "no option": ("x;y\n1;2,5\n", [], "not a comma; or say so with --decimal ,"),
    "commas between columns": ("x,y\n1,2\n", ["--decimal", ","], "columns are separated by semicolons or tabs"),
    "points as well": ("x;y\n1,5;2,5\n1.234;3\n", ["--decimal", ","], "'1.234', with a point, beside --decimal ,"),
    "thousands": ("x;y\n1.234,5;2,5\n", ["--decimal", ","], "'1.234,5', with a point"),
    "text in the target": ("x;y\n1,5;2,5\n2,5;low\n", ["--decimal", ","], "column 'y' holds text ('low' in row 2)"),
    "another mark": ("x;y\n1;2\n", ["--decimal", "'"], "--decimal ': use . or ,"),
}


@pytest.mark.parametrize("what", BAD)
def test_tables_that_are_not_what_is_said(tmp_path, out, what):
    text, options, message = BAD[what]
    (tmp_path / "a.csv").write_text(text)
    assert message in one_line(call("fit", tmp_path / "a.csv", "-t", "y", "-i", "x", *options, "-o", out))
    assert not out.exists()


def test_missing_cells_among_decimal_commas(tmp_path, out):
    lines = [f"{i},5;{np.sin(i):.6f}".replace(".", ",") for i in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["x;y", *lines, "NA;1,0", ";2,5"]) + "\n")
    assert answer("fit", tmp_path / "a.csv", "-t", "y", "--decimal", ",", "--drop-missing", "-o", out)["rows"] == 20


# --- pipes ------------------------------------------------------------------------------------


def test_a_table_from_standard_input(out, plain):
    assert piped(NORTH, "fit", "-", "-t", "y", "--publish", 6, "-o", out).exit_code == 0
    np.testing.assert_array_equal(means(out), plain)
    assert rgp.load(out).name == "out"
    zipped = gzip.compress(NORTH.to_csv(index=False).encode())
    assert piped(zipped, "fit", "-", "-t", "y", "--publish", 6, "-o", out).exit_code == 0
    np.testing.assert_array_equal(means(out), plain)


def test_predictions_through_a_pipe(owners):
    city = owners / "city.safetensors"
    said = piped(X, "predict", city, "-", "-o", "-")
    made = pd.read_csv(io.StringIO(said.stdout))
    np.testing.assert_allclose(made["mean"], rgp.load(city).predict(X)[0], rtol=1e-12)
    assert list(made)[:2] == ["day", "depth"]


def test_scores_updates_and_partitions_from_a_pipe(owners, tmp_path, out):
    city = owners / "city.safetensors"
    said = piped(SOUTH, "score", city, "-", "-t", "y", "--json")
    wanted = answer("score", city, written(SOUTH, tmp_path / "south.csv"), "-t", "y")
    assert json.loads(said.stdout)["nlpd"] == wanted["nlpd"]
    assert piped(SOUTH, "update", city, "-", "-t", "y", "-o", out).exit_code == 0
    assert rgp.load(out).rows == 120
    assert piped(SOUTH, "fit", "-", "-t", "y", "--partitions", 2, "--jobs", 1, "-o", out).exit_code == 0
    assert rgp.load(out).rows == 40


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input: it is empty"),
        (b"x,y\n", "standard input: there are no rows below the header"),
        (b"x,x\n1,2\n", "standard input: column names repeat ('x')"),
        (b"PAR1\x00\x00", "standard input: not a text table in UTF-8"),
        (b"x,y\n1,a\n", "standard input: column 'y' holds text"),
    ],
)
def test_pipes_that_hold_no_table(out, content, message):
    assert message in one_line(piped(content, "fit", "-", "-t", "y", "-i", "x", "-o", out))
    assert not out.exists()


# --- damaged files ----------------------------------------------------------------------------


@pytest.fixture
def inbox(owners, tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    for name in ("north", "south"):
        content = (owners / "parts" / f"{name}.safetensors").read_bytes()
        (folder / f"{name}.safetensors").write_bytes(content)
        (folder / f"{name}-cut.safetensors").write_bytes(content[:-40])
    (folder / "empty.safetensors").write_bytes(b"")
    return folder


def test_damaged_files_do_not_stop_inspect(inbox):
    said = call("inspect", inbox)
    assert said.exit_code == 2
    shown = said.stdout.splitlines()
    assert len(shown) == 3
    assert shown[1].startswith(str(inbox / "north.safetensors"))
    assert shown[2].startswith(str(inbox / "south.safetensors"))
    lines = said.stderr.splitlines()
    assert len(lines) == 3
    for line, name in zip(lines, ("empty", "north-cut", "south-cut"), strict=True):
        assert line.startswith(f"recyclegp: {inbox / name}.safetensors: ")
        assert line.count(name) == 1
        assert len(line) > len(str(inbox)) + 40  # with a reason


def test_damaged_files_to_a_machine(inbox):
    said = call("inspect", inbox, "--json")
    rows = json.loads(said.stdout)
    assert (said.exit_code, len(rows)) == (2, 5)
    assert [row["name"] for row in rows[:2]] == ["north", "south"]
    assert all(set(row) == {"file", "error"} for row in rows[2:])


def test_nothing_but_damaged_files(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.safetensors").write_bytes(b"nothing")
    said = call("inspect", tmp_path, tmp_path / "absent.safetensors")
    assert (said.exit_code, said.stdout) == (2, "")
    assert "absent.safetensors: No such file or directory" in said.stderr
    assert call("inspect", tmp_path / "a.safetensors").exit_code == 2


@pytest.mark.parametrize("command", ["merge", "screen", "serve"])
def test_damaged_files_are_named_with_a_way_on(inbox, out, command):
    if command == "serve":
        pytest.importorskip("uvicorn")
    options = {"merge": ("-o", out), "screen": (), "serve": ("--no-open",)}[command]
    said = one_line(call(command, inbox, *options))
    assert said.startswith(f"recyclegp: {inbox / 'empty.safetensors'}: ")
    others = ", ".join(str(inbox / f"{name}-cut.safetensors") for name in ("north", "south"))
    assert said.endswith(f"; nor can be read: {others}; move them out of the folder, or name the files")
    for name in ("empty", "north-cut"):
        (inbox / f"{name}.safetensors").unlink()
    said = one_line(call(command, inbox, *options))
    assert said.endswith("; move it out of the folder, or name the files")
    alone = one_line(call(command, inbox / "south-cut.safetensors", *options))
    assert "folder" not in alone
