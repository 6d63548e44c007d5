"""Labels of classes as users have them: text, numbers or truth values; inside they are codes 0, 1, …"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import Argument, Either, Name, RecycleGPError

SHOWN = 6  # classes in an error


def texts(y: Any, rows: int | None, argument: str = "y") -> list[str]:
    """Each label as text: 3 and 3.0 are "3"."""
    values = y.detach().cpu().numpy() if isinstance(y, Tensor) else y.to_numpy() if hasattr(y, "to_numpy") else y
    values = np.asarray(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or (rows is not None and len(values) != rows):
        wanted = "one class per row" if rows is None else f"one class per row, shape ({rows},)"
        raise RecycleGPError(f"{argument} has shape {values.shape}; pass {wanted}")
    found = [label(value) for value in values.tolist()]
    absent = sum(text is None for text in found)
    if absent:
        raise RecycleGPError(f"{argument} has {absent} missing classes; drop those rows first")
    return [text for text in found if text is not None]


def label(value: Any) -> str | None:
    """Text of one label; None where it is missing."""
    if (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    ):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def in_order(text: str) -> tuple[float, str]:
    """Labels that are numbers by their size, the others by the alphabet."""
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


def is_a_number(text: str) -> bool:
    return math.isfinite(in_order(text)[0])


def ordered_categories(y: Any) -> list[Any] | None:
    """All levels of a column whose order pandas knows, from the lowest; None of any other."""
    dtype = getattr(y, "dtype", None)
    return list(dtype.categories) if dtype is not None and getattr(dtype, "ordered", False) else None


def ordered_levels(y: Any) -> list[str] | None:
    """The same as text."""
    found = ordered_categories(y)
    return None if found is None else texts(found, None)


def codes(y: Any, rows: int, names: Sequence[str]) -> Tensor:
    """(n,) positions of the labels among the names."""
    known = {name: i for i, name in enumerate(names)}
    found = texts(y, rows)
    strange = sorted({text for text in found if text not in known})
    if strange:
        raise RecycleGPError(
            f"y holds classes the model does not know: {', '.join(strange[:5])}; it has {', '.join(list(names)[:10])}. "
            "Drop those rows, or fit again with ",
            Argument("classes"),
            " naming them",
        )
    return torch.tensor([known[text] for text in found], dtype=torch.long)


# --- two classes, of which one is 1 -----------------------------------------------------------


class TwoClassLabels(NamedTuple):
    """y of two classes as numbers, and what these are called."""

    y: np.ndarray  # (n,) 0 and 1
    labels: tuple[str | None, str | None]  # of class 0, which has no name if it is several, and of class 1


def holds_words(y: Any) -> bool:
    """Is there text in it?"""
    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    if isinstance(values, Tensor) or getattr(values, "ndim", 1) != 1:
        return False
    try:
        values = np.asarray(values)
    except ValueError:  # rows of different lengths
        return False
    return values.dtype.kind in "US" or (values.dtype.kind == "O" and any(isinstance(v, str) for v in values.flat))


def two_classes(
    y: Any, labels: tuple[str | None, str | None] | None = None, positive: Any = None
) -> TwoClassLabels | None:
    """Words as 0 and 1; None where y holds numbers, and nobody says what class 1 is called.

    Args:
        y: n classes.
        labels: what classes 0 and 1 are called; one of them may be None.
        positive: what class 1 is called; every other class is 0.
    """
    if positive is None and not holds_words(y):
        return None
    if positive is not None and labels is not None:
        raise RecycleGPError(Name("positive"), ": labels say already what class 1 is; leave one of them out")
    found = texts(y, None)
    known = sorted(set(found), key=in_order)
    zero, one = labels or (None, label(positive))
    if zero is None and one is None:
        raise RecycleGPError(
            f"y holds the classes {_shown(known)}; say which of them is 1: ",
            Argument("positive", known[-1]),
            Either(f", or labels={[known[0], known[-1]]!r}" if len(known) == 2 else "", ""),
        )
    if positive is not None and one not in known:
        raise RecycleGPError(Argument("positive", positive), f": y holds no such class, but {_shown(known)}")
    strange = [name for name in known if name not in (zero, one)]
    if zero is not None and one is not None and strange:
        raise RecycleGPError(
            f"y holds the classes {_shown(strange)}, beside {zero} for 0 and {one} for 1; correct them"
        )
    if positive is not None and len(strange) == 1:
        zero = strange[0]
    return TwoClassLabels(np.array([float(v == one if one is not None else v != zero) for v in found]), (zero, one))


def as_numbers(y: Any, labels: tuple[str | None, str | None] | None) -> Any:
    """For a model whose classes 0 and 1 are called so: y as numbers where it holds these words, else as it is."""
    if labels is None and holds_words(y):
        raise RecycleGPError(
            "y holds words, and nobody has said what the classes of this model are called; pass 0 and 1"
        )
    found = two_classes(y, labels)
    return y if found is None else found.y


def are_words(y: Any) -> bool:
    """Does y hold text that is no number?"""
    if not holds_words(y):
        return False
    try:
        np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y).astype(np.float64)
    except (TypeError, ValueError):
        return True
    return False


def _shown(known: Sequence[str]) -> str:
    return ", ".join(known[:SHOWN]) + (", …" if len(known) > SHOWN else "")
