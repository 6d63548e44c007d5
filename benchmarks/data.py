"""The data of the benchmarks: the experiments', and some of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from recyclegp.experiments.core import MissingDataError
from recyclegp.experiments.data import (
    NOISE,
    REGION,
    Array,
    Split,
    adjoining,
    banana,
    noisy,
    overlapping,
    shuffled,
    sunspots,
    wave,
)

__all__ = [
    "MissingDataError",
    "Split",
    "adjoining",
    "banana",
    "intervals",
    "kin40k",
    "noisy",
    "oracle",
    "overlapping",
    "shuffled",
    "sunspots",
]


def oracle(x: Array, y: Array, f: Callable[[Array], Array] = wave) -> float:
    """NLPD of knowing f and the noise, on these very points."""
    return float(np.mean(0.5 * np.log(2 * np.pi * NOISE) + (y - f(x)) ** 2 / (2 * NOISE)))


def intervals(K: int, n: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """`adjoining`, each part made when it is asked for: any number of rows in little memory."""
    edges = np.linspace(*REGION, K + 1)
    for k in range(K):
        rng = np.random.default_rng([seed, k])
        x = np.sort(rng.uniform(edges[k], edges[k + 1], n))
        yield x[:, None], noisy(x, rng)


def kin40k(folder: Path | None, mask: int) -> Split:
    """A robot arm: 40,000 rows of 8 inputs, with one of three standard test sets."""
    path = None if folder is None else folder / "kin40k.npz"
    if path is None or not path.exists():
        raise MissingDataError("kin40k: pass --data-dir with kin40k.npz (it is in no PyPI package)")
    d = np.load(path)
    test = d["test_mask"][:, mask]
    X, y = d["X"].astype(float), d["y"].astype(float).ravel()
    return Split(X[~test], y[~test], X[test], y[test])
