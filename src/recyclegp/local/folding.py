"""Equal rows as one row that counts as often, before anything depends on their number or their order.

A row that counts c times says p(y|f)^c, whatever the likelihood and whether somebody gave it the weight c or the row
itself c times. Rows of which none is there twice, and none has a weight but one, stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Folded(NamedTuple):
    """What is left of n rows, one of each kind of equal ones."""

    chosen: Tensor | None  # (m,)  which of them, in the order of their values; None: all, as they were
    counts: Tensor | None  # (m,)  how often each counts; None: once
    each: Tensor | None  # (m,)  rows behind each: its weight, if all weights are whole numbers; its shares; None: one
    heaviest: float = 1.0  # the largest weight that somebody has given to a row

    def take(self, values: Tensor) -> Tensor:
        """Of values for all rows those that are left."""
        return values if self.chosen is None else values[self.chosen.to(values.device)]

    def only(self, seen: Tensor | None) -> Folded:
        """Of the rows that are left some."""
        if seen is None:
            return self
        counts, each = (None if t is None else t[seen] for t in (self.counts, self.each))
        return self._replace(counts=counts, each=each)

    def rows(self, left: int) -> int:
        """Of data behind so many that are left."""
        return left if self.each is None else round(float(self.each.sum()))


AS_THEY_ARE = Folded(None, None, None)


def fold(parts: list[Tensor], weights: Tensor | None, shares: np.ndarray | None = None) -> Folded:
    """Rows are equal where all of the parts, (n,) or (n, k) each, are; missing values are equal to each other.

    `shares` are those of rows of a table, where one of these is several with other inputs.
    """
    if weights is None and _all_differ(parts[:2]):
        return AS_THEY_ARE
    table = np.concatenate([_columns(part) for part in parts], 1)
    table = np.where(np.isnan(table), np.inf, table)
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    first = np.ones(len(table), dtype=bool)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=first[1:])
    weight = np.ones(len(table)) if weights is None else weights.detach().cpu().numpy()
    if first.all() and (weight == 1).all():
        return AS_THEY_ARE
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(weight[order], starts)
    whole = bool((weight == np.round(weight)).all()) and shares is None
    each = counts if whole else np.add.reduceat(np.ones(len(table)) if shares is None else shares[order], starts)
    heaviest = float((weight if shares is None else weight / shares).max())
    kept = [torch.as_tensor(found, device=parts[0].device) for found in (order[first], counts, each)]
    return Folded(kept[0], kept[1], kept[2], heaviest)


def may_repeat(X: Tensor, y: Tensor) -> Tensor:
    """(B,) bool  of data sets side by side: could two of their rows be equal? They are in the first column and in y."""
    return _twice(X[..., 0]) & _twice(y)


def _all_differ(parts: list[Tensor]) -> bool:
    """Does the first column of one of them tell all rows apart, as it nearly always does?"""
    return any(not bool(_twice(part if part.ndim == 1 else part[:, 0])) for part in parts)


def _twice(values: Tensor) -> Tensor:
    """Of the last axis: is a value there twice? A missing one is equal to others that are missing."""
    ordered = np.sort(values.detach().nan_to_num(torch.inf).cpu().numpy(), -1)  # many times faster than torch
    return torch.as_tensor((ordered[..., 1:] == ordered[..., :-1]).any(-1))


def _columns(part: Tensor) -> np.ndarray:
    values = part.detach().to("cpu", torch.float64).numpy()
    return values[:, None] if values.ndim == 1 else values
