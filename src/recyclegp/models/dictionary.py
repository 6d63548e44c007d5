"""Dictionary: modules that live somewhere. Listing them needs no torch: what does is imported where it is used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Argument, RecycleGPError
from ..storage.event_index import Seen
from ..storage.event_store import ENTRY, EventStore, Files, LocalStore
from ..storage.events import Entry, Event, Kind, Located, Problem, entry_to_text, event_to_text
from .dictionary_files import index_of
from .dictionary_memory import MergeMemory
from .dictionary_query import Query, RegionLike

if TYPE_CHECKING:
    from .dictionary_entries import ModuleLike
    from .ensemble import Ensemble
    from .module import Module

LONGEST_BY = 200  # characters
LONGEST_FILE_NAME = 60


class Dictionary:
    """Modules in a folder, or in an object store, that several people write to and read from.

    The files are the truth: an index makes lists quick, and is made again where it is lost. A module is there whole or
    not at all, whatever happens to whoever writes it, and once `add` has returned it stays.

    Args:
        path: a folder, which is made when the first module comes, or a URL that fsspec understands.
        options: of the file system behind a URL, as fsspec takes them.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="ward-7")
        >>> d = rgp.Dictionary("memory://example")
        >>> d.add(m).rows
        30
    """

    def __init__(self, path: str | PathLike[str], **options: Any) -> None:
        self.path = os.fspath(path)
        self._options = options
        self._store = _store(self.path, options)
        self._index = index_of(self._store)
        self._tidied = False
        self._memory = MergeMemory(self, self._index)

    def __repr__(self) -> str:
        return f"Dictionary({self.path!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], **state["_options"])  # type: ignore[misc]

    # --- writing ---

    def add(self, module: ModuleLike, by: str | None = None) -> Entry:
        """With one more module, which is there for good once this returns.

        Args:
            module: a Module, the path of its file, or the bytes of its file. They are checked as `load` checks them.
            by: who adds it, for the history: a key, or a name.

        Returns:
            What is listed of it. The very same module again changes nothing, so that one who has not heard an answer
            may ask again.

        Raises:
            RecycleGPError: Another module has this name, or the file does not hold a module.
            OSError: It cannot be written: the disk is full, or may only be read. Nothing has changed then.

        Examples:
            >>> d.add(rgp.fit(X[1:], np.sin(X[1:, 0]), noise=0.01, name="ward-8"), by="anna").name
            'ward-8'
        """

        def check(now: Seen, new: Entry) -> None:
            if now.entry is not None:
                raise RecycleGPError(
                    f"add: a module named {new.name!r} is in {self.path} already; use replace, or another name"
                )

        return self._put(Kind.CAME, module, by, check)

    def replace(self, module: ModuleLike, by: str | None = None, *, expect: str | None = None) -> Entry:
        """With another module in place of that of the same name, whose file goes.

        Args:
            module: as for `add`.
            by: who replaces it, for the history.
            expect: the digest of the one that is replaced; an error where it is another one by now.

        Returns:
            What is listed of it.

        Raises:
            RecycleGPError: There is no module of this name, or another one than expected.
            OSError: It cannot be written; the one that was there still is.

        Examples:
            >>> d.replace(m.owned_by("west")).owner
            'west'
        """
        return self._put(Kind.REPLACED, module, by, lambda now, new: self._check(new.name, now, expect))

    def remove(self, name: str, by: str | None = None, *, expect: str | None = None) -> None:
        """Without the module of this name. Its file goes; that it was there stays in the history.

        Args:
            name: of the module.
            by: who removes it, for the history.
            expect: the digest of the one that is removed; an error where it is another one by now.

        Raises:
            RecycleGPError: There is no module of this name, or another one than expected.
            OSError: It cannot be written; the module is still there.

        Examples:
            >>> entry = d.add(m.rename("ward-9"))
            >>> d.remove("ward-9", by="anna")
        """
        _check_by(by)
        old = self._check(name, self._index.look(name), expect)
        event = Event(0, Kind.REMOVED, name, old.owner, old.digest, by, datetime.now(UTC))
        self._publish(event, {}, lambda now: self._check(name, now, expect or old.digest))

    def _put(self, kind: Kind, module: ModuleLike, by: str | None, check: Callable[[Seen, Entry], object]) -> Entry:
        from .dictionary_entries import content_of, entry_of
        from .load import module_of_bytes

        _check_by(by)
        content = content_of(module)
        label = os.fspath(module) if isinstance(module, (str, PathLike)) else "module"
        entry = entry_of(module_of_bytes(content, label), content)._replace(added=datetime.now(UTC), by=by)
        now = self._index.look(entry.name)
        if now.entry is not None and now.entry.digest == entry.digest:
            self._store.sync()  # whoever wrote it may not have lived to do so
            return now.entry
        check(now, entry)
        event = Event(0, kind, entry.name, entry.owner, entry.digest, by, entry.added)
        files = {_file_name(entry.name): content, ENTRY: entry_to_text(entry).encode()}
        return entry._replace(number=self._publish(event, files, lambda now: check(now, entry)))

    def _check(self, name: str, now: Seen, expect: str | None = None) -> Entry:
        """It, if it is there, and as it should be."""
        if now.entry is None:
            raise RecycleGPError(f"{self.path}: no module is named {str(name)!r}; list() says which there are")
        if expect is not None and now.entry.digest != expect:
            raise RecycleGPError(
                f"{self.path}: {name!r} is not the expected one ({expect[:8]}), but has been replaced "
                f"({now.entry.digest[:8]}); look at it again"
            )
        return now.entry

    def _publish(self, event: Event, files: Files, check: Callable[[Seen], object]) -> int:
        """The number of the event, once it has one: it is checked as of all events before it."""
        identity, file = os.urandom(16).hex(), next(iter(files), None)
        prepared = self._store.prepare(identity, event_to_text(event, identity, file), files)
        try:
            while True:
                now = self._index.look(event.name)
                check(now)
                if prepared.publish(now.last + 1):
                    break
        except BaseException:
            prepared.discard()
            raise
        self._tidy(now.located)
        return now.last + 1

    def _tidy(self, old: Located | None) -> None:
        """Files that were replaced or removed go; the first time also those that a killed writer had no time for."""
        gone = [] if old is None else [old]
        if not self._tidied:
            gone, self._tidied = self._index.superseded(), True
        for event, identity, file in gone:
            if file is not None:
                with contextlib.suppress(OSError):  # the next one tries again, and `verify` says so
                    self._store.drop(event.number, identity, file)

    # --- reading ---

    def get(self, name: str) -> Module:
        """The module of this name, checked as `load` checks it.

        Raises:
            RecycleGPError: There is none, or its file is damaged.

        Examples:
            >>> d.get("ward-7").rows
            30
        """
        from .load import module_of_bytes

        return module_of_bytes(self.read(name), f"{self.path}: {name}")

    def read(self, name: str) -> bytes:
        """The file of the module of this name, to the byte as it was added.

        Raises:
            RecycleGPError: There is none, or its file is damaged.

        Examples:
            >>> len(d.read("ward-7")) == d.list()[0].bytes
            True
        """
        while True:
            now = self._index.look(name)
            entry, located = self._check(name, now), now.located
            assert located is not None
            assert located.file is not None
            try:
                content = self._store.read(entry.number, located.id, located.file)
            except FileNotFoundError:
                if self._index.look(name).entry != entry:
                    continue  # it was replaced in this moment
                raise RecycleGPError(
                    f"{self.path}: the file of {name!r} is gone; restore it from a copy, or remove the module"
                ) from None
            if hashlib.sha256(content).hexdigest() != entry.digest:
                raise RecycleGPError(
                    f"{self.path}: the file of {name!r} is damaged; restore it from a copy, or ask its owner again"
                )
            return content

    def list(
        self,
        *,
        name: str | None = None,
        owner: str | None = None,
        likelihood: str | None = None,
        target: str | None = None,
        min_rows: int | None = None,
        max_rows: int | None = None,
        min_age: float | None = None,
        max_age: float | None = None,
        region: RegionLike | None = None,
    ) -> tuple[Entry, ...]:
        """The modules that are there, in the order of their names; torch is not needed for it.

        Args:
            name: only this one; or a pattern, as in "ward-*".
            owner: only modules of this owner, or a pattern.
            likelihood: only those of this likelihood, or a pattern.
            target: only those of which a y is called so.
            min_rows: only those of so many rows, or more.
            max_rows: only those of so many rows, or fewer.
            min_age: only those that were added so many days ago, or earlier; by the clock of whoever added them.
            max_age: only those that were added so many days ago, or later.
            region: only those with points in this box, roughly: (least, most) for each input, or {column: (least,
                most)} of some.

        Returns:
            For each name, owner, digest, rows, bytes, likelihood, target, region, when it was added and by whom.

        Raises:
            RecycleGPError: The region is not one, or a number is none.
            OSError: The place cannot be read.

        Examples:
            >>> [entry.name for entry in d.list(name="*-7", min_rows=20, region=[(5, 9)])]
            ['ward-7']
        """
        arguments = locals()
        query = Query(**{what: arguments[what] for what in Query._fields}).checked()
        return tuple(entry for entry in self._index.entries(query.conditions()) if query.takes(entry))

    def history(self, after: int = 0) -> tuple[Event, ...]:
        """Who came, was replaced and was removed, by which key and when, from the beginning.

        Args:
            after: only what happened after the event of this number.

        Raises:
            OSError: The place cannot be read.

        Examples:
            >>> [(event.number, event.kind.value, event.name) for event in d.history()][0]
            (1, 'came', 'ward-7')
        """
        return tuple(self._index.events(after))

    def watch(self, seconds: float = 1.0, after: int | None = None) -> Iterator[Event]:
        """Events as they happen, without an end.

        Args:
            seconds: how long to wait before looking again.
            after: the number of the event to go on behind; the last one there is unless given.

        Raises:
            OSError: The place cannot be read.

        Examples:
            >>> next(d.watch(after=0)).name
            'ward-7'
        """
        last = self._index.last() if after is None else after
        while True:
            for event in self._index.events(last):
                last = event.number
                yield event
            time.sleep(seconds)

    def verify(self) -> tuple[Problem, ...]:
        """Read every module and every event, and say what is wrong: nothing, as a rule.

        Returns:
            For each that is damaged or gone its name and the reason.

        Raises:
            OSError: The place cannot be read at all.

        Examples:
            >>> d.verify()
            ()
        """
        from .dictionary_entries import problems

        return tuple(problems(self.list(), self.history(), self.read))

    def merge(self, *, relearn: bool | None = None, without: Collection[str] = (), **options: Any) -> Ensemble:
        """One global GP from all modules that are there, as `rgp.merge` makes it; again after a change, quickly.

        This object remembers what it has merged last. With the same options, and where the ensemble is held at points,
        only modules that have changed are read and summed again: the same as from scratch, to rounding, at the same
        kernel, noise, owners' effects and points. With learn=False, a kernel and points that are given that is all
        there is to it. Otherwise these stay as they were learned until they are learned anew. Modules that come are
        screened all the same: whoever does not clearly agree with the others has everybody screened from scratch.

        Args:
            relearn: True merges from scratch. False keeps what was learned, whoever has gone, but for those who do not
                agree, unless trust=None. None keeps it while modules come, and learns anew once a module has gone or
                was replaced from which it was learned, there are twice as many rows, or the points cannot express
                what is new.
            without: names of modules that are left out, as if they were not there.
            options: those of `rgp.merge`, but for its modules.

        Returns:
            The ensemble.

        Raises:
            RecycleGPError: There is no module, one cannot be read, or they cannot be merged.

        Examples:
            >>> d.merge().names[0]
            'ward-7'
        """
        left_out = frozenset(without)
        again = self._memory.merge_again(relearn, left_out, options)
        return self._memory.merge(left_out, options) if again is None else again

    def merge_again(
        self, *, relearn: bool | None = None, without: Collection[str] = (), **options: Any
    ) -> Ensemble | None:
        """What `merge` gives at the price of what has changed; None where `merge` would begin from scratch.

        Args:
            relearn: as for `merge`.
            without: as for `merge`.
            options: as for `merge`.

        Returns:
            The ensemble, or None.

        Raises:
            RecycleGPError: There is no module, or one cannot be read.

        Examples:
            >>> d.merge_again().names == d.merge().names
            True
        """
        return self._memory.merge_again(relearn, frozenset(without), options)


def _store(path: str, options: dict[str, Any]) -> EventStore:
    kind, found, rest = path.partition("://")
    if found and kind in ("file", "local"):
        return LocalStore(Path(rest))
    if found:
        from ..storage.url_store import UrlStore

        return UrlStore(path, options)
    if options:
        raise TypeError(f"{', '.join(options)}: options are for URLs, and {path} is a folder")
    return LocalStore(Path(path))


def _check_by(by: str | None) -> None:
    if by is None:
        return
    if not isinstance(by, str):
        raise TypeError(f"by must be a string, not {type(by).__name__}")
    if not by or len(by) > LONGEST_BY or not by.isprintable():
        raise RecycleGPError(Argument("by", by[:50]), f"; use 1 to {LONGEST_BY} printable characters")


def _file_name(name: str) -> str:
    """For people who look into the folder; letters that might mean something there are left out."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:LONGEST_FILE_NAME]
    return f"{plain or 'module'}.safetensors"
