"""kernel="auto": the structure by which the evidence explains the rows best, judged on some of them.

How smooth the function is, and whether there is a line beneath it. Many data sets choose together, so that the
modules made of them have one kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import torch

from . import batch_fit
from .request import FitRequest, Method
from .together import ALONE, Group

log = logging.getLogger(__name__)

AUTO = "auto"
SMOOTHNESS = ("rbf", "matern52", "matern32")
LINE = "{} + linear"
ROWS_COMPARED = 300  # of each data set
SETS_COMPARED = 32  # data sets
WORTH = 2.0  # nats by which a more complicated kernel must be better


def best(score: Callable[[str], float]) -> str:
    """Of the candidates the one with the highest score, a kernel with a line beneath it only where that is clear."""
    plain = {name: score(name) for name in SMOOTHNESS}
    lined = {LINE.format(name): score(LINE.format(name)) for name in SMOOTHNESS}
    first, other = (max(scores, key=lambda name: scores[name]) for scores in (plain, lined))
    chosen = other if lined[other] > plain[first] + WORTH else first
    log.info("kernel %s; log evidence %s", chosen, plain | lined)
    return chosen


def choose(with_kernel: Callable[[str], Sequence[FitRequest]], group: Group = ALONE) -> str:
    """The kernel for requests, which are made for any of the candidates by `with_kernel`."""
    return best(lambda name: _evidence(with_kernel(name), group))


def _evidence(requests: Sequence[FitRequest], group: Group) -> float:
    """Of some rows of some data sets, each at its own best hyperparameters, with their prior."""
    if group.functions > 1:
        return float(batch_fit.log_evidence([some_rows(r) for r in requests], group).nan_to_num(neginf=-1e9).sum())
    step = -(-len(requests) // SETS_COMPARED)
    kinds: dict[object, list[FitRequest]] = {}
    for request in (some_rows(r) for r in requests[::step]):
        kinds.setdefault(request.kind, []).append(request)
    values = torch.cat([batch_fit.log_evidence(alike) for alike in kinds.values()])
    return float(values.nan_to_num(neginf=-1e9).sum())


def some_rows(request: FitRequest) -> FitRequest:
    """A request for some of the rows; Gaussian ones exactly, which needs no points."""
    rng = np.random.default_rng([*request.entropy, 3])
    some = torch.as_tensor(rng.permutation(len(request.y))[:ROWS_COMPARED], device=request.X.device)
    exact = request.likelihood.conjugate
    return request.with_sample(request.sample.take(some))._replace(
        method=Method.EXACT if exact else request.method,
        inducing=0 if exact else request.inducing,
        publish=1,
    )
