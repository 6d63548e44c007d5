"""What modules and ensembles have in common: Gaussian processes one can ask, of one function or of several.

Inside, moments are (n, C) for C functions. What a question answers is the likelihood's business; of one function it is
(n,), as in scikit-learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import Array
from ..categories import Categories, described
from ..core import linalg
from ..core.exact import ExactPosterior
from ..core.posterior import Posterior
from ..devices import CPU, device_of
from ..errors import RecycleGPError, warn_user
from ..kernels import Kernel
from ..kernels.gpytorch_objects import to_gpytorch
from ..likelihoods import Likelihood, Moments
from ..target import Target
from . import regions
from .processes import Process

T = TypeVar("T")


def outside_autograd(compute: Callable[[Any], Any]) -> Any:
    """For what is computed once and kept: the same whatever gradient mode the first caller was in."""

    @wraps(compute)
    def computed(self: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            return compute(self)

    return computed


class Predictive(ABC):
    """Predictions from posteriors; the two final classes Module and Ensemble say which.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a")
    """

    likelihoods: tuple[Likelihood, ...]  # what y may be: several where modules of different data share one function
    _device: torch.device = CPU

    # --- what the two classes say ---

    @property
    @abstractmethod
    def columns(self) -> arrays.Columns:
        """Names of the inputs, where somebody has given them."""

    @property
    @abstractmethod
    def categories(self) -> Categories:
        """Inputs that hold categories, with their levels by name."""

    @property
    @abstractmethod
    def targets(self) -> tuple[Target, ...]:
        """What y means, for each function."""

    @property
    @abstractmethod
    def _kernels(self) -> tuple[Kernel, ...]:
        """Of each function, as they are kept inside."""

    @property
    @abstractmethod
    def _posteriors(self) -> tuple[Posterior | ExactPosterior, ...]:
        """q(f) of every shared f."""

    @property
    @abstractmethod
    def _points(self) -> tuple[Tensor, ...]:
        """Z of each function, as they are kept inside."""

    @property
    @abstractmethod
    def _boxes(self) -> list[Tensor]:
        """(2, D) each: the corners of the boxes in which modules have points, as far as that is known."""

    @abstractmethod
    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        """Whose functions a question is about, checked; in the order of the functions."""

    # --- what it is ---

    def to(self, device: Any) -> Self:
        """The same on another device, as "cuda" or "cpu": predictions and all operations are computed there.

        Raises:
            RecycleGPError: There is no such device here.

        Examples:
            >>> m.to("cpu").device
            device(type='cpu')
        """
        return replace(self, _device=device_of(device))  # type: ignore[type-var]  # both classes are dataclasses

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._device

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without what can be computed again, and as it is on the CPU: not every machine has the same GPU."""
        here = vars(self if self._device.type == "cpu" else self.to("cpu"))
        return {name: value for name, value in here.items() if name in type(self).__annotations__}

    @property
    def likelihood(self) -> str:
        """Its name, or several joined by +."""
        return "+".join(p.name for p in self.likelihoods)

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of its functions: outputs, classes, f and the logarithm of its noise; a single one is called f."""
        return self.likelihoods[0].functions

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of its classes, in the order of `predict_proba`."""
        chosen = self._likelihood(None)
        if not chosen.classifies:
            raise RecycleGPError(f"classes: this model has {chosen.meaning} of likelihood {chosen.name!r}")
        labels = self.targets[0].labels
        return chosen.classes if labels is None else tuple(own or c for own, c in zip(labels, ("0", "1"), strict=True))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs, in the order of the columns of `predict`."""
        chosen = self.likelihoods[0]
        if chosen.predicts_all and not chosen.classifies:
            return chosen.functions
        if len(self.functions) > 1:
            raise RecycleGPError(f"outputs: this model has {chosen.meaning}; see its functions")
        return (self.targets[0].name or "y",)

    @property
    def target(self) -> Target:
        """What y means, where somebody has said so; of several outputs see `targets`."""
        return self.targets[0]

    @property
    def dimension(self) -> int:
        """Number of input columns."""
        return self._points[0].shape[1]

    @property
    def posterior(self) -> Any:
        """q(f) as prior and solution: a copy; of several functions a tuple."""
        return squeezed([q.copy() for q in self._posteriors])

    @property
    def inducing(self) -> Any:
        """The points Z, read-only; of several functions that have different ones a tuple."""
        if all(Z is self._points[0] or torch.equal(Z, self._points[0]) for Z in self._points):
            return arrays.frozen(self._points[0])
        return tuple(arrays.frozen(Z) for Z in self._points)

    @property
    def kernel_spec(self) -> Any:
        """The kernel as a value: a copy; of several functions a tuple."""
        return squeezed([k.own() for k in self._kernels])

    @property
    def kernel(self) -> Any:
        """A fresh GPyTorch kernel in the user's units; of several functions a tuple."""
        return squeezed([to_gpytorch(k, self.dimension) for k in self._kernels])

    @property
    def noise(self) -> Any:
        """Noise variance of the gaussian (or student-t) likelihood, where there is one; of several outputs a tuple."""
        parts = zip(*(p.parts for p in self.likelihoods), strict=True)
        return squeezed([_noise_among(own) for own in parts])

    # --- questions ---

    def predict(self, X: Array, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of the latent f at each row of X.

        Args:
            X: (n, D) inputs: array, tensor or DataFrame.
            owner: whose function, by name, or "new" for somebody nobody has met; the shared one unless given.

        Returns:
            Both with n numbers, in the kind of array that X is; of several outputs and of classes (n, C), a column for
            each function.

        Raises:
            RecycleGPError: X does not have the model's columns, or nobody is called like the owner.

        Examples:
            >>> mean, variance = m.predict(X)
            >>> mean.shape
            (30,)
        """
        mean, variance = self.likelihoods[0].answered(self._moments(X, owner, of_y=False))
        return arrays.like(X, mean), arrays.like(X, variance)

    def predict_y(self, X: Array, likelihood: str | None = None, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of a new observation y at each row of X.

        Args:
            X: (n, D) inputs.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            Both with n numbers, in the kind of array that X is; of several outputs (n, C). Of classes: their
            probabilities p (n, C), and p(1 − p).

        Raises:
            RecycleGPError: The noise is not known, or the model has several likelihoods and none is named.

        Examples:
            >>> bool((m.predict_y(X)[1] > m.predict(X)[1]).all())
            True
        """
        mean, variance = self._likelihood(likelihood).observed(self._moments(X, owner, of_y=True))
        return arrays.like(X, mean), arrays.like(X, variance)

    def predict_noise(self, X: Array, likelihood: str | None = None, owner: str | None = None) -> Any:
        """The noise variance at each row of X; where it is a function e^g, at the middle of what is known of g.

        Args:
            X: (n, D) inputs.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose noise; the shared one unless given.

        Returns:
            n numbers; of several outputs (n, C).

        Raises:
            RecycleGPError: The likelihood has no noise.

        Examples:
            >>> m.predict_noise(X[:2])
            array([0.01, 0.01])
        """
        chosen = self._likelihood(likelihood)
        return arrays.like(X, chosen.noise_at(self._moments(X, owner, of_y=False)))

    def predict_interval(
        self, X: Array, level: float = 0.95, likelihood: str | None = None, owner: str | None = None
    ) -> tuple[Any, Any]:
        """The central interval of a new observation y at each row of X.

        Args:
            X: (n, D) inputs.
            level: the probability that it holds y, if the model is right; of counts at least this one.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            Its lower and its upper ends, each as `predict_y`'s mean.

        Raises:
            RecycleGPError: y is a class, which has no interval; use `predict_proba`.

        Examples:
            >>> low, high = m.predict_interval(X, 0.9)
            >>> bool((low < high).all())
            True
        """
        level, chosen = arrays.share(level, "level"), self._likelihood(likelihood)
        low, high = chosen.interval_at(self._moments(X, owner, of_y=True), level)
        return arrays.like(X, low), arrays.like(X, high)

    def predict_quantiles(self, X: Array, q: Any, likelihood: str | None = None, owner: str | None = None) -> Any:
        """Quantiles of a new observation y at each row of X: the smallest y with P(Y ≤ y) ≥ q.

        Args:
            X: (n, D) inputs.
            q: one number between 0 and 1, or several.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            As `predict_y`'s mean; for several q with one more axis, the last, as (n, len(q)).

        Raises:
            RecycleGPError: y is a class, which has no quantiles; use `predict_proba`.

        Examples:
            >>> m.predict_quantiles(X, [0.1, 0.5, 0.9]).shape
            (30, 3)
        """
        levels, chosen = levels_of(q), self._likelihood(likelihood)
        at = self._moments(X, owner, of_y=True)
        found = torch.stack([chosen.quantile_at(p, at) for p in levels], dim=-1)
        return arrays.like(X, found if np.ndim(q) else found[..., 0])

    def predict_joint(self, X: Array, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and covariance of the latent f at all rows of X together.

        Args:
            X: (n, D) inputs.
            owner: whose function, by name, or "new"; the shared one unless given.

        Returns:
            n means, and an (n, n) matrix of covariances whose diagonal is the variance of `predict`. Of several
            outputs and of classes (n, C) and (C, n, n): each function by itself.

        Raises:
            RecycleGPError: X does not have the model's columns, or nobody is called like the owner.

        Examples:
            >>> m.predict_joint(X)[1].shape
            (30, 30)
        """
        points = self._inputs(X)
        found = [own for process in self._processes(owner, of_y=False) for own in process.each(points)]
        if not self.likelihoods[0].predicts_all:
            return arrays.like(X, found[0].mean), arrays.like(X, found[0].covariance)
        mean, covariance = torch.stack([f.mean for f in found], -1), torch.stack([f.covariance for f in found])
        return arrays.like(X, mean), arrays.like(X, covariance)

    def predict_proba(self, X: Array, likelihood: str | None = None, owner: str | None = None) -> Any:
        """Probabilities of the classes at each row of X.

        Args:
            X: (n, D) inputs.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            (n, C) numbers, in the order of `classes`; each row adds up to one. Of yes/no data (n, 2): classes 0 and 1.

        Raises:
            RecycleGPError: y is not a class; use `predict_y`.

        Examples:
            >>> rgp.fit(X, X[:, 0] > 3, likelihood="bernoulli").predict_proba(X).shape
            (30, 2)
        """
        chosen = self._likelihood(likelihood)
        return arrays.like(X, chosen.probabilities(self._moments(X, owner, of_y=True)))

    def predict_class(self, X: Array, likelihood: str | None = None, owner: str | None = None) -> np.ndarray:
        """The most probable class at each row of X.

        Args:
            X: (n, D) inputs.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            n labels, as text.

        Raises:
            RecycleGPError: y is not a class; use `predict_y`.

        Examples:
            >>> found = rgp.fit(X, np.where(X[:, 0] > 3, "high", "low"), likelihood="categorical")
            >>> found.predict_class([[0.5], [5.5]])
            array(['low', 'high'], dtype=object)
        """
        best = np.asarray(torch.as_tensor(self.predict_proba(X, likelihood, owner)).argmax(-1).cpu())
        return np.array(self.classes, dtype=object)[best]

    def log_density(self, X: Array, y: Array, likelihood: str | None = None, owner: str | None = None) -> Any:
        """log p(y_t) of each observation, on y.

        Args:
            X: (n, D) inputs.
            y: n targets or classes; of several outputs (n, C), NaN where one was not seen.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observations; a new owner's unless given.

        Returns:
            n numbers; of several outputs (n, C), NaN where one was not seen.

        Raises:
            RecycleGPError: y does not fit X or the likelihood.

        Examples:
            >>> m.log_density(X, np.sin(X[:, 0])).shape
            (30,)
        """
        chosen = self._likelihood(likelihood)
        at = self._moments(X, owner, of_y=True)
        return arrays.like(X, chosen.log_density_at(chosen.targets(y, len(at.mean), at.mean.device), at))

    def sample(self, X: Array, n: int = 1, seed: int = 0, owner: str | None = None) -> Any:
        """Joint draws of f at the rows of X.

        Args:
            X: inputs.
            n: number of draws.
            seed: of the draws.
            owner: whose function, by name, or "new"; the shared one unless given.

        Returns:
            (n, len(X)) numbers, one draw in each row; of several functions (n, len(X), C), functions that go together
            drawn together.

        Raises:
            RecycleGPError: n is not a positive number of draws.

        Examples:
            >>> m.sample(X, 5).shape
            (5, 30)
        """
        points = self._inputs(X)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise RecycleGPError(f"n={n!r}; pass a positive number of draws")
        rng = np.random.default_rng(arrays.seed(seed))
        found = []
        for process in self._processes(owner, of_y=False):
            mean, covariance = process.together(points)
            draws = torch.as_tensor(rng.standard_normal((n, len(mean))), device=points.device)
            if len(mean):
                draws = draws @ linalg.cholesky(covariance).L.mT
            found.append((mean + draws).unflatten(-1, (-1, len(points))) if len(points) else draws[:, None])
        drawn = torch.cat(found, 1).mT  # (draws, rows, functions)
        return arrays.like(X, drawn if len(self.functions) > 1 else drawn[..., 0])

    def extrapolates(self, X: Array) -> np.ndarray:
        """Which rows of X lie outside every module's region, where nobody has seen data.

        A module's region is a box: from where to where it has points along each input, wider on either side by a
        quarter of that, or of the kernel's lengthscale where that is longer, as points lie inside the rows they are
        made from. An ensemble that keeps only names has one box around all of them. Inputs that hold categories have no
        box: a row is outside if nobody has seen its level.

        Args:
            X: (n, D) inputs.

        Returns:
            n booleans.

        Raises:
            RecycleGPError: X does not have the model's columns.

        Examples:
            >>> m.extrapolates([[3.0], [60.0]])
            array([False,  True])
        """
        points = arrays.matched(X, self.dimension, self.columns, self.categories, device="cpu").X.detach()
        lengthscales = torch.stack([k.lengthscales(self.dimension) for k in self._kernels]).amax(0).cpu()
        return regions.outside(points, self._boxes, lengthscales, self.categories).numpy()

    def outside(self, X: Array) -> np.ndarray:
        """The older name of `extrapolates`."""
        return self.extrapolates(X)

    # --- behind them ---

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

    def _moments(self, X: Any, owner: str | None, *, of_y: bool) -> Moments:
        """Mean and variance of every function at each row: (n, C) both."""
        points = self._inputs(X)
        return self._moments_at(points, owner, of_y=of_y)

    def _moments_at(self, points: Tensor, owner: str | None = None, *, of_y: bool = False) -> Moments:
        """The same at inputs that are checked and coded."""
        found = [process.moments(points) for process in self._processes(owner, of_y=of_y)]
        return Moments(*(torch.cat(part, -1) for part in zip(*found, strict=True)))

    def _likelihood(self, name: str | None) -> Likelihood:
        return likelihoods.choose(self.likelihoods, name)


def squeezed(values: Sequence[T]) -> Any:
    """One value for one function, a tuple for several."""
    return values[0] if len(values) == 1 else tuple(values)


def _noise_among(own: Sequence[Likelihood]) -> float | None:
    known = [p.parameters[0] for p in own if p.has_units and p.known]
    return known[0] if known else None


def levels_of(q: Any) -> list[float]:
    """Of quantiles: one or several."""
    levels = [arrays.share(p, "q") for p in (np.asarray(q, dtype=object).ravel() if np.ndim(q) else [q])]
    if not levels:
        raise RecycleGPError("q is empty; pass one number between 0 and 1, or several")
    return levels
