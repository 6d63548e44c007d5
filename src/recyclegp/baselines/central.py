"""Models that see everybody's rows in one place: what is lost by not collecting the data is counted from here.

All rows leave their owners. `exact` is the GP itself where it fits; `sparse` is the library's own
central model (SGPR for Gaussian data, SVGP in its dual form otherwise), the fair comparison for a merge
with as many points; `svgp` is GPyTorch's, with stochastic optimisation, as most people would fit it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import CountOrPoints
from ..errors import RecycleGPError
from ..kernels.gpytorch_objects import to_gpytorch
from ..likelihoods import Likelihood
from ..local import placement
from ..local.options import KernelLike
from ..local.request import Method
from ..models.fit import fit
from .committee import condition
from .hyper import Prior
from .rival import ROWS, Part, Parts, Rival, Sent, checked, for_hyperparameters, rows_bytes, together

EXACT_ROWS = 12_000  # K_XX and its factor: 2.3 GB
POINTS = 4096  # predicted at once by GPyTorch's model


def exact(parts: Parts, *, kernel: KernelLike = "rbf", rows: int = ROWS, seed: int = 0) -> Rival:
    """The exact GP given every row, its hyperparameters learned on at most `rows` of them."""
    data = checked(parts, "gaussian")
    X, y = together(data)
    if len(y) > EXACT_ROWS:
        raise RecycleGPError(f"an exact GP on {len(y)} rows does not fit; at most {EXACT_ROWS}, or use sparse")
    few = torch.as_tensor(np.random.default_rng(arrays.seed(seed)).permutation(len(y))[:rows])
    with for_hyperparameters():
        m = fit(X[few], y[few], method="exact", kernel=kernel, publish=1, seed=seed)
    expert = condition(Prior.of(m), X, y)
    return Rival("exact GP", lambda points: expert(points)[:2], m.likelihoods, Sent(rows_bytes(data)), X.shape[1])


def sparse(
    parts: Parts,
    *,
    inducing: CountOrPoints,
    likelihood: str = "gaussian",
    kernel: KernelLike = "rbf",
    seed: int = 0,
    **options: Any,
) -> Rival:
    """The library's own central model at these inducing points, nothing published away."""
    data = checked(parts, likelihood)
    method = Method.COLLAPSED if likelihoods.named(likelihood).conjugate else Method.DUAL
    X, y = together(data)
    how: dict[str, Any] = {"method": method.value, "likelihood": likelihood, "kernel": kernel, "inducing": inducing}
    m = fit(X, y, publish=None, seed=seed, **how, **options)
    name = "SGPR" if method is Method.COLLAPSED else "SVGP (dual)"
    return Rival(name, m.predict, m.likelihoods, Sent(rows_bytes(data)), X.shape[1])


# --- GPyTorch's stochastic variational GP (Hensman et al. 2013, 2015), for any of the library's likelihoods -----------


@dataclass(frozen=True)
class Training:
    """Natural gradients for q(u), Adam for the rest; both rates fall to zero as a half cosine."""

    steps: int = 1000
    batch: int = 1024
    rate: float = 0.02  # of Adam
    natural: float = 0.1
    rows: int = 500  # of the fit that gives the first hyperparameters and places Z


def svgp(
    parts: Parts,
    *,
    inducing: int,
    likelihood: str = "gaussian",
    kernel: str = "rbf",
    training: Training | None = None,
    seed: int = 0,
) -> Rival:
    """GPyTorch's SVGP: learned inducing inputs, whitened q(u), mini-batches.

    Trained in standardised units, from the hyperparameters of a small fit to a subset of the rows and
    inducing inputs spread over the data: a better start than GPyTorch's own, which knows no units.
    """
    data = checked(parts, likelihood)
    X, y = together(data)
    x_unit = X.std(0, correction=0)
    x_unit, x_zero = torch.where(x_unit > 0, x_unit, torch.ones_like(x_unit)), X.mean(0)
    measured = likelihoods.named(likelihood).has_units  # counts and classes have none
    unit = (float(y.std(correction=0)) or 1.0) if measured else 1.0
    zero = float(y.mean()) if measured else 0.0
    standard = Part((X - x_zero) / x_unit, (y - zero) / unit)
    model, found = train(standard, inducing, likelihood, kernel, training or Training(), arrays.seed(seed))

    def latent(points: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = model.latent((points - x_zero) / x_unit)
        return zero + unit * mean, unit**2 * variance

    return Rival("SVGP (GPyTorch)", latent, (found.in_units(unit, zero),), Sent(rows_bytes(data)), X.shape[1])


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, Z: Tensor, kernel: gpytorch.kernels.Kernel, mean: float) -> None:
        q = NaturalVariationalDistribution(len(Z))
        super().__init__(VariationalStrategy(self, Z, q, learn_inducing_locations=True))
        # q(u) begins at the prior as it is; GPyTorch would add a little of the global random state
        self.variational_strategy.variational_params_initialized.fill_(1)
        self.mean_module = gpytorch.means.ConstantMean()
        self.mean_module.initialize(constant=mean)
        self.covar_module = kernel

    @torch.no_grad()
    def latent(self, points: Tensor) -> tuple[Tensor, Tensor]:
        parts = [self(chunk) for chunk in points.split(POINTS)]
        return torch.cat([q.mean for q in parts]), torch.cat([q.variance for q in parts])

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def bound(model: SVGP, X: Tensor, y: Tensor, n: int, likelihood: Likelihood) -> Tensor:
    """(n/b) Σ_i E_q[log p(y_i|f_i)] − KL[q(u) ‖ p(u)], from a batch of b of n rows."""
    q = model(X)
    expected = likelihood.expected_log_prob(y, q.mean, q.variance)
    return n / len(y) * expected.sum() - model.variational_strategy.kl_divergence()


def train(data: Part, inducing: int, likelihood: str, kernel: str, how: Training, seed: int) -> tuple[SVGP, Likelihood]:
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
    return model.eval(), first.with_values(*logs.exp().tolist())
