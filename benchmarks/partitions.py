"""How to divide the rows of one data set: at random, or by region, as the estimators' `n_partitions` does.

    python benchmarks/partitions.py [--only NAME …] [--seeds N]

Eight parts, 64 published points each; the mean of −log p(y_t) on test points, in nats. The oracle knows f.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from recyclegp.sklearn import regions

PARTS = 8


class Case(NamedTuple):
    X: np.ndarray
    f: np.ndarray
    noise: float | None  # standard deviation; None for classes
    rows: int


def smooth(rng: np.random.Generator) -> Case:
    X = rng.uniform(0, 1, (7000, 2))
    return Case(X, np.sin(12 * X[:, 0]) * np.cos(9 * X[:, 1]) + 4 * X[:, 0] * X[:, 1], 0.2, 5000)


def rough(rng: np.random.Generator) -> Case:
    X, W, b = rng.uniform(0, 1, (7000, 2)), 25 * rng.normal(size=(200, 2)), rng.uniform(0, 2 * np.pi, 200)
    return Case(X, np.sqrt(2 / 200) * np.cos(X @ W.T + b).sum(1), 0.1, 5000)


def six(rng: np.random.Generator) -> Case:
    X = rng.uniform(0, 1, (7000, 6))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return Case(X, f / 5, 0.2, 5000)


def boundary(rng: np.random.Generator) -> Case:
    X = rng.uniform(0, 6, (3200, 2))
    return Case(X, 4 * (X[:, 1] - 3 - 2 * np.sin(X[:, 0])), None, 1200)


def checkerboard(rng: np.random.Generator) -> Case:
    X = rng.uniform(0, 6, (3200, 2))
    return Case(X, 6 * np.sin(2.5 * X[:, 0]) * np.cos(3 * X[:, 1]), None, 1200)


CASES = {c.__name__: c for c in (smooth, rough, six, boundary, checkerboard)}


def run(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, f, noise, n = CASES[name](rng)
    if noise is None:
        y = (rng.uniform(size=len(f)) < 1 / (1 + np.exp(-f))).astype(float)
        oracle = np.log1p(np.exp(-(2 * y - 1) * f))[n:].mean()
    else:
        y = f + noise * rng.normal(size=len(f))
        oracle = (0.5 * np.log(2 * np.pi * noise**2) + 0.5 * ((y - f) / noise) ** 2)[n:].mean()
    ways = {"random": np.array_split(rng.permutation(n), PARTS), "by region": regions(X[:n], PARTS)}
    for way, parts in ways.items():
        likelihood = "gaussian" if noise is not None else "bernoulli"
        modules = rgp.fit_many([(X[p], y[p]) for p in parts], likelihood=likelihood, progress=False)
        merged = rgp.merge(modules)
        nlpd = -merged.log_density(X[n:], y[n:]).mean()
        print(f"{name:13} seed {seed}  {way:10} {nlpd:8.4f}   oracle {oracle:8.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.only:
        for seed in range(options.seeds):
            run(name, seed)
