"""Many modules in one file (docs/schema.md, kind "modules"), written as columns and read a piece at a time.

A block of modules that share their kernel's structure is two tensors: `numbers`, a table with one line for each module,
and `sites`, all their sites behind each other. A table says how long each site is, so that nothing needs padding.
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
from ..kernels import Kernel, entries
from ..kernels.file_form import LARGEST_LOG, from_json, to_json
from ..likelihoods import Gaussian, named
from ..local.fitted import Fitted
from ..storage import container, limits
from ..storage.container import Document, Header, OpenFile
from ..storage.fields import (
    categories_from_json,
    categories_to_json,
    columns_from_json,
    count,
    fields,
    listed,
    target_from_json,
    target_to_json,
    text,
)
from .blocks import Block, Common, Piece
from .naming import check_name, check_owner

KIND = "modules"
LARGEST_WHOLE = 2.0**53  # above it a float64 does not know every whole number
# of the table, before the kernels' parameters and those of the likelihoods
FACTS = ("position", "rows", "points", "site_rows", "mean", "jitter", "kept", "converged", "evaluations", "message")
NOISE = ("noise_known", "misfit", "blur", "residual", "freedom")
PIECE = 2**22  # numbers of sites that are read at once
MOST_BLOCKS = limits.MOST_TENSORS // 2


# --- writing ----------------------------------------------------------------------------------


def document(whole: Sequence[Piece]) -> Document:
    """All modules, block by block."""
    if len(whole) > MOST_BLOCKS:
        raise RecycleGPError(f"{len(whole)} kinds of modules do not fit into one file; save them in parts")
    total = sum(len(positions) for _, positions in whole)
    limits.check_members(total)
    tensors: dict[str, Tensor] = {}
    for b, (block, positions) in enumerate(whole):
        tensors[f"{b:02d}.numbers"], tensors[f"{b:02d}.sites"] = _table(block, positions), block.models.sites.flat
    return Document({"kind": KIND, "modules": total, "blocks": [_header(block) for block, _ in whole]}, tensors)


def _header(block: Block) -> Header:
    c = block.common
    first = Kernel(c.structure, block.models.theta[0])
    return {
        "kernel": to_json(first, c.dimension),
        "likelihood": c.likelihood.name,
        "method": c.method,
        "dimension": c.dimension,
        "columns": None if c.columns is None else list(c.columns),
        "names": list(block.names),
        "owners": list(block.owners) if any(o is not None for o in block.owners) else None,
        "messages": _different(block.models.messages),
        **target_to_json(c.target),
        **categories_to_json(c.categories),
    }


def _different(messages: Sequence[str]) -> list[str]:
    """Each once, in the order in which the table refers to them."""
    return sorted(set(messages))


def _table(block: Block, positions: Sequence[int]) -> Tensor:
    m = block.models
    code = {message: i for i, message in enumerate(_different(m.messages))}
    messages = torch.tensor([code[message] for message in m.messages])
    known = ~m.noise[:, :1].isnan()
    facts = (
        torch.tensor(positions),
        block.rows,
        m.sites.points,
        m.sites.rows,
        m.mean,
        m.jitter,
        m.kept,
        m.converged,
        m.evaluations,
    )
    columns = [t.to(torch.float64)[:, None] for t in (*facts, messages)]
    return torch.cat([*columns, known.to(torch.float64), m.noise.nan_to_num(0.0), m.theta, m.parameters], 1)


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
    headers = listed(file.header["blocks"], "blocks", most=MOST_BLOCKS)
    wanted = [f"{b:02d}.{what}" for b in range(len(headers)) for what in ("numbers", "sites")]
    if [place.name for place in file.places] != wanted:
        raise RecycleGPError("its tensors are not those of its blocks")
    seen = torch.zeros(total, dtype=torch.bool)
    for b, header in enumerate(headers):
        numbers, sites = file.places[2 * b], file.places[2 * b + 1]
        reader = _BlockReader(fields(header, "a block"), numbers.shape, total)
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
        self.owners = _owners(header.get("owners"), len(self.names))
        self.messages = [text(m, "a message") for m in listed(header["messages"], "messages", most=1000)]
        likelihood = named(text(header["likelihood"], "likelihood"))
        structure = from_json(header["kernel"], D).structure
        self.common = Common(
            structure=structure,
            likelihood=likelihood,
            method=text(header["method"], "method"),
            dimension=D,
            columns=columns_from_json(header["columns"], D),
            target=target_from_json(header),
            categories=categories_from_json(header, D),
        )
        self.learned = torch.tensor([p.learned for p in entries(structure)], dtype=torch.bool)
        self.total = total
        width = len(FACTS) + len(NOISE) + len(self.learned) + len(likelihood.parameter_names)
        if shape != (len(self.names), width) or not self.names:
            raise RecycleGPError(f"a table of {shape} for {len(self.names)} modules with {width} numbers each")

    def checked(self, table: Tensor, sites: tuple[int, ...]) -> Tensor:
        """The table, in which everything is what it can be."""
        if not bool((table.abs() <= arrays.LARGEST).all()):
            raise RecycleGPError(f"its table holds NaN or infinite values, or some beyond {arrays.LARGEST:g}")
        fact = {name: table[:, i] for i, name in enumerate((*FACTS, *NOISE))}
        most = {
            "position": self.total - 1,
            "points": limits.MOST_POINTS,
            "converged": 1,
            "message": len(self.messages) - 1,
        }
        for name in ("position", "rows", "points", "site_rows", "converged", "evaluations", "message", "noise_known"):
            least = 1 if name in ("rows", "points") else 0
            _check_whole(fact[name], name, least, most.get(name, 1 if name == "noise_known" else LARGEST_WHOLE))
        if bool((fact["site_rows"] > fact["points"]).any()):
            raise RecycleGPError("a site has more rows than points")
        if not bool(((fact["kept"] > 0) & (fact["kept"] <= 1)).all()):
            raise RecycleGPError("kept is not in (0, 1]")
        if bool((table[:, [FACTS.index("jitter"), *range(len(FACTS), len(FACTS) + len(NOISE))]] < 0).any()):
            raise RecycleGPError("a jitter, or what is said about a noise, is negative")
        if bool(fact["noise_known"].any()) and not isinstance(self.common.likelihood, Gaussian):
            raise RecycleGPError("a noise is described for data that have no Gaussian noise")
        theta, parameters = self._split(table)
        if bool((theta[:, self.learned].abs() > LARGEST_LOG).any()):
            raise RecycleGPError("a parameter of a kernel is beyond what it can be")
        if not bool((parameters > 0).all()):
            raise RecycleGPError("a parameter of a likelihood is not positive")
        if sites != (int(self._sizes(table).sum()),):
            raise RecycleGPError(f"sites of {sites} numbers, where the table says {int(self._sizes(table).sum())}")
        return table

    def read(self, file: OpenFile, table: Tensor) -> Iterator[Piece]:
        """The modules, as many at a time as have few enough numbers."""
        turn = (self._sizes(table).cumsum(0) - 1) // PIECE
        for some in torch.unique_consecutive(turn):
            lines = (turn == some).nonzero()[:, 0]
            part = table[lines]
            flat = file.tensor((int(self._sizes(part).sum()),))
            if not bool((flat.abs() <= arrays.LARGEST).all()):
                raise RecycleGPError(f"its sites hold NaN or infinite values, or some beyond {arrays.LARGEST:g}")
            yield self._piece(part, flat, lines.tolist())

    def _piece(self, table: Tensor, flat: Tensor, lines: list[int]) -> Piece:
        fact = {name: table[:, i] for i, name in enumerate(FACTS)}
        noise = table[:, len(FACTS) : len(FACTS) + len(NOISE)]
        theta, parameters = self._split(table)
        models = Fitted(
            sites=SiteColumns(flat, fact["points"].long(), fact["site_rows"].long(), self.common.dimension),
            theta=theta,
            parameters=parameters,
            mean=fact["mean"],
            jitter=fact["jitter"],
            kept=fact["kept"],
            noise=torch.where(noise[:, :1] > 0, noise[:, 1:], torch.nan),
            converged=fact["converged"] > 0,
            evaluations=fact["evaluations"].long(),
            messages=tuple(self.messages[int(i)] for i in fact["message"].tolist()),
        )
        names, owners = tuple(self.names[i] for i in lines), tuple(self.owners[i] for i in lines)
        for site in models.sites.each() if self.common.categories else ():
            self.common.categories.check_codes(site.Z)
        block = Block(self.common, names, owners, fact["rows"].long(), models)
        return Piece(block, [int(p) for p in fact["position"].tolist()])

    def _split(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """θ and the likelihoods' parameters."""
        first = len(FACTS) + len(NOISE)
        return table[:, first : first + len(self.learned)], table[:, first + len(self.learned) :]

    def _sizes(self, table: Tensor) -> Tensor:
        M, r = (table[:, FACTS.index(name)] for name in ("points", "site_rows"))
        return (M * self.common.dimension + r * M + r + 1).long()


def _check_whole(values: Tensor, what: str, least: float, most: float) -> None:
    if not bool(((values >= least) & (values <= most) & (values == values.round())).all()):
        raise RecycleGPError(f"{what} is not a whole number from {least:g} to {most:g}")


def _owners(given: Any, modules: int) -> list[str | None]:
    if given is None:
        return [None] * modules
    found = listed(given, "owners", most=modules)
    if len(found) != modules:
        raise RecycleGPError(f"owners of {len(found)} of {modules} modules")
    return [None if o is None else check_owner(text(o, "an owner")) for o in found]
