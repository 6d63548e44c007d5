"""Made the golden files with categories in the folder categories. Run once, never to make a failing test pass.

python tests/golden/make_categories.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import recyclegp as rgp

HERE = Path(__file__).parent / "categories"
ROWS = {"age": [0.3, -1.0, 1.4], "sex": ["f", "m", "f"], "device": ["a", "b", "c"]}


def expected(model: rgp.Module | rgp.Ensemble) -> dict[str, object]:
    """Predictions of f, the evidence, and the levels."""
    levels = {model.columns[c]: list(names) for c, names in model.categories.levels}
    return {"predictions": [t.tolist() for t in model.predict(pd.DataFrame(ROWS))], "evidence": model.evidence} | levels


def main() -> None:
    HERE.mkdir(exist_ok=True)
    rng = np.random.default_rng(22)
    modules = []
    for name, devices in (("north", ["a", "b", "c"]), ("south", ["d", "b"])):
        X = pd.DataFrame(
            {"age": rng.uniform(-2, 2, 30), "sex": rng.choice(["f", "m"], 30), "device": rng.choice(devices, 30)}
        )
        y = np.sin(2 * X["age"]) + 0.5 * (X["sex"] == "f") + 0.1 * rng.standard_normal(30)
        modules.append(rgp.fit(X, y, publish=8, name=name, learn=False))
    models = {
        "module": modules[0],
        "exact": rgp.merge(modules, inducing="all", learn=False),
        "points": rgp.merge(modules, inducing=10, learn=False),
    }
    for name, model in models.items():
        model.save(HERE / f"{name}.safetensors")
    (HERE / "expected.json").write_text(json.dumps({k: expected(m) for k, m in models.items()}, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
