"""Header fields and tensors of a file, each checked as it is taken."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import RecycleGPError
from ..magnitudes import LARGEST
from .container import Document, Header
from .limits import LONGEST_TEXT
from .numbers import Numbers

if TYPE_CHECKING:
    from torch import Tensor

UNITS = "as in the data: Z in those of X; f, mean, noise and kernel in those of y"  # a reminder for people


class Fields:
    """One file, taken apart: its numbers as tensors, or as `Numbers` where nobody computes with them."""

    def __init__(self, document: Document) -> None:
        self.header = document.header
        self.tensors = document.tensors
        for key in ("written_by", "units"):  # for people; never interpreted
            text(self.header.get(key, ""), key)

    def tensor(self, key: str, *shape: int | None) -> Tensor:
        """A finite tensor of this shape (None: any length)."""
        if key not in self.tensors:
            raise RecycleGPError(f"tensor {key!r} is missing")
        t = self.tensors[key]
        fits = len(t.shape) == len(shape) and all(w in (None, n) for w, n in zip(shape, t.shape, strict=True))
        if not str(t.dtype).endswith("float64") or not fits:
            raise RecycleGPError(f"tensor {key!r} is {t.dtype} of shape {tuple(t.shape)}; expected float64 of {shape}")
        if not (t.within(LARGEST) if isinstance(t, Numbers) else bool((t.abs() <= LARGEST).all())):
            raise RecycleGPError(f"tensor {key!r} holds NaN or infinite values, or some beyond {LARGEST:g}")
        return t


def text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise RecycleGPError(f"{what} is not text, or a very long one")
    if any("\ud800" <= c <= "\udfff" for c in value):  # halves of characters, which cannot be printed
        raise RecycleGPError(f"{what} is text with characters that are none")
    return value


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise RecycleGPError(f"{what} is {str(value)[:50]}, neither true nor false")
    return value


def listed(value: Any, what: str, *, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise RecycleGPError(f"{what} is not a list of at most {most:,}")
    return value


def fields(value: Any, what: str) -> Header:
    if not isinstance(value, dict):
        raise RecycleGPError(f"{what} is not an object")
    return value


def number(value: Any, what: str, least: float = -math.inf, most: float = LARGEST) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not max(least, -most) <= value <= most:
        said = f" of at least {least:g}" if least > -math.inf else ""
        said += f" and at most {most:g}" if most < LARGEST else ""
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a finite number{said}")
    return float(value)


def positive(value: Any, what: str, most: float = LARGEST) -> float:
    found = number(value, what, 0.0, most)
    if found == 0:
        raise RecycleGPError(f"{what} is 0")
    return found


def count(value: Any, what: str, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 2**62:
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a count of at least {least}")
    return value
