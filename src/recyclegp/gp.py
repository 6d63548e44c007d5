"""What modules and ensembles have in common: both are a Gaussian process one can ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any

import gpytorch
import numpy as np
import torch
from torch import Tensor

from . import arrays, kernels, linalg, posterior
from .errors import RecycleGPError
from .kernels import Kernel
from .likelihoods import Likelihood, family, log_density
from .posterior import Posterior

CHUNK = 8192  # points predicted at once


def fresh(compute: Callable[[Any], Any]) -> Any:
    """For what is computed once and kept: the same whatever gradient mode the first caller was in."""

    @wraps(compute)
    def computed(self: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            return compute(self)

    return computed


class GP(ABC):
    """Predictions from a posterior; the two final classes Module and Ensemble say which."""

    kernel_spec: Kernel
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns

    @property
    @abstractmethod
    def posterior(self) -> Posterior:
        """q(f) as prior, basis and whitened solution."""

    @property
    @abstractmethod
    def _points(self) -> Tensor:
        """Z, as it is kept inside."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without what can be computed again."""
        return {name: value for name, value in vars(self).items() if name in type(self).__annotations__}

    @property
    def dimension(self) -> int:
        """Number of input columns."""
        return self._points.shape[1]

    @property
    def inducing(self) -> np.ndarray:
        """The points Z, read-only."""
        return arrays.frozen(self._points)

    @property
    def kernel(self) -> gpytorch.kernels.Kernel:
        """A fresh GPyTorch kernel in the user's units."""
        return kernels.to_gpytorch(self.kernel_spec)

    @property
    def noise(self) -> float | None:
        """Noise variance of the gaussian (or student-t) likelihood, where there is one."""
        known = [p.parameters[0] for p in self.likelihoods if family(p.name).has_noise and p.parameters]
        return known[0] if known else None

    def predict(self, X: Any) -> tuple[Any, Any]:
        """Mean and variance of the latent f at each row of X."""
        mean, variance = self._latent(self._inputs(X))
        return arrays.like(X, mean), arrays.like(X, variance)

    def predict_y(self, X: Any, likelihood: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of a new observation y at each row of X."""
        chosen = self._likelihood(likelihood)
        mean, variance = self._latent(self._inputs(X))
        result = family(chosen.name).moments(mean, variance, chosen.log_parameters(mean))
        return arrays.like(X, result[0]), arrays.like(X, result[1])

    def predict_proba(self, X: Any, likelihood: str | None = None) -> Any:
        """(n, 2): probabilities of classes 0 and 1."""
        chosen = self._likelihood(likelihood)
        if not chosen.name.startswith("bernoulli"):
            raise RecycleGPError(
                f"predict_proba needs a bernoulli likelihood, this model has {chosen.name!r}; use predict_y"
            )
        mean, variance = self._latent(self._inputs(X))
        p, _ = family(chosen.name).moments(mean, variance, chosen.log_parameters(mean))
        return arrays.like(X, torch.stack([1 - p, p], dim=-1))

    def log_density(self, X: Any, y: Any, likelihood: str | None = None) -> Any:
        """log p(y_t) of each observation, on y."""
        chosen = self._likelihood(likelihood)
        points = self._inputs(X)
        y = family(chosen.name).check(arrays.targets(y, len(points), device=points.device))
        mean, variance = self._latent(points)
        return arrays.like(X, log_density(chosen.name, y, mean, variance, chosen.log_parameters(mean)))

    def sample(self, X: Any, n: int = 1, seed: int = 0) -> Any:
        """(n, len(X)): joint draws of f at the rows of X."""
        points = self._inputs(X)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise RecycleGPError(f"n={n!r}; pass a positive number of draws")
        post = self._on(points.device)
        mean, _ = posterior.predict(post, points)
        noise = np.random.default_rng(arrays.seed(seed)).standard_normal((n, len(points)))
        draws = torch.as_tensor(noise, device=points.device)
        if len(points):
            draws = draws @ linalg.cholesky(posterior.covariance(post, points)).L.mT
        return arrays.like(X, mean + draws)

    def _inputs(self, X: Any) -> Tensor:
        return arrays.aligned(X, self.dimension, self.columns)

    def _latent(self, points: Tensor) -> tuple[Tensor, Tensor]:
        post = self._on(points.device)
        parts = [posterior.predict(post, chunk) for chunk in points.split(CHUNK)]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    def _on(self, device: torch.device) -> Posterior:
        post = self.posterior
        if post.v.device == device:
            return post
        base = post.basis._replace(
            theta=post.basis.theta.to(device), Z=post.basis.Z.to(device), L=post.basis.L.to(device)
        )
        return Posterior(base, post.mean.to(device), post.v.to(device), post.C.to(device))

    def _likelihood(self, name: str | None) -> Likelihood:
        return pick(self.likelihoods, name)


def only(likelihoods: tuple[Likelihood, ...]) -> Likelihood:
    if len(likelihoods) > 1:
        names = ", ".join(p.name for p in likelihoods)
        raise RecycleGPError(f"this model has several likelihoods; pass likelihood= one of {names}")
    return likelihoods[0]


def pick(likelihoods: tuple[Likelihood, ...], name: str | None) -> Likelihood:
    """The one meant, where there may be several."""
    names = [p.name for p in likelihoods]
    if name is None:
        chosen = only(likelihoods)
    elif family(name).name in names:
        chosen = likelihoods[names.index(name)]
    else:
        raise RecycleGPError(f"likelihood={name!r}: this model has {', '.join(names)}")
    if len(chosen.parameters) != len(family(chosen.name).parameters):
        raise RecycleGPError(
            f"the noise of this {chosen.name} model is not known; pass noise= where it is made or updated, or "
            "use predict for the latent f"
        )
    return chosen
