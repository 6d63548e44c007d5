"""The examples run, as scripts and as notebooks would, and become pages that show what they print and draw."""

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")  # BoTorch's own fits
def test_three_laboratories(tmp_path, monkeypatch, capsys):
    pytest.importorskip("botorch")
    figure = tmp_path / "regret.png"
    arguments = ["three_laboratories.py", "--seeds", "1", "--rounds", "1", "--figure", str(figure)]
    monkeypatch.setattr(sys, "argv", arguments)
    names = runpy.run_path(str(EXAMPLES / "three_laboratories.py"))
    assert figure.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    for way in ("each alone", "merged", "merged, fewer points", "pooled rows"):
        values = names["results"][way]
        assert values.shape == (2, 3 if way == "each alone" else 1)
        assert (values[1] <= values[0]).all()  # the best experiment so far never gets worse
        assert (values >= 0).all()
        assert re.search(rf"{way} +median regret \d\.\d+ → \d\.\d+ ", said)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_percent_format(path):
    text = path.read_text()
    assert text.startswith("# %% [markdown]\n# # ")
    for cell in re.split(r"^# %%", text, flags=re.M)[1:]:
        if cell.startswith(" [markdown]"):
            lines = cell.strip().splitlines()[1:]
            assert lines
            assert all(line.startswith("#") or not line for line in lines)


# --- as scripts -------------------------------------------------------------------------------

SCRIPTS = sorted(p for p in EXAMPLES.glob("*.py") if p.stem != "three_laboratories")  # which takes long

# What the text of each example says of its numbers: where they are printed, and what holds of them.
CLAIMS = {
    "first_merge": (
        r"lab-a alone.*?RMSE (\S+).*merged.*?RMSE (\S+).*central.*?RMSE (\S+)",
        "b < a / 1.5 and b < c + 0.01",
    ),
    "hospitals": (r"merged +RMSE of f (\S+).*central +RMSE of f (\S+).*difference (\S+)", "a < b + 0.3 and c < 1e-6"),
    "streaming": (r"part-2 on fixed points.*?slack +(\S+).*part-2 added.*?slack +(\S+)", "a > 100 and b < 1"),
    "mixed_tasks": (
        r"measured +RMSE.*?region (\S+).*yes-or-no.*?region (\S+).*merged.*?region (\S+)",
        "c < min(a, b) / 2",
    ),
    "big_data": (r"merged (\S+), with f known (\S+)\n.*pyramid (\S+),", "abs(a - b) < 0.005 and abs(c - a) < 0.005"),
    "publish_size": (r"\n +4 +\d+ +\S+ +(\S+).*\n +32 +\d+ +\S+ +(\S+)", "a > 0.1 and b < 0.005"),
    "several_functions": (
        r"RMSE of heat (\S+), of salt.*log-loss (\S+),.*hold (\S+) where it is quiet",
        "a < 0.4 and b < 0.4 and 0.88 < c < 0.98",
    ),
    "tour": (
        r"west: flagged: scaled.*=7.50062\).*0 of 3 modules contradict"
        r".*south +(\S+) mmHg.*merged +(\S+) mmHg.*place +(\S+) mmHg.*at 85 years ± (\S+) mmHg, with south ± (\S+)",
        "b < a and b < c + 0.1 and d > 2 * e",
    ),
    "plan": (r"in mean: (\S+).*in variance: (\S+)", "max(a, b) < 1e-8"),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_runs(script):
    """As the documentation will show it: that finds it done, as long as nothing has changed."""
    kept = hook("examples").remembered(script)
    said = "".join(output.text for output in hook("examples").outputs_of(kept))
    where, what = CLAIMS[script.stem]
    found = re.search(where, said, flags=re.DOTALL).groups()
    assert eval(what, dict(zip("abcde", map(float, found), strict=False))), (found, said)
    assert (kept / f"{script.stem}.png").read_bytes().startswith(b"\x89PNG")


# --- as pages ---------------------------------------------------------------------------------

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


def hook(name):
    """A file of docs/hooks, which is no package."""
    return importlib.import_module(name)


def test_cells():
    cells = hook("examples").cells(SCRIPT)
    assert [c.kind for c in cells] == ["markdown", "code", "code"]
    assert cells[0].source == "# A title\n\nSome *text*."
    assert cells[1].source.endswith("print(x)")
    assert hook("examples").title(SCRIPT) == "A title"


def test_a_page_shows_what_the_script_printed_and_drew(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    outputs = hook("examples").run(script, tmp_path)
    assert outputs == [("42\n", []), ("", ["drawn.png"])]
    page = hook("examples").page(script, outputs)
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
        hook("examples").run(script, tmp_path)
