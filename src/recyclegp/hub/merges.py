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
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError
from ..models.dictionary import Dictionary

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble

OPTIONS: dict[str, Any] = {"trust": "learn", "on_failure": "skip"}


class Flagged(NamedTuple):
    """A module that does not count."""

    digest: str
    words: str  # why


class Merges:
    """A dictionary, what was merged of it last, and who was left out of that."""

    def __init__(self, folder: Path) -> None:
        self.dictionary = Dictionary(folder)
        self.flagged: dict[str, Flagged] = {}

    def merged(self, names: Mapping[str, str], relearn: bool) -> tuple[Ensemble, dict[str, str]]:
        """The model, and by name why others do not count. `names` are the modules of now, with their content ids."""
        same = all(names.get(name) == each.digest for name, each in self.flagged.items())
        found = None
        if same and not relearn:
            found = self.dictionary.merge_again(without=self.flagged, **OPTIONS)
        if found is None:
            found = self._anew(names)
        return found, {name: each.words for name, each in self.flagged.items()}

    def _anew(self, names: Mapping[str, str]) -> Ensemble:
        self.flagged = {}
        e = self.dictionary.merge(relearn=True, **OPTIONS)
        flagged: dict[str, Flagged] = {}
        while bad := _excluded(e):
            flagged |= {name: Flagged(names.get(name, ""), words) for name, words in bad.items()}
            if set(names) <= set(flagged):
                raise RecycleGPError("all modules contradict each other; ask their owners")
            e = self.dictionary.merge(relearn=True, without=flagged, **OPTIONS)
        self.flagged = flagged
        return e


@lru_cache(maxsize=4)
def of(folder: Path) -> Merges:
    """The same for as long as the process lives."""
    return Merges(folder)


def learned_without(e: Ensemble) -> list[str]:
    """Names of those that count, and came after everything was learned."""
    return sorted({m.name for m in e._members if m.added_after_merge and m.weight > 0})


def _excluded(e: Ensemble) -> dict[str, str]:
    """Name → why, of modules that do not count because of what they say."""
    judged = [(m.name, m.verdict) for m in e._members if m.verdict is not None]
    return {name: str(v.words) for name, v in judged if v.flagged}
