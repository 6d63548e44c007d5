"""What a partition is, and how its rows are read where it is fitted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from ..arrays import Array, CodedInputs
from ..categories import NO_CATEGORIES, Categories
from ..errors import RecycleGPError
from ..extras import install

SUFFIXES = (".parquet", ".pq")
KINDS = "an (X, y) pair, a function without arguments or a dask.delayed that makes one, or the path of a Parquet file"


Partitions: TypeAlias = Any  # several, each KINDS; a folder of Parquet files; or a dask DataFrame
Targets: TypeAlias = str | Sequence[str] | None  # the name of the column that is y, or those of several outputs


class Pair(NamedTuple):
    X: Array
    y: Array


class Columns(NamedTuple):
    """Which columns of a table are meant."""

    inputs: tuple[str, ...] | None  # all but the targets unless given
    targets: tuple[str, ...] = ()

    @staticmethod
    def given(inputs: Sequence[str] | None, target: Targets) -> Columns:
        targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
        return Columns(None if inputs is None else tuple(inputs), targets)

    def of(self, table: pd.DataFrame) -> Pair:
        """One target as a column, several as a table."""
        if not self.targets:
            raise RecycleGPError("target: the partitions are tables; pass the name of the column that is y")
        inputs = [c for c in table.columns if c not in self.targets] if self.inputs is None else list(self.inputs)
        absent = [c for c in [*inputs, *self.targets] if c not in table.columns]
        if absent:
            there = ", ".join(map(str, table.columns))
            raise RecycleGPError(f"no column {', '.join(map(repr, absent))} in a partition; there are {there}")
        return Pair(table[inputs], table[self.targets[0] if len(self.targets) == 1 else list(self.targets)])


@dataclass(frozen=True)
class ParquetFile:
    """All rows of one file. The path is absolute: workers may run elsewhere."""

    path: str

    def identity(self) -> str:
        """Which file it is, as long as nobody writes to it."""
        state = os.stat(self.path)
        return f"{os.path.abspath(self.path)} {state.st_size} {state.st_mtime_ns}"

    def read(self, columns: Columns) -> Pair:
        names = None if columns.inputs is None else [*columns.inputs, *columns.targets]
        try:
            from pyarrow import ArrowInvalid
            from pyarrow.parquet import read_table
        except ImportError:
            raise RecycleGPError(f"{self.path}: reading Parquet needs pyarrow; {install('parquet')}") from None
        try:
            table = read_table(self.path, columns=names, partitioning=None)
        except ArrowInvalid as error:
            raise RecycleGPError(f"{self.path}: not a complete Parquet file ({error})") from None
        return columns.of(table.to_pandas(ignore_metadata=True))


@dataclass(frozen=True)
class StoredRows:
    """Some rows of an array in a .npy file: the columns of X, and y in the last, or in the last few."""

    path: str
    start: int
    stop: int
    names: tuple[str, ...] | None  # of the columns of X
    categories: Categories = NO_CATEGORIES  # whose codes are in some of them
    outputs: int = 1  # columns of y
    labels: tuple[str, ...] = ()  # of classes, whose positions among these are in y

    def read(self, columns: Columns) -> Pair:
        rows = np.load(self.path, mmap_mode="r")[self.start : self.stop]
        X, y = np.array(rows[:, : -self.outputs]), self._targets(np.array(rows[:, -self.outputs :]))
        if self.categories:
            return Pair(CodedInputs(X, self.names, self.categories), y)
        return Pair(X if self.names is None else pd.DataFrame(X, columns=list(self.names), copy=False), y)

    def _targets(self, y: np.ndarray) -> np.ndarray:
        if self.labels:
            return np.array(self.labels, dtype=object)[y[:, 0].astype(int)]
        return y[:, 0] if self.outputs == 1 else y


def sources(partitions: Partitions) -> list[Any]:
    """One source for each partition, which `load` can read."""
    if isinstance(partitions, (str, PathLike)):
        return [ParquetFile(str(path.absolute())) for path in _files(Path(partitions))]
    if isinstance(partitions, pd.DataFrame):
        raise RecycleGPError("partitions is one table; pass a list of them, or a dask DataFrame, which has partitions")
    if hasattr(partitions, "to_delayed") and hasattr(partitions, "npartitions"):
        return list(partitions.to_delayed())
    if not isinstance(partitions, Iterable):
        raise TypeError(f"partitions must be several, each {KINDS}; not {type(partitions).__name__}")
    found = [_source(i, p) for i, p in enumerate(partitions)]
    if not found:
        raise RecycleGPError("partitions is empty; there is nothing to fit")
    return found


def _source(position: int, partition: Any) -> Any:
    if isinstance(partition, (str, PathLike)):
        (path,) = _files(Path(partition), folders=False)
        return ParquetFile(str(path.absolute()))
    if isinstance(partition, (tuple, list)):
        if len(partition) != 2:
            raise RecycleGPError(f"partitions[{position}] has {len(partition)} entries; a pair is (X, y)")
        return Pair(*partition)
    if not (_is_delayed(partition) or callable(partition) or hasattr(partition, "read")):
        raise TypeError(f"partitions[{position}] is a {type(partition).__name__}; each must be {KINDS}")
    return partition


def _files(path: Path, *, folders: bool = True) -> list[Path]:
    if path.is_dir() and folders:
        found = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        if not found:
            raise RecycleGPError(f"{path}: the folder holds no *{SUFFIXES[0]} files; each of them is a partition")
        return found
    if path.suffix.lower() not in SUFFIXES:
        raise RecycleGPError(f"{path}: a partition that is a path must be a Parquet file, called *{SUFFIXES[0]}")
    path.stat()  # FileNotFoundError names the file
    return [path]


def default_names(found: list[Any]) -> list[str]:
    """Files are called by what they are called, if that tells them apart; the others by their numbers."""
    stems = [Path(s.path).stem for s in found if isinstance(s, ParquetFile)]
    return stems if len(set(stems)) == len(found) else [f"part-{i}" for i in range(len(found))]


def load(source: Any, columns: Columns) -> Pair:
    """X and y of a partition."""
    if isinstance(source, (ParquetFile, StoredRows)):
        return source.read(columns)
    if _is_delayed(source):
        source = source.compute(scheduler="synchronous")
    elif callable(source):
        source = source()
    if isinstance(source, pd.DataFrame):
        return columns.of(source)
    if not isinstance(source, (tuple, list)) or len(source) != 2:
        raise RecycleGPError(f"a partition was loaded as a {type(source).__name__}; it must be (X, y) or a DataFrame")
    return Pair(*source)


def identity(source: Any, columns: Columns, pair: Pair | None = None) -> str:
    """What tells the data of a partition from other data: the state of its file, or a digest of its numbers."""
    if isinstance(source, ParquetFile):
        return source.identity()
    X, y = load(source, columns) if pair is None else pair
    return digest(X, y)


def digest(*arrays: Any) -> str:
    """Of numbers, their shapes, and the names of columns."""
    found = hashlib.sha256()
    for array in arrays:
        if isinstance(array, CodedInputs):
            found.update(f"{array.columns} {array.categories}".encode())
            array = array.X
        detached = array.detach().cpu() if hasattr(array, "detach") else array
        values = np.ascontiguousarray(detached)
        found.update(f"{_called(array)} {values.dtype} {values.shape}".encode())
        found.update(
            values.data.cast("B") if values.dtype != object and values.size else repr(values.tolist()).encode()
        )
    return found.hexdigest()


def _called(array: Any) -> str:
    """The names of a table's columns, or that of a column."""
    if isinstance(array, pd.DataFrame):
        return str(list(array.columns))
    return str(array.name) if isinstance(array, pd.Series) else ""


def _is_delayed(source: Any) -> bool:
    return hasattr(source, "__dask_graph__") and hasattr(source, "compute")
