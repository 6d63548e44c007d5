"""GPyTorch's kernel objects ↔ kernels as values. Objects are read and never kept."""

from __future__ import annotations

import math
from typing import Any

import gpytorch
import torch
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    IndexKernel,
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

from ..errors import RecycleGPError
from .file_form import MOST_NODES, NU, assemble, checked_columns, leaf_of_numbers, nodes
from .kernel import Kernel
from .nodes import (
    OF_NUMBERS,
    Category,
    Columns,
    Constant,
    Index,
    Node,
    Product,
    Scale,
    Stationary,
    Sum,
    shares,
)
from .stationary import Form

LEAVES = {RBFKernel: "rbf", MaternKernel: "matern", RQKernel: "rq", PeriodicKernel: "periodic", LinearKernel: "linear"}
OTHER_NAMES = {"correlation": "distance"}  # all other parameters are called as GPyTorch calls them


class CentredKernel(gpytorch.kernels.Kernel):
    """k(x − c, x' − c): how a linear kernel about the data is written with GPyTorch's, which is about zero."""

    def __init__(self, base_kernel: gpytorch.kernels.Kernel, centre: Tensor) -> None:
        super().__init__()
        self.base_kernel = base_kernel
        self.register_buffer("centre", centre)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        return to_dense(self.base_kernel(x1 - self.centre, x2 - self.centre, diag=diag, **params))


class CategoryKernel(gpytorch.kernels.Kernel):
    """Π_j exp(−d_j [x_j ≠ x'_j]) over its active dimensions, which hold codes of levels."""

    def __init__(self, active_dims: tuple[int, ...]) -> None:
        super().__init__(active_dims=active_dims)
        shape = len(active_dims)
        self.register_parameter("raw_distance", torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)))
        self.register_constraint("raw_distance", gpytorch.constraints.Positive())

    @property
    def distance(self) -> Tensor:
        """−log of the correlation between two levels, for each column."""
        found: Tensor = self.raw_distance_constraint.transform(self.raw_distance)
        return found

    @distance.setter
    def distance(self, value: Any) -> None:
        value = torch.as_tensor(value, dtype=torch.float64).to(self.raw_distance)
        self.initialize(raw_distance=self.raw_distance_constraint.inverse_transform(value))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        if diag:
            return torch.exp(-((x1 != x2) * self.distance).sum(-1))
        return torch.exp(-((x1[..., :, None, :] != x2[..., None, :, :]) * self.distance).sum(-1))


# --- in ---------------------------------------------------------------------------------------


def from_gpytorch(kernel: gpytorch.kernels.Kernel, dimension: int) -> Kernel:
    """A user's kernel, in the user's units."""
    if not isinstance(kernel, gpytorch.kernels.Kernel):
        raise TypeError(f"kernel must be a name or a gpytorch kernel, not {type(kernel).__name__}")
    if len(kernel.batch_shape):
        raise RecycleGPError(f"kernel: batch_shape {tuple(kernel.batch_shape)} is not supported; pass one kernel")
    logs: list[float] = []
    places: list[float] = []
    structure = _read(kernel, dimension, [0.0] * dimension, logs, places)
    if nodes(structure) > MOST_NODES:
        raise RecycleGPError(f"kernel has more than {MOST_NODES} parts, which no file can hold; use fewer")
    return assemble(structure, logs, places)


def _read(kernel: Any, D: int, centre: list[float], logs: list[float], places: list[float]) -> Node:
    """The structure; its numbers are appended to `logs` and `places` in the order of θ."""
    columns = None if kernel.active_dims is None else kernel.active_dims.tolist()
    if type(kernel) in (ScaleKernel, CentredKernel) and columns is not None:
        inner = kernel.base_kernel.active_dims
        if inner is None or inner.tolist() != columns:
            raise RecycleGPError(
                f"kernel {type(kernel).__name__} has active_dims its base kernel does not have; give them to the base"
            )
    if type(kernel) is ScaleKernel:
        logs += _logs(kernel.outputscale)
        return Scale(_read(kernel.base_kernel, D, centre, logs, places))
    if type(kernel) is CentredKernel:
        moved = [a + b for a, b in zip(kernel.centre.double().tolist(), centre, strict=True)]
        return _read(kernel.base_kernel, D, moved, logs, places)
    if type(kernel) in (AdditiveKernel, ProductKernel) and columns is None:
        parts = tuple(_read(part, D, centre, logs, places) for part in kernel.kernels)
        return Sum(parts) if type(kernel) is AdditiveKernel else Product(parts)
    if type(kernel) is IndexKernel:
        return _read_index(kernel, checked_columns("index", columns, D), logs)
    leaf = _read_leaf(kernel, D, columns, centre, places)
    for p in leaf.parameters():
        logs += _logs(getattr(kernel, OTHER_NAMES.get(p.name, p.name))) if p.learned else []
    return leaf


