"""Kernels under changes of units and columns: what they become when x or y is measured differently."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from .kernel import Kernel, entries, parameters
from .nodes import OF_NUMBERS, Category, Columns, Index, Node, Product, Scale, Stationary, Sum, Unit, shares
from .stationary import Form


class InputUnits(NamedTuple):
    """x' = scale∘x + shift: inputs as they are measured afterwards, by those before."""

    scale: Tensor  # (D,)  positive
    shift: Tensor  # (D,)

    @staticmethod
    def same(dimension: int, beside: Tensor | None = None) -> InputUnits:
        """Nothing changes; on the device of the numbers beside which it is used, where these are given."""
        one = torch.ones(dimension, dtype=torch.float64, device=None if beside is None else beside.device)
        return InputUnits(one, torch.zeros_like(one))

    def of(self, X: Tensor) -> Tensor:
        """Points (…, D) in the new units."""
        return self.scale * X + self.shift

    def to(self, device: torch.device) -> InputUnits:
        return InputUnits(self.scale.to(device), self.shift.to(device))


def reference(structure: Node, x_scale: Tensor, x_centre: Tensor, y_scale: Tensor) -> Tensor:
    """θ (…, p) of a kernel whose lengths (…, D) and amplitudes (…) are one standard deviation of the data.

    This is where inputs and outputs are standardised: θ − reference is what the optimiser and the priors see, so
    that neither knows in which units the user measured.
    """
    log_x, log_y2 = x_scale.log(), 2 * y_scale.log()[..., None]
    pieces = []
    for p in parameters(structure):
        place, columns = _of(x_centre, p.columns), _of(log_x, p.columns)
        if p.unit is Unit.PLACE:
            pieces.append(place)
            continue
        width = columns.shape[-1]
        entry = columns if p.size == width else columns.mean(-1, keepdim=True).expand(*columns.shape[:-1], p.size)
        if p.unit is Unit.LENGTH:
            value = entry
        elif p.unit is Unit.SLOPE:  # v·x·x' summed over columns has the units of y²
            value = -2 * entry - math.log(width)
        elif p.unit is Unit.DISTANCE:  # rows that differ in all columns are half as much alike
            value = torch.full_like(entry, math.log(math.log(2) / width))
        else:
            value = torch.zeros_like(entry)
        pieces.append(value + log_y2 if p.carries else value)
    return torch.cat(pieces, -1)


def _of(values: Tensor, columns: Columns) -> Tensor:
    return values if columns is None else values[..., list(columns)]


def scaled(kernel: Kernel, factor: float) -> Kernel:
    """factor · k."""
    if not kernel.structure.has_amplitude:
        own = kernel.theta.new_full((*kernel.theta.shape[:-1], 1), math.log(factor))
        return Kernel(Scale(kernel.structure), torch.cat([own, kernel.theta], -1))
    carries = kernel.theta.new_tensor([p.carries for p in entries(kernel.structure)])
    return kernel.with_theta(kernel.theta + math.log(factor) * carries)


def in_units(kernel: Kernel, scale: float, inputs: InputUnits) -> Kernel:
    """The kernel of s·f((x − shift)/scale): lengths and periods grow with the inputs' scale, centres move with them."""
    return stretched(scaled(kernel, scale**2), 1 / inputs.scale, -inputs.shift / inputs.scale)


def stretched(kernel: Kernel, scale: Tensor, shift: Tensor) -> Kernel:
    """k(a∘x + b, a∘x' + b): a kernel of standardised inputs as one of the inputs as they were measured."""
    log_a = scale.abs().log()

    def change(leaf: Node, theta: Tensor) -> Kernel:
        wide = _widened(leaf, log_a)
        pieces = []
        for old, new, values in zip(
            leaf.parameters(), wide.parameters(), theta.split([p.size for p in leaf.parameters()]), strict=True
        ):
            own = _of(log_a, new.columns)[: new.size]  # all equal where one entry stands for several columns
            values = values if old.size == new.size else values.expand(new.size)
            if new.unit is Unit.LENGTH:
                values = values - own
            elif new.unit is Unit.SLOPE:
                values = values + 2 * own
            elif new.unit is Unit.PLACE:  # a∘x + b − c = a∘(x − (c − b)/a)
                values = (values - _of(shift, new.columns)) / _of(scale, new.columns)
            pieces.append(values)
        return Kernel(wide, torch.cat(pieces))

    return _with_leaves(kernel, change)


