"""The door: what users pass in becomes float64 tensors here, once, or an error that names the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from .devices import device_of
from .errors import RecycleGPError

Columns = tuple[str, ...] | None
LARGEST = 1e100  # beyond it squares overflow
MOST_POINTS = 4096  # that may be asked for by number: their kernel matrix and its factor are 256 MiB
MOST_GIVEN = 16384  # that may be given


class Inputs(NamedTuple):
    X: Tensor  # (n, D) float64
    columns: Columns


def inputs(X: Any, argument: str = "X", *, device: Any = None) -> Inputs:
    """An (n, D) array, tensor, DataFrame, or (n,) array of one column."""
    columns = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        columns = tuple(str(c) for c in X.columns)
        if len(set(columns)) < len(columns):
            raise RecycleGPError(f"{argument}: column names repeat ({', '.join(columns)}); rename them")
    tensor = as_tensor(X, argument, device)
    if tensor.ndim == 1:
        tensor = tensor[:, None]
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise RecycleGPError(f"{argument} has shape {tuple(tensor.shape)}; it must be (n, D) with D ≥ 1")
    return Inputs(tensor, columns)


def named_columns(names: Any, dimension: int) -> Columns:
    """Names for the columns of an array, in their order."""
    if isinstance(names, str) or not all(isinstance(n, str) for n in names):
        raise RecycleGPError(f"columns={names!r}; pass one name for each of the {dimension} input columns")
    found = tuple(names)
    if len(found) != dimension or len(set(found)) < dimension:
        raise RecycleGPError(
            f"columns has {len(found)} names ({', '.join(found)}) for {dimension} input columns; pass one each, all "
            "different"
        )
    return found


def aligned(X: Any, dimension: int, columns: Columns, argument: str = "X", *, device: Any = None) -> Tensor:
    """Inputs for a model of `dimension` columns; a DataFrame is matched by name."""
    if columns is not None and hasattr(X, "columns"):
        found = {str(c): c for c in X.columns}
        if len(found) < len(X.columns):
            raise RecycleGPError(f"{argument}: column names repeat ({', '.join(map(str, X.columns))}); rename them")
        missing = [c for c in columns if c not in found]
        if missing:
            raise RecycleGPError(
                f"{argument} lacks the columns {', '.join(missing)}; the model was fitted on {', '.join(columns)}"
            )
        X = X[[found[c] for c in columns]]
    tensor = inputs(X, argument, device=device).X
    if tensor.shape[1] != dimension:
        raise RecycleGPError(
            f"{argument} has shape {tuple(tensor.shape)}, but the model has {dimension} input "
            f"column{'s' if dimension > 1 else ''}; pass an array of shape (n, {dimension})"
        )
    return tensor


def targets(y: Any, rows: int, argument: str = "y", *, device: Any = None) -> Tensor:
    """One number per row, as (n,) or (n, 1)."""
    tensor = as_tensor(y, argument, device)
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1 or len(tensor) != rows:
        raise RecycleGPError(
            f"{argument} has shape {tuple(tensor.shape)} but X has {rows} row{'s' * (rows != 1)}; "
            f"pass one target per row, shape ({rows},)"
        )
    return tensor


def seed(value: Any) -> int:
    """A whole number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise RecycleGPError(f"seed={value!r}; pass a whole number of at least 0")
    return int(value)


