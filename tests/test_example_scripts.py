"""Examples run from beginning to end, and become pages that show what they print and draw."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"three_laboratories"}  # takes long, and has a test of its own
SCRIPTS = sorted(p for p in (ROOT / "examples").glob("*.py") if p.stem not in ELSEWHERE)


def hook():
    spec = importlib.util.spec_from_file_location("examples_hook", ROOT / "docs" / "hooks" / "examples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What the text of each example says of its numbers: where they are printed, and what holds of them.
CLAIMS = {
    "first_merge": (
        r"lab-a alone.*?RMSE (\S+).*merged.*?RMSE (\S+).*central.*?RMSE (\S+)",
        "b < a / 1.5 and b < c + 0.01",
    ),
    "hospitals": (r"merged +RMSE of f (\S+).*central +RMSE of f (\S+).*difference (\S+)", "a < b + 0.3 and c < 1e-6"),
    "streaming": (r"part-2 added.*?slack +(\S+).*part-2 and relearn.*?slack +(\S+)", "a > 100 and b < 1"),
    "mixed_tasks": (
        r"measured +RMSE.*?region (\S+).*yes-or-no.*?region (\S+).*merged.*?region (\S+)",
        "c < min(a, b) / 2",
    ),
    "big_data": (r"merged (\S+), with f known (\S+)\n.*pyramid (\S+),", "abs(a - b) < 0.005 and abs(c - a) < 0.005"),
    "publish_size": (r"\n +4 +\d+ +\S+ +(\S+).*\n +32 +\d+ +\S+ +(\S+)", "a > 0.1 and abs(b) < 0.005"),
    "plan": (r"in mean: (\S+).*in variance: (\S+)", "max(a, b) < 1e-8"),
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_runs(script, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    if script.stem in CLAIMS:
        where, what = CLAIMS[script.stem]
        found = re.search(where, done.stdout, flags=re.DOTALL).groups()
        assert eval(what, dict(zip("abc", map(float, found), strict=False))), (found, done.stdout)
        assert (tmp_path / f"{script.stem}.png").read_bytes().startswith(b"\x89PNG")


SCRIPT = """# %% [markdown]
# # A title
#
# Some *text*.

# %%
from pathlib import Path

x = 6 * 7
print(x)


# %% a cell with a name
Path("drawn.png").write_bytes(b"picture")
"""


def test_cells():
    cells = hook().cells(SCRIPT)
    assert [c.kind for c in cells] == ["markdown", "code", "code"]
    assert cells[0].source == "# A title\n\nSome *text*."
    assert cells[1].source.endswith("print(x)")
    assert hook().title(SCRIPT) == "A title"


def test_a_page_shows_what_the_script_printed_and_drew(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    outputs = hook().run(script, tmp_path)
    assert outputs == [("42\n", []), ("", ["drawn.png"])]
    page = hook().page(script, outputs)
    parts = [
        "# A title",
        "print(x)\n```",
        "``` { .text .output }\n42\n```",
        "![",
        "](drawn.png)",
        "[small.py](small.py)",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_a_script_that_fails_is_named(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text("# %%\nraise ValueError('no such luck')\n")
    with pytest.raises(RuntimeError, match=r"bad\.py failed(.|\n)*no such luck"):
        hook().run(script, tmp_path)
