"""Rows of data that come to a joint ensemble and speak of all its functions at once, as a module of each.

They are summarised as a module of their own is, under the ensemble's own priors (see `merging.updating`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core import sites
from ...core.convergence import Convergence
from ...core.posterior import basis
from ...likelihoods import DirichletCategorical, SoftmaxCategorical
from ...local import dual, observations, placement
from ...local.dual import WhitenedData
from ..ensemble import Ensemble
from ..module import Module
from .links import VARYING, Classes, Link

MOST_POINTS = 512  # at which new rows are summarised


@torch.no_grad()
def modules_of_rows(
    link: Link, parts: Sequence[Ensemble], X: Any, y: Any, name: str, owner: str | None
) -> dict[str, Module]:
    """A module for each function, by its name."""
    inputs = [part._inputs(X) for part in parts]  # levels of categories may have other codes in each
    count, device = len(inputs[0]), inputs[0].device
    checked = link.check(y, count, device)
    bases = [basis(part._form.kernel, _points(own, part)) for part, own in zip(parts, inputs, strict=True)]
    means = torch.tensor([part.mean for part in parts], dtype=torch.float64, device=device)
    if isinstance(link, Classes) and link.likelihood == DirichletCategorical.name:
        rows = []
        for c, base in enumerate(bases):
            seen = DirichletCategorical.observations(checked == c)
            level = seen.noise.mean()
            w = (level / seen.noise).sqrt()
            rows.append(observations.stream(base, inputs[c], seen.y, level, means[c], w))
        settled = True
    else:
        likelihood = VARYING if not isinstance(link, Classes) else SoftmaxCategorical()
        targets = (
            torch.nn.functional.one_hot(checked, len(link.names)).to(torch.float64).mT
            if isinstance(link, Classes)
            else checked.expand(len(link.names), -1)
        )
        each = zip(bases, inputs, targets, means, strict=True)
        seen_by = [dual.whiten(base, own, target, likelihood, mean) for base, own, target, mean in each]
        together = WhitenedData(
            torch.stack([s.V for s in seen_by]),
            torch.stack([s.spare for s in seen_by]),
            torch.stack([s.y for s in seen_by]),
            torch.stack([s.w for s in seen_by]),
            likelihood,
            means,
        )
        state = dual.fixed_point(together)
        found = dual.rows(together, state)
        rows = [type(found)(*(t[c] for t in found)) for c in range(len(parts))]
        settled = bool(state.converged)
    return {
        function: _module(part, base, own, name, owner, count, settled)
        for function, part, base, own in zip(link.names, parts, bases, rows, strict=True)
    }


def _module(part: Ensemble, base: Any, rows: Any, name: str, owner: str | None, count: int, settled: bool) -> Module:
    return Module(
        name=name,
        _site=sites.from_rows(base.Z, base.L, rows, part.mean),
        _kernel=part._form.kernel,
        mean=part.mean,
        jitter=float(base.jitter),
        likelihoods=part.likelihoods,
        rows=count,
        columns=part.columns,
        categories=part.categories,
        convergence=Convergence(settled, 0, "new rows"),
        method="update",
        target=part.target,
        given_owner=owner,
    )


def _points(X: Tensor, part: Ensemble) -> Tensor:
    """The rows themselves where they are few: what an ensemble is updated with stays where it is."""
    distinct = torch.unique(X, dim=0)
    if len(distinct) <= MOST_POINTS:
        return distinct
    rng = np.random.default_rng(placement.entropy(0, X, X[:, 0]))
    return placement.over(distinct, MOST_POINTS, part._form.kernel, rng)
