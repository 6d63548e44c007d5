"""Data of many models side by side, and the scales on which they live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..likelihoods import Likelihood


class Samples(NamedTuple):
    """Data of B models, the shorter ones padded with rows of weight zero."""

    X: Tensor  # (B, n, D)
    y: Tensor  # (B, n)
    w: Tensor  # (B, n)  1, or 0 for padding

    def lanes(self, chosen: Tensor) -> Samples:
        return Samples(self.X[chosen], self.y[chosen], self.w[chosen])


def side_by_side(parts: Sequence[tuple[Tensor, Tensor]], device: torch.device) -> Samples:
    """On the device, in one move. Padding repeats the first row: a valid input and target that nothing will notice."""
    counts = [y.numel() for _, y in parts]
    longest = max(counts)

    def padded(t: Tensor, count: int) -> Tensor:
        return t if count == longest else torch.cat([t, t[:1].expand(longest - count, *t.shape[1:])])

    rows = torch.tensor(counts, device=device)
    w = torch.arange(longest, device=device) < rows[:, None]
    X = torch.stack([padded(X, count) for (X, _), count in zip(parts, counts, strict=True)])
    y = torch.stack([padded(y, count) for (_, y), count in zip(parts, counts, strict=True)])
    return Samples(X.to(device), y.to(device), w.to(torch.float64))


class Scales(NamedTuple):
    """Location and scale of the data: the units in which hyperparameters are searched."""

    x: Tensor  # (B, D)
    x_centre: Tensor  # (B, D)
    y: Tensor  # (B,)
    y_centre: Tensor  # (B,)


def scales(data: Samples, likelihood: Likelihood) -> Scales:
    X, y, w = data
    n = w.sum(-1)
    middle = (w[..., None] * X).sum(-2) / n[:, None]
    x = ((w[..., None] * (X - middle[:, None]).square()).sum(-2) / n[:, None]).sqrt()
    x = torch.where(x > 1e-14 * X.abs().amax(-2), x, torch.ones_like(x))  # a constant column has no scale
    # The centre of a linear kernel is published: where all rows are the same it would be that row.
    several = (X[:, :1] != X).flatten(1).any(1)
    centre = torch.where(several[:, None], middle, torch.zeros_like(middle))
    f = likelihood.scale_of(y, w)
    return Scales(x, centre, f.scale, f.location)
