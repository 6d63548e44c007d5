"""Somebody nobody has met: how far from the others such an owner may be, by leaving out those who are here one by one.

The merge says how large owners' effects are on the whole, and whether there are any, for which few owners must pay a
price: what is better for those who are known is not all there is to be said of others. `core.spread` has the formulas.
Nothing is learned from owners of whom the others know little, as in adjoining regions: there it is f that is looked at.
Sites of classes and counts are made about what their owners alone took f for, and are no such test.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import torch

from ..core.effects import FEWEST_DOF, Effects
from ..core.owner_posterior import FunctionPosterior, Level
from ..core.sites import Site
from ..core.spread import Prior, Spread, learn, left_out
from .constants import EFFECTS, SCREENING, STRANGERS
from .stacking import Comparison


@torch.no_grad()
def spread(compared: Comparison, shared: FunctionPosterior) -> Spread | None:
    """Effects of a new owner; None where they are as the merge has learned them."""
    if len(compared.owners) < STRANGERS.owners:
        return None
    kernel, learned = compared.kernel
    sites = [Site(*(t.to(compared.device) for t in own.now)) for own in compared.owners]
    everywhere = torch.cat([site.Z for site in sites])
    means = shared.predict(everywhere).mean
    level, size = float(means.mean()), float(means.std())
    variance = float(kernel.diagonal(everywhere).mean())
    varies = size > STRANGERS.constant * variance**0.5
    slopes = STRANGERS.slopes if varies else (0.0,)
    asked = learned if learned.present else _usual(variance)
    levels = [Level(slope, level, size if varies else 1.0) for slope in slopes]
    factors = torch.stack([own.factors(means) for own in levels]).cpu().numpy()
    ends = [0, *accumulate(len(site.Z) for site in sites)]
    owners = [
        left_out(merged, site, kernel, asked, factors[:, i:j], known=learned.present)
        for merged, site, (i, j) in zip(compared.merged, sites, pairwise(ends), strict=True)
    ]
    owners = [own for own in owners if own.known >= SCREENING.checked]
    if len(owners) < STRANGERS.owners:
        return None
    dof = float(max((learned.owners or len(owners)) - 1, FEWEST_DOF))
    prior = Prior(STRANGERS.scale_sd, STRANGERS.dof, STRANGERS.least, STRANGERS.level_gain)
    found = learn(owners, slopes, dof, prior, known=learned.present)
    if found is None:
        return None
    return Spread(asked, found.scales, levels[found.slope] if slopes[found.slope] else None)


def _usual(variance: float) -> Effects:
    """As large beside f as effects are before anything is known."""
    return Effects(EFFECTS.offset_share * variance, EFFECTS.smooth_share)
