"""Kernels by name: "rbf", "rbf + linear", "(rbf + linear) * periodic"."""

from __future__ import annotations

import ast
from functools import lru_cache

import torch

from ..errors import RecycleGPError
from .kernel import Kernel
from .nodes import Constant, Linear, Node, Periodic, Product, RationalQuadratic, Scale, Stationary, Sum
from .stationary import Form

NAMES = ("rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "constant")
LONGEST = 1000  # characters
_CHOICES = f"use {', '.join(NAMES)}, composed with + and *"


def parse(expression: str, dimension: int) -> Kernel:
    """The kernel of that name with one lengthscale for each input; all its parameters are 1, its centres 0."""
    structure = parse_structure(expression, dimension)
    return Kernel(structure, torch.zeros(structure.size, dtype=torch.float64))


@lru_cache(maxsize=512)
def parse_structure(expression: str, dimension: int) -> Node:
    try:
        if len(expression) > LONGEST:
            raise SyntaxError("too long")
        body = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise RecycleGPError(f"kernel={expression[:LONGEST]!r} cannot be read; {_CHOICES}") from None
    return _compose(body, expression, dimension, amplitude=True)


def _compose(body: ast.AST, expression: str, D: int, amplitude: bool) -> Node:
    """Every additive term gets exactly one amplitude: the factors of a product would otherwise share it."""
    if isinstance(body, ast.Name) and body.id in NAMES:
        leaf = _leaf(body.id, D)
        return Scale(leaf) if amplitude and not leaf.has_amplitude else leaf
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Add):
        return Sum(tuple(_compose(part, expression, D, amplitude) for part in (body.left, body.right)))
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Mult):
        product = Product(tuple(_compose(part, expression, D, False) for part in (body.left, body.right)))
        return Scale(product) if amplitude else product
    raise RecycleGPError(f"kernel={expression!r} cannot be read; {_CHOICES}")


def _leaf(name: str, D: int) -> Node:
    if name == "rq":
        return RationalQuadratic(D)
    if name == "periodic":
        return Periodic(D)
    if name == "linear":
        return Linear(variances=D, inputs=D)
    if name == "constant":
        return Constant()
    return Stationary(Form(name), D)
