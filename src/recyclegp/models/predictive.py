"""What modules and ensembles can be asked. Of one function answers are (n,), as in scikit-learn, of several (n, C)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import arrays
from ..arrays import Array
from ..core import linalg
from ..errors import RecycleGPError
from ..likelihoods import Outputs
from . import regions
from .model import Model


class Predictive(Model):
    """Predictions from posteriors; the two final classes Module and Ensemble say which.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a")
    """

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
        mean, variance = self._observed(X, owner, likelihood).moments()
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
        chosen = self._likelihood_of(owner, likelihood)
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
        level = arrays.share(level, "level")
        low, high = self._observed(X, owner, likelihood).interval(level)
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
        levels, observed = levels_of(q), self._observed(X, owner, likelihood)
        found = torch.stack([observed.quantile(p) for p in levels], dim=-1)
        return arrays.like(X, found if np.ndim(q) else found[..., 0])

    def predict_survival(self, X: Array, at: Any, likelihood: str | None = None, owner: str | None = None) -> Any:
        """P(Y > at) of a new observation Y at each row of X: of times, the probability that nothing happens until then.

        Args:
            X: (n, D) inputs.
            at: one number in the units of y, or one for each row.
            likelihood: which one, by name; may be left out where the model has one.
            owner: whose observation; a new owner's unless given.

        Returns:
            n probabilities, in the kind of array that X is; of several outputs (n, C).

        Raises:
            RecycleGPError: y is a class, whose values have no order; use `predict_proba`.

        Examples:
            >>> m.predict_survival([[1.5], [4.5]], 0.0).round(2)
            array([1., 0.])
        """
        observed = self._observed(X, owner, likelihood)
        mean = observed.at.mean
        if arrays.are_several(at):
            level = arrays.targets(at, len(mean), "at", device=mean.device)
        else:
            level = torch.full_like(mean[:, 0], arrays.number(at, "at"))
        if not isinstance(observed.likelihood, Outputs):
            return arrays.like(X, observed.survival(level))
        return arrays.like(X, torch.stack([own.survival(level) for own in observed.outputs()], -1))

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
        return arrays.like(X, self._observed(X, owner, likelihood).probabilities())

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
        observed = self._observed(X, owner, likelihood)
        mean = observed.at.mean
        true = observed.likelihood.targets(self._as_numbers(y), len(mean), mean.device)
        return arrays.like(X, observed.log_density(true))

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
        for parts, scales in self._parts_to_draw(points, owner):
            mean = parts[0].mean
            drawn = mean.expand(n, -1)
            for part, scale in zip(parts, (None, scales), strict=False):
                z = torch.as_tensor(rng.standard_normal((n, len(mean))), device=points.device)
                if scale is not None:  # of effects, each draw's own
                    z = (
                        z
                        * torch.as_tensor(rng.choice(scale.values, n, p=scale.weights), device=z.device).sqrt()[:, None]
                    )
                drawn = drawn + (z @ linalg.cholesky(part.covariance).L.mT if len(mean) else z)
            found.append(drawn.unflatten(-1, (-1, len(points))) if len(points) else drawn[:, None])
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


def levels_of(q: Any) -> list[float]:
    """Of quantiles: one or several."""
    levels = [arrays.share(p, "q") for p in (np.asarray(q, dtype=object).ravel() if np.ndim(q) else [q])]
    if not levels:
        raise RecycleGPError("q is empty; pass one number between 0 and 1, or several")
    return levels
