"""Kernels: names <-> GPyTorch objects <-> a JSON specification.

Nothing here computes a covariance: GPyTorch does. Inside the library a kernel is the immutable
pair (tree, θ): `tree` is JSON text saying which GPyTorch kernels are composed and how, `θ` the
logarithms of their parameters in the user's units. Only the kinds in the table below can be
written to a file or read from one; everything else is refused by name.
"""

from __future__ import annotations

import ast
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import gpytorch
import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from linear_operator import to_dense
from torch import Tensor

from .errors import RecycleGPError

Node = dict[str, Any]

NAMES = ("rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "constant")
NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
MAX_NODES = 64  # a specification from a stranger's file may not be arbitrarily deep


class CentredKernel(gpytorch.kernels.Kernel):
    """k(x − c, x' − c): what a linear kernel needs to be a kernel about the data, not about zero."""

    def __init__(self, base_kernel: gpytorch.kernels.Kernel, centre: Tensor) -> None:
        super().__init__()
        self.base_kernel = base_kernel
        self.register_buffer("centre", centre)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        return to_dense(self.base_kernel(x1 - self.centre, x2 - self.centre, diag=diag, **params))


class DenseLinearKernel(LinearKernel):
    """As GPyTorch's, but dense at once: to its low-rank matrix another one is added by factorising that one first,
    which costs O(n³), and warns where a little jitter is needed for nothing."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        return to_dense(super().forward(x1, x2, diag=diag, **params))


LEAVES: dict[str, tuple[type[gpytorch.kernels.Kernel], tuple[str, ...]]] = {
    "rbf": (RBFKernel, ("lengthscale",)),
    "matern": (MaternKernel, ("lengthscale",)),
    "rq": (RQKernel, ("lengthscale", "alpha")),
    "periodic": (PeriodicKernel, ("lengthscale", "period_length")),
    "linear": (LinearKernel, ("variance",)),
    "constant": (ConstantKernel, ("constant",)),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel as a value: JSON structure and log-parameters."""

    tree: str
    theta: tuple[float, ...]

    def __post_init__(self) -> None:
        wanted = sum(p.size for p in parameters(self.tree))
        if len(self.theta) != wanted:
            raise RecycleGPError(f"kernel: {len(self.theta)} parameters for a structure with {wanted}")
        if not all(math.isfinite(t) for t in self.theta):
            raise RecycleGPError("kernel: parameters must be finite and positive")

    def tensor(self, like: Tensor | None = None) -> Tensor:
        return torch.tensor(self.theta, dtype=torch.float64, device=None if like is None else like.device)

    def replace(self, theta: Tensor) -> Kernel:
        return Kernel(self.tree, tuple(theta.detach().cpu().double().tolist()))

    def describe(self) -> str:
        """One line for people: structure with parameters in the user's units."""
        values = iter(math.exp(t) for t in self.theta)
        named = [(p, [next(values) for _ in range(p.size)]) for p in parameters(self.tree)]
        numbers = ", ".join(f"{p.role}={'/'.join(f'{v:.4g}' for v in vs)}" for p, vs in named)
        return f"{_text(json.loads(self.tree))}({numbers})"


class Parameter(NamedTuple):
    """One parameter tensor of a composed kernel, in the order in which θ lists them."""

    path: str  # GPyTorch's dotted name of the raw parameter
    role: str  # lengthscale, period_length, alpha, variance, constant, outputscale
    kind: str  # of the leaf (or "scale") that owns it
    shape: tuple[int, ...]
    dims: tuple[int, ...] | None  # input columns it refers to; None where all
    amplitude: bool  # does it carry the units of y²?

    @property
    def size(self) -> int:
        return math.prod(self.shape)


# --- structure -------------------------------------------------------------------------------


def parse(expression: str, dimension: int, centre: Sequence[float]) -> Kernel:
    """ "rbf", "rbf + linear", "(rbf + linear) * periodic" … with ARD where there are several inputs."""
    return _parsed(expression, dimension, tuple(float(c) for c in centre))


@lru_cache(maxsize=512)
def _parsed(expression: str, dimension: int, centre: tuple[float, ...]) -> Kernel:
    try:
        if len(expression) > 1000:
            raise SyntaxError("too long")
        body = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        raise RecycleGPError(f"kernel={expression!r} cannot be read; {_CHOICES}") from None
    tree = dump(_compose(body, expression, dimension, list(centre), amplitude=True))
    return Kernel(tree, (0.0,) * sum(p.size for p in parameters(tree)))


_CHOICES = f"use {', '.join(NAMES)}, composed with + and *"


def _compose(body: ast.AST, text: str, D: int, centre: list[float], amplitude: bool) -> Node:
    """Every additive term gets exactly one amplitude: products of k would otherwise share it twice."""
    if isinstance(body, ast.Name) and body.id in NAMES:
        leaf = _leaf(body.id, D, centre)
        return leaf if not amplitude or has_amplitude(leaf) else {"kind": "scale", "base": leaf}
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Add):
        parts = [_compose(b, text, D, centre, amplitude) for b in (body.left, body.right)]
        return {"kind": "sum", "parts": parts}
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Mult):
        factors = [body.left, body.right]
        product = {"kind": "product", "parts": [_compose(b, text, D, centre, False) for b in factors]}
        return {"kind": "scale", "base": product} if amplitude else product
    raise RecycleGPError(f"kernel={text!r} cannot be read; {_CHOICES}")


