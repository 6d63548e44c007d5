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
from .gaussian_mixture import GaussianMixture, mixed
from .heteroscedastic import Heteroscedastic
from .lognormal import Lognormal
from .negative_binomial import NegativeBinomial
from .observed import Observed
from .ordinal import Ordinal
from .outputs import Outputs, matrix, noise_of_cells
from .poisson import Poisson
from .quantiles import Interval
from .several import MOST_FUNCTIONS, SeveralFunctions, check_names
from .student_t import StudentT
from .survival import Survival

FAMILIES: dict[str, type[Likelihood]] = {
    family.name: family
    for family in (
        Gaussian,
        Lognormal,
        Bernoulli,
        BernoulliProbit,
        Poisson,
        NegativeBinomial,
        StudentT,
        Survival,
        SoftmaxCategorical,
        DirichletCategorical,
        Heteroscedastic,
        Ordinal,
    )
}

MERGE_KNOWN = "merge it with modules that were fitted, whose own is then used, "

# names for several families, of which the data choose one; the first is usual
CHOICES: dict[str, tuple[str, ...]] = {"counts": (Poisson.name, NegativeBinomial.name)}


def named(name: str, parameters: Sequence[float] = ()) -> Likelihood:
    """The likelihood of that name, in which "_" is as good as "-"; without parameters they are not known."""
    if not isinstance(name, str):
        raise TypeError(f"likelihood must be a name, not {type(name).__name__}")
    name = name.replace("_", "-")
    if name not in FAMILIES:
        raise RecycleGPError(Argument("likelihood", name[:50]), f" is not known; use one of {', '.join(FAMILIES)}")
    return FAMILIES[name]().with_parameters(parameters)


def first_of(name: str) -> Likelihood:
    """The likelihood of that name, or the usual one of those that it stands for: all of them take the same y."""
    return named(CHOICES[name][0] if name in CHOICES else name)


def choose(likelihoods: Sequence[Likelihood], name: str | None) -> Likelihood:
    """The one meant, where a model may have several; its parameters must be known."""
    names = [p.name for p in likelihoods]
    among = [known for known in CHOICES.get(str(name), ()) if known in names]
    if name is None:
        chosen = only(likelihoods)
    elif among:
        chosen = likelihoods[names.index(among[-1])]  # the most general of those that the name stands for
    elif (wanted := named(name).name) in names:
        chosen = likelihoods[names.index(wanted)]
    else:
        raise RecycleGPError(Argument("likelihood", name), f": this model has {', '.join(names)}")
    if not chosen.known:
        one = next(own for own in chosen.parts if not own.known)  # of several outputs
        raise RecycleGPError(
            f"the {one.parameter_names[0]} of this {one.name} model is not known; ",
            *(["pass ", Argument("noise"), " where it is made or updated, "] if one.has_units else [MERGE_KNOWN]),
            "or use predict for the latent f",
        )
    return chosen


def only(likelihoods: Sequence[Likelihood]) -> Likelihood:
    if len(likelihoods) > 1:
        names = ", ".join(p.name for p in likelihoods)
        raise RecycleGPError("this model has several likelihoods; pass ", Argument("likelihood"), f" one of {names}")
    return likelihoods[0]
