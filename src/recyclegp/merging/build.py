"""Members and their sites → a form, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..core.convergence import Convergence
from ..core.posterior import basis
from ..kernels import Kernel
from .folding import fold
from .learning import choose
from .member import Member
from .points import MOST_AUTOMATIC, PointsWanted
from .points_form import PointsForm
from .site_store import SiteStore


class Merged(NamedTuple):
    form: PointsForm
    convergence: Convergence  # of the search for its kernel


def step_cost(store: SiteStore, wanted: PointsWanted) -> float:
    """Multiplications in one step of learning, roughly."""
    points = len(wanted.given) if wanted.given is not None else wanted.count or min(MOST_AUTOMATIC, store.points)
    return float(points) ** 3 + store.points * points * (points + store.largest)


def build(start: Kernel, members: Sequence[Member], store: SiteStore, wanted: PointsWanted, *, learn: bool) -> Merged:
    """Kernel, mean and points chosen, and all sites folded onto them."""
    kernel, mean, Z, convergence = choose(start, members, store, wanted, learn=learn)
    with torch.no_grad():
        base = basis(kernel, Z)
    rows = fold(base, store, mean, marginal=False)
    return Merged(PointsForm(kernel, mean, base.Z, float(base.jitter), rows), convergence)