def _widened(leaf: Node, log_a: Tensor) -> Node:
    """One length for all columns becomes one for each, where columns are stretched differently."""
    if not isinstance(leaf, OF_NUMBERS):
        return leaf
    own = _of(log_a, leaf.columns)
    return leaf if len(own) == 1 or bool((own == own[0]).all()) else replace(leaf, width=len(own))


def permuted(kernel: Kernel, order: Sequence[int]) -> Kernel:
    """The same kernel when the new column j is the old column order[j]."""
    order = list(order)

    def change(leaf: Node, theta: Tensor) -> Kernel:
        if isinstance(leaf, Index):
            return Kernel(replace(leaf, column=order.index(leaf.column)), theta)
        if not isinstance(leaf, (*OF_NUMBERS, Category)):
            return Kernel(leaf, theta)
        if leaf.columns is not None:
            return Kernel(replace(leaf, columns=tuple(order.index(c) for c in leaf.columns)), theta)
        split = theta.split([p.size for p in leaf.parameters()])
        # an entry for each column moves with it
        return Kernel(leaf, torch.cat([t[order] if len(t) == len(order) else t for t in split]))

    return _with_leaves(kernel, change)


def beside(kernel: Kernel, dimension: int) -> Kernel:
    """The same kernel of the first `dimension` columns, where there are more."""

    def change(leaf: Node, theta: Tensor) -> Kernel:
        if isinstance(leaf, OF_NUMBERS) and leaf.columns is None:
            return Kernel(replace(leaf, columns=tuple(range(dimension))), theta)
        return Kernel(leaf, theta)

    return _with_leaves(kernel, change)


def smoother(kernel: Kernel) -> Kernel:
    """With rbf in place of matern52, of the same curvature at distance zero; the same kernel where it has none.

    1 − (5/6)d²/ℓ² = 1 − ½d²/ℓ'² asks for ℓ' = ℓ√(3/5).
    """

    def change(leaf: Node, theta: Tensor) -> Kernel:
        if isinstance(leaf, Stationary) and leaf.form is Form.MATERN52:
            return Kernel(replace(leaf, form=Form.RBF), theta + 0.5 * math.log(3 / 5))
        return Kernel(leaf, theta)

    return _with_leaves(kernel, change)


def alike(kernel: Kernel, other: Kernel) -> Kernel | None:
    """The kernel with the other's structure, which has rbf where it has matern52, or the reverse; else None."""
    if kernel.structure == other.structure:
        return kernel
    smooth, changed = smoother(kernel), smoother(other)
    if smooth.structure != changed.structure:
        return None
    return Kernel(other.structure, smooth.theta - (changed.theta - other.theta))


def times(kernel: Kernel, other: Kernel) -> Kernel:
    """The product of two kernels."""
    return Kernel(Product((kernel.structure, other.structure)), torch.cat([kernel.theta, other.theta], -1))


def _with_leaves(kernel: Kernel, change: Callable[[Node, Tensor], Kernel]) -> Kernel:
    """The kernel with every leaf changed, structure and numbers together."""
    node, theta = kernel.structure, kernel.theta
    if not node.parts:
        return change(node, theta)
    parts = [_with_leaves(Kernel(part, own), change) for part, own in shares(node, theta)]
    own = theta[..., : theta.shape[-1] - sum(p.size for p in node.parts)]
    numbers = torch.cat([own, *(k.theta for k in parts)], -1)
    structures = tuple(k.structure for k in parts)
    if isinstance(node, Scale):
        return Kernel(Scale(structures[0]), numbers)
    return Kernel(Sum(structures) if isinstance(node, Sum) else Product(structures), numbers)
