"""Privacy: what an owner asks of its answers, and what is guaranteed of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..errors import Argument, RecycleGPError, warn_user
from ..plans.prior import Prior
from ..plans.private import Bounded, bounded_sums, released
from ..plans.sums import PlanRows, Sums
from ..record import PERSON, ROW, Guaranteed
from .ledger import Spent, noise_multiplier, spend


@dataclass(frozen=True)
class Privacy:
    """Differential privacy of an answer to a plan: `plan.contribute(X, y, privacy=Privacy(...))`.

    Args:
        epsilon: the guarantee: whoever sees the answer can tell by no more than ε, but for a chance of δ, whether one
            row (or person) was there.
        delta: that chance.
        bound: how far y may be from the plan's mean; what is farther is clipped. It must not be chosen from the rows.
        unit: what is protected: "row", or "person" (all rows of one, told by `contribute(persons=...)`).
        rows_each: of a person, so many rows count at most.
        ledger: a file at the owner's in which answers are written down, and which refuses what exceeds `budget`.
        budget: ε of all answers in the ledger together, at this δ; that of one answer unless given.
        public_rows: how many rows there are is no secret; otherwise the number has noise, too.
        public_plan: the plan was not made from these rows, or it does not matter; a plan that comes from a merge, or
            from rounds without privacy, is refused otherwise.

    Examples:
        >>> import recyclegp as rgp
        >>> rgp.Privacy(epsilon=1, delta=1e-6, bound=3.0).unit
        'row'
    """

    epsilon: float
    delta: float
    bound: float
    unit: str = ROW
    rows_each: int = 1
    ledger: str | PathLike[str] | None = None
    budget: float | None = None
    public_rows: bool = False
    public_plan: bool = False

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "bound"):
            arrays.number(getattr(self, name), name, positive=True)
        if not self.delta < 1:
            raise RecycleGPError(Argument("delta", self.delta), "; it must be below one, far below one over the rows")
        if self.unit not in (ROW, PERSON):
            raise RecycleGPError(Argument("unit", self.unit), "; use 'row' or 'person'")
        each = self.rows_each
        if isinstance(each, bool) or not isinstance(each, int) or each < 1 or (self.unit == ROW and each > 1):
            raise RecycleGPError(f"rows_each is {each!r}; it is a positive number, and one where rows are protected")
        if self.budget is not None and (self.ledger is None or self.budget < self.epsilon):
            raise RecycleGPError(Argument("budget", self.budget), "; it needs a ledger, and must be at least epsilon")

    @property
    def guaranteed(self) -> Guaranteed:
        return Guaranteed(self.epsilon, self.delta, self.bound, self.unit, self.rows_each)


class Protected(NamedTuple):
    """Exact sums, which stay here, and what decides how much noise they need."""

    exact: Sums
    known: Bounded
    multiplier: float  # σ
    what: str  # for the ledger


def protected(asked: Privacy, prior: Prior, rows: PlanRows, persons: Any, what: str) -> Sums:
    """Sums that may leave. What is spent is written down before."""
    found = bounded(asked, prior, rows, persons, what)
    spend_on(asked, found)
    return released(found.exact, found.known, found.multiplier, asked.rows_each, public_rows=asked.public_rows)


def spend_on(asked: Privacy, found: Protected) -> None:
    """Before anything leaves."""
    if asked.ledger is not None:
        new = Spent(found.what, found.multiplier)
        spend(Path(asked.ledger), asked.budget or asked.epsilon, asked.delta, new)


def bounded(asked: Privacy, prior: Prior, rows: PlanRows, persons: Any, what: str) -> Protected:
    """Sums of rows that are bounded, each of them and those of each person."""
    if asked.unit == PERSON:
        rows = rows.take(_kept(persons, len(rows.y), asked.rows_each))
    elif persons is not None:
        raise RecycleGPError("persons is for a Privacy that protects persons; leave it out")
    known = Bounded.of(prior, asked.bound)
    multiplier = noise_multiplier(float(asked.epsilon), float(asked.delta))
    clipped = int(((rows.y - prior.mean).abs() > asked.bound).sum())
    if clipped:
        warn_user(
            f"{clipped} of {len(rows.y)} values of y are farther than bound={asked.bound:g} from the plan's mean and "
            "were clipped; this is said here only, and is not in the answer"
        )
    return Protected(bounded_sums(prior, rows, known), known, multiplier, what)


def _kept(persons: Any, rows: int, each: int) -> Tensor:
    """Positions of at most so many rows of each person: the first ones."""
    if persons is None:
        raise RecycleGPError("persons is missing: where persons are protected, say whose each row is")
    whose = np.asarray(persons)
    if whose.shape != (rows,):
        raise RecycleGPError(f"persons has the shape {whose.shape}, and X has {rows} rows; one for each")
    _, who = np.unique(whose, return_inverse=True)
    order = np.argsort(who, kind="stable")
    sorted_ = who[order]
    first = np.concatenate([[True], sorted_[1:] != sorted_[:-1]])
    place = np.arange(rows) - np.maximum.accumulate(np.where(first, np.arange(rows), 0))
    return torch.from_numpy(np.sort(order[place < each]))


def rows_said(sums: Sums) -> int:
    """How many rows an answer says it has, where the number itself is noisy."""
    return max(1, math.floor(float(sums.n)))
