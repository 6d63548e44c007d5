"""Other units of its inputs under which a module would agree with the others: the usual factors, and learned ones.

The trusted modules say v ~ N(v̂, (CCᵀ)⁻¹) at common points. A module whose points lay at x' = a∘x + b would say ρ about
H'v with what these points leave open, so that the trusted ones predict

    ρ ~ N(m·1 + H'v̂, c(I + R'K'R − H'H'ᵀ + H'(CCᵀ)⁻¹H'ᵀ))

and the a and b under which ρ is most probable, less a price, is what is proposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..arrays import Columns
from ..core import linalg
from ..core.packing import PackedSites, project
from ..core.posterior import Basis
from ..kernels.units import InputUnits
from .consensus import LOG_2PI, Consensus
from .constants import SCREENING, UNIT_SEARCH
from .unit_table import KNOWN
from .verdicts import InputFactor

AT_ONCE = 64  # changes that are evaluated side by side


class Place(NamedTuple):
    """A module, and what the trusted ones know."""

    base: Basis
    packed: PackedSites  # of this module alone
    agreed: Consensus
    mean: float
    usual: float  # squared distance per number that is usual among the trusted


class Fits(NamedTuple):
    """How well the module fits under each of some changes of its inputs."""

    value: Tensor  # (K,)  log-probability of what it says, in the coordinates in which it is said where it stands
    share: Tensor  # (K,)  of what it says that the others know


class InputChange(NamedTuple):
    """Of one input: x' = scale·x + shift."""

    column: int
    scale: float
    shift: float
    price: float  # nats
    usual: bool = True  # a factor that people use, and not a learned one


class Found(NamedTuple):
    """Changes of some inputs, and what they explain."""

    changes: tuple[InputChange, ...]
    value: float  # log-probability of what the module says, less the price

    def inputs(self, columns: Columns) -> tuple[InputFactor, ...]:
        """By the names of their columns, where these have names."""
        return tuple(InputFactor(c.column if columns is None else columns[c.column], *c[1:3]) for c in self.changes)


def best_units(place: Place, worth: Callable[[InputChange], bool] = lambda change: True) -> Found:
    """One input after the other is changed, as long as that explains more than it costs; `worth` says what to try."""
    D = place.packed.Z.shape[-1]
    measured = set(range(D)) - set(place.base.kernel.structure.discrete)  # categories have no units
    best = _best(place, [()])
    for _ in range(min(UNIT_SEARCH.most_changed, D)):
        left = sorted(measured - {c.column for c in best.changes})
        usual = [InputChange(j, *how, _price(D)) for j in left for how in KNOWN]
        learned = [_learned(place, best.changes, j, D) for j in _promising(place, best.changes, left, worth)]
        found = _best(place, [(*best.changes, c) for c in (*usual, *learned) if worth(c)])
        if found.value <= best.value:
            break
        best = found
    return best


def _promising(
    place: Place, so_far: tuple[InputChange, ...], columns: Sequence[int], worth: Callable[[InputChange], bool]
) -> list[int]:
    """The columns, a few of them, of which some factor explains most: there it is worth while to learn one."""
    some = [InputChange(j, factor, 0.0, 0.0, usual=False) for j in columns for factor in UNIT_SEARCH.probes]
    tried = [c for c in some if worth(c)]
    if not tried:
        return []
    order = _values(place, [(*so_far, c) for c in tried]).argsort(descending=True).tolist()
    return list(dict.fromkeys(tried[i].column for i in order))[: UNIT_SEARCH.most_learned]


def _best(place: Place, tried: Sequence[tuple[InputChange, ...]]) -> Found:
    if not tried:
        return Found((), -math.inf)
    value = _values(place, tried)
    net = value - value.new_tensor([sum(c.price for c in changes) for changes in tried])
    i = int(net.argmax())
    return Found(tried[i], float(net[i]))


def _values(place: Place, tried: Sequence[tuple[InputChange, ...]]) -> Tensor:
    """(K,)  log-probabilities; none of changes to where nobody knows anything, and so nobody is contradicted."""
    found = fits(place, _units(tried, place.packed.Z.shape[-1]))
    there = (found.share >= SCREENING.checked) | torch.tensor(
        [not changes for changes in tried], device=found.share.device
    )
    return torch.where(there, found.value, -math.inf)


