"""Do a few move what the others know of f?

Whoever speaks where nobody else does can make kernel and owners' differences what they like, and these move f where
the others know it. What they know there is f ~ N(m, c), and they differ from each other by the variance v.
"""

from __future__ import annotations

from torch import Tensor

from ..core.posterior import Predicted
from .constants import SCREENING


def is_moved(here: Predicted, there: Predicted, own: float, prior: Tensor) -> bool:
    """By more than a few √(v + c), on average over the places where f is known? Also where it is known no more.

    Args:
        here: f as the others know it.
        there: f as it is with those few.
        own: v.
        prior: variance of f at these places, if nobody had said anything.
    """
    known = here.variance < SCREENING.known * prior
    away = (there.mean - here.mean).square() + (there.variance - here.variance).clamp_min(0)
    return bool(known.any()) and float((away / (own + here.variance))[known].mean()) > SCREENING.most_moved**2
