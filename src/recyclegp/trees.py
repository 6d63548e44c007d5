"""Kernels as files hold them: a tree, checked node by node, and the numbers that belong to it. No torch.

`kernels/file_form.py` makes a kernel of a tree, and a file's fields of a kernel. What is said of a kernel to people is
worded here for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from .errors import RecycleGPError
from .magnitudes import LARGEST

MOST_LEVELS = 256  # of an index
MOST_NODES = 64  # a specification from a stranger may not be arbitrarily deep
LARGEST_LOG = math.log(LARGEST)  # of a positive parameter, either way
NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}

Columns = tuple[int, ...] | None  # the input columns a kernel looks at, counted from zero; None for all
Json = dict[str, Any]


class Unit(Enum):
    """In what a parameter is measured. This is all that a change of units, and a prior, must know of it."""

    LENGTH = "units of x"
    PLACE = "units of x, with a zero of its own"
    SLOPE = "units of y² over those of x²"
    AMPLITUDE = "units of y²"
    DISTANCE = "minus the logarithm of a correlation"
    NONE = "a pure number"
    LOADING = "a pure number of either sign, kept as it is"


class Parameter(NamedTuple):
    """Some neighbouring entries of θ."""

    name: str
    unit: Unit
    size: int
    columns: Columns  # to which input columns they belong; None for all of them
    carries: bool  # do they carry the units of y²? One factor of a product does, not each

    @property
    def learned(self) -> bool:
        """Places are taken from the data, everything else is learned."""
        return self.unit is not Unit.PLACE


class Tree(NamedTuple):
    """A node of a kernel, checked."""

    kind: str  # scale, sum, product, or what a leaf is called
    parts: tuple[Tree, ...] = ()
    columns: Columns = None
    width: int = 1  # how many lengthscales, or variances
    inputs: int = 0  # of a leaf of numbers: columns it looks at
    levels: int = 0  # of an index
    rank: int = 0


class Said(NamedTuple):
    """A kernel as a file says it."""

    tree: Tree
    logs: list[float]  # of the parameters that are learned, in the order of θ
    places: list[float]  # centres of linear parts, likewise


# --- reading ----------------------------------------------------------------------------------


def read(spec: Any, dimension: int) -> Said:
    """A kernel from a stranger: known kinds, right shapes, columns that exist, finite numbers."""
    if not isinstance(spec, dict) or not isinstance(spec.get("log_parameters"), list):
        raise RecycleGPError("kernel is not an object with a tree and log_parameters")
    places: list[float] = []
    reader = _Reader(dimension, places, len(spec["log_parameters"]))
    tree = reader.node(spec.get("tree"), [0.0] * dimension)
    return Said(tree, [number(v, "a log-parameter", LARGEST_LOG) for v in spec["log_parameters"]], places)


class _Reader:
    """One pass over a tree; the centres of linear kernels are collected on the way."""

    def __init__(self, dimension: int, places: list[float], said: int) -> None:
        self.D = dimension
        self.places = places
        self.left = said  # parameters in the file: nothing larger is built
        self.count = 0

    def node(self, spec: Any, centre: list[float]) -> Tree:
        self.count += 1
        if self.count > MOST_NODES or not isinstance(spec, dict):
            raise RecycleGPError("kernel specification is malformed or too large")
        kind = spec.get("kind")
        if kind == "scale":
            return Tree(kind, (self.node(spec.get("base"), centre),))
        if kind in ("sum", "product") and isinstance(spec.get("parts"), list) and spec["parts"]:
            return Tree(kind, tuple(self.node(part, centre) for part in spec["parts"]))
        if kind == "centred":
            return self.node(spec.get("base"), self._centre(spec.get("centre"), centre))
        if kind == "constant":
            if (spec.get("ard"), spec.get("dims")) != (None, None):
                raise RecycleGPError("kernel 'constant' looks at no columns; its ard and dims must be null")
            return Tree(kind)
        if kind == "category":
            columns = checked_columns(kind, spec.get("dims"), self.D)
            if columns is None:
                raise RecycleGPError("kernel 'category' does not say which columns it looks at; give it dims")
            return Tree(kind, columns=columns)
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

    def _index(self, spec: Json) -> Tree:
        columns, levels, rank = checked_columns("index", spec.get("dims"), self.D), spec.get("levels"), spec.get("rank")
        if columns is None or len(columns) != 1:
            raise RecycleGPError("kernel 'index' looks at one column; give it as dims")
        if type(levels) is not int or type(rank) is not int or not (1 <= levels <= MOST_LEVELS and 0 <= rank <= levels):
            raise RecycleGPError(f"kernel 'index' has levels {str(levels)[:20]} and rank {str(rank)[:20]}")
        return Tree("index", columns=columns, levels=levels, rank=rank)

    def _centre(self, given: Any, outer: list[float]) -> list[float]:
        """Centres within one another add up: x − c − c'."""
        if not isinstance(given, list) or len(given) != self.D:
            raise RecycleGPError(f"kernel 'centred' needs a centre of {self.D} numbers")
        return [number(a, "a centre", LARGEST) + b for a, b in zip(given, outer, strict=True)]


def checked_columns(kind: str, given: Any, dimension: int) -> Columns:
    """None, or different columns that exist."""
    if given is None:
        return None
    fits = isinstance(given, list) and given and all(type(c) is int and 0 <= c < dimension for c in given)
    if not fits or len(set(given)) < len(given):
        raise RecycleGPError(f"kernel {kind!r} refers to columns outside 0…{dimension - 1}, or to one twice")
    return tuple(given)