def _learned(place: Place, so_far: tuple[InputChange, ...], column: int, dimension: int) -> InputChange:
    """The factor of a column that explains best what the module says."""
    price = _price(dimension) + UNIT_SEARCH.learned_price
    grid = torch.linspace(-UNIT_SEARCH.decades, UNIT_SEARCH.decades, UNIT_SEARCH.steps, dtype=torch.float64)
    for _ in range(UNIT_SEARCH.finer):
        tried = [(*so_far, InputChange(column, 10**x, 0.0, price)) for x in grid.tolist()]
        i = int(_values(place, tried).argmax())
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        grid = torch.linspace(float(low), float(high), UNIT_SEARCH.finer_steps, dtype=torch.float64)
    return InputChange(column, float(f"{10 ** float(grid[len(grid) // 2]):.4g}"), 0.0, price, usual=False)


def _price(dimension: int) -> float:
    return UNIT_SEARCH.price + math.log(len(KNOWN) * dimension)


def _units(tried: Sequence[Iterable[InputChange]], dimension: int) -> InputUnits:
    """(K, D) each."""
    scale = torch.ones(len(tried), dimension, dtype=torch.float64)
    shift = torch.zeros_like(scale)
    for k, changes in enumerate(tried):
        for c in changes:
            scale[k, c.column], shift[k, c.column] = c.scale, c.shift
    return InputUnits(scale, shift)


@torch.no_grad()
def fits(place: Place, units: InputUnits) -> Fits:
    """Under each of K changes (K, D)."""
    units = units.to(place.packed.Z.device)
    parts = [
        _fits(place, InputUnits(*some))
        for some in zip(units.scale.split(AT_ONCE), units.shift.split(AT_ONCE), strict=True)
    ]
    return Fits(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _fits(place: Place, units: InputUnits) -> Fits:
    K, r, agreed = len(units.scale), place.packed.counts[0], place.agreed
    said = project(place.base, _copies(place.packed, InputUnits(units.scale[:, None], units.shift[:, None])))
    W = linalg.solve_lower(agreed.C, said.H.flatten(0, 1).mT).mT.reshape(said.H.shape)
    identity = torch.eye(r, dtype=W.dtype, device=W.device)
    # I + R'K'R, and what of it the others leave open
    prior = linalg.cholesky(identity + said.RKR).L
    L = linalg.cholesky(identity + said.RKR - said.H @ said.H.mT + W @ W.mT).L
    error = said.rho - place.mean * said.ones - said.H @ agreed.v
    half = linalg.solve_lower(L, error[..., None]).square().sum((-2, -1))
    value = -0.5 * (half / place.usual + r * (math.log(place.usual) + LOG_2PI)) - linalg.logdet(L) + said.e
    known = linalg.logdet(prior)
    share = torch.where(known > 1e-9, 1 - linalg.logdet(L) / known.clamp_min(1e-9), torch.zeros_like(known))
    return Fits(value - _constant(place).expand(K), share)


def _constant(place: Place) -> Tensor:
    """e − logdet B with BBᵀ = I + RᵀKR − HHᵀ: what statements, which are B⁻¹ρ, leave out."""
    said = project(place.base, _copies(place.packed, InputUnits.same(place.packed.Z.shape[-1])))
    identity = torch.eye(said.RKR.shape[-1], dtype=said.H.dtype, device=said.H.device)
    return said.e - linalg.logdet(linalg.cholesky(identity + said.RKR - said.H @ said.H.mT).L)


def _copies(packed: PackedSites, units: InputUnits) -> PackedSites:
    """The site at other inputs, without padding, as often as there are changes."""
    Z = units.of(packed.Z)
    K, r = len(Z), packed.counts[0]
    Rt, rho, e = (t.expand(K, *t.shape[1:]) for t in (packed.Rt[:, :r], packed.rho[:, :r], packed.e))
    return PackedSites(Z, Rt, rho, e, tuple(range(K)), (r,) * K)
