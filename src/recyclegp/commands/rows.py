"""Rows of a table as numbers: what a model is fitted to, asked at, or scored on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..errors import RecycleGPError
from .screen import Screen
from .tables import MISSING, Table

CLASSES_SHOWN = 6  # in an error


class Part(NamedTuple):
    """Some rows, all of them complete."""

    X: pd.DataFrame  # float64, by the names of the inputs
    y: np.ndarray | None
    kept: pd.DataFrame  # columns carried along, as they were
    positions: np.ndarray  # of these rows in the table


@dataclass
class Rows:
    """The rows of a table that are to be numbers; reading them counts what is missing."""

    table: Table
    inputs: Sequence[str]
    target: str | None = None
    classes: bool = False  # is the target one of two classes?
    positive: str | None = None  # the label of class 1, where it is not the number 1
    drop_missing: bool = False
    keep: Sequence[str] = ()
    read: int = 0
    incomplete: int = 0
    _gaps: Counter[str] = field(default_factory=Counter)
    _labels: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        used = [*self.inputs] if self.target is None else [*self.inputs, self.target]
        self.table.require([*used, *self.keep])
        if not self.inputs or len(set(self.inputs)) < len(self.inputs):
            said = f"names a column twice ({', '.join(self.inputs)})" if self.inputs else "would be no column at all"
            raise RecycleGPError(f"{self.table.path}: --inputs {said}; name at least one, each once")
        if self.target in self.inputs:
            raise RecycleGPError(f"--target {self.target}: it is among the inputs; leave it out of --inputs")
        if "" in used:
            raise RecycleGPError(
                f"{self.table.path}: a column has no name (a row index?); say which to use with --inputs"
            )
        if self.positive is not None and not self.classes:
            raise RecycleGPError(f"--positive {self.positive}: it is for classes; use --likelihood bernoulli")

    def parts(self, screen: Screen) -> Iterator[Part]:
        """Some rows at a time. Where incomplete rows are not allowed, all are read all the same, to count them."""
        numbers = [*self.inputs]
        if self.target is not None and self.positive is None:
            numbers.append(self.target)
        with screen.bar(f"Reading {self.table.path.name}", self.table.size) as advance:
            for frame in self.table.frames(numbers, advance):
                part = self._part(frame)
                self.read += len(frame)
                if len(part.X) and (self.drop_missing or not self.incomplete):
                    yield part
        self._check()
        if self.incomplete:
            screen.note(f"{self.incomplete} of {self.read} rows left out: missing values")

    @property
    def class_labels(self) -> tuple[str | None, str] | None:
        """Of classes 0 and 1, where the table has words for them; class 0 has none if it is several."""
        if self.positive is None:
            return None
        rest = self._labels - {self.positive}
        return (next(iter(rest)) if len(rest) == 1 else None, self.positive)

    def whole(self, screen: Screen) -> tuple[pd.DataFrame, np.ndarray]:
        """X and y of all rows."""
        parts = list(self.parts(screen))
        X = np.concatenate([p.X.to_numpy() for p in parts])
        y = np.concatenate([p.y for p in parts if p.y is not None])
        return pd.DataFrame(X, columns=list(self.inputs), copy=False), y

    def _part(self, frame: pd.DataFrame) -> Part:
        columns = {c: self._numbers(frame[c]) for c in self.inputs}
        if self.target is not None:
            columns[self.target] = self._target(frame[self.target])
        gaps = {c: ~np.isfinite(values) for c, values in columns.items()}
        self._gaps.update({c: int(there.sum()) for c, there in gaps.items() if there.any()})
        complete = ~np.logical_or.reduce(list(gaps.values()))
        self.incomplete += int((~complete).sum())
        X = np.stack([columns[c][complete] for c in self.inputs], axis=1)
        y = None if self.target is None else columns[self.target][complete]
        kept, positions = frame.loc[complete, list(self.keep)], self.read + np.flatnonzero(complete)
        return Part(pd.DataFrame(X, columns=list(self.inputs), copy=False), y, kept, positions)

    def _check(self) -> None:
        path = self.table.path
        if not self.read:
            raise RecycleGPError(f"{path}: there are no rows below the header")
        if self.incomplete and not self.drop_missing:
            where = ", ".join(f"{name}: {count}" for name, count in self._gaps.items())
            raise RecycleGPError(
                f"{path}: {self.incomplete} of {self.read} rows have missing or infinite values ({where}); fill them, "
                "or leave those rows out with --drop-missing"
            )
        if self.incomplete == self.read:
            raise RecycleGPError(f"{path}: every row has missing or infinite values, and none would be left")
        if self.positive is not None and self.positive not in self._labels:
            raise RecycleGPError(
                f"--positive {self.positive}: column {self.target!r} holds no such class, but {self._classes()}"
            )

    # --- columns ---

    def _numbers(self, column: pd.Series) -> np.ndarray:
        values, text = _floats(column)
        if text is not None:
            said = str(column.iloc[text])[:40]
            remedy = "correct it; two classes are for --likelihood bernoulli"
            if re.fullmatch(r"\s*[-+]?\d*,\d+\s*", said):
                remedy = "numbers need a decimal point, not a comma: save the table so"
            elif column.name != self.target:
                remedy = "encode it as numbers, or name only other columns as --inputs when fitting"
            row = self.read + text + 1
            raise RecycleGPError(
                f"{self.table.path}: column {column.name!r} holds text ({said!r} in row {row}); {remedy}"
            )
        return values

    def _target(self, column: pd.Series) -> np.ndarray:
        if not self.classes:
            return self._numbers(column)
        if self.positive is not None:
            labels = column.astype(str).str.strip()
            absent = column.isna() | labels.isin(MISSING)
            self._labels |= set(labels[~absent].unique())
            return np.where(absent, np.nan, labels == self.positive)
        values, text = _floats(column)
        if text is None:
            self._labels |= {f"{v:g}" for v in np.unique(values[~np.isnan(values)])}
        else:
            self._labels |= set(column.dropna().astype(str).unique())
        if not (self._labels <= {"0", "1"} or self._labels <= {"-1", "1"}):
            count = len(self._labels)
            remedy = "say which of them is 1" if count <= 2 else "they must be two; set one against the rest"
            raise RecycleGPError(
                f"{self.table.path}: column {self.target!r} holds the classes {self._classes()}; {remedy}, as "
                f"--positive {max(self._labels)}"
            )
        return values

    def _classes(self) -> str:
        more = ", …" if len(self._labels) > CLASSES_SHOWN else ""
        return ", ".join(sorted(self._labels)[:CLASSES_SHOWN]) + more


def _floats(column: pd.Series) -> tuple[np.ndarray, int | None]:
    """The column as float64, and where its first text is, if any."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # booleans are, too
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if column.dtype.kind in "Mm":  # dates would become nanoseconds
        numbers = np.full(len(column), np.nan)
    else:
        numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    text = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    return numbers, int(text[0]) if len(text) else None
