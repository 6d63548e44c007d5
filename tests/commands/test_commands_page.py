"""docs/commands.md: every command on the page works, and prints what the page shows, but for the digits."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cases_cli import ok

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
NUMBER = re.compile(r"sha256:[0-9a-f]+|\b[0-9a-f]{8}\b|-?\d[\d,]*\.?\d*(e-?\d+)?")


def blind(text):
    """Without numbers, and without the spaces that make room for them."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip()


def commands():
    """(command, what the page shows below it), in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return [(command, "\n".join(shown)) for command, shown in found]


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("awk")), reason="the page uses a shell")
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setup, seen = "", set()
    for command, shown in commands():
        if command.startswith("table()"):
            setup = f"{command}\n"
        elif command.startswith("recyclegp "):
            arguments = shlex.split(command)[1:]
            seen.add(arguments[0])
            assert blind(ok(*arguments).stdout) == blind(shown), command
        else:
            done = subprocess.run(["bash", "-c", setup + command], capture_output=True, text=True, check=True)
            assert blind(done.stdout) == blind(shown), command
    assert seen >= {"fit", "merge", "predict", "plot", "score", "inspect", "compare"}
    assert seen >= {"update", "add", "remove", "reweight", "keygen", "sign", "verify"}
