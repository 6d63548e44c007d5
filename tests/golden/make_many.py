"""Made the golden file of many modules in the folder many. Run once per schema, never to make a failing test pass.

python tests/golden/make_many.py
"""

import json
from pathlib import Path

import numpy as np
import torch

import recyclegp as rgp

HERE = Path(__file__).parent / "many"
POINTS = [[-1.0, 0.3], [0.2, 1.1], [1.7, -2.0]]


def main() -> None:
    HERE.mkdir(exist_ok=True)
    rng = np.random.default_rng(22)
    data = []
    for n in (12, 20, 15, 40):
        X = rng.uniform(-2, 2, (n, 2))
        data.append((X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(n)))
    names, owners = ["spring", "autumn", "lab", "field"], ["ward-7", "ward-7", "lab", "field"]
    options = {"target": "pressure", "unit": "mmHg", "columns": ["a", "b"], "progress": False}
    modules = rgp.fit_many(data, names=names, owners=owners, **options)
    modules.save(HERE / "modules.safetensors")
    answers = {m.name: [t.tolist() for t in m.predict(np.array(POINTS))] for m in modules}
    (HERE / "expected.json").write_text(json.dumps({"at": POINTS, **answers}, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
