"""Checked once: what users pass in becomes float64 tensors here, or an error that names the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .anonymity import LevelGuard, warn_of_record_numbers
from .categories import NO_CATEGORIES, Categories, Levels, described
from .devices import device_of
from .errors import Argument, RecycleGPError
from .levels import Kind, coded, is_categorical, kind_of, levels_by_name
from .magnitudes import LARGEST as LARGEST

Array: TypeAlias = Any  # what users pass in and get back: array, tensor, DataFrame, or lists that NumPy reads
CountOrPoints: TypeAlias = Any  # a number of points, or the points themselves as an Array
PerColumn: TypeAlias = Any  # one number for each input column, or {column: number}
PerOutput: TypeAlias = Any  # one value for all outputs, one for each, or {output: value}
Columns = tuple[str, ...] | None
MOST_POINTS = 4096  # that may be asked for by number: their kernel matrix and its factor are 256 MiB
MOST_GIVEN = 16384  # that may be given


class Inputs(NamedTuple):
    X: Tensor  # (n, D) float64; levels of categories as their codes
    columns: Columns
    categories: Categories = NO_CATEGORIES


@dataclass(frozen=True)
class CodedInputs:
    """Inputs in which levels are codes already, for those inside: those of the model that is asked, or these."""

    X: Any  # (n, D) array or tensor
    columns: Columns = None
    categories: Categories = NO_CATEGORIES

    def __len__(self) -> int:  # of the rows
        return len(self.X)

    def __getitem__(self, chosen: Any) -> CodedInputs:
        """Some of the rows."""
        return replace(self, X=self.X[chosen])


def inputs(
    X: Any, argument: str = "X", *, device: Any = None, names: Any = None, guard: LevelGuard | None = None
) -> Inputs:
    """An (n, D) array, tensor, DataFrame, or (n,) array of one column; text, categoricals and truths are levels.

    `names` are those of the columns, where it is an array; `guard` sees to it that rows to be fitted name nobody.
    """
    if isinstance(X, CodedInputs):
        tensor = _two_axes(as_tensor(X.X, argument, device), argument)
        return Inputs(tensor, _names(names, tensor.shape[1], X.columns), X.categories)
    columns: Columns = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        columns = tuple(str(c) for c in X.columns)
        if len(set(columns)) < len(columns):
            raise RecycleGPError(f"{argument}: column names repeat ({', '.join(columns)}); rename them")
    parts, categories = _parts(X), NO_CATEGORIES
    if parts is None:
        tensor = _two_axes(as_tensor(X, argument, device), argument)
        columns = _names(names, tensor.shape[1], columns)
    else:
        columns = _names(names, len(parts), columns)
        tensor, categories = _read(parts, columns, None, argument, device, guard)
    if guard is not None:
        _check_named(guard, columns, categories, tensor.shape[1])
        warn_of_record_numbers(tensor.detach(), columns, categories.columns)
    return Inputs(tensor, columns, categories)


def _names(given: Any, dimension: int, own: Columns) -> Columns:
    return own if given is None else named_columns(given, dimension)


def _check_named(guard: LevelGuard, columns: Columns, categories: Categories, dimension: int) -> None:
    """Are the columns that somebody has named as categories there, and do they hold levels?"""
    places = {c: c for c in range(dimension)} | {c: i for i, c in enumerate(columns or ())}
    for column in guard.named:
        if column not in places:
            said = ", ".join(columns) if columns else f"{dimension}, without names"
            raise RecycleGPError(Argument("categories", [column]), f": there is no such column; there are {said}")
        if places[column] not in categories.columns:
            raise RecycleGPError(
                Argument("categories", [column]), f": it holds numbers; pass it as text, as X[{column!r}].astype(str)"
            )


def holds_categories(X: Any) -> bool:
    """Is some column of a table or array neither numbers nor dates?"""
    return any(kind_of(part) is Kind.LEVELS for part in _parts(X) or ())


def _parts(X: Any) -> list[Any] | None:
    """The columns of a table or array one by one, where some may not hold numbers; None where all do."""
    if isinstance(X, Tensor):
        return None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        types = list(X.dtypes)
        numeric = all(getattr(t, "kind", "") in tuple("iufc") or _numeric(t) for t in types)
        return None if numeric else [X[c] for c in X.columns]
    if hasattr(X, "to_numpy"):  # a Series
        return None if getattr(X.dtype, "kind", "") in tuple("iufc") or _numeric(X.dtype) else [X]
    try:
        array = np.asarray(X)
    except ValueError:
        return None
    if array.dtype.kind not in tuple("OU") or np.ma.isMA(X) or array.ndim not in (1, 2) or not array.size:
        return None
    return [array] if array.ndim == 1 else list(array.T)


def _numeric(dtype: Any) -> bool:
    """As polars says it."""
    return bool(dtype.is_numeric()) if hasattr(dtype, "is_numeric") else False


def _read(
    parts: Sequence[Any],
    columns: Columns,
    known: Categories | None,
    argument: str,
    device: Any,
    guard: LevelGuard | None = None,
) -> tuple[Tensor, Categories]:
    """Columns as numbers and codes. What a column holds is known from a model, or seen from its type or its cells."""
    found, levels = np.empty((len(parts[0]), len(parts))), []
    for j, part in enumerate(parts):
        kind, what = kind_of(part), f"{argument}: {_said(j, columns)}"
        if kind is Kind.DATES:
            raise RecycleGPError(
                f"{what} holds dates; pass numbers instead, as days: (X[column] - pd.Timestamp('1970-01-01')) / "
                "pd.Timedelta(days=1)"
            )
        if kind is Kind.LEVELS if known is None else j in known.columns:
            texts = levels_by_name(part, what)
            if guard is not None:
                name = str(j) if columns is None else columns[j]
                texts = guard.checked(texts, j, name, what, may_be_numbers=is_categorical(part))
            found[:, j], names = coded(texts, () if known is None else known.names(j))
            levels.append(Levels(j, names))
            continue
        try:
            found[:, j] = _floats(part.to_numpy() if hasattr(part, "to_numpy") else part)
        except (ValueError, TypeError, OverflowError):
            said = "" if known is None else ", which are what the model has there"
            raise RecycleGPError(
                f"{what} cannot be read as numbers{said}; pass numbers, or fit the model to text, which are categories"
            ) from None
    return as_tensor(found, argument, device, columns or ()), Categories(tuple(levels))


def _said(column: int, columns: Columns) -> str:
    return f"column {column}" if columns is None else f"column {columns[column]!r}"


def _two_axes(tensor: Tensor, argument: str) -> Tensor:
    if tensor.ndim == 1:
        tensor = tensor[:, None]
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise RecycleGPError(f"{argument} has shape {tuple(tensor.shape)}; it must be (n, D) with D ≥ 1")
    return tensor


def named_columns(names: Any, dimension: int) -> Columns:
    """Names for the columns of an array, in their order."""
    if isinstance(names, str) or not all(isinstance(n, str) for n in names):
        raise RecycleGPError(Argument("columns", names), f"; pass one name for each of the {dimension} input columns")
    found = tuple(names)
    if len(found) != dimension or len(set(found)) < dimension:
        raise RecycleGPError(
            f"columns has {len(found)} names ({', '.join(found)}) for {dimension} input columns; pass one each, all "
            "different"
        )
    return found


def aligned(X: Any, dimension: int, columns: Columns, argument: str = "X", *, device: Any = None) -> Tensor:
    """Inputs for a model of `dimension` columns of numbers; a DataFrame is matched by name."""
    return matched(X, dimension, columns, NO_CATEGORIES, argument, device=device).X


def matched(
    X: Any,
    dimension: int,
    columns: Columns,
    categories: Categories,
    argument: str = "X",
    *,
    device: Any = None,
    guard: LevelGuard | None = None,
) -> Inputs:
    """Inputs for a model with these columns and levels; a DataFrame is matched by name.

    Levels that the model does not know have codes behind those that it does: `categories` has them all. `guard` sees
    to it that those that become known are of enough rows.
    """
    if isinstance(X, CodedInputs):
        tensor = inputs(X, argument, device=device).X
        _check_width(tensor.shape, dimension, argument)
        return Inputs(tensor, columns, categories)
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
    parts = _parts(X)
    if parts is not None and (categories or hasattr(X, "columns")):
        _check_width((len(parts[0]), len(parts)), dimension, argument)
        tensor, more = _read(parts, columns, categories, argument, device, guard)
        return Inputs(tensor, columns, more)
    tensor = _two_axes(as_tensor(X, argument, device), argument)
    _check_width(tensor.shape, dimension, argument)
    if categories:
        raise RecycleGPError(
            f"{argument} holds numbers, and the model has categories: {described(categories.levels, columns)}; "
            f"{_AS_TEXT}"
        )
    return Inputs(tensor, columns)


_AS_TEXT = "pass a DataFrame, or an object array, in which they are text"


def _check_width(shape: Sequence[int], dimension: int, argument: str) -> None:
    if shape[1] != dimension:
        raise RecycleGPError(
            f"{argument} has shape {tuple(shape)}, but the model has {dimension} input "
            f"column{'s' if dimension > 1 else ''}; pass an array of shape (n, {dimension})"
        )


def targets(y: Any, rows: int, argument: str = "y", *, device: Any = None) -> Tensor:
    """One number per row, as (n,) or (n, 1)."""
    return _one_per_row(as_tensor(y, argument, device), rows, argument, "pass one target per row")


def variances(value: Any, rows: int, argument: str = "noise", *, device: Any = None) -> Tensor:
    """One positive number per row, likewise."""
    found = as_tensor(value, argument, device).detach()
    tensor = _one_per_row(found, rows, argument, "pass one variance for all rows, or one per row")
    bad = int((~(tensor >= 1 / LARGEST)).sum())
    if bad:
        raise RecycleGPError(
            f"{argument}: {bad} of {rows} variances are not positive; pass the squares of measurement errors, and "
            "leave rows out whose error is not known"
        )
    return tensor


def row_weights(value: Any, rows: int, argument: str = "weights", *, device: Any = None) -> Tensor:
    """What rows count: one positive number per row, likewise."""
    tensor = _one_per_row(as_tensor(value, argument, device).detach(), rows, argument, "pass one number per row")
    bad = int((~(tensor >= 1 / LARGEST)).sum())
    if bad:
        raise RecycleGPError(f"{argument}: {bad} of {rows} are not positive; leave out rows that shall not count")
    return tensor


def _one_per_row(tensor: Tensor, rows: int, argument: str, remedy: str) -> Tensor:
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1 or len(tensor) != rows:
        raise RecycleGPError(
            f"{argument} has shape {tuple(tensor.shape)} but X has {rows} row{'s' * (rows != 1)}; "
            f"{remedy}, shape ({rows},)"
        )
    return tensor


def seed(value: Any) -> int:
    """A whole number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise RecycleGPError(Argument("seed", value), "; pass a whole number of at least 0")
    return int(value)


