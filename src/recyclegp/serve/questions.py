"""What a state is asked, by name: as the page sends it, and checked here, where the modules are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import choices, views
from .choices import Choice
from .looking import from_json
from .state import Held, Merged, ServeState, Tried
from .tables import Table

Json = dict[str, Any]


def about(state: ServeState) -> Json:
    return views.about(state.snapshot)


def view(state: ServeState, choice: Any, looking: Json) -> Json:
    return views.view(state, _choice(state, choice), from_json(looking))


def owners(state: ServeState, choice: Any, looking: Json) -> Json:
    return views.owners(state, _choice(state, choice), from_json(looking).function)


def picture(state: ServeState, choice: Any, looking: Json, kind: Any) -> bytes:
    return views.picture(state, _choice(state, choice), from_json(looking), str(kind))


def predictions(state: ServeState, choice: Any) -> bytes:
    return state.predictions(_choice(state, choice))


def table(state: ServeState, path: Path, label: str, target: str | None) -> Table:
    """One that somebody shows, read where it may take no more than an upload may."""
    return state.read(path, label, target)


def show(state: ServeState, found: Table) -> None:
    state.show(found)


def file(state: ServeState, choice: Any) -> bytes:
    return state.file(_choice(state, choice))


def trial(state: ServeState, path: Path, label: str) -> Tried:
    """An upload is read, merged with everybody and drawn."""
    count = state.add(path, label)
    held, merged = list(state.snapshot.held[-count:]), state.usual()
    if merged is not None:
        views.view(state, state.snapshot.usual)
    return Tried(held, merged)


def adopt(state: ServeState, held: list[Held], merged: Merged | None) -> None:
    state.adopt(held, merged)


def _choice(state: ServeState, given: Any) -> Choice:
    return state.snapshot.usual if given is None else choices.from_json(given, state.snapshot.modules)


QUESTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (about, view, owners, picture, file, predictions, trial, adopt, table, show)
}
