"""A posterior as a BoTorch model, for acquisition functions on a merged surrogate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from botorch.models.model import FantasizeMixin, Model, ModelList
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from ..core import linalg
from ..core.exact import ExactPosterior
from ..core.posterior import Joint
from ..core.posterior import Posterior as PointsPosterior
from ..errors import RecycleGPError
from ..likelihoods import Gaussian, Likelihood, Outputs
from . import gpytorch_likelihoods

MergedPosterior = PointsPosterior | ExactPosterior

if TYPE_CHECKING:
    from botorch.acquisition.objective import PosteriorTransform
    from botorch.posteriors import Posterior


class Observed(NamedTuple):
    """Observations the posterior is conditioned on, beyond the ensemble: fantasies, pending experiments."""

    X: Tensor  # (…, n, D)
    y: Tensor  # (…, n), perhaps with more leading axes than X
    noise: Tensor  # (n,), or with leading axes too


class MergedModel(Model, FantasizeMixin):
    """The posterior of f in the user's units: joint over q points, for any batch, differentiable in X.

    Made by `ensemble.to_botorch()`. It holds no data and nothing that could be trained.
    """

    def __init__(
        self, merged: MergedPosterior, likelihoods: Sequence[Likelihood], observed: Observed | None = None
    ) -> None:
        super().__init__()
        known = [p for p in likelihoods if isinstance(p, Gaussian) and p.known]
        self.likelihood = gpytorch_likelihoods.to_gpytorch(known[0]).requires_grad_(False) if known else None
        self._merged = merged
        self._likelihoods = tuple(likelihoods)
        self._noise = known[0].parameters[0] if known else None
        self._observed = observed

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        if self._observed is None:
            return torch.Size()
        return torch.broadcast_shapes(self._observed.X.shape[:-2], self._observed.y.shape[:-1])

    def subset_output(self, idcs: list[int]) -> MergedModel:
        if idcs not in ([0], [-1]):
            raise RecycleGPError(f"idcs={idcs}; this model has one output, 0")
        return self

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint Gaussian of f at q points, or of y with `observation_noise`.

        Args:
            X: Points (…, q, D), jointly for each of the batch.
            output_indices: None, or the one output there is.
            observation_noise: True adds the ensemble's gaussian noise; a tensor (…, q, 1) of variances adds those.
            posterior_transform: Applied to the posterior, as BoTorch's acquisition functions do.

        Returns:
            A BoTorch posterior whose mean and covariance are differentiable in X.
        """
        if output_indices is not None:
            self.subset_output(output_indices)
        if X.ndim < 2 or X.shape[-1] != self._merged.dimension:
            raise RecycleGPError(f"X has shape {tuple(X.shape)}; pass (…, q, {self._merged.dimension})")
        mean, covariance = self._conditional(X.double())
        if observation_noise is not False:
            covariance = covariance + torch.diag_embed(self._noise_at(mean, observation_noise))
        distribution = MultivariateNormal(mean.to(X.dtype), covariance.to(X.dtype))
        posterior = GPyTorchPosterior(distribution=distribution)
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any
    ) -> MergedModel:
        """The posterior given gaussian observations Y (…, n, 1) at X (…, n, D), exactly, and differentiable.

        For fantasies and pending experiments. Real data belong into the ensemble: `ensemble.update(X, y)`.

        Args:
            X: Where was observed, (…, n, D).
            Y: What was observed, (…, n, 1).
            noise: Variances (…, n, 1); by default the ensemble's gaussian noise.
            **kwargs: What BoTorch passes to models of other kinds; it is not used.

        Returns:
            A new model; this one stays as it is.
        """
        D = self._merged.dimension
        if X.shape[-1:] != (D,) or Y.shape[-2:] != (X.shape[-2], 1):
            raise RecycleGPError(f"X has shape {tuple(X.shape)} and Y {tuple(Y.shape)}; pass (…, n, {D}) and (…, n, 1)")
        y = Y.double()[..., 0]
        new = Observed(X.double(), y, self._noise_at(y, True if noise is None else noise))
        if self._observed is not None:
            new = Observed(*(_beside(a, b, i) for i, (a, b) in enumerate(zip(self._observed, new, strict=True))))
        return MergedModel(self._merged, self._likelihoods, new)

    # --- behind them ---

    def _noise_at(self, like: Tensor, given: bool | Tensor) -> Tensor:
        """Variances (…, n) for the last axis of `like`; leading axes only where they differ."""
        n = like.shape[-1]
        if isinstance(given, Tensor):
            return given.double()[..., 0].expand(*given.shape[:-2], n)
        if self._noise is None:
            raise RecycleGPError(
                "this ensemble knows no gaussian noise, so observations of it cannot be predicted here; pass "
                "observation_noise as a tensor, or ask for f"
            )
        return like.new_full((n,), self._noise)

    def _latent(self, X: Tensor) -> Joint:
        """Mean (…, q) and covariance (…, q, q) of f; one solve for the whole batch."""
        mean, covariance = self._merged.to(X.device).joint(X)
        # samplers factor it, so rounding must not make it indefinite, in whatever units
        nugget = linalg.RELATIVE_JITTER * self._merged.kernel.to(X.device).diagonal(X).detach()
        return Joint(mean, covariance + torch.diag_embed(nugget))

    def _conditional(self, X: Tensor) -> tuple[Tensor, Tensor]:
        if self._observed is None:
            return self._latent(X)
        seen, y, noise = (t.to(X.device) for t in self._observed)
        n = seen.shape[-2]
        batch = torch.broadcast_shapes(seen.shape[:-2], X.shape[:-2])
        both = [t.expand(*batch, *t.shape[-2:]) for t in (seen, X)]
        mean, K = self._latent(torch.cat(both, dim=-2))
        # y = f + noise at n points: mean + GᵀL⁻¹(y − m),  K − GᵀG,  LLᵀ = K_nn + noise,  G = L⁻¹K_n*
        L = linalg.cholesky(K[..., :n, :n] + torch.diag_embed(noise)).L
        G = linalg.solve_lower(L, K[..., :n, n:].expand(*L.shape[:-2], n, X.shape[-2]))
        residual = linalg.solve_lower(L, (y - mean[..., :n])[..., None])
        mean = mean[..., n:] + (G.mT @ residual)[..., 0]
        covariance = K[..., n:, n:] - G.mT @ G
        return mean, covariance.expand(*mean.shape[:-1], *covariance.shape[-2:])


def _beside(old: Tensor, new: Tensor, field: int) -> Tensor:
    """Earlier observations and later ones, each in every batch the other has."""
    rank = 2 if field == 0 else 1  # X is (…, n, D), y and noise (…, n)
    batch = torch.broadcast_shapes(old.shape[:-rank], new.shape[:-rank])
    return torch.cat([t.expand(*batch, *t.shape[-rank:]) for t in (old, new)], dim=-rank)


def export(posteriors: Sequence[MergedPosterior], likelihoods: Sequence[Likelihood]) -> Model:
    """One model; of several outputs a list of one for each."""
    whole = likelihoods[0]
    if len(posteriors) == 1:
        return MergedModel(posteriors[0], likelihoods)
    if not isinstance(whole, Outputs):
        raise RecycleGPError(f"to_botorch: BoTorch's models are of outputs, and this one has {whole.meaning}")
    return ModelList(*(MergedModel(q, (own,)) for q, own in zip(posteriors, whole.parts, strict=True)))
