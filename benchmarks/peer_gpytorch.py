"""GPyTorch's SVGP on one small data set, trained until its ELBO stands still."""

from __future__ import annotations

import time
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


PATIENCE, RISE = 50, 0.01  # it stands still when so many steps together gain less than so many nats


class Trained(NamedTuple):
    elbo: float  # of y in its own units
    steps: int
    still: bool  # did it end by itself?
    seconds: float
    target_steps: int | None  # when it was first as good as a bound it is given, which a user would not know
    target_seconds: float | None


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
        trace: list[float] = []  # the best so far
        reached: tuple[int | None, float | None] = (None, None)
        begin = time.perf_counter()
        for step in range(1, most_steps + 1):
            optimiser.zero_grad()
            loss = -elbo(model(inputs), targets)
            trace.append(max([float(-n * loss.item() - n * np.log(scale)), *trace[-1:]]))
            if reached[0] is None and trace[-1] >= target:
                reached = step, time.perf_counter() - begin
            if step > PATIENCE and trace[-1] - trace[-1 - PATIENCE] < RISE:
                return Trained(trace[-1], step, True, time.perf_counter() - begin, *reached)
            loss.backward()
            optimiser.step()
    return Trained(trace[-1], most_steps, False, time.perf_counter() - begin, *reached)
