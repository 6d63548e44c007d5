"""Sums that are differentially private, and what is known of f from them: docs/privacy-proof.md has the proof.

One row says, with h = h(x) and r = y − m clipped to |r| ≤ B,

    φ(x, y) = ( h_ih_j/a for i < j,  h_i²/√2a,  λ hr/(√a B),  γ(1, r/B, r²/B², (a − ‖h‖²)/a),  γh/√a )

where a = k(x, x) is the same everywhere, so that ‖h‖² ≤ a for every x whatever. Σ_{i<j} h_i²h_j² + ½Σ h_i⁴ = ½‖h‖⁴, so

    ‖φ‖ ≤ Δ = √(½ + λ² + 5γ²)        ‖Σφ − Σ'φ‖ ≤ mΔ, where one person's rows, at most m, are there or not

and Σφ + N(0, σ²m²Δ²I) is (ε, δ)-differentially private, with σ from dp-accounting. λ is chosen from the plan alone:
what is known of v from b − Gv has noise σ_b² + σ_G²‖v‖², which for ‖v‖² = M is smallest at λ⁴ = B²/(2aM).
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import linalg
from ..core.least_squares import CentredRows
from ..core.posterior import features
from ..errors import RecycleGPError
from ..kernels.nodes import Index, Linear, Node
from .prior import Prior
from .sums import PlanRows, Sums, add, triangle

GAMMA = 0.1  # of what is beside G and b: counts, squares, sums of h; what they cost the others is little
GRID = 20  # bits of a noise's standard deviation that are published; finer ones could tell how numbers were added
STEPS = 8  # of finding ‖v‖²


class Bounded(NamedTuple):
    """What is public before any row is seen, and decides how far one row can move the sums."""

    variance: float  # a
    bound: float  # B
    weight: float  # λ

    @staticmethod
    def of(prior: Prior, bound: float) -> Bounded:
        a = constant_variance(prior)
        return Bounded(a, bound, (bound**2 / (2 * a * len(prior.Z))) ** 0.25)

    @property
    def sensitivity(self) -> float:
        """Δ: of φ, by one row."""
        return math.sqrt(0.5 + self.weight**2 + 5 * GAMMA**2)

    @property
    def units(self) -> dict[str, float]:
        """What one of φ is, in each of the sums; on the diagonal of G it is √2 times as much."""
        a, B = self.variance, self.bound
        small = {"h": a**0.5, "c": B**2, "a": B, "o": 1.0, "t": a}
        return {"G": a, "b": a**0.5 * B / self.weight} | {name: unit / GAMMA for name, unit in small.items()}


def constant_variance(prior: Prior) -> float:
    """k(x, x), which must be the same for every x."""
    if any(isinstance(node, (Linear, Index)) for node in _nodes(prior.kernel.structure)):
        raise RecycleGPError(
            f"a private answer needs a kernel whose variance is the same everywhere, and {prior.kernel.describe()} "
            "grows with x; agree on a plan with rbf, matern or periodic"
        )
    return float(prior.kernel.diagonal(prior.Z[:1])[0])


def _nodes(node: Node) -> list[Node]:
    return [node, *(inner for part in node.parts for inner in _nodes(part))]


@torch.no_grad()
def bounded_features(prior: Prior, X: Tensor, a: float) -> Tensor:
    """h(x) (M, n), of which rounding, too, makes none longer than √a."""
    V = features(prior.basis(), X)
    length = V.square().sum(0).sqrt().clamp_min(1e-300)
    return V * ((1 - 1e-12) * a**0.5 / length).clamp_max(1.0)


@torch.no_grad()
def bounded_sums(prior: Prior, rows: PlanRows, known: Bounded) -> Sums:
    """Σφ, in the units of sums: exact, and not to be published."""
    return add([_bounded(prior, part, known) for part in rows.chunks(len(prior.Z), together=False)])


def _bounded(prior: Prior, rows: PlanRows, known: Bounded) -> Sums:
    V = bounded_features(prior, rows.X, known.variance)
    r = (rows.y - prior.mean).clamp(-known.bound, known.bound)
    n = r.new_tensor(float(len(r)))
    left = (known.variance - V.square().sum(0)).clamp_min(0).sum()
    return Sums(n, 0 * n, triangle(V @ V.mT), V @ r, V.sum(1), r @ r, r.sum(), n, left)


@torch.no_grad()
def released(exact: Sums, known: Bounded, multiplier: float, rows_each: int, *, public_rows: bool) -> Sums:
    """What may leave: each number with noise of σmΔ in its units, on a grid.

    Args:
        exact: the bounded sums.
        known: what is public.
        multiplier: σ.
        rows_each: m, rows of one person at most; one where rows are what is protected.
        public_rows: the number of rows is no secret.
    """
    sd = multiplier * rows_each * known.sensitivity
    units = {name: exact.b.new_tensor(unit) for name, unit in known.units.items()}
    i, j = torch.tril_indices(exact.points, exact.points)
    units["G"] = torch.where(i == j, 2**0.5 * units["G"], units["G"])
    noisy = {name: _noisy(getattr(exact, name), sd * unit) for name, unit in units.items()}
    if public_rows:
        noisy["o"] = exact.o
    variances = exact.b.new_tensor([(sd * known.units[name]) ** 2 for name in ("G", "b", "h")])
    return Sums(n=noisy["o"].clamp_min(1.0), logdet=exact.logdet, noise=variances, **noisy)


def _noisy(value: Tensor, sd: Tensor) -> Tensor:
    grid = (sd.log2().floor() - GRID).exp2()
    return ((value + sd * secret_normals(value.numel()).reshape(value.shape)) / grid).round() * grid


def secret_normals(count: int) -> Tensor:
    """Standard normals from the system's cryptographic source: Box and Muller, of 53 bits each."""
    pairs = -(-max(count, 1) // 2)
    bits = np.frombuffer(os.urandom(16 * pairs), dtype=np.uint64) >> 11
    u = (bits.astype(np.float64) + 1) * 2.0**-53  # in (0, 1]
    radius, angle = np.sqrt(-2 * np.log(u[:pairs])), 2 * np.pi * u[pairs:]
    return torch.from_numpy(np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count].copy())


