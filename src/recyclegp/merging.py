"""Modules → Ensemble: pool the kernels, choose Z_*, stack the sites, solve one least-squares problem."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import gpytorch
import torch
from torch import Tensor

from . import arrays, blocks, kernel_units, kernels, least_squares, optimise, pooling, sites
from . import inducing as placement
from .ensemble import Ensemble, Member, assemble
from .errors import RecycleGPError, RecycleGPWarning
from .gp import GP
from .kernels import Kernel
from .module import Module
from .posterior import basis
from .sites import Site

log = logging.getLogger(__name__)

LARGEST = 512  # points "auto" may choose
FORGIVEN = 30.0  # nats of slack up to which the kernel may be adapted to the points
PRIOR_SD = 2.0  # how far, in log units, learned kernel parameters stay near their pooled values


def merge(
    modules: Iterable[Module],
    *,
    inducing: Any = "auto",
    kernel: str | gpytorch.kernels.Kernel | None = None,
    learn: bool = True,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    keep: str = "sites",
) -> Ensemble:
    """One global GP from fitted modules, without their data.

    inducing   "auto" (until what the points cannot express is negligible, at most 512), a number,
               or the points Z_* themselves.
    kernel     the global kernel, or its structure by name; by default the structure with most rows,
               at the median of the modules' parameters.
    learn      True then maximises the block-marginal evidence over kernel and mean, less a price on slack.
    weights    name → w ≥ 0, or one per module; 0 leaves a module out, 2 counts it twice.
    keep       "sites" (needed to remove modules later) or "names".
    """
    if isinstance(modules, GP):
        modules = [cast(Module, modules)]  # an ensemble is refused below, like anything else
    modules = list(modules)
    if not modules:
        raise RecycleGPError("modules is empty; merge needs at least one module")
    if not isinstance(learn, bool):
        raise TypeError(f"learn must be True or False, not {learn!r}")
    if keep not in ("sites", "names"):
        raise RecycleGPError(f"keep={keep!r}; use 'sites' or 'names'")
    modules = conform(modules)
    check_unique([m.name for m in modules])
    w = _weights(weights, [m.name for m in modules])
    D, columns = modules[0].dimension, next((m.columns for m in modules if m.columns), None)
    if not any(x > 0 for x in w):
        raise RecycleGPError("weights are all zero; give at least one module a positive weight")
    points = inducing
    if not (isinstance(inducing, str) and inducing == "auto"):
        points = arrays.count_or_points(inducing, "inducing", D, columns, "cpu")
    members = tuple(Member.of(m, x) for m, x in zip(modules, w, strict=True))
    ensemble = _build(_start(members, kernel, D), members, points, columns, learn=learn)
    return ensemble if keep == "sites" else ensemble.forget_sites()


def relearned(old: Ensemble, members: tuple[Member, ...]) -> Ensemble:
    """Kernel, mean, points and noise chosen anew for other members, in the way they were chosen first."""
    alike = [m.kernel for m in members if m.weight > 0]
    alike = [k for k in alike if pooling.skeleton(k) == pooling.skeleton(old.kernel_spec)]
    start = pooling.pool_kernels(alike) if alike else old.kernel_spec
    points = old._points if old.choice is None else old.choice
    return _build(start, members, points, old.columns, learn=True)


def _build(
    start: Kernel, members: tuple[Member, ...], points: int | str | Tensor, columns: arrays.Columns, *, learn: bool
) -> Ensemble:
    kernel, mean, Z = choose(start, members, points, learn=learn)
    choice = None if isinstance(points, Tensor) else points
    base = basis(kernel.tree, kernel.tensor(), Z)
    ensemble = assemble(base, kernel, mean, members, pooling.pool_likelihoods(members), columns, choice)
    if choice == "auto" and len(Z) == LARGEST and ensemble.slack > 10 * _tolerance(members):
        warnings.warn(
            f"{LARGEST} points leave {ensemble.slack:.3g} nats of the modules' knowledge unexpressed; pass a larger "
            "inducing= for a sharper ensemble",
            RecycleGPWarning,
            stacklevel=3,
        )
    return ensemble


def conform(modules: Sequence[Module], dimension: int | None = None, columns: arrays.Columns = None) -> list[Module]:
    """Modules over the same inputs, their columns in one order."""
    for m in modules:
        if not isinstance(m, Module):
            remedy = "; call its to_module(name) first" if isinstance(m, Ensemble) else ""
            raise TypeError(f"modules must hold Module objects, not {type(m).__name__}{remedy}")
    D = modules[0].dimension if dimension is None else dimension
    for m in modules:
        if m.dimension != D:
            raise RecycleGPError(
                f"module {m.name!r} has {m.dimension} input columns where the others have {D}; merge modules "
                "over the same inputs"
            )
    shared = arrays.common_columns([columns, *(m.columns for m in modules)], ["(ensemble)", *(m.name for m in modules)])
    return [_in_order(m, shared) for m in modules]


def _weights(weights: Any, names: Sequence[str]) -> list[float]:
    if weights is None:
        return [1.0] * len(names)
    if isinstance(weights, Mapping):
        unknown = set(weights) - set(names)
        if unknown:
            raise RecycleGPError(f"weights names modules that are not here: {', '.join(sorted(map(str, unknown)))}")
        values = [arrays.number(weights.get(n, 1.0), f"weights[{n!r}]") for n in names]
    else:
        values = [arrays.number(x, "weights") for x in weights]
        if len(values) != len(names):
            raise RecycleGPError(f"weights has {len(values)} numbers for {len(names)} modules; give one each")
    if not all(x >= 0 for x in values):
        raise RecycleGPError("weights must not be negative")
    return values


def check_unique(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for n in names:
        if n in seen:
            raise RecycleGPError(f"two modules are named {n!r}; rename one (module.rename), or use weights")
        seen.add(n)


def _in_order(m: Module, columns: arrays.Columns) -> Module:
    """Columns by name: a module fitted on the same columns in another order is turned round."""
    if m.columns is None or columns is None or m.columns == columns:
        return m
    order = [m.columns.index(c) for c in columns]
    site = m._site._replace(Z=m._site.Z[:, order])
    return replace(m, _site=site, kernel_spec=kernel_units.permuted(m.kernel_spec, order), columns=columns)


def _start(members: Sequence[Member], kernel: Any, D: int) -> Kernel:
    """The given kernel, or the median of the members that share the structure with most rows."""
    active = [m for m in members if m.weight > 0 and m.site is not None]
    if isinstance(kernel, str):
        return _named(kernel, active)
    if kernel is not None:
        return kernels.from_gpytorch(kernel, D)
    rows: dict[str, float] = {}
    for m in active:
        shape = pooling.skeleton(m.kernel)
        rows[shape] = rows.get(shape, 0.0) + m.rows * m.weight
    most = max(rows, key=lambda s: rows[s])
    return pooling.pool_kernels([m.kernel for m in active if pooling.skeleton(m.kernel) == most])


def _named(kernel: str, active: Sequence[Member]) -> Kernel:
    """A structure by name: pooled from the members that have it, else begun at the scale of them all."""
    Z = torch.cat([m.site.Z for m in active if m.site is not None])
    spec = kernels.parse(kernel, Z.shape[1], Z.mean(0).tolist())
    alike = [m.kernel for m in active if pooling.skeleton(m.kernel) == pooling.skeleton(spec)]
    if alike:
        return pooling.pool_kernels(alike)
    x = Z.std(0, correction=0)
    x = torch.where(x > 0, x, torch.ones_like(x))
    variances = [float(kernels.diagonal(m.kernel.tree, m.kernel.tensor(), Z).mean()) for m in active]
    middle = pooling.weighted_median(variances, [m.rows * m.weight for m in active])
    return spec.replace(kernel_units.reference(spec.tree, x, x.new_tensor(middle**0.5)))


# --- kernel, mean and points ------------------------------------------------------------------


class Choice(NamedTuple):
    kernel: Kernel
    mean: float
    Z: Tensor


def choose(start: Kernel, members: Sequence[Member], points: int | str | Tensor, *, learn: bool) -> Choice:
    """ψ*, m and Z_*: select points, learn by the evidence, select again."""
    active = [sites.weighted(m.site, m.weight) for m in members if m.site is not None and m.weight > 0]
    tolerance = _tolerance(members)
    Z = points if isinstance(points, Tensor) else _select(start, active, points, tolerance)
    if not learn:
        known = [(m.mean, m.rows * m.weight) for m in members if m.weight > 0]
        return Choice(start, pooling.weighted_median(*zip(*known, strict=True)), Z)
    kernel, mean = _learn(start, active, Z)
    if not isinstance(points, Tensor):
        Z = _select(kernel, active, points, tolerance)
        kernel, mean = _learn(kernel, active, Z, about=start)
    return Choice(kernel, mean, Z)


def _tolerance(members: Sequence[Member]) -> float:
    """Slack, in nats, at which "auto" stops adding points: beside so many rows it is nothing."""
    return min(10.0, max(0.1, 1e-4 * sum(m.rows * m.weight for m in members)))


def _select(kernel: Kernel, active: Sequence[Site], points: int | str, tolerance: float) -> Tensor:
    """Z_* among the union of the modules' points, by what each adds to their joint description."""
    count = LARGEST if isinstance(points, str) else points
    tolerance = tolerance if isinstance(points, str) else 0.0
    groups = list(blocks.blocks(active, 1))
    theta = kernel.tensor()
    Z = torch.cat([g.Z.flatten(0, 1) for g in groups])
    precision = torch.cat([g.Rt.square().sum(1).flatten() for g in groups])  # Λ_jj
    grams = [kernels.matrix(kernel.tree, theta, g.Z, g.Z) for g in groups]
    # with no points at all: slack = ½ Σ_k tr(R_kᵀK_kkR_k)
    slack = sum(0.5 * float(((g.Rt @ K) * g.Rt).sum()) for g, K in zip(groups, grams, strict=True))
    sizes = [g.Z.shape[0] * g.Z.shape[1] for g in groups]

    def explained(column: Tensor) -> Tensor:
        parts = [
            (g.Rt @ c.reshape(g.Z.shape[0], g.Z.shape[1], 1)).square().sum()
            for g, c in zip(groups, column.split(sizes), strict=True)
        ]
        return torch.stack(parts).sum()

    chosen = placement.cover(Z, count, tolerance, kernel.tree, theta, precision, slack, explained)
    return Z[chosen] if chosen else Z[:1]


