"""Specifications of kernels put together from numbers: what readers of other libraries' kernels share."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import kernel_units, kernels
from ..errors import RecycleGPError
from ..kernels import Kernel, Node


def node(kind: Node, *parameters: float, shared: int = 0, dims: list[int] | None = None) -> Kernel:
    """A leaf; `shared` counts the parameters that are not one for each column."""
    width = len(parameters) - shared
    leaf = {**kind, "ard": width if width > 1 else None, "dims": dims}
    return Kernel(kernels.dump(leaf), tuple(map(math.log, parameters)))


def joined(kind: str, parts: Sequence[Kernel]) -> Kernel:
    """Their sum or product, in one list: a + b + c is not (a + b) + c."""
    if len(parts) == 1:
        return parts[0]
    nodes = [json.loads(k.tree) for k in parts]
    flat = [child for n in nodes for child in (n["parts"] if n["kind"] == kind else [n])]
    return Kernel(kernels.dump({"kind": kind, "parts": flat}), tuple(t for k in parts for t in k.theta))


# --- libraries whose every kernel has a variance of its own ---------------------------------------


class Term(NamedTuple):
    """factor · shape, and without a shape the constant itself."""

    factor: float
    shape: Kernel | None

    def kernel(self) -> Kernel:
        if self.shape is None:
            return node({"kind": "constant"}, self.factor)
        return kernel_units.scaled(self.shape, self.factor)


def total(terms: Sequence[Term]) -> Term:
    return Term(1.0, joined("sum", [t.kernel() for t in terms]))


def product(terms: Sequence[Term]) -> Term:
    """With one amplitude for all factors: of several, only their product would mean anything."""
    shapes = [t.shape for t in terms if t.shape is not None]
    return Term(math.prod(t.factor for t in terms), joined("product", shapes) if shapes else None)


class Reader:
    """Leaves from the numbers of one kernel object of `library`, over its columns of D."""

    def __init__(self, library: str, kernel: Any, D: int) -> None:
        self._what = f"{library} cannot represent {type(kernel).__name__}"
        columns = kernel.active_dims
        if isinstance(columns, slice):
            self.columns = list(range(D))[columns]
        else:
            self.columns = [int(c) for c in np.ravel(np.asarray(columns))]
        if not all(-D <= c < D for c in self.columns) or not self.columns:
            raise RecycleGPError(f"{self._what} over the columns {self.columns} of {D}; they must exist")
        self.columns = [c % D for c in self.columns]
        self._dims = None if self.columns == list(range(D)) else self.columns

    def numbers(self, value: Any, what: str) -> list[float]:
        """One positive number, or one for each column."""
        found = [float(v) for v in np.ravel(np.asarray(value, dtype=np.float64))]
        if len(found) not in (1, len(self.columns)):
            raise RecycleGPError(f"{self._what} with {len(found)} {what} for {len(self.columns)} columns")
        if not all(0 < v < math.inf for v in found):
            raise RecycleGPError(f"{self._what} with {what}={found}; a module's are positive and finite")
        return found

    def one(self, value: Any, what: str) -> float:
        found = self.numbers(value, what)
        if len(found) > 1:
            raise RecycleGPError(f"{self._what} with {len(found)} of {what}; a module has one")
        return found[0]

    def constant(self, variance: Any) -> Term:
        return Term(self.one(variance, "variance"), None)

    def linear(self, variance: Any) -> Term:
        return Term(1.0, node({"kind": "linear"}, *self.numbers(variance, "variance"), dims=self._dims))

    def stationary(self, kind: str, variance: Any, lengths: Any, stretch: float = 1.0) -> Term:
        """rbf, matern12 … with lengthscales `stretch` times those given."""
        leaf: Node = {"kind": "matern", "nu": kernels.NU[kind]} if kind in kernels.NU else {"kind": kind}
        scaled = [stretch * length for length in self.numbers(lengths, "lengthscales")]
        return Term(self.one(variance, "variance"), node(leaf, *scaled, dims=self._dims))

    def rational_quadratic(self, variance: Any, lengths: Any, alpha: Any) -> Term:
        parameters = [*self.numbers(lengths, "lengthscales"), self.one(alpha, "alpha")]
        return Term(self.one(variance, "variance"), node({"kind": "rq"}, *parameters, shared=1, dims=self._dims))

    def periodic(self, variance: Any, lengths: Any, period: Any) -> Term:
        """exp(−½ Σ sin²(π(x − x')/p)/ℓ²); GPyTorch's is exp(−2 Σ sin²(π(x − x')/p)/λ), so that λ = 4ℓ²."""
        lambdas = [4 * length**2 for length in self.numbers(lengths, "lengthscales")]
        periods = self.numbers(period, "period")
        width = max(len(lambdas), len(periods))
        lambdas, periods = (v * width if len(v) < width else v for v in (lambdas, periods))
        shape = node({"kind": "periodic"}, *lambdas, *periods, shared=width, dims=self._dims)
        return Term(self.one(variance, "variance"), shape)