@torch.no_grad()
def rows(total: Sums, noise: float) -> CentredRows:
    """What noisy sums say of v: b̃ = G̃v + n, with n of covariance N; G̃ without its negative eigenvalues.

    b̃ − G̃v = (b − Gv) + e − Ev, where b − Gv ~ N(0, sG), and Ev, of a symmetric E with variances σ_G² and 2σ_G² on its
    diagonal, has the covariance σ_G²(‖v‖²I + vvᵀ). ‖v‖² is its expectation, found by a few steps.
    """
    on_G, on_b, _ = total.noise.tolist()
    values, U = torch.linalg.eigh(total.matrix())
    values = values.clamp_min(0)
    G = (U * values) @ U.mT
    identity = torch.eye(len(G), dtype=G.dtype)
    v, size = torch.zeros_like(total.b), float(len(G))
    for _ in range(STEPS):
        N = noise * G + (on_b + on_G * size) * identity + on_G * torch.outer(v, v)
        C = linalg.cholesky(N).L
        H, rho = linalg.solve_lower(C, G), linalg.solve_lower(C, total.b[:, None])[:, 0]
        D = linalg.cholesky(identity + H.mT @ H).L
        v = linalg.solve_upper(D, linalg.solve_lower(D, (H.mT @ rho)[:, None]))[:, 0]
        size = float(v.square().sum() + linalg.solve_lower(D, identity).square().sum())
    e = -0.5 * len(rho) * math.log(2 * math.pi) - linalg.logdet(C)
    return CentredRows(H, rho, e, torch.zeros_like(e))


@torch.no_grad()
def evidence(total: Sums, noise: float) -> float:
    """log N(b̃; 0, G̃² + N): what noisy sums have in place of the bound."""
    found = rows(total, noise)
    A = linalg.cholesky(torch.eye(len(found.rho), dtype=found.rho.dtype) + found.H @ found.H.mT).L
    z = linalg.solve_lower(A, found.rho[:, None])
    return float(found.e - 0.5 * z.square().sum() - linalg.logdet(A))
