"""The evidence of a small module in plain Python, for whoever only looks at its file: to import torch takes longer.

log∫ t(u) p(u) du = e − ½ r̃ᵀA⁻¹r̃ − ½ logdet A,    A = I + Rᵀ(K + jitter·I)R,    r̃ = ρ − m Rᵀ1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

from .. import trees
from ..record import Latent, Record
from ..storage.numbers import Numbers
from ..trees import Tree

MOST_POINTS = 64  # above them it takes longer than importing torch should be avoided for

Row = Sequence[float]
Covariance = Callable[[Row, Row], float]
SQRT3, SQRT5 = math.sqrt(3), math.sqrt(5)


def evidence(record: Record) -> float | None:
    """Of all its functions together; None where there is too much to compute, or numbers are too large for it."""
    if any(len(latent.known_site.Z) > MOST_POINTS for latent in record.latents):
        return None
    try:
        found = sum(map(_of_function, record.latents))
    except (ArithmeticError, ValueError):  # of a matrix that is singular to rounding
        return None
    return found if math.isfinite(found) else None


def _of_function(latent: Latent) -> float:
    site: Any = latent.known_site
    kernel: Any = latent.kernel
    Z, Rt = _rows(site.Z), _rows(site.Rt)
    k = covariance(kernel.tree, list(kernel.theta))
    K = [[k(a, b) for b in Z[: i + 1]] for i, a in enumerate(Z)]
    for i, row in enumerate(K):
        row[i] += latent.jitter
    whole = [[K[max(i, j)][min(i, j)] for j in range(len(Z))] for i in range(len(Z))]
    KR = [[_dot(row, r) for row in whole] for r in Rt]  # (r, M)
    A = [[_dot(Rt[i], KR[j]) + (i == j) for j in range(i + 1)] for i in range(len(Rt))]
    L = _cholesky(A)
    away = _solved(L, [rho - latent.mean * sum(r) for rho, r in zip(site.rho.values, Rt, strict=True)])
    return float(site.e.values[0] - 0.5 * _dot(away, away) - sum(math.log(L[i][i]) for i in range(len(L))))


def _rows(found: Numbers) -> list[list[float]]:
    n, width = found.shape
    return [list(found.values[i * width : (i + 1) * width]) for i in range(n)]


def _dot(a: Row, b: Row) -> float:
    return sum(map(mul, a, b))


def _cholesky(A: Sequence[Row]) -> list[list[float]]:
    """L with LLᵀ = A, of whose rows only the lower triangle is there."""
    L: list[list[float]] = []
    for i, row in enumerate(A):
        own: list[float] = []
        for j in range(i):
            own.append((row[j] - _dot(own, L[j][:j])) / L[j][j])
        L.append([*own, math.sqrt(row[i] - _dot(own, own))])
    return L


def _solved(L: Sequence[Row], b: Row) -> list[float]:
    """L⁻¹b."""
    found: list[float] = []
    for row, value in zip(L, b, strict=True):
        found.append((value - _dot(row[: len(found)], found)) / row[len(found)])
    return found


# --- kernels --------------------------------------------------------------------------------------


def covariance(tree: Tree, theta: list[float]) -> Covariance:
    """k(x, x'); numbers are taken from θ in the order of the tree, and those of the parts behind the node's own."""
    own = [theta.pop(0) for p in trees.own_parameters(tree, False) for _ in range(p.size)]
    parts = [covariance(part, theta) for part in tree.parts]
    if tree.kind == "scale":
        variance, base = math.exp(own[0]), parts[0]
        return lambda a, b: variance * base(a, b)
    if tree.kind == "sum":
        return lambda a, b: sum(part(a, b) for part in parts)
    if tree.kind == "product":
        return lambda a, b: math.prod(part(a, b) for part in parts)
    if tree.kind == "constant":
        level = math.exp(own[0])
        return lambda a, b: level
    return {"category": _category, "index": _index, "linear": _linear, "periodic": _periodic}.get(
        tree.kind, _of_distance
    )(tree, own)


def _columns(tree: Tree) -> Sequence[int]:
    return range(tree.inputs) if tree.columns is None else tree.columns


def _each(tree: Tree, values: Row) -> Row:
    """One for each column that it looks at."""
    return values if len(values) == len(_columns(tree)) else [values[0]] * len(_columns(tree))


def _of_distance(tree: Tree, own: Row) -> Covariance:
    scales = [math.exp(-v) for v in _each(tree, own[: tree.width])]
    seen = list(zip(_columns(tree), scales, strict=True))

    def squared(a: Row, b: Row) -> float:
        return sum(((a[c] - b[c]) * scale) ** 2 for c, scale in seen)

    if tree.kind == "rq":
        alpha = math.exp(own[-1])
        return lambda a, b: math.exp(-alpha * math.log1p(squared(a, b) / (2 * alpha)))
    form = FORMS[tree.kind]
    return lambda a, b: form(squared(a, b))


def _matern32(s: float) -> float:
    d = SQRT3 * math.sqrt(s)
    return (1 + d) * math.exp(-d)


def _matern52(s: float) -> float:
    d = SQRT5 * math.sqrt(s)
    return (1 + d + d * d / 3) * math.exp(-d)


FORMS: dict[str, Callable[[float], float]] = {
    "rbf": lambda s: math.exp(-0.5 * s),
    "matern12": lambda s: math.exp(-math.sqrt(s)),
    "matern32": _matern32,
    "matern52": _matern52,
}


def _periodic(tree: Tree, own: Row) -> Covariance:
    lengths, periods = (_each(tree, part) for part in (own[: tree.width], own[tree.width :]))
    seen = [(c, math.exp(-v), math.pi * math.exp(-p)) for c, v, p in zip(_columns(tree), lengths, periods, strict=True)]
    return lambda a, b: math.exp(-2 * sum(math.sin(p * (a[c] - b[c])) ** 2 * v for c, v, p in seen))


def _linear(tree: Tree, own: Row) -> Covariance:
    variances, centre = _each(tree, own[: tree.width]), own[tree.width :]
    seen = [(c, math.exp(v), at) for c, v, at in zip(_columns(tree), variances, centre, strict=True)]
    return lambda a, b: sum(v * (a[c] - at) * (b[c] - at) for c, v, at in seen)


def _category(tree: Tree, own: Row) -> Covariance:
    seen = [(c, math.exp(v)) for c, v in zip(_columns(tree), own, strict=True)]
    return lambda a, b: math.exp(-sum(v for c, v in seen if a[c] != b[c]))


def _index(tree: Tree, own: Row) -> Covariance:
    """B[i, j] of two levels, B = WWᵀ + diag(κ)."""
    n, rank, column = tree.levels, tree.rank, _columns(tree)[0]
    W = [own[i * rank : (i + 1) * rank] for i in range(n)]
    kappa = [math.exp(v) for v in own[n * rank :]]
    return lambda a, b: _dot(W[int(a[column])], W[int(b[column])]) + kappa[int(a[column])] * (a[column] == b[column])
