"""A site as a value. What is done with it is in `sites`; this can be imported without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Site(NamedTuple):
    """t(u) = exp(e − ½‖Rᵀu − ρ‖²); several of one size may be stacked along leading axes."""

    Z: Tensor  # (M, D)
    Rt: Tensor  # (r, M)  Rᵀ, with r ≤ M
    rho: Tensor  # (r,)
    e: Tensor  # ()
