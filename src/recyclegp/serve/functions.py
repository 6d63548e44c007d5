"""One function of several: where a model has it, and what the model says of it."""

from __future__ import annotations

from typing import Any

from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from ..plot.scale import Model
from ..plot.scene import functions_of
from .state import Snapshot


def function_names(snapshot: Snapshot) -> tuple[str, ...]:
    """Of all functions that anybody has."""
    return functions_of(snapshot.modules).functions


def name_of(snapshot: Snapshot, function: int) -> str:
    found = function_names(snapshot)
    if not 0 <= function < len(found):
        raise RecycleGPError(f"function {function}: there are {len(found)}")
    return found[function]


def position(model: Model, function: str) -> int | None:
    """Of a function among those of a model, where it has it; a single one may be called like its y."""
    names = model.functions
    if len(names) == 1 and function not in names:
        names = model.outputs
    return names.index(function) if function in names else None


def position_in(e: Ensemble, function: str) -> int:
    """The same of an ensemble that must have it."""
    k = position(e, function)
    if k is None:
        raise RecycleGPError(f"nobody who is switched on has {function}; switch somebody on, or look at another one")
    return k


def of(value: Any, k: int, model: Model) -> Any:
    """What models say once for one function, and for several as a tuple."""
    return value[k] if len(model.functions) > 1 else value
