"""Changes of units as users write them: of each input, by its column's name or its place, and of y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import arrays
from ..errors import RecycleGPError
from ..kernels.units import InputUnits


class NewUnits(NamedTuple):
    """x' = input scale∘x + input shift, y' = scale·y + shift: what is measured afterwards, by what was before."""

    inputs: InputUnits
    scale: float
    shift: float
    unit: str | None  # of y', if a model is to say so


def new_units(
    input_scale: Any,
    input_shift: Any,
    output_scale: Any,
    output_shift: Any,
    unit: str | None,
    *,
    dimension: int,
    columns: arrays.Columns,
    discrete: Sequence[int],
) -> NewUnits:
    """All of it checked; `discrete` are the columns of categories, which have no units."""
    scale, shift = arrays.number(output_scale, "output_scale"), arrays.number(output_shift, "output_shift")
    if abs(scale) < 1 / arrays.LARGEST:
        raise RecycleGPError(f"output_scale={scale}; pass a number that is not zero")
    factors = _each(input_scale, "input_scale", 1.0, dimension, columns)
    if bool((factors < 1 / arrays.LARGEST).any()):
        raise RecycleGPError(
            f"input_scale={factors.tolist()}; pass positive numbers: zero would make all points one, and a negative "
            "one would mirror the inputs, which no change of units does"
        )
    shifts = _each(input_shift, "input_shift", 0.0, dimension, columns)
    for argument, vector, usual in (("input_scale", factors, 1), ("input_shift", shifts, 0)):
        categories = [i for i in discrete if float(vector[i]) != usual]
        if categories:
            named = categories[0] if columns is None else repr(columns[categories[0]])
            raise RecycleGPError(
                f"{argument}: column {named} holds categories, which have no place; pass {usual} there"
            )
    return NewUnits(InputUnits(factors, shifts), scale, shift, unit)


def _each(given: Any, argument: str, usual: float, dimension: int, columns: arrays.Columns) -> torch.Tensor:
    """One number for each input column, from {column: number}, one number each, or nothing."""
    if given is None:
        return torch.full((dimension,), usual, dtype=torch.float64)
    if isinstance(given, Mapping):
        return _by_column(given, argument, usual, dimension, columns)
    vector = arrays.as_tensor(given, argument, "cpu").reshape(-1)
    if len(vector) != dimension:
        raise RecycleGPError(
            f"{argument} has {len(vector)} numbers for {dimension} input columns; pass one each, or a dict by column "
            "name"
        )
    return vector


def _by_column(
    given: Mapping[Any, Any], argument: str, usual: float, dimension: int, columns: arrays.Columns
) -> torch.Tensor:
    known: Sequence[Any] = range(dimension) if columns is None else columns
    if columns is None and any(isinstance(key, str) for key in given):
        raise RecycleGPError(
            f"{argument}: the {dimension} input columns have no names; use their positions 0 to {dimension - 1}, or "
            "name them first with module.with_columns"
        )
    unknown = [str(key) for key in given if key not in known]
    if unknown:
        raise RecycleGPError(
            f"{argument}: no input column {', '.join(unknown)}; there are {', '.join(map(str, known))}"
        )
    numbers = {key: arrays.number(value, f"{argument}[{key!r}]") for key, value in given.items()}
    return torch.tensor([numbers.get(key, usual) for key in known], dtype=torch.float64)
