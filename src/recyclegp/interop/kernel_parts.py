"""Kernels put together from numbers: what the readers of other libraries' kernels share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import RecycleGPError
from ..kernels import Kernel, Node
from ..kernels.file_form import assemble, from_json, to_json
from ..kernels.nodes import Columns, Constant, Linear, Periodic, Product, RationalQuadratic, Stationary, Sum
from ..kernels.stationary import Form
from ..kernels.units import scaled


def leaf(structure: Node, positive: Sequence[float]) -> Kernel:
    """A kernel that is not composed, from its positive parameters in their order; a centre, if it has one, is zero."""
    return assemble(structure, [math.log(value) for value in positive], [0.0] * structure.size)


def compose(kind: type[Sum] | type[Product], parts: Sequence[Kernel]) -> Kernel:
    """Their sum or product, as one node: a + b + c is not (a + b) + c."""
    if len(parts) == 1:
        return parts[0]
    flat = [child for k in parts for child in (k.structure.parts if type(k.structure) is kind else (k.structure,))]
    return Kernel(kind(tuple(flat)), torch.cat([k.theta for k in parts]))


def checked(kernel: Kernel, dimension: int) -> Kernel:
    """The kernel as a file brings it back: one that no file can hold is refused now, not when it is read."""
    return from_json(to_json(kernel, dimension), dimension)


# --- libraries whose every kernel has a variance of its own ---------------------------------------


class Term(NamedTuple):
    """factor · shape; without a shape, the constant kernel `factor` itself."""

    factor: float
    shape: Kernel | None

    def kernel(self) -> Kernel:
        if self.shape is None:
            return leaf(Constant(), [self.factor])
        return scaled(self.shape, self.factor)


def total(terms: Sequence[Term]) -> Term:
    """Their sum."""
    return Term(1.0, compose(Sum, [t.kernel() for t in terms]))


def product(terms: Sequence[Term]) -> Term:
    """Their product, with one amplitude for all factors: of several, only their product would mean anything."""
    shapes = [t.shape for t in terms if t.shape is not None]
    return Term(math.prod(t.factor for t in terms), compose(Product, shapes) if shapes else None)


class Reader:
    """Makes a term of the numbers of one kernel object, over the columns (of D) that it looks at."""

    def __init__(self, converter: str, kernel: Any, D: int) -> None:
        self._what = f"{converter} cannot represent {type(kernel).__name__}"
        given = kernel.active_dims
        found = list(range(D))[given] if isinstance(given, slice) else [int(c) for c in np.ravel(np.asarray(given))]
        if not all(-D <= c < D for c in found) or not found:
            raise RecycleGPError(f"{self._what} over the columns {found} of {D}; they must exist")
        found = [c % D for c in found]
        self._inputs = len(found)
        self._columns: Columns = None if found == list(range(D)) else tuple(found)

    def term(self, kind: str, number: Callable[[str], Any], stretch: float = 1.0) -> Term:
        """Of a kind by our name; `number` reads a parameter by the name it has below. Lengthscales are stretched."""
        if kind == "linear":
            variances = self._numbers(number("variance"), "variance")
            return Term(1.0, leaf(Linear(len(variances), self._inputs, self._columns), variances))
        factor = self._one(number("variance"), "variance")
        if kind == "constant":
            return Term(factor, None)
        lengths = [stretch * length for length in self._numbers(number("lengthscales"), "lengthscales")]
        if kind == "rq":
            alpha = self._one(number("alpha"), "alpha")
            return Term(factor, leaf(RationalQuadratic(len(lengths), self._columns), [*lengths, alpha]))
        if kind != "periodic":
            return Term(factor, leaf(Stationary(Form(kind), len(lengths), self._columns), lengths))
        # exp(−½ Σ sin²(π(x − x')/p)/ℓ²). Ours, like GPyTorch's, is exp(−2 Σ sin²(π(x − x')/p)/λ), so λ = 4ℓ²
        lambdas, periods = [4 * length**2 for length in lengths], self._numbers(number("period"), "period")
        width = max(len(lambdas), len(periods))
        both = [v for values in (lambdas, periods) for v in (values * width if len(values) < width else values)]
        return Term(factor, leaf(Periodic(width, self._columns), both))

    def _numbers(self, value: Any, what: str) -> list[float]:
        """One positive number, or one for each column."""
        found = [float(v) for v in np.ravel(np.asarray(value, dtype=np.float64))]
        if len(found) not in (1, self._inputs):
            raise RecycleGPError(f"{self._what} with {len(found)} {what} for {self._inputs} columns")
        if not all(0 < v < math.inf for v in found):
            raise RecycleGPError(f"{self._what} with {what}={found}; a module's are positive and finite")
        return found

    def _one(self, value: Any, what: str) -> float:
        found = self._numbers(value, what)
        if len(found) > 1:
            raise RecycleGPError(f"{self._what} with {len(found)} of {what}; a module has one")
        return found[0]