def _read_index(kernel: Any, columns: Columns, logs: list[float]) -> Node:
    """GPyTorch's IndexKernel over one column of codes: B = WWᵀ + diag(κ)."""
    if columns is None or len(columns) != 1:
        raise RecycleGPError("kernel IndexKernel must look at one column of codes; give it active_dims=(column,)")
    levels, rank = kernel.covar_factor.shape[-2:]
    logs += kernel.covar_factor.detach().double().flatten().tolist() + _logs(kernel.var)
    return Index(columns[0], levels, rank)


def _read_leaf(kernel: Any, D: int, columns: list[int] | None, centre: list[float], places: list[float]) -> Node:
    if type(kernel) is ConstantKernel:
        return Constant()
    if type(kernel) is CategoryKernel:
        found = checked_columns("category", columns, D)
        assert found is not None  # it cannot be made without
        return Category(found)
    kind = LEAVES.get(type(kernel))
    if kind is None:
        raise RecycleGPError(
            f"kernel {type(kernel).__name__} cannot be represented in a module; use ScaleKernel, sums and "
            "products of RBFKernel, MaternKernel, RQKernel, PeriodicKernel, LinearKernel and ConstantKernel"
        )
    ard = kernel.ard_num_dims if (kernel.ard_num_dims or 1) > 1 else None
    return leaf_of_numbers(kind, columns, ard, float(getattr(kernel, "nu", math.nan)), centre, places)


def _logs(values: Tensor) -> list[float]:
    return [math.log(v) if v > 0 else math.nan for v in values.detach().double().flatten().tolist()]


# --- out --------------------------------------------------------------------------------------


def to_gpytorch(kernel: Kernel, dimension: int) -> gpytorch.kernels.Kernel:
    """A fresh GPyTorch kernel in the user's units, with GPyTorch's usual constraints, in float64."""
    built: gpytorch.kernels.Kernel = _build(kernel.structure, kernel.theta.detach().cpu(), dimension)
    return built.eval()


def _build(node: Node, theta: Tensor, D: int) -> Any:
    parts = [_build(part, own, D) for part, own in shares(node, theta)]
    if isinstance(node, (Sum, Product)):
        return (AdditiveKernel if isinstance(node, Sum) else ProductKernel)(*parts).double()
    if isinstance(node, Index):
        index = IndexKernel(num_tasks=node.levels, rank=node.rank, active_dims=(node.column,)).double()
        loadings, own = theta.split([node.levels * node.rank, node.levels])
        index.covar_factor.data = loadings.reshape(node.levels, node.rank)
        index.initialize(var=own.exp())
        return index
    if isinstance(node, Scale):
        scale = ScaleKernel(parts[0]).double()
        scale.initialize(outputscale=theta[0].exp())
        return scale
    made = _fresh(node).double()
    places = torch.zeros(D, dtype=torch.float64)
    for p, own in zip(node.parameters(), theta.split([p.size for p in node.parameters()]), strict=True):
        name = OTHER_NAMES.get(p.name, p.name)
        if p.learned:
            made.initialize(**{name: own.exp().reshape(getattr(made, name).shape)})
        else:
            places[list(range(D) if p.columns is None else p.columns)] = own
    return CentredKernel(made, places) if bool(places.any()) else made


def _fresh(node: Node) -> Any:
    """The GPyTorch kernel of a leaf, before it is told any numbers."""
    if isinstance(node, Constant):
        return ConstantKernel()
    if isinstance(node, Category):
        return CategoryKernel(node.columns)
    if not isinstance(node, OF_NUMBERS):
        raise TypeError(f"no GPyTorch kernel for {type(node).__name__}")
    shape: dict[str, Any] = {"active_dims": node.columns, **({"ard_num_dims": node.width} if node.width > 1 else {})}
    if isinstance(node, Stationary):
        return RBFKernel(**shape) if node.form is Form.RBF else MaternKernel(nu=NU[node.form], **shape)
    return {kind: kernel for kernel, kind in LEAVES.items()}[node.name](**shape)
