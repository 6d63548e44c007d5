"""The examples run, as scripts and as notebooks would."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")  # BoTorch's own fits
def test_three_laboratories(tmp_path, monkeypatch, capsys):
    pytest.importorskip("botorch")
    figure = tmp_path / "regret.png"
    arguments = ["three_laboratories.py", "--seeds", "1", "--rounds", "1", "--figure", str(figure)]
    monkeypatch.setattr(sys, "argv", arguments)
    names = runpy.run_path(str(EXAMPLES / "three_laboratories.py"))
    assert figure.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    for way in ("each alone", "merged", "pooled rows"):
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
