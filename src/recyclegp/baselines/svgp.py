"""GPyTorch's stochastic variational GP (Hensman et al. 2013, 2015), for any of the library's likelihoods."""

from __future__ import annotations

from dataclasses import dataclass

import gpytorch
import numpy as np
import torch
from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy
from torch import Tensor

from ..kernels.gpytorch_objects import to_gpytorch
from ..likelihoods import Likelihood
from ..local import placement
from ..models.fit import fit
from .rival import Part, for_hyperparameters

POINTS = 4096  # predicted at once


@dataclass(frozen=True)
class Training:
    """Natural gradients for q(u), Adam for the rest; both rates fall to zero as a half cosine.

    Adam for everything, the usual recipe, was farther from SGPR on the paper's toy after twice as many steps.
    """

    steps: int = 1000
    batch: int = 1024
    rate: float = 0.02  # of Adam
    natural: float = 0.1
    rows: int = 500  # of the fit that gives the first hyperparameters and places Z


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, Z: Tensor, kernel: gpytorch.kernels.Kernel, mean: float) -> None:
        q = NaturalVariationalDistribution(len(Z))
        super().__init__(VariationalStrategy(self, Z, q, learn_inducing_locations=True))
        # q(u) begins at the prior as it is; GPyTorch would add a little of the global random state
        self.variational_strategy.variational_params_initialized.fill_(1)
        self.mean_module = gpytorch.means.ConstantMean()
        self.mean_module.initialize(constant=mean)
        self.covar_module = kernel

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass(frozen=True)
class Trained:
    model: SVGP
    likelihood: Likelihood

    @torch.no_grad()
    def latent(self, points: Tensor) -> tuple[Tensor, Tensor]:
        parts = [self.model(chunk) for chunk in points.split(POINTS)]
        return torch.cat([q.mean for q in parts]), torch.cat([q.variance for q in parts])


def bound(model: SVGP, X: Tensor, y: Tensor, n: int, likelihood: Likelihood) -> Tensor:
    """(n/b) Σ_i E_q[log p(y_i|f_i)] − KL[q(u) ‖ p(u)], from a batch of b of n rows."""
    q = model(X)
    expected = likelihood.expected_log_prob(y, q.mean, q.variance)
    return n / len(y) * expected.sum() - model.variational_strategy.kl_divergence()


def train(data: Part, inducing: int, likelihood: str, kernel: str, how: Training, seed: int) -> Trained:
    """Maximise the bound on mini-batches; data in standardised units."""
    X, y = data
    n, rng = len(y), np.random.default_rng(seed)
    few = torch.as_tensor(rng.permutation(n)[: how.rows])
    with for_hyperparameters():
        start = fit(X[few], y[few], likelihood=likelihood, kernel=kernel, publish=1, seed=seed)
    Z = placement.over(X, inducing, start.kernel_spec, rng)
    model = SVGP(Z, to_gpytorch(start.kernel_spec, X.shape[1]), start.mean).double().train()
    (first,) = start.likelihoods
    logs = torch.tensor(first.parameters, dtype=X.dtype).log().requires_grad_()
    optimisers = (
        gpytorch.optim.NGD(model.variational_parameters(), num_data=n, lr=how.natural),
        torch.optim.Adam([*model.hyperparameters(), logs], lr=how.rate),
    )
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, how.steps) for o in optimisers]
    for _ in range(how.steps):
        rows = torch.as_tensor(rng.integers(n, size=how.batch)) if how.batch < n else torch.arange(n)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss = -bound(model, X[rows], y[rows], n, first.with_logs(logs)) / n
        loss.backward()
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            schedule.step()
    return Trained(model.eval(), first.with_values(*logs.exp().tolist()))
