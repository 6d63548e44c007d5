"""GPyTorch's stochastic variational GP (Hensman et al. 2013, 2015), for any of the library's likelihoods."""

from __future__ import annotations

import math
from dataclasses import dataclass

import gpytorch
import numpy as np
import torch
from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy
from torch import Tensor

from .. import inducing as placement
from .. import kernels
from ..fitting import fit
from ..likelihoods import expected_log_prob
from .rival import Part

CHUNK = 4096  # points predicted at once


@dataclass(frozen=True)
class Training:
    """Natural gradients for q(u), Adam for the rest; both rates fall to zero as a half cosine.

    Adam for everything, the usual recipe, was still 0.02 nats short after 2,000 steps on 10,000 rows of
    the paper's toy, where this is within 0.002 of SGPR after 1,000.
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
    log_p: Tensor  # logarithms of the likelihood's parameters

    @torch.no_grad()
    def latent(self, points: Tensor) -> tuple[Tensor, Tensor]:
        parts = [self.model(chunk) for chunk in points.split(CHUNK)]
        return torch.cat([q.mean for q in parts]), torch.cat([q.variance for q in parts])


def bound(model: SVGP, X: Tensor, y: Tensor, n: int, likelihood: str, log_p: Tensor) -> Tensor:
    """(n/b) Σ_i E_q[log p(y_i|f_i)] − KL[q(u) ‖ p(u)], from a batch of b of n rows."""
    q = model(X)
    expected = expected_log_prob(likelihood, y, q.mean, q.variance, log_p)
    return n / len(y) * expected.sum() - model.variational_strategy.kl_divergence()


def train(data: Part, inducing: int, likelihood: str, kernel: str, how: Training, seed: int) -> Trained:
    """Maximise the bound on mini-batches; data in standardised units."""
    X, y = data
    n, rng = len(y), np.random.default_rng(seed)
    few = torch.as_tensor(rng.permutation(n)[: how.rows])
    start = fit(X[few], y[few], likelihood=likelihood, kernel=kernel, publish=1, seed=seed)
    spec = start.kernel_spec
    Z = placement.over(X, inducing, spec.tree, spec.tensor(), rng)
    model = SVGP(Z, kernels.to_gpytorch(spec), start.mean).double().train()
    log_p = torch.tensor([math.log(p) for p in start.likelihoods[0].parameters], dtype=X.dtype, requires_grad=True)
    optimisers = (
        gpytorch.optim.NGD(model.variational_parameters(), num_data=n, lr=how.natural),
        torch.optim.Adam([*model.hyperparameters(), log_p], lr=how.rate),
    )
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, how.steps) for o in optimisers]
    for _ in range(how.steps):
        rows = torch.as_tensor(rng.integers(n, size=how.batch)) if how.batch < n else torch.arange(n)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss = -bound(model, X[rows], y[rows], n, likelihood, log_p) / n
        loss.backward()
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            schedule.step()
    return Trained(model.eval(), log_p.detach())
