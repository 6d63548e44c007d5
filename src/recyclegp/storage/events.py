"""What happened to a dictionary: events, the entries that they leave, and their JSON. Nothing here needs torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..times import When, when, written
from . import strict_json

FORMAT = 1
LARGEST = 2**20  # bytes of an event
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\.safetensors")  # never a path
ID = re.compile(r"[0-9a-f]{32}")
DIGEST = re.compile(r"[0-9a-f]{64}")

Region = tuple[tuple[float | None, float | None], ...]  # for each input the smallest and largest of the points


class Kind(Enum):
    """What happened to the module of a name."""

    CAME = "came"
    REPLACED = "replaced"
    REMOVED = "removed"


class Entry(NamedTuple):
    """A module as the dictionary knows it, without its numbers."""

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
    added: datetime  # by the clock of whoever added it
    by: str | None  # who added it: a key, or a name
    number: int  # of the event with which it came

    @property
    def target(self) -> str | None:
        """What y is called; of several functions all of them."""
        return ", ".join(self.targets) or None


class Event(NamedTuple):
    """Who came, was replaced or was removed; by which key, and when."""

    number: int  # 1, 2, …: no two events have one number, whatever clocks say
    kind: Kind
    name: str
    by: str | None
    time: datetime  # by the clock of whoever wrote it
    entry: Entry | None  # the module, where one came


class Written(NamedTuple):
    """An event as it is in its file: what `Event` has, and where the module lies."""

    event: Event
    id: str
    file: str | None


def to_text(kind: Kind, name: str, by: str | None, identity: str, file: str | None, entry: Entry | None) -> str:
    """The file of an event; its number is in its path."""
    said: dict[str, Any] = {
        "recyclegp_event": FORMAT,
        "kind": kind.value,
        "name": name,
        "by": by,
        "time": (entry.added if entry is not None else datetime.now(UTC)).isoformat(),
        "id": identity,
    }
    if entry is not None:
        said["module"] = {
            "file": file,
            "digest": entry.digest,
            "bytes": entry.bytes,
            "owner": entry.owner,
            "rows": entry.rows,
            "likelihood": entry.likelihood,
            "targets": list(entry.targets),
            "region": [list(pair) for pair in entry.region],
            "columns": None if entry.columns is None else list(entry.columns),
            "observed": None if entry.observed is None else written(entry.observed),
        }
    return json.dumps(said, allow_nan=False, sort_keys=True) + "\n"


def from_text(text: str, number: int) -> Written:
    """An event as it was written; an error where it is not one."""
    try:
        said = strict_json.parsed(text)
        if said["recyclegp_event"] != FORMAT:
            raise RecycleGPError(f"event {number} is of another format; upgrade recyclegp")
        kind, time = Kind(said["kind"]), datetime.fromisoformat(_text(said["time"]))
        name, by, identity = _text(said["name"]), _text_or_none(said["by"]), _matching(ID, said["id"])
        if kind is Kind.REMOVED:
            return Written(Event(number, kind, name, by, time, None), identity, None)
        own = said["module"]
        entry = _entry(own, name, by, time, number)
        return Written(Event(number, kind, name, by, time, entry), identity, _matching(FILE_NAME, own["file"]))
    except (KeyError, TypeError, ValueError, RecursionError) as broken:
        if isinstance(broken, RecycleGPError):
            raise
        raise RecycleGPError(f"event {number} is not as recyclegp writes it; restore it from a copy") from None


def _entry(own: Mapping[str, Any], name: str, by: str | None, time: datetime, number: int) -> Entry:
    return Entry(
        name=name,
        owner=_text(own["owner"]),
        digest=_matching(DIGEST, own["digest"]),
        rows=int(own["rows"]),
        bytes=int(own["bytes"]),
        likelihood=_text(own["likelihood"]),
        targets=tuple(map(_text, own["targets"])),
        region=tuple((_number(low), _number(high)) for low, high in own["region"]),
        columns=None if own["columns"] is None else tuple(map(_text, own["columns"])),
        observed=None if own["observed"] is None else when(own["observed"]),
        added=time,
        by=by,
        number=number,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not pattern.fullmatch(_text(value)):
        raise ValueError("not as it is written")
    return str(value)
