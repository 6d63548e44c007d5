"""What the page is about: modules that were read, and what merging some of them gives.

A snapshot is immutable. What somebody chooses comes with each question, so two windows do not disturb each other.
Merging is slow, so the last few results are kept.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from .. import metrics
from ..errors import ContradictionWarning, RecycleGPError, RecycleGPWarning, in_words
from ..metrics import Score
from ..models.ensemble import Ensemble
from ..models.load import opened
from ..models.merge import merge
from ..models.module import Module
from ..models.modules import Modules
from ..plot.scene import functions_of
from ..storage import signing
from .choices import Choice
from .owner_map import Said, said_by
from .tables import Table, TableReader, Test

SUFFIX = ".safetensors"
MOST_MODULES = 1000  # on one page
MOST_POINTS = 4096  # of a module: asking one takes some 40·M² bytes
MOST_KEPT = 16  # results of merging

T = TypeVar("T")


class Naming(NamedTuple):
    """What is taken as a module, and under which name."""

    recycle: bool = False  # ensembles too, each as one module
    file_names: bool = False  # modules are called by their files


BY_NAME = Naming()


class Held(NamedTuple):
    """A module, and the file that it came in."""

    module: Module
    source: str
    signed: str = ""  # with which key, or that its signature is not good; nothing where there is none
    left_out: str = ""  # why it does not count unless somebody switches it on; nothing where it does


class Settings(NamedTuple):
    """How modules are merged, as `merge` takes it."""

    owners: str | None = "auto"
    trust: str | None = "learn"
    learn: bool = True


USUAL = Settings()


@dataclass(frozen=True)
class Snapshot:
    """Everything the page shows, but for what is chosen on it."""

    held: tuple[Held, ...]
    test: Test | None = None
    settings: Settings = USUAL
    naming: Naming = BY_NAME
    compared: str = "merged, all as sent"  # what merging nobody's choice is called
    home: str = ""  # of the hub whose modules these are; nothing where they are files of this machine
    reader: TableReader | None = None  # of tables that are shown to the page; none are taken without it
    table: Table | None = None  # that was shown
    missing: tuple[str, ...] = ()  # who is in a merge that is shown, and cannot be on this page, and why

    @property
    def modules(self) -> list[Module]:
        return [h.module for h in self.held]

    @property
    def scored(self) -> Test | None:
        """The rows of the table that was shown, if they can be scored; else those that the page began with."""
        return self.test if self.table is None or self.table.test is None else self.table.test

    @property
    def usual(self) -> Choice:
        """What counts before anybody has chosen anything."""
        return Choice(tuple(i for i, h in enumerate(self.held) if not h.left_out))

    def with_modules(self, more: list[Held]) -> Snapshot:
        return replace(self, held=with_modules(self.held, more))

    def chosen(self, choice: Choice) -> list[Module]:
        """Those that count, in the units that were chosen."""
        return [choice.change(i).of(self.held[i].module) for i in choice.on]


class Merged(NamedTuple):
    """What merging a choice gives."""

    ensemble: Ensemble
    rows: list[dict[str, Any]]  # of report()
    notes: list[str]  # warnings


Scores = dict[str, Score] | str | None  # of each function on the test rows; in words where they cannot be scored


class Tried(NamedTuple):
    """An upload that can be shown."""

    held: list[Held]
    merged: Merged | None  # of everybody, where they can be merged


class ServeState:
    """The snapshot of now and the results that are kept. Used by one thread at a time."""

    def __init__(self, snapshot: Snapshot, merged: Merged | None = None) -> None:
        """`merged` is what the usual choice gives, where that is known."""
        self.snapshot = snapshot
        self._kept: OrderedDict[Choice, Merged] = OrderedDict()
        self._scores: OrderedDict[Choice, Scores] = OrderedDict()
        self._said: OrderedDict[tuple[Any, str], Said | None] = OrderedDict()
        if merged is not None:
            self._kept[snapshot.usual] = merged

    def add(self, path: Path, label: str) -> int:
        """Modules from one more file: all of them or, where one cannot be shown, none."""
        more = list(modules_in(path, label, self.snapshot.naming))
        self.snapshot = self.snapshot.with_modules(more)  # positions stay, so what is kept stays true
        return len(more)

    def adopt(self, more: list[Held], merged: Merged | None) -> None:
        """Modules that were read elsewhere, and what merging them with everybody gave, unless others came meanwhile."""
        self.snapshot = self.snapshot.with_modules(more)
        if merged is not None and len(merged.ensemble.names) == len(self.snapshot.held):
            self._kept[self.snapshot.usual] = merged

    def read(self, path: Path, label: str, target: str | None) -> Table:
        """A table that somebody shows."""
        if self.snapshot.reader is None:
            raise RecycleGPError(f"{label}: this page takes no tables")
        return self.snapshot.reader.read(path, label, self.snapshot.modules, target)

    def show(self, table: Table) -> None:
        self.snapshot = replace(self.snapshot, table=table)
        self._scores.clear()

    def merged(self, choice: Choice) -> Merged:
        """Computed once for each choice."""
        return _once(self._kept, choice.counted, lambda: _merged(self.snapshot, choice.counted))

    def scores(self, choice: Choice) -> Scores:
        """The same."""
        ensemble = self.merged(choice).ensemble
        return _once(self._scores, choice.counted, lambda: _scores(ensemble, self.snapshot.scored))

    def said(self, choice: Choice, function: str) -> Said | None:
        """What everybody says of a function in the chosen units, also those who do not count."""
        whole = choice.of_all(len(self.snapshot.held))
        key = (len(self.snapshot.held), whole.changes)
        return _once(self._said, (key, function), lambda: said_by(self.snapshot.chosen(whole), function))

    def usual(self) -> Merged | None:
        """All modules that count as they were sent, where they can be merged."""
        try:
            return self.merged(self.snapshot.usual)
        except RecycleGPError:
            return None

    def predictions(self, choice: Choice) -> bytes:
        """Of the merged ensemble, at the rows of the table that was shown."""
        snapshot = self.snapshot
        if snapshot.table is None or snapshot.reader is None:
            raise RecycleGPError("there is no table to predict at; show one first")
        return snapshot.reader.predictions(self.merged(choice).ensemble, snapshot.table)

    def file(self, choice: Choice) -> bytes:
        """The merged ensemble as `save` writes it."""
        ensemble = self.merged(choice).ensemble
        with TemporaryDirectory(prefix="recyclegp-") as folder:
            path = Path(folder) / f"merged{SUFFIX}"
            ensemble.save(path)
            return path.read_bytes()


def _once(kept: OrderedDict[Any, T], key: Any, compute: Callable[[], T]) -> T:
    """What is kept, or else computed and kept, in place of what nobody has asked for longest."""
    if key not in kept:
        kept[key] = compute()
    kept.move_to_end(key)
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
    return kept[key]


def _merged(snapshot: Snapshot, choice: Choice) -> Merged:
    if not choice.on:
        raise RecycleGPError("nobody is switched on; an ensemble needs at least one module")
    modules = snapshot.chosen(choice)
    settings = snapshot.settings
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RecycleGPWarning)
        warnings.simplefilter("ignore", ContradictionWarning)  # the table of modules says it, with what to do
        ensemble = merge(modules, owners=settings.owners, trust=settings.trust, learn=settings.learn)
        rows = ensemble.report()
    return Merged(ensemble, rows, [in_words([w.message], shell=True) for w in said])


def _scores(ensemble: Ensemble, test: Test | None) -> Scores:
    """Each output has one; functions that say one y together share it."""
    if test is None:
        return None
    whole = ensemble.likelihoods[0]
    try:
        if whole.predicts_all and not whole.classifies:
            y = test.y.reindex(columns=list(whole.functions)) if hasattr(test.y, "reindex") else test.y
            return metrics.score_outputs(ensemble, test.X, y)
        score = metrics.score(ensemble, test.X, test.y, likelihood=test.likelihood)
    except RecycleGPError as refused:
        return refused.worded(shell=True)
    return dict.fromkeys(ensemble.functions, score)


# --- files → modules that can be shown; nothing in a file is executed ------------------------------


class UnreadableError(RecycleGPError):
    """The file is damaged, or of another kind."""


def signature_in_words(path: Path) -> str:
    """Of the signature beside a file."""
    if not signing.beside(path).exists():
        return ""
    try:
        return f"signed with key {signing.signature_of(path).public_key.hex()[:16]}"
    except RecycleGPError as refused:
        return f"signature not good: {str(refused).removeprefix(f'{path}: ')}"


def modules_in(path: Path, label: str, naming: Naming) -> Iterator[Held]:
    """The modules of one file, which errors call `label`."""
    try:
        model: Any = opened(path).model
    except RecycleGPError as refused:
        raise UnreadableError(str(refused).replace(str(path), label)) from None
    signed = signature_in_words(path)
    file = PurePath(label).name
    by_file = file.removesuffix(SUFFIX)
    if isinstance(model, Ensemble):
        if not naming.recycle:
            raise RecycleGPError(f"{label}: it holds an ensemble, not a module; --recycle takes it as one module")
        model = model.to_module(by_file)
    renamed = naming.file_names and isinstance(model, Module)
    found = [model.rename(by_file)] if renamed else list(model) if isinstance(model, Modules) else [model]
    for module in found:
        check_showable(module, label)
        yield Held(module, file, signed)


def check_showable(module: Module, label: str) -> None:
    """Can this page draw it? Errors call it by `label`."""
    if len(module.categories.columns) == module.dimension:
        raise RecycleGPError(
            f"{label}: all inputs of module {module.name!r} are categories, and this page draws curves along "
            "numbers; use predict"
        )
    points = max(map(len, module._points))
    if points > MOST_POINTS:
        raise RecycleGPError(
            f"{label}: module {module.name!r} has {points:,} points, and this page shows modules of up to "
            f"{MOST_POINTS:,}; publish it at fewer"
        )


def with_modules(held: tuple[Held, ...], more: list[Held]) -> tuple[Held, ...]:
    """All of them, if they can stand on one page: with names of their own, over the same number of inputs."""
    whole = (*held, *more)
    if len(whole) > MOST_MODULES:
        raise RecycleGPError(
            f"{len(whole):,} modules, and this page shows up to {MOST_MODULES:,}; merge some of them first, and show "
            "the ensembles with --recycle"
        )
    known: dict[str, str] = {}
    for module, source, *_ in whole:
        if module.name in known:
            raise RecycleGPError(
                f"{source}: its module is called {module.name!r}, as one of {known[module.name]}; --file-names calls "
                "modules by their files, or fit it with another --name"
            )
        known[module.name] = source
        first = whole[0].module
        if module.dimension != first.dimension:
            raise RecycleGPError(
                f"{source}: module {module.name!r} has {module.dimension} input columns and {first.name!r} has "
                f"{first.dimension}; show them on pages of their own"
            )
    try:
        functions_of([held.module for held in whole])
    except RecycleGPError as refused:
        raise RecycleGPError(f"{whole[-1].source}: ", refused) from None
    return whole
