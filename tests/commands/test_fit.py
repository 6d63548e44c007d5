"""recyclegp fit: what is in a table, what is wrong with it, and where the module goes."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, owner, written
from recyclegp.commands import reading
from recyclegp.core.convergence import Convergence
from recyclegp.local import planning
from recyclegp.local.constants import PLANNING
from recyclegp.local.request import Method
from recyclegp.models import fit as library

TABLE = owner(0, 0, 4)
SMALL = ("--publish", 6)
SILENT = ("--things", *SMALL, "--kernel", "rbf")  # so smooth that six points keep most of it: nothing to warn about


@pytest.fixture
def data(tmp_path):
    return written(TABLE, tmp_path / "north.csv")


def same(a, b):
    """Two files say the same, but for the module's name."""
    one, other = rgp.load(a), rgp.load(b)
    assert one.columns == other.columns
    assert one.rows == other.rows
    return all(np.array_equal(x, y) for x, y in zip(one.site, other.site, strict=True))


def test_it_is_the_librarys_fit(data, tmp_path):
    facts = answer("fit", data, "--target", "y", *SMALL, "--seed", 3, "-o", tmp_path / "a.safetensors")
    made = rgp.load(tmp_path / "a.safetensors")
    direct = rgp.fit(TABLE[["day", "depth"]], TABLE["y"], publish=6, seed=3, name="a")
    assert np.array_equal(made.predict(TABLE)[0], direct.predict(TABLE)[0])
    assert (made.name, made.columns, made.rows) == ("a", ("day", "depth"), 40)
    assert facts["name"] == "a"
    assert facts["points"] == len(made.inducing) <= 6
    assert facts["converged"] is made.convergence.converged
    assert facts["rows_left_out"] == 0
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "north.csv"]


def test_options_reach_the_fit(data, tmp_path):
    path = tmp_path / "a.safetensors"
    options = ("--kernel", "matern52", "--method", "collapsed", "--inducing", 9, "--noise", 0.02, "--name", "ward 7")
    facts = answer("fit", data, "-t", "y", "-i", "depth,day", *options, "--publish", 5, "-o", path)
    assert facts["columns"] == ["depth", "day"]
    assert facts["kernel"].startswith("matern52(")
    assert (facts["method"], facts["name"], facts["points"]) == ("collapsed", "ward 7", 5)
    assert facts["noise"] == pytest.approx(0.02, rel=1e-12)


def test_owner_reaches_the_module(data, tmp_path):
    path = tmp_path / "a.safetensors"
    facts = answer("fit", data, "-t", "y", *SMALL, "--owner", "ward 7", "-o", path)
    assert (facts["name"], facts["owner"]) == ("a", "ward 7")
    assert rgp.load(path).owner == "ward 7"
    assert "owner               ward 7\n" in ok("inspect", path).stdout
    answer("fit", data, "-t", "y", *SMALL, "-o", path)
    assert answer("inspect", path)["owner"] == "a"
    assert "owner " not in ok("inspect", path).stdout


@pytest.mark.parametrize(("given", "kept"), [("2026-03-01", "2026-03-01"), ("17.5", 17.5)])
def test_time_reaches_the_module(data, tmp_path, given, kept):
    path = tmp_path / "a.safetensors"
    assert answer("fit", data, "-t", "y", *SMALL, "--time", given, "-o", path)["time"] == kept
    assert f"time                {kept}\n" in ok("inspect", path).stdout
    assert rgp.load(path).at_time(kept).time == rgp.load(path).time
    assert "--time soon: write a number" in one_line(call("fit", data, "-t", "y", "--time", "soon", "-o", path))


def test_in_words_and_quietly(data, tmp_path):
    said = ok("fit", data, "-t", "y", *SILENT, "-o", tmp_path / "a.safetensors")
    assert "40 rows of 2 inputs" in said.stdout
    assert "is any point a row" in said.stdout
    assert said.stderr == "words that will be in the file: name: a; columns: day, depth; target: y\n"
    assert ok("fit", data, "-t", "y", *SILENT, "-o", tmp_path / "a.safetensors", "-q").output == ""


