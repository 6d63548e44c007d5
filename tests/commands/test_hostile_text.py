"""Words that come from files: they reach no path, no terminal, and no markup."""

import os

import numpy as np
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok
from hostile_files import GOLDEN, rebuilt, taken_apart

MODULE = (GOLDEN / "gaussian.safetensors").read_bytes()
NAMES = [
    "../../evil",
    "/tmp/evil",
    "..",
    "a/b",
    "C:\\evil",
    "[/]",
    "[red]x[/red]",
    ":smile:",
    "$\\frac{$",
    "<script>",
    "%s{0}",
]


def everything_below(folder):
    return sorted(os.path.join(base, f) for base, _, files in os.walk(folder) for f in files)


def test_names_never_become_paths(tmp_path, monkeypatch):
    """Whatever modules are called, commands write the files they were told to, and no others."""
    work = tmp_path / "a" / "b" / "c"
    (work / "in").mkdir(parents=True)
    monkeypatch.chdir(work)
    module = rgp.load(GOLDEN / "gaussian.safetensors")
    for i, name in enumerate(NAMES):
        shifted = module.transform(input_shift=np.full(2, 0.01 * i))
        shifted.rename(name).owned_by(name).save(work / "in" / f"{i}.safetensors")
    before = everything_below(tmp_path)
    ok("inspect", "in")
    ok("merge", "in", "--no-learn", "-o", "all.safetensors")
    ok("compare", "all.safetensors")
    ok("plot", "all.safetensors", "in/0.safetensors", "-o", "all.png")
    ok("plot", "all.safetensors", "-o", "all.html")
    ok("reweight", "all.safetensors", "../../evil=0.5", "-o", "less.safetensors")
    ok("remove", "all.safetensors", "../../evil", "--keep-kernel", "-o", "fewer.safetensors")
    written = {f"all.{kind}" for kind in ("safetensors", "png", "html")} | {"less.safetensors", "fewer.safetensors"}
    assert set(everything_below(tmp_path)) - set(before) == {str(work / name) for name in written}
    assert answer("inspect", "all.safetensors")["names"] == [NAMES[i] for i in sorted(range(len(NAMES)), key=str)]


def test_names_are_shown_as_they_are(tmp_path):
    module = rgp.load(GOLDEN / "gaussian.safetensors")
    for i, name in enumerate(NAMES):
        module.rename(name).save(tmp_path / f"{i}.safetensors")
    shown = ok("inspect", tmp_path).stdout
    assert all(name in shown for name in NAMES)


@pytest.mark.parametrize("field", ["written_by", "method"])
def test_texts_do_not_move_the_cursor(tmp_path, field):
    parts = taken_apart(MODULE)
    file = tmp_path / "m.safetensors"
    file.write_bytes(rebuilt(parts.outer, parts.header | {field: "\x1b[2J\x1b]0;title\a\r\u202e"}, parts.body))
    shown = ok("inspect", file).stdout
    assert "\\x1b[2J\\x1b]0;title\\x07\\r\\u202e" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_columns_do_not_move_the_cursor(tmp_path):
    parts = taken_apart(MODULE)
    for i in range(2):
        content = rebuilt(parts.outer, parts.header | {"columns": ["\x1b[2J", "b\nc"], "name": f"m{i}"}, parts.body)
        (tmp_path / f"{i}.safetensors").write_bytes(content)
    for arguments in (["inspect", tmp_path], ["inspect", tmp_path / "0.safetensors"]):
        shown = ok(*arguments).stdout
        assert "\\x1b[2J" in shown
        assert all(line.isprintable() for line in shown.splitlines())
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    said = one_line(call("predict", tmp_path / "0.safetensors", tmp_path / "x.csv"))
    assert said.isprintable()
