"""Central intervals for a new observation y, with q(f) = N(m, v) integrated out."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .errors import RecycleGPError
from .metrics import LEVEL, distribution

GRID = 128  # variances at which a student-t's quantile is solved for
STEPS = 45  # halvings of its bracket
WIDEST = 1e6  # of that bracket, in scales; Cauchy's 97.5% is at 13


def reach(level: float = LEVEL) -> float:
    """Standard deviations to either side of a Gaussian's central interval."""
    return math.sqrt(2) * float(torch.special.erfinv(torch.tensor(level, dtype=torch.float64)))


def central(name: str, m: Tensor, v: Tensor, log_p: Tensor, level: float = LEVEL) -> tuple[Tensor, Tensor]:
    """The interval that holds y with this probability, and misses it on either side alike."""
    if name == "gaussian":
        half = reach(level) * (v + log_p[0].exp()).sqrt()
    elif name == "student-t":
        half = _student(v, log_p, 0.5 * (1 + level))
    else:
        raise RecycleGPError(f"an interval for y is not defined for likelihood {name!r}; use that of f")
    return m - half, m + half


def _student(v: Tensor, log_p: Tensor, p: float) -> Tensor:
    """Quantile of y − m: a smooth function of v alone, so that a table of it serves all points."""
    log_v = v.clamp_min(1e-12 * float(log_p[0].exp())).log()
    grid = torch.linspace(float(log_v.min()), float(log_v.max()) + 1e-9, GRID, dtype=v.dtype)
    zero = low = torch.zeros_like(grid)
    high = WIDEST * (grid.exp() + log_p[0].exp()).sqrt()
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        enough = distribution("student-t", middle, zero, grid.exp(), log_p)[1] >= p
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return torch.as_tensor(np.interp(log_v.numpy(), grid.numpy(), high.numpy()))
