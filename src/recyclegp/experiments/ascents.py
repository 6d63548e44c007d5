"""The paper's variational EM as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..baselines.vem import PUBLISHED, Climbed, Rates, vem
from ..models.module import Module
from .core import Held, Measured, Row, answered, published_bytes, timed

DIVERGED_ABOVE = 1e6  # times the largest y²: predictions beyond are those of a diverged ascent


def both(
    case: str,
    modules: Sequence[Module],
    Z: Any,
    held: Held,
    *,
    fitting: float,
    steps: int,
    limit: float,
    rates: Rates = PUBLISHED,
    seed: int = 0,
) -> tuple[Measured[Climbed], Measured[Climbed]]:
    """As published, and by a quasi-Newton method; both from the pooled kernel and the points Z.

    Args:
        case: what the table calls the data.
        modules: what they climb to merge.
        Z: where the points Z_* begin.
        held: what is asked, and the answers.
        fitting: seconds the local fits took.
        steps: of the published one; ten rounds of Algorithm 1 are 500.
        limit: seconds for either, and the only limit for the second.
        rates: of the published one.
        seed: of the first q.

    Returns:
        Both, each with its row of the table.
    """
    options: dict[str, Any] = {"learn": ("q", "kernel", "points"), "seconds": limit, "seed": seed}

    def measure(name: str, **how: Any) -> Measured[Climbed]:
        found, seconds = timed(lambda: vem(modules, Z, **options, **how))
        return Measured(_row(case, name, found, modules, held, fitting + seconds), found)

    return (
        measure("VEM as published", optimiser="published", rates=rates, max_steps=steps),
        measure("VEM by L-BFGS", optimiser="lbfgs"),
    )


def evenly(modules: Sequence[Module], count: int) -> np.ndarray:
    """Points over the region of the modules' points, as the authors begin: in one dimension."""
    Z = np.concatenate([m.inducing for m in modules])
    return np.linspace(Z.min(), Z.max(), count)[:, None]


def _row(case: str, name: str, found: Climbed, modules: Sequence[Module], held: Held, seconds: float) -> Row:
    M, steps, sent = len(found.inducing), f"{found.trace[-1].steps} steps", published_bytes(modules)
    name = f"{name}, M={M}"
    if not _lost(found, held):
        return answered(case, name, found, *held, sent, seconds=seconds, note=steps)
    unknown = (math.nan,) * 5
    return Row(case, name, *unknown, "y" if held.f is None else "f", seconds, math.nan, sent, M, f"diverged, {steps}")


def _lost(found: Climbed, held: Held) -> bool:
    """An ascent that left all reason: no score would mean anything."""
    if found.stopped == "diverged":
        return True
    mean, variance = found.predict(held.X)
    return not bool(np.all(np.abs(mean) + variance < DIVERGED_ABOVE * (1 + np.square(held.y).max())))
