"""New rows of data, summarised at an ensemble's points beside what is known already."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core import sites
from ..core.sites import Site
from ..likelihoods import Likelihood, gaussian_noise
from ..local import dual, observations
from .points_form import PointsForm


class Summarised(NamedTuple):
    site: Site
    slack: float  # nats that the points cannot express
    settled: bool


@torch.no_grad()
def summarise(form: PointsForm, X: Tensor, y: Tensor, likelihood: Likelihood) -> Summarised:
    """eq. (combined): the maximiser over q of the new rows' bound beside all that the form knows."""
    base, mean = form.basis, torch.tensor(form.mean, dtype=torch.float64)
    settled = True
    if likelihood.conjugate:
        rows = observations.stream(base, X, y, gaussian_noise(likelihood), mean)
    else:
        data = dual.whiten(base, X, y, likelihood, mean)
        state = dual.fixed_point(data, base=form.bound_rows)
        rows, settled = dual.rows(data, state), bool(state.converged)
    return Summarised(sites.from_rows(base.Z, base.L, rows, mean), float(rows.slack), settled)
