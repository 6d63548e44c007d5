"""One bad module must not stop all: who it is, and how to go on without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from ..core.sites import Site
from ..errors import Either, Message, RecycleGPError, warn_user
from ..merging.member import Member
from ..merging.site_store import SiteStore
from .how import Skipped
from .intake import FunctionRead, ModulesRead
from .naming import few

FAILED = (RecycleGPError, ArithmeticError, RuntimeError, IndexError)  # what a merge of nonsense may end with
MOST_LEFT_OUT = 64  # modules of which each is left out in turn, where none fails by itself
SKIP = Either("on_failure='skip'", "--skip-bad")


class OnFailure(Enum):
    """What becomes of a merge in which some module fails."""

    NAME = "name"  # it fails, and says whose fault it is
    SKIP = "skip"  # it goes on without


def on_failure_wanted(given: Any) -> OnFailure:
    """The argument `on_failure`, as a value."""
    try:
        return OnFailure(given)
    except ValueError:
        raise RecycleGPError(f"on_failure is {given!r}; use 'name' or 'skip'") from None


def culprits(read: ModulesRead, works: Callable[[ModulesRead], object]) -> list[Skipped]:
    """Modules that cannot be merged even alone; or that without which the others can."""
    names = list(dict.fromkeys(m.name for own in read.functions for m in own.members if m.weight > 0))
    sites = _sites(read)
    found = [Skipped(name, why) for name in names if (why := _failure(_only(read, sites, {name}), works))]
    if found or len(names) > MOST_LEFT_OUT:
        return found if len(found) < len(names) else []
    for name in names if len(names) > 1 else ():
        if not _failure(_only(read, sites, set(names) - {name}), works):
            return [Skipped(name, "the others cannot be merged with it")]
    return []


def _failure(read: ModulesRead, works: Callable[[ModulesRead], object]) -> str:
    """Why it fails; nothing where it works."""
    try:
        works(read)
    except FAILED as failed:
        return str(failed) or type(failed).__name__
    return ""


def _sites(read: ModulesRead) -> list[dict[int, Site]]:
    """Of each function, by the members' positions: read once, for all that is made of some of them."""
    return [dict(own.sites.each()) for own in read.functions]


def _only(read: ModulesRead, sites: Sequence[Mapping[int, Site]], names: set[str]) -> ModulesRead:
    functions = []
    for own, here in zip(read.functions, sites, strict=True):
        store, members = SiteStore(own.sites.device), list[Member]()
        for i, m in enumerate(own.members):
            if m.name in names:
                if i in here:
                    store.put(here[i], 1.0, len(members))
                members.append(m)
        functions.append(FunctionRead(tuple(members), store))
    return read._replace(functions=tuple(functions))


def without(read: ModulesRead, left_out: Sequence[Skipped]) -> ModulesRead:
    """What is read, without these; they are remembered."""
    gone = {s.name for s in left_out}
    names = {m.name for own in read.functions for m in own.members}
    return _only(read, _sites(read), names - gone)._replace(skipped=(*read.skipped, *left_out))


def named(left_out: Sequence[Skipped], failed: BaseException) -> RecycleGPError:
    """The same failure with whose fault it is."""
    who = few([f"module {s.name!r}" for s in left_out])
    said = Message(str(failed))
    return RecycleGPError(f"{who} cannot be merged: ", said, "; ask for it again, or go on without, with ", SKIP)


def unexplained(failed: BaseException) -> RecycleGPError:
    """A failure of the algebra that no module alone is to blame for."""
    return RecycleGPError(f"these modules cannot be merged ({failed}); leave some out, or rescale X and y")


def warn_skipped(left_out: Sequence[Skipped]) -> None:
    if left_out:
        warn_user("left out of the merge: ", few([f"{s.name} ({s.reason})" for s in left_out]))