def test_a_fit_that_ended_early_is_said_even_quietly(data, tmp_path, monkeypatch):
    real = library.fit

    def early(*args, **options):
        module = real(*args, **options)
        late = [latent._replace(convergence=Convergence(False, 9, "stopped")) for latent in module.latents]
        return dataclasses.replace(module, latents=tuple(late))

    monkeypatch.setattr(library, "fit", early)
    out = tmp_path / "a.safetensors"
    said = ok("fit", data, "-t", "y", *SILENT, "-o", out, "-q")
    assert said.output.startswith(f"recyclegp: warning: {out}: the fit ended early (stopped)")
    assert "NO: stopped, after 9 evaluations" in ok("inspect", out).stdout
    assert "a, NOT CONVERGED" in ok("inspect", tmp_path).stdout


def test_one_rule_for_where_to_publish(data, tmp_path, monkeypatch):
    """The command line publishes what the library does, by whatever method."""
    few = {**PLANNING.inducing, Method.COLLAPSED: 20}
    monkeypatch.setattr(planning, "PLANNING", PLANNING._replace(exact_rows=30, inducing=few))
    path = tmp_path / "a.safetensors"
    for options, arguments in (((), {}), (("--method", "exact"), {"method": "exact"})):
        found = answer("fit", data, "-t", "y", "-o", path, *options)
        module = rgp.fit(TABLE[["day", "depth"]], TABLE["y"], **arguments)
        assert (found["points"], found["kept"]) == (len(module.inducing), pytest.approx(module.kept, abs=5e-4))
    assert answer("fit", data, "-t", "y", "-o", path, "--publish", 3)["points"] == 3


# --- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv.gz", "tsv", "txt", "parquet", "CSV"])
def test_every_kind_of_table(data, tmp_path, suffix):
    other = tmp_path / f"other.{suffix}"
    if suffix == "parquet":
        TABLE.set_index(TABLE["y"] * 2).to_parquet(other)  # an index is not a column
    elif suffix == "txt":
        other.write_text("\ufeff" + TABLE.to_csv(index=False, sep=";").replace(";", " ; "))
    else:
        TABLE.to_csv(other, index=False, sep="\t" if suffix == "tsv" else ",")
    ok("fit", data, "-t", "y", *SMALL, "-o", tmp_path / "a.safetensors")
    ok("fit", other, "-t", "y", *SMALL, "-o", tmp_path / "b.safetensors")
    assert same(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_chunks_make_no_difference(data, tmp_path, monkeypatch, suffix):
    path = tmp_path / f"north.{suffix}"
    if suffix == "parquet":
        TABLE.to_parquet(path)
    ok("fit", path, "-t", "y", *SMALL, "-o", tmp_path / "a.safetensors")
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 7)
    ok("fit", path, "-t", "y", *SMALL, "-o", tmp_path / "b.safetensors")
    assert same(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_integers_are_numbers(tmp_path):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.integers(20, 80, 30), "ill": rng.integers(0, 2, 30)})
    table["y"] = 0.1 * table["age"] + table["ill"]
    for name, kind in (("a", table), ("b", table.astype(float))):
        ok("fit", written(kind, tmp_path / f"{name}.csv"), "-t", "y", *SMALL, "-o", tmp_path / f"{name}.safetensors")
    assert same(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_rows_with_missing_values_are_counted_or_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 10)
    holes = TABLE.copy()
    holes.loc[[3, 17], "day"] = np.nan
    holes.loc[[17, 31], "y"] = np.nan
    path = written(holes, tmp_path / "holes.csv")
    path.write_text(path.read_text().replace("\n,", "\nNA,"))
    out = tmp_path / "a.safetensors"
    said = one_line(call("fit", path, "-t", "y", "-o", out))
    assert "3 of 40 rows have missing or infinite values (day: 2, y: 2)" in said
    assert "--drop-missing" in said
    assert not out.exists()
    done = ok("fit", path, "-t", "y", *SILENT, "-o", out, "--drop-missing")
    assert done.stderr.splitlines()[0] == "3 of 40 rows left out: missing values"
    whole = written(holes.dropna(), tmp_path / "whole.csv")
    ok("fit", whole, "-t", "y", *SILENT, "-o", tmp_path / "b.safetensors")
    assert same(out, tmp_path / "b.safetensors")