def _leaf(name: str, D: int, centre: list[float]) -> Node:
    ard = D if D > 1 and name != "constant" else None
    if name in NU:
        return {"kind": "matern", "nu": NU[name], "ard": ard, "dims": None}
    leaf = {"kind": name, "ard": ard, "dims": None}
    return {"kind": "centred", "centre": centre, "base": leaf} if name == "linear" else leaf


def dump(node: Node) -> str:
    return json.dumps(node, sort_keys=True, separators=(",", ":"))


def _text(node: Node) -> str:
    if node["kind"] in ("scale", "centred"):
        return _text(node["base"])
    if node["kind"] in ("sum", "product"):
        return "(" + (" + " if node["kind"] == "sum" else " * ").join(map(_text, node["parts"])) + ")"
    return f"matern{int(2 * node['nu'])}2" if node["kind"] == "matern" else str(node["kind"])


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` applied to each of its parts."""
    if "base" in node:
        return {**node, "base": change(node["base"])}
    if "parts" in node:
        return {**node, "parts": [change(part) for part in node["parts"]]}
    return node


def _children(node: Node) -> list[tuple[str, Node]]:
    """GPyTorch's attribute names of the parts of a composed kernel."""
    if node["kind"] in ("scale", "centred"):
        return [("base_kernel.", node["base"])]
    if node["kind"] in ("sum", "product"):
        return [(f"kernels.{i}.", part) for i, part in enumerate(node["parts"])]
    return []


def has_amplitude(node: Node) -> bool:
    """Can the whole of k be multiplied by a constant through a parameter it already has?"""
    if node["kind"] in ("scale", "linear", "constant"):
        return True
    rule = any if node["kind"] == "product" else all
    children = _children(node)
    return bool(children) and rule(has_amplitude(child) for _, child in children)


@lru_cache(maxsize=1024)
def parameters(tree: str) -> tuple[Parameter, ...]:
    return tuple(_walk(json.loads(tree), "", amplitude=True))


def _walk(node: Node, path: str, amplitude: bool) -> Iterator[Parameter]:
    kind = node["kind"]
    if kind == "scale":
        yield Parameter(f"{path}raw_outputscale", "outputscale", kind, (), None, amplitude)
        amplitude = False
    for step, child in _children(node):
        carries = amplitude and (kind != "product" or has_amplitude(child))
        yield from _walk(child, path + step, carries)
        if kind == "product" and carries:
            amplitude = False  # one factor of a product carries the units of y², not each
    if kind in LEAVES:
        width = node["ard"] or 1
        dims = None if node["dims"] is None else tuple(node["dims"])
        for role in LEAVES[kind][1]:
            shape = (1,) if role in ("alpha", "constant") else (1, width)
            carries = amplitude and role in ("variance", "constant")
            yield Parameter(f"{path}raw_{role}", role, kind, shape, dims, carries)


def check_tree(tree: str, dimension: int) -> None:
    """A structure read from a file: known kinds, right shapes, columns that exist."""
    count = 0

    def visit(node: Any) -> None:
        nonlocal count
        count += 1
        if count > MAX_NODES or not isinstance(node, dict):
            raise RecycleGPError("kernel specification is malformed or too large")
        kind = node.get("kind")
        if kind in LEAVES:
            dims, ard = node.get("dims"), node.get("ard")
            columns = range(dimension) if dims is None else dims
            fits = all(isinstance(d, int) and 0 <= d < dimension for d in columns)
            if not fits or not len(columns):
                raise RecycleGPError(f"kernel {kind!r} refers to columns outside 0…{dimension - 1}")
            if ard not in (None, len(columns)):
                raise RecycleGPError(
                    f"kernel {kind!r} has ard_num_dims={ard} for {len(columns)} input columns; make them equal"
                )
            if kind == "constant" and (ard, dims) != (None, None):
                raise RecycleGPError("kernel 'constant' looks at no columns; its ard and dims must be null")
            if kind == "matern" and node.get("nu") not in NU.values():
                raise RecycleGPError(f"kernel 'matern' has nu={node.get('nu')!r}; it may be 0.5, 1.5 or 2.5")
        elif kind == "centred":
            centre = node.get("centre")
            numbers = all(type(c) in (int, float) and math.isfinite(c) for c in centre or ())
            if not isinstance(centre, list) or not numbers or len(centre) != dimension:
                raise RecycleGPError(f"kernel 'centred' needs a centre of {dimension} numbers")
            visit(node.get("base"))
        elif kind == "scale":
            visit(node.get("base"))
        elif kind in ("sum", "product") and isinstance(node.get("parts"), list) and node["parts"]:
            for part in node["parts"]:
                visit(part)
        else:
            raise RecycleGPError(f"kernel kind {kind!r} is not known to this version of recyclegp")

    visit(json.loads(tree))


# --- GPyTorch <-> specification ---------------------------------------------------------------


def from_gpytorch(kernel: gpytorch.kernels.Kernel, dimension: int) -> Kernel:
    """A user's kernel, in the user's units. The object is read, never kept."""
    if not isinstance(kernel, gpytorch.kernels.Kernel):
        raise TypeError(f"kernel must be a name or a gpytorch kernel, not {type(kernel).__name__}")
    if len(kernel.batch_shape):
        raise RecycleGPError(f"kernel: batch_shape {tuple(kernel.batch_shape)} is not supported; pass one kernel")
    tree = dump(_read(kernel))
    check_tree(tree, dimension)
    values = _natural(kernel)
    theta = [math.log(v) if v > 0 else math.nan for p in parameters(tree) for v in values[p.path]]
    return Kernel(tree, tuple(theta))


def _natural(kernel: gpytorch.kernels.Kernel) -> dict[str, list[float]]:
    found = {}
    for name, raw, constraint in kernel.named_parameters_and_constraints():
        value = raw if constraint is None else constraint.transform(raw)
        found[name] = value.detach().double().flatten().tolist()
    return found


def _dims(kernel: gpytorch.kernels.Kernel) -> list[int] | None:
    return None if kernel.active_dims is None else kernel.active_dims.tolist()


def _read(kernel: gpytorch.kernels.Kernel) -> Node:
    dims = _dims(kernel)
    if type(kernel) in (ScaleKernel, CentredKernel) and dims is not None and dims != _dims(kernel.base_kernel):
        raise RecycleGPError(
            f"kernel {type(kernel).__name__} has active_dims its base kernel does not have; give them to the base"
        )
    if type(kernel) is ScaleKernel:
        return {"kind": "scale", "base": _read(kernel.base_kernel)}
    if type(kernel) is CentredKernel:
        centre = kernel.centre.double().tolist()
        return {"kind": "centred", "centre": centre, "base": _read(kernel.base_kernel)}
    if type(kernel) in (AdditiveKernel, ProductKernel) and dims is None:
        kind = "sum" if type(kernel) is AdditiveKernel else "product"
        return {"kind": kind, "parts": [_read(k) for k in kernel.kernels]}
    if type(kernel) is ConstantKernel:
        return {"kind": "constant", "ard": None, "dims": None}
    for kind, (cls, _) in LEAVES.items():
        if type(kernel) is cls:
            ard = kernel.ard_num_dims if (kernel.ard_num_dims or 1) > 1 else None  # one length is one length
            leaf: Node = {"kind": kind, "ard": ard, "dims": dims}
            return {**leaf, "nu": float(kernel.nu)} if kind == "matern" else leaf
    raise RecycleGPError(
        f"kernel {type(kernel).__name__} cannot be represented in a module; use ScaleKernel, sums and "
        "products of RBFKernel, MaternKernel, RQKernel, PeriodicKernel, LinearKernel and ConstantKernel"
    )


def to_gpytorch(kernel: Kernel) -> gpytorch.kernels.Kernel:
    """A fresh GPyTorch kernel in the user's units, with GPyTorch's usual constraints, in float64."""
    built = _build(json.loads(kernel.tree), log=False).double()
    raw = dict(built.named_parameters())
    constraints = {name: c for name, _, c in built.named_parameters_and_constraints()}
    with torch.no_grad():
        for name, value in _split(kernel.tree, kernel.tensor()).items():
            raw[name].copy_(constraints[name].inverse_transform(value.exp()))
    return built.eval()


def _build(node: Node, log: bool) -> gpytorch.kernels.Kernel:
    """With log=True the raw parameters ARE the logarithms, so that θ can be put in as it stands."""

    def positive(role: str) -> dict[str, Any]:
        return {f"{role}_constraint": Positive(transform=torch.exp, inv_transform=torch.log)} if log else {}

    kind = node["kind"]
    if kind == "scale":
        return ScaleKernel(_build(node["base"], log), **positive("outputscale"))
    if kind == "centred":
        centre = torch.tensor(node["centre"], dtype=torch.float64)
        return CentredKernel(_build(node["base"], log), centre)
    if kind in ("sum", "product"):
        parts = [_build(part, log) for part in node["parts"]]
        return AdditiveKernel(*parts) if kind == "sum" else ProductKernel(*parts)
    cls, roles = LEAVES[kind]
    options: dict[str, Any] = {"nu": node["nu"]} if kind == "matern" else {}
    for role in roles:
        options |= positive(role)
    if node["ard"] is not None:
        options["ard_num_dims"] = node["ard"]
    if log and cls is LinearKernel:
        cls = DenseLinearKernel
    return cls(active_dims=node["dims"], **options)


# --- evaluation -------------------------------------------------------------------------------


class _Dense(torch.nn.Module):
    """Makes the matrix dense inside the call: a lazy one would be evaluated later, with OLD parameters."""

    def __init__(self, kernel: gpytorch.kernels.Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, X1: Tensor, X2: Tensor, diag: bool) -> Tensor:
        return to_dense(self.kernel(X1, X2, diag=diag))


@lru_cache(maxsize=512)
def _template(tree: str, thread: int, device: torch.device) -> _Dense:
    # one per thread: functional_call swaps the parameters of a shared object while it runs
    with torch.inference_mode(False):
        return _Dense(_build(json.loads(tree), log=True)).to(device=device, dtype=torch.float64)


def _split(tree: str, theta: Tensor) -> dict[str, Tensor]:
    """θ (…, p) as GPyTorch's raw parameters, each (…, *shape)."""
    table = parameters(tree)
    pieces = theta.split([p.size for p in table], dim=-1)
    return {p.path: piece.reshape((*theta.shape[:-1], *p.shape)) for p, piece in zip(table, pieces, strict=True)}


def _evaluate(tree: str, theta: Tensor, X1: Tensor, X2: Tensor, diag: bool) -> Tensor:
    template = _template(tree, threading.get_ident(), theta.device)
    raw = {f"kernel.{name}": value for name, value in _split(tree, theta).items()}
    return torch.func.functional_call(template, raw, (X1, X2, diag))


def matrix(tree: str, theta: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
    """k_θ(X1, X2), dense: (…, n1, n2)."""
    return _evaluate(tree, theta, X1, X2, diag=False)


def diagonal(tree: str, theta: Tensor, X: Tensor) -> Tensor:
    """k_θ(x, x) for each row of X: (…, n)."""
    return _evaluate(tree, theta, X, X, diag=True)
