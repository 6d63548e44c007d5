"""Tables on disk, CSV and Parquet, read some rows at a time."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from ..errors import RecycleGPError
from .screen import Advance

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 65_536  # held in memory
TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None"]
DECIMALS = (".", ",")
COMMA_NUMBER = re.compile(r"\s*[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?\s*")
POINT_NUMBER = re.compile(r"\s*[-+]?[\d.]*\.[\d.]*(,\d*)?([eE][-+]?\d+)?\s*")
DAY_FIRST = r"\d{1,2}\.\d{1,2}\.\d{4}"  # a date, as 31.12.2025
DAY_FIRST_FORMAT = "%d.%m.%Y"
STANDARD_INPUT = "-"
GZIP = b"\x1f\x8b"  # how such files begin
NAMES_SHOWN = 12  # column names in an error


@dataclass(frozen=True)
class Table:
    path: Path
    names: tuple[str, ...]
    delimiter: str | None  # None for Parquet
    files: tuple[Path, ...] = ()  # of a folder, whose rows follow each other; none for a single file
    decimal: str = "."  # mark of numbers in text
    content: bytes | None = None  # of a table that is no file, but came through a pipe

    @property
    def size(self) -> float:
        """What `frames` counts up to: bytes of a CSV file, rows of Parquet files."""
        if self.content is not None:
            return len(self.content)
        if self.delimiter is not None:
            return os.path.getsize(self.path)
        return sum(_parquet(path).metadata.num_rows for path in self.files or (self.path,))

    def frames(
        self, numbers: Sequence[str], advance: Advance, only: Sequence[str] | None = None
    ) -> Generator[pd.DataFrame]:
        """All columns, some rows at a time; those that are not meant as numbers exactly as they were written.

        `only` names the columns of interest: others may be missing. Who may stop on the way closes it: with `closing`.
        """
        if self.delimiter is not None:
            return _csv_frames(self, numbers, advance)
        return _parquet_frames(self, advance, self.names if only is None else only)

    def inputs(self, given: str | None, *others: str | None) -> list[str]:
        """The columns named (A,B,…), else all but the others: the target, and what says which rows belong together."""
        if given is not None:
            return listed(given, self.names)
        return [n for n in self.names if n not in others]

    def require(self, columns: Sequence[str]) -> None:
        absent = [c for c in columns if c not in self.names]
        if absent:
            there = ", ".join(self.names[:NAMES_SHOWN]) + (", …" if len(self.names) > NAMES_SHOWN else "")
            raise RecycleGPError(f"{self.path}: no column {', '.join(map(repr, absent))}; there are {there}")


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
    return Table(path, first.names, None, files)


def open_table(path: str | Path, decimal: str = ".") -> Table:
    """Find out which columns a table has and how to read it; - is standard input."""
    if decimal not in DECIMALS:
        raise RecycleGPError(f"--decimal {decimal}: use . or ,")
    if str(path) == STANDARD_INPUT:
        return _piped(typer.get_binary_stream("stdin"), decimal)
    path = Path(path)
    size = path.stat().st_size  # FileNotFoundError names the file
    suffixes = [s.lower() for s in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if path.is_dir() or (last not in (*TEXT, *PARQUET) and suffixes[-2:] not in [[t, ".gz"] for t in TEXT]):
        raise RecycleGPError(f"{path}: not a table this command reads; save it as .csv, .csv.gz or .parquet")
    if size == 0:
        raise RecycleGPError(f"{path}: the file is empty; it needs a header line and rows")
    if last not in PARQUET:
        return _with_columns(path, *_csv_header(path, None, decimal), decimal=decimal)
    names = [n for n in _parquet(path).schema_arrow.names if not n.startswith("__index_level_")]
    return _with_columns(path, names, None)


def _piped(stream: BinaryIO, decimal: str) -> Table:
    """A CSV table that comes through a pipe: all of it is held in memory, because it is read twice."""
    path = Path("standard input")  # for messages
    if stream.isatty():
        raise RecycleGPError("-: standard input is a terminal; pipe a table into the command, or name a file")
    content = stream.read()
    if not content:
        raise RecycleGPError(f"{path}: it is empty; it needs a header line and rows")
    return _with_columns(path, *_csv_header(path, content, decimal), decimal=decimal, content=content)


def _with_columns(path: Path, names: Sequence[str], delimiter: str | None, **how: Any) -> Table:
    if len(set(names)) < len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise RecycleGPError(f"{path}: column names repeat ({', '.join(map(repr, twice))}); rename them")
    return Table(path, tuple(names), delimiter, **how)


# --- CSV --------------------------------------------------------------------------------------


def _opened(path: Path, content: bytes | None) -> BinaryIO:
    return open(path, "rb") if content is None else io.BytesIO(content)


def _zipped(path: Path, content: bytes | None) -> bool:
    return path.suffix.lower() == ".gz" if content is None else content[:2] == GZIP


def _csv_header(path: Path, content: bytes | None, decimal: str) -> tuple[list[str], str]:
    try:
        with _opened(path, content) as raw:
            plain = gzip.GzipFile(fileobj=raw) if _zipped(path, content) else raw
            stream = io.TextIOWrapper(plain, encoding="utf-8-sig", newline="")
            first = stream.readline()
            while first and not first.strip():
                first = stream.readline()
            if "\0" in first + stream.read(4096):
                raise ValueError
    except (ValueError, EOFError, gzip.BadGzipFile):
        raise RecycleGPError(f"{path}: not a text table in UTF-8; save it as CSV in UTF-8") from None
    if decimal == ",":
        delimiter = next((d for d in ";\t" if d in first), ";")
        if delimiter not in first and "," in first:
            raise RecycleGPError(
                f"{path}: with --decimal , columns are separated by semicolons or tabs, and the header has commas; "
                "leave the option out, or save the table so"
            )
    else:
        delimiter = "," if "," in first else next((d for d in "\t;" if d in first), ",")
    names = next(csv.reader([first], delimiter=delimiter, skipinitialspace=True), [])
    return [n.strip() for n in names], delimiter


def _csv_frames(table: Table, numbers: Sequence[str], advance: Advance) -> Generator[pd.DataFrame]:
    import pandas as pd

    options: dict[str, Any] = {
        "sep": table.delimiter,
        "header": 0,
        "names": list(table.names),
        "index_col": False,
        "dtype": {n: str for n in table.names if n not in numbers},
        "keep_default_na": False,
        "na_values": {n: MISSING for n in numbers},
        "skipinitialspace": True,
        "encoding": "utf-8-sig",
        "compression": "gzip" if _zipped(table.path, table.content) else None,
        "decimal": table.decimal,
        "chunksize": ROWS_AT_ONCE,
    }
    with _opened(table.path, table.content) as stream, warnings.catch_warnings():
        # Rows longer than the header would be cut without an error. A column that is partly text is looked at later.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        try:
            with pd.read_csv(stream, **options) as frames:
                for frame in frames:
                    advance(to=stream.tell())
                    yield _with_commas(table, frame, numbers) if table.decimal == "," else frame
        except pd.errors.ParserWarning:
            raise RecycleGPError(
                f"{table.path}: rows have more fields than the {len(table.names)} names in the header; "
                "are there decimal commas?"
            ) from None
        except (pd.errors.ParserError, UnicodeError, EOFError, gzip.BadGzipFile) as error:
            said = str(error).replace("Error tokenizing data. C error: ", "")
            raise RecycleGPError(f"{table.path}: not a table in CSV ({said.strip()})") from None


def _with_commas(table: Table, frame: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Columns that hold text as well are left as text: their numbers are made of it here."""

    def value(name: str, cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        if POINT_NUMBER.fullmatch(cell) and not re.fullmatch(DAY_FIRST, cell.strip()):
            raise RecycleGPError(
                f"{table.path}: column {name!r} holds {cell.strip()!r}, with a point, beside --decimal ,; is it a "
                "decimal point, or one between thousands? Save the table with decimal commas alone"
            )
        return float(cell.replace(",", ".")) if COMMA_NUMBER.fullmatch(cell) else cell

    mixed = [n for n in numbers if frame[n].dtype.kind not in "biuf"]
    return frame.assign(**{n: [value(n, cell) for cell in frame[n]] for n in mixed}) if mixed else frame


# --- Parquet ----------------------------------------------------------------------------------


def _parquet(path: Path) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise RecycleGPError(f"{path}: reading Parquet needs pyarrow; pip install pyarrow") from None
    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise RecycleGPError(f"{path}: not a complete Parquet file ({error})") from None


def _parquet_frames(table: Table, advance: Advance, columns: Sequence[str]) -> Generator[pd.DataFrame]:
    for path in table.files or (table.path,):
        with _parquet(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=list(columns)):
                advance(by=batch.num_rows)
                yield batch.to_pandas(ignore_metadata=True)
