"""Tables in workbooks of spreadsheets: .xlsx, one sheet with a header line, whose cells are values."""

from __future__ import annotations

import datetime
import itertools
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RecycleGPError
from ..extras import install
from . import reading
from .reading import MISSING, ReadAs, with_commas
from .screen import Advance

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]  # of cells; None where one is empty


@dataclass(frozen=True)
class ExcelReader:
    path: Path
    sheet: str
    names: tuple[str, ...]
    decimal: str

    counts_rows = False  # blank lines, too

    @property
    def size(self) -> float:
        with _workbook(self.path) as book:
            return float(book[self.sheet].max_row or 0)

    def frames(self, numbers: Sequence[str], advance: Advance, only: Sequence[str]) -> Generator[pd.DataFrame]:
        import pandas as pd

        with _workbook(self.path) as book:
            rows = _rows(book[self.sheet])
            next(rows)  # the header
            while some := list(itertools.islice(rows, reading.ROWS_AT_ONCE)):
                advance(by=len(some))
                table = [self._row(row) for row in some]
                frame = pd.DataFrame(dict(zip(self.names, zip(*table, strict=True), strict=True)), dtype=object)
                frame = frame.assign(**{n: _written(frame[n]) for n in self.names if n not in numbers})
                frame = frame.assign(**{n: _numbers(frame[n]) for n in numbers})
                yield with_commas(self.path, frame, numbers) if self.decimal == "," else frame

    def _row(self, row: Row) -> Row:
        width = len(self.names)
        if any(cell is not None for cell in row[width:]):
            raise RecycleGPError(
                f"{self.path}: sheet {self.sheet!r} has cells beside its {width} columns, where there is no name; name "
                "those columns, or take them away"
            )
        return (*row[:width], *[None] * (width - len(row)))


def open_excel(path: Path, how: ReadAs) -> ExcelReader:
    with _workbook(path) as book:
        sheet = _chosen(path, book, how.sheet)
        header = list(next(_rows(book[sheet]), ()))
    while header and header[-1] is None:
        header.pop()
    if not header:
        raise RecycleGPError(f"{path}: sheet {sheet!r} is empty; it needs a header line and rows")
    names = tuple("" if cell is None else str(_text(cell)).strip() for cell in header)
    return ExcelReader(path, sheet, names, how.decimal)


def _chosen(path: Path, book: Any, wanted: str | None) -> str:
    """The sheet that is meant: the one that is named, or the only one with something in it."""
    known = [sheet.title for sheet in book.worksheets]
    if wanted is not None:
        if wanted not in known:
            raise RecycleGPError(f"--sheet {wanted}: {path} has the sheets {', '.join(known)}")
        return wanted
    full = [sheet.title for sheet in book.worksheets if next(_rows(sheet), None) is not None]
    if len(full) > 1:
        raise RecycleGPError(f"{path}: it has the sheets {', '.join(full)}; say which with --sheet {full[0]}")
    if not full:
        raise RecycleGPError(f"{path}: it is empty; it needs a header line and rows")
    return full[0]


@contextmanager
def _workbook(path: Path) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError:
        raise RecycleGPError(f"{path}: reading Excel files needs openpyxl; {install('excel')}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and other things that are no values
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except FileNotFoundError:
        raise
    except Exception:  # whatever zipfile, XML or openpyxl find wrong
        raise RecycleGPError(
            f"{path}: not a workbook that can be read (.xlsx, complete, without a password); save it again, or as CSV"
        ) from None
    try:
        yield book
    finally:
        book.close()


def _rows(sheet: Any) -> Iterator[Row]:
    """All that are not empty."""
    return (row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row))


# --- cells ------------------------------------------------------------------------------------


def _text(cell: Any) -> Any:
    """A date as text, as a table in CSV has it; everything else as it is."""
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else cell


def _written(column: pd.Series) -> list[str]:
    """As text: a whole number without a point."""

    def text(cell: Any) -> str:
        if cell is None:
            return ""
        whole = isinstance(cell, float) and cell.is_integer()
        return str(int(cell) if whole else _text(cell)).strip()

    return [text(cell) for cell in column]


def _numbers(column: pd.Series) -> Any:
    """As float64 where all of it is numbers; text among them stays, to be complained of."""
    import numpy as np
    import pandas as pd

    cells = [np.nan if c is None or (isinstance(c, str) and c.strip() in MISSING) else _text(c) for c in column]
    plain = all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in cells)
    return pd.Series(cells, dtype=np.float64 if plain else object)
