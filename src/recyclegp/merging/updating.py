"""New rows of data, summarised at points by themselves: no other module has a part in what they say.

The maximiser of the combined bound would summarise rows that are not Gaussian in the light of all modules that are
there: a better place to approximate their likelihood at, but what those modules said would then be in the summary, and
could not be taken out when one of them is removed. So new rows are summarised as a module of their own is, under the
ensemble's prior. For Gaussian rows the two are the same (theorem 7). For others it costs next to nothing once a few
dozen rows come together, and little where they come one by one; `Ensemble.update` says to collect them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..core import sites
from ..core.posterior import Basis
from ..core.sites import Site
from ..likelihoods import gaussian_noise
from ..local import dual, observations
from ..local.observations import Observed


class RowsSummary(NamedTuple):
    site: Site
    slack: float  # nats that the points cannot express
    settled: bool


@torch.no_grad()
def summarise(base: Basis, prior_mean: float, new: Observed, seen: torch.Tensor | None = None) -> RowsSummary:
    """eq. (local): the maximiser over q of the rows' bound under the prior at the points of the basis.

    Gaussian rows weigh 1/σ² (the collapsed bound), so that they add up: rows one by one are all of them at once. Of
    these, each speaks of the first `seen` points only, which were there when it came (`extending.cover`).
    """
    mean = torch.tensor(prior_mean, dtype=torch.float64)
    settled = True
    if new.likelihood.conjugate:
        rows = observations.stream(base, new.X, new.y, gaussian_noise(new.likelihood), mean, new.w, seen)
    else:
        data = dual.whiten(base, new.X, new.y, new.likelihood, mean)
        state = dual.fixed_point(data)
        rows, settled = dual.rows(data, state), bool(state.converged)
    return RowsSummary(sites.from_rows(base.Z, base.L, rows, mean), float(rows.slack), settled)
