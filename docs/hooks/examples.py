"""Examples become pages: every cell, with what it prints and draws when the documentation is built.

mkdocs calls `on_config` and `on_files`. Each script runs in a process and a folder of its own; a script that
fails stops the build. A new file in examples/ needs no entry anywhere.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).parents[2] / "examples"
SECTION = "Examples"  # of the navigation
FIRST = "first_merge"  # among them
CELL = re.compile(r"^# %%(.*)$", flags=re.M)


class Cell(NamedTuple):
    kind: str  # "markdown" or "code"
    source: str


class Output(NamedTuple):
    text: str
    figures: list[str]


def cells(script: str) -> list[Cell]:
    """The cells of a script in percent format."""
    _, *parts = CELL.split(script)
    found = []
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        if "[markdown]" in mark:
            lines = (re.sub(r"^# ?", "", line) for line in body.strip().splitlines())
            found.append(Cell("markdown", "\n".join(lines)))
        elif body.strip():
            found.append(Cell("code", body.strip()))
    return found


def title(script: str) -> str:
    return re.search(r"^# # (.*)$", script, flags=re.M)[1]


def execute(script: Path) -> list[Output]:
    """Every code cell, in this process and folder."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    found = []
    for cell in cells(script.read_text()):
        if cell.kind == "code":
            before = set(Path().rglob("*.png"))
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(cell.source, str(script), "exec"), names)
            drawn = sorted(f.as_posix() for f in set(Path().rglob("*.png")) - before)
            found.append(Output(printed.getvalue(), drawn))
    return found


def run(script: Path, folder: Path) -> list[Output]:
    """The same in a process of its own, which leaves its figures in the folder."""
    command = [sys.executable, str(Path(__file__).resolve()), str(script.resolve())]
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    if ended.returncode:
        raise RuntimeError(f"{script.name} failed:\n{ended.stderr}")
    return [Output(*each) for each in json.loads(ended.stdout)]


def page(script: Path, outputs: list[Output]) -> str:
    text, left = script.read_text(), iter(outputs)
    parts = []
    for cell in cells(text):
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        output = next(left)
        parts.append(f"```python\n{cell.source}\n```")
        if output.text:
            parts.append(f"``` {{ .text .output }}\n{output.text.rstrip()}\n```")
        parts += [f"![What {script.stem} draws]({name})" for name in output.figures]
    parts.append(f"[{script.name}]({script.name}) is this page as a script; its output was made with the page.")
    return "\n\n".join(parts) + "\n"


# --- what mkdocs calls ------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    scripts = sorted(SCRIPTS.glob("*.py"), key=lambda s: (s.stem != FIRST, s.stem))
    pages = [{title(s.read_text()): f"examples/{s.stem}.md"} for s in scripts]
    for entry in config.nav:
        if SECTION in entry:
            entry[SECTION] = pages
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    def make(script: Path) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            outputs = run(script, Path(folder))
            figures = {name: (Path(folder) / name).read_bytes() for o in outputs for name in o.figures}
        made = {f"{script.stem}.md": page(script, outputs), script.name: script.read_text(), **figures}
        return [File.generated(config, f"examples/{name}", content=content) for name, content in made.items()]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for made in pool.map(make, sorted(SCRIPTS.glob("*.py"))):
            for file in made:
                files.append(file)
    return files


if __name__ == "__main__":
    json.dump(execute(Path(sys.argv[1])), sys.stdout)
