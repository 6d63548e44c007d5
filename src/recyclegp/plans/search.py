"""Quasi-Newton across rounds: where to ask next, given all answers so far. A value, so that it survives in a file.

One step is asked for at a time: `trial` is where the bound is wanted; then either `accepted` (with the slope there) or
`rejected` says where next. The same BFGS and backtracking as `core/optimiser`, which cannot wait for e-mail.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

LONGEST = 2.0  # largest change of any (log-)parameter in one step, as in core/optimiser
ARMIJO = 1e-4
SHORTEST = 1e-3  # of a step, below which no better place is looked for
FLAT = 1e-3  # nats per unit of x: a maximum
SMALL = 1e-7  # of |bound|: two steps that gain less end the search
REACH = 12.0  # logarithms of parameters stay within this of where they began


class Search(NamedTuple):
    """A climb of F(x): the best place so far, and the step that is tried from there."""

    x: Tensor  # (p,)
    step: Tensor  # (p,)
    slope: Tensor  # (p,)  ∂F/∂x at x
    metric: Tensor  # (p, p)  −(∂²F)⁻¹, as far as it is known
    centre: Tensor  # (p,)  where it began: the middle of the box
    length: float = 1.0
    value: float = -math.inf  # F at x; −∞ where it is not known
    evaluations: int = 0
    stalled: int = 0  # steps running that have gained next to nothing
    done: bool = False

    @staticmethod
    def start(x: Tensor) -> Search:
        zero = torch.zeros_like(x)
        return Search(x, zero, zero, torch.eye(len(x), dtype=x.dtype), x)

    @property
    def trial(self) -> Tensor:
        """Where F is wanted next."""
        return self._inside(self.x + self.length * self.step)

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.centre - REACH, self.centre + REACH)

    def high_enough(self, value: float) -> bool:
        """Sufficient increase; anything will do where nothing is known to compare it with."""
        rise = float(self.slope @ (self.trial - self.x))
        return value >= self.value + ARMIJO * rise - 1e-12 * abs(value)

    def rejected(self, value: float) -> Search:
        """A shorter step: to the top of the parabola through F, its slope and the value that is too low."""
        rise = self.length * float(self.slope @ self.step)
        drop = self.value + rise - value
        ratio = 0.5 * rise / drop if math.isfinite(drop) and drop > 0 else 0.1
        length = self.length * min(0.5, max(0.1, ratio))
        found = self._replace(length=length, evaluations=self.evaluations + 1)
        return found if length > SHORTEST else found._stopped()

    def accepted(self, value: float, slope: Tensor) -> Search:
        """The trial is the new place; its slope says how F bends."""
        x, known = self.trial, math.isfinite(self.value)
        s, y = x - self.x, self.slope - slope  # −F is minimised
        curved = known and float(s @ y) > 1e-10 * float(s.norm() * y.norm()) and float(s @ y) > 0
        metric = self.metric
        first = not bool((self.step != 0).any()) or bool((metric == torch.eye(len(x), dtype=x.dtype)).all())
        if curved:
            if first:
                metric = float(s @ y) / float(y @ y) * torch.eye(len(x), dtype=x.dtype)
            A = torch.eye(len(x), dtype=x.dtype) - torch.outer(s, y) / (s @ y)
            metric = A @ metric @ A.mT + torch.outer(s, s) / (s @ y)
        elif known and not first:
            metric = 4 * metric  # F does not bend: a longer step
        small = known and value - self.value <= SMALL * max(1.0, abs(value))
        stalled = self.stalled + 1 if small else 0
        now = self._replace(
            x=x, slope=slope, metric=metric, value=value, length=1.0, stalled=stalled, evaluations=self.evaluations + 1
        )
        free = now._free_slope()
        if not bool((free.abs() > FLAT).any()) or stalled >= 2:
            return now._stopped()
        return now._with_step(free)

    def _with_step(self, free: Tensor) -> Search:
        metric = self.metric
        if bool((metric == torch.eye(len(free), dtype=free.dtype)).all()):  # nothing is known of how F bends
            step = free / free.norm().clamp_min(1.0)
        else:
            step = metric @ free
            if float(step @ free) <= 0:
                step = free / free.norm().clamp_min(1.0)
        blocked = (free == 0) & (self.slope != 0)
        step = step.masked_fill(blocked, 0.0)
        return self._replace(step=step * (LONGEST / step.abs().max().clamp_min(LONGEST)))

    def _free_slope(self) -> Tensor:
        """Without what pushes against the box."""
        low, high = self.x <= self.centre - REACH, self.x >= self.centre + REACH
        return self.slope.masked_fill((low & (self.slope < 0)) | (high & (self.slope > 0)), 0.0)

    def _stopped(self) -> Search:
        return self._replace(step=torch.zeros_like(self.x), length=1.0, done=True)
