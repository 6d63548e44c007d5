"""Many modules in one file (docs/schema.md, kind "modules"), written as columns and read a piece at a time.

A block of modules that share their kernels' structures is two tensors: `numbers`, a table with one line for each
module, and `sites`, all their sites behind each other, those of one module's functions together. A table says how long
each site is, so that nothing needs padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import arrays
from ..core.site_columns import SiteColumns
from ..errors import RecycleGPError
from ..kernels import Kernel, Node, entries
from ..kernels.file_form import LARGEST_LOG, from_json, to_json
from ..likelihoods import Gaussian, Likelihood
from ..local.fitted import Fitted
from ..storage import container, limits
from ..storage.container import SCHEMA, Document, Header, OpenFile
from ..storage.fields import count, fields, listed, text
from ..storage.making import MODULES as KIND
from ..storage.record_json import (
    categories_from_json,
    categories_to_json,
    columns_from_json,
    held_back_from_json,
    likelihood_from_json,
    likelihood_to_json,
    origin_from_json,
    origin_to_json,
    privacy_from_json,
    privacy_to_json,
    targets_from_json,
    targets_to_json,
    time_from_json,
)
from ..times import written
from . import legacy_files
from .blocks import Block, Common, FunctionColumns, Piece
from .naming import check_name, check_owner

LARGEST_WHOLE = 2.0**53  # above it a float64 does not know every whole number
POSITION = 1  # columns of a table before those of functions: where the module stands among all of them
# columns of each function, before those of its kernel and of its likelihood
FACTS = ("rows", "points", "site_rows", "mean", "jitter", "kept", "converged", "evaluations", "message")
NOISE = ("noise_known", "chi2", "residual_variance", "residual", "dof")
WHOLE = {"rows": 1, "points": 1, "site_rows": 0, "converged": 0, "evaluations": 0, "message": 0, "noise_known": 0}
PIECE = 2**22  # numbers of sites that are read at once
MOST_BLOCKS = limits.MOST_TENSORS // 2
MOST_MESSAGES = 1000


# --- writing ----------------------------------------------------------------------------------


def document(whole: Sequence[Piece]) -> Document:
    """All modules, block by block."""
    if len(whole) > MOST_BLOCKS:
        raise RecycleGPError(f"{len(whole)} kinds of modules do not fit into one file; save them in parts")
    total = sum(len(positions) for _, positions in whole)
    limits.check_members(total)
    tensors: dict[str, Tensor] = {}
    for b, (block, positions) in enumerate(whole):
        tensors[_name(b, "numbers")], tensors[_name(b, "sites")] = _table(block, positions), _flat(block)
    return Document({"kind": KIND, "modules": total, "blocks": [_header(block) for block, _ in whole]}, tensors)


def _name(b: int, what: str) -> str:
    """Tensors lie in a file in the order of their names."""
    return f"{b:04d}.{what}"


def _header(block: Block) -> Header:
    c, origins = block.common, [origin_to_json(origin) for origin in block.origins]
    parts = zip(c.structures, block.functions, strict=True)
    said = {
        "kernels": [to_json(Kernel(structure, own.models.theta[0]), c.dimension) for structure, own in parts],
        "likelihood": likelihood_to_json(c.likelihood, numbers=False),
        "method": c.method,
        "dimension": c.dimension,
        "columns": None if c.columns is None else list(c.columns),
        "names": list(block.names),
        "owners": list(block.owners) if any(o is not None for o in block.owners) else None,
        "times": [None if t is None else written(t) for t in block.times] if any_known(block.times) else None,
        "origins": origins if any_known(origins) else None,
        "messages": _different(block),
        "targets": targets_to_json(c.targets),
        "categories": categories_to_json(c.categories),
        "privacy": privacy_to_json(c.privacy),
        "held_back": c.held_back,
    }
    return {key: value for key, value in said.items() if value is not None}


def any_known(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values)


def _different(block: Block) -> list[str]:
    """Each message once, in the order in which the table refers to them."""
    return sorted({message for own in block.functions for message in own.models.messages})


def _table(block: Block, positions: Sequence[int]) -> Tensor:
    code = {message: i for i, message in enumerate(_different(block))}
    first = torch.tensor(positions, dtype=torch.float64)[:, None]
    return torch.cat([first, *(_columns(own, code) for own in block.functions)], 1)


def _columns(own: FunctionColumns, code: dict[str, int]) -> Tensor:
    m = own.models
    messages = torch.tensor([code[message] for message in m.messages])
    known = ~m.noise[:, :1].isnan()
    facts = (own.rows, m.sites.points, m.sites.rows, m.mean, m.jitter, m.kept, m.converged, m.evaluations, messages)
    columns = [t.to(torch.float64)[:, None] for t in facts]
    return torch.cat([*columns, known.to(torch.float64), m.noise.nan_to_num(0.0), m.theta, m.parameters], 1)


def _flat(block: Block) -> Tensor:
    """Sites of all functions, module by module."""
    every = [own.models.sites for own in block.functions]
    if len(every) == 1:
        return every[0].flat
    order = _order([sites.sizes for sites in every])
    return torch.cat([sites.flat for sites in every])[order]


def _order(sizes: Sequence[Tensor]) -> Tensor:
    """Where numbers that lie function by function are, when they are taken module by module; sizes are (K,) each."""
    table = torch.stack(list(sizes))  # (C, K)
    starts = (table.flatten().cumsum(0) - table.flatten()).reshape(table.shape)
    start, size = starts.T.flatten(), table.T.flatten()
    return torch.arange(int(size.sum())) + (start - (size.cumsum(0) - size)).repeat_interleave(size)


# --- reading ----------------------------------------------------------------------------------


def pieces(path: Path) -> Iterator[Piece]:
    """All modules of a file, some at a time: no more of them are held at once."""
    with container.opened(path) as file:
        yield from pieces_in(file)


def pieces_in(file: OpenFile) -> Iterator[Piece]:
    """The same of a file that is open already."""
    try:
        yield from _pieces(file)
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as broken:
        raise ValueError(f"the header is malformed: {broken!r}") from None


def _pieces(file: OpenFile) -> Iterator[Piece]:
    if file.header.get("kind") != KIND:
        raise RecycleGPError(f"it holds a {str(file.header.get('kind'))[:50]!r}, not modules")
    total = count(file.header["modules"], "modules", least=1)
    limits.check_members(total)
    new = file.header["schema"] == SCHEMA
    name = _name if new else legacy_files.name_of_block
    headers = listed(file.header["blocks"], "blocks", most=MOST_BLOCKS)
    wanted = [name(b, what) for b in range(len(headers)) for what in ("numbers", "sites")]
    if [place.name for place in file.places] != wanted:
        raise RecycleGPError("its tensors are not those of its blocks")
    seen = torch.zeros(total, dtype=torch.bool)
    for b, header in enumerate(headers):
        numbers, sites = file.places[2 * b], file.places[2 * b + 1]
        own = fields(header, "a block")
        reader = _BlockReader(own if new else legacy_files.block(own), numbers.shape, total)
        table = reader.checked(file.tensor(numbers.shape), sites.shape)
        where = table[:, 0].long()
        if bool(seen[where].any()) or len(torch.unique(where)) < len(where):
            raise RecycleGPError("two modules have one position")
        seen[where] = True
        yield from reader.read(file, table)
    if not bool(seen.all()):
        raise RecycleGPError(f"{int((~seen).sum())} of its {total} modules are missing")


class _BlockReader:
    """One block: what its header says, checked; then its table; then its sites."""

    def __init__(self, header: Header, shape: tuple[int, ...], total: int) -> None:
        D = count(header["dimension"], "dimension", least=1)
        if limits.MOST_COLUMNS < D:
            raise RecycleGPError(f"{D:,} input columns; files may have {limits.MOST_COLUMNS:,}")
        self.names = [text(n, "a name") for n in listed(header["names"], "names", most=total)]
        for name in self.names:
            check_name(name)
        self.owners = [None if o is None else check_owner(text(o, "an owner")) for o in self._each(header, "owners")]
        self.times = [time_from_json(t) for t in self._each(header, "times")]
        self.origins = [origin_from_json(o) for o in self._each(header, "origins")]
        messages = [text(m, "a message") for m in listed(header["messages"], "messages", most=MOST_MESSAGES)]
        likelihood = likelihood_from_json(header["likelihood"])
        C = len(likelihood.functions)
        kernels = listed(header["kernels"], "kernels", most=C)
        if len(kernels) != C:
            raise RecycleGPError(f"{len(kernels)} kernels for {C} functions")
        self.common = Common(
            structures=tuple(from_json(kernel, D).structure for kernel in kernels),
            likelihood=likelihood,
            method=text(header["method"], "method"),
            dimension=D,
            columns=columns_from_json(header.get("columns"), D),
            targets=targets_from_json(header.get("targets"), C),
            categories=categories_from_json(header.get("categories"), D),
            privacy=privacy_from_json(header.get("privacy")),
            held_back=held_back_from_json(header.get("held_back")),
        )
        self.total = total
        parts = zip(self.common.structures, likelihood.parts, strict=True)
        self.functions = [_FunctionReader(structure, p, D, messages) for structure, p in parts]
        width = POSITION + sum(own.width for own in self.functions)
        if shape != (len(self.names), width) or not self.names:
            raise RecycleGPError(f"a table of {shape} for {len(self.names)} modules with {width} numbers each")

    def _each(self, header: Header, key: str) -> list[Any]:
        """One for each module, or nothing of any."""
        given = header.get(key)
        found = listed([None] * len(self.names) if given is None else given, key, most=len(self.names))
        if len(found) != len(self.names):
            raise RecycleGPError(f"{key} of {len(found)} of {len(self.names)} modules")
        return found

    def checked(self, table: Tensor, sites: tuple[int, ...]) -> Tensor:
        """The table, in which everything is what it can be."""
        if not bool((table.abs() <= arrays.LARGEST).all()):
            raise RecycleGPError(f"its table holds NaN or infinite values, or some beyond {arrays.LARGEST:g}")
        _check_whole(table[:, 0], "position", 0, self.total - 1)
        for own, columns in zip(self.functions, self._split(table), strict=True):
            own.check(columns)
        numbers = int(self._sizes(table).sum())
        if sites != (numbers,):
            raise RecycleGPError(f"sites of {sites} numbers, where the table says {numbers}")
        return table

    def read(self, file: OpenFile, table: Tensor) -> Iterator[Piece]:
        """The modules, as many at a time as have few enough numbers."""
        turn = (self._sizes(table).sum(0).cumsum(0) - 1) // PIECE
        for some in torch.unique_consecutive(turn):
            lines = (turn == some).nonzero()[:, 0]
            part = table[lines]
            flat = file.tensor((int(self._sizes(part).sum()),))
            if not bool((flat.abs() <= arrays.LARGEST).all()):
                raise RecycleGPError(f"its sites hold NaN or infinite values, or some beyond {arrays.LARGEST:g}")
            yield self._piece(part, flat, lines.tolist())

    def _piece(self, table: Tensor, flat: Tensor, lines: list[int]) -> Piece:
        columns = [
            own.columns(numbers, mine)
            for own, numbers, mine in zip(
                self.functions, self._split(table), self._by_function(table, flat), strict=True
            )
        ]
        for own in columns if self.common.categories else ():
            for site in own.models.sites.each():
                self.common.categories.check_codes(site.Z)
        block = Block(
            self.common,
            tuple(self.names[i] for i in lines),
            tuple(self.owners[i] for i in lines),
            tuple(self.times[i] for i in lines),
            tuple(self.origins[i] for i in lines),
            tuple(columns),
        )
        return Piece(block, [int(p) for p in table[:, 0].tolist()])

    def _by_function(self, table: Tensor, flat: Tensor) -> Sequence[Tensor]:
        """Numbers that lie module by module, function by function."""
        if len(self.functions) == 1:
            return [flat]
        sizes = self._sizes(table)
        whole = torch.empty_like(flat)
        whole[_order(list(sizes))] = flat
        return whole.split(sizes.sum(1).tolist())

    def _split(self, table: Tensor) -> Sequence[Tensor]:
        """The columns of each function."""
        return table[:, POSITION:].split([own.width for own in self.functions], 1)

    def _sizes(self, table: Tensor) -> Tensor:
        """(C, K) numbers of each site."""
        return torch.stack([own.sizes(t) for own, t in zip(self.functions, self._split(table), strict=True)])


class _FunctionReader:
    """The columns of one function."""

    def __init__(self, structure: Node, likelihood: Likelihood, dimension: int, messages: list[str]) -> None:
        self.learned = torch.tensor([p.learned for p in entries(structure)], dtype=torch.bool)
        self.gaussian = isinstance(likelihood, Gaussian)
        self.dimension = dimension
        self.messages = messages
        self.kernel = len(FACTS) + len(NOISE)  # where its parameters begin, and those of the likelihood
        self.likelihood = self.kernel + len(self.learned)
        self.width = self.likelihood + len(likelihood.value_names)

    def check(self, table: Tensor) -> None:
        fact = {name: table[:, i] for i, name in enumerate((*FACTS, *NOISE))}
        most = {"points": limits.MOST_POINTS, "converged": 1, "noise_known": 1, "message": len(self.messages) - 1}
        for name, least in WHOLE.items():
            _check_whole(fact[name], name, least, most.get(name, LARGEST_WHOLE))
        if bool((fact["site_rows"] > fact["points"]).any()):
            raise RecycleGPError("a site has more rows than points")
        if not bool(((fact["kept"] > 0) & (fact["kept"] <= 1)).all()):
            raise RecycleGPError("kept is not in (0, 1]")
        if bool((torch.cat([fact[name] for name in ("jitter", *NOISE)]) < 0).any()):
            raise RecycleGPError("a jitter, or what is said about a noise, is negative")
        if bool(fact["noise_known"].any()) and not self.gaussian:
            raise RecycleGPError("a noise is described for data that have no Gaussian noise")
        if bool((table[:, self.kernel : self.likelihood][:, self.learned].abs() > LARGEST_LOG).any()):
            raise RecycleGPError("a parameter of a kernel is beyond what it can be")
        if not bool((table[:, self.likelihood :] > 0).all()):
            raise RecycleGPError("a parameter of a likelihood is not positive")

    def sizes(self, table: Tensor) -> Tensor:
        M, r = (table[:, FACTS.index(name)] for name in ("points", "site_rows"))
        return (M * self.dimension + r * M + r + 1).long()

    def columns(self, table: Tensor, flat: Tensor) -> FunctionColumns:
        fact = {name: table[:, i] for i, name in enumerate(FACTS)}
        noise = table[:, len(FACTS) : self.kernel]
        models = Fitted(
            sites=SiteColumns(flat, fact["points"].long(), fact["site_rows"].long(), self.dimension),
            theta=table[:, self.kernel : self.likelihood],
            parameters=table[:, self.likelihood :],
            mean=fact["mean"],
            jitter=fact["jitter"],
            kept=fact["kept"],
            noise=torch.where(noise[:, :1] > 0, noise[:, 1:], torch.nan),
            converged=fact["converged"] > 0,
            evaluations=fact["evaluations"].long(),
            messages=tuple(self.messages[int(i)] for i in fact["message"].tolist()),
        )
        return FunctionColumns(fact["rows"].long(), models)


def _check_whole(values: Tensor, what: str, least: float, most: float) -> None:
    if not bool(((values >= least) & (values <= most) & (values == values.round())).all()):
        raise RecycleGPError(f"{what} is not a whole number from {least:g} to {most:g}")