def test_text_is_found_in_any_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 10)
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(25)) + "26,lots\n")
    assert "column 'y' holds text ('lots' in row 26)" in one_line(call("fit", path, "-t", "y", "-o", "a.safetensors"))


WRONG = {
    "a missing target": ("x,y\n1,2\n", ["-t", "z"], "no column 'z'; there are x, y"),
    "a missing input": ("x,y\n1,2\n", ["-t", "y", "-i", "x,w"], "no column 'w'; there are x, y"),
    "text in an input": ("x,y\n1,2\ntwo,3\n", ["-t", "y"], "column 'x' holds text among numbers ('two')"),
    "words in the target": ("x,y\n1,2\n2,lots\n", ["-t", "y"], "words for --likelihood categorical"),
    "a dash in the target": ("x,y\n1,2\n2,-\n", ["-t", "y"], "if it means missing, leave the cell empty"),
    "a date": ("x,y\n2020-01-01,2\n", ["-t", "y"], "column 'x' holds dates ('2020-01-01' in row 1)"),
    "the target as input": ("x,y\n1,2\n", ["-t", "y", "-i", "x,y"], "it is among the inputs"),
    "an input twice": ("x,y\n1,2\n", ["-t", "y", "-i", "x,x"], "names a column twice (x, x)"),
    "nothing but a target": ("y\n1\n", ["-t", "y"], "no column is left for the inputs"),
    "columns of one name": ("x,x,y\n1,2,3\n", ["-t", "y"], "column names repeat ('x')"),
    "a column without a name": (",x,y\n0,1,2\n", ["-t", "y"], "a column has no name (a row index?)"),
    "no rows": ("x,y\n", ["-t", "y"], "no rows below the header"),
    "nothing": ("", ["-t", "y"], "the file is empty"),
    "decimal commas": ("x,y\n1,5,2,5\n", ["-t", "y"], "rows have more fields than the 2 names"),
    "commas behind semicolons": ("x;y\n1;2,5\n", ["-t", "y"], "numbers need a decimal point, not a comma"),
    "commas between thousands": ('x,y\n1,"1,234"\n', ["-t", "y"], "if commas group thousands, take them out; if"),
    "many thousands": ('x,y\n1,"1,234,567"\n', ["-t", "y"], "take out what groups thousands (',')"),
    "points between thousands": ("x;y\n1.234.567;1\n", ["-t", "y"], "('.'), or take the column for categories with"),
    "no header line": ("1,2\n3,4\n", ["-t", "y"], "there are 1, 2; is there no header line?"),
    "a row too long": ("x,y\n1,2\n3,4,5\n", ["-t", "y"], "Expected 2 fields in line 3, saw 3"),
    "an open quote": ('x,y\n1,"2\n', ["-t", "y"], "EOF inside string"),
    "all rows incomplete": ("x,y\n1,\n,2\n", ["-t", "y", "--drop-missing"], "every row has missing"),
    "infinity": ("x,y\n1,2\ninf,2\n", ["-t", "y"], "1 of 2 rows has missing or infinite values (x: 1)"),
    "an unknown likelihood": (
        "x,y\n1,2\n",
        ["-t", "y", "--likelihood", "normal"],
        "--likelihood normal is not known",
    ),
    "an unknown kernel": ("x,y\n1,2\n", ["-t", "y", "--kernel", "rfb"], "--kernel rfb cannot be read"),
    "an unknown method": ("x,y\n1,2\n", ["-t", "y", "--method", "fast"], "--method fast is not known"),
    "a negative noise": ("x,y\n1,2\n", ["-t", "y", "--noise", "-1"], "--noise -1; pass a positive number"),
    "an owner nobody has met": ("x,y\n1,2\n", ["-t", "y", "--owner", "new"], "--owner new; use 1 to 200 printable"),
    "fractions for counts": ("x,y\n1,2.5\n", ["-t", "y", "--likelihood", "poisson"], "takes counts"),
    "a class for numbers": ("x,y\n1,2\n", ["-t", "y", "--positive", "2"], "use --likelihood bernoulli"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line(tmp_path, case):
    content, options, message = WRONG[case]
    (tmp_path / "a.csv").write_text(content)
    said = one_line(call("fit", tmp_path / "a.csv", *options, "-o", tmp_path / "a.safetensors"))
    assert said.startswith("recyclegp: ")
    assert message in said
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xls", b"PK\3\4", "save it as .csv, .csv.gz, .xlsx or .parquet"),
        ("a", b"x,y\n1,2\n", "save it as .csv"),
        ("a.gz", b"x,y\n1,2\n", "save it as .csv"),
        ("a.csv", b"PK\3\4\0\0\0", "not a text table in UTF-8"),
        ("a.csv", b"x,y\n" + b"1,2\n" * 3000 + b"\x81,2\n", "not a text table in UTF-8 or Windows-1252"),
        ("a.csv.gz", b"x,y\n1,2\n", "not a table that was compressed by gzip"),
        ("a.parquet", b"x,y\n1,2\n", "not a complete Parquet file"),
    ],
)
def test_files_of_the_wrong_type(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in one_line(call("fit", tmp_path / name, "-t", "y", "-o", tmp_path / "a.safetensors"))


def test_a_folder_or_nothing_instead_of_a_table(tmp_path):
    out = ("-t", "y", "-o", tmp_path / "a.safetensors")
    assert "not a table" in one_line(call("fit", tmp_path, *out))
    said = one_line(call("fit", tmp_path / "absent.csv", *out))
    assert said == f"recyclegp: {tmp_path / 'absent.csv'}: No such file or directory"


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    TABLE.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = one_line(call("fit", tmp_path / "a.parquet", "-t", "y", "-o", tmp_path / "a.safetensors"))
    assert 'pip install "pyarrow' in said


# --- classes ----------------------------------------------------------------------------------

CLASSES = {
    "0 and 1": ([0, 1], []),
    "-1 and 1": ([-1, 1], []),
    "booleans": ([False, True], []),
    "text": (["no", "yes"], ["--positive", "yes"]),
    "1 and 2": ([1, 2], ["--positive", "2"]),
}


def classes(labels, rows=16):
    x = np.linspace(-2, 2, rows)
    ones = (x + np.sin(5 * x) > 0).astype(int)
    return pd.DataFrame({"x": x, "y": np.array(labels)[ones]}), ones


@pytest.mark.parametrize("case", CLASSES)
def test_classes_by_any_two_labels(tmp_path, case):
    labels, options = CLASSES[case]
    table, ones = classes(labels)
    path = written(table, tmp_path / "a.csv")
    options = [*options, "--likelihood", "bernoulli", *SMALL]
    ok("fit", path, "-t", "y", *options, "-o", tmp_path / "a.safetensors")
    direct = rgp.fit(table[["x"]], ones, likelihood="bernoulli", publish=6)
    assert np.array_equal(rgp.load(tmp_path / "a.safetensors").predict(table)[0], direct.predict(table)[0])


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1, 2], [], "holds the classes 0, 1, 2; they must be two"),
        (["a", "b", "c"], [], "holds the classes a, b, c; they must be two"),
        (["no", "yes"], [], "holds the classes no, yes; say which of them is 1, as --positive yes"),
        ([1, 2], [], "holds the classes 1, 2; say which of them is 1, as --positive 2"),
        (["no", "yes"], ["--positive", "maybe"], "holds no such class, but no, yes"),
    ],
)
def test_classes_that_are_not_two(tmp_path, labels, options, message):
    path = written(pd.DataFrame({"x": range(6), "y": [labels[i % len(labels)] for i in range(6)]}), tmp_path / "a.csv")
    options = [*options, "--likelihood", "bernoulli", "-o", tmp_path / "a.safetensors"]
    assert message in one_line(call("fit", path, "-t", "y", *options))


