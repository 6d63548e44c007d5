"""What a state is asked, by name: as the page sends it, and checked here, where the modules are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import views
from .choices import Choice, everybody, from_json
from .state import Held, Merged, ServeState, Tried

Json = dict[str, Any]


def about(state: ServeState) -> Json:
    return views.about(state.snapshot)


def view(state: ServeState, choice: Any, column: int, function: int) -> Json:
    return views.view(state, _choice(state, choice), column, function)


def owners(state: ServeState, choice: Any, function: int) -> Json:
    return views.owners(state, _choice(state, choice), function)


def file(state: ServeState, choice: Any) -> bytes:
    return state.file(_choice(state, choice))


def trial(state: ServeState, path: Path, label: str) -> Tried:
    """An upload is read, merged with everybody and drawn."""
    count = state.add(path, label)
    held, merged = list(state.snapshot.held[-count:]), state.everybody()
    if merged is not None:
        views.view(state, everybody(len(state.snapshot.held)), 0)
    return Tried(held, merged)


def adopt(state: ServeState, held: list[Held], merged: Merged | None) -> None:
    state.adopt(held, merged)


def _choice(state: ServeState, given: Any) -> Choice:
    return from_json(given, state.snapshot.modules)


QUESTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (about, view, owners, file, trial, adopt)}