def number(value: Any, argument: str, *, positive: bool = False) -> float:
    """One finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, (str, bool)) or not abs(found) <= LARGEST or (positive and not found >= 1 / LARGEST):
        raise RecycleGPError(f"{argument}={value!r}; pass a {'positive' if positive else 'finite'} number")
    return found


def are_several(value: Any) -> bool:
    """Is it a sequence, array, tensor or column, rather than one value?"""
    return (
        value is not None and not isinstance(value, str) and getattr(value, "ndim", int(hasattr(value, "__len__"))) > 0
    )


def variances(value: Any, rows: int, argument: str = "noise", *, device: Any = None) -> Tensor:
    """One positive number per row, as (n,) or (n, 1)."""
    tensor = as_tensor(value, argument, device).detach()
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1 or len(tensor) != rows:
        raise RecycleGPError(
            f"{argument} has shape {tuple(tensor.shape)} but X has {rows} row{'s' * (rows != 1)}; "
            f"pass one variance for all rows, or one per row, shape ({rows},)"
        )
    bad = int((~(tensor >= 1 / LARGEST)).sum())
    if bad:
        raise RecycleGPError(
            f"{argument}: {bad} of {rows} variances are not positive; pass the squares of measurement errors, and "
            "leave rows out whose error is not known"
        )
    return tensor


def as_tensor(value: Any, argument: str, device: Any) -> Tensor:
    if value is None:
        raise RecycleGPError(f"{argument} is None; pass an array, tensor or DataFrame of numbers")
    if device is not None:
        device = device_of(device)
    if isinstance(value, Tensor):
        if value.is_complex() or value.layout != torch.strided:
            raise RecycleGPError(f"{argument} is complex or sparse; pass a dense tensor of real numbers")
        tensor = value.to(dtype=torch.float64, device=device).contiguous()
    else:
        if hasattr(value, "to_numpy"):
            value = value.to_numpy()
        try:
            array = np.ma.filled(value.astype(float), np.nan) if np.ma.isMA(value) else np.asarray(value)
            if array.dtype.kind in "cMm":
                raise ValueError
            tensor = torch.tensor(array.astype(np.float64, order="C"), dtype=torch.float64, device=device)
        except (ValueError, TypeError, OverflowError):
            raise RecycleGPError(
                f"{argument} cannot be read as numbers; encode text, dates and categories as numeric columns"
            ) from None
    largest = float(tensor.detach().abs().max()) if tensor.numel() else 0.0
    if not (largest == 0 or 1 / LARGEST <= largest <= LARGEST):  # also where it is NaN
        _say_what_is_wrong(tensor.detach(), argument, largest)
    return tensor


def with_missing(value: Any, argument: str, device: Any) -> Tensor:
    """Numbers of which some may be missing: NaN where they are."""
    numbers = value.to_numpy(dtype=float, na_value=np.nan) if hasattr(value, "to_numpy") else value
    tensor = numbers.detach().to(torch.float64) if isinstance(numbers, Tensor) else None
    if tensor is None:
        try:
            tensor = torch.tensor(np.asarray(numbers, dtype=np.float64))
        except (ValueError, TypeError):
            raise RecycleGPError(f"{argument} cannot be read as numbers; encode text as numeric columns") from None
    seen = ~torch.isnan(tensor)
    as_tensor(tensor[seen], argument, device)  # complains of infinite and of huge numbers
    return tensor if device is None else tensor.to(device_of(device))


def side_by_side(values: Sequence[Any]) -> Tensor | None:
    """Plain NumPy arrays of float64 and of one shape as one tensor, if all their numbers are ordinary; else None."""
    first = values[0]
    if not all(type(v) is np.ndarray and v.dtype == np.float64 and v.shape == first.shape for v in values):
        return None
    whole = torch.from_numpy(np.stack(values))
    size = whole.abs().flatten(1).amax(-1) if whole.ndim > 1 and whole.numel() else whole.new_zeros(1)
    return whole if bool(((size == 0) | ((size >= 1 / LARGEST) & (size <= LARGEST))).all()) else None


def _say_what_is_wrong(tensor: Tensor, argument: str, largest: float) -> NoReturn:
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise RecycleGPError(f"{argument} holds {bad} NaN or infinite values; drop or fill those rows first")
    raise RecycleGPError(f"{argument} holds values of size {largest:g}, whose squares overflow or vanish; rescale it")


def like(X: Any, result: Tensor) -> Any:
    """NumPy in → NumPy out; tensors in → tensors out, in X's own floating type."""
    if isinstance(X, Tensor):
        return result.to(X.device, X.dtype if X.is_floating_point() else torch.float64)
    return result.detach().cpu().numpy()


def own(tensor: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """A private copy there, laid out as a file would bring it back (layout decides rounding)."""
    return tensor.detach().to(device).clone(memory_format=torch.contiguous_format)


def frozen(tensor: Tensor) -> np.ndarray:
    """A read-only NumPy copy: what is inside an object is never handed out writable."""
    array = tensor.detach().cpu().numpy().copy()
    array.flags.writeable = False
    return array


def count_or_points(value: Any, argument: str, dimension: int, columns: Columns, device: Any) -> int | Tensor:
    """A positive number of points, or the points themselves (distinct rows)."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if value < 1:
            raise RecycleGPError(f"{argument}={value}; pass a positive number of points")
        if value > MOST_POINTS:
            raise RecycleGPError(f"{argument}={value}; pass at most {MOST_POINTS:,} points")
        return int(value)
    if isinstance(value, (str, bool, float)):
        raise RecycleGPError(f"{argument}={value!r}; pass a number of points, or points of shape (M, {dimension})")
    points = aligned(value, dimension, columns, argument, device=device)
    if len(points) == 0:
        raise RecycleGPError(f"{argument} has no points; pass at least one")
    if len(points) > MOST_GIVEN:
        raise RecycleGPError(f"{argument} has {len(points)} points; pass at most {MOST_GIVEN:,}")
    return torch.unique(points, dim=0) if len(torch.unique(points, dim=0)) < len(points) else points


def common_columns(columns: Sequence[Columns], names: Sequence[str]) -> Columns:
    """The column names of models that are to be merged: the same set, or not given."""
    known = [(c, n) for c, n in zip(columns, names, strict=True) if c is not None]
    if not known:
        return None
    first, owner = known[0]
    for other, name in known[1:]:
        if set(other) != set(first):
            raise RecycleGPError(
                f"modules {owner!r} and {name!r} have different columns ({', '.join(first)} against "
                f"{', '.join(other)}); fit them on the same ones"
            )
    return first
