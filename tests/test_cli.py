"""The command line: fast help, plain errors, one real run."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import recyclegp as rgp
from cases_bad import one_line
from recyclegp.cli import app

PNG = b"\x89PNG\r\n\x1a\n"


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["demo", "--help"]])
def test_help_does_not_import_anything_heavy(arguments):
    program = f"""
import sys
from recyclegp.cli import app
try:
    app({arguments}, prog_name="recyclegp")
except SystemExit as ended:
    assert ended.code == 0, ended.code
heavy = {{"torch", "gpytorch", "numpy", "scipy", "sklearn", "matplotlib", "pandas"}} & set(sys.modules)
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "recyclegp" in done.stdout


def test_version():
    result = call("--version")
    assert result.exit_code == 0
    assert result.stdout == f"recyclegp {rgp.__version__}\n"


def test_no_command_shows_help():
    assert "demo" in call().output


def test_demo_as_json(tmp_path):
    folder = tmp_path / "new" / "folder"
    result = call("demo", "-o", folder, "--seed", 1, "--json")
    assert result.exit_code == 0, result.output
    numbers = json.loads(result.stdout)
    assert numbers["seed"] == 1
    assert list(numbers["scores"]) == ["A", "B", "C", "merged", "central"]
    assert numbers["figure"] == str(folder / "demo.png")
    assert (folder / "demo.png").read_bytes().startswith(PNG)
    # the files beside it are the published ones, and can be used
    assert rgp.load(folder / "merged.safetensors").names == ["A", "B", "C"]
    assert rgp.load(folder / "C.safetensors").likelihood == "bernoulli"


def test_an_output_that_is_a_file_is_one_line(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert one_line(call("demo", "-o", taken)) == f"recyclegp: {taken}: File exists"


@pytest.mark.parametrize("error", [rgp.RecycleGPError("X is wrong;\n use another"), OSError("X is wrong; use another")])
def test_errors_of_the_library_are_one_line(tmp_path, monkeypatch, error):
    def fails(seed, folder):
        raise error

    monkeypatch.setattr("recyclegp.demo.run", fails)
    assert one_line(call("demo", "-o", tmp_path)) == "recyclegp: X is wrong; use another"
    debugged = call("--debug", "demo", "-o", tmp_path)
    assert debugged.exception is error


def test_a_bug_is_not_dressed_up(tmp_path, monkeypatch):
    def fails(seed, folder):
        raise ZeroDivisionError

    monkeypatch.setattr("recyclegp.demo.run", fails)
    result = call("demo", "-o", tmp_path)
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("arguments", [["demo", "--seed", "-1"], ["demo", "--seed", "x"], ["dmeo"], ["demo", "--nope"]])
def test_wrong_usage_has_exit_code_2(arguments):
    result = call(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
