"""Dictionary: modules that live somewhere. Listing them needs no torch, so heavy imports are inside of methods."""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Argument, RecycleGPError
from ..storage.event_index import EventIndex
from ..storage.event_store import EventStore, LocalStore
from ..storage.events import Entry, Event, Kind, Written, to_text
from .naming import check_name

if TYPE_CHECKING:
    from .ensemble import Ensemble
    from .module import Module

    ModuleLike = Module | str | PathLike[str] | bytes

LONGEST_BY = 200  # characters


class Problem(NamedTuple):
    """Something that `verify` has found."""

    name: str  # of the module
    reason: str


class Dictionary:
    """A folder of modules that several people write to and read from: the paper's {E_1, …, E_K}.

    Args:
        path: a folder, which is made when the first module comes, or any fsspec URL ("memory://modules").

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> d = rgp.Dictionary("modules")
        >>> d.add(rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="ward-7")).rows
        30
        >>> [entry.name for entry in d.list()]
        ['ward-7']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._store: EventStore = LocalStore(Path(path))
        self._index = EventIndex(self._store)

    def __repr__(self) -> str:
        return f"Dictionary({self.path!r})"

    def __reduce__(self) -> Any:
        return Dictionary, (self.path,)

    # --- writing ---

    def add(self, module: ModuleLike, by: str | None = None) -> Entry:
        """A new module. It is durable once this returns; adding the very same again changes nothing."""
        return self._put(module, by, Kind.CAME, None)

    def replace(self, module: ModuleLike, by: str | None = None, *, expect: str | None = None) -> Entry:
        """Another module in place of the one of its name."""
        return self._put(module, by, Kind.REPLACED, expect)

    def remove(self, name: str, by: str | None = None, *, expect: str | None = None) -> None:
        """Without the module of this name, whose file goes."""
        _check_by(by)
        identity = uuid.uuid4().hex
        self._publish(to_text(Kind.REMOVED, name, by, identity, None, None), identity, None, None,
                      lambda old: self._present(name, old, expect), name)

    def _put(self, module: ModuleLike, by: str | None, kind: Kind, expect: str | None) -> Entry:
        from . import dictionary_entries

        _check_by(by)
        content, entry = dictionary_entries.of(module, by)
        identity, file = uuid.uuid4().hex, _file_name(entry.name)
        known = self._index.entry(entry.name)
        if known is not None and known.event.entry is not None and known.event.entry.digest == entry.digest:
            return known.event.entry

        def check(old: Written | None) -> None:
            if kind is Kind.REPLACED:
                self._present(entry.name, old, expect)
            elif old is not None:
                raise RecycleGPError(f"add: a module named {entry.name!r} is in {self.path} already; replace it, or rename")

        text = to_text(kind, entry.name, by, identity, file, entry)
        number = self._publish(text, identity, file, content, check, entry.name)
        return entry._replace(number=number)

    def _present(self, name: str, old: Written | None, expect: str | None) -> None:
        if old is None or old.event.entry is None:
            raise RecycleGPError(f"{self.path}: no module is named {name!r}")
        if expect is not None and old.event.entry.digest != expect:
            raise RecycleGPError(
                Argument("expect", expect[:8]),
                f": {name!r} has been replaced meanwhile (by {old.event.entry.digest[:8]}); look at it again",
            )

    def _publish(
        self,
        text: str,
        identity: str,
        file: str | None,
        content: bytes | None,
        check: Callable[[Written | None], None],
        name: str,
    ) -> int:
        """The number of the event, once it is durable and has one."""
        check(self._index.entry(name))
        prepared = self._store.prepare(identity, text, file, content)
        try:
            while True:
                old = self._index.entry(name)
                check(old)
                number = self._index.last() + 1
                if prepared.publish(number):
                    break
        except BaseException:
            prepared.discard()
            raise
        if old is not None and old.file is not None:
            self._store.drop(old.event.number, old.id, old.file)
        return number

    # --- reading ---

    def get(self, name: str) -> Module:
        """The module of this name."""
        from .load import module_of_bytes

        return module_of_bytes(self.read(name), f"{self.path}: {name}")

    def read(self, name: str) -> bytes:
        """The file of the module of this name, as it was added."""
        while True:
            found = self._index.entry(name)
            self._present(name, found, None)
            assert found is not None and found.file is not None and found.event.entry is not None
            try:
                content = self._store.module(found.event.number, found.id, found.file)
            except FileNotFoundError:
                if self._index.entry(name) != found:
                    continue  # replaced while it was read
                raise RecycleGPError(f"{self.path}: the file of {name!r} is gone; restore it, or remove the module") from None
            if hashlib.sha256(content).hexdigest() != found.event.entry.digest:
                raise RecycleGPError(f"{self.path}: the file of {name!r} is damaged; restore it, or ask its owner again")
            return content

    def list(self, **filters: Any) -> tuple[Entry, ...]:
        """The modules that are there, in the order of their names."""
        return tuple(w.event.entry for w in self._index.entries() if w.event.entry is not None)

    def history(self) -> tuple[Event, ...]:
        """Who came, was replaced and was removed, by whom and when, from the beginning."""
        return tuple(w.event for w in self._index.events())

    def verify(self) -> tuple[Problem, ...]:
        """Read every module, and say what is wrong."""
        found = []
        for entry in self.list():
            try:
                self.get(entry.name)
            except (RecycleGPError, OSError) as broken:
                found.append(Problem(entry.name, str(broken)))
        return tuple(found)

    def merge(self, **options: Any) -> Ensemble:
        """One global GP from all modules."""
        from .merge import merge

        return merge((self.get(entry.name) for entry in self.list()), **options)

    def watch(self, seconds: float = 1.0) -> Iterator[Event]:
        """Events as they happen, from now on; looks every so many seconds."""
        last = self._index.last()
        while True:
            for event in self._index.events(last):
                last = event.event.number
                yield event.event
            time.sleep(seconds)


def _check_by(by: str | None) -> None:
    if by is None:
        return
    if not isinstance(by, str):
        raise TypeError(f"by must be a string, not {type(by).__name__}")
    if not by or len(by) > LONGEST_BY or not by.isprintable():
        raise RecycleGPError(Argument("by", by[:50]), f"; use 1 to {LONGEST_BY} printable characters")


def _file_name(name: str) -> str:
    """For people who look into the folder; what is not plain is left out."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60]
    return f"{plain or 'module'}.safetensors"


def now() -> datetime:
    return datetime.now(UTC)


check_name = check_name
