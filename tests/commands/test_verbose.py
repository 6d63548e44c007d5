"""--verbose: what is being done, line by line on standard error, and nothing else is changed."""

import logging
import re
import subprocess
import sys

import pytest

import recyclegp as rgp
from cases_cli import NORTH, SOUTH, call, ok, written
from recyclegp.commands import telling
from recyclegp.commands.screen import Screen

LEARNING = ["fit", "merge", "gain", "calibrate", "screen", "update", "add", "remove", "reweight"]
LEARNING += ["plan", "contribute", "combine", "join"]
WAITING = ["demo", "experiment", "compare", "gather-sum", "join-sum", "hub", "serve"]  # which also take their time
LINE = re.compile(r" *\d+\.\d s  (\w+): (.+)")


def told(result):
    return [LINE.fullmatch(line).groups() for line in result.stderr.splitlines() if LINE.fullmatch(line)]


@pytest.mark.parametrize("command", LEARNING + WAITING)
def test_every_command_that_takes_its_time_has_it(command):
    assert re.search(r"-v, --verbose +Say on standard error", ok(command, "--help").stdout)


def test_fit_and_merge_say_what_they_do(tmp_path):
    rows = written(NORTH, tmp_path / "north.csv")
    fit = ["fit", rows, "--target", "y", "-o", tmp_path / "north.safetensors"]
    found = told(ok(*fit, "--verbose"))
    assert found[0] == ("Fitting", "begins")
    assert found[-1] == ("Fitting", "done")
    assert ("Fitting", "learning on 40 of 40 rows") in found
    ok("fit", written(SOUTH, tmp_path / "south.csv"), "--target", "y", "-o", tmp_path / "south.safetensors")
    merge = [
        "merge",
        tmp_path / "north.safetensors",
        tmp_path / "south.safetensors",
        "-o",
        tmp_path / "all.safetensors",
    ]
    loud, silent = ok(*merge, "-v"), ok(*merge)
    assert any("evidence" in message for _, message in told(loud))
    assert loud.stdout == silent.stdout
    assert told(silent) == told(ok(*merge, "-v", "--quiet")) == []
    assert loud.stdout != ok(*merge, "-v", "--json").stdout
    assert told(ok(*merge, "-v", "--json"))


@pytest.mark.slow
def test_the_demonstration_and_experiments_say_what_they_do(tmp_path):
    """With what the library logs meanwhile."""
    for name, arguments in {"demo": ["demo"], "toy": ["experiment", "toy"]}.items():
        found = told(ok(*arguments, "-o", tmp_path / name, "-v"))
        assert found[0][1] == "begins"
        assert found[-1][1] == "done"
        assert any("evidence" in message for _, message in found)


def test_compare_says_what_it_does(tmp_path):
    paths = [written(table, tmp_path / f"{name}.csv") for name, table in (("north", NORTH), ("south", SOUTH))]
    files = [path.with_suffix(".safetensors") for path in paths]
    for path, file in zip(paths, files, strict=True):
        ok("fit", path, "--target", "y", "-o", file)
    ok("merge", *files, "-o", tmp_path / "all.safetensors")
    loud, silent = (ok("compare", tmp_path / "all.safetensors", *files, *more) for more in (["-v"], []))
    assert told(loud)[0] == ("Comparing", "begins")
    assert told(loud)[-1] == ("Comparing", "done")
    assert (told(silent), loud.stdout) == ([], silent.stdout)


@pytest.mark.slow
def test_a_secure_sum_says_which_stage_it_is_at(tmp_path):
    plan = rgp.Plan(points=[[0.0], [4.0]], kernel="rbf", noise=0.1, columns=["day"], target="y", learn=False)
    plan.save(tmp_path / "plan.safetensors")
    folder = ["--folder", tmp_path / "sum", "--timeout", "60"]
    names = ("north", "south")
    asked = ["gather-sum", tmp_path / "plan.safetensors", "-o", tmp_path / "sum.safetensors", *folder]
    calls = [[*asked, "--owner", names[0], "--owner", names[1], "-v"]]
    for name, table in zip(names, (NORTH, SOUTH), strict=True):
        rows = written(table[["day", "y"]], tmp_path / f"{name}.csv")
        calls.append(["join-sum", tmp_path / "plan.safetensors", rows, "--target", "y", *folder, "-v"])
    running = [
        subprocess.Popen([sys.executable, "-m", "recyclegp", *map(str, c)], stderr=subprocess.PIPE, text=True)
        for c in calls
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    for stage in range(1, 5):
        assert f"Gathering: stage {stage} of 4: 2 owners are asked" in said[0]
    assert all("Taking part: keys of all owners: " in text for text in said[1:])


def test_an_error_is_the_last_line(tmp_path):
    rows = written(NORTH.assign(y=1.0).head(2), tmp_path / "few.csv")
    result = call("fit", rows, "--target", "y", "-o", tmp_path / "few.safetensors", "--verbose")
    assert result.exit_code == 2
    assert ("Fitting", "done") not in told(result)
    assert result.stderr.splitlines()[-1].startswith("recyclegp: ")


def test_how_much_is_done_is_said_now_and_then(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(telling.time, "monotonic", lambda: now)
    log = logging.getLogger("recyclegp")
    before = (list(log.handlers), log.level)
    with Screen(quiet=False, verbose=True).working("Merging", total=2500) as advance:
        for i in range(2500):
            now = 100.0 + 0.002 * i
            advance(by=1)
        log.debug("a \x1b[2J name")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "     0.0 s  Merging: begins",
        "     2.0 s  Merging: 1,001 of 2,500",
        "     4.0 s  Merging: 2,001 of 2,500",
        r"     5.0 s  Merging: a \x1b[2J name",
        "     5.0 s  Merging: done",
    ]
    assert (list(log.handlers), log.level) == before
