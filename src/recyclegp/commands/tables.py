"""Tables on disk, read some rows at a time: CSV, Excel and Parquet, each with a reader of its own."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from ..anonymity import is_number
from ..errors import RecycleGPError
from .reading import DAY_FIRST, DAY_FIRST_FORMAT, MISSING, ReadAs, Reader
from .reading_excel import open_excel
from .reading_parquet import ParquetReader, column_names
from .reading_text import open_text
from .screen import Advance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DAY_FIRST", "DAY_FIRST_FORMAT", "MISSING", "ReadAs", "Table", "listed", "open_folder", "open_table"]

TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
STANDARD_INPUT = "-"
NAMES_SHOWN = 12  # column names in an error


@dataclass(frozen=True)
class Table:
    path: Path
    names: tuple[str, ...]
    reader: Reader
    codes: Mapping[str, str] = field(default_factory=dict)  # columns of numbers that look like codes, and why

    @property
    def size(self) -> float:
        """What `frames` counts up to."""
        return self.reader.size

    def frames(
        self, numbers: Sequence[str], advance: Advance, only: Sequence[str] | None = None
    ) -> Generator[pd.DataFrame]:
        """All columns, some rows at a time; those that are not meant as numbers exactly as they were written.

        `only` names the columns of interest: others may be missing. Who may stop on the way closes it: with `closing`.
        """
        return self.reader.frames(numbers, advance, self.names if only is None else only)

    def inputs(self, given: str | None, *others: str | None) -> list[str]:
        """The columns named (A,B,…), else all but the others: the target, and what says which rows belong together."""
        if given is not None:
            return listed(given, self.names)
        return [n for n in self.names if n not in others]

    def require(self, columns: Sequence[str]) -> None:
        absent = [c for c in columns if c not in self.names]
        if absent:
            there = ", ".join(self.names[:NAMES_SHOWN]) + (", …" if len(self.names) > NAMES_SHOWN else "")
            missing = "; is there no header line?" if all(map(is_number, self.names)) else ""
            raise RecycleGPError(f"{self.path}: no column {', '.join(map(repr, absent))}; there are {there}{missing}")


def listed(given: str, names: Sequence[str]) -> list[str]:
    """Column names separated by commas; a name that itself holds one can stand alone."""
    return [given] if given in names else [n.strip() for n in given.split(",") if n.strip()]


def open_folder(path: Path) -> Table:
    """A folder of Parquet files as one table, in the order of their names."""
    files = tuple(sorted(p for p in path.iterdir() if p.suffix.lower() in PARQUET))
    if not files:
        raise RecycleGPError(f"{path}: the folder holds no *{PARQUET[0]} files; save the table as some of them")
    first = open_table(files[0])
    for file in files[1:]:
        names = open_table(file).names
        if set(names) != set(first.names):
            raise RecycleGPError(
                f"{file}: it has the columns {', '.join(names)}, and {files[0].name} has {', '.join(first.names)}; "
                "files of one table have the same columns"
            )
    return Table(path, first.names, ParquetReader(files))


def open_table(path: str | Path, how: ReadAs = ReadAs()) -> Table:  # noqa: B008  # a value that never changes
    """Find out which columns a table has and how to read it; - is standard input."""
    how.check()
    if str(path) == STANDARD_INPUT:
        return _piped(typer.get_binary_stream("stdin"), how)
    path = Path(path)
    size = path.stat().st_size  # FileNotFoundError names the file
    suffixes = [s.lower() for s in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    text = last in TEXT or suffixes[-2:] in [[t, ".gz"] for t in TEXT]
    if path.is_dir() or (last not in (*PARQUET, *EXCEL) and not text):
        raise RecycleGPError(f"{path}: not a table this command reads; save it as .csv, .csv.gz, .xlsx or .parquet")
    if size == 0:
        raise RecycleGPError(f"{path}: the file is empty; it needs a header line and rows")
    if not text and how.encoding is not None:
        raise RecycleGPError(f"--encoding {how.encoding}: it is for tables in CSV; leave it out")
    if last not in EXCEL and how.sheet is not None:
        raise RecycleGPError(f"--sheet {how.sheet}: it is for tables in Excel files; leave it out")
    if last in EXCEL:
        reader = open_excel(path, how)
        return _with_columns(path, reader.names, reader)
    if last in PARQUET:
        return _with_columns(path, column_names(path), ParquetReader((path,)))
    return _of_text(path, how)


def _piped(stream: BinaryIO, how: ReadAs) -> Table:
    """A CSV table that comes through a pipe: all of it is held in memory, because it is read twice."""
    path = Path("standard input")  # for messages
    if stream.isatty():
        raise RecycleGPError("-: standard input is a terminal; pipe a table into the command, or name a file")
    content = stream.read()
    if not content:
        raise RecycleGPError(f"{path}: it is empty; it needs a header line and rows")
    return _of_text(path, how, content)


def _of_text(path: Path, how: ReadAs, content: bytes | None = None) -> Table:
    reader, codes = open_text(path, how, content)
    return _with_columns(path, reader.names, reader, codes)


def _with_columns(path: Path, names: Sequence[str], reader: Reader, codes: Mapping[str, str] | None = None) -> Table:
    if len(set(names)) < len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise RecycleGPError(f"{path}: column names repeat ({', '.join(map(repr, twice))}); rename them")
    return Table(path, tuple(names), reader, codes or {})
