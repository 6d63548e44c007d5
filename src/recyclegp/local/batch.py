"""Requests of one kind side by side: their rows, where their points may go, and what has been learned of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import threads
from ..core.convergence import Convergence
from ..devices import memory_factor
from ..kernels import Kernel, Node
from . import placement
from .objectives import only_correlation
from .placement import Candidates, Points
from .random_numbers import generators
from .request import FitRequest, Method, Share
from .samples import Samples
from .search_space import Hyperparameters, SearchSpace
from .together import ALONE, Group

FEATURES = 2**20  # numbers in the features of the models that are evaluated at once
MATRICES = 2**17  # and in their covariances, each of which is looked at many times: they stay in a core's cache
TOGETHER = 2**9  # models whose points are placed at once, where they have few
EVIDENCES = 2**22  # the same where `core.stationary_evidence` makes but some of them at a time


class Batch(NamedTuple):
    """Requests of one kind side by side."""

    requests: Sequence[FitRequest]
    data: Samples
    space: SearchSpace
    placing: Sequence[np.random.Generator]  # random numbers for where points go: one for each that `places`
    candidates: Candidates | None  # for automatic points, none of them a row; None where no such points are wanted
    group: Group = ALONE  # neighbouring requests that are the functions of one model

    @property
    def template(self) -> FitRequest:
        """Any of them, for what they all have in common."""
        return self.requests[0]

    def width(self, points: int) -> int:
        """How many models' features may be held at once, in whole groups."""
        n, C = self.data.y.shape[1], self.group.functions
        each, most = (n * n, MATRICES) if self.template.method is Method.EXACT else (n * max(points, 1), FEATURES)
        return C * max(1, int(memory_factor(self.data.y.device) * most / (each * C)))

    def shared(self, points: Points) -> Points:
        """The same points for all functions of a model, where these have the same rows."""
        return self.group.points(points) if same_rows(self.requests, self.group) else points

    def placed(
        self,
        counts: Sequence[int],
        kernel: Kernel,
        spare: Tensor | None = None,
        workers: threads.Workers = threads.ALONE,
    ) -> Points:
        """So many automatic points for each; functions of the same rows have the same ones."""
        assert self.candidates is not None
        C = len(self.requests) // len(self.placing)
        if C > 1:
            counts = [max(counts[i : i + C]) for i in range(0, len(counts), C)]
            kernel = Kernel(kernel.structure, kernel.theta[::C])
            spare = None if spare is None else spare.reshape(-1, C).amin(-1)
        found = placement.place(self.candidates, max(counts), kernel, self.placing, spare, workers).first(list(counts))
        if C == 1:
            return found
        return found.select(torch.arange(len(counts), device=found.Z.device).repeat_interleave(C))


def exact_width(structure: Node, data: Samples, functions: int) -> int:
    """How many problems of so many functions are evaluated at once by their exact evidence."""
    n, most = data.y.shape[1], MATRICES if only_correlation(structure) is None else EVIDENCES
    return max(1, int(memory_factor(data.y.device) * most / (n * n * functions)))


def same_rows(requests: Sequence[FitRequest], group: Group) -> bool:
    """Have the functions of each model the same rows?"""
    first = [r.X for r in requests[:: group.functions] for _ in range(group.functions)]
    return all(r.X is X for r, X in zip(requests, first, strict=True))


def batch_of(requests: Sequence[FitRequest], data: Samples, space: SearchSpace, kernel: Kernel, group: Group) -> Batch:
    """With candidates for points that are to serve these kernels."""
    C = group.functions if same_rows(requests, group) else 1
    leaders = requests[::C]
    placing = generators([r.entropy for r in leaders], 1)
    own = Kernel(kernel.structure, kernel.theta[::C])
    found = candidates(leaders, data.X[::C], placing, own, _noises(requests, data, C))
    return Batch(requests, data, space, placing, found, group)


class LearnedBatch(NamedTuple):
    """Hyperparameters, the inducing points they were learned at, and how each search ended."""

    hyper: Hyperparameters
    points: Points
    ends: list[Convergence]
    values: Tensor  # (B,)  of the objective


def _noises(requests: Sequence[FitRequest], data: Samples, C: int) -> Tensor | None:
    """(B/C, n)  of each row, where rows have known noises; of C functions, that of what all of them say."""
    if requests[0].noise is None or all(r.w is None for r in requests):
        return None
    precision = data.w.square() / data.y.new_tensor([r.noise for r in requests])[:, None]
    return precision.reshape(-1, C, precision.shape[1]).mean(1).reciprocal()


def candidates(
    requests: Sequence[FitRequest],
    X: Tensor,
    placing: Sequence[np.random.Generator],
    kernel: Kernel,
    noise: Tensor | None,
) -> Candidates | None:
    """Candidates for all the points a request will need, drawn once; rows may have noises of their own."""
    template = requests[0]
    published = template.publish
    if isinstance(published, Share):
        published = max(r.publish.most for r in requests if isinstance(r.publish, Share))
    counts = [p for p in (template.inducing, published) if isinstance(p, int) and p]
    if not counts:
        return None
    # If publish equals inducing, the inducing points are published.
    wanted = counts[0] if isinstance(template.inducing, int) and template.inducing else counts[-1]
    return placement.candidates(X, [r.y.numel() for r in requests], wanted, kernel, placing, noise)


def inducing(batch: Batch, kernel: Kernel) -> Points:
    """The points that were given, or automatic ones for these kernels; none for the exact method."""
    return points(batch, [r.inducing for r in batch.requests], kernel)


def points(batch: Batch, wanted: Sequence[int | Tensor], kernel: Kernel) -> Points:
    given = [w for w in wanted if isinstance(w, Tensor)]
    if given:
        Z = torch.stack(given)
        return Points(Z, torch.ones_like(Z[..., 0], dtype=torch.bool))
    counts = [w for w in wanted if isinstance(w, int)]
    if not max(counts):
        return Points(batch.data.X[:, :0], batch.data.X[:, :0, 0] > 0)
    with threads.share_work(
        threads.worth(len(counts), TOGETHER) if batch.data.X.device.type == "cpu" else 1
    ) as workers:
        return batch.placed(counts, kernel, workers=workers)
