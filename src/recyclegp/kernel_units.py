"""Kernels under changes of units and columns: what they become when x or y is measured differently."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .kernels import LEAVES, Kernel, Node, dump, has_amplitude, parameters, rebuild


def reference(tree: str, x_scale: Tensor, y_scale: Tensor) -> Tensor:
    """θ (…, p) of a kernel whose lengths (…, D) and amplitudes (…) are one standard deviation of the data.

    This is where inputs and outputs are standardised: θ − reference is what the optimiser and the
    priors see, so that neither knows in which units the user measured.
    """
    log_x, log_y2 = x_scale.log(), 2 * y_scale.log()[..., None]
    pieces = []
    for p in parameters(tree):
        columns = log_x if p.dims is None else log_x[..., list(p.dims)]
        width = columns.shape[-1]
        per_entry = columns if p.size == width else columns.mean(-1, keepdim=True).expand(*columns.shape[:-1], p.size)
        if p.role == "variance":  # v·x·x' summed over columns has the units of y²
            value = -2 * per_entry - math.log(width)
        elif p.role == "period_length" or (p.role == "lengthscale" and p.kind != "periodic"):
            value = per_entry
        else:
            value = torch.zeros_like(per_entry)
        pieces.append(value + log_y2 if p.amplitude else value)
    return torch.cat(pieces, -1)


def lengths(tree: str, theta: Tensor, dimension: int) -> Tensor:
    """The shortest lengthscale along each column; 1 where the kernel has none."""
    found = theta.new_full((dimension,), torch.inf)
    start = 0
    for p in parameters(tree):
        values = theta[start : start + p.size].exp()
        start += p.size
        if p.role == "lengthscale" and p.kind != "periodic":
            columns = list(range(dimension) if p.dims is None else p.dims)
            found[columns] = torch.minimum(found[columns], values)
    return torch.where(torch.isfinite(found), found, torch.ones_like(found))


def roles(tree: str) -> list[tuple[str, str]]:
    """(role, kind) of every entry of θ."""
    return [(p.role, p.kind) for p in parameters(tree) for _ in range(p.size)]


def scaled(kernel: Kernel, factor: float) -> Kernel:
    """factor · k."""
    node = json.loads(kernel.tree)
    if not has_amplitude(node):
        return Kernel(dump({"kind": "scale", "base": node}), (math.log(factor), *kernel.theta))
    carries = [p.amplitude for p in parameters(kernel.tree) for _ in range(p.size)]
    return Kernel(kernel.tree, tuple(t + math.log(factor) * c for t, c in zip(kernel.theta, carries, strict=True)))


def in_units(kernel: Kernel, scale: float, shift: Tensor) -> Kernel:
    """The kernel of s·f(x − shift)."""
    return shifted(scaled(kernel, scale**2), shift.tolist())


def shifted(kernel: Kernel, shift: Sequence[float]) -> Kernel:
    """k(x − shift, x' − shift): only a centred kernel notices."""

    def move(node: Node) -> Node:
        if node["kind"] == "centred":
            node = {**node, "centre": [c + float(b) for c, b in zip(node["centre"], shift, strict=True)]}
        return rebuild(node, move)

    return Kernel(dump(move(json.loads(kernel.tree))), kernel.theta)


def stretched(kernel: Kernel, scale: Tensor, shift: Tensor) -> Kernel:
    """k(a∘x + b, a∘x' + b): a kernel of standardised inputs as one of the inputs as they were measured."""
    a = scale.tolist()

    def change(node: Node, b: list[float]) -> Node:
        if node["kind"] == "centred":  # a∘x + b − c = a∘(x − (c − b)/a): the base sees no shift any more
            centre = [(c - b_) / a_ for a_, b_, c in zip(a, b, node["centre"], strict=True)]
            return {**node, "centre": centre, "base": change(node["base"], [0.0] * len(a))}
        if node["kind"] not in LEAVES:
            return rebuild(node, lambda part: change(part, b))
        columns = list(range(len(a))) if node["dims"] is None else node["dims"]
        if node["ard"] is None and len({abs(a[d]) for d in columns}) > 1:
            node = {**node, "ard": len(columns)}  # one length becomes several
        if node["kind"] == "linear" and any(b[d] for d in columns):
            return {"kind": "centred", "centre": [-b_ / a_ for a_, b_ in zip(a, b, strict=True)], "base": node}
        return node

    tree = dump(change(json.loads(kernel.tree), shift.tolist()))
    theta: list[float] = []
    start = 0
    for old, new in zip(parameters(kernel.tree), parameters(tree), strict=True):
        values = kernel.theta[start : start + old.size]
        start += old.size
        if old.size < new.size:
            values *= new.size
        columns = range(len(a)) if new.dims is None else new.dims
        logs = [math.log(abs(a[d])) for d in columns]  # all equal where they are more than the values
        if new.role == "variance":
            theta += [v + 2 * log for v, log in zip(values, logs, strict=False)]
        elif new.role == "period_length" or (new.role == "lengthscale" and new.kind != "periodic"):
            theta += [v - log for v, log in zip(values, logs, strict=False)]
        else:
            theta += values
    return Kernel(tree, tuple(theta))


def permuted(kernel: Kernel, order: Sequence[int]) -> Kernel:
    """The same kernel when the new column j is the old column order[j]."""
    order = list(order)

    def move(node: Node) -> Node:
        if node["kind"] == "centred":
            node = {**node, "centre": [node["centre"][i] for i in order]}
        if node.get("dims") is not None:
            node = {**node, "dims": [order.index(d) for d in node["dims"]]}
        return rebuild(node, move)

    theta, start = list(kernel.theta), 0
    for p in parameters(kernel.tree):
        if p.dims is None and p.size == len(order) and p.role != "alpha" and p.size > 1:
            theta[start : start + p.size] = [kernel.theta[start + i] for i in order]
        start += p.size
    return Kernel(dump(move(json.loads(kernel.tree))), tuple(theta))
