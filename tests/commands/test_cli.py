"""The command line: fast help, plain errors, one real run."""

import json
import os
import re
import subprocess
import sys
import warnings

import pytest
from typer.testing import CliRunner

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import call, ok
from recyclegp.cli import PANELS, app
from recyclegp.errors import Argument, Name, warn_user

PNG = b"\x89PNG\r\n\x1a\n"
COMMANDS = [function.__name__.replace("_", "-") for functions in PANELS.values() for function in functions]


def test_every_command_is_there():
    assert set(COMMANDS) == {
        *(
            "fit",
            "merge",
            "predict",
            "score",
            "plot",
            "inspect",
            "screen",
            "compare",
            "transform",
            "serve",
            "calibrate",
            "gain",
        ),
        *("update", "add", "remove", "reweight", "demo", "experiment"),
        *("keygen", "keys", "sign", "verify", "modules"),
        *("plan", "contribute", "combine", "gather-sum", "join-sum"),
        *("hub", "join", "leave", "coordinate"),
    }


@pytest.mark.slow
def test_help_does_not_import_anything_heavy():
    program = f"""
import sys
from recyclegp.cli import app
for arguments in [["--help"], ["--version"], *([command, "--help"] for command in {COMMANDS})]:
    try:
        app(arguments, prog_name="recyclegp")
    except SystemExit as ended:
        assert ended.code == 0, (arguments, ended.code)
heavy = {{"torch", "gpytorch", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "pyarrow"}} & set(sys.modules)
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "recyclegp" in done.stdout


def test_help_takes_less_than_a_second():
    """Of processor time, which a busy machine does not change."""
    before = os.times()
    program = "from recyclegp.cli import app; app(['--help'], prog_name='recyclegp')"
    subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    after = os.times()
    assert after.children_user - before.children_user + after.children_system - before.children_system < 1


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_common_options(command):
    said = ok(command, "--help").stdout
    assert f"Example: recyclegp {command} " in said
    for option in ("--json", "--quiet", "--help"):
        assert option in said
    assert "--seed" in said
    assert not re.search(r"<(bool|str|int|float|list|path)", said), "a type of Python's"


def completed(*words):
    """What a shell is told when somebody presses the tabulator behind these words."""
    asked = {"_RECYCLEGP_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    program = "from recyclegp.cli import app; app(prog_name='recyclegp')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env=os.environ | asked
    )
    return done.stdout.split()


def test_shells_complete_commands_and_options():
    assert completed("recyclegp", "me") == ["merge"]
    assert completed("recyclegp", "merge", "--tr") == ["--trust", "--trusted"]


def test_the_script_for_a_shell(monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    shown = CliRunner().invoke(app, ["--show-completion"], prog_name="recyclegp")
    assert shown.exit_code == 0, shown.output
    assert "_RECYCLEGP_COMPLETE=complete_bash" in shown.stdout


def test_version():
    result = call("--version")
    assert result.exit_code == 0
    assert result.stdout == f"recyclegp {rgp.__version__}\n"


def test_no_command_shows_help():
    assert "demo" in call().output


@pytest.mark.slow
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
    for arguments in (["--debug", "demo"], ["demo", "--debug"]):
        result = call(*arguments, "-o", tmp_path)
        assert result.exit_code == 2
        assert "Traceback" in result.stderr
        assert result.stderr.endswith("recyclegp: X is wrong; use another\n")


def test_warnings_of_the_library_are_one_line_each(tmp_path, monkeypatch):
    def warns(seed, folder):
        warnings.warn("mind\n the gap", rgp.RecycleGPWarning, stacklevel=1)
        warnings.warn("nobody's business", DeprecationWarning, stacklevel=1)
        raise rgp.RecycleGPError("over")

    monkeypatch.setattr("recyclegp.demo.run", warns)
    result = call("demo", "-o", tmp_path, "--quiet")
    assert result.stderr == "recyclegp: warning: mind the gap\nrecyclegp: over\n"


def test_messages_are_worded_for_the_command_line(tmp_path, monkeypatch):
    def fails(seed, folder):
        warn_user("a smaller ", Name("rows_per_point"), " would do")
        raise rgp.RecycleGPError(
            "f: ", rgp.RecycleGPError(Argument("trust", "x y"), "; or ", Argument("relearn", True))
        )

    monkeypatch.setattr("recyclegp.demo.run", fails)
    result = call("demo", "-o", tmp_path)
    warning, error = result.stderr.splitlines()
    assert warning == "recyclegp: warning: a smaller --rows-per-point would do"
    assert error == "recyclegp: f: --trust 'x y'; or --relearn"


def test_a_bug_is_not_dressed_up(tmp_path, monkeypatch):
    def fails(seed, folder):
        raise ZeroDivisionError

    monkeypatch.setattr("recyclegp.demo.run", fails)
    result = call("demo", "-o", tmp_path)
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--seed", "x"], "Invalid value for '--seed'"),
        (["dmeo"], "No such command 'dmeo'"),
        (["demo", "--nope"], "No such option: --nope"),
        (["fit", "a.csv", "-o", "a.safetensors"], "Missing option '-t' / '--target'"),
        (["merge", "-o", "a.safetensors"], "Missing argument"),
    ],
)
def test_wrong_usage_is_one_line(arguments, message):
    said = one_line(call(*arguments))
    assert message in said
    assert "--help says more" in said


def test_wrong_usage_of_the_program_itself():
    result = call("--nope")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_a_traceback_only_on_request(tmp_path):
    for debug, traceback in (([], False), (["--debug"], True)):
        arguments = ["inspect", str(tmp_path / "absent"), *debug]
        program = f"from recyclegp.cli import app; app({arguments})"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert ("Traceback" in done.stderr) is traceback
        assert "No such file or directory" in done.stderr
