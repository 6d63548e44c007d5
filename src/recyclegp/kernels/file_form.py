"""Kernels to and from what files hold: JSON objects (docs/schema.md), which `trees` checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .. import trees
from ..trees import LARGEST_LOG as LARGEST_LOG
from ..trees import MOST_NODES as MOST_NODES
from ..trees import Json, Tree
from ..trees import checked_columns as checked_columns
from .kernel import Kernel, entries, one_object, parameters
from .nodes import (
    OF_NUMBERS,
    Category,
    Constant,
    Index,
    Linear,
    Node,
    Product,
    Scale,
    Stationary,
    Sum,
    leaf_called,
)
from .stationary import Form

NU = {form: trees.NU[form.value] for form in Form if form.value in trees.NU}
COMPOSED: dict[str, type[Sum] | type[Product]] = {"sum": Sum, "product": Product}


# --- writing ----------------------------------------------------------------------------------


def to_json(kernel: Kernel, dimension: int) -> Json:
    """`tree`, the structure, and `log_parameters`, in the order of θ; a centre is part of the tree."""
    values = kernel.theta.tolist()
    pairs = list(zip(entries(kernel.structure), values, strict=True))
    places = iter([v for p, v in pairs if not p.learned])
    return {
        "tree": _tree(kernel.structure, places, dimension),
        "log_parameters": [v for p, v in pairs if p.learned],
    }


def _tree(node: Node, places: Iterator[float], D: int) -> Json:
    if isinstance(node, Scale):
        return {"kind": node.composed, "base": _tree(node.base, places, D)}
    if node.parts:
        return {"kind": node.composed, "parts": [_tree(part, places, D) for part in node.parts]}
    leaf: Json = {"kind": node.name}
    if isinstance(node, Constant):
        return leaf | {"ard": None, "dims": None}
    if isinstance(node, Index):
        return leaf | {"dims": [node.column], "levels": node.levels, "rank": node.rank}
    if isinstance(node, Category):
        return leaf | {"dims": list(node.columns)}
    if not isinstance(node, OF_NUMBERS):
        raise TypeError(f"no file form for {type(node).__name__}")
    if isinstance(node, Stationary) and node.form is not Form.RBF:
        leaf = {"kind": "matern", "nu": NU[node.form]}
    columns = None if node.columns is None else list(node.columns)
    leaf |= {"ard": node.width if node.width > 1 else None, "dims": columns}
    if not isinstance(node, Linear):
        return leaf
    centre = dict.fromkeys(range(D), 0.0)
    centre.update({c: next(places) for c in (range(D) if columns is None else columns)})
    return {"kind": "centred", "centre": list(centre.values()), "base": leaf} if any(centre.values()) else leaf


# --- reading ----------------------------------------------------------------------------------


def from_json(spec: Any, dimension: int) -> Kernel:
    """A kernel read from a file, which is checked (`trees`)."""
    said = trees.read(spec, dimension)
    return assemble(node(said.tree), said.logs, said.places)


def assemble(structure: Node, logs: list[float], places: list[float]) -> Kernel:
    """θ from its logarithms and its places, each in their order."""
    theta = trees.interleaved(parameters(structure), logs, places)
    return Kernel(one_object(structure), torch.tensor(theta, dtype=torch.float64))


def node(tree: Tree) -> Node:
    """As a value that computes."""
    parts = tuple(map(node, tree.parts))
    if tree.kind == "scale":
        return Scale(parts[0])
    if tree.kind in COMPOSED:
        return COMPOSED[tree.kind](parts)
    if tree.kind == "constant":
        return Constant()
    columns = tree.columns
    if tree.kind == "category" and columns is not None:
        return Category(columns)
    if tree.kind == "index" and columns is not None:
        return Index(columns[0], tree.levels, tree.rank)
    return leaf_called(tree.kind, tree.width, tree.inputs, columns)


def nodes(structure: Node) -> int:
    """How many a file needs; a centre is one more."""
    return 1 + isinstance(structure, Linear) + sum(nodes(part) for part in structure.parts)


def leaf_of_numbers(kind: str, dims: Any, ard: Any, nu: Any, centre: list[float], places: list[float]) -> Node:
    """A leaf as somebody else describes it; where it is linear, its part of the centre (D,) goes to the places."""
    return node(trees.leaf_of_numbers(kind, dims, ard, nu, centre, places))
