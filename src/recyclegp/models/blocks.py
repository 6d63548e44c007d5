"""Modules that share all but their numbers and names, as columns: one table of numbers for each of their functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays, categories
from ..categories import NO_CATEGORIES, Categories
from ..core.convergence import Convergence
from ..core.noise import NoiseEvidence
from ..core.packing import PackedSites
from ..core.site_columns import of_sites
from ..core.sites import Site, weighted
from ..kernels import Kernel, Node, continuous_columns
from ..kernels.units import InputUnits
from ..likelihoods import Change, Likelihood
from ..local import fitted
from ..local.batching import Solved
from ..local.candidates import is_row
from ..local.fitted import Fitted
from ..local.functions import FunctionRequests
from ..local.people import published_rows
from ..local.request import FitRequest
from ..merging.member import Member
from ..record import About, Latent, Origin, Privacy, Record, worst
from ..target import Target
from ..times import When
from .alignment import aligned
from .how import Frame
from .module import Module

UNKNOWN_NOISE = NoiseEvidence(math.nan, math.nan, math.nan, math.nan)  # where nobody has asked the rows


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
    privacy: Privacy | None = None
    held_back: float | None = None


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

    def latents(self, structure: Node, *, keep: bool, packs: Iterable[PackedSites] | None = None) -> Iterator[Latent]:
        """This function of every module, with its site or without; sites are views of packs that are known."""
        m = self.models
        own: Iterable[Any] = m.sites.each(packs) if keep else repeat(None, len(self.rows))
        columns = (m.mean.tolist(), self.rows.tolist(), m.jitter.tolist(), repeat(None), m.kept.tolist())
        ends = list(zip(m.converged.tolist(), m.evaluations.tolist(), m.messages, strict=True))
        alike = {
            end: Convergence(*end) for end in set(ends)
        }  # many searches end in the same words, after as many steps
        evidence = map(fitted.noise_evidence, m.noise.tolist())
        return map(Latent, own, Kernel(structure, m.theta).each(), *columns, evidence, map(alike.__getitem__, ends))

    def with_latents(self, latents: Sequence[Latent]) -> FunctionColumns:
        """With all that other units, columns or codes of levels change."""
        evidence = [UNKNOWN_NOISE if p.noise_evidence is None else p.noise_evidence for p in latents]
        models = self.models._replace(
            sites=of_sites([p.known_site for p in latents], self.models.sites.dimension),
            theta=torch.stack([p.kernel.theta for p in latents]),
            mean=torch.tensor([p.mean for p in latents], dtype=torch.float64),
            jitter=torch.tensor([p.jitter for p in latents], dtype=torch.float64),
            noise=torch.tensor(evidence, dtype=torch.float64),
        )
        return self._replace(models=models)


@dataclass(frozen=True, eq=False)
class Block:
    """Modules that share all but their numbers, names, owners, times and what is known of their points."""

    common: Common
    names: tuple[str, ...]
    owners: tuple[str | None, ...]  # as they were given
    times: tuple[When | None, ...]
    origins: tuple[Origin, ...]
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
            tuple(self.origins[i] for i in chosen),
            tuple(f.take(which) for f in self.functions),
        )

    # --- one by one ---

    def about(self, i: int, function: int | None = None) -> About:
        """Who and what one of them is; with the target of one function alone, if one is meant."""
        c = self.common
        targets = c.targets if function is None else (c.targets[function],)
        who = self.names[i], self.owners[i], self.times[i]
        return About(*who, c.method, c.columns, c.categories, targets, c.privacy, self.origins[i], c.held_back)

    def record(self, i: int) -> Record:
        """All that one of them is."""
        c = self.common
        each = zip(c.likelihood.parts, self.functions, strict=True)
        parts = [(part.with_values(*f.models.parameters[i].tolist()),) for part, f in each]
        latents = (f.latent(i, structure) for f, structure in zip(self.functions, c.structures, strict=True))
        return Record(self.about(i), c.likelihood.with_parts(parts), tuple(latents))

    def module(self, i: int) -> Module:
        return Module(*self.record(i))

    def members(
        self,
        weights: Sequence[float],
        *,
        keep: bool,
        function: int = 0,
        packs: Iterable[PackedSites] | None = None,
    ) -> list[Member]:
        """One small record of one function of each, with its site or without; no modules are made."""
        c, own = self.common, self.functions[function]
        part, parameters = c.likelihood.parts[function], own.models.parameters.tolist()
        targets = (c.targets[function],)
        common = map(repeat, (c.method, c.columns, c.categories, targets, c.privacy))
        abouts = map(About, self.names, self.owners, self.times, *common, self.origins, repeat(c.held_back))
        latents = own.latents(c.structures[function], keep=keep, packs=packs)
        likelihoods = zip(part.each_with_values(parameters), strict=True)
        return list(map(Member, abouts, latents, likelihoods, weights, repeat(function)))

    def packs(
        self, packs: Iterable[PackedSites], members: Sequence[int], weights: Sequence[float]
    ) -> Iterator[PackedSites]:
        """Of packs of one function the sites of those that count, to the powers of their weights."""
        chosen = frozenset([i for i, weight in enumerate(weights) if weight > 0])
        plain = set(weights) <= {1.0}
        for every in packs:
            packed = every if plain else every.only(chosen)
            if packed.members:
                if not plain:
                    w = packed.e.new_tensor([weights[i] for i in packed.members])
                    packed = PackedSites(*weighted(Site(*packed[:4]), w), packed.members, packed.counts)
                yield packed._replace(members=tuple(map(members.__getitem__, packed.members)))

    @property
    def not_converged(self) -> list[str]:
        """Names of those of which a search had not ended."""
        fine = torch.stack([f.models.converged for f in self.functions]).all(0)
        return [name for name, ended in zip(self.names, fine.tolist(), strict=True) if not ended]

    # --- the same, otherwise ---

    def in_coding(self, levels: Categories) -> Block:
        """With codes of these levels, among which its own are; itself if these are its own."""
        return self.aligned(Frame(self.common.dimension, self.common.columns, levels))

    def aligned(self, frame: Frame) -> Block:
        """With columns in this order, where both have names, and codes of these levels; itself if it is so already."""
        c = self.common
        columns = c.columns if frame.columns is None or c.columns is None else frame.columns
        if (columns, frame.categories) == (c.columns, c.categories):
            return self
        about = About("", columns=c.columns, categories=c.categories)
        changed = self._changed(lambda latent, _: aligned(about, latent, frame))
        return replace(changed, common=replace(changed.common, columns=columns, categories=frame.categories))

    def in_units(self, changes: Sequence[Change], inputs: InputUnits) -> Block:
        """As if all owners had measured in other units: one change for each function."""
        changed = self._changed(lambda latent, c: latent.in_units(changes[c], inputs))
        functions = []
        for f, part, (s, b, _) in zip(changed.functions, self.common.likelihood.parts, changes, strict=True):
            known = [part.with_values(*own.tolist()).in_units(s, b).parameters for own in f.models.parameters]
            parameters = torch.tensor(known, dtype=torch.float64).reshape(f.models.parameters.shape)
            functions.append(f._replace(models=f.models._replace(parameters=parameters)))
        targets = tuple(t.in_units(*change) for t, change in zip(self.common.targets, changes, strict=True))
        common = replace(changed.common, likelihood=self.common.likelihood.rescaled(changes), targets=targets)
        common = replace(common, held_back=None)
        return replace(changed, common=common, functions=tuple(functions))

    def _changed(self, change: Callable[[Latent, int], Latent]) -> Block:
        """With every function of every module changed, each by its number."""
        functions, structures = [], []
        for c, (f, structure) in enumerate(zip(self.functions, self.common.structures, strict=True)):
            latents = [change(latent, c) for latent in f.latents(structure, keep=True)]
            functions.append(f.with_latents(latents))
            structures.append(latents[0].kernel.structure)
        return replace(self, common=replace(self.common, structures=tuple(structures)), functions=tuple(functions))


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
        tuple(origin for b in blocks for origin in b.origins),
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
        privacy=inputs.privacy,
        held_back=inputs.held_back,
    )
    functions = tuple(
        FunctionColumns(torch.tensor([published_rows(own.requests[c]) for own in asked]), _published(part, models))
        for c, (part, models) in enumerate(zip(first.likelihood.parts, solved.functions, strict=True))
    )
    names = tuple([own.name for own in asked])
    return Block(common, names, tuple(owners), tuple(times), _origins(asked, functions), functions)


def _origins(asked: Sequence[FunctionRequests], functions: Sequence[FunctionColumns]) -> tuple[Origin, ...]:
    """Of the points of each: those that nobody has given are placed, and no rows."""
    requests, D = asked[0].requests, asked[0].requests[0].X.shape[1]
    free = all(continuous_columns(r.kernel.structure, D) for r in requests)
    if free and not any([r.points_given for own in asked for r in own.requests]):
        return (Origin.PLACED,) * len(asked)
    return tuple(
        worst(_origin(request, f.models, i) for request, f in zip(own.requests, functions, strict=True))
        for i, own in enumerate(asked)
    )


def _origin(request: FitRequest, models: Fitted, i: int) -> Origin:
    """Points that somebody gave may be rows, and where all inputs are levels there are no others than rows."""
    if not request.points_given and continuous_columns(request.kernel.structure, request.X.shape[1]):
        return Origin.PLACED
    if bool(is_row(models.sites.site(i).Z, request.X.cpu()).any()):
        return Origin.ROWS
    return Origin.UNKNOWN if request.points_given else Origin.PLACED


def _published(part: Likelihood, models: Fitted) -> Fitted:
    """With the parameters that their likelihood has: functions of classes are fitted as if they had a noise."""
    own = len(part.value_names)
    if models.parameters.shape[1] == own:
        return models
    return models._replace(parameters=models.parameters[:, :own], noise=torch.full_like(models.noise, torch.nan))


def in_one_coding(blocks: Sequence[Block]) -> list[Block]:
    """Blocks whose columns of categories are the same, with codes of the levels of them all."""
    whole = categories.union_of([block.common.categories for block in blocks])
    return [block.in_coding(whole) for block in blocks]
