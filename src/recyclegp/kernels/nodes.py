"""The parts a kernel is composed of, as frozen values without numbers: what is composed, and how.

A structure is a tree of these nodes. Its numbers are one vector θ beside it (`Kernel` holds both), in the order in
which nodes are met from the root, a node's own before those of its parts. Positive parameters are kept as logarithms;
the centre of a linear kernel, a place, is kept as it is.

Every node evaluates itself at its own part of θ, which may have leading axes: as many kernels side by side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..trees import Columns as Columns
from ..trees import Parameter as Parameter
from ..trees import Unit as Unit
from .stationary import Form, correlation, covariance, squared_distance


class Node(ABC):
    """Abstract; the classes below are final."""

    _name: ClassVar[str] = ""
    composed: ClassVar[str] = ""  # of which kind, for what is made of parts

    @abstractmethod
    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        """Its entries of θ; `carries`: do the units of y² still have to go somewhere?"""

    @abstractmethod
    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        """k(X1, X2), (…, n, m), for X1 (…, n, D) and X2 (…, m, D)."""

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        """k(x, x) for each row of X: (…, n); that of a correlation is one."""
        return _ones(theta, X)

    @property
    def has_amplitude(self) -> bool:
        """Can the whole of k be multiplied by a constant through a parameter it already has? A correlation cannot."""
        return False

    @property
    def name(self) -> str:
        """What users call it; composed nodes have none."""
        return self._name

    @property
    def parts(self) -> tuple[Node, ...]:
        """What it is composed of; nothing, for a leaf."""
        return ()

    @property
    def discrete(self) -> tuple[int, ...]:
        """The columns that it takes for codes of levels, 0, 1, 2, …: no point may lie between two of them."""
        return tuple(sorted({column for part in self.parts for column in part.discrete}))

    @cached_property
    def size(self) -> int:
        """Of its part of θ."""
        return sum(p.size for p in self.parameters())


# --- leaves -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stationary(Node):
    """A correlation of the distance in lengthscales: one for all columns, or one for each."""

    form: Form
    width: int  # of the lengthscales
    columns: Columns = None

    @property
    def name(self) -> str:
        return self.form.value

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("lengthscale", Unit.LENGTH, self.width, self.columns, False)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        return correlation(self.form, theta, seen(X1, self.columns), seen(X2, self.columns))

    def scaled(self, log_variance: Tensor, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        """A variance times it, in one pass."""
        return covariance(self.form, log_variance, theta, seen(X1, self.columns), seen(X2, self.columns))


@dataclass(frozen=True)
class RationalQuadratic(Node):
    """(1 + d²/2α)^(−α): a mixture of RBF kernels of many lengthscales."""

    width: int  # of the lengthscales
    columns: Columns = None
    _name = "rq"

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("lengthscale", Unit.LENGTH, self.width, self.columns, False)
        yield Parameter("alpha", Unit.NONE, 1, None, False)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        scale, alpha = theta[..., None, :-1].exp(), theta[..., -1, None, None].exp()
        s = squared_distance(seen(X1, self.columns) / scale, seen(X2, self.columns) / scale)
        return torch.exp(-alpha * torch.log1p(s / (2 * alpha)))


@dataclass(frozen=True)
class Periodic(Node):
    """exp(−2 Σ_d sin²(π(x − x')_d / p_d) / ℓ_d), GPyTorch's form: ℓ is a pure number, and not squared."""

    width: int  # of the lengthscales, and of the periods
    columns: Columns = None
    _name = "periodic"

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("lengthscale", Unit.NONE, self.width, self.columns, False)
        yield Parameter("period_length", Unit.LENGTH, self.width, self.columns, False)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        A, B = seen(X1, self.columns), seen(X2, self.columns)
        D = A.shape[-1]
        lengthscale, period = (t.exp().expand(*theta.shape[:-1], D) for t in theta.chunk(2, -1))
        # differences first: of x = 100,000 the phase x/p alone has lost its last digits
        waves = (
            torch.sin(math.pi * (A[..., d, None] - B[..., None, :, d]) / period[..., d, None, None]).square()
            / lengthscale[..., d, None, None]
            for d in range(D)
        )
        return torch.exp(-2 * reduce(torch.add, waves))


@dataclass(frozen=True)
class Linear(Node):
    """Σ_d v_d (x − c)_d (x' − c)_d, about a centre c: a kernel about the data, not about zero."""

    width: int  # of the variances
    inputs: int  # columns it looks at: the size of the centre
    columns: Columns = None
    _name = "linear"
    has_amplitude = True

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("variance", Unit.SLOPE, self.width, self.columns, carries)
        yield Parameter("centre", Unit.PLACE, self.inputs, self.columns, False)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        variance, A, B = self._centred(theta, X1, X2)
        return (A * variance) @ B.mT

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        variance, A, _ = self._centred(theta, X, X)
        return (A.square() * variance).sum(-1)

    def _centred(self, theta: Tensor, X1: Tensor, X2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        variance, centre = theta[..., None, : self.width].exp(), theta[..., None, self.width :]
        return variance, seen(X1, self.columns) - centre, seen(X2, self.columns) - centre


@dataclass(frozen=True)
class Constant(Node):
    """The same covariance everywhere: a constant function of unknown height."""

    _name = "constant"
    has_amplitude = True

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("constant", Unit.AMPLITUDE, 1, None, carries)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        return _ones(theta, X1)[..., :, None] * _ones(theta, X2)[..., None, :] * theta.exp()[..., None]

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        return _ones(theta, X) * theta.exp()


@dataclass(frozen=True)
class Category(Node):
    """Π_j exp(−d_j [x_j ≠ x'_j]): any two levels of a column have the same correlation ρ_j = exp(−d_j), known or not.

    As ρ + (1 − ρ)[x = x'] it is what all levels share and what each has of its own.
    """

    columns: tuple[int, ...]
    _name = "category"

    @property
    def discrete(self) -> tuple[int, ...]:
        return tuple(sorted(self.columns))

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("correlation", Unit.DISTANCE, len(self.columns), self.columns, False)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        A, B, distance = X1.detach(), X2.detach(), theta.exp()
        apart = (
            distance[..., j, None, None] * (A[..., :, c, None] != B[..., None, :, c])
            for j, c in enumerate(self.columns)
        )
        return torch.exp(-reduce(torch.add, apart))


@dataclass(frozen=True)
class Index(Node):
    """B[i, j] of the levels i and j of one column, with B = WWᵀ + diag(κ): how functions go together.

    W are loadings, one row for each level; κ is a variance of each level's own.
    """

    column: int
    levels: int
    rank: int
    _name = "index"

    @property
    def discrete(self) -> tuple[int, ...]:
        return (self.column,)

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        if self.rank:
            yield Parameter("loading", Unit.LOADING, self.levels * self.rank, (self.column,), False)
        yield Parameter("own", Unit.NONE, self.levels, (self.column,), False)

    def covariance(self, theta: Tensor) -> Tensor:
        """B, (…, C, C)."""
        W = theta[..., : self.levels * self.rank].unflatten(-1, (self.levels, self.rank))
        return W @ W.mT + torch.diag_embed(theta[..., self.levels * self.rank :].exp())

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        return self._levels(X1) @ self.covariance(theta) @ self._levels(X2).mT

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        own = self.covariance(theta).diagonal(dim1=-2, dim2=-1)
        return (self._levels(X) @ own[..., None])[..., 0]

    def _levels(self, X: Tensor) -> Tensor:
        """(…, n, C): 1 where a row has the level."""
        known = torch.arange(self.levels, dtype=X.dtype, device=X.device)
        return (X.detach()[..., self.column, None] == known).to(X.dtype)


OF_NUMBERS = (Stationary, RationalQuadratic, Periodic, Linear)  # leaves of columns that hold numbers


def leaf_called(name: str, width: int, inputs: int, columns: Columns) -> Node:
    """The leaf of that name, of numbers in so many columns: with one length (or variance) for all, or one for each."""
    if name == "linear":
        return Linear(width, inputs, columns)
    if name == "rq":
        return RationalQuadratic(width, columns)
    return Periodic(width, columns) if name == "periodic" else Stationary(Form(name), width, columns)


# --- composition ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale(Node):
    """A variance times another kernel."""

    base: Node
    composed = "scale"
    has_amplitude = True

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.base,)

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        yield Parameter("outputscale", Unit.AMPLITUDE, 1, None, carries)
        yield from self.base.parameters(False)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        if isinstance(self.base, Stationary):
            return self.base.scaled(theta[..., :1], theta[..., 1:], X1, X2)
        variance, K = theta[..., :1, None].exp(), self.base.matrix(theta[..., 1:], X1, X2)
        # where nothing is differentiated the matrix, which is nobody else's, is overwritten
        return variance * K if variance.requires_grad or K.requires_grad else K.mul_(variance)

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        return theta[..., :1].exp() * self.base.diagonal(theta[..., 1:], X)


@dataclass(frozen=True)
class Sum(Node):
    terms: tuple[Node, ...]
    composed = "sum"

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.terms

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        for part in self.terms:
            yield from part.parameters(carries)

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        return reduce(torch.add, (part.matrix(own, X1, X2) for part, own in shares(self, theta)))

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        return reduce(torch.add, (part.diagonal(own, X) for part, own in shares(self, theta)))

    @property
    def has_amplitude(self) -> bool:
        return all(part.has_amplitude for part in self.terms)


@dataclass(frozen=True)
class Product(Node):
    factors: tuple[Node, ...]
    composed = "product"

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.factors

    def parameters(self, carries: bool = True) -> Iterator[Parameter]:
        for part in self.factors:
            takes = carries and part.has_amplitude
            yield from part.parameters(takes)
            carries = carries and not takes

    def matrix(self, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        return reduce(torch.mul, (part.matrix(own, X1, X2) for part, own in shares(self, theta)))

    def diagonal(self, theta: Tensor, X: Tensor) -> Tensor:
        return reduce(torch.mul, (part.diagonal(own, X) for part, own in shares(self, theta)))

    @property
    def has_amplitude(self) -> bool:
        return any(part.has_amplitude for part in self.factors)


def shares(node: Node, theta: Tensor) -> list[tuple[Node, Tensor]]:
    """Each part of a composed node with its own entries of θ, which stand behind the node's own."""
    sizes = [part.size for part in node.parts]
    behind = theta[..., theta.shape[-1] - sum(sizes) :]
    return list(zip(node.parts, behind.split(sizes, dim=-1), strict=True))


def seen(X: Tensor, columns: Columns) -> Tensor:
    return X if columns is None else X[..., list(columns)]


def _ones(theta: Tensor, X: Tensor) -> Tensor:
    """(…, n), for the leading axes of both."""
    batch = np.broadcast_shapes(theta.shape[:-1], X.shape[:-2])  # torch's own imports sympy
    return theta.new_ones((*batch, X.shape[-2]))
