"""Hyperparameters of one local model: what is learned, from where, under which priors.

The optimiser sees φ, the logarithms of all positive parameters measured in standard deviations of
the data, and the prior mean likewise. Initial values, priors and bounds are stated in φ, so a fit to
s·y + b in other input units is the same fit (no absolute floor anywhere).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from . import bounds, dual, kernel_units, kernels, least_squares
from .least_squares import Rows
from .likelihoods import Dual, family
from .posterior import Basis, basis, features

# Weakly informative priors: (mean, sd) of each log-parameter, in standard deviations of the data.
PRIORS = {
    "lengthscale": (0.0, 1.5),
    "period_length": (0.0, 1.5),
    "alpha": (0.0, 1.5),
    "outputscale": (0.0, 1.5),
    "variance": (0.0, 1.5),
    "noise": (math.log(0.1), 2.0),
    "df": (math.log(4.0), 0.7),
    "mean": (0.0, 1.0),
}
CHUNK = 8192  # rows held as features at once
REACH = 12.0  # bounds, in log units about the prior mean
STARTS = (0.03, 0.1, 0.3, 1.0, 3.0)  # lengthscales tried before the optimiser begins
PERIODS = tuple(2.0 ** (-j / 2) for j in range(-3, 9))


class Hyper(NamedTuple):
    theta: Tensor  # kernel
    log_p: Tensor  # likelihood
    mean: Tensor  # constant prior mean of f


@dataclass(frozen=True)
class Scales:
    """Location and scale of the data: the units of φ."""

    x: Tensor  # (D,)
    y: float
    location: float


def scales(X: Tensor, y: Tensor, likelihood: str) -> Scales:
    x = X.std(0, correction=0)
    x = torch.where(x > 1e-14 * X.abs().amax(0), x, torch.ones_like(x))  # a constant column has no scale
    if likelihood == "poisson":
        return Scales(x, 1.0, math.log(max(float(y.mean()), 0.5 / len(y))))
    if not family(likelihood).has_noise:
        return Scales(x, 2.0, 0.0)  # logits: classes separate at a few units
    location = float(y.mean())
    spread = float(y.std(correction=0))
    if likelihood == "student-t":  # outliers must not set the scale
        location = float(y.quantile(0.5))  # torch's median takes the lower of two, as −y would not
        spread = 1.4826 * float((y - location).abs().quantile(0.5)) or spread
    if spread <= 1e-14 * float(y.abs().max()):  # constant y says nothing of its own scale
        spread = abs(location) or 1.0
    return Scales(x, spread, location)


@dataclass(frozen=True)
class Space:
    """φ ↔ (θ, likelihood parameters, mean), with its prior."""

    tree: str
    size: int  # of θ
    origin: Tensor  # parameters at φ = 0, logs except the last (mean)
    unit: Tensor  # 1 for logs, the scale of y for the mean
    centre: Tensor
    sd: Tensor
    fixed: Tensor  # values of φ where not free
    free: Tensor  # bool

    def unpack(self, free: Tensor) -> Hyper:
        phi = self.fixed.clone()
        phi[self.free] = free
        values = self.origin + self.unit * phi
        return Hyper(values[: self.size], values[self.size : -1], values[-1])

    def log_prior(self, free: Tensor) -> Tensor:
        return -0.5 * ((free - self.centre[self.free]) / self.sd[self.free]).square().sum()

    @property
    def lower(self) -> Tensor:
        return (self.centre - REACH)[self.free]

    @property
    def upper(self) -> Tensor:
        return (self.centre + REACH)[self.free]


def space(
    tree: str, likelihood: str, data: Scales, *, theta: Tensor | None, noise: float | None, mean: float | None
) -> Space:
    """`theta`, `noise` and `mean`, where given, are values in the user's units to begin at (or keep)."""
    D = len(data.x)
    names = [r if (r, k) != ("lengthscale", "periodic") else "alpha" for r, k in kernel_units.roles(tree)]
    extra = list(family(likelihood).parameters)
    device = data.x.device
    prior = torch.tensor([PRIORS[n] for n in [*names, *extra, "mean"]], dtype=torch.float64, device=device)
    centre, sd = prior[:, 0].clone(), prior[:, 1]
    for i, n in enumerate(names):
        if n == "lengthscale":
            centre[i] += 0.5 * math.log(D)  # distances grow with √D
    log_y2 = 2 * math.log(data.y)
    own = [log_y2 if n == "noise" else 0.0 for n in extra]
    tail = torch.tensor([*own, data.location], dtype=torch.float64, device=device)
    origin = torch.cat([kernel_units.reference(tree, data.x, data.y), tail])
    unit = torch.ones_like(origin)
    unit[-1] = data.y
    fixed = centre.clone()
    free = torch.ones_like(centre, dtype=torch.bool)
    if theta is not None:
        fixed[: len(names)] = theta - origin[: len(names)]
    if noise is not None:
        fixed[len(names)] = math.log(noise) - origin[len(names)]
        free[len(names)] = False
    if mean is not None:
        fixed[-1] = (mean - data.location) / data.y
    return Space(tree, len(names), origin, unit, centre, sd, fixed, free)