def _learn(start: Kernel, active: Sequence[Site], Z: Tensor, about: Kernel | None = None) -> tuple[Kernel, float]:
    """Maximise E − c·log(1 + slack/c) over θ, with the mean profiled out.

    A little slack is bought back like this, as by the bound E − slack: predictions are the bound's, and
    better at a kernel the points can express (banana, 25 points: excess 0.010 against 0.019 by E alone).
    But a slack far above c decides next to nothing: with far too few points the bound itself would buy
    it back with ever longer lengthscales.
    """
    groups = list(blocks.blocks(active, len(Z)))
    meetings = [blocks.meeting(Z, g) for g in groups]
    theta, centre = start.tensor(), (about or start).tensor()

    def evidence(theta: Tensor) -> tuple[least_squares.Solution, Tensor]:
        base = basis(start.tree, theta, Z)
        projections = [blocks.project(base, g, s) for g, s in zip(groups, meetings, strict=True)]
        parts = [least_squares.gather(*p, marginal=True) for p in projections]
        slack = torch.stack([least_squares.jensen_slack(p.H, p.RKR) for p in projections]).sum()
        return least_squares.solve(least_squares.stack(parts)), slack

    def objective(theta: Tensor) -> Tensor:
        prior = -0.5 * ((theta - centre) / PRIOR_SD).square().sum()
        solution, slack = evidence(theta)
        price = FORGIVEN * torch.log1p(slack / FORGIVEN)  # ≈ slack where it is small
        return solution.bound - price + prior

    best = optimise.maximise_one(objective, [theta], centre - 12.0, centre + 12.0)
    learned = start.replace(best.x)
    with torch.no_grad():
        mean = float(evidence(best.x)[0].mean)
    log.info("evidence %.3f after %d evaluations: %s", best.value, best.evaluations, learned.describe())
    return learned, mean
