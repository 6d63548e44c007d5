"""Sums that are differentially private: docs/privacy-proof.md has the proof. `noisy` says what is known from them.

With h = h(x), a fixed matrix T of the plan, r = y − m clipped to |r| ≤ B, and w = min(1, 1/‖Th‖), one row says

    φ(x, y) = ( g_ig_j for i < j,  g_i²/√2,  λwgr/B,  γw²(1, r/B, (a − ‖h‖²)/a),  κw²r²/B²,  γwg )    g = wTh, ‖g‖ ≤ 1

that is: a row whose features are too long counts as one with the noise s/w². Σ_{i<j} g_i²g_j² + ½Σ g_i⁴ = ½‖g‖⁴, so

    ‖φ‖ ≤ Δ = √(½ + λ² + 4γ² + κ²)        ‖Σφ − Σ'φ‖ ≤ mΔ, where one person's rows, at most m, are there or not

and Σφ + N(0, σ²m²Δ²I) is (ε, δ)-differentially private, with σ from dp-accounting. T and λ are the plan's alone: noise
is alike in all coordinates of g, and T makes rows at the plan's points alike in them, too, as far as f can vary there:

    T ∝ (LᵀL/aM + τI)^(−½), so that ‖Th‖ ≤ 1 at every point
    what is known of Tᵀ⁻¹v from b − Gv has the noise σ_b² + σ_G²‖Tᵀ⁻¹v‖², which is smallest at λ⁴ = B²/(2 tr T⁻²)
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.posterior import features
from ..errors import RecycleGPError
from ..kernels.nodes import Index, Linear, Node
from .prior import Prior
from .sums import NOISY, PlanRows, Sums, add, square, triangle

GAMMA = 0.1  # γ, of what is beside G and b: counts, sums of r and h; what they cost the others is little
KAPPA = 0.4  # κ, of squares, from which the noise of rows is learned: to about 20% of 10,000 rows, ε = 1
TAU = 0.05  # of T; among .02 to .3 the best in 1-D and 2-D, 1,000 to 100,000 rows, ε = 1
LIFT = 1.2  # of λ beyond the formula's: what is known of G besides (it is no less than nothing) makes b the noisier
GRID = 20  # bits of a noise's standard deviation that are published; finer ones could tell how numbers were added


class Shape(NamedTuple):
    """T = U diag(d) Uᵀ."""

    U: Tensor  # (M, M)
    d: Tensor  # (M,)

    @staticmethod
    @torch.no_grad()
    def of(prior: Prior, a: float) -> Shape:
        L = prior.basis().L
        values, U = torch.linalg.eigh(L.mT @ L / (a * len(L)))
        d = (values.clamp_min(0) + TAU).rsqrt()
        longest = (d[:, None] * (U.mT @ L.mT)).norm(dim=0).max()  # h(z_j) is a column of Lᵀ
        return Shape(U, d / longest)

    def times(self, A: Tensor) -> Tensor:
        """TA."""
        return self.U @ (self.d[:, None] * (self.U.mT @ A))

    def without(self, A: Tensor) -> Tensor:
        """T⁻¹A."""
        return self.U @ ((self.U.mT @ A) / self.d[:, None])


class Bounded(NamedTuple):
    """What is public before any row is seen, and decides how far one row can move the sums."""

    variance: float  # a
    bound: float  # B
    weight: float  # λ
    shape: Shape  # T

    @staticmethod
    def of(prior: Prior, bound: float) -> Bounded:
        a = constant_variance(prior)
        shape = Shape.of(prior, a)
        return Bounded(a, bound, LIFT * (bound**2 / (2 * float(shape.d.pow(-2).sum()))) ** 0.25, shape)

    @property
    def sensitivity(self) -> float:
        """Δ: of φ, by one row."""
        return math.sqrt(0.5 + self.weight**2 + 4 * GAMMA**2 + KAPPA**2)

    @property
    def units(self) -> dict[str, float]:
        """What one of φ is, in each of the sums of g; on the diagonal of G it is √2 times as much."""
        B = self.bound
        small = {"h": 1.0, "a": B, "o": 1.0, "t": self.variance}
        large = {"G": 1.0, "b": B / self.weight, "c": B**2 / KAPPA}
        return large | {name: unit / GAMMA for name, unit in small.items()}

    def unit_of(self, name: str, points: int) -> Tensor:
        """Of every number of one of the sums."""
        unit = torch.tensor(self.units[name], dtype=torch.float64)
        if name != "G":
            return unit
        i, j = torch.tril_indices(points, points)
        return torch.where(i == j, 2**0.5 * unit, unit)


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
def bounded_sums(prior: Prior, rows: PlanRows, known: Bounded) -> Sums:
    """Σφ, in the units of sums of g: exact, and not to be published."""
    return add([_bounded(prior, part, known) for part in rows.chunks(len(prior.Z), together=False)])


def _bounded(prior: Prior, rows: PlanRows, known: Bounded) -> Sums:
    V = features(prior.basis(), rows.X)
    seen = known.shape.times(V)
    w = ((1 - 1e-12) / seen.norm(dim=0).clamp_min(1e-300)).clamp_max(1.0)
    g, w2 = w * seen, w.square()
    r = (rows.y - prior.mean).clamp(-known.bound, known.bound)
    left = (known.variance - V.square().sum(0)).clamp_min(0)  # at most a, whatever x is
    o = w2.sum()
    return Sums(o, 0 * o, triangle(g @ g.mT), g @ (w * r), g @ w, w2 @ r.square(), w2 @ r, o, w2 @ left)


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
    said = {name: _noisy(getattr(exact, name), sd * known.unit_of(name, exact.points)) for name in NOISY}
    if public_rows:
        said["o"] = exact.o
    variances = variances_of(known, sd)
    if public_rows:
        variances[NOISY.index("o")] = 0.0
    return unshaped(said, variances, known.shape)


def variances_of(known: Bounded, sd: float) -> Tensor:
    """Of noise of this standard deviation on φ, in the units of sums of g."""
    return torch.tensor([(sd * known.units[name]) ** 2 for name in NOISY], dtype=torch.float64)


def unshaped(said: dict[str, Tensor], variances: Tensor, shape: Shape) -> Sums:
    """Sums of h from those of g = Th; the variances of noise stay those on sums of g."""
    half = shape.without(square(said["G"], len(said["b"])))
    b, h = (shape.without(said[name][:, None])[:, 0] for name in ("b", "h"))
    found = said | {"G": triangle(shape.without(half.mT)), "b": b, "h": h}
    n = said["o"].clamp_min(1.0)
    return Sums(n=n, logdet=0 * n, noise=variances, **found)


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
