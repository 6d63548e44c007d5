"""Modules → Ensemble: pool the kernels, choose Z_*, stack the sites, solve one least-squares problem."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gpytorch
import torch
from torch import Tensor

from . import arrays, blocks, kernel_units, kernels, optimise, pooling, stacking
from . import inducing as placement
from .ensemble import Ensemble, Member, shelve
from .errors import RecycleGPError, RecycleGPWarning
from .evidence import evidence, profiled_mean
from .intake import Source, take
from .kernels import Kernel
from .module import Module
from .posterior import basis
from .shelf import Shelf, candidates

log = logging.getLogger(__name__)

LARGEST = 512  # points "auto" may choose
FORGIVEN = 30.0  # nats of slack up to which the kernel may be adapted to the points
CRAMPED = 10.0  # nats of slack above which a given number of points is too small to stay where modules put theirs
MOVABLE = 512  # coordinates that may be learned beside the kernel
FARTHEST = 5.0  # lengthscales that a point may move
POOL = 8192  # candidates for Z_* looked at together
EARLY = 0.01  # of the tolerance: where pools stop, as those that lost cannot be asked again
SAMPLE = 1000  # modules and points that say how large a function is, for a kernel none of them has
FIRST = 1024  # points of the modules on which a first kernel is learned
PRIOR_SD = 2.0  # how far, in log units, learned kernel parameters stay near their pooled values


def merge(
    modules: Source,
    *,
    inducing: Any = "auto",
    kernel: str | gpytorch.kernels.Kernel | None = None,
    learn: bool = True,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    keep: str = "sites",
) -> Ensemble:
    """One global GP from fitted modules, without their data.

    modules    a Module, a file, a directory of *.safetensors files, or any iterable of modules and
               files. They come in one at a time: with keep="names" memory does not grow with their sites.
    inducing   "auto" (until what the points cannot express is negligible, at most 512), a number
               (of the modules' own points; where they are too few to express them, moved), or the
               points Z_* themselves.
    kernel     the global kernel, or its structure by name; by default the structure with most rows,
               at the median of the modules' parameters.
    learn      True then maximises the block-marginal evidence over kernel and mean, less a price on slack.
    weights    name → w ≥ 0, or one per module; 0 leaves a module out, 2 counts it twice.
    keep       "sites" (needed to remove modules later) or "names".
    """
    if not isinstance(learn, bool):
        raise TypeError(f"learn must be True or False, not {learn!r}")
    if keep not in ("sites", "names"):
        raise RecycleGPError(f"keep={keep!r}; use 'sites' or 'names'")

    def check(first: Module) -> None:  # what is wrong with the options is said before a long stream is read
        _points(inducing, first.dimension, first.columns)
        if isinstance(kernel, str):
            kernels.parse(kernel, first.dimension, [0.0] * first.dimension)
        elif kernel is not None:
            kernels.from_gpytorch(kernel, first.dimension)

    with Shelf() as shelf:
        members, frame = take(modules, shelf, keep=keep == "sites", weights=weights, check=check)
        points = _points(inducing, frame.dimension, frame.columns)
        start = _start(members, shelf, kernel, frame.dimension)
        return _build(start, members, shelf, points, frame.columns, learn=learn)


def relearned(old: Ensemble, members: tuple[Member, ...]) -> Ensemble:
    """Kernel, mean, points and noise chosen anew for other members, in the way they were chosen first."""
    alike = [m.kernel for m in members if m.weight > 0]
    alike = [k for k in alike if pooling.skeleton(k) == pooling.skeleton(old.kernel_spec)]
    start = pooling.pool_kernels(alike) if alike else old.kernel_spec
    points = old._points if old.choice is None else old.choice
    with shelve(members) as shelf:
        return _build(start, members, shelf, points, old.columns, learn=True)


def _build(
    start: Kernel,
    members: tuple[Member, ...],
    shelf: Shelf,
    points: int | str | Tensor,
    columns: arrays.Columns,
    *,
    learn: bool,
) -> Ensemble:
    kernel, mean, Z = choose(start, members, shelf, points, learn=learn)
    choice = None if isinstance(points, Tensor) else points
    with torch.no_grad():
        base = basis(kernel.tree, kernel.tensor(), Z)
    bound = stacking.fold(base, shelf, mean, marginal=False)
    names_only = any(m.site is None for m in members)
    marginal = stacking.fold(base, shelf, mean, marginal=True) if names_only else None
    likelihoods = pooling.pool_likelihoods(members)
    jitter = float(base.jitter)
    ensemble = Ensemble(kernel, mean, jitter, likelihoods, columns, choice, base.Z, members, bound, marginal)
    if choice == "auto" and len(Z) == LARGEST and ensemble.slack > 10 * _tolerance(members):
        warnings.warn(
            f"{LARGEST} points leave {ensemble.slack:.3g} nats of the modules' knowledge unexpressed; pass a larger "
            "inducing= for a sharper ensemble",
            RecycleGPWarning,
            stacklevel=3,
        )
    return ensemble._without_sites(shelf) if names_only else ensemble


def _points(inducing: Any, dimension: int, columns: arrays.Columns) -> int | str | Tensor:
    if isinstance(inducing, str) and inducing == "auto":
        return inducing
    return arrays.count_or_points(inducing, "inducing", dimension, columns, "cpu")


def _start(members: Sequence[Member], shelf: Shelf, kernel: Any, D: int) -> Kernel:
    """The given kernel, or the median of the members that share the structure with most rows."""
    active = [m for m in members if m.weight > 0]
    if isinstance(kernel, str):
        return _named(kernel, active, shelf, D)
    if kernel is not None:
        return kernels.from_gpytorch(kernel, D)
    rows: dict[str, float] = {}
    for m in active:
        shape = pooling.skeleton(m.kernel)
        rows[shape] = rows.get(shape, 0.0) + m.rows * m.weight
    most = max(rows, key=lambda s: rows[s])
    return pooling.pool_kernels([m.kernel for m in active if pooling.skeleton(m.kernel) == most])


def _named(kernel: str, active: Sequence[Member], shelf: Shelf, D: int) -> Kernel:
    """A structure by name: pooled from the members that have it, else begun at the scale of them all."""
    centre = sum((Z.sum(0) for Z, _ in candidates(shelf)), torch.zeros(D, dtype=torch.float64)) / shelf.points
    spec = kernels.parse(kernel, D, centre.tolist())
    alike = [m.kernel for m in active if pooling.skeleton(m.kernel) == pooling.skeleton(spec)]
    if alike:
        return pooling.pool_kernels(alike)
    x = sum(((Z - centre).square().sum(0) for Z, _ in candidates(shelf)), torch.zeros_like(centre))
    x = torch.where(x > 0, (x / shelf.points).sqrt(), torch.ones_like(x))
    some = active[:: -(-len(active) // SAMPLE)]
    Z = next(candidates(shelf))[0][:SAMPLE]
    variances = [float(kernels.diagonal(m.kernel.tree, m.kernel.tensor(), Z).mean()) for m in some]
    middle = pooling.weighted_median(variances, [m.rows * m.weight for m in some])
    return spec.replace(kernel_units.reference(spec.tree, x, x.new_tensor(middle**0.5)))


# --- kernel, mean and points ------------------------------------------------------------------


class Choice(NamedTuple):
    kernel: Kernel
    mean: float
    Z: Tensor


def choose(
    start: Kernel, members: Sequence[Member], shelf: Shelf, points: int | str | Tensor, *, learn: bool
) -> Choice:
    """ψ*, m and Z_*: select points, learn by the evidence, select again; move them where they are too few.

    A number of points that cannot express what the modules know is best spent between the modules' points:
    on a zero of 784 pixels at 25 of 64 points the NLPD falls from 0.135 to 0.105, on sunspots at 90 of 300
    from 0.93 to 0.86. Points given as such stay.
    """
    known = [(m.mean, m.rows * m.weight) for m in members if m.weight > 0]
    mean = pooling.weighted_median(*zip(*known, strict=True))
    tolerance = _tolerance(members)
    kernel = start
    if learn and not isinstance(points, Tensor):
        # The median kernel only decides where a first few points go, and may want far too many of them (of
        # 5,000 narrow intervals 466, where 47 do): some of the modules are enough to find a better one.
        with shelf.thinned(FIRST) as some:
            kernel, mean, _ = _learn(Choice(start, mean, _select(start, some, points, tolerance)), some, start)
    Z = points if isinstance(points, Tensor) else _select(kernel, shelf, points, tolerance)
    found = Choice(kernel, mean, Z)
    if learn:
        found = _learn(found, shelf, start)
        if isinstance(points, int) and Z.numel() <= MOVABLE and float(_left(found.kernel, shelf, Z)[-1]) > CRAMPED:
            found = _learn(found, shelf, start, move=True)
    return found


def _tolerance(members: Sequence[Member]) -> float:
    """Slack, in nats, at which "auto" stops adding points: beside so many rows it is nothing."""
    return min(10.0, max(0.1, 1e-4 * sum(m.rows * m.weight for m in members)))


@torch.no_grad()
def _select(kernel: Kernel, shelf: Shelf, points: int | str, tolerance: float) -> Tensor:
    """Z_* among the union of the modules' points, by what each adds to their joint description.

    A tournament: as many candidates as a pool holds compete, the best meet the next ones, and the order
    in which the last pool chooses them is the order of Z_*.
    """
    auto = isinstance(points, str)
    count = LARGEST if isinstance(points, str) else points
    size = max(POOL, 2 * count)
    enough = 2 * tolerance / shelf.largest if auto else 0.0
    if shelf.points > size:
        enough *= EARLY
    tree, theta = kernel.tree, kernel.tensor()
    Z, precision = theta.new_zeros(0), theta.new_zeros(0)
    for more, its_precision in candidates(shelf):
        for part, weight in zip(more.split(size - count), its_precision.split(size - count), strict=True):
            if len(Z) + len(part) > size:
                best = placement.cover(Z, count, enough, tree, theta, precision)
                Z, precision = Z[best], precision[best]
            Z, precision = (torch.cat([Z, part]), torch.cat([precision, weight])) if len(Z) else (part, weight)
    chosen = placement.cover(Z, count, enough, tree, theta, precision)
    Z = Z[chosen] if chosen else Z[:1]
    return Z[: _sufficient(kernel, shelf, Z, tolerance)] if auto else Z


def _sufficient(kernel: Kernel, shelf: Shelf, Z: Tensor, tolerance: float) -> int:
    """How many of the points, in their order, leave no more slack than the tolerance; all if none do."""
    enough = _left(kernel, shelf, Z) <= tolerance
    return int(enough.int().argmax()) + 1 if bool(enough.any()) else len(Z)


@torch.no_grad()
def _left(kernel: Kernel, shelf: Shelf, Z: Tensor) -> Tensor:
    """The slack that the first one, two, … of the points leave.

    Each column of H belongs to one point, and Σ_k‖H_k[:, i]‖² is twice what it explains after those before it.
    """
    base = basis(kernel.tree, kernel.tensor(), Z)
    slack, explained = Z.new_zeros(()), Z.new_zeros(len(Z))
    for block in shelf.blocks(len(Z)):
        p = blocks.project(base, block)
        slack = slack + 0.5 * p.RKR.diagonal(dim1=-2, dim2=-1).sum()
        explained = explained + 0.5 * p.H.square().sum((0, 1))
    return slack - explained.cumsum(0)


def _learn(first: Choice, shelf: Shelf, about: Kernel, *, move: bool = False) -> Choice:
    """Maximise E − c·log(1 + slack/c) over θ, and over Z_* where they may move, with the mean profiled out.

    A little slack is bought back like this, as by the bound E − slack: predictions are the bound's, and
    better at a kernel the points can express (banana, 25 points: excess 0.010 against 0.019 by E alone).
    But a slack far above c decides next to nothing: with far too few points the bound itself would buy
    it back with ever longer lengthscales.
    """
    tree, theta, centre, (M, D) = first.kernel.tree, first.kernel.tensor(), about.tensor(), first.Z.shape
    lengths = kernel_units.lengths(tree, theta, D)
    steps = first.Z.new_zeros(M * D if move else 0)  # of the points, in lengthscales

    def price(slack: Tensor) -> Tensor:
        return FORGIVEN * torch.log1p(slack / FORGIVEN)  # ≈ slack where it is small

    def moved(x: Tensor) -> Tensor:
        return first.Z + lengths * x[len(theta) :].reshape(M, D) if move else first.Z

    def objective(x: Tensor) -> Tensor:
        prior = -0.5 * ((x[: len(theta)] - centre) / PRIOR_SD).square().sum()
        return evidence(tree, x[: len(theta)], moved(x), shelf, price, first.mean) + prior

    reach = torch.cat([torch.full_like(theta, 12.0), torch.full_like(steps, FARTHEST)])
    middle = torch.cat([centre, steps])
    best = optimise.maximise_one(objective, [torch.cat([theta, steps])], middle - reach, middle + reach)
    kernel, Z = first.kernel.replace(best.x[: len(theta)]), moved(best.x)
    log.info("evidence %.3f after %d evaluations: %s", best.value, best.evaluations, kernel.describe())
    return Choice(kernel, profiled_mean(tree, kernel.tensor(), Z, shelf, first.mean), Z)
