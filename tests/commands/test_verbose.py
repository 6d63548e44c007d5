"""--verbose: what is being done, line by line on standard error, and nothing else is changed."""

import logging
import re

import pytest

from cases_cli import NORTH, SOUTH, call, ok, written
from recyclegp.commands import telling
from recyclegp.commands.screen import Screen

LEARNING = ["fit", "merge", "gain", "calibrate", "screen", "update", "add", "remove", "reweight"]
LEARNING += ["plan", "contribute", "combine", "join"]
LINE = re.compile(r" *\d+\.\d s  (\w+): (.+)")


def told(result):
    return [LINE.fullmatch(line).groups() for line in result.stderr.splitlines() if LINE.fullmatch(line)]


@pytest.mark.parametrize("command", LEARNING)
def test_every_command_that_learns_has_it(command):
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
