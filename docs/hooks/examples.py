"""Examples become pages: every cell, with what it prints and draws when the documentation is built.

mkdocs calls `on_config` and `on_files`. Each script runs in a process and a folder of its own; a script that
fails stops the build. A new file in examples/ needs no entry anywhere. Notebooks show what is kept in them, which
tests/pages compares with what they print.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import notebooks

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples"
CACHE = ROOT / ".cache" / "examples"  # what they printed and drew, by script and library
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
    if ended.returncode or "RecycleGPWarning" in ended.stderr:  # nothing to show a beginner
        raise RuntimeError(f"{script.name} failed:\n{ended.stderr}")
    return [Output(*each) for each in json.loads(ended.stdout)]


def remembered(script: Path) -> Path:
    """A folder with what the script drew and `outputs.json`, made only where script or library have changed.

    They take a minute, and both the tests and the documentation want them.
    """
    digest = hashlib.sha256(script.read_bytes())
    for source in sorted((ROOT / "src").rglob("*.py")):
        digest.update(source.read_bytes())
    kept = CACHE / f"{script.stem}-{digest.hexdigest()[:16]}"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            outputs = run(script, Path(folder))
            (Path(folder) / "outputs.json").write_text(json.dumps(outputs))
            with contextlib.suppress(FileExistsError):  # somebody else was as fast
                shutil.copytree(folder, kept)
    return kept


def outputs_of(kept: Path) -> list[Output]:
    return [Output(*each) for each in json.loads((kept / "outputs.json").read_text())]


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
    elsewhere = str(config.nav)  # a page that has a place of its own there is not listed twice
    pages = [{title(s.read_text()): page} for s in scripts if (page := f"examples/{s.stem}.md") not in elsewhere]
    pages += [{f"Notebook: {notebooks.title(n)}": f"examples/{n.stem}.md"} for n in sorted(SCRIPTS.glob("*.ipynb"))]
    for entry in config.nav:
        if SECTION in entry:
            entry[SECTION] = pages
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    def make(script: Path) -> list[Any]:
        kept = remembered(script)
        outputs = outputs_of(kept)
        figures = {name: (kept / name).read_bytes() for o in outputs for name in o.figures}
        made = {f"{script.stem}.md": page(script, outputs), script.name: script.read_text(), **figures}
        return [File.generated(config, f"examples/{name}", content=content) for name, content in made.items()]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for made in pool.map(make, sorted(SCRIPTS.glob("*.py"))):
            for file in made:
                files.append(file)
    for notebook in sorted(SCRIPTS.glob("*.ipynb")):
        for name, content in notebooks.as_page(notebook).items():
            files.append(File.generated(config, f"examples/{name}", content=content))
    return files


if __name__ == "__main__":
    json.dump(execute(Path(sys.argv[1])), sys.stdout)
