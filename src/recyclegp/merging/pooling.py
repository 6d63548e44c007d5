"""One kernel, mean and likelihood from many modules' own, before anything is learned together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.packing import PackedSites
from ..devices import CPU
from ..kernels import Kernel, Node, Unit, entries, parse, pool, weighted_median
from ..kernels.units import reference, smoother
from ..likelihoods import FAMILIES, Gaussian, Likelihood, named
from .constants import INFLUENCE, LEARNING, POOLING
from .influence import votes
from .member import Member, Members
from .site_source import SiteSource, added, site_points
from .unfinished import unfinished


def most_common_kernel(members: Sequence[Member]) -> Kernel:
    """The median of the members that share the structure with most rows; of those that can be learned, if any can."""
    every = Members.of(members)
    total = _structures(every)
    found = median_kernel(every, max(total, key=lambda s: (not is_too_large(s), total[s])))
    assert found is not None  # the structure is one of theirs
    return found


def _structures(members: Members) -> dict[Node, float]:
    """Those of kernels of members that count, with their votes; structures are compared once, not for each member."""
    if members.side_by_side is not None:
        return {members.side_by_side.structure: 1.0} if members.counted else {}
    every = [m.latent.kernel.structure for m in members.counted]
    structures = dict(zip(map(id, every), every, strict=True))
    rows = dict.fromkeys(structures, 0.0)
    for own, vote in zip(map(id, every), _votes(members), strict=True):
        rows[own] += vote
    total: dict[Node, float] = {}
    for own, votes_of_these in rows.items():
        total[structures[own]] = total.get(structures[own], 0.0) + votes_of_these
    return total


def is_too_large(structure: Node) -> bool:
    """Has it more parameters than are learned?"""
    return structure.size > LEARNING.most_parameters


def all_too_large(members: Sequence[Member]) -> bool:
    """Is no member's kernel one that can be learned?"""
    return all(is_too_large(structure) for structure in _structures(Members.of(members)))


def median_kernel(members: Sequence[Member], structure: Node) -> Kernel | None:
    """The median of the members with this structure, each counting with its rows; None if there are none."""
    alike = _alike(members, structure)
    return None if alike is None else pool(alike.kernels, votes(alike.rows))


def _votes(members: Members) -> list[float]:
    """Of those that count."""
    return votes(members.weighted_rows)


def largest_kernels(members: Sequence[Member], structure: Node) -> list[Kernel]:
    """Of those members with this structure that have most rows, in an order that does not depend on theirs."""
    alike = _alike(members, structure)
    if alike is None:
        return []
    table = alike.kernels.theta.cpu().numpy()
    order = np.lexsort((*-table.T[::-1], -np.array(alike.rows)))  # most rows first, then the largest numbers
    return [alike.kernels.select(i) for i in order[: POOLING.starts].tolist()]


class _Alike(NamedTuple):
    """Of members that count, and whose kernels have one structure."""

    rows: list[float]  # weighted
    kernels: Kernel  # side by side


def _alike(members: Sequence[Member], structure: Node) -> _Alike | None:
    """Members with this structure, or with one that is as smooth once matern52 is rbf; None where nobody has it."""
    every = Members.of(members)
    rows, together = every.weighted_rows, every.side_by_side
    if together is not None:
        change = _changes({0: together.structure}, structure)
        if not change or not rows:
            return None
        theta = together.theta
        if len(rows) < len(every):
            theta = theta[(torch.tensor(every.weights, dtype=torch.float64, device=CPU) > 0).to(theta.device)]
        return _Alike(rows, Kernel(structure, theta + change[0].to(theta.device)))
    kernels = [m.latent.kernel for m in every.counted]
    structures = [kernel.structure for kernel in kernels]
    changes = _changes(dict(zip(map(id, structures), structures, strict=True)), structure)
    if not changes:
        return None
    chosen = [i for i, s in enumerate(structures) if id(s) in changes]
    theta = torch.stack([kernels[i].theta for i in chosen])
    added = torch.stack([changes[id(structures[i])] for i in chosen])
    return _Alike([rows[i] for i in chosen], Kernel(structure, theta + added.to(theta.device)))


