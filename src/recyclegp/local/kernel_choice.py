"""kernel="auto": the structure by which the evidence explains the rows best, judged on some of them.

How smooth the function is, and whether there is a line beneath it. Many data sets choose together, so that the
modules made of them have one kernel. Likewise the likelihood, where a name stands for several (likelihood="counts"),
and how functions see y, where the data decide (`best_alternatives`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..likelihoods import Moments
from ..logs import logger
from . import batch_fit
from .constants import COMPARISON
from .functions import FunctionRequests
from .options import AUTO, FitOptions
from .request import FitRequest, Method

__all__ = ["AUTO", "SMOOTHNESS", "best", "best_alternatives", "chosen"]

log = logger(__name__)

SMOOTHNESS = ("rbf", "matern52", "matern32")
LINE = "{} + linear"


def best(score: Callable[[str], float]) -> str:
    """Of the candidates the one with the highest score, a kernel with a line beneath it only where that is clear."""
    plain = {name: score(name) for name in SMOOTHNESS}
    lined = {LINE.format(name): score(LINE.format(name)) for name in SMOOTHNESS}
    first, other = (max(scores, key=lambda name: scores[name]) for scores in (plain, lined))
    chosen = other if lined[other] > plain[first] + COMPARISON.line_gain else first
    log.info("kernel %s; log evidence %s", chosen, plain | lined)
    return chosen


def chosen(options: FitOptions, requests: Callable[[FitOptions], Sequence[FunctionRequests]]) -> FitOptions:
    """The options with all that the data are to choose, from requests for any of the candidates."""
    if options.chooses_likelihood:
        kernel = SMOOTHNESS[0] if options.chooses_kernel else options.inference.kernel
        first, *others = options.likelihoods
        score = {p: _evidence(requests(options.changed(likelihood=p, kernel=kernel))) for p in (first, *others)}
        other = max(others, key=lambda p: score[p])
        found = other if score[other] > score[first] + COMPARISON.way_gain else first
        log.info("likelihood %s; log evidence %s", found, score)
        options = options.changed(likelihood=found)
    if options.chooses_kernel:
        options = options.changed(kernel=best(lambda name: _evidence(requests(options.changed(kernel=name)))))
    return options


def _evidence(requests: Sequence[FunctionRequests]) -> float:
    """Of some rows of some data sets, each at its own best hyperparameters, with their prior."""
    if not requests:
        return 0.0
    step = -(-len(requests) // COMPARISON.sets)
    kinds: dict[Any, list[FitRequest]] = {}
    for own in requests[::step]:
        few = [some_rows(r) for r in own.requests]
        kinds.setdefault((few[0].kind, own.group), []).extend(few)
    values = torch.cat([batch_fit.log_evidence(alike, group) for (_, group), alike in kinds.items()])
    return float(values.nan_to_num(neginf=-1e9).sum())


def some_rows(request: FitRequest) -> FitRequest:
    """A request for some of the rows; Gaussian ones exactly, which needs no points."""
    rng = np.random.default_rng([*request.entropy, 3])
    some = torch.as_tensor(rng.permutation(len(request.y))[: COMPARISON.rows], device=request.X.device)
    exact = request.likelihood.conjugate
    return request.with_sample(request.sample.take(some))._replace(
        method=Method.EXACT if exact else request.method,
        inducing=0 if exact else request.inducing,
        publish=1,
    )


# --- how functions see y: by how well each row (of some) is predicted by all others --------------


def best_alternatives(requests: list[FunctionRequests]) -> list[FunctionRequests]:
    """Each as usual, or in another way where that is clearly better."""
    undecided = [i for i, own in enumerate(requests) if own.alternatives]
    if not undecided:
        return requests
    ways = len(requests[undecided[0]].alternatives)
    trials = [
        [requests[i] for i in undecided],
        *([requests[i].alternatives[way] for i in undecided] for way in range(ways)),
    ]
    scores = [leave_one_out_log_prob(trial) for trial in trials]
    found = list(requests)
    for n, i in enumerate(undecided):
        best = max(range(1, 1 + ways), key=lambda way: scores[way][n])
        clearly = scores[best][n] > scores[0][n] + COMPARISON.way_gain
        found[i] = trials[best][n] if clearly else trials[0][n]
    return [own._replace(alternatives=()) for own in found]


def leave_one_out_log_prob(requests: Sequence[FunctionRequests]) -> list[float]:
    """The log-probability of each data set's classes, every row (of some) by all others."""
    found: dict[int, float] = {}
    alike: dict[Any, list[int]] = {}
    few = [[some_rows(r) for r in own.requests] for own in requests]
    for i, own in enumerate(requests):
        alike.setdefault((few[i][0].kind, own.group), []).append(i)
    for (_, group), members in alike.items():
        C = group.functions
        left = batch_fit.leave_one_out([r for i in members for r in few[i]], group)
        mean, variance = (t.cpu().unflatten(0, (-1, C)).mT for t in (left.mean, left.variance))  # (B, n, C)
        for n, i in enumerate(members):
            y = torch.stack([r.y.cpu() for r in few[i]]).argmax(0)  # the class is where the observation is highest
            at = Moments(mean[n, : len(y)], variance[n, : len(y)])
            p = requests[i].likelihood.log_density_at(y, at)
            counts = few[i][0].counts
            found[i] = float((p if counts is None else counts.cpu() * p).sum().nan_to_num(-1e300))
    return [found[i] for i in range(len(requests))]