def number(value: Any, argument: str, *, positive: bool = False, of: Any = None) -> float:
    """One finite number; `of` is its key, where the argument has several."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, (str, bool)) or not abs(found) <= LARGEST or (positive and not found >= 1 / LARGEST):
        raise RecycleGPError(
            Argument(argument, value if of is None else {of: value}),
            f"; pass a {'positive' if positive else 'finite'} number",
        )
    return found


def are_several(value: Any) -> bool:
    """Is it a sequence, array, tensor or column, rather than one value?"""
    return (
        value is not None and not isinstance(value, str) and getattr(value, "ndim", int(hasattr(value, "__len__"))) > 0
    )


def share(value: Any, argument: str) -> float:
    """A number between 0 and 1, neither of them."""
    found = number(value, argument)
    if not 0 < found < 1:
        raise RecycleGPError(Argument(argument, value), "; pass a number between 0 and 1, as 0.95")
    return found


def as_tensor(value: Any, argument: str, device: Any, names: Sequence[str] = ()) -> Tensor:
    """Numbers, all of them ordinary; `names` are those of the columns, if these are not a table's own."""
    if value is None:
        raise RecycleGPError(f"{argument} is None; pass an array, tensor or DataFrame of numbers")
    if device is not None:
        device = device_of(device)
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        names = [str(c) for c in value.columns]
    if isinstance(value, Tensor):
        if value.is_complex() or value.layout != torch.strided:
            raise RecycleGPError(f"{argument} is complex or sparse; pass a dense tensor of real numbers")
        tensor = value.to(dtype=torch.float64, device=device).contiguous()
    else:
        array = value.to_numpy() if hasattr(value, "to_numpy") else value
        try:
            numbers = _floats(array)
        except (ValueError, TypeError, OverflowError):
            raise RecycleGPError(
                f"{argument} cannot be read as numbers; pass numbers, dates as days since one of them"
            ) from None
        tensor = torch.tensor(numbers, dtype=torch.float64, device=device)
    largest = float(tensor.detach().abs().max()) if tensor.numel() else 0.0
    if not (largest == 0 or 1 / LARGEST <= largest <= LARGEST):  # also where it is NaN
        _say_what_is_wrong(tensor.detach(), argument, largest, names)
    return tensor


