"""Changes of the units of inputs as users write them: by a column's name, or its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import arrays
from ..errors import Argument, Either, Name, RecycleGPError
from ..kernels.units import InputUnits


def input_units(
    input_scale: Any, input_shift: Any, *, dimension: int, columns: arrays.Columns, discrete: Sequence[int]
) -> InputUnits:
    """x' = scale∘x + shift, checked; `discrete` are the columns of categories, which have no units."""
    factors = _each(input_scale, "input_scale", 1.0, dimension, columns)
    keys: Sequence[Any] = range(dimension) if columns is None else columns
    wrong = {key: f for key, f in zip(keys, factors.tolist(), strict=True) if f < 1 / arrays.LARGEST}
    if wrong:
        raise RecycleGPError(
            Argument("input_scale", wrong),
            "; pass positive numbers: zero would make all points one, and a negative one would mirror the inputs, "
            "which no change of units does",
        )
    shifts = _each(input_shift, "input_shift", 0.0, dimension, columns)
    for argument, vector, usual in (("input_scale", factors, 1), ("input_shift", shifts, 0)):
        categories = [i for i in discrete if float(vector[i]) != usual]
        if categories:
            named = categories[0] if columns is None else repr(columns[categories[0]])
            raise RecycleGPError(
                Name(argument), f": column {named} holds categories, which have no place; pass {usual} there"
            )
    return InputUnits(factors, shifts)


def _each(given: Any, argument: str, usual: float, dimension: int, columns: arrays.Columns) -> torch.Tensor:
    """One number for each input column, from {column: number}, one number each, or nothing."""
    if given is None:
        return torch.full((dimension,), usual, dtype=torch.float64)
    if isinstance(given, Mapping):
        return _by_column(given, argument, usual, dimension, columns)
    vector = arrays.as_tensor(given, argument, "cpu").reshape(-1)
    if len(vector) != dimension:
        raise RecycleGPError(
            Name(argument),
            f" has {len(vector)} numbers for {dimension} input columns; pass one each, or a dict by column name",
        )
    return vector


def _by_column(
    given: Mapping[Any, Any], argument: str, usual: float, dimension: int, columns: arrays.Columns
) -> torch.Tensor:
    known: Sequence[Any] = range(dimension) if columns is None else columns
    if columns is None and any(isinstance(key, str) for key in given):
        raise RecycleGPError(
            Name(argument),
            f": the {dimension} input columns have no names; use their positions 0 to {dimension - 1}",
            Either(", or name them first with module.with_columns", ""),
        )
    unknown = [str(key) for key in given if key not in known]
    if unknown:
        raise RecycleGPError(
            Name(argument), f": no input column {', '.join(unknown)}; there are {', '.join(map(str, known))}"
        )
    numbers = {key: arrays.number(value, argument, of=key) for key, value in given.items()}
    return torch.tensor([numbers.get(key, usual) for key in known], dtype=torch.float64)
