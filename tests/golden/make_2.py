"""Made the golden files of schema 2 in the folder 2. Run once per schema, never to make a failing test pass.

python tests/golden/make_2.py
"""

import json
from pathlib import Path

import numpy as np
import torch

import recyclegp as rgp

HERE = Path(__file__).parent / "2"
POINTS = [[-1.0, 0.3], [0.2, 1.1], [1.7, -2.0]]


def expected(model: rgp.Module | rgp.Ensemble, owners: list[str | None]) -> dict[str, object]:
    """Predictions of f, shared and of owners, and the evidence."""
    found = {str(owner): [t.tolist() for t in model.predict(np.array(POINTS), owner=owner)] for owner in owners}
    return {"predictions": found, "evidence": model.evidence}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    rng = np.random.default_rng(21)
    modules = []
    for k, (name, owner) in enumerate((("spring", "ward-7"), ("autumn", "ward-7"), ("lab", None))):
        X = rng.uniform(-2, 2, (30, 2))
        y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + (k == 2) + 0.1 * rng.standard_normal(30)
        options = {"target": "pressure", "unit": "mmHg", "columns": ["a", "b"], "owner": owner, "learn": False}
        modules.append(rgp.fit(X, y, publish=rng.uniform(-2, 2, (7, 2)), name=name, **options))
    exact = rgp.merge(modules, inducing="all", learn=False, owners="smooth")
    points = rgp.merge(modules, inducing=12, learn=False, owners="offset")
    everybody = [None, "new", "ward-7", "lab"]
    models = {
        "module": (modules[0], [None]),
        "exact": (exact, everybody),
        "exact-names": (exact.forget_sites(), everybody),
        "points": (points, everybody),
        "points-names": (points.forget_sites(), [None, "new"]),
    }
    for name, (model, _) in models.items():
        model.save(HERE / f"{name}.safetensors")
    answers = {name: expected(model, owners) for name, (model, owners) in models.items()}
    (HERE / "expected.json").write_text(json.dumps({"at": POINTS, **answers}, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
