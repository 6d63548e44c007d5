"""Rows of a table by a column: one group for each value, or four for a column of many numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ..errors import RecycleGPError
from .tables import MISSING

MOST = 20  # values that are groups of their own
QUARTERS = 4


class Group(NamedTuple):
    name: str
    rows: np.ndarray  # positions


def groups(values: pd.Series, column: str) -> list[Group]:
    """In the order of numbers, or of letters; rows without a value come last."""
    text = values.astype(object).where(values.notna(), "").map(str).str.strip()
    absent = (values.isna() | text.isin(MISSING)).to_numpy()
    numbers = pd.to_numeric(text.where(~absent), errors="coerce")
    numeric = bool((numbers.notna() | absent).all())
    keys = numbers if numeric else text
    known = sorted(keys[~absent].unique())
    if len(known) <= MOST:
        names = [f"{value:g}" if numeric else str(value) for value in known]
        found = [Group(n, np.flatnonzero((keys == v) & ~absent)) for n, v in zip(names, known, strict=True)]
    elif numeric:
        found = _quarters(numbers.to_numpy(dtype=float), absent)
    else:
        raise RecycleGPError(
            f"--by {column}: it holds {len(known)} different texts, as {known[0]!r}; name a column with at most {MOST}"
        )
    return [*found, *([Group("(missing)", np.flatnonzero(absent))] if absent.any() else [])]


def _quarters(numbers: np.ndarray, absent: np.ndarray) -> list[Group]:
    """As many rows in each, as far as equal numbers stay together."""
    edges = np.unique(np.quantile(numbers[~absent], np.linspace(0, 1, QUARTERS + 1)))
    at = np.clip(np.searchsorted(edges, numbers, side="left"), 1, len(edges) - 1)
    return [
        Group(f"{edges[k - 1]:.4g} to {edges[k]:.4g}", np.flatnonzero((at == k) & ~absent))
        for k in range(1, len(edges))
    ]
