"""Values as JSON objects, by tables in which every field is one line.

A field that says nothing is not written, and one that is not there reads as None: whoever adds a field says in its line
what it is for files that do not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from .container import Header
from .fields import fields

if TYPE_CHECKING:
    from ..likelihoods import Likelihood


class At(NamedTuple):
    """Where a field stands: what it is checked against."""

    dimension: int  # input columns
    functions: int = 1
    likelihoods: tuple[Likelihood, ...] = ()  # of the observations of one function


def as_it_is(value: Any, at: At) -> Any:
    return value


class Fact(NamedTuple):
    name: str  # of the field
    read: Callable[[Any, At], Any]  # checked; of None, where a file does not say it
    write: Callable[[Any, At], Any] = as_it_is  # None where there is nothing to say
    key: str = ""  # in files, where that is another name


def to_json(value: Any, facts: Iterable[Fact], at: At) -> Header:
    said = ((fact.key or fact.name, fact.write(getattr(value, fact.name), at)) for fact in facts)
    return {key: entry for key, entry in said if entry is not None}


def from_json(header: Header, facts: Iterable[Fact], at: At) -> Header:
    """Arguments of the constructor."""
    return {fact.name: fact.read(header.get(fact.key or fact.name), at) for fact in facts}


class Entry(NamedTuple):
    """A small value within another one: how it is made, its table, and what to call it in an error."""

    make: Callable[..., Any]
    facts: tuple[Fact, ...]
    what: str

    def write(self, value: Any, at: At) -> Any:
        return None if value is None else to_json(value, self.facts, at)

    def read(self, found: Any, at: At) -> Any:
        return self.make(**from_json(fields(found, self.what), self.facts, at))

    def read_if_any(self, found: Any, at: At) -> Any:
        return None if found is None else self.read(found, at)
