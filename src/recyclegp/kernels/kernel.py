"""A kernel as a value: a structure of typed nodes and one vector of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from .. import trees
from ..errors import RecycleGPError
from .nodes import Linear, Node, Parameter, Product, Unit


@dataclass(frozen=True, eq=False)
class Kernel:
    """k_θ(x, x'): evaluates itself, and is compared by what it is. With leading axes, as many kernels side by side.

    θ holds logarithms of all positive parameters, and the centres of linear kernels as they are.
    """

    structure: Node
    theta: Tensor  # (…, p) float64

    def __post_init__(self) -> None:
        wanted = self.structure.size
        if self.theta.shape[-1] != wanted:
            raise RecycleGPError(f"kernel: {self.theta.shape[-1]} parameters for a structure with {wanted}")

    def each(self) -> list[Kernel]:
        """Those side by side one by one; they were checked together."""

        several = [object.__new__(Kernel) for _ in range(len(self.theta))]
        for one, theta in zip(several, self.theta.unbind(), strict=True):
            own = one.__dict__
            own["structure"], own["theta"] = self.structure, theta
        return several

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        return self.structure == other.structure and torch.equal(self.theta, other.theta)

    def __hash__(self) -> int:
        return hash((self.structure, tuple(self.theta.flatten().tolist())))

    def __repr__(self) -> str:
        return f"Kernel({self.describe()})" if self.theta.ndim == 1 else f"Kernel({text(self.structure)}, many)"

    def matrix(self, X1: Tensor, X2: Tensor) -> Tensor:
        """k(X1, X2), dense: (…, n, m)."""
        return self.structure.matrix(self.theta, X1, X2)

    def diagonal(self, X: Tensor) -> Tensor:
        """k(x, x) for each row of X: (…, n)."""
        return self.structure.diagonal(self.theta, X)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the entries of θ are, in their order."""
        return parameters(self.structure)

    def lengths(self, dimension: int) -> Tensor:
        """The shortest lengthscale along each column (…, D); infinite where the kernel has none."""
        found = self.theta.new_full((*self.theta.shape[:-1], dimension), math.inf)
        for p, values in zip(self.parameters, self.theta.split([p.size for p in self.parameters], -1), strict=True):
            if p.name == "lengthscale" and p.unit is Unit.LENGTH:
                if p.columns is None:
                    found = torch.minimum(found, values.exp())
                else:
                    columns = list(p.columns)
                    found[..., columns] = torch.minimum(found[..., columns], values.exp())
        return found

    def lengthened(self, stretch: Tensor) -> Kernel:
        """With lengthscales e^stretch times as long, by column (D,); one that several columns share, by their mean."""
        values = []
        for p, own in zip(self.parameters, self.theta.split([p.size for p in self.parameters], -1), strict=True):
            if p.name == "lengthscale" and p.unit is Unit.LENGTH:
                more = stretch if p.columns is None else stretch[list(p.columns)]
                own = own + (more if p.size == len(more) else more.mean())
            values.append(own)
        return self.with_theta(torch.cat(values, -1))

    def lengthscales(self, dimension: int) -> Tensor:
        """(D,): the same of one kernel, outside every derivative; zero where no part of it has any."""
        found = self.lengths(dimension).detach().cpu()
        return torch.where(found.isinf(), 0.0, found)

    def with_theta(self, theta: Tensor) -> Kernel:
        """The same structure with other numbers."""
        return Kernel(self.structure, theta)

    def select(self, chosen: Tensor | int) -> Kernel:
        """Some of many kernels side by side."""
        return Kernel(self.structure, self.theta[chosen])

    def own(self, device: torch.device | str = "cpu") -> Kernel:
        """A copy whose numbers nobody else has, outside every derivative."""
        return Kernel(one_object(self.structure), self.theta.detach().to(device, torch.float64, copy=True))

    def to(self, device: torch.device) -> Kernel:
        return self if self.theta.device == device else Kernel(self.structure, self.theta.to(device))

    def describe(self, most: int | None = 8) -> str:
        """One line for people: structure and parameters in the user's units, of each no more numbers than `most`."""
        return trees.described(text(self.structure), self.parameters, self.theta.tolist(), most)


def from_people(value: float, unit: Unit) -> float:
    """An entry of θ, from the number people know; a ValueError where there is none."""
    if unit is Unit.LOADING:
        return value
    return math.log(-math.log(value) if unit is Unit.DISTANCE else value)


@lru_cache(maxsize=1024)  # many kernels, few structures
def parameters(structure: Node) -> tuple[Parameter, ...]:
    return tuple(structure.parameters())


@lru_cache(maxsize=1024)
def one_object(structure: Node) -> Node:
    """The first of equal structures: those of a hundred thousand modules are then small, and compared at once."""
    return structure


def entries(structure: Node) -> list[Parameter]:
    """The parameter that each single entry of θ belongs to."""
    return [p for p in parameters(structure) for _ in range(p.size)]


def learned(structure: Node) -> list[bool]:
    """Which entries of θ are learned: all but places."""
    return [p.learned for p in entries(structure)]


def knows_its_level(structure: Node) -> bool:
    """Is f known for certain somewhere? A kernel of linear parts alone has no variance at their centre."""
    if isinstance(structure, Product):
        return any(knows_its_level(part) for part in structure.parts)
    if structure.parts:
        return all(knows_its_level(part) for part in structure.parts)
    return isinstance(structure, Linear)


def text(node: Node) -> str:
    """The structure as `parse` reads it."""
    return trees.text(node.composed or node.name, [text(part) for part in node.parts])


def continuous_columns(structure: Node, dimension: int) -> list[int]:
    """The columns along which points may move: all but those that hold codes of levels."""
    return [column for column in range(dimension) if column not in structure.discrete]


def numeric_columns(structure: Node, dimension: int) -> set[int]:
    """The columns that some part takes for numbers."""
    if structure.parts:
        return {column for part in structure.parts for column in numeric_columns(part, dimension)}
    if structure.discrete or not hasattr(structure, "columns"):
        return set()
    return set(range(dimension) if structure.columns is None else structure.columns)


def pool(kernels: Kernel, weights: Sequence[float]) -> Kernel:
    """One of many side by side: the weighted median of every entry of θ. Degenerate modules would wreck a mean.

    Tiny data sets learn lengthscales from 1e-8 to 1e5, so each kernel counts with the rows behind it.
    """
    middle = [weighted_median(column, weights) for column in kernels.theta.cpu().numpy().T]
    return kernels.with_theta(torch.tensor(middle, dtype=torch.float64))


def weighted_median(values: Sequence[float] | np.ndarray, weights: Sequence[float] | np.ndarray) -> float:
    """The middle of the total weight; half-way between two values where it falls on their border."""
    v, w = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    order = v.argsort(kind="stable")
    v, w = v[order], w[order]
    share = w.cumsum() / w.sum()
    low, high = share.searchsorted((0.5 - 1e-12, 0.5 + 1e-12)).tolist()
    return float(0.5 * (v[low] + v[min(high, len(v) - 1)]))
