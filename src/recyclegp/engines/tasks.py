"""The task that fits the partitions of one chunk, or finds that this has been done already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..arrays import Columns as ColumnNames
from ..categories import NO_CATEGORIES, Categories, union_of
from ..errors import RecycleGPError
from ..local.kernel_choice import ROWS_COMPARED
from ..local.request import FitOptions
from ..merging.member import Member
from ..models.fit import chosen_together, fit_data_sets
from ..models.reading import Frame
from ..version import __version__
from .chunks import Chunk, read_chunk, write_chunk
from .partitions import Columns, Pair, digest, identity, load


class Plan(NamedTuple):
    """What is to become of some partitions, one after the other."""

    path: str  # of the file for their modules
    first: int  # position of the first of them
    names: tuple[str, ...]
    columns: Columns
    options: FitOptions


class FittedChunk(NamedTuple):
    """What everybody needs to know of a chunk without reading its file."""

    path: str
    fingerprint: str
    members: tuple[Member, ...]  # without their sites
    points: tuple[int, ...]  # of each site
    rows: tuple[int, ...]  # of pseudo-observations of each site
    dimension: int
    columns: ColumnNames
    failures: dict[str, str]  # name → why
    found: bool  # had been fitted before
    categories: Categories = NO_CATEGORIES

    @property
    def frame(self) -> Frame:
        """The inputs of its members, of which there is at least one."""
        return Frame(self.dimension, self.columns, self.members[0].name, self.categories)


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


def choose_kernel(columns: Columns, options: FitOptions, sources: Sequence[Any]) -> str:
    """One kernel for all partitions, by some rows of some of them."""
    pairs = [_few_rows(load(source, columns)) for source in sources]
    return chosen_together(pairs, options)


def _few_rows(pair: Pair) -> Pair:
    """Enough to choose by, spread over all of them, so that many partitions fit into memory."""
    step = max(1, len(pair.y) // (4 * ROWS_COMPARED))
    return Pair(pair.X[::step], pair.y[::step])


def _loaded(plan: Plan, sources: Sequence[Any], identities: list[str]) -> Iterator[Pair]:
    """Pair by pair, as it is needed; who each of them is, is written down in passing."""
    for i, source in enumerate(sources):
        try:
            pair = load(source, plan.columns)
            identities.append(_known(identity(source, pair)))
        except RecycleGPError as error:
            raise RecycleGPError(f"partition {plan.first + i} ({plan.names[i]}): {error}") from None
        yield pair


def _already_there(plan: Plan, sources: Sequence[Any]) -> Chunk | None:
    """The chunk in the file, if it is of these partitions and options. A file that is broken is none."""
    try:
        chunk = read_chunk(Path(plan.path))
    except (RecycleGPError, FileNotFoundError):
        return None
    identities: list[str] = []
    for source in sources:
        who = identity(source, None)
        identities.append(_known(identity(source, load(source, plan.columns)) if who is None else who))
    return chunk if chunk.fingerprint == fingerprint(plan, identities) else None


def _known(who: str | None) -> str:
    assert who is not None  # of what is loaded it always is
    return who


def fingerprint(plan: Plan, identities: Sequence[str]) -> str:
    """Of all that the modules depend on."""
    options = [f"{f.name}={_described(getattr(plan.options, f.name))}" for f in fields(plan.options)]
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
    columns: set[ColumnNames] = set()
    dimensions: set[int] = set()
    levels: list[Categories] = []
    facts: dict[int, tuple[Member, int, int]] = {}
    for block, positions in chunk.modules._pieces():
        columns.add(block.common.columns)
        dimensions.add(block.common.dimension)
        levels.append(block.common.categories)
        sites = block.models.sites
        several = zip(
            block.members([1.0] * len(block), keep=False), sites.points.tolist(), sites.rows.tolist(), strict=True
        )
        facts.update(zip(positions, several, strict=True))
    if len(columns) > 1:
        one, other = list(columns)[:2]
        raise RecycleGPError(columns_differ(one, other))
    members, points, rows = zip(*(facts[i] for i in sorted(facts)), strict=True) if facts else ((), (), ())
    return FittedChunk(
        path=plan.path,
        fingerprint=chunk.fingerprint,
        members=members,
        points=points,
        rows=rows,
        dimension=_dimension(dimensions),
        columns=columns.pop() if columns else None,
        categories=union_of(levels) if levels else NO_CATEGORIES,
        failures=chunk.failures,
        found=found,
    )


def columns_differ(one: ColumnNames, other: ColumnNames) -> str:
    said = " and ".join("no names" if c is None else f"({', '.join(c)})" for c in (one, other))
    return f"partitions have the columns {said}; give all of them the same, in one order (inputs= names them)"


def _dimension(dimensions: set[int]) -> int:
    if len(dimensions) > 1:
        raise RecycleGPError(
            f"partitions have {' and '.join(map(str, sorted(dimensions)))} input columns; give them one"
        )
    return dimensions.pop() if dimensions else 0
