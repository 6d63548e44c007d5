"""The README's Python runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X_a, X_b, X = rng.uniform(0, 3, (60, 1)), rng.uniform(2, 6, (80, 1)), np.linspace(0, 6, 7)[:, None]
    y_a = np.sin(2 * X_a[:, 0]) + 0.1 * rng.normal(size=60)
    y_b = (rng.uniform(size=80) < 1 / (1 + np.exp(-np.sin(2 * X_b[:, 0])))).astype(int)
    names = {"X_a": X_a, "y_a": y_a, "X_b": X_b, "y_b": y_b, "X": X}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S):
        exec(block, names)
    assert names["mean"].shape == names["variance"].shape == (7,)
    assert (names["variance"] > 0).all()
    assert set(names["e"].names) == {names["a"].name, names["b"].name}
