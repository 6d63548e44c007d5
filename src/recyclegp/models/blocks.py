"""Modules that share all but their numbers, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays, categories
from ..categories import NO_CATEGORIES, Categories
from ..core import sites
from ..core.convergence import Convergence
from ..core.noise import NoiseEvidence
from ..core.packing import PackedSites
from ..core.site_columns import of_sites
from ..core.sites import Site, weighted
from ..kernels import Kernel, Node
from ..kernels.units import in_units, permuted
from ..likelihoods import Likelihood
from ..local import fitted
from ..local.fitted import Fitted
from ..local.request import FitRequest
from ..merging.member import Member
from ..target import Target
from .module import Module
from .units import NewUnits


@dataclass(frozen=True)
class Common:
    """What the modules of one block share."""

    structure: Node  # of their kernels
    likelihood: Likelihood  # its family
    method: str
    dimension: int
    columns: arrays.Columns
    target: Target
    categories: Categories = NO_CATEGORIES


@dataclass(frozen=True, eq=False)
class Block:
    """Modules that share all but their numbers and names."""

    common: Common
    names: tuple[str, ...]
    owners: tuple[str | None, ...]  # as they were given
    rows: Tensor  # (B,) int  of data behind each
    models: Fitted

    def __len__(self) -> int:
        return len(self.names)

    def take(self, chosen: Sequence[int]) -> Block:
        """Some of them, in this order; all of them are the block itself."""
        if list(chosen) == list(range(len(self))):
            return self
        which = torch.tensor(chosen, dtype=torch.long)
        return Block(
            self.common,
            tuple(self.names[i] for i in chosen),
            tuple(self.owners[i] for i in chosen),
            self.rows[which],
            self.models.take(which),
        )

    def module(self, i: int) -> Module:
        c, m = self.common, self.models
        return Module(
            name=self.names[i],
            _site=m.sites.site(i),
            _kernel=Kernel(c.structure, m.theta[i]),
            mean=float(m.mean[i]),
            jitter=float(m.jitter[i]),
            likelihoods=(c.likelihood.with_values(*m.parameters[i].tolist()),),
            rows=int(self.rows[i]),
            columns=c.columns,
            convergence=Convergence(bool(m.converged[i]), int(m.evaluations[i]), m.messages[i]),
            method=c.method,
            target=c.target,
            given_owner=self.owners[i],
            kept=float(m.kept[i]),
            noise_evidence=fitted.noise_evidence(m.noise[i].tolist()),
            categories=c.categories,
        )

    def members(self, weights: Sequence[float], *, keep: bool) -> Iterator[Member]:
        """One small record for each, with its site or without; no modules are made."""
        c, m = self.common, self.models
        sites: Iterable[Any] = m.sites.each() if keep else [None] * len(self)
        columns = (m.theta.unbind(), m.parameters.tolist(), m.mean.tolist(), m.kept.tolist(), m.noise.tolist())
        facts = (self.names, self.owners, self.rows.tolist(), m.converged.tolist(), weights, sites)
        for (theta, parameters, mean, kept, noise), (name, owner, rows, converged, weight, site) in zip(
            zip(*columns, strict=True), zip(*facts, strict=True), strict=True
        ):
            yield Member(
                name=name,
                site=site,
                rows=rows,
                weight=weight,
                likelihoods=(c.likelihood.with_values(*parameters),),
                kernel=Kernel(c.structure, theta),
                mean=mean,
                target=c.target,
                converged=converged,
                owner_override=owner,
                kept=kept,
                noise_evidence=fitted.noise_evidence(noise),
            )

    def packs(self, members: Sequence[int], weights: Sequence[float], room: float) -> Iterator[PackedSites]:
        """The sites of those that count, side by side, each to the power of its weight; more with more room."""
        chosen = frozenset(i for i, weight in enumerate(weights) if weight > 0)
        plain = all(weight == 1 for weight in weights)
        for every in self.models.sites.packs(room=room):
            packed = every.only(chosen)
            if packed.members:
                if not plain:
                    w = packed.e.new_tensor([weights[i] for i in packed.members])
                    packed = PackedSites(*weighted(Site(*packed[:4]), w), packed.members, packed.counts)
                yield packed._replace(members=tuple(members[i] for i in packed.members))

    @property
    def not_converged(self) -> list[str]:
        """Names of those whose search had not ended."""
        return [name for name, fine in zip(self.names, self.models.converged.tolist(), strict=True) if not fine]

    def in_coding(self, levels: Categories) -> Block:
        """With codes of these levels, among which its own are; itself if these are its own."""
        own, D = self.common.categories, self.common.dimension
        if own == levels:
            return self
        sites = of_sites([s._replace(Z=own.recoded(s.Z, levels)) for s in self.models.sites.each()], D)
        return replace(self, common=replace(self.common, categories=levels), models=self.models._replace(sites=sites))

    def in_order(self, columns: Sequence[str] | None) -> Block:
        """With the same columns in another order; itself if that is its own, or nobody has named them."""
        if columns is None or self.common.columns is None or self.common.columns == tuple(columns):
            return self
        order = [self.common.columns.index(c) for c in columns]
        sites = of_sites([s._replace(Z=s.Z[:, order]) for s in self.models.sites.each()], self.common.dimension)
        kernels = [permuted(Kernel(self.common.structure, theta), order) for theta in self.models.theta]
        common = replace(
            self.common,
            columns=tuple(columns),
            structure=kernels[0].structure,
            categories=self.common.categories.permuted(order),
        )
        models = self.models._replace(sites=sites, theta=torch.stack([k.theta for k in kernels]))
        return replace(self, common=common, models=models)

    def in_units(self, new: NewUnits) -> Block:
        """As if all owners had measured in other units."""
        c, m, rows = self.common, self.models, self.rows.tolist()
        kernels = [in_units(Kernel(c.structure, theta), new.scale, new.inputs) for theta in m.theta]
        changed = (sites.in_units(s, new.scale, new.shift, n) for s, n in zip(m.sites.each(), rows, strict=True))
        squared = new.scale**2
        models = m._replace(
            sites=of_sites([sites.moved(s, new.inputs) for s in changed], c.dimension),
            theta=torch.stack([k.theta for k in kernels]),
            parameters=torch.stack(
                [
                    p.new_tensor(c.likelihood.with_values(*p.tolist()).in_units(new.scale, new.shift).parameters)
                    for p in m.parameters
                ]
            ),
            mean=new.scale * m.mean + new.shift,
            jitter=squared * m.jitter,
            noise=m.noise * m.noise.new_tensor(NoiseEvidence(1.0, squared, squared, 1.0)),
        )
        target = c.target.in_units(new.scale, new.shift, new.unit)
        return replace(self, common=replace(c, structure=kernels[0].structure, target=target), models=models)


class Piece(NamedTuple):
    """Some of many modules, and where they stand among all of them."""

    block: Block
    positions: list[int]


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks that have everything in common, one behind the other."""
    if len(blocks) == 1:
        return blocks[0]
    return Block(
        blocks[0].common,
        tuple(name for b in blocks for name in b.names),
        tuple(owner for b in blocks for owner in b.owners),
        torch.cat([b.rows for b in blocks]),
        fitted.concatenate([b.models for b in blocks]),
    )


def of_requests(requests: Sequence[FitRequest], made: Fitted, owners: Sequence[str | None]) -> Block:
    """Models that share all but their numbers, with what is known of their data."""
    first = requests[0]
    common = Common(
        structure=first.kernel.structure,
        likelihood=first.likelihood,
        method=first.method.value,
        dimension=first.X.shape[1],
        columns=first.columns,
        target=first.target,
        categories=first.categories,
    )
    rows = torch.tensor([r.y.numel() for r in requests])
    return Block(common, tuple(r.name for r in requests), tuple(owners), rows, made)


def in_one_coding(blocks: Sequence[Block]) -> list[Block]:
    """Blocks whose columns of categories are the same, with codes of the levels of them all."""
    whole = categories.union_of([block.common.categories for block in blocks])
    return [block.in_coding(whole) for block in blocks]
