"""The words of a file: everything in it that somebody has written, and that whoever gets it can read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from . import fact_words
from .screen import Screen

if TYPE_CHECKING:
    from ..categories import Categories
    from ..likelihoods import Likelihood
    from ..models.load import Model
    from ..target import Target

CHOSEN = ("outputs", "classes", "levels")  # what functions and classes may be, where their names are somebody's words

Words = dict[str, list[str]]  # by what they are


def words(
    names: Iterable[str],
    owners: Iterable[str | None],
    columns: Sequence[str] | None,
    categories: Categories,
    targets: Iterable[Target],
    functions: tuple[str, Iterable[str]],
) -> Words:
    """`functions` are what they are (outputs, classes, …), and their names."""
    called, targets = list(names), list(targets)
    meaning, own = functions
    found: dict[str, Iterable[str | None]] = {
        "name": called,
        "owner": (owner for owner in owners if owner not in called),
        "columns": columns or (),
        **{f"levels of {columns[c] if columns else f'input {c + 1}'}": known for c, known in categories.levels},
        "target": (t.name for t in targets),
        "unit": (t.unit for t in targets),
        "labels": (label for t in targets for label in t.labels or ()),
        **({meaning: own} if meaning in CHOSEN else {}),
    }
    every = {what: list(dict.fromkeys(word for word in some if word)) for what, some in found.items()}
    return {what: some for what, some in every.items() if some}


def words_of_y(likelihoods: Sequence[Likelihood]) -> tuple[str, tuple[str, ...]]:
    """What words y has, by the one of these likelihoods that has some."""
    return next((p for p in likelihoods if p.own_labels), likelihoods[0]).words_of_y


def of_model(model: Model) -> Words:
    """Of a model that is, or will be, in a file."""
    from ..models.ensemble import Ensemble

    names, owners = (model.names, model.owners) if isinstance(model, Ensemble) else ([model.name], [model.owner])
    functions = words_of_y(model.likelihoods)
    return words(names, owners, model.columns, model.categories, model.targets, functions)


def note(screen: Screen, found: Words) -> None:
    """Before a file is written."""
    screen.note(f"words that will be in the file: {fact_words.words(found)}")
