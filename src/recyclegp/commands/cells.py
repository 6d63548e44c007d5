"""Columns of a table as numbers, days, labels or the levels of categories."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from ..anonymity import ISO_DATE
from .tables import DAY_FIRST, DAY_FIRST_FORMAT, MISSING

TRUTHS = {word: truth for truth, words in enumerate((("0", "no", "false"), ("1", "yes", "true"))) for word in words}
COMMA = r"\s*[-+]?\d*,\d+\s*"  # a number as others write it
GROUPED = r"\s*[-+]?\d{1,3}(?:([,.'’ \u00a0\u202f])\d{3}(?:\1\d{3})*)(?:[.,]\d+)?\s*"  # 1,234,567 and 1.234,5
GAPS = r"[-\u2013\u2014.?*/]+|n[./]?\s?[adk]\.?|k\.\s?a\.|missing|unknown|none"  # may stand for a missing value


def as_text(column: pd.Series) -> pd.Series:
    """Values as text; a whole number is the same whether or not others of the column are missing."""
    if pd.api.types.is_float_dtype(column.dtype):
        whole = column.dropna()
        if bool((whole == whole.round()).all()):
            column = column.astype("Int64")
    text = column.astype("string").str.strip()
    return text.where(text != "", pd.NA)


def floats(column: pd.Series) -> tuple[np.ndarray, int | None]:
    """The column as float64, and where its first text is, if any."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # booleans are, too
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if column.dtype.kind in "Mm":  # dates would become nanoseconds
        numbers = np.full(len(column), np.nan)
    else:
        numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    text = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    return numbers, int(text[0]) if len(text) else None


def days(column: pd.Series) -> np.ndarray | None:
    """Dates as days since 1970-01-01; None if that is not what the column holds."""
    layout = None
    if column.dtype.kind != "M":
        cells = column.dropna().astype(str).str.strip()
        layouts = ((ISO_DATE, "ISO8601"), (DAY_FIRST, DAY_FIRST_FORMAT))
        layout = next((way for date, way in layouts if len(cells) and bool(cells.str.fullmatch(date).all())), None)
        if layout is None:
            return None
        column = column.where(column.isna(), column.astype(str).str.strip())
    moments = pd.to_datetime(column, utc=True, errors="coerce", format=layout)
    if layout == DAY_FIRST_FORMAT and bool((moments.isna() & column.notna()).any()):
        return None  # some month is above 12: these may be versions, or months written first
    found: np.ndarray = ((moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)
    return found


def labels(column: pd.Series) -> np.ndarray:
    """Classes as they are written, None where there is none; of numbers in Parquet 3.0 is 3, as the library has it."""
    from ..likelihoods.labels import label

    text = column.astype(str).str.strip()
    found = [None if there in MISSING else label(value) for value, there in zip(column, text, strict=True)]
    return np.array(found, dtype=object)


def truths(column: pd.Series) -> tuple[np.ndarray, int | None]:
    """1 for yes and 0 for no, NaN where there is nothing; and where the first cell is that is neither."""
    words = as_text(column).str.lower()
    found = words.map(TRUTHS).to_numpy(dtype=np.float64, na_value=np.nan)
    strange = np.flatnonzero(np.isnan(found) & words.notna().to_numpy() & ~words.isin(MISSING).to_numpy(dtype=bool))
    return found, int(strange[0]) if len(strange) else None


def holds_truths(column: pd.Series) -> bool:
    """Are there truth values in it?"""
    if column.dtype == object:
        return any(type(cell) is bool for cell in column)
    return bool(pd.api.types.is_bool_dtype(column.dtype))


def may_be_gap(text: str) -> bool:
    """Is it how some write that there is no value?"""
    return re.fullmatch(GAPS, text.strip(), flags=re.IGNORECASE) is not None