def starts(sp: Space, rows: int, columns: int) -> list[Tensor]:
    """Where a search may begin, shortest lengthscale first: several of them and, where there is one, periods.

    Begun at a lengthscale that holds less than a dozen rows, small data sets are fitted down to their
    noise (sunspots in segments of 50: the noise came out at half its value).
    """
    # A column of standard deviation 1 is √12 wide if uniform; `rows` share a volume of √12 per column.
    shortest = min(1.0, math.sqrt(12 / columns) * (12 / rows) ** (1 / columns))
    roles = [r for r, k in kernel_units.roles(sp.tree)]
    kinds = [k for r, k in kernel_units.roles(sp.tree)]
    base = sp.fixed
    trials = []
    for factor in (f for f in STARTS if f >= shortest):
        for period in PERIODS if "period_length" in roles else (1.0,):
            phi = base.clone()
            for i, (role, kind) in enumerate(zip(roles, kinds, strict=True)):
                if role == "lengthscale" and kind != "periodic":
                    phi[i] += math.log(factor)
                if role == "period_length":
                    phi[i] += math.log(period)
            trials.append(phi[sp.free])
    return trials


# --- the three objectives ---------------------------------------------------------------------


def exact_objective(sp: Space, X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    def objective(phi: Tensor) -> Tensor:
        h = sp.unpack(phi)
        K = kernels.matrix(sp.tree, h.theta, X, X)
        value = bounds.log_marginal(K, y, h.mean, h.log_p[0].exp())
        return value + sp.log_prior(phi)

    return objective


def gaussian_rows(base: Basis, X: Tensor, y: Tensor, noise: Tensor, *, marginal: bool) -> Rows:
    """Gaussian data as rows about v: Rᵀ = I/σ, ρ = y/σ, one block (marginal) or each row alone."""
    V = features(base, X)
    sigma = noise.sqrt()
    e = -0.5 * (2 * math.pi * noise).log()
    if marginal:
        H = (V.mT / sigma)[None]
        K = kernels.matrix(base.tree, base.theta, X, X)
        ones = (torch.ones_like(y) / sigma)[None]
        return least_squares.gather(H, (K / noise)[None], (y / sigma)[None], ones, (len(y) * e)[None], marginal=True)
    H = (V.mT / sigma)[:, None, :]
    k = kernels.diagonal(base.tree, base.theta, X)
    # each row's residual variance enters the slack by itself: tr Q/2σ²
    ones = (torch.ones_like(y) / sigma)[:, None]
    return least_squares.gather(
        H, (k / noise)[:, None, None], (y / sigma)[:, None], ones, e.expand(len(y)), marginal=False
    )


@torch.no_grad()
def stream(base: Basis, X: Tensor, y: Tensor, noise: Tensor, mean: Tensor | float) -> Rows:
    """Collapsed rows in bounded memory: each chunk of data is folded into one triangle."""
    folded: Rows | None = None
    for X_, y_ in zip(X.split(CHUNK), y.split(CHUNK), strict=True):
        rows = least_squares.centre(gaussian_rows(base, X_, y_, noise, marginal=False), mean)
        folded = least_squares.compress(rows if folded is None else least_squares.stack([folded, rows]))
    assert folded is not None  # the door refuses zero rows
    return folded


def collapsed_objective(sp: Space, Z: Tensor, X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    def objective(phi: Tensor) -> Tensor:
        h = sp.unpack(phi)
        rows = gaussian_rows(basis(sp.tree, h.theta, Z), X, y, h.log_p[0].exp(), marginal=False)
        return least_squares.solve(rows, h.mean).bound + sp.log_prior(phi)

    return objective


def dual_data(base: Basis, X: Tensor, y: Tensor, likelihood: str, log_p: Tensor, mean: Tensor) -> dual.Data:
    V = features(base, X)
    spare = (kernels.diagonal(base.tree, base.theta, X) - V.square().sum(0)).clamp_min(0)
    return dual.Data(V, spare, y, likelihood, log_p, mean)


def dual_objective(sp: Space, Z: Tensor, X: Tensor, y: Tensor, likelihood: str) -> Callable[[Tensor], Tensor]:
    """The bound at its own fixed point for each φ; the fixed point starts from the last one found."""
    warm: list[Dual] = []

    def objective(phi: Tensor) -> Tensor:
        h = sp.unpack(phi)
        data = dual_data(basis(sp.tree, h.theta, Z), X, y, likelihood, h.log_p, h.mean)
        still = data._replace(V=data.V.detach(), spare=data.spare.detach(), mean=h.mean.detach())
        state = dual.fixed_point(still, warm[0] if warm else None)
        warm[:] = [state.sites]
        return dual.evaluate(data, state.sites).bound + sp.log_prior(phi)

    return objective
