"""What a dictionary has merged last, so that merging it again costs what has changed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import RecycleGPError
from ..storage.event_index import EventIndex

if TYPE_CHECKING:
    from ..storage.events import Entry
    from .dictionary_merge import Change, Kept
    from .ensemble import Ensemble
    from .how import Skipped
    from .module import Module


class StoredModules(Protocol):
    """What a merge needs of a dictionary."""

    path: str

    def list(self) -> tuple[Entry, ...]: ...

    def read(self, name: str) -> bytes: ...


class LastMerge(NamedTuple):
    """With all that makes the next one quick."""

    kept: Kept
    digests: dict[str, str]  # of the modules in it, by name
    event: int  # the last one that it has seen
    without: frozenset[str]  # names that were left out
    unread: frozenset[str]  # names of those that could not be read, which may be otherwise the next time


class MergeMemory:
    """Merges a dictionary; one merge at a time."""

    def __init__(self, dictionary: StoredModules, index: EventIndex) -> None:
        self._dictionary, self._index = dictionary, index
        self._lock = threading.Lock()
        self.last: LastMerge | None = None
        self.seen: dict[str, str] = {}  # what the last merge has looked at: digests, by name

    def merge(self, without: frozenset[str], options: dict[str, Any]) -> Ensemble:
        """From scratch."""
        from .dictionary_merge import Kept, canonical

        with self._lock:
            event = self._index.last()
            options = canonical(options, self._dimension())
            digests: dict[str, str] = {}
            refused: list[Skipped] = []
            kept = Kept(options, self._modules(digests, refused if _skips(options) else None, without), refused)
            self.seen = dict(digests)
            self.last = LastMerge(kept, digests, event, without, frozenset(each.name for each in refused))
            return kept.ensemble

    def merge_again(self, relearn: bool | None, without: frozenset[str], options: dict[str, Any]) -> Ensemble | None:
        """At the price of what has changed; None where it is to be merged from scratch."""
        from .dictionary_merge import canonical, same

        with self._lock:
            event = self._index.last()
            options = canonical(options, self._dimension())
            last, self.last = self.last, None  # nothing half changed is ever used again
            if relearn or last is None or not same(last.kept.options, options):
                return None
            change, digests, unread = self._change(last, without, _skips(options))
            merged = last.kept.after(change, relearn)
            if merged is not None:
                self.seen = dict(digests)
                self.last = LastMerge(last.kept, digests, event, without, unread)
            return merged

    def _dimension(self) -> int:
        """Number of input columns of the modules: of any of them, since all must have the same."""
        some = self._index.entries(most=1)
        if not some:
            raise RecycleGPError(f"{self._dictionary.path}: no modules are there; add some first")
        return len(some[0].region)

    def _modules(
        self, digests: dict[str, str], refused: list[Skipped] | None, without: frozenset[str]
    ) -> Iterator[Module]:
        """One after the other; `digests` is told which. One that is removed meanwhile is not there any more.

        One that cannot be read is an error, unless somebody wants to be told.
        """
        from .how import Skipped

        for entry in self._dictionary.list():
            if entry.name in without:
                continue
            try:
                module = self._module(entry.name, digests)
            except (RecycleGPError, OSError) as failed:
                if refused is None:
                    raise
                digests.setdefault(entry.name, entry.digest)
                refused.append(Skipped(entry.name, str(failed)))
                continue
            if module is not None:
                yield module

    def _module(self, name: str, digests: dict[str, str]) -> Module | None:
        from .module_bytes import from_bytes

        try:
            content = self._dictionary.read(name)
        except RecycleGPError:
            if self._index.look(name).entry is None:
                return None
            raise
        digests[name] = hashlib.sha256(content).hexdigest()
        return from_bytes(content, f"{self._dictionary.path}: {name}")

    def _change(
        self, last: LastMerge, without: frozenset[str], skip: bool
    ) -> tuple[Change, dict[str, str], frozenset[str]]:
        """What has changed since, the digests of all modules now, and who cannot be read."""
        from .dictionary_merge import Change
        from .how import Skipped

        digests = dict(last.digests)
        gone: list[str] = []
        new: list[Module] = []
        refused: list[Skipped] = []
        unread: set[str] = set()
        touched = {event.name for event in self._index.events(last.event)} | (without ^ last.without) | last.unread
        for name in sorted(touched):
            entry = None if name in without else self._index.look(name).entry
            known = entry is not None and entry.digest == last.digests.get(name)
            if known and name not in last.unread:
                continue
            digests.pop(name, None)
            try:
                module = None if entry is None else self._module(name, digests)
            except (RecycleGPError, OSError) as failed:
                if not skip or entry is None:
                    raise
                digests[name] = entry.digest
                unread.add(name)
                if known:  # and that has been said
                    continue
                refused.append(Skipped(name, str(failed)))
                module = None
            if name in last.digests:
                gone.append(name)
            if module is not None:
                new.append(module)
        return Change(frozenset(gone), tuple(new), tuple(refused)), digests, frozenset(unread)


def _skips(options: dict[str, Any]) -> bool:
    return options.get("on_failure") == "skip"
