"""One kernel, mean and likelihood from many modules' own, before anything is learned together."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.packing import PackedSites
from ..kernels import Kernel, Node, Unit, entries, parse, pool, weighted_median
from ..kernels.units import reference, smoother
from ..likelihoods import FAMILIES, Gaussian, Likelihood, named
from .constants import POOLING
from .influence import votes
from .member import Member, active
from .site_source import SiteSource, added, site_points
from .unfinished import is_unfinished


def most_common_kernel(members: Sequence[Member]) -> Kernel:
    """The median of the members that share the structure with most rows."""
    rows: dict[Node, float] = {}
    counted = active(members)
    for m, vote in zip(counted, _votes(counted), strict=True):
        rows[m.kernel.structure] = rows.get(m.kernel.structure, 0.0) + vote
    found = median_kernel(members, max(rows, key=lambda s: rows[s]))
    assert found is not None  # the structure is one of theirs
    return found


def median_kernel(members: Sequence[Member], structure: Node) -> Kernel | None:
    """The median of the members with this structure, each counting with its rows; None if there are none."""
    alike = _alike(members, structure)
    return pool([kernel for _, kernel in alike], _votes([m for m, _ in alike])) if alike else None


def _votes(members: Sequence[Member]) -> list[float]:
    return votes([m.weighted_rows for m in members])


def largest_kernels(members: Sequence[Member], structure: Node) -> list[Kernel]:
    """Of those members with this structure that have most rows, in an order that does not depend on theirs."""
    alike = _alike(members, structure)
    chosen = heapq.nlargest(POOLING.starts, alike, key=lambda own: (own[0].weighted_rows, own[1].theta.tolist()))
    return [kernel for _, kernel in chosen]


def _alike(members: Sequence[Member], structure: Node) -> list[tuple[Member, Kernel]]:
    """Members with this structure, or with one that is as smooth once matern52 is rbf, and their kernels as such."""
    same = [(m, m.kernel) for m in active(members) if m.kernel.structure == structure]
    if same:
        return same
    return [(m, k) for m in active(members) if (k := smoother(m.kernel)).structure == structure]


def shorter_than_all(kernel: Kernel, members: Sequence[Member]) -> float | None:
    """By what factor a lengthscale is shorter than those of nearly all members; None if it is not far outside.

    A kernel that absorbs a contradiction between modules becomes far rougher than any of them has seen.
    """
    alike = _alike(members, kernel.structure)
    lengths = [i for i, p in enumerate(entries(kernel.structure)) if p.name == "lengthscale" and p.unit is Unit.LENGTH]
    if not alike or not lengths:
        return None
    weights = np.array(_votes([m for m, _ in alike]))
    table = torch.stack([own.theta for _, own in alike])[:, lengths].cpu().numpy()
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
    middle = weighted_median(variances, _votes(some))
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
    return weighted_median([m.mean for m in known], _votes(known))


def pool_likelihoods(members: Sequence[Member]) -> tuple[Likelihood, ...]:
    """One likelihood of each family, from its members' parameters, each counting with its rows.

    Members whose searches elsewhere had not ended say nothing of theirs, where others do.
    """
    found: dict[str, dict[tuple[float, ...], float]] = {}  # votes, by parameters
    counted = active(members)
    alike: dict[tuple[tuple[Likelihood, ...], float | None, bool], float] = {}  # votes, of those who say the same
    for m, vote in zip(counted, _votes(counted), strict=True):
        key = m.likelihoods, m.noise, not is_unfinished(m.about, m.latent)
        alike[key] = alike.get(key, 0.0) + vote
    told = set[str]()  # by those who are sure, where others are not
    if not all([sure for _, _, sure in alike]):
        told = {p.name for likelihoods, _, sure in alike if sure for p in likelihoods if p.known}
    for (likelihoods, noise, sure), vote in alike.items():
        said = [(p.name, p.parameters if sure or p.name not in told else ()) for p in likelihoods]
        if noise is not None:  # to which it was brought
            said = [(Gaussian.name, (noise,))]
        for name, values in said:
            same = found.setdefault(name, {})
            same[values] = same.get(values, 0.0) + vote
    pooled = []
    for name in (f for f in FAMILIES if f in found):  # in one order, whoever came first
        family, known = FAMILIES[name], [values for values in found[name] if values]  # not all know theirs
        weights = [found[name][values] for values in known]
        columns = zip(family.parameter_names, zip(*known, strict=True), strict=False)  # none known: none
        pooled.append(named(name, [_pool(v, weights, -1 if n in family.precisions else 1) for n, v in columns]))
    return tuple(pooled)


def with_unknown_filled(old: Sequence[Likelihood], pooled: Sequence[Likelihood]) -> tuple[Likelihood, ...]:
    """Likelihoods stay as they were, but for new families and for parameters that were not known before."""
    found = {p.name: p for p in pooled}
    kept = [p if p.known else found.get(p.name, p) for p in old]
    have = {p.name for p in old}
    return (*kept, *(p for p in pooled if p.name not in have))


def _pool(values: Sequence[float], weights: Sequence[float], power: int) -> float:
    """The mean (of a precision that of its inverse), with values far from their median brought back towards it.

    Of all single noise variances for a y from any of the modules the mean has the best expected density;
    the median, safe from degenerate modules too, is too small where noises differ.
    """
    if len(values) == 1:
        return values[0]
    middle = math.exp(weighted_median([math.log(v) for v in values], weights))
    near = np.clip(values, middle / POOLING.outlier, middle * POOLING.outlier)
    return float(np.average(near ** float(power), weights=weights)) ** power
