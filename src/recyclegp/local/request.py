"""A checked request for one function: tensors in the user's units, and what is to become of them."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from .. import arrays
from ..categories import Categories
from ..errors import Either, RecycleGPError
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..record import Privacy
from .samples import Sample

__all__ = ["FitRequest", "Method", "Publish", "Share", "check_rows_have_noises"]


class Method(Enum):
    EXACT = "exact"
    COLLAPSED = "collapsed"
    DUAL = "dual"


class Share(NamedTuple):
    """As many points as keep so much of what the rows say about f, if no more than `most` do."""

    kept: float
    most: int


Publish = int | Tensor | Share | None  # None: at the inducing points


class FitRequest(NamedTuple):
    """One function of one data set."""

    name: str
    X: Tensor
    y: Tensor
    columns: arrays.Columns
    categories: Categories
    likelihood: Likelihood  # of these observations
    kernel: Kernel
    named: bool  # is the kernel a structure by name, without values of its own?
    method: Method
    inducing: int | Tensor
    publish: Publish
    noise: float | None  # to be kept: that of all rows, or their mean
    w: Tensor | None  # where rows have noises or counts of their own, as in Samples
    learn: bool
    entropy: list[int]  # where its random numbers begin
    device: torch.device  # where to compute; X and y are where the user had them until then
    rows: int  # of data behind it, as they are published
    counts: Tensor | None = None  # as in Samples
    privacy: Privacy | None = None  # what its rows are about, where somebody has said so
    held_back: float | None = None  # the share of its owner's rows that are not among these
    heaviest: float = 1.0  # the largest weight that somebody has given to a row

    @property
    def sample(self) -> Sample:
        return Sample(self.X, self.y, self.w, self.counts)

    def with_sample(self, data: Sample) -> FitRequest:
        return self._replace(X=data.X, y=data.y, w=data.w, counts=data.counts)

    @property
    def effective_rows(self) -> float:
        """Log-densities of y in its evidence: one for each row, as often as it counts."""
        return float(len(self.y) if self.counts is None else self.counts.sum())

    @property
    def points_given(self) -> bool:
        """Has somebody chosen the points that are published?"""
        if isinstance(self.publish, Tensor) or not isinstance(self.inducing, Tensor):
            return isinstance(self.publish, Tensor)
        return not isinstance(self.publish, int) or self.publish >= len(self.inducing)

    @property
    def learns_noise(self) -> bool:
        """Do its rows say what their noise is?"""
        return self.learn and self.noise is None and self.likelihood.conjugate

    @property
    def kind(self) -> tuple[object, ...]:
        """What models of one batch must have in common; their sizes within a quarter of each other."""
        points = len(self.inducing) if isinstance(self.inducing, Tensor) else self.inducing
        n = self.y.numel()
        size = 0 if n < 8 else int(math.log(n) / math.log(1.25))
        known = self.noise is not None
        return self.method, self.kernel.structure, self.X.shape[1], points, self.device, known, size


NOISE_OF_ROWS = Either("noise", "--noise-column")


def check_rows_have_noises(likelihood: Likelihood) -> None:
    """Can each row have a noise of its own?"""
    if not likelihood.has_units:
        raise RecycleGPError(NOISE_OF_ROWS, f": likelihood {likelihood.name!r} has none; leave it out")
    if not likelihood.conjugate:
        raise RecycleGPError(
            NOISE_OF_ROWS,
            f": one value per row is for likelihood 'gaussian'; {likelihood.name!r} has one for all rows: pass a "
            "number, or leave it out to learn it",
        )
