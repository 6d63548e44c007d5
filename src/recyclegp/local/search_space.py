"""Hyperparameters of local models: what is learned, from where, under which priors.

The optimiser sees φ, the logarithms of all positive parameters measured in standard deviations of
the data, and the prior mean likewise. Initial values, priors and bounds are stated in φ, so a fit to
s·y + b in other input units is the same fit (no absolute floor anywhere).

Everything has a leading batch axis: many models of one kind, learned side by side, each from its
own data in its own units. One model is a batch of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels import Kernel, Node, Unit, continuous_columns, entries, parameters
from ..kernels.units import reference, smoother
from ..likelihoods import Likelihood
from .constants import PRIORS, SEARCH
from .samples import Scales


class Hyperparameters(NamedTuple):
    """Of B models side by side, or of one."""

    kernel: Kernel
    likelihood: Likelihood
    mean: Tensor  # (B,)  constant prior mean of f

    def select(self, chosen: Tensor | int) -> Hyperparameters:
        likelihood = self.likelihood.map(lambda p: p[chosen])
        return Hyperparameters(self.kernel.select(chosen), likelihood, self.mean[chosen])


@dataclass(frozen=True)
class SearchSpace:
    """φ ↔ hyperparameters, with their prior."""

    structure: Node
    likelihood: Likelihood
    origin: Tensor  # (B, p)  parameters at φ = 0
    unit: Tensor  # (B, p)  1, and the scale of y for the mean
    centre: Tensor  # (p,)
    sd: Tensor  # (p,)
    fixed: Tensor  # (B, p)  values of φ where not free
    free: Tensor  # (p,) bool
    lengthscales: tuple[tuple[int, ...], ...]  # positions of those that belong together
    shortest: Tensor  # (B,)  logarithm of the lengthscale that holds a dozen rows, about the centre

    def unpack(self, free: Tensor, index: Tensor) -> Hyperparameters:
        phi = self.fixed[index].clone()
        phi[:, self.free] = free
        values = self.origin[index] + self.unit[index] * phi
        size = self.structure.size
        return Hyperparameters(
            Kernel(self.structure, values[:, :size]), self.likelihood.with_logs(values[:, size:-1]), values[:, -1]
        )

    def log_prior(self, free: Tensor, index: Tensor) -> Tensor:
        phi = self.fixed[index].clone()
        phi[:, self.free] = free
        away = phi - self.centre
        deviation = away / self.sd
        value = free.new_zeros(len(free))
        for group in self.lengthscales:
            level = away[:, group].mean(-1)
            deviation = deviation.index_copy(
                1, self._index(group), (away[:, group] - level[:, None]) / PRIORS.deviation.sd
            )
            short = (self.shortest[index] - level).clamp_min(0.0)
            value = value - 0.5 * (level / PRIORS.level.sd).square() - 0.5 * (short / PRIORS.too_short_sd).square()
        return value - 0.5 * deviation[:, self.free].square().sum(-1)

    def _index(self, group: tuple[int, ...]) -> Tensor:
        return torch.tensor(group, device=self.centre.device)

    @property
    def given(self) -> Tensor:
        """Where the search begins, or what is kept."""
        return self.fixed[:, self.free]

    def metric(self, rows: Tensor) -> Tensor:
        """A first guess of the inverse curvature (B, p, p): a third of the steps that steepest ascent would need.

        The evidence of n rows is n/2 sharp in log σ² where all is noise; in the rest it is a few nats per unit².
        """
        curvature = (SEARCH.curvature + self.sd**-2).expand(len(rows), -1).clone()
        if self.likelihood.has_units:  # then its first parameter is a noise
            curvature[:, self.structure.size] += rows / 4
        return torch.diag_embed(1 / curvature[:, self.free])

    @property
    def lower(self) -> Tensor:
        return (self.centre - SEARCH.reach)[self.free]

    @property
    def upper(self) -> Tensor:
        return (self.centre + SEARCH.reach)[self.free]


def _together(structure: Node) -> tuple[tuple[int, ...], ...]:
    """Positions of the lengthscales of each kernel that a structure is composed of."""
    found, first = [], 0
    for p in parameters(structure):
        if p.name == "lengthscale" and p.unit is Unit.LENGTH:
            found.append(tuple(range(first, first + p.size)))
        first += p.size
    return tuple(found)


def _shortest(rows: Tensor, columns: int) -> Tensor:
    """The lengthscale that holds a dozen rows, in units of those before anything is known; never longer than these."""
    # A column of standard deviation 1 is √12 wide if uniform; `rows` share a volume of √12 per column.
    return (math.sqrt(12 / columns) * (PRIORS.rows_per_lengthscale / rows) ** (1 / columns)).clamp_max(1.0)


def search_space(
    structure: Node,
    likelihood: Likelihood,
    data: Scales,
    rows: Tensor,
    *,
    theta: Tensor | None = None,
    noise: Tensor | None = None,
    mean: float | None = None,
) -> SearchSpace:
    """`theta` (p,), `noise` (B,) and `mean`, where given, are in the user's units: to begin at, or to keep.

    `rows` (B,) are how many each model is learned from.
    """
    B, D = data.x.shape
    table = entries(structure)
    size = len(table)
    extra = [PRIORS.likelihood[name] for name in likelihood.value_names]
    prior = data.x.new_tensor([PRIORS.kernel] * size + extra + [PRIORS.mean])
    centre, sd = prior[:, 0].clone(), prior[:, 1]
    groups = _together(structure)
    for i in (i for group in groups for i in group):
        seen = table[i].columns
        centre[i] += 0.5 * math.log(D if seen is None else len(seen))  # distances grow with √D
    # a matern52 is as curved as an rbf whose lengthscales are shorter: what is expected of functions is the same
    centre[:size] -= smoother(Kernel(structure, centre.new_zeros(size))).theta
    log_y2 = 2 * data.y.log()
    own = [log_y2 if name == "noise" else torch.zeros_like(log_y2) for name in likelihood.value_names]
    tail = torch.stack([*own, data.y_centre], dim=-1)
    origin = torch.cat([reference(structure, data.x, data.x_centre, data.y), tail], dim=-1)
    unit = torch.ones_like(origin)
    unit[:, -1] = data.y
    fixed = centre.expand(B, -1).clone()
    free = torch.tensor([p.learned for p in table] + [True] * (len(centre) - size), device=centre.device)
    if theta is not None:
        fixed[:, :size] = theta - origin[:, :size]
    if noise is not None:
        fixed[:, size] = noise.log() - origin[:, size]
        free[size] = False
    if mean is not None:
        fixed[:, -1] = (mean - data.y_centre) / data.y
    shortest = _shortest(rows, max(1, len(continuous_columns(structure, D)))).log()
    return SearchSpace(structure, likelihood, origin, unit, centre, sd, fixed, free, groups, shortest)


def starts(space: SearchSpace) -> list[Tensor]:
    """Where searches may begin, shortest lengthscale first: several of them and, where there is one, periods.

    Begun at a lengthscale that holds less than a dozen rows, small data sets are fitted down to their noise. A model
    for which a lengthscale is too short tries its own shortest again instead.
    """
    ladder = space.fixed.new_tensor(SEARCH.lengthscales)
    allowed = ladder >= space.shortest.exp()[:, None] * (1 - 1e-12)  # (B, S)
    first = allowed.to(torch.uint8).argmax(-1)
    table = entries(space.structure)
    stretched = [i for group in space.lengthscales for i in group]
    turning = [i for i, p in enumerate(table) if p.name == "period_length"]
    trials = []
    for step in range(int(first.min()), len(SEARCH.lengthscales)):
        factor = ladder[torch.maximum(first, torch.full_like(first, step))]
        for period in SEARCH.periods if turning else (1.0,):
            phi = space.fixed.clone()
            phi[:, stretched] += factor.log()[:, None]
            phi[:, turning] += math.log(period)
            trials.append(phi[:, space.free])
    return trials


def beside(space: SearchSpace, start: Tensor) -> list[Tensor]:
    """A start (B, p), and where a noise is learned the same one with far less of it.

    Begun with much noise, a search among many inputs takes what the first few do not explain for noise, and drops the
    others for good; begun with little, it has to find a use for them.
    """
    if not (space.likelihood.conjugate and bool(space.free[space.structure.size])):
        return [start]
    quiet = start.clone()
    quiet[:, int(space.free[: space.structure.size].sum())] = math.log(SEARCH.quiet)
    return [start, quiet]
