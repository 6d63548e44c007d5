"""modules: a dictionary, which is a folder or a URL where modules live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from . import listing
from .lines import Table
from .options import AsJson, NoSeed, Quiet, option, switch
from .paths import expand
from .screen import Screen, plain_table, show

if TYPE_CHECKING:
    from ..models.dictionary import Dictionary
    from ..storage.events import Event

Facts = dict[str, Any]


def modules(
    dictionary: Annotated[str, typer.Argument(metavar="DICTIONARY", help="A folder, or a URL as in s3://wards.")],
    add: Annotated[list[str] | None, option("Add a module; may be repeated.", "FILE")] = None,
    replace: Annotated[
        list[str] | None, option("Put a module in place of the one of its name; may be repeated.", "FILE")
    ] = None,
    remove: Annotated[list[str] | None, option("Remove a module; may be repeated.", "NAME")] = None,
    by: Annotated[str | None, option("Who does so, for the history: a key, or a name.", "WHO")] = None,
    name: Annotated[str | None, option("List only this one, or those of a pattern as in 'ward-*'.", "NAME")] = None,
    owner: Annotated[str | None, option("List only modules of this owner, or pattern.", "OWNER")] = None,
    likelihood: Annotated[str | None, option("List only those of this likelihood.", "NAME")] = None,
    target: Annotated[str | None, option("List only those of which a y is called so.", "COLUMN")] = None,
    min_rows: Annotated[int | None, option("List only those of so many rows, or more.", "N")] = None,
    max_age: Annotated[float | None, option("List only those that came in the last so many days.", "DAYS")] = None,
    history: Annotated[bool, switch("--history", "Who came, was replaced and was removed, instead.")] = False,
    verify: Annotated[bool, switch("--verify", "Read every file, and say what is damaged, instead.")] = False,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Keep modules in a dictionary: add, replace and remove them; list what is there.

    Several people may write to one folder at once. A module is there whole or
    not at all, and once the command has ended it stays. Every event has a
    number, and none is ever taken out of the history; files of modules that
    were replaced or removed are. merge takes the folder as it is.

    Example: recyclegp modules wards --add north.safetensors --by anna
    """
    from ..models.dictionary import Dictionary

    screen, found = Screen(quiet, as_json), Dictionary(dictionary)
    if history and verify:
        raise RecycleGPError("--history and --verify are two questions; ask one of them")
    for path in expand(add or []):
        found.add(path, by=by)
    for path in expand(replace or []):
        found.replace(path, by=by)
    for gone in remove or []:
        found.remove(gone, by=by)
    if verify:
        _verify(screen, found)
    elif history:
        events = found.history()
        screen.result([_event(event) for event in events], lambda: show(_events(events)))
    else:
        asked = {"name": name, "owner": owner, "likelihood": likelihood, "target": target}
        listing.modules(found, screen, **asked, min_rows=min_rows, max_age=max_age)()


def _verify(screen: Screen, found: Dictionary) -> None:
    """Exit code 2 where something is wrong."""
    problems = found.verify()
    count = len(found.list())
    screen.result(
        {"modules": count, "problems": [problem._asdict() for problem in problems]},
        lambda: None if problems else typer.echo(f"{count} modules, all as they came"),
    )
    for problem in problems:
        typer.echo(f"recyclegp: {printable(problem.name)}: {printable(problem.reason)}", err=True)
    if problems:
        raise typer.Exit(2)


def _event(event: Event) -> Facts:
    time = None if event.time is None else event.time.isoformat()
    return {**event._asdict(), "kind": event.kind.value, "time": time}


def _events(events: tuple[Event, ...]) -> Table:
    table = plain_table("event", "what", "module", "owner", "digest", "by", "time", folded=0)
    for e in events:
        time = "" if e.time is None else e.time.strftime("%Y-%m-%d %H:%M:%S")
        row = (str(e.number), e.kind.value, e.name, e.owner or "", (e.digest or "")[:8], e.by or "", time)
        table.add_row(*map(printable, row))
    return table