def with_missing(value: Any, argument: str, device: Any) -> Tensor:
    """Numbers of which some may be missing: NaN where they are."""
    numbers = value.to_numpy(dtype=float, na_value=np.nan) if hasattr(value, "to_numpy") else value
    tensor = numbers.detach().to(torch.float64) if isinstance(numbers, Tensor) else None
    if tensor is None:
        try:
            tensor = torch.from_numpy(np.array(numbers, dtype=np.float64, order="C"))  # a copy; strides may be negative
        except (ValueError, TypeError):
            raise RecycleGPError(f"{argument} cannot be read as numbers; encode text as numeric columns") from None
    seen = ~torch.isnan(tensor)
    as_tensor(tensor[seen], argument, device)  # complains of infinite and of huge numbers
    return tensor if device is None else tensor.to(device_of(device))


def _floats(value: Any) -> np.ndarray:
    """As float64, with NaN for what is missing."""
    array = np.ma.filled(value.astype(float), np.nan) if np.ma.isMA(value) else np.asarray(value)
    if array.dtype.kind in "cMm":
        raise ValueError
    if array.dtype == object:  # as those of pandas' columns that can be empty, whose pd.NA is no number
        array = np.where(np.asarray(_is_na(array), dtype=bool), np.nan, array)
    return array.astype(np.float64, order="C")


