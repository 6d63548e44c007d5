"""One bad module must not stop all: who it is, and how to go on without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from ..core.sites import Site
from ..errors import (
    Argument,
    Either,
    Message,
    Name,
    NotPositiveDefiniteError,
    RecycleGPError,
    RecycleGPWarning,
    warn_user,
)
from ..merging.member import Member
from ..merging.site_store import SiteStore
from .how import Skipped
from .intake import FunctionRead, ModulesRead
from .naming import few

FAILED = (RecycleGPError, ArithmeticError, RuntimeError, IndexError)  # what a merge of nonsense may end with
TOGETHER = "the others cannot be merged with it"
OF_TWO = "cannot be merged with it, and of two nobody can say whose fault that is"
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


Works = Callable[[ModulesRead], object]  # what is tried with some of the modules
Fails = Callable[[Sequence[str]], str]  # why those of these names cannot be merged; nothing where they can


def culprits(read: ModulesRead, plainly: Works, fully: Works) -> list[Skipped]:
    """Modules that cannot be merged even alone; or those that the others cannot be merged with.

    `plainly` is quick, and what cannot be merged mostly fails at it, too; the rest is tried as it was asked for.
    """
    sites = _sites(read)

    def failure(works: Works) -> Fails:
        return lambda names: _failure(_only(read, sites, set(names)), works)

    largest = _largest_numbers(read, sites)
    names, fails = list(largest), failure(plainly)
    if len(names) == 1:
        return [Skipped(names[0], why) for works in (plainly, fully) if (why := failure(works)(names))][:1]
    found = [Skipped(name, why) for name in names if (why := fails([name]))]
    if found:
        return found if len(found) < len(names) else []
    suspected_last = sorted(names, key=lambda name: largest[name])
    apart = _apart(suspected_last, fails) or _apart(suspected_last, failure(fully))
    if len(names) == 2:
        return [Skipped(name, f"{other!r} {OF_TWO}") for name, other in (names, names[::-1]) if name in apart]
    return [Skipped(name, TOGETHER) for name in names if name in set(apart)]


def _largest_numbers(read: ModulesRead, sites: Sequence[Mapping[int, Site]]) -> dict[str, float]:
    """Of those that count, by their names: whose are largest is suspected first."""
    largest: dict[str, float] = {}
    for own, here in zip(read.functions, sites, strict=True):
        for i, m in enumerate(own.members):
            if m.weight > 0:
                sizes = [float(t.abs().amax()) for t in here[i] if t.numel()] if i in here else []
                largest[m.name] = max(largest.get(m.name, 0.0), *sizes, 0.0)
    return largest


def _apart(names: Sequence[str], fails: Fails) -> list[str]:
    """Who cannot be merged with a large part of the others, which can: one of K is found in about 2 log₂K merges.

    Nobody, where all can be merged, or where not even the first one can: then it is not a module's fault.
    """
    if len(names) < 2 or fails(names[:1]) or not fails(names):
        return []
    together = _together(names, fails)
    return _refused_by(together, [name for name in names if name not in set(together)], fails)


def _together(names: Sequence[str], fails: Fails) -> list[str]:
    """A half of them that can be merged, else a quarter, and so on: the few that are bad are not in each."""
    size = len(names)
    while size > 1:
        size = -(-size // 2)
        for i in range(0, len(names), size):
            if not fails(names[i : i + size]):
                return list(names[i : i + size])
    return list(names[:1])


def _refused_by(together: list[str], names: Sequence[str], fails: Fails) -> list[str]:
    """Of these, who cannot be merged with those who are together; all others join them."""
    if not fails([*together, *names]):
        together += names
        return []
    if len(names) == 1:
        return list(names)
    half = len(names) // 2
    return [*_refused_by(together, names[:half], fails), *_refused_by(together, names[half:], fails)]


def _failure(read: ModulesRead, works: Works) -> str:
    """Why it fails; nothing where it works. Of what is only tried nobody is warned."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecycleGPWarning)
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


def are_all(read: ModulesRead, left_out: Sequence[Skipped]) -> bool:
    """Would nobody be left?"""
    return {m.name for own in read.functions for m in own.members if m.weight > 0} <= {s.name for s in left_out}


def without(read: ModulesRead, left_out: Sequence[Skipped]) -> ModulesRead:
    """What is read, without these; they are remembered."""
    gone = {s.name for s in left_out}
    names = {m.name for own in read.functions for m in own.members}
    return _only(read, _sites(read), names - gone)._replace(skipped=(*read.skipped, *left_out))


def named(left_out: Sequence[Skipped], failed: Exception) -> RecycleGPError:
    """The same failure with whose fault it is."""
    who = few([f"module {s.name!r}" for s in left_out])
    why = [s.reason for s in left_out if OF_TWO in s.reason]
    said = Message(failed, *[f" ({reason})" for reason in why])
    return RecycleGPError(f"{who} cannot be merged: ", said, "; ask for it again, or go on without, with ", SKIP)


def blamed(left_out: Sequence[Skipped], read: ModulesRead, failed: Exception) -> Exception:
    """A failure to compare modules, with whose fault it is, as far as that is known."""
    if left_out:
        who = few([f"module {s.name!r}" for s in left_out])
        said = Message(failed)
        return RecycleGPError(f"{who} cannot be compared with others: ", said, "; ask for it again, or leave it out")
    return unexplained(read, failed) if is_of_algebra(failed) else failed


def is_about_an_argument(failed: Exception) -> bool:
    """Does it begin with one? Then it is about what was asked for, and no module is to blame."""
    return isinstance(next(iter(_first(failed).args), None), (Argument, Name))


def is_of_algebra(failed: Exception) -> bool:
    """Is it about numbers, and not about what was asked for?"""
    return isinstance(_first(failed), NotPositiveDefiniteError) or not isinstance(_first(failed), RecycleGPError)


def _first(failed: Exception) -> Exception:
    """What failed first: an error that says of which function it is holds the one that it was."""
    held = [part for part in failed.args if isinstance(part, Exception)] if isinstance(failed, RecycleGPError) else []
    return _first(held[0]) if held else failed


def unexplained(read: ModulesRead, failed: Exception) -> RecycleGPError:
    """A failure of the algebra that no module alone is to blame for."""
    who = few([repr(name) for name in dict.fromkeys(m.name for own in read.functions for m in own.members)])
    return RecycleGPError(f"these modules cannot be merged: {who} ({failed}); leave some out, or rescale X and y")


def warn_skipped(left_out: Sequence[Skipped]) -> None:
    if left_out:
        warn_user("left out of the merge: ", few([f"{s.name} ({s.reason})" for s in left_out]))
