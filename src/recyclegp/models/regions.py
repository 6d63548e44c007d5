"""Where modules have seen data, and where nobody has."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ..categories import Categories

MARGIN = 0.25  # of a module's box, or of a lengthscale: how far beside its points it still counts as having seen data


def outside(points: Tensor, boxes: Iterable[Tensor], lengthscales: Tensor, categories: Categories) -> Tensor:
    """(n,) bool: which points lie in none of the boxes (2, D), each a little wider; or have a level nobody has seen."""
    found = torch.zeros(len(points), dtype=torch.bool)
    for c in categories.columns:  # levels that the model does not know have codes behind those that it does
        found |= points[:, c] >= len(categories.names(c))
    numbers = [c for c in range(points.shape[1]) if c not in categories.columns]
    rest = (~found).nonzero()[:, 0] if numbers else torch.arange(0)
    for low, high in boxes:
        margin = MARGIN * torch.maximum(high - low, lengthscales)
        here = points[rest]
        within = (here >= low - margin) & (here <= high + margin)
        rest = rest[~within[:, numbers].all(-1)]
    found[rest] = True
    return found
