"""Tables in whatever encoding somebody has saved them, and columns of codes that look like numbers."""

import gzip

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok
from recyclegp.commands.reading_text import _cells

GREETING = "was read as Windows-1252, so that there is 'Größe'"


def table(rows=40):
    rng = np.random.default_rng(0)
    size = rng.uniform(0, 6, rows)
    ward = np.array(["Süd", "Nord"])[np.arange(rows) % 2]
    return pd.DataFrame({"Größe": size, "ward": ward, "y": np.sin(size) + 0.1 * rng.standard_normal(rows)})


def saved(path, encoding, **how):
    content = table().to_csv(index=False, **how).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def fitted(tmp_path, path, *options):
    out = tmp_path / "m.safetensors"
    said = ok("fit", path, "-t", "y", "-o", out, *options)
    return rgp.load(out), said.stderr


@pytest.mark.parametrize(
    ("encoding", "options", "warned"),
    [
        ("utf-8", [], False),
        ("utf-8-sig", [], False),
        ("utf-16", [], False),  # with its mark, as Excel saves Unicode text
        ("cp1252", [], True),
        ("cp1252", ["--encoding", "windows-1252"], False),
        ("latin-1", ["--encoding", "latin-1"], False),
        ("mac-roman", ["--encoding", "mac-roman"], False),
        ("utf-16-le", ["--encoding", "utf-16-le"], False),
        ("utf-8", ["--encoding", "UTF8"], False),
    ],
)
def test_encodings(tmp_path, encoding, options, warned):
    module, said = fitted(tmp_path, saved(tmp_path / "t.csv", encoding), *options)
    assert module.columns == ("Größe", "ward")
    assert module.categories.names(1) == ("Nord", "Süd")
    assert (GREETING in said) is warned


def test_compressed(tmp_path):
    module, said = fitted(tmp_path, saved(tmp_path / "t.csv.gz", "cp1252"))
    assert module.columns == ("Größe", "ward")
    assert GREETING in said


def test_a_letter_far_below_is_found(tmp_path):
    """The first letter that is not ASCII may be in the last row."""
    rows = pd.DataFrame({"x": np.linspace(0, 1, 200_000), "note": "plain", "y": 1.0})
    rows.loc[199_999, "note"] = "naïve"
    (tmp_path / "t.csv").write_bytes(rows.to_csv(index=False).encode("cp1252"))
    model = tmp_path / "m.safetensors"
    x = np.linspace(0, 1, 30)
    rgp.fit(pd.DataFrame({"x": x}), np.sin(6 * x), noise=0.01, name="m").save(model)
    said = ok("predict", model, tmp_path / "t.csv", "-o", tmp_path / "p.csv")
    assert "so that there is 'naïve'" in said.stderr
    assert pd.read_csv(tmp_path / "p.csv")["note"].iloc[-1] == "naïve"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"x,y\n1,2\n\x81\x8d,3\n", [], "not a text table in UTF-8 or Windows-1252; name its --encoding"),
        ("x,ü\n1,2\n".encode("cp1252"), ["--encoding", "utf-8"], "not a text table in UTF-8"),
        (
            b"x,y\n1,2\n",
            ["--encoding", "klingon"],
            "--encoding klingon: it is not known; use one as utf-8",
        ),
        (b"x,y\n1,2\n", ["--encoding", "rot13"], "--encoding rot13: it is not known"),
        (b"x,y\n1,2\n", ["--sheet", "A"], "--sheet A: it is for tables in Excel files"),
        ("x,y\n1,2\n".encode("utf-16-le"), [], "not a text table in UTF-8; save it as CSV"),
    ],
)
def test_what_is_refused(tmp_path, content, options, message):
    (tmp_path / "t.csv").write_bytes(content)
    assert message in one_line(call("fit", tmp_path / "t.csv", "-t", "y", *options, "-o", tmp_path / "m.safetensors"))


# --- codes ------------------------------------------------------------------------------------


def test_cells_of_a_line():
    text = 'a,"b ""c"", d" , "7",\n\n"x\ny",08\n'
    assert list(_cells(text, ",")) == [
        [("a", False), ('b ""c"", d', True), ("7", True), ("", False)],
        [("", False)],
        [("x\ny", True), ("08", False)],
    ]


CODES = {
    "in quotes": ('"{i}"', "numbers in quotes, as text is"),
    "with zeros": ("{i:05d}", "numbers that begin with 0 (00000)"),
}


@pytest.mark.parametrize("what", CODES)
def test_columns_of_codes(tmp_path, what):
    form, reason = CODES[what]
    lines = ["ward,x,y", *(f"{form.format(i=i % 4)},{i / 7},{np.sin(i / 7)}" for i in range(60))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    model, said = fitted(tmp_path, tmp_path / "t.csv")
    assert f"column 'ward' holds {reason}; they were read as numbers. If they are ids or codes, leave" in said
    assert not model.categories
    model, said = fitted(tmp_path, tmp_path / "t.csv", "--categories", "ward")
    assert "codes" not in said
    assert len(model.categories.names(0)) == 4
    _, said = fitted(tmp_path, tmp_path / "t.csv", "-i", "x")
    assert "codes" not in said
    predicted = ok("predict", tmp_path / "m.safetensors", tmp_path / "t.csv").stdout.splitlines()
    assert predicted[1].split(",")[0] == form.format(i=0).strip('"')  # carried along as it was


def test_a_table_all_in_quotes_is_one_of_numbers(tmp_path):
    lines = ['"x","y"', *(f'"{i / 7}","{np.sin(i / 7)}"' for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert "codes" not in call("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m.safetensors").stderr
    assert answer("inspect", tmp_path / "m.safetensors")["rows"] == 40


def test_ordinary_numbers_are_no_codes(tmp_path):
    lines = ["x,y", *(f"0.{i}1,-0.5{i}" for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert "codes" not in call("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m.safetensors").stderr
