"""Data of many models side by side, and the scales on which they live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..likelihoods import Likelihood


class Sample(NamedTuple):
    """Data of one model."""

    X: Tensor  # (n, D)
    y: Tensor  # (n,)
    w: Tensor | None  # (n,)  as in Samples; None where it is 1 everywhere

    def take(self, chosen: Tensor) -> Sample:
        """Some of the rows, in this order."""
        return Sample(self.X[chosen], self.y[chosen], None if self.w is None else self.w[chosen])


class KnownNoise(NamedTuple):
    """Noise variances σᵢ² that are known row by row."""

    mean: float  # σ²: what a new measurement has on average
    w: Tensor  # (n,)  √(σ²/σᵢ²)


def known_noise(variances: Tensor) -> KnownNoise:
    """Of equal ones the mean is that number to the last digit, and w is one."""
    largest = variances.max()
    mean = largest * (variances / largest).mean()
    return KnownNoise(float(mean), (mean / variances).sqrt())


class Samples(NamedTuple):
    """Data of B models, the shorter ones padded with rows of weight zero."""

    X: Tensor  # (B, n, D)
    y: Tensor  # (B, n)
    # (B, n)  √(σ²/σᵢ²) with σ² their likelihood's noise: 1 unless rows have noises of their own; 0: padding. Of
    # likelihoods that are not Gaussian a row counts as p(y|f)^w².
    w: Tensor

    @property
    def rows(self) -> Tensor:
        """(B,)  how many each model has."""
        return (self.w > 0).sum(-1).to(self.w.dtype)

    @property
    def shares(self) -> Tensor:
        """(B, n)  what rows count where scales are found: 1, less if they are noisier than most, 0 for padding."""
        typical = torch.where(self.w > 0, self.w, torch.nan).nanmedian(-1, keepdim=True).values
        return (2 / (1 + (typical / self.w).square())).clamp_max(1.0)

    def select(self, chosen: Tensor) -> Samples:
        return Samples(self.X[chosen], self.y[chosen], self.w[chosen])


def side_by_side(parts: Sequence[Sample], device: torch.device) -> Samples:
    """On the device, in one move. Padding repeats the first row: a valid input and target that nothing will notice."""
    counts = [part.y.numel() for part in parts]
    longest = max(counts)

    def padded(t: Tensor, count: int) -> Tensor:
        return t if count == longest else torch.cat([t, t[:1].expand(longest - count, *t.shape[1:])])

    rows = torch.tensor(counts, device=device)
    w = (torch.arange(longest, device=device) < rows[:, None]).to(torch.float64)
    X = torch.stack([padded(part.X, count) for part, count in zip(parts, counts, strict=True)])
    y = torch.stack([padded(part.y, count) for part, count in zip(parts, counts, strict=True)])
    if any(part.w is not None for part in parts):
        known = [torch.ones_like(part.y) if part.w is None else part.w for part in parts]
        w = w * torch.stack([padded(t, count) for t, count in zip(known, counts, strict=True)]).to(device)
    return Samples(X.to(device), y.to(device), w)


class Scales(NamedTuple):
    """Location and scale of the data: the units in which hyperparameters are searched."""

    x: Tensor  # (B, D)
    x_centre: Tensor  # (B, D)
    y: Tensor  # (B,)
    y_centre: Tensor  # (B,)


def scales(data: Samples, likelihood: Likelihood) -> Scales:
    X, y, w = data.X, data.y, data.shares
    n = w.sum(-1)
    middle = (w[..., None] * X).sum(-2) / n[:, None]
    x = ((w[..., None] * (X - middle[:, None]).square()).sum(-2) / n[:, None]).sqrt()
    x = torch.where(x > 1e-14 * X.abs().amax(-2), x, torch.ones_like(x))  # a constant column has no scale
    # The centre of a linear kernel is published: where all rows are the same it would be that row.
    several = (X[:, :1] != X).flatten(1).any(1)
    centre = torch.where(several[:, None], middle, torch.zeros_like(middle))
    f = likelihood.scale_of(y, w)
    return Scales(x, centre, f.scale, f.location)
