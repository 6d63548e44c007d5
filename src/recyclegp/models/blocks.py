"""Modules that share all but their numbers and names, as columns: one table of numbers for each of their functions."""

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
from ..kernels.units import InputUnits, in_units, permuted
from ..likelihoods import Change, Likelihood
from ..local import fitted
from ..local.batching import Solved
from ..local.fitted import Fitted
from ..merging.member import Member
from ..record import About, Latent, Record
from ..target import Target
from ..times import When
from .module import Module


@dataclass(frozen=True)
class Common:
    """What the modules of one block share."""

    likelihood: Likelihood  # of all functions, without its parameters
    structures: tuple[Node, ...]  # of the kernel of each function
    method: str
    dimension: int
    columns: arrays.Columns
    targets: tuple[Target, ...]  # what y means, for each function
    categories: Categories = NO_CATEGORIES


class FunctionColumns(NamedTuple):
    """One function of all modules of a block."""

    rows: Tensor  # (B,) int  of data behind it
    models: Fitted

    def take(self, chosen: Tensor) -> FunctionColumns:
        return FunctionColumns(self.rows[chosen], self.models.take(chosen))

    def latent(self, i: int, structure: Node) -> Latent:
        """This function of one module."""
        m = self.models
        return Latent(
            site=m.sites.site(i),
            kernel=Kernel(structure, m.theta[i]),
            mean=float(m.mean[i]),
            rows=int(self.rows[i]),
            jitter=float(m.jitter[i]),
            kept=float(m.kept[i]),
            noise_evidence=fitted.noise_evidence(m.noise[i].tolist()),
            convergence=Convergence(bool(m.converged[i]), int(m.evaluations[i]), m.messages[i]),
        )

    def latents(self, structure: Node, *, keep: bool) -> Iterator[Latent]:
        """This function of every module, with its site or without."""
        m = self.models
        own: Iterable[Any] = m.sites.each() if keep else [None] * len(self.rows)
        columns = (m.theta.unbind(), m.mean.tolist(), self.rows.tolist(), m.jitter.tolist(), m.kept.tolist())
        ends = zip(m.converged.tolist(), m.evaluations.tolist(), m.messages, strict=True)
        facts = zip(own, *columns, m.noise.tolist(), ends, strict=True)
        for site, theta, mean, rows, jitter, kept, noise, end in facts:
            evidence = fitted.noise_evidence(noise)
            yield Latent(site, Kernel(structure, theta), mean, rows, jitter, None, kept, evidence, Convergence(*end))

    def in_units(self, structure: Node, likelihood: Likelihood, change: Change, inputs: InputUnits) -> InNewUnits:
        """As if all owners had measured in other units."""
        s, b, _ = change
        m, dimension = self.models, self.models.sites.dimension
        kernels = [in_units(Kernel(structure, theta), s, inputs) for theta in m.theta]
        moved = (sites.in_units(site, s, b, n) for site, n in zip(m.sites.each(), self.rows.tolist(), strict=True))
        models = m._replace(
            sites=of_sites([sites.moved(site, inputs) for site in moved], dimension),
            theta=torch.stack([k.theta for k in kernels]),
            parameters=torch.stack(
                [p.new_tensor(likelihood.with_values(*p.tolist()).in_units(s, b).parameters) for p in m.parameters]
            ),
            mean=s * m.mean + b,
            jitter=s**2 * m.jitter,
            noise=m.noise * m.noise.new_tensor(NoiseEvidence(1.0, s**2, s**2, 1.0)),
        )
        return InNewUnits(self._replace(models=models), kernels[0].structure)


class InNewUnits(NamedTuple):
    columns: FunctionColumns
    structure: Node


