"""A merge with all defaults, beside learning its kernel once: what screening, owners and smoothness cost."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import recyclegp as rgp
from speed_rows import Row, interleaved, versus


class Owners(NamedTuple):
    """Owners of as many rows, whose modules have as many points."""

    count: int
    points: int
    dimension: int
    rows: int

    def modules(self, seed: int, **options: Any) -> Any:
        """Of one smooth function, seen with a little noise."""
        rng = np.random.default_rng(seed)
        inputs = [rng.uniform(0, 1, (self.rows, self.dimension)) for _ in range(self.count)]
        parts = [(X, np.sin(3 * X).sum(1) + 0.1 * rng.normal(size=self.rows)) for X in inputs]
        return rgp.fit_many(parts, publish=self.points, progress=False, **options)


def against_once(owners: Owners, rounds: int, seed: int) -> Row:
    """The reference learns the kernel that the default merge has found, by its name; owners are alike, and trusted."""
    modules = owners.modules(seed)
    name = rgp.merge(modules).kernel_spec.describe().split("(")[0]

    def once() -> rgp.Ensemble:
        return rgp.merge(modules, kernel=name, owners=None, trust=None)

    times = interleaved({"default": lambda: rgp.merge(modules), "once": once}, rounds)
    return Row(
        "merge",
        f"default merge of {owners.count} owners × {owners.points} points in {owners.dimension}-D",
        f'the same with kernel="{name}", owners=None, trust=None',
        cost=True,
        target=1.5,
        note="all defaults: screening, kernels, owners and noise, beside learning that kernel once",
        sizes=owners._asdict(),
        **versus(times, "default", "once"),
    )
