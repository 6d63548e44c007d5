"""Many modules as columns that behave like a list of them: a hundred thousand objects would be slow to hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self, overload
from weakref import WeakValueDictionary

from ..arrays import PerColumn, PerOutput
from ..categories import NO_CATEGORIES, Categories
from ..core.sites import Site
from ..storage import container
from ..storage.container import Document
from . import modules_file
from .blocks import Block, Common, Piece, concatenate, in_one_coding
from .model import squeezed
from .module import Module
from .naming import few
from .units import input_units


class Modules(Sequence[Module]):
    """What `fit_many` returns: modules in the order of their data sets."""

    def __init__(self, blocks: Sequence[Block], order: Sequence[tuple[int, int]]) -> None:
        self._blocks = tuple(blocks)
        self._order = order  # for each module, its block and its place there
        self._known: WeakValueDictionary[tuple[int, int], Module] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._blocks, self._order[index])
        where = self._order[index]
        module = self._known.get(where)
        if module is None:  # somebody who holds a module gets the same one again
            module = self._known[where] = self._blocks[where[0]].module(where[1])
        return module

    def __iter__(self) -> Iterator[Module]:
        return (self[i] for i in range(len(self)))

    def __add__(self, other: Iterable[Module]) -> list[Module]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Module]) -> list[Module]:
        return [*other, *self]

    def __repr__(self) -> str:
        rows = sum(int(self._blocks[b].rows[i]) for b, i in self._order)
        return f"Modules({len(self)}: {few(self.names)}; {rows} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        small = self._compact()
        return Modules, (small._blocks, small._order)

    @property
    def names(self) -> list[str]:
        return [self._blocks[b].names[i] for b, i in self._order]

    @property
    def kept(self) -> list[Any]:
        """Of what the rows of each say about f, by its points; of several functions a tuple."""
        columns = [
            [squeezed(shares) for shares in zip(*(f.models.kept.tolist() for f in block.functions), strict=True)]
            for block in self._blocks
        ]
        return [columns[b][i] for b, i in self._order]

    def transform(
        self,
        input_shift: PerColumn = None,
        output_scale: PerOutput = 1.0,
        output_shift: PerOutput = 0.0,
        unit: PerOutput = None,
        *,
        input_scale: PerColumn = None,
    ) -> Modules:
        """Every module of them in other units.

        Args:
            input_shift: as for one module.
            output_scale: as for one module.
            output_shift: as for one module.
            unit: as for one module.
            input_scale: as for one module.

        Returns:
            The modules in their new units.

        Raises:
            RecycleGPError: As for one module.

        Examples:
            >>> import numpy as np, recyclegp as rgp
            >>> x = np.linspace(0, 5, 20)
            >>> rgp.fit_many([(x, np.sin(x))], names=["a"]).transform(input_shift=[100.0]).names
            ['a']
        """

        def changed(block: Block) -> Block:
            c = block.common
            inputs = input_units(
                input_scale,
                input_shift,
                dimension=c.dimension,
                columns=c.columns,
                discrete=c.structures[0].discrete,
            )
            return block.in_units(c.likelihood.changes(output_scale, output_shift, unit), inputs)

        small = self._compact()
        return Modules([changed(block) for block in small._blocks], small._order)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all of them to one safetensors file, all or nothing; `load_many` gives them back.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> import os, tempfile, numpy as np, recyclegp as rgp
            >>> x, path = np.linspace(0, 5, 20), os.path.join(tempfile.mkdtemp(), "all.safetensors")
            >>> rgp.fit_many([(x, np.sin(x))], names=["a"]).save(path)
            >>> rgp.load_many(path).names
            ['a']
        """
        container.write(path, self._document())

    def _document(self) -> Document:
        return modules_file.document(list(self._pieces()))

    def _sites(self, categories: Categories, function: str) -> list[Site]:
        """What those that have this function say about it, in their order, in codes of these levels."""
        found: dict[int, Site] = {}
        for block, positions in self._pieces():
            names = block.common.likelihood.functions
            if function in names:
                own = block.in_coding(categories).functions[names.index(function)]
                found.update(zip(positions, own.models.sites.each(), strict=True))
        return [found[position] for position in sorted(found)]

    def _compact(self) -> Modules:
        """Without the numbers of modules that are not in it."""
        pieces = list(self._pieces())
        where = {position: (b, i) for b, piece in enumerate(pieces) for i, position in enumerate(piece.positions)}
        return Modules([piece.block for piece in pieces], [where[position] for position in range(len(self))])

    def _pieces(self) -> Iterator[Piece]:
        """All of them, block by block; no object is made for each."""
        places: list[list[int]] = [[] for _ in self._blocks]
        positions: list[list[int]] = [[] for _ in self._blocks]
        for position, (b, i) in enumerate(self._order):
            places[b].append(i)
            positions[b].append(position)
        for block, chosen, where in zip(self._blocks, places, positions, strict=True):
            if chosen:
                yield Piece(block.take(chosen), where)


def of_pieces(pieces: Iterable[Piece]) -> Modules:
    """Modules that were fitted or read some at a time, in the order of their positions; some may be missing."""
    alike: dict[tuple[Common, tuple[int, ...]], list[Piece]] = {}
    for piece in pieces:  # those whose columns of categories are the same come to one coding
        common = piece.block.common
        alike.setdefault((replace(common, categories=NO_CATEGORIES), common.categories.columns), []).append(piece)
    where = {}
    for b, some in enumerate(alike.values()):
        positions = [position for piece in some for position in piece.positions]
        where.update({position: (b, i) for i, position in enumerate(positions)})
    blocks = [concatenate(in_one_coding([piece.block for piece in some])) for some in alike.values()]
    return Modules(blocks, [where[position] for position in sorted(where)])
