"""Likelihoods p(y|f) as objects with methods; `named` finds one by the name users and files have for it.

A new likelihood is a new file here with one frozen class, and an entry in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import RecycleGPError
from .base import Interval, Likelihood, Moments, Scale, Tail
from .bernoulli import Bernoulli, BernoulliProbit
from .dirichlet import DirichletCategorical
from .gaussian import Gaussian, gaussian_noise, normal_quantile
from .heteroscedastic import Heteroscedastic
from .joint import JointLikelihood
from .poisson import Poisson
from .softmax_categorical import SoftmaxCategorical
from .student_t import DEFAULT_DF, StudentT

__all__ = [
    "DEFAULT_DF",
    "FAMILIES",
    "Bernoulli",
    "BernoulliProbit",
    "DirichletCategorical",
    "Gaussian",
    "Heteroscedastic",
    "Interval",
    "JointLikelihood",
    "Likelihood",
    "Moments",
    "Poisson",
    "Scale",
    "SoftmaxCategorical",
    "StudentT",
    "Tail",
    "choose",
    "gaussian_noise",
    "named",
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
        raise RecycleGPError(f"likelihood={name[:50]!r} is not known; use one of {', '.join(FAMILIES)}")
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
        raise RecycleGPError(f"likelihood={name!r}: this model has {', '.join(names)}")
    if not chosen.known:
        raise RecycleGPError(
            f"the noise of this {chosen.name} model is not known; pass noise= where it is made or updated, or "
            "use predict for the latent f"
        )
    return chosen


def only(likelihoods: Sequence[Likelihood]) -> Likelihood:
    if len(likelihoods) > 1:
        names = ", ".join(p.name for p in likelihoods)
        raise RecycleGPError(f"this model has several likelihoods; pass likelihood= one of {names}")
    return likelihoods[0]
