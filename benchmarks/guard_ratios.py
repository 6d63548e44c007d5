"""Ours beside a reference, in turn and in one process, by the time that its one thread has computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch

import guard_commands
import recyclegp as rgp
from data import adjoining, intervals
from guard_rows import Row
from peer_sklearn import one
from recyclegp.baselines.vem import vem
from speed_cases import SIDE, merged, timing_case
from speed_fit import COLLAPSED, EXACT
from speed_merge import exact_step, products
from speed_rows import interleaved, timed

ROUNDS = 15
SHORT = 100  # of what takes milliseconds: a busy machine leaves few of them alone
CPU = time.process_time  # waiting for others on the same core does not count


def ratio(ours: Callable[[], Any], reference: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Best against best: what others do on the same cores only ever adds."""
    times = interleaved({"ours": ours, "reference": reference}, rounds, CPU)
    return min(times["ours"]) / min(times["reference"])


def against_vem() -> Iterator[Row]:
    """The closed form beside two ascents to the same maximum, at one kernel and one set of points."""
    modules = rgp.fit_many(adjoining(50, 200, np.random.default_rng(0)), publish=3, progress=False)
    learned = rgp.merge(modules, inducing=35)
    kernel, Z = learned.kernel, learned.inducing

    def ours() -> rgp.Ensemble:
        return rgp.merge(modules, kernel=kernel, inducing=Z, learn=False)

    bound = ours().bound
    limits = {"lbfgs": (3.0, 8, 4.0), "published": (400.0, 1, 800.0)}
    best = min(timed(ours, CPU)[0] for _ in range(SHORT))
    for way, (limit, times, target) in limits.items():
        options = {"kernel": kernel, "optimiser": way, "target": bound, "seconds": 30.0, "seed": 0}
        with mock.patch.object(time, "perf_counter", CPU):  # by which it measures itself
            runs = [vem(modules, Z, **options) for _ in range(times)]
        theirs = min(found.trace[-1].seconds for found in runs)
        yield Row(f"VEM ({way}) / merge, 50 modules, M=35", theirs / best, limit, True, target)


def doubling() -> Iterator[Row]:
    case = timing_case(1280, 35, 1, 0)
    found = ratio(lambda: merged(case, 1280), lambda: merged(case, 640), 7)
    yield Row("merge of 1,280 modules / of 640, M=35", found, 2.6)


def floor() -> Iterator[Row]:
    """What no merge can avoid: V = L⁻¹K_*k and HᵀH."""
    case = timing_case(500, 128, 2, 0)
    yield Row(
        "merge of 500 modules, M=128 / two products",
        ratio(lambda: merged(case, 500), products(128, 1500, 0), SHORT),
        8.0,
        target=3.0,
    )


def screening() -> Iterator[Row]:
    """Honest modules of a wave, many of which stand out until a kernel is learned from the others."""
    modules = rgp.fit_many(list(intervals(400, 200, 0)), progress=False, **COLLAPSED)
    found = ratio(lambda: rgp.merge(modules), lambda: rgp.merge(modules, trust=None), 2)
    yield Row("default merge of 400 modules / trust=None", found, 1.6)


def exact_evidence() -> Iterator[Row]:
    step, factor = exact_step(4, 128, 8, 0)
    yield Row("exact evidence and gradient, n=512 / a factor", ratio(step, factor), 4.0, target=3.0)


def predictions() -> Iterator[Row]:
    few, many = (merged(timing_case(500, 128, 2, 0), K) for K in (10, 500))
    X = np.random.default_rng(0).uniform(0, SIDE, (5000, 2))
    Z, points, A = torch.tensor(many.inducing), torch.tensor(X), torch.randn(128, 128, dtype=torch.float64)

    @torch.no_grad()
    def reference() -> torch.Tensor:
        return A @ many.kernel_spec.matrix(Z, points)

    yield Row("predict 5,000 points, M=128 / kernel and product", ratio(lambda: many.predict(X), reference), 4.0)
    yield Row("predict, 500 modules merged / 10", ratio(lambda: many.predict(X), lambda: few.predict(X)), 1.4)


def fits() -> Iterator[Row]:
    parts = adjoining(200, 200, np.random.default_rng(0))
    together = ratio(
        lambda: rgp.fit_many(parts, progress=False, **COLLAPSED), lambda: rgp.fit(*parts[0], **COLLAPSED), 3
    )
    yield Row("200 × fit / fit_many of 200, collapsed", 200 / together, 8.0, at_least=True)
    some = parts[::4]
    beside = ratio(lambda: rgp.fit_many(some, progress=False, **EXACT), lambda: [one(*part) for part in some], 3)
    yield Row("scikit-learn / fit_many of 50, exact", 1 / beside, 2.5, True, 4.0)


def commands() -> Iterator[Row]:
    """Whole processes, from their start to their end."""
    with guard_commands.files() as folder:
        found = guard_commands.times_of_python(guard_commands.COMMANDS, folder)
        for command, times in zip(guard_commands.COMMANDS, found, strict=True):
            yield Row(f"recyclegp {command.what} / python -c pass", times, command.most, target=5.0)
        with_torch = guard_commands.WITH_TORCH
        (times,) = guard_commands.times_of_python([with_torch], folder, rounds=2)
        yield Row(f"recyclegp {with_torch.what} / python -c pass", times, with_torch.most)


ROWS = {f.__name__: f for f in (against_vem, doubling, floor, screening, exact_evidence, predictions, fits, commands)}
