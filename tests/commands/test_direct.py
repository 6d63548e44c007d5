"""What is done without typer: it says exactly what the long way says, and it is done without heavy imports."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from gpytorch.kernels import RBFKernel, ScaleKernel

import recyclegp as rgp
from cases_cli import NORTH, SOUTH, module, ok
from recyclegp.cli import PANELS, direct, full, help_pages, write_pages
from recyclegp.cli.help_pages import NAME
from recyclegp.models import plain_evidence

COMMANDS = [full.command_name(function) for functions in PANELS.values() for function in functions]
HEAVY = ("typer", "click", "rich", "numpy", "torch", "pandas", "dataclasses", "logging")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Modules and an ensemble, keys of theirs, and a dictionary."""
    pytest.importorskip("cryptography")
    place = tmp_path_factory.mktemp("direct")
    for table, name in ((NORTH, "north"), (SOUTH[["depth", "day", "y"]], "süd 東")):
        module(table, name).save(place / f"{name[:3]}.safetensors")
    rgp.merge([place / "nor.safetensors", place / "süd.safetensors"]).save(place / "city.safetensors")
    rgp.merge([place / "nor.safetensors"], inducing=3, keep="names", learn=False).save(place / "few.safetensors")
    (place / "keys").mkdir()
    ok("keygen", "-o", place / "anna")
    (place / "keys" / "anna.pub").write_bytes((place / "anna.pub").read_bytes())
    ok("sign", place / "nor.safetensors", place / "city.safetensors", "--key", place / "anna.pem")
    (place / "one").mkdir()
    (place / "one" / "süd.safetensors").write_bytes((place / "süd.safetensors").read_bytes())
    (place / "other.safetensors").write_bytes((place / "süd.safetensors").read_bytes())
    (place / "other.safetensors.sig").write_bytes((place / "nor.safetensors.sig").read_bytes())
    rows = np.linspace(0, 200, 400)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rough = ScaleKernel(RBFKernel())
        rough.base_kernel.lengthscale = 0.5
        large = rgp.fit(rows, np.sin(rows[:, 0]), publish=plain_evidence.MOST_POINTS + 1, kernel=rough, learn=False)
    large.save(place / "large.safetensors")
    (place / "short.safetensors").write_bytes((place / "nor.safetensors").read_bytes()[:-8])
    wards = rgp.Dictionary(place / "wards")
    for name in ("nor", "süd"):
        wards.add(place / f"{name}.safetensors", by="anna")
    return place


class Said(dict):
    """Exit code, standard output and standard error."""


def said(call, capsys):
    try:
        status = call()
    except SystemExit as ended:
        status = ended.code
    shown = capsys.readouterr()
    return Said(status=status, out=shown.out, err=shown.err)


def directly(arguments, capsys):
    return said(lambda: direct.run([str(a) for a in arguments]), capsys)


def at_length(arguments, capsys):
    return said(lambda: full.app([str(a) for a in arguments], prog_name=NAME), capsys)


# --- help -------------------------------------------------------------------------------------


def test_the_pages_are_those_of_typer():
    pages = {name: help_pages.page(name) for name in (NAME, *COMMANDS)}
    assert pages == write_pages.rendered(), "make help-pages writes them anew, after a change to what commands say"
    assert {name.removesuffix(".txt") for name in os.listdir(help_pages.FOLDER)} == set(pages)


