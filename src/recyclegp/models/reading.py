"""The door of merge and add: modules come in one at a time, from memory, an iterator, files or a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .. import arrays
from ..categories import NO_CATEGORIES, Categories, called
from ..devices import memory_factor
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
    categories: Categories = NO_CATEGORIES  # the levels that anybody has seen


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
    check: Callable[[Frame], None] | None = None,
) -> ModulesRead:
    """Every module of the source, checked, put into the store, and but for `keep` let go.

    `already` are the members they join, `check` sees the inputs of the first module before the others are read.
    """
    entrance = Entrance(weights, already, frame)
    for item, label in _items(source):
        if not isinstance(item, Module):
            _take_all(item, label, entrance, store, keep, check)
            continue
        module = item
        frame = Frame(module.dimension, module.columns, module.name, module.categories)
        if not entrance.members and check is not None:
            check(frame)
        entrance.fit_in(frame, label)
        module = _in_coding(_in_order(module, entrance.columns), entrance.categories)
        member = entrance.admit(member_of(module), module.columns, label)
        if member.weight > 0:
            store.put(module._site, member.weight, len(entrance.members) - 1)
        if keep:
            entrance.members[-1] = member._replace(site=module._site)
    return entrance.finish()


def _take_all(
    pieces: Iterable[Piece],
    label: str,
    entrance: Entrance,
    store: SiteStore,
    keep: bool,
    check: Callable[[Frame], None] | None,
) -> None:
    """Many modules, in the order of their positions; no objects are made of them."""
    first = len(entrance.members)
    found: dict[int, tuple[Member, arrays.Columns]] = {}
    for block, positions in pieces:
        columns = block.common.columns
        frame = Frame(block.common.dimension, columns, block.names[0], block.common.categories)
        if not first and not found and check is not None:
            check(frame)
        entrance.fit_in(frame, f"{label}: module {block.names[0]!r}")
        block = block.in_order(entrance.columns).in_coding(entrance.categories)
        weights = [entrance.weight_of(n, first + p) for n, p in zip(block.names, positions, strict=True)]
        for packed in block.packs([first + p for p in positions], weights, memory_factor(store.device)):
            store.put_packed(packed)
        found.update({p: (m, columns) for p, m in zip(positions, block.members(weights, keep=keep), strict=True)})
    for position in sorted(found):
        entrance.admit_as_it_is(*found[position], label)


class Entrance:
    """Where members come in one after the other, and are compared with those before them."""

    def __init__(self, weights: Any = None, already: Sequence[Member] = (), frame: Frame | None = None) -> None:
        self.members: list[Member] = []
        self.frame = frame
        self._later = bool(already)
        self._weights = _Weights(weights)
        self._seen = {m.name for m in already}
        self._shared = _Shared()
        self._doubts = Doubts(already)
        if frame is not None:
            self._doubts.look_at_levels(frame.categories, frame.columns, frame.owner)

    @property
    def columns(self) -> arrays.Columns:
        return None if self.frame is None else self.frame.columns

    @property
    def categories(self) -> Categories:
        return NO_CATEGORIES if self.frame is None else self.frame.categories

    def weight_of(self, name: str, position: int) -> float:
        return self._weights.of(name, position)

    def fit_in(self, frame: Frame, label: str) -> None:
        """Has it the inputs of those before it?"""
        self.frame = _fitted(self.frame, frame, label)
        self._doubts.look_at_levels(frame.categories, frame.columns, frame.owner)

    def admit(self, member: Member, columns: arrays.Columns, label: str) -> Member:
        """The member with its weight, behind those that are here."""
        self._doubts.look_at(member, columns, label)
        self._check_name(member.name)
        weight = self._weights.of(member.name, len(self.members))
        self.members.append(self._shared.member(member)._replace(weight=weight, added_after_merge=self._later))
        return self.members[-1]

    def admit_as_it_is(self, member: Member, columns: arrays.Columns, source: str) -> None:
        """One of many from one source, which has its weight, and shares with the others what it can."""
        self._doubts.look_at(member, columns, source)
        self._check_name(member.name)
        self.members.append(member._replace(added_after_merge=True) if self._later else member)

    def _check_name(self, name: str) -> None:
        if name in self._seen:
            raise RecycleGPError(f"two modules are named {name!r}; rename one (module.rename), or use weights")
        self._seen.add(name)

    def finish(self) -> ModulesRead:
        """All of them, once nobody else will come."""
        if not self.members or self.frame is None:
            raise RecycleGPError("modules is empty; merge needs at least one module")
        self._weights.finish(len(self.members), self._seen)
        if not any(m.weight > 0 for m in self.members):
            raise RecycleGPError("weights are all zero; give at least one module a positive weight")
        self._doubts.tell(self.frame.columns)
        return ModulesRead(tuple(self.members), self.frame)


def member_of(m: Module) -> Member:
    """What an ensemble remembers of a module whose site it does not keep."""
    return Member(
        name=m.name,
        site=None,
        rows=m.rows,
        weight=1.0,
        likelihoods=m.likelihoods,
        kernel=m._kernel,
        mean=m.mean,
        target=m.target,
        converged=m.convergence.converged,
        effective_rows=m.densities,
        owner_override=m.given_owner,
        kept=m.kept,
        noise_evidence=m.noise_evidence,
        time=m.time,
    )


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
    with container.opened(path) as file:
        if file.header.get("kind") == modules_file.KIND:
            return modules_file.pieces(path), str(path)  # opened again, to be read a piece at a time
        document = file.document()
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


def _fitted(frame: Frame | None, module: Frame, label: str) -> Frame:
    """The frame with that of one more module in it, if it fits."""
    if frame is None:
        return module
    if module.dimension != frame.dimension:
        raise RecycleGPError(
            f"{label} has {_listed(module.dimension, module.columns)} where the others have "
            f"{_listed(frame.dimension, frame.columns)}; merge modules over the same inputs"
        )
    if module.columns is not None and frame.columns is not None:
        arrays.common_columns([frame.columns, module.columns], [frame.owner, module.owner])
        order = [module.columns.index(c) for c in frame.columns]
        module = module._replace(columns=frame.columns, categories=module.categories.permuted(order))
    _check_categories(frame, module, label)
    named = frame if module.columns is None or frame.columns is not None else module
    return named._replace(categories=frame.categories.union(module.categories))


def _check_categories(frame: Frame, module: Frame, label: str) -> None:
    """Do all take the same columns for categories?"""
    if frame.categories.columns == module.categories.columns:
        return
    column = min(set(frame.categories.columns) ^ set(module.categories.columns))
    mine, theirs = "categories", "numbers"
    if column not in module.categories.columns:
        mine, theirs = theirs, mine
    name = called(column, module.columns if frame.columns is None else frame.columns)
    raise RecycleGPError(
        f"{label} has {mine} in {name} where {frame.owner!r} has {theirs}; fit one anew, with the column as text "
        "(categories) or as numbers in both"
    )


def _listed(dimension: int, columns: arrays.Columns) -> str:
    return f"{dimension} input columns" + ("" if columns is None else f" ({', '.join(columns)})")


def _in_order(m: Module, columns: arrays.Columns) -> Module:
    """Columns by name: a module fitted on the same columns in another order is turned round."""
    if m.columns is None or columns is None or m.columns == columns:
        return m
    order = [m.columns.index(c) for c in columns]
    site = m._site._replace(Z=m._site.Z[:, order])
    categories = m.categories.permuted(order)
    return replace(m, _site=site, _kernel=permuted(m._kernel, order), columns=columns, categories=categories)


def _in_coding(m: Module, categories: Categories) -> Module:
    """Levels by name: with the codes that they have among those of all."""
    if m.categories == categories:
        return m
    site = m._site._replace(Z=m.categories.recoded(m._site.Z, categories))
    return replace(m, _site=site, categories=categories)


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

    def member(self, m: Member) -> Member:
        """The same, with what it has in common with others as one object."""
        structure = self.one(m.kernel.structure)
        kernel = m.kernel if structure is m.kernel.structure else Kernel(structure, m.kernel.theta)
        return m._replace(likelihoods=self.one(m.likelihoods), kernel=kernel, target=self.one(m.target))
