"""The options of fitting and merging partitions, under the names that `fit_many` and `merge` give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from .. import arrays
from ..errors import RecycleGPError
from ..local.request import FitOptions
from ..models.merge import MergeOptions, merge_options

MERGE = ("inducing", "kernel", "learn", "weights", "owners", "noise", "trust", "half_life", "now")


class FitArguments(TypedDict, total=False):
    """As for `fit_many`, the same for all partitions."""

    likelihood: str
    kernel: Any
    method: str
    inducing: Any
    publish: Any
    rows_per_point: int | None
    learn: bool
    noise: float | None
    seed: int
    device: Any
    columns: Any
    unit: str | None
    labels: Any
    allow_small: bool


class Merging(NamedTuple):
    options: MergeOptions
    weights: Any


def fitting(given: FitArguments, target: str | None) -> FitOptions:
    """The options of fitting, as one value."""
    _check(given, tuple(FitArguments.__annotations__), "", "merge={…} is for those of merging")
    if arrays.are_several(given.get("noise")):
        raise RecycleGPError(
            "noise: partitions have one for all rows; with one per row fit them by fit_many([(X, y, noise), …]), "
            "and merge the modules"
        )
    return FitOptions(target=target, **given)


def merging(given: Mapping[str, Any] | None) -> Merging:
    """The options of merging. Partitions of one's own data are of one function, and nobody lies."""
    asked: dict[str, Any] = {"owners": None, "trust": None, **({} if given is None else given)}
    if asked.pop("keep", "names") != "names":
        raise RecycleGPError("merge: keep='sites' would bring all modules together; only 'names' are kept here")
    _check(asked, MERGE, "merge: ", "those of fitting are arguments themselves")
    weights = asked.pop("weights", None)
    return Merging(merge_options(**asked), weights)


def _check(given: Mapping[str, Any], known: tuple[str, ...], where: str, remedy: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{where}no option is called {unknown[0]!r}; there are {', '.join(known)} ({remedy})")
