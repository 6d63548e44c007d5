"""Made the golden files of several functions, in the folder joint. Run once per schema, never to mend a failing test.

python tests/golden/make_joint.py
"""

import json
from pathlib import Path

import numpy as np
import torch

import recyclegp as rgp

HERE = Path(__file__).parent / "joint"
POINTS = [[-1.0, 0.3], [0.2, 1.1], [1.7, -2.0]]
COLUMNS = ["a", "b"]


def data(seed: int):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (30, 2))
    heat = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(30)
    salt = 30 + X[:, 1] + 0.2 * rng.standard_normal(30)
    salt[::4] = np.nan
    kind = np.array(["low", "middle", "top"])[np.digitize(X[:, 0] + 0.2 * rng.standard_normal(30), [-0.7, 0.7])]
    noisy = np.sin(X[:, 0]) + np.exp(X[:, 1] - 1.5) * rng.standard_normal(30)
    return X, np.stack([heat, salt], 1), kind, noisy


def fitted(seed: int, name: str) -> dict:
    X, Y, kind, noisy = data(seed)
    how = {"name": name, "columns": COLUMNS, "publish": 4}
    seen = kind != "top" if name == "south" else np.ones(len(X), dtype=bool)  # somebody who lacks a class
    return {
        "outputs": rgp.fit(X, Y, target=["heat", "salt"], unit=["K", None], missing="allow", **how),
        "classes": rgp.fit(X[seen], kind[seen], likelihood="categorical", **how),
        "varying": rgp.fit(X, noisy, likelihood="heteroscedastic", **how),
    }


def main() -> None:
    HERE.mkdir(exist_ok=True)
    north, south = fitted(1, "north"), fitted(2, "south")
    found = {"at": POINTS}
    for kind in north:
        merged = rgp.merge([north[kind], south[kind]], owners=None, trust=None, learn=False)
        for name, model in ((kind, north[kind]), (f"{kind}-merged", merged)):
            model.save(HERE / f"{name}.safetensors")
            of_f, of_y = model.predict(np.array(POINTS)), model.predict_y(np.array(POINTS))
            found[name] = {"f": [t.tolist() for t in of_f], "y": [t.tolist() for t in of_y]}
    (HERE / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
