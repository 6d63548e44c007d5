"""Made the golden files of schema 3 in the folder 3. Run once per schema, never to make a failing test pass.

python tests/golden/make_3.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import recyclegp as rgp

HERE = Path(__file__).parent / "3"
POINTS = {"a": [-1.0, 0.2, 1.7], "b": [0.3, 1.1, -2.0]}
LEVELS = {"a": [-1.0, 0.2, 1.7], "device": ["x", "y", "x"]}


def rows(seed: int) -> dict:
    """Inputs, and what was observed there in four ways."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-2, 2, (24, 2)), columns=["a", "b"])
    f = np.sin(2 * X["a"].to_numpy()) + 0.3 * X["b"].to_numpy()
    Y = np.stack([f, 30 - 4 * f], 1) + [0.1, 0.4] * rng.standard_normal((24, 2))
    Y[::4, 1] = np.nan
    kinds = np.array(["low", "middle", "top"])[np.digitize(f + 0.2 * rng.standard_normal(24), [-0.5, 0.5])]
    return {"X": X, "y": Y[:, 0], "Y": Y, "kinds": kinds, "noisy": f + np.exp(f - 1) * rng.standard_normal(24)}


def modules(seed: int, name: str, **more: object) -> dict:
    d, how = rows(seed), {"name": name, "publish": 4, "learn": False, **more}
    two = {"target": ["heat", "salt"], "unit": ["K", None], "missing": "allow"}
    seen = d["kinds"] != "top" if name == "south" else np.ones(24, dtype=bool)  # somebody who lacks a class
    return {
        "single": rgp.fit(d["X"], d["y"], target="heat", unit="K", **how),
        "outputs": rgp.fit(d["X"], d["Y"], **two, **how),
        "classes": rgp.fit(d["X"][seen], d["kinds"][seen], likelihood="categorical", **how),
        "varying": rgp.fit(d["X"], d["noisy"], likelihood="heteroscedastic", **how),
    }


def with_levels(seed: int, name: str, devices: list[str]) -> rgp.Module:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-2, 2, 24), "device": rng.choice(devices, 24)})
    Y = np.stack([np.sin(X["a"]), np.cos(X["a"]) + (X["device"] == "x")], 1) + 0.1 * rng.standard_normal((24, 2))
    return rgp.fit(X, Y, target=["heat", "salt"], name=name, publish=6, learn=False)


def learned() -> rgp.Ensemble:
    """Modules whose noise is pooled, of which one is in other units, and is not believed."""
    found = []
    for seed in range(11, 16):
        d = rows(seed)
        m = rgp.fit(d["X"], d["y"], name=f"m{seed}", publish=8)
        found.append(m.transform(output_scale=-10.0) if seed == 13 else m)
    return rgp.merge(found)


def merged(north: dict, south: dict) -> dict:
    """Ensembles: exact and at points, with sites and without, of functions alone and together."""
    how = {"learn": False, "trust": None}
    both = {kind: [north[kind], south[kind]] for kind in north}
    coupled = rgp.merge(both["outputs"], outputs="correlated", owners=None, **how)
    late = rgp.merge(both["single"], owners="offset", inducing=8, **how)
    more = with_levels(8, "south", ["y", "z", "w"])
    return {
        "exact": rgp.merge(both["single"], owners="smooth", inducing="all", **how),
        "exact-names": rgp.merge(both["single"], owners="smooth", inducing="all", **how).drop_sites(),
        "points": late.add(north["single"].rename("late").transform(output_shift=0.1, unit="K")).remove("south"),
        "points-names": late.drop_sites(),
        "outputs-merged": rgp.merge(both["outputs"], outputs="independent", owners=None, **how),
        "classes-merged": rgp.merge(both["classes"], owners=None, **how),
        "varying-merged": rgp.merge(both["varying"], owners=None, **how),
        "coupled": coupled,
        "coupled-points": rgp.merge(both["outputs"], outputs="correlated", owners="offset", inducing=10, **how),
        "coupled-names": coupled.drop_sites(),
        "categories-merged": rgp.merge([with_levels(7, "north", ["x", "y"]), more], outputs="independent", **how),
    }


def expected(model: rgp.Module | rgp.Ensemble, at: dict) -> dict[str, object]:
    X = pd.DataFrame(at)
    said = {"f": model.predict(X), "y": model.predict_y(X)}
    return {key: [t.tolist() for t in found] for key, found in said.items()} | {"evidence": model.evidence}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    north, south = modules(1, "north", owner="ward-7", time="2026-03-01"), modules(2, "south", time="2026-04-01")
    models = {"module": north["single"], **{kind: north[kind] for kind in ("outputs", "classes", "varying")}}
    models |= merged(north, south) | {"categories": with_levels(7, "north", ["x", "y"])}
    models["learned"] = learned()
    found: dict[str, object] = {"at": POINTS, "at levels": LEVELS}
    for name, model in models.items():
        model.save(HERE / f"{name}.safetensors")
        found[name] = expected(model, LEVELS if "categories" in name else POINTS)
    data = [(d["X"], d["Y"]) for d in (rows(seed) for seed in (3, 4, 5))]
    how = {"target": ["heat", "salt"], "missing": "allow", "publish": 4, "learn": False, "progress": False}
    many = rgp.fit_many(data, names=["x", "y", "z"], owners=["o", "o", "p"], times=[1, 2.5, 3], **how)
    many.save(HERE / "modules.safetensors")
    found["modules"] = {m.name: expected(m, POINTS) for m in many}
    (HERE / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
