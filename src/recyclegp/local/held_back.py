"""Rows that are kept out of a fit, and found again in the same table: a hash of what is in a row decides.

    hash(row) = mix(Σ_j mix(x_j) + Σ_c mix'(y_c)) / 2⁶⁴        held back where hash(row) < share

The decision about a row depends on nothing but its cells: not on other rows, their order, the order of columns, or a
seed. So a table that has grown holds back the same rows, and a row that two owners have is held back by both. The share
is all that must be remembered; there is no key to keep and no list of rows.

Numbers count with 24 bits, so that those in single and in double precision are the same, and text that is a number
counts as one. Cells that are missing do not count.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from torch import Tensor

from ..arrays import CodedInputs, are_several
from ..errors import Argument, RecycleGPError
from .gaps import taken

BITS = 24  # of a number's mantissa, as many as single precision has
OF_INPUTS, OF_TARGETS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)  # so that x and y may be swapped


def check_share(given: Any) -> float | None:
    """The argument `hold_back`."""
    if given is None:
        return None
    number = isinstance(given, (int, float, np.number)) and not isinstance(given, bool)
    if not number or not 0 < float(given) < 1:
        raise RecycleGPError(Argument("hold_back", given), "; pass a share of the rows between 0 and 1, as 0.1")
    return float(given)


def is_held_back(X: Any, y: Any, share: float) -> np.ndarray:
    """(n,) bool  which rows are kept out: at least one, and not all."""
    hashes = _hashes(X, y)
    held: np.ndarray = hashes < share
    if not len(held):
        return held
    if not held.any():  # of a small table
        held = hashes <= hashes.min()
    if held.all():
        held = hashes < hashes.max()
    if not held.any():
        raise RecycleGPError(
            Argument("hold_back", share), f": all of the {len(held)} rows are equal, and none can be held back alone"
        )
    return held


def held_back_if_any(X: Any, y: Any, share: float) -> np.ndarray:
    """(n,) bool  the same, but of a small table perhaps none; never all."""
    held: np.ndarray = _hashes(X, y) < share
    return np.zeros_like(held) if held.all() else held


def _hashes(X: Any, y: Any) -> np.ndarray:
    """(n,) in [0, 1)"""
    try:
        of_inputs, of_targets = _summed(X, OF_INPUTS), _summed(y, OF_TARGETS)
    except (TypeError, ValueError):
        raise RecycleGPError("X and y cannot be read as tables; pass arrays, tensors or DataFrames") from None
    if of_inputs.shape != of_targets.shape:
        raise RecycleGPError(f"y has {of_targets.size} rows but X has {of_inputs.size}; pass one target per row")
    return np.asarray((_mixed(of_inputs + of_targets) >> np.uint64(11)).astype(np.float64) / 2.0**53)


def take(values: Any, chosen: np.ndarray) -> Any:
    """Some of the rows of whatever users pass in; as it is where it is one value, or not of these rows."""
    if values is None or not (isinstance(values, CodedInputs) or are_several(values)) or len(values) != len(chosen):
        return values
    return taken(values, np.flatnonzero(chosen))


def _summed(table: Any, salt: np.uint64) -> np.ndarray:
    """(n,) uint64  Σ mix over the cells of each row."""
    return np.asarray(np.sum([_mixed_cells(column, salt) for column in _columns(table)], axis=0, dtype=np.uint64))


def _columns(table: Any) -> list[np.ndarray]:
    """Of a table, an array or a list."""
    if isinstance(table, CodedInputs):
        table = table.categories.named(np.asarray(table.X))
    if hasattr(table, "columns") and hasattr(table, "to_numpy"):
        return [_array(table[c]) for c in table.columns]
    found = _array(table)
    return [found] if found.ndim == 1 else list(found.reshape(len(found), math.prod(found.shape[1:])).T)


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if np.ma.isMA(values):
        return np.ma.filled(values.astype(object), None)
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _mixed_cells(column: np.ndarray, salt: np.uint64) -> np.ndarray:
    """(n,) uint64  one for each cell; zero where it is missing."""
    if column.dtype.kind in "biuf":
        numbers, bits = column.astype(np.float64), np.zeros(len(column), dtype=np.uint64)
        seen = ~np.isnan(numbers)
        bits[seen] = _rounded(numbers[seen]).view(np.uint64)
    else:
        known: dict[Any, tuple[bool, int]] = {}
        cells = [known.get(cell) or known.setdefault(cell, _bits(cell)) for cell in map(_key, column.tolist())]
        seen = np.array([there for there, _ in cells], dtype=bool)
        bits = np.array([bits for _, bits in cells], dtype=np.uint64)
    return np.where(seen, _mixed(bits + salt), np.uint64(0))


def _key(cell: Any) -> Any:
    return cell if isinstance(cell, Hashable) else str(cell)


def _bits(cell: Any) -> tuple[bool, int]:
    """Of a cell that may be anything: whether it is there, and 64 bits that stand for it."""
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
            return False, 0
        digest = hashlib.blake2b(str(cell).strip().encode(errors="replace"), digest_size=8).digest()
        return True, int.from_bytes(digest, "little")
    return not math.isnan(number), int(_rounded(np.array([number])).view(np.uint64)[0])


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """To 24 bits; −0 is 0."""
    mantissa, exponent = np.frexp(numbers)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS) + 0.0)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit depends on every other."""
    h = values ^ (values >> np.uint64(30))
    h = h * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(h ^ (h >> np.uint64(31)))
