"""Kernels as files hold them: JSON objects, checked field by field when they come from strangers (docs/schema.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from ..errors import RecycleGPError
from .kernel import Kernel, entries, one_object
from .nodes import (
    OF_NUMBERS,
    Category,
    Columns,
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

MOST_LEVELS = 256  # of an index
MOST_NODES = 64  # a specification from a stranger may not be arbitrarily deep
LARGEST_LOG = math.log(1e100)  # of a positive parameter, either way
LARGEST_PLACE = 1e100
NU = {Form.MATERN12: 0.5, Form.MATERN32: 1.5, Form.MATERN52: 2.5}

Json = dict[str, Any]


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
        return {"kind": "scale", "base": _tree(node.base, places, D)}
    if isinstance(node, (Sum, Product)):
        kind = "sum" if isinstance(node, Sum) else "product"
        return {"kind": kind, "parts": [_tree(part, places, D) for part in node.parts]}
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
    """A kernel read from a file: known kinds, right shapes, columns that exist, finite numbers."""
    if not isinstance(spec, dict) or not isinstance(spec.get("log_parameters"), list):
        raise RecycleGPError("kernel is not an object with a tree and log_parameters")
    places: list[float] = []
    reader = _TreeReader(dimension, places, len(spec["log_parameters"]))
    structure = reader.node(spec.get("tree"), [0.0] * dimension)
    logs = [number(v, "a log-parameter", LARGEST_LOG) for v in spec["log_parameters"]]
    return assemble(structure, logs, places)


def assemble(structure: Node, logs: list[float], places: list[float]) -> Kernel:
    """θ from its logarithms and its places, each in their order."""
    wanted = sum(p.learned for p in entries(structure))
    if len(logs) != wanted:
        raise RecycleGPError(f"kernel: {len(logs)} parameters for a structure with {wanted}")
    if not all(math.isfinite(t) for t in logs):
        raise RecycleGPError("kernel: parameters must be finite and positive")
    log, place = iter(logs), iter(places)
    theta = [next(log) if p.learned else next(place) for p in entries(structure)]
    return Kernel(one_object(structure), torch.tensor(theta, dtype=torch.float64))


def nodes(structure: Node) -> int:
    """How many a file needs; a centre is one more."""
    return 1 + isinstance(structure, Linear) + sum(nodes(part) for part in structure.parts)


class _TreeReader:
    """One pass over a tree; the centres of linear kernels are collected on the way."""

    def __init__(self, dimension: int, places: list[float], said: int) -> None:
        self.D = dimension
        self.places = places
        self.left = said  # parameters in the file: nothing larger is built
        self.count = 0

    def node(self, spec: Any, centre: list[float]) -> Node:
        self.count += 1
        if self.count > MOST_NODES or not isinstance(spec, dict):
            raise RecycleGPError("kernel specification is malformed or too large")
        kind = spec.get("kind")
        if kind == "scale":
            return Scale(self.node(spec.get("base"), centre))
        if kind in ("sum", "product") and isinstance(spec.get("parts"), list) and spec["parts"]:
            parts = tuple(self.node(part, centre) for part in spec["parts"])
            return Sum(parts) if kind == "sum" else Product(parts)
        if kind == "centred":
            return self.node(spec.get("base"), self._centre(spec.get("centre"), centre))
        if kind == "constant":
            if (spec.get("ard"), spec.get("dims")) != (None, None):
                raise RecycleGPError("kernel 'constant' looks at no columns; its ard and dims must be null")
            return Constant()
        if kind == "category":
            columns = checked_columns(kind, spec.get("dims"), self.D)
            if columns is None:
                raise RecycleGPError("kernel 'category' does not say which columns it looks at; give it dims")
            return Category(columns)
        if kind == "index":
            return self._index(spec)
        if kind in ("rbf", "matern", "rq", "periodic", "linear"):
            ard = spec.get("ard")
            leaf = leaf_of_numbers(kind, spec.get("dims"), ard, spec.get("nu"), centre, self.places)
            self.left -= 1 if ard is None else ard
            if self.left < 0:
                raise RecycleGPError("kernel: fewer parameters than its structure has")
            return leaf
        raise RecycleGPError(f"kernel kind {str(kind)[:50]!r} is not known to this version of recyclegp")

    def _index(self, spec: Json) -> Node:
        columns, levels, rank = checked_columns("index", spec.get("dims"), self.D), spec.get("levels"), spec.get("rank")
        if columns is None or len(columns) != 1:
            raise RecycleGPError("kernel 'index' looks at one column; give it as dims")
        if type(levels) is not int or type(rank) is not int or not (1 <= levels <= MOST_LEVELS and 0 <= rank <= levels):
            raise RecycleGPError(f"kernel 'index' has levels {str(levels)[:20]} and rank {str(rank)[:20]}")
        return Index(columns[0], levels, rank)

    def _centre(self, given: Any, outer: list[float]) -> list[float]:
        """Centres within one another add up: x − c − c'."""
        if not isinstance(given, list) or len(given) != self.D:
            raise RecycleGPError(f"kernel 'centred' needs a centre of {self.D} numbers")
        return [number(a, "a centre", LARGEST_PLACE) + b for a, b in zip(given, outer, strict=True)]


def checked_columns(kind: str, given: Any, dimension: int) -> Columns:
    """None, or different columns that exist."""
    if given is None:
        return None
    fits = isinstance(given, list) and given and all(type(c) is int and 0 <= c < dimension for c in given)
    if not fits or len(set(given)) < len(given):
        raise RecycleGPError(f"kernel {kind!r} refers to columns outside 0…{dimension - 1}, or to one twice")
    return tuple(given)


def leaf_of_numbers(kind: str, dims: Any, ard: Any, nu: Any, centre: list[float], places: list[float]) -> Node:
    """A leaf as somebody else describes it; where it is linear, its part of the centre (D,) goes to the places."""
    columns = checked_columns(kind, dims, len(centre))
    inputs = len(centre) if columns is None else len(columns)
    if ard is not None and (type(ard) is not int or ard != inputs):  # one length, or one for each column
        raise RecycleGPError(f"kernel {kind!r} has ard_num_dims={ard!r} for {inputs} input columns; make them equal")
    if kind == "linear":
        places += centre if columns is None else [centre[c] for c in columns]
    return leaf_called(_matern(nu).value if kind == "matern" else kind, 1 if ard is None else ard, inputs, columns)


def _matern(nu: Any) -> Form:
    for form, value in NU.items():
        if type(nu) in (int, float) and nu == value:
            return form
    raise RecycleGPError(f"kernel 'matern' has nu={str(nu)[:20]}; it may be 0.5, 1.5 or 2.5")


def number(value: Any, what: str, largest: float) -> float:
    if type(value) not in (int, float) or not -largest <= value <= largest:  # also refuses NaN
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a finite number")
    return float(value)
