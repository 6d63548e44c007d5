"""What modules and ensembles are: Gaussian processes with a likelihood, of one function or of several.

Inside, moments are (n, C) for C functions; outside, what is one value for one function is not wrapped in a tuple.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..categories import Categories, described
from ..core.exact import ExactPosterior
from ..core.posterior import Posterior
from ..devices import CPU, device_of
from ..errors import RecycleGPError, warn_user
from ..kernels import Kernel
from ..kernels.units import InputUnits
from ..likelihoods import Likelihood, Moments, Observed, labels
from ..record import known_noises
from ..target import Target
from .processes import DrawnParts, Process
from .units import input_units

T = TypeVar("T")


def outside_autograd(compute: Callable[[Any], Any]) -> Any:
    """For what is computed once and kept: the same whatever gradient mode the first caller was in."""

    @wraps(compute)
    def computed(self: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            return compute(self)

    return computed


class Model(ABC):
    """A model as a value: what the final classes say of it, and what follows from that."""

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
        return {f.name: here[f.name] for f in fields(self)}  # type: ignore[arg-type]  # all are dataclasses

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
        called = self.targets[0].labels
        return chosen.classes if called is None else tuple(own or c for own, c in zip(called, ("0", "1"), strict=True))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs, in the order of the columns of `predict`."""
        chosen = self.likelihoods[0]
        if chosen.predicts_all and not chosen.classifies:
            return chosen.functions
        if len(self.functions) > 1:
            raise RecycleGPError(f"outputs: this model has {chosen.meaning}; see its functions")
        return (self.targets[0].name or "y",)

    def _as_numbers(self, y: Any) -> Any:
        """y as 0 and 1 where it holds the words that classes are called by here; else as it is."""
        two = len(self.functions) == 1 and all(p.classifies and not p.names_classes for p in self.likelihoods)
        return labels.as_numbers(y, self.targets[0].labels) if two else y

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
        from ..kernels.gpytorch_objects import to_gpytorch

        return squeezed([to_gpytorch(k, self.dimension) for k in self._kernels])

    @property
    def noise(self) -> Any:
        """Noise variance of the gaussian (or student-t) likelihood, where there is one; of several outputs a tuple."""
        return squeezed(known_noises(self.likelihoods))

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where modules have points, along each input."""
        ends = torch.cat(self._boxes)
        return arrays.frozen(torch.stack([ends.amin(0), ends.amax(0)], 1))

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

    def _observed(self, X: Any, owner: str | None, name: str | None) -> Observed:
        """A new y at each row."""
        chosen = self._likelihood_of(owner, name)
        return Observed(chosen, self._moments(X, owner, of_y=True))

    def _parts_to_draw(self, points: Tensor, owner: str | None) -> list[DrawnParts]:
        """Independent parts that each process is the sum of: f, and effects of a new owner, where these are scaled."""
        return [([process.together(points)], None) for process in self._processes(owner, of_y=False)]

    def _input_units(self, scale: Any, shift: Any) -> InputUnits:
        discrete = self._kernels[0].structure.discrete
        return input_units(scale, shift, dimension=self.dimension, columns=self.columns, discrete=discrete)

    def _number_of(self, function: str) -> int:
        """Which of its functions is called so."""
        if function not in self.functions:
            raise RecycleGPError(f"function={function!r}: there are {', '.join(self.functions)}")
        return self.functions.index(function)

    def _likelihood(self, name: str | None) -> Likelihood:
        return likelihoods.choose(self.likelihoods, name)

    def _likelihood_of(self, owner: str | None, name: str | None) -> Likelihood:
        """Of one owner's observations; a new one's unless given."""
        return self._likelihood(name)


def squeezed(values: Sequence[T]) -> Any:
    """One value for one function, a tuple for several."""
    return values[0] if len(values) == 1 else tuple(values)
