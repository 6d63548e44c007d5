"""Likelihoods of ours that GPyTorch does not have, as GPyTorch likelihoods, and back to GPyTorch's own."""

from __future__ import annotations

from typing import Any

import gpytorch
import torch
from gpytorch.constraints import Positive
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    StudentTLikelihood,
    _OneDimensionalLikelihood,
)
from torch import Tensor

from ..errors import RecycleGPError
from ..likelihoods import (
    Bernoulli,
    BernoulliProbit,
    Gaussian,
    Likelihood,
    Lognormal,
    NegativeBinomial,
    Poisson,
    StudentT,
    Survival,
)


class LogisticLikelihood(_OneDimensionalLikelihood):
    """p(y = 1 | f) = 1/(1 + e⁻ᶠ); GPyTorch's BernoulliLikelihood is the probit."""

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> torch.distributions.Bernoulli:
        return torch.distributions.Bernoulli(logits=function_samples)


class PoissonLikelihood(_OneDimensionalLikelihood):
    """Counts with rate eᶠ."""

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> torch.distributions.Poisson:
        return torch.distributions.Poisson(function_samples.exp())


class NegativeBinomialLikelihood(_OneDimensionalLikelihood):
    """Counts with mean μ = eᶠ and variance μ + μ²/r."""

    def __init__(self, dispersion: float) -> None:
        super().__init__()
        log_dispersion = torch.nn.Parameter(torch.tensor(dispersion, dtype=torch.float64).log())
        self.register_parameter("log_dispersion", log_dispersion)

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> torch.distributions.NegativeBinomial:
        log_r = self.log_dispersion
        return torch.distributions.NegativeBinomial(log_r.exp(), logits=function_samples - log_r)


class LognormalLikelihood(_OneDimensionalLikelihood):
    """log y ~ N(f, noise)."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.register_parameter("log_noise", torch.nn.Parameter(torch.tensor(noise, dtype=torch.float64).log()))

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> torch.distributions.LogNormal:
        return torch.distributions.LogNormal(function_samples, (0.5 * self.log_noise).exp())


WITHOUT_PARAMETERS = {
    Bernoulli: LogisticLikelihood,
    BernoulliProbit: BernoulliLikelihood,
    Poisson: PoissonLikelihood,
}


def to_gpytorch(likelihood: Likelihood) -> gpytorch.likelihoods.Likelihood:
    """With constraints that exclude nothing a model may have learned (GPyTorch's own begin at 1e-4 and 2)."""
    made: gpytorch.likelihoods.Likelihood
    if isinstance(likelihood, (Lognormal, Survival)):  # of a new time, which is not censored
        made = LognormalLikelihood(*likelihood.parameters)
    elif isinstance(likelihood, Gaussian):
        made = GaussianLikelihood(noise_constraint=Positive()).double()
        made.noise = torch.tensor(likelihood.parameters, dtype=torch.float64)
    elif isinstance(likelihood, StudentT):
        made = StudentTLikelihood(deg_free_constraint=Positive()).double()
        made.noise, made.deg_free = torch.tensor(likelihood.parameters, dtype=torch.float64)[:, None]
    elif isinstance(likelihood, NegativeBinomial):
        made = NegativeBinomialLikelihood(*likelihood.parameters)
    elif type(likelihood) not in WITHOUT_PARAMETERS:
        raise RecycleGPError(f"to_gpytorch: GPyTorch has no likelihood {likelihood.name!r}; use predict_y")
    else:
        made = WITHOUT_PARAMETERS[type(likelihood)]()
    return made.eval()
