"""More than two classes: softmax against the Dirichlet-Gaussian approximation, merged against central and alone.

    python benchmarks/classes.py [--seeds 40 41 42] [--only iris] [--publish 64] [--json FILE]

Tables of scikit-learn (iris, wine, digits by their first 16 principal components), 70% of the rows for training, split
at random among eight owners; two of them lose all rows of one class. Scores are of the test rows, pooled over seeds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import recyclegp as rgp

OWNERS, LACKING = 8, 2
LIKELIHOODS = ("categorical", "categorical-softmax")
BINS = 15


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    found = {"iris": datasets.load_iris, "wine": datasets.load_wine, "digits": datasets.load_digits}[name]()
    return found.data, found.target


def prepared(name: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    X, y = table(name)
    order = rng.permutation(len(y))
    train, test = order[: int(0.7 * len(y))], order[int(0.7 * len(y)) :]
    if name == "digits":
        pca = PCA(16, random_state=0).fit(X[train])
        X = pca.transform(X)
    scale = StandardScaler().fit(X[train])
    return scale.transform(X[train]), y[train], scale.transform(X[test]), y[test]


def split(y: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of each owner; the first two lack one class each."""
    owner = rng.integers(0, OWNERS, len(y))
    parts = [np.flatnonzero(owner == k) for k in range(OWNERS)]
    lost = rng.choice(np.unique(y), LACKING, replace=False)
    for k, c in enumerate(lost):
        parts[k] = parts[k][y[parts[k]] != c]
    return parts


def expected_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Of the most probable class, in bins of equal width."""
    top, right = p.max(1), p.argmax(1) == y
    which = np.minimum((top * BINS).astype(int), BINS - 1)
    return float(sum(abs(right[which == b].mean() - top[which == b].mean()) * (which == b).mean() for b in set(which)))


def scores(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {
        "log_loss": float(-np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1)).mean()),
        "error": float((p.argmax(1) != y).mean()),
        "ece": expected_calibration_error(p, y),
    }


def probabilities(model: Any, X: np.ndarray, classes: list[str]) -> np.ndarray:
    """In the order of all classes; what a model has not met has no probability of its own."""
    found = np.full((len(X), len(classes)), 1e-6)
    found[:, [classes.index(c) for c in model.classes]] = model.predict_proba(X)
    return found / found.sum(1, keepdims=True)


def trial(name: str, likelihood: str, seed: int, publish: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X, y, X_test, y_test = prepared(name, rng)
    classes = [str(c) for c in np.unique(y)]
    parts = split(y, rng)
    began = time.perf_counter()
    names = [f"owner-{k}" for k in range(OWNERS)]
    modules = rgp.fit_many([(X[i], y[i]) for i in parts], names=names, likelihood=likelihood, publish=publish)
    fitted = time.perf_counter()
    merged = rgp.merge(modules)
    done = time.perf_counter()
    central = rgp.fit(X, y, likelihood=likelihood)
    last = time.perf_counter()
    return {
        "y": y_test,
        "merged": probabilities(merged, X_test, classes),
        "central": probabilities(central, X_test, classes),
        "alone": [probabilities(m, X_test, classes) for m in modules],
        "seconds": {"fits": fitted - began, "merge": done - fitted, "central": last - done},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[40, 41, 42])
    parser.add_argument("--only", nargs="+", default=["iris", "wine", "digits"])
    parser.add_argument("--likelihoods", nargs="+", default=list(LIKELIHOODS))
    parser.add_argument("--publish", default="auto", help="points of a module: auto, or a number")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for name in options.only:
        for likelihood in options.likelihoods:
            publish = int(options.publish) if options.publish.isdecimal() else options.publish
            trials = [trial(name, likelihood, seed, publish) for seed in options.seeds]
            y = np.concatenate([t["y"] for t in trials])
            row: dict[str, Any] = {"table": name, "likelihood": likelihood, "publish": publish, "seeds": options.seeds}
            for what in ("merged", "central"):
                row[what] = scores(np.concatenate([t[what] for t in trials]), y)
            alone = [scores(np.concatenate([t["alone"][k] for t in trials]), y) for k in range(OWNERS)]
            row["alone"] = {key: float(np.median([a[key] for a in alone])) for key in alone[0]}
            row["best_alone_log_loss"] = min(a["log_loss"] for a in alone)
            row["seconds"] = {key: float(np.mean([t["seconds"][key] for t in trials])) for key in trials[0]["seconds"]}
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
