"""GPyTorch's SVGP on one small data set, trained until its ELBO is as good as a bound it is given."""

from __future__ import annotations

from typing import NamedTuple

import gpytorch
import numpy as np
import torch
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy


class SVGP(gpytorch.models.ApproximateGP):
    """Whitened, with learned points, constant mean and a scaled RBF kernel: the model `fit` collapses."""

    def __init__(self, Z: torch.Tensor) -> None:
        q = CholeskyVariationalDistribution(len(Z))
        super().__init__(VariationalStrategy(self, Z, q, learn_inducing_locations=True))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


class Trained(NamedTuple):
    elbo: float  # of y in its own units
    steps: int
    reached: bool


def train(
    X: np.ndarray, y: np.ndarray, *, points: int, rate: float, target: float, most_steps: int, seed: int
) -> Trained:
    """Full batches of standardised data, which suits Adam; the ELBO is that of y as it came."""
    n, scale = len(y), float(y.std())
    inputs = torch.tensor((X - X.mean(0)) / X.std(0))
    targets = torch.tensor((y - y.mean()) / scale)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # GPyTorch draws its first variational mean
        Z = torch.quantile(inputs, torch.linspace(0, 1, points + 2, dtype=torch.float64)[1:-1], dim=0)
        model, likelihood = SVGP(Z).double(), gpytorch.likelihoods.GaussianLikelihood().double()
        elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
        optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=rate)
        model.train(), likelihood.train()
        best = -np.inf
        for step in range(1, most_steps + 1):
            optimiser.zero_grad()
            loss = -elbo(model(inputs), targets)
            best = max(best, -n * loss.item() - n * np.log(scale))
            if best >= target:
                return Trained(best, step, True)
            loss.backward()
            optimiser.step()
    return Trained(best, most_steps, False)
