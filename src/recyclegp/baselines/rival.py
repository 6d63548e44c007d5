"""What every rival can be asked, and what it costs the data owners.

A rival is fitted from `parts`, one (X, y) per data owner, and answers with the latent moments of f;
everything about y follows from those and its likelihood, exactly as for modules and ensembles.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import Array
from ..errors import PublishingWarning, RecycleGPError
from ..likelihoods import Likelihood
from ..models.module import Module

ROWS = 1000  # from which the hyperparameters of an exact GP are learned
NUMBER = 8  # bytes of a float64: all traffic is counted in these, without headers or compression

Parts = Sequence[tuple[Array, Array]]


@contextmanager
def for_hyperparameters() -> Iterator[None]:
    """Around a fit whose points do not matter: that they keep little, of few rows, need not be said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishingWarning)
        yield


class Sent(NamedTuple):
    """Bytes that leave a data owner, the mean over owners; what an owner receives is not counted."""

    fit: float  # once, while fitting
    each: float = 0.0  # for every test point, where owners must answer

    def total(self, points: int) -> float:
        return self.fit + self.each * points


class Part(NamedTuple):
    X: Tensor  # (n, D)
    y: Tensor  # (n,)


@dataclass(frozen=True)
class Rival:
    """A fitted rival. `latent` maps points (n, D) to the mean and variance of f there."""

    name: str
    latent: Callable[[Tensor], tuple[Tensor, Tensor]]
    likelihoods: tuple[Likelihood, ...]
    sent: Sent
    dimension: int
    rounds: int = 1  # of messages from the owners, while fitting

    @torch.no_grad()
    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the latent f at each row of X."""
        mean, variance = self.latent(arrays.aligned(X, self.dimension, None))
        return arrays.like(X, mean), arrays.like(X, variance)

    @torch.no_grad()
    def predict_y(self, X: Array, likelihood: str | None = None) -> tuple[Array, Array]:
        """Mean and variance of a new observation y at each row of X."""
        chosen = likelihoods.choose(self.likelihoods, likelihood)
        mean, variance = chosen.moments(*self.latent(arrays.aligned(X, self.dimension, None)))
        return arrays.like(X, mean), arrays.like(X, variance)

    @torch.no_grad()
    def log_density(self, X: Array, y: Array, likelihood: str | None = None) -> Array:
        """log p(y_t) of each observation, on y."""
        chosen = likelihoods.choose(self.likelihoods, likelihood)
        points = arrays.aligned(X, self.dimension, None)
        y = chosen.check(arrays.targets(y, len(points), device=points.device))
        return arrays.like(X, chosen.log_density(y, *self.latent(points)))

    def bytes_sent(self, points: int = 0) -> float:
        """Bytes that leave a data owner to fit, and then to answer so many test points."""
        return self.sent.total(points)


def checked(parts: Parts, likelihood: str) -> list[Part]:
    """Every owner's data as tensors of one dimension, none of them empty."""
    found = [arrays.inputs(X, f"parts[{k}]").X.detach() for k, (X, _) in enumerate(parts)]
    if not found or len({X.shape[1] for X in found}) > 1 or not all(len(X) for X in found):
        shapes = ", ".join(str(tuple(X.shape)) for X in found[:5])
        raise RecycleGPError(f"parts must hold (X, y) pairs with rows and the same columns, got shapes {shapes}")
    check = likelihoods.named(likelihood).check
    return [
        Part(X, check(arrays.targets(y, len(X), f"parts[{k}]", device=X.device).detach()))
        for k, (X, (_, y)) in enumerate(zip(found, parts, strict=True))
    ]


def together(parts: Sequence[Part]) -> Part:
    return Part(torch.cat([p.X for p in parts]), torch.cat([p.y for p in parts]))


def rows_bytes(parts: Sequence[Part]) -> float:
    """What an owner sends who hands over all rows, inputs and targets."""
    return NUMBER * sum(p.X.numel() + p.y.numel() for p in parts) / len(parts)


def module_bytes(module: Module) -> int:
    """What an owner sends who publishes a module: its points, site, kernel, mean, noise and jitter."""
    likelihood = sum(len(own.parameters) for p in module.likelihoods for own in p.parts)
    functions = (sum(t.numel() for t in p.known_site) + len(p.kernel.theta) + 2 for p in module.latents)
    return NUMBER * (sum(functions) + likelihood)