def leaf_of_numbers(kind: str, dims: Any, ard: Any, nu: Any, centre: list[float], places: list[float]) -> Tree:
    """A leaf as somebody else describes it; where it is linear, its part of the centre (D,) goes to the places."""
    columns = checked_columns(kind, dims, len(centre))
    inputs = len(centre) if columns is None else len(columns)
    if ard is not None and (type(ard) is not int or ard != inputs):  # one length, or one for each column
        raise RecycleGPError(f"kernel {kind!r} has ard_num_dims={ard!r} for {inputs} input columns; make them equal")
    if kind == "linear":
        places += centre if columns is None else [centre[c] for c in columns]
    name = _matern(nu) if kind == "matern" else kind
    return Tree(name, columns=columns, width=1 if ard is None else ard, inputs=inputs)


def _matern(nu: Any) -> str:
    for name, value in NU.items():
        if type(nu) in (int, float) and nu == value:
            return name
    raise RecycleGPError(f"kernel 'matern' has nu={str(nu)[:20]}; it may be 0.5, 1.5 or 2.5")


def number(value: Any, what: str, largest: float) -> float:
    if type(value) not in (int, float) or not -largest <= value <= largest:  # also refuses NaN
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a finite number")
    return float(value)


def interleaved(found: Iterable[Parameter], logs: list[float], places: list[float]) -> list[float]:
    """θ from its logarithms and its places, each in their order."""
    learned = [p.learned for p in found for _ in range(p.size)]
    if len(logs) != sum(learned):
        raise RecycleGPError(f"kernel: {len(logs)} parameters for a structure with {sum(learned)}")
    if not all(math.isfinite(t) for t in logs):
        raise RecycleGPError("kernel: parameters must be finite and positive")
    log, place = iter(logs), iter(places)
    return [next(log) if own else next(place) for own in learned]


# --- what is said of it ---------------------------------------------------------------------------


def parameters(tree: Tree, carries: bool = True) -> list[Parameter]:
    """What its numbers are, in the order of θ; `carries`: do the units of y² still have to go somewhere?"""
    found = own_parameters(tree, carries)
    for part in tree.parts:
        takes = carries and tree.kind != "scale" and (tree.kind == "sum" or _has_amplitude(part))
        found += parameters(part, takes)
        carries = carries and (tree.kind == "sum" or not takes)
    return found


def own_parameters(tree: Tree, carries: bool) -> list[Parameter]:
    kind, columns, width = tree.kind, tree.columns, tree.width
    if kind == "scale":
        return [Parameter("outputscale", Unit.AMPLITUDE, 1, None, carries)]
    if kind == "constant":
        return [Parameter("constant", Unit.AMPLITUDE, 1, None, carries)]
    if kind == "category":
        return [Parameter("correlation", Unit.DISTANCE, len(columns or ()), columns, False)]
    if kind == "index":
        loading = [Parameter("loading", Unit.LOADING, tree.levels * tree.rank, columns, False)] if tree.rank else []
        return [*loading, Parameter("own", Unit.NONE, tree.levels, columns, False)]
    if kind == "linear":
        slope = Parameter("variance", Unit.SLOPE, width, columns, carries)
        return [slope, Parameter("centre", Unit.PLACE, tree.inputs, columns, False)]
    if kind == "periodic":
        length = Parameter("lengthscale", Unit.NONE, width, columns, False)
        return [length, Parameter("period_length", Unit.LENGTH, width, columns, False)]
    lengths = [] if tree.parts else [Parameter("lengthscale", Unit.LENGTH, width, columns, False)]
    return [*lengths, Parameter("alpha", Unit.NONE, 1, None, False)] if kind == "rq" else lengths


def _has_amplitude(tree: Tree) -> bool:
    """Can the whole of k be multiplied by a constant through a parameter it already has?"""
    if tree.kind == "sum":
        return all(map(_has_amplitude, tree.parts))
    return any(map(_has_amplitude, tree.parts)) if tree.kind == "product" else tree.kind in AMPLE


AMPLE = ("scale", "linear", "constant")


def text(kind: str, parts: Sequence[str]) -> str:
    """A structure as `kernels.parse` reads it, from the texts of its parts."""
    if kind == "scale":
        return parts[0]
    return "(" + (" + " if kind == "sum" else " * ").join(parts) + ")" if parts else kind


def text_of(tree: Tree) -> str:
    return text(tree.kind, [text_of(part) for part in tree.parts])


def described(structure: str, found: Iterable[Parameter], theta: Iterable[float], most: int | None) -> str:
    """One line for people: structure and parameters in the user's units, of each no more numbers than `most`."""
    values = iter(theta)
    shown = []
    for p in found:
        own = [next(values) for _ in range(p.size)]
        if p.unit is not Unit.PLACE:
            numbers = "/".join(f"{_for_people(v, p.unit):.4g}" for v in own[:most])
            rest = f"/… {p.size} in all" if most is not None and p.size > most else ""
            shown.append(f"{p.name}={numbers}{rest}")
    return f"{structure}({', '.join(shown)})"


def _for_people(value: float, unit: Unit) -> float:
    """An entry of θ as the number people know."""
    if unit is Unit.LOADING:
        return value
    return math.exp(-math.exp(value) if unit is Unit.DISTANCE else value)
