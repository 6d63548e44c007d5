"""What a hub merges: all modules in its dictionary, screened, at the price of what has changed.

Whoever is flagged counts for nothing in a merge, but is still in its file. So the others are merged by themselves: the
model is as if nobody else had ever been there.

A module that comes and clearly agrees with the others is added to what was learned without it. Everything is learned
from scratch, from everybody, where

    nothing is known yet, as after a start,
    a module has gone or was replaced from which was learned: it may have left traces,
    a module has come that does not clearly agree, or one that was flagged has gone or was replaced,
    there are twice as many rows as were learned from, or the points cannot express what is new,
    all modules together are so few that they are held exactly, without points,
    or the hub asks for it: when all owners who are expected are there, before rounds, and once it is quiet.

A module with which merging takes more time or memory than a hub allows is left out as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError
from ..models.dictionary import Dictionary
from ..record import Privacy

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble

OPTIONS: dict[str, Any] = {"trust": "learn", "on_failure": "skip"}
TOO_MUCH = "merging it takes more time or memory than this hub allows; publish it at fewer points"
NOBODY: Mapping[str, str] = {}


class Flagged(NamedTuple):
    """A module that does not count."""

    digest: str
    words: str  # why


class Merged(NamedTuple):
    """What a merge has given."""

    model: Ensemble
    flagged: dict[str, str]  # name → why it does not count
    modules: dict[str, str]  # name → content id, of all that it is made of or has judged by: no others, and as read


class Merges:
    """A dictionary, what was merged of it last, and who was left out of that."""

    def __init__(self, folder: Path) -> None:
        self.dictionary = Dictionary(folder)
        self.flagged: dict[str, Flagged] = {}
        self.judges: dict[str, str] = {}  # who has left while it was found out who is flagged: name → content id

    def merged(self, names: Mapping[str, str], relearn: bool, too_much: Mapping[str, str] = NOBODY) -> Merged:
        """Of what is in the dictionary when it is read. `names` were the modules with their content ids before that.

        Those that are `too_much` are left out, of whatever content id they are by now: the next merge will see.
        """
        same = all(names.get(name) == each.digest for name, each in self.flagged.items())
        found = None
        if same and not relearn and not self.judges:
            found = self.dictionary.merge_again(without={*self.flagged, *too_much}, **OPTIONS)
        if found is None:
            found = self._anew(too_much)
        flagged = {name: Flagged(digest, TOO_MUCH) for name, digest in too_much.items()} | self.flagged
        modules = self.judges | self._read() | {name: each.digest for name, each in flagged.items()}
        return Merged(found, {name: each.words for name, each in flagged.items()}, modules)

    def _read(self) -> dict[str, str]:
        return self.dictionary._memory.seen

    def _anew(self, too_much: Mapping[str, str]) -> Ensemble:
        self.flagged, self.judges = {}, {}
        e = self.dictionary.merge(relearn=True, without=too_much, **OPTIONS)
        read, judges = self._read(), dict[str, str]()
        flagged: dict[str, Flagged] = {}
        while bad := _excluded(e):
            flagged |= {name: Flagged(read[name], words) for name, words in bad.items()}
            if set(read) <= set(flagged):
                raise RecycleGPError("all modules contradict each other; ask their owners")
            judges |= {name: digest for name, digest in read.items() if name not in flagged}
            e = self.dictionary.merge(relearn=True, without={*flagged, *too_much}, **OPTIONS)
            read = self._read()
        self.flagged = flagged
        self.judges = {name: digest for name, digest in judges.items() if read.get(name) != digest}
        return e


_KNOWN: dict[Path, Merges] = {}


def of(folder: Path) -> Merges:
    """The same for as long as the process lives, or until it is forgotten."""
    return _KNOWN.setdefault(folder, Merges(folder))


def forget(folder: Path) -> None:
    """A hub that starts knows what is in its files, also where jobs run in a process that has known more."""
    _KNOWN.pop(folder, None)


def learned_without(e: Ensemble) -> list[str]:
    """Names of those that count, and came after everything was learned."""
    return sorted({m.name for m in e._members if m.added_after_merge and m.weight > 0})


def of_people(e: Ensemble) -> list[str]:
    """Names of those whose rows are about people, and who have no guarantee: they answer no plan."""
    mine = [m.about for m in e._members if m.about.privacy is Privacy.PEOPLE and m.about.guaranteed is None]
    return sorted({about.name for about in mine})


def _excluded(e: Ensemble) -> dict[str, str]:
    """Name → why, of modules that do not count because of what they say."""
    judged = [(m.name, m.verdict) for m in e._members if m.verdict is not None]
    return {name: str(v.words) for name, v in judged if v.flagged}
