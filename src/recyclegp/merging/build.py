"""Members and their sites → the merged posterior, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.convergence import Convergence
from ..core.least_squares import CentredRows
from ..core.posterior import basis
from ..kernels import Kernel
from .folding import fold
from .learning import choose
from .member import Member
from .points import PointsWanted
from .site_store import SiteStore


class Merged(NamedTuple):
    """A prior, points, and all that the members say about f there."""

    kernel: Kernel
    mean: float
    Z: Tensor
    jitter: float
    bound: CentredRows  # with their slack: the bound, and every prediction
    convergence: Convergence


def build(start: Kernel, members: Sequence[Member], store: SiteStore, wanted: PointsWanted, *, learn: bool) -> Merged:
    kernel, mean, Z, convergence = choose(start, members, store, wanted, learn=learn)
    with torch.no_grad():
        base = basis(kernel, Z)
    return Merged(kernel, mean, base.Z, float(base.jitter), fold(base, store, mean, marginal=False), convergence)