def test_one_class_against_the_rest(tmp_path):
    table, ones = classes(["b", "a"])
    table.loc[:5, "y"] = "c"
    ones[:6] = 0
    path = written(table, tmp_path / "a.csv")
    options = ["--positive", "a", "--likelihood", "bernoulli", *SMALL, "-o", tmp_path / "a.safetensors"]
    ok("fit", path, "-t", "y", *options)
    direct = rgp.fit(table[["x"]], ones, likelihood="bernoulli", publish=6)
    assert np.array_equal(rgp.load(tmp_path / "a.safetensors").predict(table)[0], direct.predict(table)[0])


# --- where it goes ----------------------------------------------------------------------------


def test_outputs_that_cannot_be(data, tmp_path):
    (tmp_path / "folder.safetensors").mkdir()
    before = sorted(os.listdir(tmp_path))
    for path, message in [
        (tmp_path / "a.csv", f"files of models end in .safetensors; write to {tmp_path / 'a.safetensors'}"),
        (tmp_path / "absent" / "a.safetensors", "absent/a.safetensors: No such file or directory"),
        (tmp_path / "folder.safetensors", "a folder, not a file to write"),
        (data / "a.safetensors", "Not a directory"),
    ]:
        assert message in one_line(call("fit", data, "-t", "y", "-o", path))
    assert sorted(os.listdir(tmp_path)) == before


