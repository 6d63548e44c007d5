"""Prediction: against its floor, and the same whether ten modules or thousands were merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from recyclegp.core.posterior import POINTS
from speed_cases import SIDE, merged, timing_case
from speed_rows import Options, Row, interleaved, versus


class Sizes(NamedTuple):
    M: int
    points: int
    few: int
    many: int
    rounds: int


FULL = Sizes(M=512, points=50_000, few=10, many=5000, rounds=9)
QUICK = Sizes(M=128, points=10_000, few=10, many=500, rounds=5)


def rows(options: Options) -> Iterator[Row]:
    sizes = QUICK if options.quick else FULL
    case = timing_case(sizes.many, sizes.M, 2, options.seed)
    few, many = merged(case, sizes.few), merged(case, sizes.many)
    X = np.random.default_rng(options.seed).uniform(0, SIDE, (sizes.points, 2))
    kernel = many.kernel_spec
    Z, points = torch.tensor(many.inducing), torch.tensor(X)
    A = torch.randn(sizes.M, sizes.M, dtype=torch.float64, generator=torch.Generator().manual_seed(options.seed))

    def floor() -> None:
        """One row of the kernel and one M×M product for each point, in the chunks `predict` takes."""
        for chunk in points.split(POINTS):
            A @ kernel.matrix(Z, chunk)

    calls = {"few": lambda: few.predict(X), "many": lambda: many.predict(X), "floor": floor}
    with torch.no_grad():
        times = interleaved(calls, sizes.rounds)
    what = sizes._asdict()
    yield Row(
        "predict",
        f"predict {sizes.points:,} points, M={sizes.M}",
        "kernel rows and one M×M product",
        cost=True,
        target=3.0,
        note=f"mean and variance, {sizes.many:,} modules behind them; same kernel, chunks and BLAS",
        sizes=what,
        **versus(times, "many", "floor"),
    )
    yield Row(
        "predict",
        f"predict, {sizes.many:,} modules merged",
        f"predict, {sizes.few} modules merged",
        cost=True,
        target=1.1,
        note="the same but for noise: nothing of a module is left once it is merged",
        sizes=what,
        **versus(times, "many", "few"),
    )
