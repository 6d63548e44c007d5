"""Numbers of likelihoods that were chosen, not derived. How finely integrals are summed stands where they are."""

from __future__ import annotations

import math
from typing import NamedTuple


class AmplitudePrior(NamedTuple):
    """Of the logarithm of a function's variance, in units of its scale."""

    centre: float
    sd: float


class Dirichlet(NamedTuple):
    """Classes as regressions. Chosen by hand; the data choose among those compared."""

    epsilon: float = 0.01  # of a class that was not seen in a row, unless rows say clearly otherwise
    # that are compared: the smaller, the surer of itself is a model of classes apart
    compared: tuple[float, ...] = (0.01, 0.003, 0.03)


class Scales(NamedTuple):
    """Where f is expected before anything is known. Chosen by hand."""

    separation: float = 2.0  # of f between classes that can be told apart
    df: float = 4.0  # degrees of freedom where nobody has said or learned them
    noise: float = 0.3  # of the variance of y
    # A few rows cannot tell that noise varies, and would publish that it does not; a merge of many could.
    log_noise: AmplitudePrior = AmplitudePrior(math.log(2.0), 0.5)


DIRICHLET = Dirichlet()
SCALES = Scales()
