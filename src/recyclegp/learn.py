"""Hyperparameters of local models: what is learned, from where, under which priors.

The optimiser sees φ, the logarithms of all positive parameters measured in standard deviations of
the data, and the prior mean likewise. Initial values, priors and bounds are stated in φ, so a fit to
s·y + b in other input units is the same fit (no absolute floor anywhere).

Everything has a leading axis of lanes: many models of one kind, learned side by side, each from its
own data in its own units. One model is one lane.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from . import bounds, dual, kernel_units, kernels, least_squares
from .inducing import Points
from .least_squares import Rows
from .likelihoods import Dual, family
from .optimise import Objective
from .posterior import Basis, features

log = logging.getLogger(__name__)

# Weakly informative priors: (mean, sd) of each log-parameter, in standard deviations of the data.
PRIORS = {
    "lengthscale": (0.0, 1.5),
    "period_length": (0.0, 1.5),
    "alpha": (0.0, 1.5),
    "outputscale": (0.0, 1.5),
    "variance": (0.0, 1.5),
    "constant": (0.0, 1.5),
    "noise": (math.log(0.1), 2.0),
    "df": (math.log(4.0), 0.7),
    "mean": (0.0, 1.0),
}
CHUNK = 8192  # rows held as features at once
CURVATURE = 5.0  # nats per unit² of φ, typically
REACH = 12.0  # bounds, in log units about the prior mean
STARTS = (0.03, 0.1, 0.3, 1.0, 3.0)  # lengthscales tried before the optimiser begins
PERIODS = tuple(2.0 ** (-j / 2) for j in range(-3, 9))


class Samples(NamedTuple):
    """Data of B models side by side, the shorter ones padded with rows of weight zero."""

    X: Tensor  # (B, n, D)
    y: Tensor  # (B, n)
    w: Tensor  # (B, n)  1, or 0 for padding

    def at(self, lanes: Tensor) -> Samples:
        return Samples(self.X[lanes], self.y[lanes], self.w[lanes])


def side_by_side(parts: Sequence[tuple[Tensor, Tensor]]) -> Samples:
    """Padding repeats the first row: a valid input and target that nothing will notice."""
    longest = max(len(y) for _, y in parts)

    def padded(t: Tensor) -> Tensor:
        missing = longest - len(t)
        return t if not missing else torch.cat([t, t[:1].expand(missing, *t.shape[1:])])

    rows = torch.tensor([len(y) for _, y in parts], device=parts[0][1].device)
    w = torch.arange(longest, device=rows.device) < rows[:, None]
    return Samples(
        torch.stack([padded(X) for X, _ in parts]), torch.stack([padded(y) for _, y in parts]), w.to(parts[0][1].dtype)
    )


class Hyper(NamedTuple):
    theta: Tensor  # (B, p) kernel
    log_p: Tensor  # (B, q) likelihood
    mean: Tensor  # (B,)  constant prior mean of f


class Scales(NamedTuple):
    """Location and scale of the data: the units of φ."""

    x: Tensor  # (B, D)
    y: Tensor  # (B,)
    location: Tensor  # (B,)


def scales(data: Samples, likelihood: str) -> Scales:
    X, y, w = data
    n = w.sum(-1)

    def mean(t: Tensor) -> Tensor:
        return (w * t).sum(-1) / n

    middle = (w[..., None] * X).sum(-2) / n[:, None]
    x = ((w[..., None] * (X - middle[:, None]).square()).sum(-2) / n[:, None]).sqrt()
    x = torch.where(x > 1e-14 * X.abs().amax(-2), x, torch.ones_like(x))  # a constant column has no scale
    if likelihood == "poisson":
        return Scales(x, torch.ones_like(n), torch.maximum(mean(y), 0.5 / n).log())
    if not family(likelihood).has_noise:
        return Scales(x, torch.full_like(n, 2.0), torch.zeros_like(n))  # logits: classes separate at a few units
    location = mean(y)
    spread = mean((y - location[:, None]).square()).sqrt()
    if likelihood == "student-t":  # outliers must not set the scale
        # (torch's median takes the lower of two, as −y would not)
        location = _quantile(y, w)
        robust = 1.4826 * _quantile((y - location[:, None]).abs(), w)
        spread = torch.where(robust > 0, robust, spread)
    constant = spread <= 1e-14 * y.abs().amax(-1)  # constant y says nothing of its own scale
    fallback = torch.where(location == 0, torch.ones_like(location), location.abs())
    return Scales(x, torch.where(constant, fallback, spread), location)


def _quantile(y: Tensor, w: Tensor) -> Tensor:
    """The median of the real rows of each lane."""
    return torch.where(w > 0, y, torch.nan).nanquantile(0.5, dim=-1)


@dataclass(frozen=True)
class Space:
    """φ ↔ (θ, likelihood parameters, mean), with its prior."""

    tree: str
    size: int  # of θ
    origin: Tensor  # (B, p)  parameters at φ = 0, logs except the last (mean)
    unit: Tensor  # (B, p)  1 for logs, the scale of y for the mean
    centre: Tensor  # (p,)
    sd: Tensor  # (p,)
    fixed: Tensor  # (B, p)  values of φ where not free
    free: Tensor  # (p,) bool
    noisy: bool  # is the first parameter after θ a noise?

    def unpack(self, free: Tensor, lanes: Tensor) -> Hyper:
        phi = self.fixed[lanes].clone()
        phi[:, self.free] = free
        values = self.origin[lanes] + self.unit[lanes] * phi
        return Hyper(values[:, : self.size], values[:, self.size : -1], values[:, -1])

    def log_prior(self, free: Tensor) -> Tensor:
        return -0.5 * ((free - self.centre[self.free]) / self.sd[self.free]).square().sum(-1)

    @property
    def given(self) -> Tensor:
        """Where the search begins, or what is kept."""
        return self.fixed[:, self.free]

    def metric(self, rows: Tensor) -> Tensor:
        """A first guess of the inverse curvature (B, p, p): a third of the steps that steepest ascent would need.

        The evidence of n rows is n/2 sharp in log σ² where all is noise; in the rest it is a few nats per unit².
        """
        curvature = (CURVATURE + self.sd**-2).expand(len(rows), -1).clone()
        if self.noisy:
            curvature[:, self.size] += rows / 4
        return torch.diag_embed(1 / curvature[:, self.free])

    @property
    def lower(self) -> Tensor:
        return (self.centre - REACH)[self.free]

    @property
    def upper(self) -> Tensor:
        return (self.centre + REACH)[self.free]


def space(
    tree: str, likelihood: str, data: Scales, *, theta: Tensor | None, noise: Tensor | None, mean: float | None
) -> Space:
    """`theta` (p,), `noise` (B,) and `mean`, where given, are in the user's units: to begin at, or to keep."""
    B, D = data.x.shape
    names = [r if (r, k) != ("lengthscale", "periodic") else "alpha" for r, k in kernel_units.roles(tree)]
    extra = list(family(likelihood).parameters)
    prior = data.x.new_tensor([PRIORS[n] for n in [*names, *extra, "mean"]])
    centre, sd = prior[:, 0].clone(), prior[:, 1]
    for i, n in enumerate(names):
        if n == "lengthscale":
            centre[i] += 0.5 * math.log(D)  # distances grow with √D
    log_y2 = 2 * data.y.log()
    own = [log_y2 if n == "noise" else torch.zeros_like(log_y2) for n in extra]
    tail = torch.stack([*own, data.location], dim=-1)
    origin = torch.cat([kernel_units.reference(tree, data.x, data.y), tail], dim=-1)
    unit = torch.ones_like(origin)
    unit[:, -1] = data.y
    fixed = centre.expand(B, -1).clone()
    free = torch.ones_like(centre, dtype=torch.bool)
    if theta is not None:
        fixed[:, : len(names)] = theta - origin[:, : len(names)]
    if noise is not None:
        fixed[:, len(names)] = noise.log() - origin[:, len(names)]
        free[len(names)] = False
    if mean is not None:
        fixed[:, -1] = (mean - data.location) / data.y
    return Space(tree, len(names), origin, unit, centre, sd, fixed, free, extra[:1] == ["noise"])


