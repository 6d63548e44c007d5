"""Levels, scales and regions, which are in the files: whose numbers are in another unit?

The evidence of a Gaussian module is that of its rows (`core.noise`), so its file says where y lies. For any constant c

    Σ_i (y_i − c)² ≈ (σ² + q)(χ² + ‖ρ − c Rᵀ1‖²)        exact where points express the rows

The best c is the centre of y, and the value there, over n, its variance. Inputs lie where the points do. With m_k and
s_k so found, their medians m and log s over the modules, and the spread of modules about these, a module is as far from
the others as

    d² = ((m_k − m)/τ_m)² + ((log s_k − log s)/τ_s)²

Its numbers are doubted where d is large, and small after a known change of units. All of it takes as long as there are
modules, and no agreement about f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..likelihoods import normal_quantile
from .constants import LEVELS
from .member import Member, Members
from .site_source import SiteSource
from .unit_table import DECIMAL, KNOWN, KnownChange


class Levels(NamedTuple):
    """Where modules' numbers lie, (K, 1 + D): of y, and of each input; nan where that is not known."""

    centre: Tensor
    spread: Tensor
    rows: Tensor  # (K, 1)
    lowest: Tensor  # of inputs alone
    highest: Tensor

    @property
    def are_usual_constants(self) -> Tensor:
        """(K, 1 + D)  inputs that are one number throughout, at which others have points, too.

        A column of few values is the same in all rows of some owners, and a number that others have is no sign of
        another unit. One of these might be in that unit as well: so the farthest of them does not count.
        """
        varies = self.spread > 0
        low = torch.where(varies, self.lowest, math.inf).sort(0).values
        high = torch.where(varies, self.highest, -math.inf).sort(0, descending=True).values
        second = min(1, len(low) - 1)
        return (self.spread == 0) & (low[second] <= self.centre) & (self.centre <= high[second])


class UnitDoubt(NamedTuple):
    """A module whose y (column −1), or one of whose inputs, may be in another unit."""

    column: int
    own: tuple[float, float]  # centre and spread
    others: tuple[float, float]
    undone_by: tuple[KnownChange, ...]  # changes that would bring it to the others, the likeliest first
    gross: bool  # y is at another level and of another scale, by one large factor: this is no accident

    def words(self, name: str) -> str:
        """`name` is that of the column."""
        own, others = (f"{centre:.3g} ± {spread:.3g}" for centre, spread in (self.own, self.others))
        return f"{name} is {own}, that of the others {others}"


@torch.no_grad()
def levels(members: Sequence[Member], store: SiteSource) -> Levels:
    """Of members whose sites these are."""
    every = Members.of(members)
    said = every.said
    # whose levels no factor multiplies
    logarithms = tuple(type(p) for p in every.families.values() if p.of_seen is not p)
    known = said.known
    if logarithms:
        others = [not any(isinstance(p, logarithms) for p in m.likelihoods) for m in members]
        known = known & torch.tensor(others, device="cpu")
    variance = torch.where(known, said.noise + said.residual_variance, math.nan)
    chi2, rows, weight = said.chi2, said.rows, said.weight
    discrete = sorted({j for m in members[:1] for j in m.kernel.structure.discrete})
    found = None
    for p in store.packs(1):
        k, (Z, Rt, rho) = torch.tensor(p.members, device="cpu"), (t.cpu() for t in p[:3])
        if found is None:
            found = torch.full((4, len(members), 1 + Z.shape[-1]), math.nan, dtype=torch.float64, device="cpu")
        ones = Rt.sum(-1)  # Rᵀ1
        centre = (ones * rho).sum(-1) / ones.square().sum(-1)
        misfit = (rho - centre[:, None] * ones).square().sum(-1) / weight[k]
        square = variance[k] * (chi2[k] + misfit) / rows[k]
        found[0, k] = torch.cat([torch.where(square.isnan(), math.nan, centre)[:, None], Z.mean(1)], 1)
        found[1, k] = torch.cat([square.sqrt()[:, None], Z.std(1, correction=0)], 1)
        found[2, k, 1:], found[3, k, 1:] = Z.amin(1), Z.amax(1)
    assert found is not None  # somebody counts
    found[:, :, [1 + j for j in discrete]] = math.nan
    return Levels(found[0], found[1], rows[:, None], found[2], found[3])


