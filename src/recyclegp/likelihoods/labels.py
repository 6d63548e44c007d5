"""Labels of classes as users have them: text, numbers or truth values; inside they are codes 0, 1, …"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import Argument, RecycleGPError


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
