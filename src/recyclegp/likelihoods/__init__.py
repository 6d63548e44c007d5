"""Likelihoods p(y | f_1 … f_C) as objects with methods; `named` finds one by the name that users have for it.

A new likelihood, of one function or of several, is a new file here with one frozen class, and an entry in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Argument, RecycleGPError
from .base import Change, FunctionRows, Likelihood, Moments, Scale, Sharing, Tail
from .bernoulli import Bernoulli, BernoulliProbit
from .categorical import Categorical, SoftmaxCategorical
from .dirichlet import DirichletCategorical
from .gaussian import Gaussian, gaussian_noise, normal_quantile
from .heteroscedastic import Heteroscedastic
from .outputs import Outputs, matrix, noise_of_cells
from .poisson import Poisson
from .quantiles import Interval
from .several import MOST_FUNCTIONS, SeveralFunctions, check_names
from .student_t import StudentT

__all__ = [
    "FAMILIES",
    "MOST_FUNCTIONS",
    "Bernoulli",
    "BernoulliProbit",
    "Categorical",
    "Change",
    "DirichletCategorical",
    "FunctionRows",
    "Gaussian",
    "Heteroscedastic",
    "Interval",
    "Likelihood",
    "Moments",
    "Outputs",
    "Poisson",
    "Scale",
    "SeveralFunctions",
    "Sharing",
    "SoftmaxCategorical",
    "StudentT",
    "Tail",
    "check_names",
    "choose",
    "gaussian_noise",
    "matrix",
    "named",
    "noise_of_cells",
    "normal_quantile",
    "only",
]

FAMILIES: dict[str, type[Likelihood]] = {
    family.name: family
    for family in (
        Gaussian,
        Bernoulli,
        BernoulliProbit,
        Poisson,
        StudentT,
        SoftmaxCategorical,
        DirichletCategorical,
        Heteroscedastic,
    )
}


def named(name: str, parameters: Sequence[float] = ()) -> Likelihood:
    """The likelihood of that name; without parameters they are not known."""
    if not isinstance(name, str):
        raise TypeError(f"likelihood must be a name, not {type(name).__name__}")
    if name not in FAMILIES:
        raise RecycleGPError(Argument("likelihood", name[:50]), f" is not known; use one of {', '.join(FAMILIES)}")
    family = FAMILIES[name]
    if len(parameters) not in (0, len(family.parameter_names)):
        raise RecycleGPError(
            f"likelihood {name!r} takes {len(family.parameter_names)} positive parameters {family.parameter_names}, "
            f"got {tuple(parameters)}"
        )
    return family(*parameters)


def choose(likelihoods: Sequence[Likelihood], name: str | None) -> Likelihood:
    """The one meant, where a model may have several; its parameters must be known."""
    names = [p.name for p in likelihoods]
    if name is None:
        chosen = only(likelihoods)
    elif named(name).name in names:
        chosen = likelihoods[names.index(name)]
    else:
        raise RecycleGPError(Argument("likelihood", name), f": this model has {', '.join(names)}")
    if not chosen.known:
        raise RecycleGPError(
            f"the noise of this {chosen.name} model is not known; pass ",
            Argument("noise"),
            " where it is made or updated, or use predict for the latent f",
        )
    return chosen


def only(likelihoods: Sequence[Likelihood]) -> Likelihood:
    if len(likelihoods) > 1:
        names = ", ".join(p.name for p in likelihoods)
        raise RecycleGPError("this model has several likelihoods; pass ", Argument("likelihood"), f" one of {names}")
    return likelihoods[0]
