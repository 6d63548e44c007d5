"""One kernel and one noise from many modules' own, before anything is learned together."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from .kernels import Kernel, Node, dump, rebuild
from .likelihoods import Likelihood, family

if TYPE_CHECKING:
    from .ensemble import Member


def skeleton(kernel: Kernel) -> str:
    """The structure without centres: what two kernels must share for their parameters to be pooled."""
    return _skeleton(kernel.tree)


@lru_cache(maxsize=1024)  # many modules, few structures
def _skeleton(tree: str) -> str:
    def strip(node: Node) -> Node:
        return rebuild({**node, "centre": []} if node["kind"] == "centred" else node, strip)

    return dump(strip(json.loads(tree)))


def pool_kernels(kernels: Sequence[Kernel]) -> Kernel:
    """Coordinate-wise median of log-parameters (and of centres) of kernels with one skeleton.

    A mean would be wrecked by degenerate modules, whose lengthscales range from 1e-8 to 1e5.
    """
    theta = _median([list(k.theta) for k in kernels])
    if len({k.tree for k in kernels}) == 1:
        return Kernel(kernels[0].tree, tuple(theta))

    def merge(nodes: list[Node]) -> Node:
        first = dict(nodes[0])
        if first["kind"] == "centred":
            first["centre"] = _median([n["centre"] for n in nodes])
        if "base" in first:
            first["base"] = merge([n["base"] for n in nodes])
        if "parts" in first:
            first["parts"] = [merge([n["parts"][i] for n in nodes]) for i in range(len(first["parts"]))]
        return first

    return Kernel(dump(merge([json.loads(k.tree) for k in kernels])), tuple(theta))


def _median(rows: list[list[float]]) -> list[float]:
    if not rows[0]:
        return []
    return torch.tensor(rows, dtype=torch.float64).quantile(0.5, dim=0).tolist()


def pool_likelihoods(members: Sequence[Member]) -> tuple[Likelihood, ...]:
    """One likelihood per family, from its members' parameters, each counting with its rows."""
    found: dict[str, list[tuple[Likelihood, float]]] = {}
    for m in members:
        for p in m.likelihoods:
            if m.weight > 0:
                found.setdefault(p.name, []).append((p, m.rows * m.weight))
    pooled = []
    for name, entries in found.items():
        known = [(p.parameters, w) for p, w in entries if p.parameters]
        width = len(family(name).parameters) if known else 0
        weights = [w for _, w in known]
        values = [_pool([p[i] for p, _ in known], weights) for i in range(width)]
        pooled.append(Likelihood(name, tuple(values)))
    return tuple(pooled)


def _pool(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean, with values beyond ten times their median (or a tenth of it) brought back there.

    Of all single noise variances for a y from any of the modules the mean has the best expected density;
    the median, safe from degenerate modules too, is too small where noises differ (sunspots: by a third).
    """
    middle = math.exp(weighted_median([math.log(v) for v in values], weights))
    return float(np.average(np.clip(values, middle / 10, middle * 10), weights=weights))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The middle of the total weight; half-way between two values where it falls on their border."""
    order = np.argsort(values, kind="stable")
    v, w = np.asarray(values, dtype=float)[order], np.asarray(weights, dtype=float)[order]
    share = np.cumsum(w) / w.sum()
    low, high = int(np.searchsorted(share, 0.5 - 1e-12)), int(np.searchsorted(share, 0.5 + 1e-12))
    return float(0.5 * (v[low] + v[min(high, len(v) - 1)]))