def test_an_output_that_cannot_be_is_said_before_the_work(data, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "fit", lambda *a, **k: pytest.fail("fitted first"))
    assert "No such file" in one_line(call("fit", data, "-t", "y", "-o", tmp_path / "no" / "a.safetensors"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(data, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    said = one_line(call("fit", data, "-t", "y", "-o", folder / "a.safetensors"))
    assert said == f"recyclegp: {folder / 'a.safetensors'}: Permission denied"


@pytest.mark.parametrize("existing", [True, False])
def test_a_full_disk_leaves_nothing_behind(data, tmp_path, monkeypatch, existing):
    out = tmp_path / "a.safetensors"
    if existing:
        out.write_bytes(b"what was there before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = one_line(call("fit", data, "-t", "y", *SILENT, "-o", out, "-q"))
    assert said == f"recyclegp: {out}: No space left on device"
    assert sorted(os.listdir(tmp_path)) == (["a.safetensors"] if existing else []) + ["north.csv"]
    assert not existing or out.read_bytes() == b"what was there before"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX's")
def test_a_real_limit_on_file_size(data, tmp_path):
    import resource

    arguments = ["fit", str(data), "-t", "y", "--publish", "20", "--things", "-o", "a.safetensors"]
    program = f"from recyclegp.cli import app; app({arguments})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert (done.returncode, done.stdout) == (2, "")
    *_, last = done.stderr.splitlines()
    assert last == "recyclegp: a.safetensors: File too large"
    assert os.listdir(tmp_path) == ["north.csv"]


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_options_that_make_a_file_say_less(data, tmp_path):
    path = tmp_path / "a.safetensors"
    facts = answer("fit", data, "-t", "y", "--rows-per-point", 10, "--round", 3, "-o", path)
    assert facts["points"] <= 4
    direct = rgp.fit(TABLE[["day", "depth"]], TABLE["y"], rows_per_point=10, name="a").rounded(3)
    assert np.array_equal(rgp.load(path).predict(TABLE)[0], direct.predict(TABLE)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows-per-point", 41), "--rows-per-point 41: 40 rows are too few"),
        (("--rows-per-point", 0), "--rows-per-point"),
        (("--round", 16), "--round"),
    ],
)
def test_nonsense_about_points_and_digits_is_one_line(data, tmp_path, options, message):
    done = call("fit", data, "-t", "y", *options, "-o", tmp_path / "a.safetensors")
    assert message in one_line(done)


def test_counts_choose_their_likelihood(tmp_path):
    """--likelihood counts, and what other commands do with what was chosen."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 6, 80)
    y = rng.negative_binomial(1.2, 1.2 / (1.2 + np.exp(1.5 + np.sin(x))))
    data, out = written(pd.DataFrame({"x": x, "y": y}), tmp_path / "n.csv"), tmp_path / "n.safetensors"
    ok("fit", data, "-t", "y", "--likelihood", "counts", "--inducing", 10, "-o", out)
    assert rgp.load(out).likelihood == "negative-binomial"
    table = tmp_path / "p.csv"
    ok("predict", out, data, "-o", table)
    assert pd.read_csv(table)["rate"].to_numpy() == pytest.approx(rgp.load(out).predict_y(x[:, None])[0])
    assert answer("score", out, data, "-t", "y")["nlpd"] > 0
    ok("plot", out, "-o", tmp_path / "p.png")
