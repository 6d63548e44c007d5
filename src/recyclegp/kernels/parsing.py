"""Kernels by name: "rbf", "rbf + linear", "(rbf + linear) * periodic", "rbf * category"."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import NamedTuple

import torch

from ..errors import Argument, RecycleGPError
from .file_form import MOST_NODES, nodes
from .kernel import Kernel, from_people
from .nodes import Category, Columns, Constant, Node, Parameter, Product, Scale, Sum, Unit, leaf_called

NAMES = ("rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "constant", "category")
LONGEST = 1000  # characters
_CHOICES = f"use {', '.join(NAMES)}, composed with + and *"
CATEGORY = "category"
DEFAULT = "matern52"  # of fits: docs/concepts.md says why


def parse(expression: str, dimension: int, discrete: tuple[int, ...] = ()) -> Kernel:
    """The kernel of that name with one lengthscale for each input; all its parameters are 1, its centres 0.

    Of inputs whose columns `discrete` hold codes of levels, "category" sees these, and every other kernel the rest. A
    name that does not say how levels matter is multiplied by "category", each of its terms.
    """
    structure = parse_structure(expression, dimension, discrete)
    return Kernel(structure, torch.zeros(structure.size, dtype=torch.float64))


def parse_with_values(expression: str, dimension: int, discrete: tuple[int, ...] = ()) -> Kernel:
    """A kernel with its parameters, as kernels are printed: "rbf(outputscale=2, lengthscale=0.5/0.3)".

    A parameter with a value for each input has them separated by "/"; one value is that of all. Parameters of a sum or
    product follow each other as its parts do. Centres are 0.
    """
    found = _WITH_VALUES.fullmatch(expression)
    if found is None:
        example = f"{expression}(outputscale=2, lengthscale=0.5)"
        raise RecycleGPError(Argument("kernel", expression), f" has no parameters here; say them, as in {example!r}")
    structure = parse_structure(found["name"], dimension, discrete)
    given = [tuple(map(str.strip, pair.split("=", 1))) for pair in found["values"].split(",")]
    wanted = [p for p in structure.parameters() if p.unit is not Unit.PLACE]
    if [name for name, *_ in given] != [p.name for p in wanted]:
        names = ", ".join(p.name for p in wanted)
        raise RecycleGPError(Argument("kernel", expression), f": its parameters are, in this order, {names}")
    theta: list[float] = []
    values = iter(given)
    for p in structure.parameters():
        theta += [0.0] * p.size if p.unit is Unit.PLACE else _numbers(next(values)[1], p, expression)
    return Kernel(structure, torch.tensor(theta, dtype=torch.float64))


_WITH_VALUES = re.compile(r"\s*(?P<name>.*?)\s*\((?P<values>[^()]*=[^()]*)\)\s*", re.DOTALL)


def _numbers(text: str, p: Parameter, expression: str) -> list[float]:
    """Entries of θ, from the numbers people know."""
    try:
        given = [float(value) for value in text.split("/")]
        given = given * p.size if len(given) == 1 else given
        found = [from_people(value, p.unit) for value in given]
    except ValueError:
        found = []
    if len(found) != p.size:
        raise RecycleGPError(
            Argument("kernel", expression), f": {p.name}={text!r}; give {p.size} positive numbers, or one for all"
        )
    return found


@lru_cache(maxsize=512)
def parse_structure(expression: str, dimension: int, discrete: tuple[int, ...] = ()) -> Node:
    try:
        if len(expression) > LONGEST:
            raise SyntaxError("too long")
        body: ast.AST = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise RecycleGPError(Argument("kernel", expression[:LONGEST]), f" cannot be read; {_CHOICES}") from None
    inputs = _Inputs.of(dimension, discrete)
    if discrete and not any(isinstance(node, ast.Name) and node.id == CATEGORY for node in ast.walk(body)):
        alone = not inputs.width and expression.strip() in (DEFAULT, "rbf")  # what nobody has asked for, now or before
        body = ast.Name(CATEGORY) if alone else _by_level(body)
    structure = _compose(body, expression, inputs, amplitude=True)
    if nodes(structure) > MOST_NODES:
        raise RecycleGPError(
            Argument("kernel", expression),
            f": it has {nodes(structure)} parts with all sums, products and amplitudes, and a file holds {MOST_NODES}; "
            "use fewer",
        )
    return structure


class _Inputs(NamedTuple):
    """The columns that kernels see."""

    width: int  # how many hold numbers
    columns: Columns  # these; None where all do
    discrete: tuple[int, ...]  # the others, which hold codes of levels

    @staticmethod
    def of(dimension: int, discrete: tuple[int, ...]) -> _Inputs:
        rest = tuple(c for c in range(dimension) if c not in discrete)
        return _Inputs(len(rest), rest if discrete else None, discrete)


def _by_level(body: ast.AST) -> ast.AST:
    """Every term times "category"."""
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Add):
        return ast.BinOp(_by_level(body.left), body.op, _by_level(body.right))  # type: ignore[arg-type]
    return ast.BinOp(body, ast.Mult(), ast.Name(CATEGORY))  # type: ignore[arg-type]


def _compose(body: ast.AST, expression: str, inputs: _Inputs, amplitude: bool) -> Node:
    """Every additive term gets exactly one amplitude: the factors of a product would otherwise share it."""
    if isinstance(body, ast.Name) and body.id in NAMES:
        leaf = _leaf(body.id, expression, inputs)
        return Scale(leaf) if amplitude and not leaf.has_amplitude else leaf
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Add):
        return Sum(tuple(_compose(part, expression, inputs, amplitude) for part in (body.left, body.right)))
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Mult):
        product = Product(tuple(_compose(part, expression, inputs, False) for part in (body.left, body.right)))
        return Scale(product) if amplitude else product
    raise RecycleGPError(Argument("kernel", expression), f" cannot be read; {_CHOICES}")


def _leaf(name: str, expression: str, inputs: _Inputs) -> Node:
    if name == "constant":
        return Constant()
    if name == CATEGORY:
        if not inputs.discrete:
            raise RecycleGPError(
                Argument("kernel", expression),
                ": no input column holds categories; pass a DataFrame with columns of text or "
                "categoricals, or leave 'category' out",
            )
        return Category(inputs.discrete)
    if not inputs.width:
        raise RecycleGPError(
            Argument("kernel", expression),
            f": {name!r} needs a column of numbers, and all inputs are categories; use 'category'",
        )
    return leaf_called(name, inputs.width, inputs.width, inputs.columns)
