"""The door of merge and add: modules come in one at a time, from memory, an iterator, files or a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .. import arrays
from ..devices import room
from ..errors import LONGEST_MESSAGE, RecycleGPError, printable
from ..kernels import Kernel
from ..kernels.units import permuted
from ..merging.member import Member
from ..merging.site_store import SiteStore
from ..storage import container
from ..storage.container import Document
from ..storage.fields import Fields
from . import modules_file
from .blocks import Piece
from .doubts import Doubts
from .module import Module
from .modules import Modules

Source = Module | Modules | str | PathLike[str] | Iterable[Module | Modules | str | PathLike[str]]
PATTERN = "*.safetensors"
LARGEST_WEIGHT = 1e6


class Frame(NamedTuple):
    """What modules must share: the number of input columns, and their names where somebody gives them."""

    dimension: int
    columns: arrays.Columns
    owner: str  # who named the columns


class ModulesRead(NamedTuple):
    members: tuple[Member, ...]
    frame: Frame


def read_modules(
    source: Source,
    store: SiteStore,
    *,
    keep: bool,
    weights: Any = None,
    already: Sequence[Member] = (),
    frame: Frame | None = None,
    check: Callable[[Module], None] | None = None,
) -> ModulesRead:
    """Every module of the source, checked, put into the store, and but for `keep` let go.

    `already` are the members they join, `check` sees the first module before the others are read.
    """
    reader = _Reader(store, keep=keep, weights=weights, already=already, frame=frame, check=check)
    for item, label in _items(source):
        if isinstance(item, Module):
            reader.take(item, label)
        else:
            reader.take_all(item, label)
    return reader.finish()


class _Reader:
    """Takes modules as they come, one at a time or many as columns."""

    def __init__(
        self,
        store: SiteStore,
        *,
        keep: bool,
        weights: Any,
        already: Sequence[Member],
        frame: Frame | None,
        check: Callable[[Module], None] | None,
    ) -> None:
        self.store, self.keep, self.frame, self.check = store, keep, frame, check
        self.weigh, self.shared, self.doubts = _Weights(weights), _Shared(), Doubts(already)
        self.seen, self.late = {m.name for m in already}, bool(already)
        self.members: list[Member] = []

    def take(self, module: Module, label: str) -> None:
        """One module."""
        self._look_at(module, label)
        assert self.frame is not None
        module = _in_order(module, self.frame.columns)
        self._meet(module.name)
        weight = self.weigh.of(module.name, len(self.members))
        if weight > 0:
            self.store.put(module._site, weight, len(self.members))
        self._add(self.shared.member(module, weight, self.keep))

    def take_all(self, pieces: Iterable[Piece], label: str) -> None:
        """Many modules, in the order of their positions; no objects are made of those that fit as they are."""
        first = len(self.members)
        found: dict[int, Member] = {}
        for block, positions in pieces:
            example = block.module(0)
            self._look_at(example, f"{label}: module {example.name!r}")
            assert self.frame is not None
            if block.common.columns is not None and self.frame.columns is not None:
                block = block.in_order(self.frame.columns)
            self.doubts.look_at_others(block)
            for name in block.names:
                self._meet(name)
            weights = [self.weigh.of(n, first + p) for n, p in zip(block.names, positions, strict=True)]
            for packed in block.packs([first + p for p in positions], weights, room(self.store.device)):
                self.store.put_packed(packed)
            found.update(zip(positions, block.members(weights, keep=self.keep), strict=True))
        for position in sorted(found):
            self._add(found[position])

    def finish(self) -> ModulesRead:
        if not self.members or self.frame is None:
            raise RecycleGPError("modules is empty; merge needs at least one module")
        self.weigh.finish(len(self.members), self.seen)
        if not self.store.points:
            raise RecycleGPError("weights are all zero; give at least one module a positive weight")
        self.doubts.tell(self.frame.columns)
        return ModulesRead(tuple(self.members), self.frame)

    def _look_at(self, module: Module, label: str) -> None:
        if not self.members and self.check is not None:
            self.check(module)
        self.frame = _fitted(self.frame, module, label)
        self.doubts.look_at(module, label)

    def _meet(self, name: str) -> None:
        if name in self.seen:
            raise RecycleGPError(f"two modules are named {name!r}; rename one (module.rename), or use weights")
        self.seen.add(name)

    def _add(self, member: Member) -> None:
        self.members.append(member._replace(came_later=True) if self.late else member)


# --- where they come from ---------------------------------------------------------------------


Item = Module | Iterable[Piece]


def _items(source: Source) -> Iterator[tuple[Item, str]]:
    """Each module, or many of them as columns, and what to call it in an error."""
    several: Iterable[Any]
    if isinstance(source, (Module, Modules)) or hasattr(source, "to_module"):
        several = [source]  # an ensemble is refused below, like anything else
    elif isinstance(source, (str, PathLike)):
        several = _files(Path(source))
    else:
        several = source
    for item in several:
        if isinstance(item, Module):
            yield item, f"module {item.name!r}"
        elif isinstance(item, Modules):
            yield item._pieces(), "modules"
        elif isinstance(item, (str, PathLike)):
            yield _loaded(Path(item))
        else:
            remedy = "; call its to_module(name) first" if hasattr(item, "to_module") else ""
            raise TypeError(f"modules must hold Module objects or paths, not {type(item).__name__}{remedy}")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(PATTERN))
    if not found:
        raise RecycleGPError(f"{path}: the folder holds no {PATTERN} files; save modules there, or name their files")
    return found


def _loaded(path: Path) -> tuple[Item, str]:
    if container.header(path).get("kind") == modules_file.KIND:
        return modules_file.pieces(path), str(path)
    document = container.read(path)
    if document.header.get("kind") == "ensemble":
        raise RecycleGPError(
            f"{path}: it holds an ensemble, not a module; load it and save its to_module(name) to merge it again"
        )
    module = made_from(path, document, {"module": Module._from_fields})
    return module, f"module {module.name!r} ({path})"


T = TypeVar("T")


def made_from(path: Path, document: Document, makers: Mapping[str, Callable[[Fields], T]]) -> T:
    """The object a file holds, or one error that names the file, whatever is wrong with it."""
    kind = document.header.get("kind")
    if kind == modules_file.KIND:
        raise RecycleGPError(f"{path}: it holds many modules; read them with load_many, or merge them")
    if not isinstance(kind, str) or kind not in makers:
        raise RecycleGPError(f"{path}: it holds a {str(kind)[:50]!r}, which this version cannot read; upgrade")
    try:
        return makers[kind](Fields(document))
    except RecycleGPError as broken:
        raise RecycleGPError(f"{path}: {printable(str(broken), LONGEST_MESSAGE)}; ask for the file again") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as broken:
        raise RecycleGPError(
            f"{path}: the header is malformed ({printable(repr(broken), LONGEST_MESSAGE)}); ask for the file again"
        ) from None


# --- what they must share ---------------------------------------------------------------------


def _fitted(frame: Frame | None, module: Module, label: str) -> Frame:
    """The frame with this module in it, if it fits."""
    if frame is None:
        return Frame(module.dimension, module.columns, module.name)
    if module.dimension != frame.dimension:
        raise RecycleGPError(
            f"{label} has {_listed(module.dimension, module.columns)} where the others have "
            f"{_listed(frame.dimension, frame.columns)}; merge modules over the same inputs"
        )
    if module.columns is None:
        return frame
    if frame.columns is None:
        return Frame(frame.dimension, module.columns, module.name)
    arrays.common_columns([frame.columns, module.columns], [frame.owner, module.name])
    return frame


def _listed(dimension: int, columns: arrays.Columns) -> str:
    return f"{dimension} input columns" + ("" if columns is None else f" ({', '.join(columns)})")


def _in_order(m: Module, columns: arrays.Columns) -> Module:
    """Columns by name: a module fitted on the same columns in another order is turned round."""
    if m.columns is None or columns is None or m.columns == columns:
        return m
    order = [m.columns.index(c) for c in columns]
    site = m._site._replace(Z=m._site.Z[:, order])
    return replace(m, _site=site, _kernel=permuted(m._kernel, order), columns=columns)


class _Weights:
    """name → w, or one w after the other; whether they match the modules is known when all have come."""

    def __init__(self, weights: Any) -> None:
        self.named: dict[Any, float] = {}
        self.listed: list[float] | None = None
        if isinstance(weights, Mapping):
            self.named = {n: arrays.number(w, f"weights[{n!r}]") for n, w in weights.items()}
        elif weights is not None:
            self.listed = [arrays.number(w, "weights") for w in weights]
        for weight in (*self.named.values(), *(self.listed or ())):
            check_weight(weight)

    def of(self, name: str, position: int) -> float:
        if self.listed is None:
            return self.named.get(name, 1.0)
        return self.listed[position] if position < len(self.listed) else 1.0

    def finish(self, count: int, names: set[str]) -> None:
        unknown = set(self.named) - names
        if unknown:
            raise RecycleGPError(f"weights names modules that are not here: {', '.join(sorted(map(str, unknown)))}")
        if self.listed is not None and len(self.listed) != count:
            raise RecycleGPError(f"weights has {len(self.listed)} numbers for {count} modules; give one each")


def check_weight(weight: float) -> None:
    if weight < 0:
        raise RecycleGPError("weights must not be negative")
    if weight > LARGEST_WEIGHT:
        raise RecycleGPError(f"weights: {weight:g} would count a module so many times; pass at most {LARGEST_WEIGHT:g}")


class _Shared:
    """Equal kernels and likelihoods of many modules become one object: a hundred thousand members are small."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}
        self.firsts: set[int] = set()  # the identities of those: comparing by value is dear, and often not needed

    def one(self, value: T) -> T:
        """The first of all values equal to this one."""
        if id(value) in self.firsts:
            return value
        first: T = self.known.setdefault(value, value)
        self.firsts.add(id(first))
        return first

    def member(self, m: Module, weight: float, keep: bool) -> Member:
        likelihoods = self.one(m.likelihoods)
        structure = self.one(m._kernel.structure)
        kernel = m._kernel if structure is m._kernel.structure else Kernel(structure, m._kernel.theta)
        return Member(
            name=m.name,
            site=m._site if keep else None,
            rows=m.rows,
            weight=weight,
            likelihoods=likelihoods,
            kernel=kernel,
            mean=m.mean,
            target=self.one(m.target),
            converged=m.convergence.converged,
            densities=m.densities,
            given_owner=m.given_owner,
            kept=m.kept,
            noise_evidence=m.noise_evidence,
            time=m.time,
        )
