"""A posterior as a GPyTorch model: its whitened solution is a variational distribution as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gpytorch
import torch
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Tensor

from ..core import linalg
from ..core.posterior import Posterior
from ..errors import RecycleGPError
from ..kernels.gpytorch_objects import to_gpytorch as kernel_to_gpytorch
from ..likelihoods import Categorical, Likelihood
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


class MergedGPs(gpytorch.models.GP):
    """Functions that are independent of each other, asked together: one column each."""

    def __init__(self, models: Sequence[MergedGP]) -> None:
        super().__init__()
        self.models = torch.nn.ModuleList(models)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultitaskMultivariateNormal:
        return gpytorch.distributions.MultitaskMultivariateNormal.from_independent_mvns([m(x) for m in self.models])


def export(posteriors: Sequence[Posterior], likelihood: Likelihood) -> Any:
    """Models in evaluation mode that predict what the posteriors do, each with its likelihood; of classes one model."""
    if isinstance(likelihood, Categorical):
        softmax = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=len(posteriors), mixing_weights=False)
        return MergedGPs([_model(posterior) for posterior in posteriors]).eval(), softmax.eval()
    if likelihood.functions != likelihood.functions[:1] and not likelihood.predicts_all:
        raise RecycleGPError(f"to_gpytorch: GPyTorch has no likelihood of {likelihood.meaning}; use predict_y")
    parts = zip(posteriors, likelihood.parts, strict=True)
    pairs = [(_model(posterior), gpytorch_likelihoods.to_gpytorch(own)) for posterior, own in parts]
    return pairs if likelihood.predicts_all else pairs[0]


def _model(posterior: Posterior) -> MergedGP:
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
    return model.eval()


def _root(C: Tensor) -> Tensor:
    """Lower triangular T with TTᵀ = (CCᵀ)⁻¹: the QR of C⁻¹ has it, with no product that squares the condition."""
    half = linalg.solve_lower(C, torch.eye(len(C), dtype=C.dtype))
    upper = linalg.compress(linalg.Equations(half, torch.zeros_like(half[:, 0]))).T
    return upper.mT * upper.diagonal().sign()
