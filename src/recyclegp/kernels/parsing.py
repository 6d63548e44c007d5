"""Kernels by name: "rbf", "rbf + linear", "(rbf + linear) * periodic", "rbf * category"."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import NamedTuple

import torch

from ..errors import Argument, RecycleGPError
from .kernel import Kernel
from .nodes import Category, Columns, Constant, Node, Product, Scale, Sum, leaf_called

NAMES = ("rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "constant", "category")
LONGEST = 1000  # characters
_CHOICES = f"use {', '.join(NAMES)}, composed with + and *"
CATEGORY = "category"
DEFAULT = "rbf"


def parse(expression: str, dimension: int, discrete: tuple[int, ...] = ()) -> Kernel:
    """The kernel of that name with one lengthscale for each input; all its parameters are 1, its centres 0.

    Of inputs whose columns `discrete` hold codes of levels, "category" sees these, and every other kernel the rest. A
    name that does not say how levels matter is multiplied by "category", each of its terms.
    """
    structure = parse_structure(expression, dimension, discrete)
    return Kernel(structure, torch.zeros(structure.size, dtype=torch.float64))


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
        alone = not inputs.width and expression.strip() == DEFAULT  # what nobody has asked for
        body = ast.Name(CATEGORY) if alone else _by_level(body)
    return _compose(body, expression, inputs, amplitude=True)


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
