"""Made the golden file of correlated outputs, joint/coupled.safetensors. Run once per schema, never to mend a test.

python tests/golden/make_coupled.py
"""

import json

import numpy as np
import torch
from make_joint import COLUMNS, HERE, POINTS

import recyclegp as rgp

NAME = "coupled-merged"


def module(seed: int, name: str) -> rgp.Module:
    """Two outputs that go together, in units of their own; of the second some cells were not seen."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (30, 2))
    f = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    Y = np.stack([f, 30 - 4 * f], 1) + [0.1, 0.4] * rng.standard_normal((30, 2))
    Y[::4, 1] = np.nan
    how = {"target": ["heat", "salt"], "unit": ["K", None], "columns": COLUMNS, "publish": 4}
    return rgp.fit(X, Y, name=name, missing="allow", **how)


def main() -> None:
    modules = [module(1, "north"), module(2, "south")]
    merged = rgp.merge(modules, outputs="correlated", owners=None, trust=None, learn=False)
    merged.save(HERE / f"{NAME}.safetensors")
    of_f, of_y = merged.predict(np.array(POINTS)), merged.predict_y(np.array(POINTS))
    found = {"at": POINTS, "f": [t.tolist() for t in of_f], "y": [t.tolist() for t in of_y]}
    found |= {"covariance": merged.output_covariance.tolist(), "evidence": merged.evidence}
    (HERE / "expected-coupled.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
