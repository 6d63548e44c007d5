"""What modules and ensembles have in common: both are a Gaussian process one can ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, Self

import gpytorch
import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..categories import Categories, described
from ..core import linalg
from ..core.exact import ExactPosterior
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Posterior, Predicted
from ..devices import CPU, device_of, retry_on_oom
from ..errors import RecycleGPError, warn_user
from ..kernels import Kernel
from ..kernels.gpytorch_objects import to_gpytorch
from ..likelihoods import Likelihood

MARGIN = 0.25  # of a module's box, or of a lengthscale: how far beside its points it still counts as having seen data


def outside_autograd(compute: Callable[[Any], Any]) -> Any:
    """For what is computed once and kept: the same whatever gradient mode the first caller was in."""

    @wraps(compute)
    def computed(self: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            return compute(self)

    return computed


class Predictive(ABC):
    """Predictions from a posterior; the two final classes Module and Ensemble say which."""

    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    categories: Categories
    _device: torch.device = CPU

    def to(self, device: Any) -> Self:
        """The same on another device, as "cuda" or "cpu": predictions and all operations are computed there."""
        return replace(self, _device=device_of(device))  # type: ignore[type-var]  # both classes are dataclasses

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._device

    @property
    @abstractmethod
    def _prior_kernel(self) -> Kernel:
        """As it is kept inside."""

    @property
    @abstractmethod
    def _posterior(self) -> Posterior | ExactPosterior:
        """q(f) of the shared f."""

    @abstractmethod
    def _answers(self, owner: str | None, *, of_y: bool) -> FunctionPosterior:
        """Whose function a question is about, checked."""

    @property
    @abstractmethod
    def _points(self) -> Tensor:
        """Z, as it is kept inside."""

    @property
    @abstractmethod
    def _boxes(self) -> list[Tensor]:
        """(2, D) each: the corners of the boxes in which modules have points, as far as that is known."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without what can be computed again, and as it is on the CPU: not every machine has the same GPU."""
        here = vars(self if self._device.type == "cpu" else self.to("cpu"))
        return {name: value for name, value in here.items() if name in type(self).__annotations__}

    @property
    def posterior(self) -> Posterior | ExactPosterior:
        """q(f) as prior and solution: a copy."""
        return self._posterior.copy()

    @property
    def dimension(self) -> int:
        """Number of input columns."""
        return self._points.shape[1]

    @property
    def inducing(self) -> np.ndarray:
        """The points Z, read-only."""
        return arrays.frozen(self._points)

    @property
    def kernel_spec(self) -> Kernel:
        """The kernel as a value: a copy."""
        return self._prior_kernel.own()

    @property
    def kernel(self) -> gpytorch.kernels.Kernel:
        """A fresh GPyTorch kernel in the user's units."""
        return to_gpytorch(self._prior_kernel, self.dimension)

    @property
    def noise(self) -> float | None:
        """Noise variance of the gaussian (or student-t) likelihood, where there is one."""
        known = [p.parameters[0] for p in self.likelihoods if p.has_units and p.known]
        return known[0] if known else None

    def predict(self, X: Any, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of the latent f at each row of X.

        Args:
            X: (n, D) inputs: array, tensor or DataFrame.
            owner: whose function, by name, or "new" for somebody nobody has met; the shared one unless given.

        Returns:
            Both with n numbers, in the kind of array that X is.
        """
        mean, variance = self._latent(self._inputs(X), self._answers(owner, of_y=False))
        return arrays.like(X, mean), arrays.like(X, variance)

    def predict_y(self, X: Any, likelihood: str | None = None, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of a new observation y at each row of X.

        Args:
            X: (n, D) inputs.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            Both with n numbers, in the kind of array that X is.
        """
        chosen = self._likelihood(likelihood)
        mean, variance = chosen.moments(*self._latent(self._inputs(X), self._answers(owner, of_y=True)))
        return arrays.like(X, mean), arrays.like(X, variance)

    def predict_interval(
        self, X: Any, level: float = 0.95, likelihood: str | None = None, owner: str | None = None
    ) -> tuple[Any, Any]:
        """The central interval of a new observation y at each row of X.

        Args:
            X: (n, D) inputs.
            level: the probability that it holds y, if the model is right; of counts at least this one.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            Its lower and its upper ends, n numbers each, in the kind of array that X is.
        """
        level = arrays.share(level, "level")
        chosen = self._likelihood(likelihood)
        low, high = chosen.interval(*self._latent(self._inputs(X), self._answers(owner, of_y=True)), level)
        return arrays.like(X, low), arrays.like(X, high)

    def predict_quantiles(self, X: Any, q: Any, likelihood: str | None = None, owner: str | None = None) -> Any:
        """Quantiles of a new observation y at each row of X: the smallest y with P(Y ≤ y) ≥ q.

        Args:
            X: (n, D) inputs.
            q: one number between 0 and 1, or several.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            n numbers; for several q (n, len(q)) numbers, a column for each.
        """
        levels = levels_of(q)
        chosen = self._likelihood(likelihood)
        latent = self._latent(self._inputs(X), self._answers(owner, of_y=True))
        found = torch.stack([chosen.quantile(p, *latent) for p in levels], dim=-1)
        return arrays.like(X, found if np.ndim(q) else found[:, 0])

    def predict_joint(self, X: Any, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and covariance of the latent f at all rows of X together.

        Args:
            X: (n, D) inputs.
            owner: whose function, by name, or "new"; the shared one unless given.

        Returns:
            n means, and an (n, n) matrix of covariances whose diagonal is the variance of `predict`.
        """
        points = self._inputs(X)
        answers = self._answers(owner, of_y=False).to(points.device)
        mean, covariance = _finite(retry_on_oom(lambda: answers.joint(points)))
        return arrays.like(X, mean), arrays.like(X, covariance)

    def predict_proba(self, X: Any, likelihood: str | None = None, owner: str | None = None) -> Any:
        """Probabilities of classes 0 and 1 at each row of X.

        Args:
            X: (n, D) inputs.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            (n, 2) numbers.
        """
        chosen = self._likelihood(likelihood)
        if not chosen.classifies:
            raise RecycleGPError(
                f"predict_proba needs a bernoulli likelihood, this model has {chosen.name!r}; use predict_y"
            )
        p = chosen.moments(*self._latent(self._inputs(X), self._answers(owner, of_y=True))).mean
        return arrays.like(X, torch.stack([1 - p, p], dim=-1))

    def log_density(self, X: Any, y: Any, likelihood: str | None = None, owner: str | None = None) -> Any:
        """log p(y_t) of each observation, on y.

        Args:
            X: (n, D) inputs.
            y: n targets.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observations; a new owner's unless given.

        Returns:
            n numbers.
        """
        chosen = self._likelihood(likelihood)
        points = self._inputs(X)
        y = chosen.check(arrays.targets(y, len(points), device=points.device))
        return arrays.like(X, chosen.log_density(y, *self._latent(points, self._answers(owner, of_y=True))))

    def sample(self, X: Any, n: int = 1, seed: int = 0, owner: str | None = None) -> Any:
        """Joint draws of f at the rows of X.

        Args:
            X: inputs.
            n: number of draws.
            seed: of the draws.
            owner: whose function, by name, or "new"; the shared one unless given.

        Returns:
            (n, len(X)) numbers, one draw in each row.
        """
        points = self._inputs(X)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise RecycleGPError(f"n={n!r}; pass a positive number of draws")
        noise = np.random.default_rng(arrays.seed(seed)).standard_normal((n, len(points)))
        draws = torch.as_tensor(noise, device=points.device)
        mean, covariance = self._answers(owner, of_y=False).to(points.device).joint(points)
        if len(points):
            draws = draws @ linalg.cholesky(covariance).L.mT
        return arrays.like(X, mean + draws)

    def outside(self, X: Any) -> np.ndarray:
        """Which rows of X lie outside every module's region, where nobody has seen data.

        A module's region is a box: from where to where it has points along each input, wider on either side by a
        quarter of that, or of the kernel's lengthscale where that is longer, as points lie inside the rows they are
        made from. An ensemble that keeps only names has one box around all of them. Inputs that hold categories have no
        box: a row is outside if nobody has seen its level.

        Args:
            X: (n, D) inputs.

        Returns:
            n booleans.
        """
        points = arrays.matched(X, self.dimension, self.columns, self.categories, device="cpu").X.detach()
        found = torch.zeros(len(points), dtype=torch.bool)
        for c in self.categories.columns:  # levels that the model does not know have codes behind those that it does
            found |= points[:, c] >= len(self.categories.names(c))
        numbers = [c for c in range(self.dimension) if c not in self.categories.columns]
        lengthscales = self._prior_kernel.lengthscales(self.dimension)
        rest = (~found).nonzero()[:, 0] if numbers else torch.arange(0)
        for low, high in self._boxes:
            margin = MARGIN * torch.maximum(high - low, lengthscales)
            here = points[rest]
            within = (here >= low - margin) & (here <= high + margin)
            rest = rest[~within[:, numbers].all(-1)]
        found[rest] = True
        return found.numpy()

    def _inputs(self, X: Any) -> Tensor:
        device = None if self._device.type == "cpu" else self._device  # then it follows X
        points, _, found = arrays.matched(X, self.dimension, self.columns, self.categories, device=device)
        unseen = found.beyond(self.categories)
        if unseen:
            warn_user(
                f"X has levels that the model has not seen: {described(unseen, self.columns)}; what all levels share "
                "is predicted for them, with more variance"
            )
        return points

    def _latent(self, points: Tensor, answers: FunctionPosterior) -> Predicted:
        """Moments of f there. Never a silent NaN, whatever file a model comes from."""
        return Predicted(*_finite(retry_on_oom(lambda: answers.to(points.device).predict(points))))

    def _likelihood(self, name: str | None) -> Likelihood:
        return likelihoods.choose(self.likelihoods, name)


def levels_of(q: Any) -> list[float]:
    """Of quantiles: one or several."""
    levels = [arrays.share(p, "q") for p in (np.asarray(q, dtype=object).ravel() if np.ndim(q) else [q])]
    if not levels:
        raise RecycleGPError("q is empty; pass one number between 0 and 1, or several")
    return levels


def _finite(found: Sequence[Tensor]) -> Sequence[Tensor]:
    if not all(bool(torch.isfinite(part.detach()).all()) for part in found):
        raise RecycleGPError(
            "predictions are not finite numbers: the model's kernel or what it says overflows there; rescale X, or "
            "make the model again from data of ordinary size"
        )
    return found


class AsSeenBy(NamedTuple):
    """A model, asked for one owner's function; for the shared one where there is no owner."""

    gp: Predictive
    owner: str | None

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        return self.gp.likelihoods

    def predict(self, X: Any) -> tuple[Any, Any]:
        return self.gp.predict(X, self.owner)
