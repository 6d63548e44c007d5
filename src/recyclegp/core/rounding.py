"""The same statement about f in numbers with fewer digits.

Points are rounded column by column. The numbers of a site are rounded where they stand for the whitened values v, not
for f(Z) itself: Rᵀ = HL⁻¹ is a difference of large numbers, and a few digits of it would say something else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import sites
from .least_squares import CentredRows
from .sites import Site


def significant(values: Tensor, digits: int) -> Tensor:
    """Each number to so many significant digits."""
    return _rounded(values, values.abs(), digits)


def by_column(Z: Tensor, digits: int, exact: Sequence[int] = ()) -> Tensor:
    """Points (M, D), each column to so many digits of its spread; those that then coincide only once, in their order.

    A column in which all points agree has no spread, and is rounded to so many significant digits. `exact` columns stay
    as they are.
    """
    kept = Z[:, list(exact)]
    spread = Z.std(0, correction=0)
    flat = spread <= torch.finfo(Z.dtype).eps * Z.abs().amax(0)
    Z = _rounded(Z, torch.where(flat, Z.abs(), spread.expand_as(Z)), digits)
    Z[:, list(exact)] = kept
    _, first = np.unique(Z.numpy(), axis=0, return_index=True)
    return Z[torch.as_tensor(np.sort(first))]


def site(exact: Site, L: Tensor, mean: float, digits: int) -> Site:
    """A site whose points stay, seen from its own prior N(m, LLᵀ): H, ρ̃ and e to so many significant digits.

    Any H and ρ̃ are a site: no rounding can make its precision HᵀH negative.
    """
    rows = sites.to_rows(exact, L, mean)
    short = CentredRows(*(significant(t, digits) for t in rows))
    return sites.from_rows(exact.Z, L, short, mean)


def _rounded(values: Tensor, size: Tensor, digits: int) -> Tensor:
    """Values to so many digits of numbers of this size; zeros stay."""
    leading = torch.where(size > 0, size, torch.ones_like(size)).log10().floor()
    power = torch.tensor(10.0, dtype=values.dtype) ** (digits - 1 - leading)
    return torch.where(size > 0, (values * power).round() / power, values)
