"""The task that fits the partitions of one chunk, or finds that this has been done already.

The modules of a chunk are in one file, with what they were made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..arrays import Columns as ColumnNames
from ..categories import NO_CATEGORIES, Categories, union_of
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from ..local import batching
from ..local.constants import COMPARISON
from ..local.options import FitOptions
from ..merging.member import Member
from ..models import modules_file
from ..models.blocks import Block
from ..models.completing import complete_only
from ..models.fit import fit_data_sets
from ..models.fit_warnings import PublishedSize, least_kept
from ..models.how import Frame
from ..models.modules import Modules, of_pieces
from ..storage import container
from ..storage.container import Document
from ..storage.fields import fields, text
from ..version import __version__
from .partitions import Columns, Pair, digest, identity, load

NOTHING = "no modules"  # the kind of a file whose models have all failed


class Plan(NamedTuple):
    """What is to become of some partitions, one after the other."""

    path: str  # of the file for their modules
    first: int  # position of the first of them
    names: tuple[str, ...]
    columns: Columns
    options: FitOptions


class Chunk(NamedTuple):
    modules: Modules
    fingerprint: str  # of the data and options that it was made from
    failures: dict[str, str]  # name → why, of models that are missing


def write_chunk(path: Path, modules: Modules, fingerprint: str, failures: Mapping[str, str]) -> None:
    """All or nothing. It is a file of many modules like any other, which says a little more."""
    header, tensors, _ = modules._document() if len(modules) else Document({"kind": NOTHING}, {})
    container.write(path, Document({**header, "fingerprint": fingerprint, "failures": dict(failures)}, tensors))


def read_chunk(path: Path) -> Chunk:
    header = container.header(path)
    modules = of_pieces([] if header.get("kind") == NOTHING else modules_file.pieces(path))
    failures = fields(header.get("failures", {}), "failures").items()
    return Chunk(
        modules,
        text(header.get("fingerprint", ""), "fingerprint"),
        {text(name, "a name"): text(why, "a reason") for name, why in failures},
    )


class FittedModule(NamedTuple):
    """What everybody needs to know of a module without reading its file: one of each for every function."""

    likelihood: Likelihood  # of all its functions, without parameters
    members: tuple[Member, ...]  # without their sites
    points: tuple[int, ...]  # of each site
    site_rows: tuple[int, ...]  # of pseudo-observations of each site

    @property
    def name(self) -> str:
        return self.members[0].name

    @property
    def rows(self) -> int:
        """Of data behind it."""
        return max(m.rows for m in self.members)

    def function(self, name: str) -> int | None:
        """Which of its functions has this name."""
        names = self.likelihood.functions
        return names.index(name) if name in names else None

    def published(self, dimension: int) -> PublishedSize:
        each = zip(self.members, self.points, strict=True)
        return least_kept([PublishedSize(m.name, m.rows, points, dimension, m.kept) for m, points in each])


class FittedChunk(NamedTuple):
    """What everybody needs to know of a chunk without reading its file."""

    path: str
    fingerprint: str
    modules: tuple[FittedModule, ...]
    dimension: int
    columns: ColumnNames
    failures: dict[str, str]  # name → why
    found: bool  # had been fitted before
    categories: Categories = NO_CATEGORIES

    @property
    def frame(self) -> Frame:
        """The inputs of its modules, of which there is at least one."""
        return Frame(self.dimension, self.columns, self.categories, self.modules[0].name)


def fit_chunk(plan: Plan, sources: Sequence[Any]) -> FittedChunk:
    """Fit the partitions and write their modules, unless a file has those of the same data and options."""
    known = _already_there(plan, sources)
    if known is not None:
        return _facts(plan, known, found=True)
    identities: list[str] = []
    data = _loaded(plan, sources, identities)
    modules, failures = fit_data_sets(data, plan.names, plan.options, lambda count: None, first=plan.first)
    made = Chunk(modules, fingerprint(plan, identities), failures)
    write_chunk(Path(plan.path), *made)
    return _facts(plan, made, found=False)


def choose(columns: Columns, options: FitOptions, sources: Sequence[Any]) -> FitOptions:
    """One kernel and one likelihood for all partitions, by some rows of some of them."""
    some = complete_only([_few_rows(load(source, columns)) for source in sources], options)
    return batching.choose(some, options)


def _few_rows(pair: Pair) -> Pair:
    """Enough to choose by, spread over all of them, so that many partitions fit into memory."""
    step = max(1, len(pair.y) // (4 * COMPARISON.rows))
    return Pair(pair.X[::step], pair.y[::step])


def _loaded(plan: Plan, sources: Sequence[Any], identities: list[str]) -> Iterator[Pair]:
    """Pair by pair, as it is needed; who each of them is, is written down in passing."""
    for i, source in enumerate(sources):
        try:
            pair = load(source, plan.columns)
            identities.append(identity(source, plan.columns, pair))
        except RecycleGPError as error:
            raise RecycleGPError(f"partition {plan.first + i} ({plan.names[i]}): ", error) from None
        yield pair


def _already_there(plan: Plan, sources: Sequence[Any]) -> Chunk | None:
    """The chunk in the file, if it is of these partitions and options. A file that is broken is none."""
    try:
        chunk = read_chunk(Path(plan.path))
    except (RecycleGPError, FileNotFoundError):
        return None
    identities = [identity(source, plan.columns) for source in sources]
    return chunk if chunk.fingerprint == fingerprint(plan, identities) else None


def fingerprint(plan: Plan, identities: Sequence[str]) -> str:
    """Of all that the modules depend on."""
    options = [f"{name}={_described(value)}" for name, value in plan.options.keywords.items()]
    said = [__version__, *map(str, plan.columns), *options, *plan.names, *identities]
    return hashlib.sha256("\0".join(said).encode()).hexdigest()


def _described(value: Any) -> str:
    """An option as text: the same for the same values, in any process."""
    if hasattr(value, "state_dict"):  # a GPyTorch kernel
        return f"{value!r} {digest(*value.state_dict().values())} {list(value.state_dict())}"
    if isinstance(value, (np.ndarray, torch.Tensor)) or hasattr(value, "columns"):
        return digest(value)
    return repr(value)


def _facts(plan: Plan, chunk: Chunk, *, found: bool) -> FittedChunk:
    pieces = list(chunk.modules._pieces())
    facts = {i: made for block, positions in pieces for i, made in zip(positions, _modules(block), strict=True)}
    inputs = [block.common for block, _ in pieces]
    for other in inputs[1:]:
        if other.columns != inputs[0].columns:
            raise RecycleGPError(columns_differ(inputs[0].columns, other.columns))
    dimensions = sorted({common.dimension for common in inputs}) or [0]
    if len(dimensions) > 1:
        raise RecycleGPError(f"partitions have {' and '.join(map(str, dimensions))} input columns; give them one")
    return FittedChunk(
        path=plan.path,
        fingerprint=chunk.fingerprint,
        modules=tuple(facts[i] for i in sorted(facts)),
        dimension=dimensions[0],
        columns=inputs[0].columns if inputs else None,
        categories=union_of([common.categories for common in inputs]) if inputs else NO_CATEGORIES,
        failures=chunk.failures,
        found=found,
    )


def _modules(block: Block) -> Iterator[FittedModule]:
    weights, sites = [1.0] * len(block), [f.models.sites for f in block.functions]
    members = zip(*(block.members(weights, keep=False, function=c) for c in range(len(sites))), strict=True)
    points, rows = (zip(*(getattr(s, what).tolist() for s in sites), strict=True) for what in ("points", "rows"))
    return (FittedModule(block.common.likelihood, *facts) for facts in zip(members, points, rows, strict=True))


def columns_differ(one: ColumnNames, other: ColumnNames) -> str:
    said = " and ".join("no names" if c is None else f"({', '.join(c)})" for c in (one, other))
    return f"partitions have the columns {said}; give all of them the same, in one order (inputs= names them)"
