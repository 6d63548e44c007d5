"""Data of many models side by side, and the scales on which they live."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..likelihoods import Likelihood


class Sample(NamedTuple):
    """Data of one model."""

    X: Tensor  # (n, D)
    y: Tensor  # (n,)
    w: Tensor | None  # (n,)  as in Samples; None where it is 1 everywhere
    counts: Tensor | None = None  # (n,)  likewise

    def take(self, chosen: Tensor) -> Sample:
        """Some of the rows, in this order."""
        return Sample(*(None if t is None else t[chosen] for t in self))  # type: ignore[arg-type]


class KnownNoise(NamedTuple):
    """Noise variances σᵢ² that are known row by row."""

    mean: float  # σ²: what a new measurement has on average
    w: Tensor  # (n,)  √(σ²/σᵢ²)


def known_noise(variances: Tensor, counts: Tensor | None = None) -> KnownNoise:
    """Of equal ones the mean is that number to the last digit, and w is one, or √c of a row that counts c times."""
    largest = variances.max()
    each = variances / largest
    mean = largest * (each.mean() if counts is None else (counts * each).sum() / counts.sum())
    w = (mean / variances).sqrt()
    return KnownNoise(float(mean), w if counts is None else w * counts.sqrt())


class Samples(NamedTuple):
    """Data of B models, the shorter ones padded with rows of weight zero."""

    X: Tensor  # (B, n, D)
    y: Tensor  # (B, n)
    # (B, n)  √(c σ²/σᵢ²) with σ² their likelihood's noise and c the row's count: 1 unless rows have noises or counts of
    # their own; 0: padding. Of likelihoods that are not Gaussian a row counts as p(y|f)^w².
    w: Tensor
    counts: Tensor | None = None  # (B, n)  c: how often a row is there; None: once. 0: padding

    @property
    def rows(self) -> Tensor:
        """(B,)  how many each model has."""
        return (self.w > 0).sum(-1).to(self.w.dtype) if self.counts is None else self.counts.sum(-1)

    @property
    def often(self) -> Tensor:
        """(B, n)  c, as numbers."""
        return (self.w > 0).to(self.w.dtype) if self.counts is None else self.counts

    @property
    def shares(self) -> Tensor:
        """(B, n)  what rows count where scales are found: c, less if they are noisier than most, 0 for padding."""
        w = self._precision
        typical = torch.where(w > 0, w, torch.nan).nanmedian(-1, keepdim=True).values
        shares = (2 / (1 + (typical / w).square())).clamp_max(1.0)
        return shares if self.counts is None else self.counts * shares

    @property
    def _precision(self) -> Tensor:
        """√(σ²/σᵢ²)."""
        if self.counts is None:
            return self.w
        return self.w / torch.where(self.counts > 0, self.counts, 1.0).sqrt()

    def log_multiplicity(self, noise: Tensor) -> Tensor | float:
        """(B,)  what p(y|f)^c of Gaussian rows has beside N(y; f, σᵢ²/c), for the evidence of B noises σ²:

        log N(y; f, σᵢ²)^c = log N(y; f, σᵢ²/c) − ½(c − 1) log 2πσᵢ² − ½ log c
        """
        if self.counts is None:
            return 0.0
        log_c = torch.where(self.counts > 0, self.counts, 1.0).log()
        log_v = torch.where(self.w > 0, self._precision, 1.0).log()  # σᵢ² = σ²/v²
        more = torch.where(self.counts > 0, self.counts - 1, 0.0)
        constant = (more * (log_v - 0.5 * math.log(2 * math.pi)) - 0.5 * log_c).sum(-1)
        return constant - 0.5 * more.sum(-1) * noise.log()

    def select(self, chosen: Tensor) -> Samples:
        return self.map(lambda t: t[chosen])

    def some(self, share: float, fewest: int) -> Samples:
        """So large a share of each model's rows, but not fewer than that, chosen without a look at them."""
        sizes = (self.w > 0).sum(-1).tolist()
        counts = [min(n, max(fewest, math.ceil(share * n))) for n in sizes]
        rows = np.zeros((len(sizes), max(counts)), dtype=np.int64)
        for i, (n, count) in enumerate(zip(sizes, counts, strict=True)):
            rows[i, :count] = _shuffled(n)[:count]
        index = torch.as_tensor(rows, device=self.y.device)
        real = torch.arange(max(counts), device=self.y.device) < torch.tensor(counts, device=self.y.device)[:, None]
        X = self.X.gather(1, index[..., None].expand(-1, -1, self.X.shape[-1]))
        y, w = self.y.gather(1, index), self.w.gather(1, index) * real
        return Samples(X, y, w, None if self.counts is None else self.counts.gather(1, index) * real)

    def standing_for(self, rows: Tensor) -> Samples:
        """(B,)  the same rows, each counted as often as makes so many of them."""
        times = (rows / self.rows)[:, None]
        return Samples(self.X, self.y, self.w * times.sqrt(), self.often * times)

    def map(self, change: Callable[[Tensor], Tensor]) -> Samples:
        """Every tensor, changed in the same way."""
        X, y, w, counts = self
        return Samples(change(X), change(y), change(w), None if counts is None else change(counts))


@lru_cache(maxsize=256)
def _shuffled(n: int) -> np.ndarray:
    """Always the same order of n rows: a module does not depend on those that are fitted beside it."""
    return np.random.default_rng(n).permutation(n)


def side_by_side(parts: Sequence[Sample], device: torch.device) -> Samples:
    """On the device, in one move. Padding repeats the first row: a valid input and target that nothing will notice."""
    sizes = [part.y.numel() for part in parts]
    longest = max(sizes)

    def stacked(tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack(
            [
                t if n == longest else torch.cat([t, t[:1].expand(longest - n, *t.shape[1:])])
                for t, n in zip(tensors, sizes, strict=True)
            ]
        )

    def where_given(tensors: Sequence[Tensor | None]) -> Tensor | None:
        if all(t is None for t in tensors):
            return None
        ones = [torch.ones_like(part.y) if t is None else t for part, t in zip(parts, tensors, strict=True)]
        return real * stacked(ones).to(device)

    rows = torch.tensor(sizes, device=device)
    real = (torch.arange(longest, device=device) < rows[:, None]).to(torch.float64)
    X, y = stacked([part.X for part in parts]), stacked([part.y for part in parts])
    w, counts = where_given([part.w for part in parts]), where_given([part.counts for part in parts])
    return Samples(X.to(device), y.to(device), real if w is None else w, counts)


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
