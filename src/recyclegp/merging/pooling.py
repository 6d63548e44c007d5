"""One kernel, mean and likelihood from many modules' own, before anything is learned together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.packing import PackedSites
from ..kernels import Kernel, Node, Unit, entries, parse, pool, weighted_median
from ..kernels.units import reference
from ..likelihoods import FAMILIES, Gaussian, Likelihood, named
from .constants import POOLING
from .member import Member, active
from .site_source import SiteSource, added, site_points


def most_common_kernel(members: Sequence[Member]) -> Kernel:
    """The median of the members that share the structure with most rows."""
    rows: dict[Node, float] = {}
    for m in active(members):
        rows[m.kernel.structure] = rows.get(m.kernel.structure, 0.0) + m.weighted_rows
    found = median_kernel(members, max(rows, key=lambda s: rows[s]))
    assert found is not None  # the structure is one of theirs
    return found


def median_kernel(members: Sequence[Member], structure: Node) -> Kernel | None:
    """The median of the members with this structure, each counting with its rows; None if there are none."""
    alike = [m for m in active(members) if m.kernel.structure == structure]
    return pool([m.kernel for m in alike], [m.weighted_rows for m in alike]) if alike else None


def largest_kernel(members: Sequence[Member], structure: Node) -> Kernel | None:
    """Of the member with most rows, if it has this structure."""
    largest = max(active(members), key=lambda m: m.weighted_rows)
    return largest.kernel if largest.kernel.structure == structure else None


def shorter_than_all(kernel: Kernel, members: Sequence[Member]) -> float | None:
    """By what factor a lengthscale is shorter than those of nearly all members; None if it is not far outside.

    A kernel that absorbs a contradiction between modules becomes far rougher than any of them has seen.
    """
    alike = [m for m in active(members) if m.kernel.structure == kernel.structure]
    lengths = [i for i, p in enumerate(entries(kernel.structure)) if p.name == "lengthscale" and p.unit is Unit.LENGTH]
    if not alike or not lengths:
        return None
    weights = np.array([m.weighted_rows for m in alike])
    table = torch.stack([m.kernel.theta for m in alike])[:, lengths].cpu().numpy()
    order = np.argsort(table, axis=0, kind="stable")
    share = np.cumsum(weights[order], axis=0) / weights.sum()
    # the shortest, but for members that together have next to no rows
    first = (share > POOLING.negligible).argmax(axis=0)
    shortest = np.take_along_axis(table, np.take_along_axis(order, first[None], 0), 0)[0]
    factor = math.exp(float((shortest - kernel.theta[lengths].cpu().numpy()).max()))
    return factor if factor > POOLING.shorter_lengthscale_factor else None


def kernel_by_name(name: str, members: Sequence[Member], store: SiteSource, dimension: int) -> Kernel:
    """A structure by name: pooled from the members that have it, else begun at the scale of them all."""
    kernel = parse(name, dimension, discrete_columns(members))
    alike = median_kernel(members, kernel.structure)
    if alike is not None:
        return alike
    centre = store.reduce(partial(_powers, about=torch.zeros(dimension, dtype=torch.float64)), added, 1, "scale").first
    centre = centre / store.points
    x = store.reduce(partial(_powers, about=centre), added, 1, "scale").second
    x = torch.where(x > 0, (x / store.points).sqrt(), torch.ones_like(x))
    some = active(members)
    some = some[:: -(-len(some) // POOLING.sample)]
    Z = next(site_points(store.packs(1))).Z[: POOLING.sample]
    variances = [float(m.kernel.to(Z.device).diagonal(Z).mean()) for m in some]
    middle = weighted_median(variances, [m.weighted_rows for m in some])
    return kernel.with_theta(reference(kernel.structure, x, centre, x.new_tensor(middle**0.5)))


def discrete_columns(members: Sequence[Member]) -> tuple[int, ...]:
    """The columns that members' kernels take for codes of levels."""
    structures = {m.kernel.structure for m in members}
    return tuple(sorted({column for structure in structures for column in structure.discrete}))


class _Powers(NamedTuple):
    """Sums over points, each (D,), of what they are away from somewhere, and of its square."""

    first: Tensor
    second: Tensor


def _powers(packs: Iterator[PackedSites], *, about: Tensor) -> _Powers:
    first, second = torch.zeros_like(about), torch.zeros_like(about)
    for c in site_points(packs):
        away = c.Z - about
        first, second = first + away.sum(0), second + away.square().sum(0)
    return _Powers(first, second)


def median_mean(members: Sequence[Member]) -> float:
    """Of the prior means, each counting with its module's rows."""
    known = active(members)
    return weighted_median([m.mean for m in known], [m.weighted_rows for m in known])


def pool_likelihoods(members: Sequence[Member]) -> tuple[Likelihood, ...]:
    """One likelihood of each family, from its members' parameters, each counting with its rows."""
    rows: dict[Any, float] = {}  # by identity, because members share their likelihoods; or by the noise that was pooled
    objects: dict[Any, Likelihood] = {}
    for m in active(members):
        if m.noise is not None:
            rows[(m.noise,)] = rows.get((m.noise,), 0.0) + m.weighted_rows
            continue
        for p in m.likelihoods:
            rows[id(p)] = rows.get(id(p), 0.0) + m.weighted_rows
            objects[id(p)] = p
    objects |= {key: Gaussian(*key) for key in rows if isinstance(key, tuple)}
    found: dict[str, list[tuple[Likelihood, float]]] = {}
    for key, p in objects.items():
        found.setdefault(p.name, []).append((p, rows[key]))
    pooled = []
    for name in (f for f in FAMILIES if f in found):  # in one order, whoever came first
        known = [(p.parameters, w) for p, w in found[name] if p.known]
        weights = [w for _, w in known]
        pooled.append(named(name, [_pool(values, weights) for values in zip(*(p for p, _ in known), strict=True)]))
    return tuple(pooled)


def with_unknown_filled(old: Sequence[Likelihood], pooled: Sequence[Likelihood]) -> tuple[Likelihood, ...]:
    """Likelihoods stay as they were, but for new families and for parameters that were not known before."""
    found = {p.name: p for p in pooled}
    kept = [p if p.known else found.get(p.name, p) for p in old]
    have = {p.name for p in old}
    return (*kept, *(p for p in pooled if p.name not in have))


def _pool(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean, with values far from their median brought back towards it.

    Of all single noise variances for a y from any of the modules the mean has the best expected density;
    the median, safe from degenerate modules too, is too small where noises differ.
    """
    middle = math.exp(weighted_median([math.log(v) for v in values], weights))
    return float(np.average(np.clip(values, middle / POOLING.outlier, middle * POOLING.outlier), weights=weights))
