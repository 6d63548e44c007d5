"""Rows of a table for models of several functions: outputs with cells that may be missing, or labels of classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..errors import RecycleGPError
from .rows import Rows, floats
from .screen import Screen
from .tables import MISSING, Table, listed


class Reading(Enum):
    """How target columns are taken."""

    OUTPUTS = "outputs"  # numbers, a column for each
    NUMBER = "number"  # one column of numbers
    LABELS = "labels"  # one column, as it is written


class JointPart(NamedTuple):
    """Some rows, all inputs of them complete."""

    X: pd.DataFrame
    y: pd.DataFrame  # a column for each target
    kept: pd.DataFrame  # columns carried along, as they were


def targets_of(given: Sequence[str], table: Table) -> list[str]:
    """The target columns: named one by one, or separated by commas."""
    found = [name for text in given for name in listed(text, table.names)]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise RecycleGPError(f"--target: {', '.join(twice)} is named twice; name each column once")
    if not found:
        raise RecycleGPError("--target: it names no column; name at least one")
    return found


def only(targets: Sequence[str], what: str) -> str:
    """The target of a model that has one."""
    if len(targets) > 1:
        raise RecycleGPError(f"--target {','.join(targets)}: {what} has one target; name one column")
    return targets[0]


@dataclass
class JointRows:
    """The rows of a table; reading them counts what is missing."""

    rows: Rows  # without a target, which carry the target columns along
    targets: Sequence[str]
    reading: Reading
    missing: bool = False  # may cells of y be missing?
    gaps: dict[str, int] = field(default_factory=dict)  # target → missing cells
    left_out: int = 0  # rows, because of their targets

    def __post_init__(self) -> None:
        clash = [t for t in self.targets if t in self.rows.inputs]
        if clash:
            raise RecycleGPError(f"--target {clash[0]}: it is among the inputs; leave it out of --inputs")
        if self.missing and self.reading is not Reading.OUTPUTS:
            raise RecycleGPError("--missing allow: it is for several outputs; of a single one use --drop-missing")
        if self.missing and self.rows.drop_missing:
            raise RecycleGPError("--missing allow and --drop-missing: missing cells are used or left out; give one")

    @property
    def _path(self) -> Path:
        return self.rows.table.path

    @property
    def incomplete(self) -> int:
        """Rows that are left out."""
        return self.rows.incomplete + self.left_out

    def parts(self, screen: Screen) -> Iterator[JointPart]:
        """Some rows at a time. Where gaps are not allowed, all rows are read all the same, to count them."""
        self.gaps.clear()
        self.left_out = 0
        for part in self.rows.parts(screen):
            y = pd.DataFrame({t: self._target(part.kept[t], part.positions) for t in self.targets})
            there = y.notna()
            for t in self.targets:
                self.gaps[t] = self.gaps.get(t, 0) + int((~there[t]).sum())
            complete = (there.any(axis=1) if self.missing else there.all(axis=1)).to_numpy()
            self.left_out += int((~complete).sum())
            allowed = self.missing or self.rows.drop_missing or not self.left_out
            if complete.any() and allowed:
                yield JointPart(*(some[complete].reset_index(drop=True) for some in (part.X, y, part.kept)))
        self._check()
        if self.left_out:
            screen.note(f"{self.left_out} of {self.rows.read} rows left out: no target")

    def whole(self, screen: Screen) -> JointPart:
        """All rows."""
        parts = self.rows.settled(lambda: list(self.parts(screen)))
        return JointPart(*(pd.concat(some, ignore_index=True) for some in zip(*parts, strict=True)))

    def _check(self) -> None:
        where = ", ".join(f"{name}: {count}" for name, count in self.gaps.items() if count)
        if self.left_out and not (self.missing or self.rows.drop_missing):
            allow = "pass --missing allow where they mean that an output was not seen, " * (
                self.reading is Reading.OUTPUTS
            )
            raise RecycleGPError(
                f"{self._path}: targets are missing ({where}); {allow}fill them, or leave those rows out with "
                "--drop-missing"
            )
        if self.left_out == self.rows.read - self.rows.incomplete:
            raise RecycleGPError(f"{self._path}: no row has a target ({where}), and none would be left")

    def _target(self, column: pd.Series, positions: np.ndarray) -> pd.Series:
        text = column.astype(str).str.strip()
        if self.reading is Reading.LABELS:
            return _labels(column, text)
        there = column.notna() & ~text.isin(MISSING)
        written = text.str.replace(",", ".", regex=False) if self.rows.table.decimal == "," else column
        numbers, strange = floats(written.where(there, None))
        if strange is not None:
            said = str(column.iloc[strange])[:40]
            raise RecycleGPError(
                f"{self._path}: column {column.name!r} holds text ({said!r} in row {positions[strange] + 1}); "
                "correct it; classes are for --likelihood categorical"
            )
        return pd.Series(np.where(np.isfinite(numbers), numbers, np.nan))


def _labels(column: pd.Series, text: pd.Series) -> pd.Series:
    """As they are written; of numbers in Parquet 3.0 is 3, as the library has it."""
    from ..models.joint.classes import label

    found = [None if there in MISSING else label(value) for value, there in zip(column, text, strict=True)]
    return pd.Series(found, dtype=object)
