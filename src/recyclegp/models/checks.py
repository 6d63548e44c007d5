"""Never a silent NaN: whatever went wrong before, it stops where an object is made."""

from __future__ import annotations

from torch import Tensor

from .. import arrays
from ..errors import RecycleGPError


def check_finite(what: str, *tensors: Tensor) -> None:
    if not all(bool((t.abs() <= arrays.LARGEST).all()) for t in tensors):  # also catches NaN
        raise RecycleGPError(
            f"{what} would hold NaN or numbers beyond {arrays.LARGEST:g}: its data or kernel overflow; rescale "
            "X and y to ordinary sizes, use a larger noise, or smaller weights"
        )