def _changes(different: Mapping[int, Node], structure: Node) -> dict[int, Tensor]:
    """Which of them are this structure, or come to it once matern52 is rbf, and what is then added to their numbers."""
    zeros = {i: torch.zeros(s.size, dtype=torch.float64, device=CPU) for i, s in different.items()}
    same = {i: zeros[i] for i, s in different.items() if s == structure}
    if same:
        return same
    smooth = {i: smoother(Kernel(s, zeros[i])) for i, s in different.items()}
    return {i: kernel.theta for i, kernel in smooth.items() if kernel.structure == structure}


def shorter_than_all(kernel: Kernel, members: Sequence[Member]) -> float:
    """By what factor a lengthscale is shorter than those of nearly all members; one where none is.

    A kernel that absorbs a contradiction between modules becomes far rougher than any of them has seen.
    """
    alike = _alike(members, kernel.structure)
    lengths = [i for i, p in enumerate(entries(kernel.structure)) if p.name == "lengthscale" and p.unit is Unit.LENGTH]
    if alike is None or not lengths:
        return 1.0
    weights = np.array(votes(alike.rows))
    table = alike.kernels.theta[:, lengths].cpu().numpy()
    order = np.argsort(table, axis=0, kind="stable")
    share = np.cumsum(weights[order], axis=0) / weights.sum()
    # the shortest, but for members that together have next to no rows
    first = (share > POOLING.negligible).argmax(axis=0)
    shortest = np.take_along_axis(table, np.take_along_axis(order, first[None], 0), 0)[0]
    return max(1.0, math.exp(float((shortest - kernel.theta[lengths].cpu().numpy()).max())))


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
    counted = Members.of(members).counted
    some = Members(counted[:: -(-len(counted) // POOLING.sample)])
    Z = next(site_points(store.packs(1))).Z[: POOLING.sample]
    variances = [float(m.kernel.to(Z.device).diagonal(Z).mean()) for m in some]
    middle = weighted_median(variances, _votes(some))
    return kernel.with_theta(reference(kernel.structure, x, centre, x.new_tensor(middle**0.5)))


def discrete_columns(members: Sequence[Member]) -> tuple[int, ...]:
    """The columns that members' kernels take for codes of levels."""
    together = Members.of(members).side_by_side
    if together is not None:
        return tuple(sorted(together.structure.discrete))
    structures = {id(m.latent.kernel.structure): m.latent.kernel.structure for m in members}.values()
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
    every = Members.of(members)
    means = every.means if every.counted is every else [m.latent.mean for m in every.counted]
    return weighted_median(means, _votes(every))


def pool_likelihoods(members: Sequence[Member]) -> tuple[Likelihood, ...]:
    """One likelihood of each family, from its members' parameters, each counting with its rows.

    Members whose searches elsewhere had not ended say nothing of theirs, where others do; nor do those whose noise is
    not believed.
    """
    every = Members.of(members)
    counted = every.counted
    if _all_brought(every):
        return (_pooled_noise([m.noise for m in counted], _votes(every)),)
    found: dict[str, dict[tuple[float, ...], float]] = {}  # votes, by parameters
    labels: dict[str, tuple[str, ...]] = {}  # the most levels that anybody has; those of others are the first of these
    # votes of those who say the same, by the identities of what they say: many share one, and none need be compared
    alike: dict[tuple[int, float | None, bool, bool], float] = {}
    unsure = {id(m) for m in unfinished(counted)}
    unlike = {id(m) for m in _not_believed(counted)}
    likelihoods_of: dict[int, tuple[Likelihood, ...]] = {}
    said = zip([m.likelihoods for m in counted], [m.noise for m in counted], strict=True)
    sure, believed = ([id(m) not in others for m in counted] for others in (unsure, unlike))
    for (own, noise), is_sure, is_believed, vote in zip(said, sure, believed, _votes(every), strict=True):
        which = id(own[0]) if len(own) == 1 else id(own)
        likelihoods_of[which] = own
        key = which, noise, is_sure, is_believed
        alike[key] = alike.get(key, 0.0) + vote
    told = set[str]()  # by those who are sure, where others are not
    if unsure:
        told = {p.name for which, _, is_sure, _ in alike if is_sure for p in likelihoods_of[which] if p.known}
    for (which, noise, is_sure, is_believed), vote in alike.items():
        for p in likelihoods_of[which]:
            name = p.name
            if name not in labels or len(p.own_labels) > len(labels[name]):
                labels[name] = p.own_labels
            if noise is None:
                values = p.parameters if is_believed and (is_sure or name not in told) else ()
            elif isinstance(p, Gaussian):
                values = (noise,)  # to which it was brought
            else:
                continue
            same = found.setdefault(name, {})
            same[values] = same.get(values, 0.0) + vote
    pooled = []
    for name in (f for f in FAMILIES if f in found):  # in one order, whoever came first
        family = named(name).with_labels(labels[name]) if labels[name] else named(name)
        each = [_pool_one(found[name], i, n in family.precisions) for i, n in enumerate(family.value_names)]
        pooled.append(family.with_parameters([v for v in each if v is not None] if None not in each else []))
    return tuple(pooled)


def _all_brought(members: Members) -> bool:
    """Are all Gaussian, and brought to a noise? As nearly always where there are very many."""
    if not members.counted or members.families.keys() != {Gaussian} or any([m.noise is None for m in members.counted]):
        return False
    return all([len(m.likelihoods) == 1 for m in members.counted])


def _pooled_noise(noises: Sequence[Any], votes_of_each: Sequence[float]) -> Gaussian:
    """What `pool_likelihoods` says of such members."""
    values, which = np.unique(noises, return_inverse=True)
    return Gaussian(_pool(values.tolist(), np.bincount(which, votes_of_each).tolist(), 1))


def _not_believed(members: Sequence[Member]) -> list[Member]:
    """Where others were brought to a common noise: who was not, but has said what its rows know, or is far noisier.

    And where most were, whoever says a noise without what its rows know of it, as models from elsewhere do: nobody can
    tell whether it was ever learned. (GPyTorch begins at 0.69, and where 0.09 was true has 0.8 after fifty steps.)
    """
    common = [m.noise for m in members if m.noise is not None]
    if not common or len(common) == len(members):
        return []
    most = 0.0 if 2 * len(common) > len(members) else INFLUENCE.noisier * statistics.median(common)
    apart = [(m, own) for m in members if m.noise is None and isinstance(own := m.likelihoods[0], Gaussian)]
    return [m for m, own in apart if m.noise_evidence is not None or (own.known and float(own.values[0]) > most)]


def _pool_one(votes: Mapping[tuple[float, ...], float], i: int, precision: bool) -> float | None:
    """One parameter, from those who know it: not all know theirs, or have as many levels."""
    known = {values: vote for values, vote in votes.items() if len(values) > i}
    if not known:
        return None
    return _pool([values[i] for values in known], list(known.values()), -1 if precision else 1)


def with_unknown_filled(old: Sequence[Likelihood], pooled: Sequence[Likelihood]) -> tuple[Likelihood, ...]:
    """Likelihoods stay as they were, but for new families, further levels and parameters that were not known."""
    found = {p.name: p for p in pooled}
    kept = [p.widened(found.get(p.name, p)) for p in old]
    have = {p.name for p in old}
    return (*kept, *(p for p in pooled if p.name not in have))


def _pool(values: Sequence[float], weights: Sequence[float], power: int) -> float:
    """The mean (of a precision that of its inverse), with values far from their median brought back towards it.

    Of all single noise variances for a y from any of the modules the mean has the best expected density;
    the median, safe from degenerate modules too, is too small where noises differ.
    """
    if len(values) == 1:
        return values[0]
    v, w = np.array(values), np.array(weights)
    middle = math.exp(weighted_median(np.log(v), w))
    near = v.clip(middle / POOLING.outlier, middle * POOLING.outlier)
    return float((near ** float(power) * w).sum() / w.sum()) ** power