@pytest.mark.parametrize("columns", ["80", "200"])
@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["-h"], ["--version"], ["merge", "--help"], ["gather-sum", "-h"]], ids=" ".join
)
def test_help_is_what_typer_prints(arguments, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    found = directly(arguments, capsys)
    assert found["status"] is not None
    assert found == at_length(arguments, capsys)


def test_a_narrow_terminal_has_pages_of_its_own(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert direct.run(["fit", "--help"]) is None
    assert max(map(len, at_length(["fit", "--help"], capsys)["out"].splitlines())) <= 60


@pytest.mark.parametrize("name", ["../help/fit", "fit.txt", "fitt", "", ".", "recyclegp", "FIT"])
def test_what_is_no_command_has_no_page(name):
    assert direct.run([name, "--help"]) is None


# --- commands ---------------------------------------------------------------------------------

TAKEN = [
    ["inspect", "nor.safetensors"],  # signed
    ["inspect", "./süd.safetensors"],
    ["inspect", "süd.safetensors", "-q"],
    ["inspect", "nor.safetensors", "süd.safetensors"],
    ["inspect", "wards"],
    ["inspect", "???.safetensors"],
    ["inspect", "one"],
    ["inspect", "other.safetensors"],  # signed, and changed since
    ["inspect", "gone.safetensors"],
    ["inspect", "gone.safetensors", "--json"],
    ["inspect", "city.safetensors"],  # an ensemble, signed
    ["inspect", "few.safetensors", "-q"],
    ["inspect", "nor.safetensors", "city.safetensors", "few.safetensors"],
    ["verify", "nor.safetensors", "--trusted", "keys"],
    ["verify", "--trusted", "keys", "nor.safetensors", "city.safetensors", "--quiet"],
    ["verify", "nor.safetensors", "süd.safetensors", "gone.safetensors", "--trusted", "keys"],
    ["verify", "*.safetensors", "--trusted", "keys", "--json"],
    ["verify", "one", "--trusted", "keys/"],
    ["modules", "wards"],
    ["modules", "wards", "--name", "s*", "--json"],
    ["modules", "wards", "--owner", "nobody", "-q"],
    ["modules", "wards", "--likelihood", "poisson"],
]
TAKEN += [
    ["inspect", "nor.safetensors", "--json"],
    ["inspect", "--json", "süd.safetensors", "nor.safetensors"],
    ["inspect", "one", "--json"],
    ["inspect", "nor.safetensors", "--json", "--quiet"],
]
LEFT = [
    ["inspect", "large.safetensors", "--json"],  # whose evidence takes torch
    ["inspect", "city.safetensors", "--json"],
    ["inspect", "few.safetensors", "nor.safetensors", "--json"],
    ["inspect", "short.safetensors"],
    ["inspect", "gone.safetensors", "nor.safetensors"],
    ["inspect", "nor.safetensors", "./nor.safetensors"],
    ["inspect", "keys"],
    ["inspect"],
    ["verify", "nor.safetensors"],
    ["verify", "--trusted", "keys"],
    ["verify", "nor.safetensors", "--trusted", "none"],
    ["verify", "nor.safetensors", "nor.safetensors", "--trusted", "keys"],  # a warning
    ["verify", "nor.safetensors", "--trusted", "keys", "--quiett"],
    ["verify", "nor.safetensors", "--trusted=keys"],
    ["verify", "nothing*", "--trusted", "keys"],
    ["modules", "wards", "wards"],
    ["modules", "wards", "--min-rows", "3"],
    ["modules", "wards", "--name", "--json"],
    ["modules", "wards", "--name", "a", "--name", "b"],
    ["modules", "--", "wards"],
    ["merge", "nor.safetensors"],
    ["nothing"],
]


@pytest.mark.parametrize("arguments", TAKEN, ids=" ".join)
def test_commands_say_what_they_say_at_length(folder, arguments, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    found = directly(arguments, capsys)
    assert found["status"] is not None
    assert found == at_length(arguments, capsys)


@pytest.mark.parametrize("arguments", LEFT, ids=" ".join)
def test_all_else_is_left_to_typer(folder, arguments, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert directly(arguments, capsys) == Said(status=None, out="", err="")


def test_shells_that_complete_are_left_to_typer(monkeypatch):
    monkeypatch.setenv(direct.COMPLETING, "complete_bash")
    assert direct.run(["--help"]) is None


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"], *TAKEN], ids=" ".join)
def test_nothing_heavy_is_imported(folder, arguments):
    program = (
        "import json, sys\nfrom recyclegp.cli import app\ntry:\n    app()\nfinally:\n"
        f"    print(json.dumps([m for m in {HEAVY} if m in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stderr.splitlines()[-1]) == [], done.stderr


def test_python_m_is_the_command(folder):
    for arguments in (["--help"], ["fit", "--foo"], ["modules", "wards"], ["fit", "--help", "--debug"], []):
        calls = ("from recyclegp.cli import app; app()", None)
        ways = [["-c", calls[0], *arguments], ["-m", "recyclegp", *arguments]]
        a, b = (subprocess.run([sys.executable, *way], cwd=folder, capture_output=True, check=False) for way in ways)
        assert (a.returncode, a.stdout, a.stderr) == (b.returncode, b.stdout, b.stderr)
        assert b"python -m" not in b.stdout + b.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of another kind")
def test_a_reader_who_has_seen_enough_is_no_error(folder):
    program = f"{sys.executable} -m recyclegp modules wards --json"
    done = subprocess.run(["sh", "-c", f"{program} | true"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
