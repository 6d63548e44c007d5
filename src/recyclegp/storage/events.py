"""What happens in a dictionary: events, the entries that they leave, and the JSON of both. Nothing here needs torch.

An event stays for ever, and says no more than who did what. What a module says of itself is its entry, which goes with
the module when it is replaced or removed.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..times import When, when, written
from . import strict_json

FORMAT = 1
MOST_COUNTED = 2**62  # rows, or bytes
LARGEST = 2**24  # bytes of an event or an entry: 65,536 columns have long names
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\.safetensors")  # never a path
ID = re.compile(r"[0-9a-f]{32}")
DIGEST = re.compile(r"[0-9a-f]{64}")

Region = tuple[tuple[float | None, float | None], ...]


class Kind(Enum):
    """What happened to the module of a name."""

    CAME = "came"
    REPLACED = "replaced"
    REMOVED = "removed"
    UNREADABLE = "unreadable"  # the file of the event is damaged


class Event(NamedTuple):
    """Who came, was replaced or was removed; by which key, and when."""

    number: int  # 1, 2, …: in the order in which they happened, whatever clocks say
    kind: Kind
    name: str
    owner: str | None  # of the module that came, or was removed
    digest: str | None  # SHA-256 of the file that came, or was removed
    by: str | None  # a key, or a name
    time: datetime | None  # by the clock of whoever wrote it


class Entry(NamedTuple):
    """A module as it is listed."""

    name: str
    owner: str
    digest: str  # SHA-256 of the file
    rows: int  # of data behind it
    bytes: int  # of the file
    likelihood: str
    targets: tuple[str, ...]  # what y is called, for each function that says so
    region: Region  # (least, most) of its points in each input; None where an input has levels
    columns: tuple[str, ...] | None  # names of the inputs
    observed: When | None  # when its rows were, as its owner says
    added: datetime | None  # by the clock of whoever added it
    by: str | None  # who added it: a key, or a name
    number: int = 0  # of the event with which it came

    @property
    def target(self) -> str | None:
        """What y is called; of several functions all of them."""
        return ", ".join(self.targets) or None


class Problem(NamedTuple):
    """Something that is wrong with the files of a dictionary."""

    name: str  # of a module, or of an event
    reason: str


class Located(NamedTuple):
    """An event as it is in its file: also where the module lies that came with it."""

    event: Event
    id: str
    file: str | None  # None where none came


UNREADABLE = Located(Event(0, Kind.UNREADABLE, "", None, None, None, None), "", None)


def event_to_text(event: Event, identity: str, file: str | None) -> str:
    """Its number is in its path."""
    said = {
        "recyclegp_event": FORMAT,
        "id": identity,
        "kind": event.kind.value,
        "name": event.name,
        "owner": event.owner,
        "digest": event.digest,
        "by": event.by,
        "time": None if event.time is None else event.time.isoformat(),
        "file": file,
    }
    return json.dumps(said, allow_nan=False) + "\n"


def event_from_text(text: str, number: int) -> Located:
    """As it was written; of a damaged one only that it was there."""
    try:
        said = strict_json.parsed(text)
        if said["recyclegp_event"] != FORMAT:
            raise RecycleGPError(f"event {number} of the dictionary is of another format; upgrade recyclegp")
        event = Event(
            number,
            Kind(said["kind"]),
            _text(said["name"]),
            None if said["owner"] is None else _text(said["owner"]),
            None if said["digest"] is None else _matching(DIGEST, said["digest"]),
            None if said["by"] is None else _text(said["by"]),
            _time(said["time"]),
        )
        file = None if said["file"] is None else _matching(FILE_NAME, said["file"])
        return Located(event, _matching(ID, said["id"]), file)
    except RecycleGPError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError):
        return UNREADABLE._replace(event=UNREADABLE.event._replace(number=number))


def entry_to_text(entry: Entry) -> str:
    said = entry._asdict() | {
        "observed": None if entry.observed is None else written(entry.observed),
        "added": None if entry.added is None else entry.added.isoformat(),
    }
    del said["number"]
    return json.dumps(said, allow_nan=False) + "\n"


def entry_from_text(text: str, number: int) -> Entry | None:
    """As it was written; None where it is damaged."""
    try:
        said = json.loads(text)
        columns, observed = said["columns"], said["observed"]
        return Entry(
            name=_text(said["name"]),
            owner=_text(said["owner"]),
            digest=_text(said["digest"]),
            rows=_count(said["rows"]),
            bytes=_count(said["bytes"]),
            likelihood=_text(said["likelihood"]),
            targets=tuple([_text(target) for target in said["targets"]]),
            region=tuple([(_place(low), _place(high)) for low, high in said["region"]]),
            columns=None if columns is None else tuple([_text(column) for column in columns]),
            observed=None if observed is None else when(observed),
            added=_time(said["added"]),
            by=None if said["by"] is None else _text(said["by"]),
            number=number,
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def _time(value: Any) -> datetime | None:
    return None if value is None else datetime.fromisoformat(_text(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    value.encode()  # half of a character is none
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNTED:
        raise ValueError("not a number of something")
    return value


def _place(value: Any) -> float | None:
    """Where a region ends."""
    if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
        raise ValueError("not a place")
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not pattern.fullmatch(_text(value)):
        raise ValueError("not as it is written")
    return str(value)
