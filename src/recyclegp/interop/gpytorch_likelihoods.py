"""Two likelihoods of ours that GPyTorch does not have, as GPyTorch likelihoods, and back to GPyTorch's own."""

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

from ..likelihoods import Likelihood


class LogisticLikelihood(_OneDimensionalLikelihood):
    """p(y = 1 | f) = 1/(1 + e⁻ᶠ); GPyTorch's BernoulliLikelihood is the probit."""

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> torch.distributions.Bernoulli:
        return torch.distributions.Bernoulli(logits=function_samples)


class PoissonLikelihood(_OneDimensionalLikelihood):
    """Counts with rate eᶠ."""

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> torch.distributions.Poisson:
        return torch.distributions.Poisson(function_samples.exp())


def to_gpytorch(likelihood: Likelihood) -> gpytorch.likelihoods.Likelihood:
    """With constraints that exclude nothing a model may have learned (GPyTorch's own begin at 1e-4 and 2)."""
    name, parameters = likelihood.name, likelihood.parameters
    made: gpytorch.likelihoods.Likelihood
    if name == "gaussian":
        made = GaussianLikelihood(noise_constraint=Positive()).double()
        made.noise = torch.tensor(parameters, dtype=torch.float64)
    elif name == "student-t":
        made = StudentTLikelihood(deg_free_constraint=Positive()).double()
        made.noise, made.deg_free = torch.tensor(parameters, dtype=torch.float64)[:, None]
    elif name == "bernoulli-probit":
        made = BernoulliLikelihood()
    else:
        made = LogisticLikelihood() if name == "bernoulli" else PoissonLikelihood()
    return made.eval()