@dataclass(frozen=True, eq=False)
class Block:
    """Modules that share all but their numbers, names, owners and times."""

    common: Common
    names: tuple[str, ...]
    owners: tuple[str | None, ...]  # as they were given
    times: tuple[When | None, ...]
    functions: tuple[FunctionColumns, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def rows(self) -> Tensor:
        """(B,)  of data behind each module; where outputs were not always seen, behind that which has most."""
        return torch.stack([f.rows for f in self.functions]).amax(0)

    def take(self, chosen: Sequence[int]) -> Block:
        """Some of them, in this order; all of them are the block itself."""
        if list(chosen) == list(range(len(self))):
            return self
        which = torch.tensor(chosen, dtype=torch.long)
        return Block(
            self.common,
            tuple(self.names[i] for i in chosen),
            tuple(self.owners[i] for i in chosen),
            tuple(self.times[i] for i in chosen),
            tuple(f.take(which) for f in self.functions),
        )

    # --- one by one ---

    def about(self, i: int, function: int | None = None) -> About:
        """Who and what one of them is; with the target of one function alone, if one is meant."""
        c = self.common
        targets = c.targets if function is None else (c.targets[function],)
        return About(self.names[i], self.owners[i], self.times[i], c.method, c.columns, c.categories, targets)

    def record(self, i: int) -> Record:
        """All that one of them is."""
        c = self.common
        each = zip(c.likelihood.parts, self.functions, strict=True)
        parts = [(part.with_values(*f.models.parameters[i].tolist()),) for part, f in each]
        latents = (f.latent(i, structure) for f, structure in zip(self.functions, c.structures, strict=True))
        return Record(self.about(i), c.likelihood.with_parts(parts), tuple(latents))

    def module(self, i: int) -> Module:
        return Module(*self.record(i))

    def members(self, weights: Sequence[float], *, keep: bool, function: int = 0) -> Iterator[Member]:
        """One small record of one function of each, with its site or without; no modules are made."""
        c, own = self.common, self.functions[function]
        part, parameters = c.likelihood.parts[function], own.models.parameters.tolist()
        latents = own.latents(c.structures[function], keep=keep)
        for i, (latent, values, weight) in enumerate(zip(latents, parameters, weights, strict=True)):
            yield Member(self.about(i, function), latent, (part.with_values(*values),), weight, function)

    def packs(
        self, members: Sequence[int], weights: Sequence[float], memory: float, function: int = 0
    ) -> Iterator[PackedSites]:
        """The sites of those that count, to the powers of their weights, side by side: as many as memory allows."""
        chosen = frozenset(i for i, weight in enumerate(weights) if weight > 0)
        plain = all(weight == 1 for weight in weights)
        for every in self.functions[function].models.sites.packs(memory=memory):
            packed = every.only(chosen)
            if packed.members:
                if not plain:
                    w = packed.e.new_tensor([weights[i] for i in packed.members])
                    packed = PackedSites(*weighted(Site(*packed[:4]), w), packed.members, packed.counts)
                yield packed._replace(members=tuple(members[i] for i in packed.members))

    @property
    def not_converged(self) -> list[str]:
        """Names of those of which a search had not ended."""
        fine = torch.stack([f.models.converged for f in self.functions]).all(0)
        return [name for name, ended in zip(self.names, fine.tolist(), strict=True) if not ended]

    # --- the same, otherwise ---

    def in_coding(self, levels: Categories) -> Block:
        """With codes of these levels, among which its own are; itself if these are its own."""
        own, D = self.common.categories, self.common.dimension
        if own == levels:
            return self

        def recoded(f: FunctionColumns) -> FunctionColumns:
            found = of_sites([s._replace(Z=own.recoded(s.Z, levels)) for s in f.models.sites.each()], D)
            return f._replace(models=f.models._replace(sites=found))

        functions = tuple(map(recoded, self.functions))
        return replace(self, common=replace(self.common, categories=levels), functions=functions)

    def in_order(self, columns: Sequence[str] | None) -> Block:
        """With the same columns in another order; itself if that is its own, or nobody has named them."""
        c = self.common
        if columns is None or c.columns is None or c.columns == tuple(columns):
            return self
        order = [c.columns.index(name) for name in columns]
        functions, structures = [], []
        for f, structure in zip(self.functions, c.structures, strict=True):
            turned = of_sites([s._replace(Z=s.Z[:, order]) for s in f.models.sites.each()], c.dimension)
            kernels = [permuted(Kernel(structure, theta), order) for theta in f.models.theta]
            models = f.models._replace(sites=turned, theta=torch.stack([k.theta for k in kernels]))
            functions.append(f._replace(models=models))
            structures.append(kernels[0].structure)
        common = replace(
            c, columns=tuple(columns), structures=tuple(structures), categories=c.categories.permuted(order)
        )
        return replace(self, common=common, functions=tuple(functions))

    def in_units(self, changes: Sequence[Change], inputs: InputUnits) -> Block:
        """As if all owners had measured in other units: one change for each function."""
        c = self.common
        parts = zip(self.functions, c.structures, c.likelihood.parts, changes, strict=True)
        found = [f.in_units(structure, likelihood, change, inputs) for f, structure, likelihood, change in parts]
        common = replace(
            c,
            likelihood=c.likelihood.rescaled(changes),
            structures=tuple(new.structure for new in found),
            targets=tuple(t.in_units(*change) for t, change in zip(c.targets, changes, strict=True)),
        )
        return replace(self, common=common, functions=tuple(new.columns for new in found))


class Piece(NamedTuple):
    """Some of many modules, and where they stand among all of them."""

    block: Block
    positions: list[int]


def concatenate(blocks: Sequence[Block]) -> Block:
    """Blocks that have everything in common, one behind the other."""
    if len(blocks) == 1:
        return blocks[0]
    each = zip(*(b.functions for b in blocks), strict=True)
    return Block(
        blocks[0].common,
        tuple(name for b in blocks for name in b.names),
        tuple(owner for b in blocks for owner in b.owners),
        tuple(time for b in blocks for time in b.times),
        tuple(
            FunctionColumns(torch.cat([f.rows for f in parts]), fitted.concatenate([f.models for f in parts]))
            for parts in each
        ),
    )


def of_requests(solved: Solved, owners: Sequence[str | None], times: Sequence[When | None]) -> Block:
    """Models that share all but their numbers, with what is known of their data."""
    first, asked = solved.requests[0], solved.requests
    inputs = first.requests[0]
    common = Common(
        likelihood=first.likelihood,
        structures=tuple(r.kernel.structure for r in first.requests),
        method=inputs.method.value,
        dimension=inputs.X.shape[1],
        columns=inputs.columns,
        targets=first.targets,
        categories=inputs.categories,
    )
    functions = tuple(
        FunctionColumns(torch.tensor([own.requests[c].rows for own in asked]), _published(part, models))
        for c, (part, models) in enumerate(zip(first.likelihood.parts, solved.functions, strict=True))
    )
    return Block(common, tuple(own.name for own in asked), tuple(owners), tuple(times), functions)


def _published(part: Likelihood, models: Fitted) -> Fitted:
    """With the parameters that their likelihood has: functions of classes are fitted as if they had a noise."""
    own = len(part.parameter_names)
    if models.parameters.shape[1] == own:
        return models
    return models._replace(parameters=models.parameters[:, :own], noise=torch.full_like(models.noise, torch.nan))


def in_one_coding(blocks: Sequence[Block]) -> list[Block]:
    """Blocks whose columns of categories are the same, with codes of the levels of them all."""
    whole = categories.union_of([block.common.categories for block in blocks])
    return [block.in_coding(whole) for block in blocks]