_is_na = np.frompyfunc(lambda cell: type(cell).__name__ == "NAType", 1, 1)


def side_by_side(values: Sequence[Any]) -> Tensor | None:
    """Plain NumPy arrays of float64 and of one shape as one tensor, if all their numbers are ordinary; else None."""
    first = values[0]
    if not all(type(v) is np.ndarray and v.dtype == np.float64 and v.shape == first.shape for v in values):
        return None
    whole = torch.from_numpy(np.stack(values))
    size = whole.abs().flatten(1).amax(-1) if whole.ndim > 1 and whole.numel() else whole.new_zeros(1)
    return whole if bool(((size == 0) | ((size >= 1 / LARGEST) & (size <= LARGEST))).all()) else None


def _say_what_is_wrong(tensor: Tensor, argument: str, largest: float, names: Sequence[str] = ()) -> NoReturn:
    bad = ~torch.isfinite(tensor)
    if bool(bad.any()):
        where = ""
        if tensor.ndim == 2 and tensor.shape[1] == len(names):
            where = ", ".join(f"{name!r}: {n}" for name, n in zip(names, bad.sum(0).tolist(), strict=True) if n)
            where = f" (in {where})"
        raise RecycleGPError(
            f"{argument} holds {int(bad.sum())} NaN or infinite values{where}; drop or fill those rows first"
        )
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


def count_or_points(
    value: Any,
    argument: str,
    dimension: int,
    columns: Columns,
    device: Any,
    categories: Categories = NO_CATEGORIES,
) -> int | Tensor:
    """A positive number of points, or the points themselves (distinct rows)."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if value < 1:
            raise RecycleGPError(Argument(argument, value), "; pass a positive number of points")
        if value > MOST_POINTS:
            raise RecycleGPError(Argument(argument, value), f"; pass at most {MOST_POINTS:,} points")
        return int(value)
    if isinstance(value, (str, bool, float)):
        raise RecycleGPError(
            Argument(argument, value), f"; pass a number of points, or points of shape (M, {dimension})"
        )
    points, _, found = matched(value, dimension, columns, categories, argument, device=device)
    if found != categories:
        raise RecycleGPError(
            f"{argument} has levels that no row has: {described(found.beyond(categories), columns)}; leave them out"
        )
    if len(points) == 0:
        raise RecycleGPError(f"{argument} has no points; pass at least one")
    if len(points) > MOST_GIVEN:
        raise RecycleGPError(f"{argument} has {len(points)} points; pass at most {MOST_GIVEN:,}")
    if len(set(map(tuple, points.tolist()))) == len(points):  # which is found sooner than those that are distinct
        return points
    return torch.unique(points, dim=0)


def levels_of_points(value: Any, argument: str, dimension: int, columns: Columns, categories: Categories) -> Categories:
    """The levels, and those of points that were given beside them: a plan may speak of what somebody has not seen."""
    if not categories or value is None or isinstance(value, (str, bool, int, float, np.number, Tensor)):
        return categories
    return matched(value, dimension, columns, categories, argument).categories


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
                f"{', '.join(other)}); fit them on the same ones; where they mean the same, "
                "rename the header of one table"
            )
    return first