def starts(sp: Space, rows: Tensor, columns: int) -> list[Tensor]:
    """Where searches may begin, shortest lengthscale first: several of them and, where there is one, periods.

    Begun at a lengthscale that holds less than a dozen rows, small data sets are fitted down to their
    noise (sunspots in segments of 50: the noise came out at half its value). A lane for which a
    lengthscale is too short tries its own shortest again instead.
    """
    # A column of standard deviation 1 is √12 wide if uniform; `rows` share a volume of √12 per column.
    shortest = (math.sqrt(12 / columns) * (12 / rows) ** (1 / columns)).clamp_max(1.0)
    ladder = sp.fixed.new_tensor(STARTS)
    allowed = ladder >= shortest[:, None]  # (B, S)
    first = allowed.to(torch.uint8).argmax(-1)
    roles = kernel_units.roles(sp.tree)
    stretched = [i for i, (role, kind) in enumerate(roles) if role == "lengthscale" and kind != "periodic"]
    turning = [i for i, (role, _) in enumerate(roles) if role == "period_length"]
    trials = []
    for step in range(int(first.min()), len(STARTS)):
        factor = ladder[torch.maximum(first, torch.full_like(first, step))]
        for period in PERIODS if turning else (1.0,):
            phi = sp.fixed.clone()
            phi[:, stretched] += factor.log()[:, None]
            phi[:, turning] += math.log(period)
            trials.append(phi[:, sp.free])
    return trials


