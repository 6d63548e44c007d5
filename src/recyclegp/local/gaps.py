"""Rows that lack some of their inputs: left out, filled from similar rows, or there once for each value they may have.

Who is similar: the rows nearest in what both rows have, the target included, with columns divided by their spreads (a
level counts 1 where it is another one):

    d²(i, j) = mean over the columns c that both have of ((x_ic − x_jc)/s_c)²

It is the distance of Troyanskaya et al., Bioinformatics 17 (2001), "Missing value estimation methods for DNA
microarrays" (scikit-learn's KNNImputer), but that the target counts, too: without it what is filled in has nothing to
do with y, and f comes out too flat (Moons et al., J. Clin. Epidemiol. 59 (2006), "Using the outcome for imputation of
missing predictor values was preferred").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..arrays import CodedInputs
from ..errors import RecycleGPError
from ..levels import Kind, kind_of
from .constants import GAPS


class Column(NamedTuple):
    """One column of inputs or targets."""

    name: str
    values: np.ndarray  # (n,)  float64, or texts as objects
    absent: np.ndarray  # (n,) bool
    is_level: bool

    @property
    def scaled(self) -> np.ndarray:
        """(n,)  numbers in standard deviations, levels as codes; NaN where there is none."""
        found = np.full(len(self.values), np.nan)
        there = ~self.absent
        if self.is_level:
            found[there] = np.unique(self.values[there].astype(str), return_inverse=True)[1]
            return found
        found[there] = self.values[there].astype(float)
        spread = float(found[there].std()) if there.any() else 0.0
        return found / spread if spread > 0 else found


class Replaced(NamedTuple):
    """Rows in which nothing is missing, and where they come from."""

    X: Any  # as it was given: array, tensor or table
    origin: np.ndarray  # (m,)  the row that each of them was


def columns_of(X: Any) -> list[Column]:
    """Of inputs as users pass them.

    Raises:
        RecycleGPError: They cannot be read as a table.
    """
    if isinstance(X, CodedInputs):
        X = X.categories.named(np.asarray(X.X))
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        return [_column(str(c), X[c]) for c in X.columns]
    array = _array(X)
    if array.ndim not in (1, 2):
        raise RecycleGPError(f"X has shape {array.shape}; it must be (n, D) with D ≥ 1")
    return [_column(str(j), part) for j, part in enumerate(array.reshape(len(array), -1).T)]


def neighbours(inputs: Sequence[Column], targets: Sequence[Column], count: int, rows: int) -> dict[int, np.ndarray]:
    """Of every row that lacks something `count` similar rows that have it, the most similar first.

    A level that fewer than `rows` rows have is nobody else's.

    Raises:
        RecycleGPError: No row has what one lacks.
    """
    absent = np.stack([c.absent for c in inputs], 1)
    every = [*inputs, *targets]
    table, levels = np.stack([c.scaled for c in every], 1), [j for j, c in enumerate(every) if c.is_level]
    usable = ~np.logical_or.reduce([_is_rare(c, rows) for c in inputs])
    found: dict[int, np.ndarray] = {}
    patterns, which = np.unique(absent, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        if not pattern.any():
            continue
        givers = np.flatnonzero(usable & ~absent[:, pattern].any(1))
        if not len(givers):
            names = ", ".join(repr(c.name) for c, gone in zip(inputs, pattern, strict=True) if gone)
            raise RecycleGPError(f"X: no row has {names}, which others lack; leave the column out")
        if len(givers) > GAPS.most_givers:  # every so many of them
            givers = givers[:: -(-len(givers) // GAPS.most_givers)]
        for i in np.flatnonzero(which.reshape(-1) == p):
            away = table[givers] - table[i]
            away[:, levels] = np.where(np.isnan(away[:, levels]), np.nan, away[:, levels] != 0)
            both = ~np.isnan(away)
            square = np.where(both, away, 0.0) ** 2
            distance = square.sum(1) / np.maximum(both.sum(1), 1)
            distance[~both.any(1)] = np.inf
            found[int(i)] = givers[np.argsort(distance, kind="stable")[:count]]
    return found


def taken(values: Any, places: np.ndarray) -> Any:
    """These rows of whatever users pass in, in this order; some may be there several times."""
    if hasattr(values, "iloc"):
        return values.iloc[places]
    if isinstance(values, Tensor):
        return values[torch.as_tensor(places, device=values.device)]
    return [values[i] for i in places] if isinstance(values, (list, tuple, range)) else values[places]


def filled(X: Any, columns: Sequence[Column], near: dict[int, np.ndarray]) -> Replaced:
    """What is missing as the mean of the similar rows, or the level that most of them have."""
    cells: dict[int, list[tuple[int, Any]]] = {}
    for j, column in enumerate(columns):
        cells[j] = [
            (i, _typical(column, column.values[near[i]])) for i in np.flatnonzero(column.absent).tolist() if i in near
        ]
    return Replaced(_rows(X, np.arange(len(columns[0].values)), cells), np.arange(len(columns[0].values)))


def multiplied(X: Any, columns: Sequence[Column], near: dict[int, np.ndarray]) -> Replaced:
    """A row that lacks something once for each similar row, with what that one has."""
    n = len(columns[0].values)
    counts = np.array([len(near[i]) if i in near else 1 for i in range(n)])
    origin = np.repeat(np.arange(n), counts)
    giver = np.concatenate([near.get(i, np.array([i])) for i in range(n)])
    cells = {
        j: [(m, column.values[giver[m]]) for m in np.flatnonzero(column.absent[origin]).tolist()]
        for j, column in enumerate(columns)
    }
    return Replaced(_rows(X, origin, cells), origin)


def _typical(column: Column, values: np.ndarray) -> Any:
    if not column.is_level:
        return float(values.astype(float).mean())
    texts, first, counts = np.unique(values.astype(str), return_index=True, return_counts=True)
    best = min(range(len(texts)), key=lambda t: (-counts[t], first[t]))  # of equally many the most similar row's
    return values[first[best]]


def _is_rare(column: Column, rows: int) -> np.ndarray:
    """(n,) bool  rows with a level that few rows have."""
    rare = np.zeros(len(column.values), dtype=bool)
    if column.is_level:
        there = ~column.absent
        _, which, counts = np.unique(column.values[there].astype(str), return_inverse=True, return_counts=True)
        rare[there] = counts[which] < rows
    return rare


def _column(name: str, values: Any) -> Column:
    array = np.ma.filled(values.astype(object), None) if np.ma.isMA(values) else values
    is_level = kind_of(array) is Kind.LEVELS if hasattr(array, "dtype") else False
    array = np.asarray(array.to_numpy() if hasattr(array, "to_numpy") else array)
    if array.dtype.kind in "biu":
        return Column(
            name, array.astype(object) if is_level else array.astype(float), np.zeros(len(array), bool), is_level
        )
    if array.dtype.kind == "f":
        return Column(name, array.astype(float), np.isnan(array), is_level)
    cells = array.astype(object)
    absent = np.array([_is_absent(cell) for cell in cells.tolist()], dtype=bool)
    return Column(name, cells, absent, is_level)


def _is_absent(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if np.ma.isMA(values):
        return np.asarray(np.ma.filled(values.astype(object), None))
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _rows(X: Any, origin: np.ndarray, cells: dict[int, list[tuple[int, Any]]]) -> Any:
    """The rows X[origin], in which some cells of some columns have other values."""
    if isinstance(X, CodedInputs):
        X = X.categories.named(np.asarray(X.X))
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        import pandas as pd

        table = {}
        for j, name in enumerate(X.columns):
            column = X[name]
            values = column.to_numpy()[origin]
            if cells.get(j):
                values = values.astype(
                    float if kind_of(column) is Kind.NUMBERS and values.dtype.kind in "fiu" else object
                )
                _put(values, cells[j])
            table[name] = values
        return pd.DataFrame(table)
    array = _array(X)[origin]
    array = array.reshape(len(array), -1)
    for j, some in cells.items():
        _put(array[:, j], some)
    return torch.as_tensor(array, device=X.device) if isinstance(X, Tensor) else array


def _put(values: np.ndarray, cells: list[tuple[int, Any]]) -> None:
    for place, value in cells:
        values[place] = value
