"""Somebody nobody has met, where few owners are known: effects whose variances have one of several scales."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..core.effects import Scales
from ..core.posterior import Joint
from ..likelihoods import Likelihood, Moments, Observed
from .group import Group
from .processes import DrawnParts


def observed(chosen: Likelihood, at: Moments, shared: Moments, scales: Sequence[Scales | None]) -> Observed:
    """y, from moments (n, C) with effects at their mean scale, and from those of the shared functions.

    Scales are those of each function, None where its effects have none, or there are none.
    """
    known = next(s for s in scales if s is not None)
    each = [[1.0] * len(known.values) if s is None else s.relative for s in scales]
    relative = at.variance.new_tensor(each).T  # (scales, functions)
    ways = tuple(Moments(at.mean, shared.variance + own * (at.variance - shared.variance)) for own in relative)
    return Observed(chosen, at, ways, known.weights)


def parts_to_draw(group: Group, points: Tensor, owner: str | None) -> DrawnParts:
    """What f of this owner is the sum of."""
    whole, scales = group.process(owner, of_y=False).together(points), group.scales_of(owner, group.functions[0])
    if scales is None:
        return [whole], None
    shared = group.process(None, of_y=False).together(points)
    return [shared, Joint(whole.mean, (whole.covariance - shared.covariance) / scales.mean)], scales
