"""What the readers of tables share: how a table is to be read, and what its cells may look like."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import RecycleGPError
from .screen import Advance

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 65_536  # held in memory
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None"]
DECIMALS = (".", ",")
COMMA_NUMBER = re.compile(r"\s*[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?\s*")
POINT_NUMBER = re.compile(r"\s*[-+]?[\d.]*\.[\d.]*(,\d*)?([eE][-+]?\d+)?\s*")
DAY_FIRST = r"\d{1,2}\.\d{1,2}\.\d{4}"  # a date, as 31.12.2025
DAY_FIRST_FORMAT = "%d.%m.%Y"


class ReadAs(NamedTuple):
    """What somebody says of a table, as options have it."""

    decimal: str = "."  # the mark of numbers in text
    encoding: str | None = None  # of text; found out where it is not said
    sheet: str | None = None  # of a workbook; the only one where it is not said

    def check(self) -> None:
        if self.decimal not in DECIMALS:
            raise RecycleGPError(f"--decimal {self.decimal}: use . or ,")


class Reader(Protocol):
    """A kind of file, opened as far as its columns are known."""

    @property
    def size(self) -> float:
        """What `frames` counts up to: bytes of text, else rows."""
        ...

    @property
    def counts_rows(self) -> bool:
        """Is the size a number of rows?"""
        ...

    def frames(self, numbers: Sequence[str], advance: Advance, only: Sequence[str]) -> Generator[pd.DataFrame]:
        """Columns, some rows at a time; those that are not meant as numbers exactly as they were written."""
        ...


def with_commas(path: Path, frame: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Columns that hold text as well are left as text: their numbers are made of it here."""

    def value(name: str, cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        if POINT_NUMBER.fullmatch(cell) and not re.fullmatch(DAY_FIRST, cell.strip()):
            raise RecycleGPError(
                f"{path}: column {name!r} holds {cell.strip()!r}, with a point, beside --decimal ,; is it a "
                "decimal point, or one between thousands? Save the table with decimal commas alone"
            )
        return float(cell.replace(",", ".")) if COMMA_NUMBER.fullmatch(cell) else cell

    mixed = [n for n in numbers if frame[n].dtype.kind not in "biuf"]
    return frame.assign(**{n: [value(n, cell) for cell in frame[n]] for n in mixed}) if mixed else frame