class _Usual(NamedTuple):
    """The middle of all modules, and how far from it they may be: of centres, and of logarithms of spreads."""

    centre: Tensor
    centre_sd: Tensor
    scale: Tensor
    scale_sd: Tensor

    def distances(self, centre: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The two terms of d²; nothing for a scale that is not known."""
        away = (scale - self.scale) / self.scale_sd
        return ((centre - self.centre) / self.centre_sd).square(), away.square().nan_to_num(0.0)


@torch.no_grad()
def unit_doubts(at: Levels, *, inputs: bool = True) -> dict[int, list[UnitDoubt]]:
    """By the modules' positions.

    Args:
        at: where their numbers lie.
        inputs: whether inputs are compared, too.
    """
    centre, scale = at.centre, torch.where(at.spread > 0, at.spread.log(), math.nan)
    known = (~centre.isnan()).sum(0)
    compared = known >= LEVELS.fewest
    compared[1:] &= inputs
    if not bool(compared.any()):
        return {}
    usual = _usual(centre, scale, at.rows)
    # where honest owners are that far apart, no level says anything about units
    compared = compared & (usual.centre_sd < LEVELS.alike_centre * usual.scale.exp())
    compared = compared & (usual.scale_sd < LEVELS.alike_scale)
    level_off, scale_off = usual.distances(centre, scale)
    many = math.log(max(1.0, len(centre) / LEVELS.few))  # of many modules some are far away by chance
    far = level_off + scale_off > LEVELS.far**2 + LEVELS.for_many * many
    k, j = (far & compared & ~at.are_usual_constants).nonzero().T
    if not len(k):
        return {}
    undone = _undone(centre[k, j], scale[k, j], _Usual(*(t.expand_as(centre)[k, j] for t in usual)), known[j])
    before = (level_off + scale_off)[k, j]
    arrives = (undone < LEVELS.near**2) & (before - undone > LEVELS.gain)
    by_likelihood = torch.where(arrives, undone, math.inf).argsort(0)
    apart = (level_off > LEVELS.gross_level**2) & (scale_off > LEVELS.gross_scale**2) & (known > LEVELS.fewest)
    found: dict[int, list[UnitDoubt]] = {}
    for n, (member, column) in enumerate(zip(k.tolist(), j.tolist(), strict=True)):
        best = [i for i in by_likelihood[:, n].tolist() if bool(arrives[i, n])]
        changes = tuple(KNOWN[i] for i in best if float(undone[i, n] - undone[best[0], n]) < LEVELS.as_likely)
        if not changes:
            continue
        large = min(abs(math.log(c.scale)) for c in changes) > math.log(LEVELS.gross_factor)
        doubt = UnitDoubt(
            column=column - 1,
            own=(float(centre[member, column]), float(at.spread[member, column])),
            others=(float(usual.centre[column]), float(usual.scale[column].exp())),
            undone_by=changes,
            gross=column == 0 and large and bool(apart[member, column]),
        )
        found.setdefault(member, []).append(doubt)
    return found


def _usual(centre: Tensor, scale: Tensor, rows: Tensor) -> _Usual:
    """Medians, and quantiles of the distances from them: less than a third of the modules can bend neither.

    Honest owners differ, and a centre and a scale are known from so many rows only.
    """
    share = min(LEVELS.share, (len(centre) - 2) / (len(centre) - 1))
    width = normal_quantile(0.5 + 0.5 * share)

    def middle(t: Tensor) -> tuple[Tensor, Tensor]:
        median = t.nanquantile(0.5, 0)
        return median, (t - median).abs().nanquantile(share, 0) / width

    (m, centre_sd), (log_s, scale_sd) = middle(centre), middle(scale)
    s2 = (2 * log_s).exp()
    centre_variance = centre_sd.square() + s2 * (LEVELS.centre_sd**2 + 1 / rows)
    scale_variance = scale_sd.square() + LEVELS.scale_sd**2 + 1 / rows
    return _Usual(m, centre_variance.sqrt(), log_s, scale_variance.sqrt())


def _undone(centre: Tensor, scale: Tensor, usual: _Usual, known: Tensor) -> Tensor:
    """d² (changes, n) after each known change, of modules among so many; infinite where that is no explanation.

    Powers of ten are the most frequent. What is counted in inches or mmHg is positive: numbers below zero have other
    factors by no change of units. Two others alone say little of how far honest ones are from each other.
    """
    a, b = torch.tensor(KNOWN, dtype=torch.float64, device=centre.device).T[:, :, None]
    decimal = torch.tensor([change in DECIMAL for change in KNOWN], device=centre.device)[:, None]
    possible = decimal | (b != 0) | ((centre > 0) & (usual.centre > 0))
    huge = a.log().abs() > math.log(LEVELS.huge_factor) * (1 - 1e-9)
    square = sum(usual.distances(a * centre + b, scale + a.log()), torch.where(decimal, 0.0, LEVELS.rare))
    return torch.where(possible & ((known > LEVELS.fewest) | huge), square, math.inf)