# --- the three objectives, each (φ (b, p), lanes (b,)) → values (b,) ------------------------------


def exact_objective(sp: Space, data: Samples) -> Objective:
    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = sp.unpack(phi, lanes), data.at(lanes)
        K = kernels.matrix(sp.tree, h.theta, X, X)
        return bounds.log_marginal(K, y, h.mean, h.log_p[:, 0].exp(), w) + sp.log_prior(phi)

    return objective


def gaussian_rows(base: Basis, X: Tensor, y: Tensor, noise: Tensor, *, marginal: bool, w: Tensor | None = None) -> Rows:
    """Gaussian data as rows about v: Rᵀ = I/σ, ρ = y/σ, one block (marginal) or each row alone."""
    w = torch.ones_like(y) if w is None else w
    V = features(base, X)
    root = w / noise.sqrt()[..., None]  # Rᵀ = diag(root)
    H = root[..., None] * V.mT
    e = -0.5 * w * (2 * math.pi * noise).log()[..., None]
    if marginal:
        K = kernels.matrix(base.tree, base.theta, X, X)
        RKR = root[..., :, None] * K * root[..., None, :]
        block = (t.unsqueeze(d) for t, d in ((H, -3), (RKR, -3), (root * y, -2), (root, -2), (e.sum(-1), -1)))
        return least_squares.gather(*block, marginal=True)
    k = kernels.diagonal(base.tree, base.theta, X)
    # each row's residual variance enters the slack by itself: tr Q/2σ²
    RKR = (root.square() * k)[..., None, None]
    return least_squares.gather(H[..., None, :], RKR, (root * y)[..., None], root[..., None], e, marginal=False)


@torch.no_grad()
def stream(base: Basis, X: Tensor, y: Tensor, noise: Tensor, mean: Tensor | float, w: Tensor | None = None) -> Rows:
    """Collapsed rows in bounded memory: each chunk of data is folded into one triangle."""
    folded, done = None, 0
    w = torch.ones_like(y) if w is None else w
    for X_, y_, w_ in zip(X.split(CHUNK, -2), y.split(CHUNK, -1), w.split(CHUNK, -1), strict=True):
        rows = least_squares.centre(gaussian_rows(base, X_, y_, noise, marginal=False, w=w_), mean)
        folded = least_squares.compress(rows if folded is None else least_squares.stack([folded, rows]))
        done += y_.shape[-1]
        log.debug("%d of %d rows", done, y.shape[-1])
    assert folded is not None  # the door refuses zero rows
    return folded


def collapsed_objective(sp: Space, points: Points, data: Samples) -> Objective:
    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = sp.unpack(phi, lanes), data.at(lanes)
        base = points.at(lanes).basis(sp.tree, h.theta)
        k = kernels.diagonal(sp.tree, h.theta, X)
        return bounds.collapsed(features(base, X), k, y, h.mean, h.log_p[:, 0].exp(), w) + sp.log_prior(phi)

    return objective


def dual_data(
    base: Basis, X: Tensor, y: Tensor, likelihood: str, log_p: Tensor, mean: Tensor, w: Tensor | None = None
) -> dual.Data:
    V = features(base, X)
    spare = (kernels.diagonal(base.tree, base.theta, X) - V.square().sum(-2)).clamp_min(0)
    return dual.Data(V, spare, y, torch.ones_like(y) if w is None else w, likelihood, log_p, mean)


def dual_objective(sp: Space, points: Points, data: Samples, likelihood: str) -> Objective:
    """The bound at its own fixed point for each φ; a lane's fixed point starts from the last one it found."""
    warm = Dual(torch.full_like(data.y, torch.nan), torch.full_like(data.y, torch.nan))

    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = sp.unpack(phi, lanes), data.at(lanes)
        base = points.at(lanes).basis(sp.tree, h.theta)
        seen = dual_data(base, X, y, likelihood, h.log_p, h.mean, w)
        found = dual.fixed_points(seen.detach(), Dual(*(t[lanes] for t in warm))).sites
        for kept, new in zip(warm, found, strict=True):
            kept[lanes] = new
        return dual.evaluate(seen, found) + sp.log_prior(phi)

    return objective
