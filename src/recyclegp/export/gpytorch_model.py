"""A posterior as a GPyTorch model: its whitened solution is a variational distribution as it stands."""

from __future__ import annotations

import gpytorch
import torch
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Tensor

from ..core import linalg
from ..core.posterior import Posterior
from ..kernels.gpytorch_objects import to_gpytorch as kernel_to_gpytorch
from ..likelihoods import Likelihood
from . import gpytorch_likelihoods


class MergedGP(gpytorch.models.ApproximateGP):
    """q(v) = N(v̂, (I+P)⁻¹) at Z_*, under a constant mean and the ensemble's kernel, in the user's units."""

    def __init__(self, Z: Tensor, kernel: gpytorch.kernels.Kernel, jitter: float) -> None:
        q = CholeskyVariationalDistribution(len(Z))
        super().__init__(VariationalStrategy(self, Z, q, learn_inducing_locations=True, jitter_val=jitter))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def to_gpytorch(posterior: Posterior, likelihood: Likelihood) -> tuple[MergedGP, gpytorch.likelihoods.Likelihood]:
    """A model in evaluation mode that predicts what the posterior does, and its likelihood."""
    base, mean, v, C = posterior
    with torch.no_grad():
        kernel = kernel_to_gpytorch(base.kernel, base.Z.shape[1])
        model = MergedGP(base.Z.clone(), kernel, float(base.jitter)).double()
        model.mean_module.initialize(constant=mean)
        strategy = model.variational_strategy
        q = strategy._variational_distribution
        q.variational_mean.copy_(v)
        q.chol_variational_covar.copy_(_root(C))
        strategy.variational_params_initialized.fill_(1)  # or the first call would begin again at the prior
    return model.eval(), gpytorch_likelihoods.to_gpytorch(likelihood)


def _root(C: Tensor) -> Tensor:
    """Lower triangular T with TTᵀ = (CCᵀ)⁻¹: the QR of C⁻¹ has it, with no product that squares the condition."""
    half = linalg.solve_lower(C, torch.eye(len(C), dtype=C.dtype))
    upper = linalg.compress(half, torch.zeros_like(half[:, 0])).T
    return upper.mT * upper.diagonal().sign()
