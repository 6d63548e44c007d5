"""The paper's own way to an ensemble: variational EM, by gradient steps on eq. (ensemble).

    L_E(μ_*, S_*, ψ*, Z_*) = Σ_k E_{q_C(u_k)}[log q_k(u_k) − log p_k(u_k)] − KL[q(u_*) ‖ p(u_*)],   S_* = L_*L_*ᵀ

Algorithm 1 alternates a VE step (μ_*, L_*) and a VM step (ψ*, then Z_*). The closed form (`merge`) is the
maximiser of the same function over μ_*, L_*, so that here is a rival to measure, not a way to merge.

Where the published numbers come from: the authors' code, pmorenoz/RecyclableGP (3da070f) and
pmorenoz/ModularGP (e702b71), which agree where both have an experiment. They were not compared with the
text of arXiv 2010.02554.
- optimiser: SGD with momentum 0.9, each step on all modules (optimization/algorithms.py);
- rates of μ_*, L_*, ψ*, Z_*: 1e-3, 1e-6, 1e-8, 1e-8 in experiments/parallel.py, baseline.py (10k, 100k and
  1M rows), million.py and solar.py, but 1e-3, 1e-5, 1e-6, 1e-5 in banana.py: chosen per experiment. The
  default for Z_* in algorithms.py is 1e-6, and every script replaces it;
- steps: 30 on q (banana 20), then 10 on ψ*, then 10 on Z_*; 10 such rounds (baseline, million, solar), 20
  (banana) or 30 (parallel);
- start: μ_* ~ N(0, I), L_* = I (models/ensemblegp.py); lengthscale 0.1, variance 2 (kernels/stationary.py);
  the parameters of the kernel are these numbers themselves, up to sign, and not their logarithms.
Left out: float32 with explicit inverses, and "stop when −L_E < 10", which suits only data whose bound
happens to pass there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import gpytorch
import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..arrays import Array
from ..categories import Categories
from ..core import least_squares, linalg
from ..core.least_squares import CentredRows
from ..core.packing import PackedSites, project
from ..core.posterior import Posterior, basis
from ..core.sites import box
from ..errors import NotPositiveDefiniteError, RecycleGPError
from ..kernels import Kernel, learned
from ..likelihoods import Likelihood
from ..merging.member import stored
from ..models.ensemble import Ensemble
from ..models.merge import merge
from ..models.model import outside_autograd
from ..models.module import Module
from ..models.predictive import Predictive
from ..models.processes import OneFunction, Process
from ..target import Target


class Rates(NamedTuple):
    """Learning rates, and how many steps of each kind make one round of Algorithm 1."""

    mean: float
    root: float
    kernel: float
    points: float
    momentum: float = 0.9
    ve_steps: int = 30
    kernel_steps: int = 10
    points_steps: int = 10


PUBLISHED = Rates(mean=1e-3, root=1e-6, kernel=1e-8, points=1e-8)
PUBLISHED_BANANA = Rates(mean=1e-3, root=1e-5, kernel=1e-6, points=1e-5, ve_steps=20)

ADAM_RATE = 0.01  # in units of the prior's standard deviation, and of the distance between points
SETTLED = 1e-6  # nats: a whole call of L-BFGS that gains less has converged


# --- the objective ----------------------------------------------------------------------------


def ensemble(rows: CentredRows, L: Tensor, mean: Tensor | float, mu: Tensor, root: Tensor) -> Tensor:
    """eq. (ensemble) at any q(u_*) = N(μ_*, L_*L_*ᵀ), from the sites as centred rows about v, u_* = m1 + Lv.

    H_k = R_kᵀK_k*L⁻ᵀ, so that H_kv − ρ̃_k and H_kL⁻¹L_* are the misfit and the spread of R_kᵀu_k under
    q_C(u_k) = N(m1 + K_k*K_**⁻¹(μ_* − m1), K_kk + K_k*K_**⁻¹(S_* − K_**)K_**⁻¹K_*k); the rest of this
    covariance, K_kk − K_k*K_**⁻¹K_*k, does not depend on q: it is the slack.
    """
    # q whitened is N(v, BBᵀ):  [v B] = L⁻¹[μ_* − m1  L_*]
    vB = linalg.solve_lower(L, torch.cat([(mu - mean)[:, None], root], dim=1))
    seen = rows.H @ vB
    # Σ_k E_{q_C}[log q_k − log p_k] = Σ_k e_k − ½‖Hv − ρ̃‖² − ½‖HB‖² − slack
    misfit, spread = (seen[:, 0] - rows.rho).square().sum(), seen[:, 1:].square().sum()
    expected = rows.e - rows.slack - 0.5 * (misfit + spread)
    # KL[N(v, BBᵀ) ‖ N(0, I)], with |det B|: a root whose diagonal changes sign is still a root
    logdet = vB[:, 1:].diagonal().abs().log().sum()
    kl = 0.5 * (vB.square().sum() - len(mu)) - logdet
    return expected - kl


class Problem(NamedTuple):
    """What stays fixed however q, ψ* and Z_* move."""

    mean: float  # constant prior mean of f
    sites: tuple[PackedSites, ...]  # weighted


class Place(NamedTuple):
    """Where a climb stands."""

    mu: Tensor  # (M,)
    root: Tensor  # (M, M) lower triangular
    kernel: Kernel  # with the parameters ψ*
    Z: Tensor  # (M, D)

    def copy(self) -> Place:
        """One that stays where it is while the climb goes on."""
        mu, root, theta, Z = (t.detach().clone() for t in (self.mu, self.root, self.kernel.theta, self.Z))
        return Place(mu, root, self.kernel.with_theta(theta), Z)


class Sites(NamedTuple):
    """All that the objective needs of ψ* and Z_*: computed once for as long as they do not move."""

    rows: CentredRows
    L: Tensor


def sites_at(problem: Problem, kernel: Kernel, Z: Tensor) -> Sites:
    base = basis(kernel, Z)
    parts = [least_squares.centre(project(base, packed).rows(marginal=False), problem.mean) for packed in problem.sites]
    return Sites(least_squares.stack(parts), base.L)


# --- the climb --------------------------------------------------------------------------------


class Step(NamedTuple):
    seconds: float
    steps: int  # evaluations of the objective with its gradient
    bound: float


class Limits(NamedTuple):
    target: float  # stop at this bound
    seconds: float
    steps: float
    every: int  # steps between two records


class _Stop(Exception):  # noqa: N818  (nothing went wrong)
    pass


Watch = Callable[[Step, Place], None]


class _Climb:
    """Counts the evaluations of one ascent, records them, and ends it wherever the optimiser happens to be.

    `natural`: the optimiser sees kernel parameters themselves, as in the authors' code, and not their logarithms.
    """

    def __init__(
        self, problem: Problem, start: Place, learn: Sequence[str], natural: bool, limits: Limits, watch: Watch | None
    ) -> None:
        self.problem, self.limits, self.watch, self.natural = problem, limits, watch, natural
        self.first = start.kernel
        self.entries = torch.tensor(learned(start.kernel.structure))  # of θ that may move: all but places
        psi = start.kernel.theta[self.entries]
        psi = psi.exp() if natural else psi
        self.mu, self.root, self.psi, self.Z = (t.clone() for t in (start.mu, start.root, psi, start.Z))
        self.q = [self.mu, self.root]
        self.moving = {"kernel": self.psi, "points": self.Z}
        self.free = self.q + [t for name, t in self.moving.items() if name in learn]
        for t in self.free:
            t.requires_grad_()
        self.held: Sites | None = None
        self.trace: list[Step] = []
        self.kept = start
        self.steps = 0
        self.begun = time.perf_counter()
        if len(self.free) == len(self.q):  # ψ* and Z_* never move
            self.hold()

    def place(self) -> Place:
        theta = self.first.theta.clone()
        theta[self.entries] = self.psi.abs().log() if self.natural else self.psi
        return Place(self.mu, self.root.tril(), self.first.with_theta(theta), self.Z)

    @torch.no_grad()
    def hold(self) -> None:
        """ψ* and Z_* stay for a while: project the sites once, and fold them into at most M rows."""
        here = self.place()
        rows, L = sites_at(self.problem, here.kernel, here.Z)
        self.held = Sites(least_squares.compress(rows), L)

    def bound(self, here: Place) -> Tensor:
        try:
            rows, L = self.held or sites_at(self.problem, here.kernel, here.Z)
            return ensemble(rows, L, self.problem.mean, here.mu, here.root)
        except NotPositiveDefiniteError:  # a covariance that no jitter mends: a step too far
            return here.mu.sum() * torch.nan

    def loss(self, wanted: Sequence[Tensor]) -> Tensor:
        """−L_E where the climb stands, with its gradient left in `wanted`; stops the ascent when it is over."""
        here = self.place()
        bound = self.bound(here)
        self._note(float(bound.detach()), here)
        for t, g in zip(wanted, torch.autograd.grad(-bound, wanted), strict=True):
            t.grad = g
        return -bound.detach()

    def _note(self, bound: float, here: Place) -> None:
        """Count, record now and then, and stop where a limit is met."""
        self.steps += 1
        seconds = time.perf_counter() - self.begun
        over = {
            "diverged": not np.isfinite(bound),
            "target": bound >= self.limits.target,
            "steps": self.steps >= self.limits.steps,
            "seconds": seconds >= self.limits.seconds,
        }
        if any(over.values()) or self.steps % self.limits.every == 1 % self.limits.every:
            self._record(Step(seconds, self.steps, bound), here)
        for reason, met in over.items():
            if met:
                raise _Stop(reason)

    def _record(self, step: Step, here: Place) -> None:
        self.trace.append(step)
        if np.isfinite(step.bound):
            self.kept = here.copy()
            if self.watch:
                self.watch(step, self.kept)

    @torch.no_grad()
    def look(self) -> float:
        return float(self.bound(self.place()))

    def finish(self, reason: str) -> NoReturn:
        """The optimiser itself sees nothing left to gain."""
        self.steps += 1
        self._record(Step(time.perf_counter() - self.begun, self.steps, self.look()), self.place())
        raise _Stop(reason)


def _published(climb: _Climb, rates: Rates) -> NoReturn:
    """Algorithm 1: a VE step, then a VM step on ψ* and another on Z_*, each with its own momentum."""

    def sgd(*groups: tuple[Tensor, float]) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": [t], "lr": lr} for t, lr in groups], lr=0.0, momentum=rates.momentum)

    ve = sgd((climb.mu, rates.mean), (climb.root, rates.root))
    rounds = [(ve, climb.q, rates.ve_steps)]
    for name, lr, count in (("kernel", rates.kernel, rates.kernel_steps), ("points", rates.points, rates.points_steps)):
        leaf = climb.moving[name]
        if leaf.requires_grad:
            rounds.append((sgd((leaf, lr)), [leaf], count))
    while True:
        for optimiser, leaves, count in rounds:
            if leaves is not climb.q:
                climb.held = None
            elif climb.held is None:
                climb.hold()
            for _ in range(count):
                climb.loss(leaves)
                optimiser.step()


def _adam(climb: _Climb, rate: float) -> NoReturn:
    """All at once. Rates are in natural units: μ_*, L_* in the prior's deviations, Z_* in its own spacing."""
    with torch.no_grad():
        here = climb.place()
        deviation = float(here.kernel.diagonal(here.Z).mean().sqrt())
        M, D = here.Z.shape
        spacing = float(here.Z.std(0, correction=0).min()) / M ** (1 / D) or 1.0
    scale = {id(climb.mu): deviation, id(climb.root): deviation, id(climb.Z): spacing}
    optimiser = torch.optim.Adam([{"params": [t], "lr": rate * scale.get(id(t), 1.0)} for t in climb.free])
    while True:
        climb.loss(climb.free)
        optimiser.step()


def _lbfgs(climb: _Climb) -> NoReturn:
    ends: dict[str, Any] = {"max_iter": 200, "max_eval": 10**9, "tolerance_grad": 1e-9, "tolerance_change": 1e-12}
    optimiser = torch.optim.LBFGS(climb.free, history_size=50, line_search_fn="strong_wolfe", **ends)
    before = -np.inf
    while True:
        optimiser.step(lambda: float(climb.loss(climb.free)))
        bound = climb.look()
        if bound - before < SETTLED:
            climb.finish("converged")
        before = bound


# --- the result -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Climbed(Predictive):
    """Where variational EM ended, and how: a GP that predicts, beside the record of its ascent."""

    mean: float
    likelihoods: tuple[Likelihood, ...]
    of: Ensemble  # whose modules were merged, in closed form: the same inputs and targets
    place: Place  # after "diverged" the last recorded one that had a bound
    trace: tuple[Step, ...]
    stopped: str  # "target", "seconds", "steps", "converged" (L-BFGS) or "diverged": met a bound that is not finite

    def __repr__(self) -> str:
        last = self.trace[-1]
        return f"Climbed(bound {last.bound:.6g} after {last.steps} steps in {last.seconds:.3g} s: {self.stopped})"

    @property
    def reached(self) -> bool:
        """Did the bound come within reach of the target?"""
        return self.stopped == "target"

    @property
    def bound(self) -> float:
        """L_E at the last step: NaN or −∞ where the ascent diverged."""
        return self.trace[-1].bound

    @property
    def columns(self) -> arrays.Columns:
        return self.of.columns

    @property
    def categories(self) -> Categories:
        return self.of.categories

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.of.targets

    @property
    def _points(self) -> tuple[Tensor, ...]:
        return (self.place.Z,)

    @property
    def _boxes(self) -> list[Tensor]:
        return [box(self.place.Z)]

    @property
    def _kernels(self) -> tuple[Kernel, ...]:
        return (self.place.kernel,)

    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        return [OneFunction(self._posteriors[0])]  # one function for all

    @cached_property
    @outside_autograd
    def _posteriors(self) -> tuple[Posterior, ...]:
        base = basis(self.place.kernel, self.place.Z)
        v = linalg.solve_lower(base.L, (self.place.mu - self.mean)[:, None])[:, 0]
        B = linalg.solve_lower(base.L, self.place.root)
        # BBᵀ = (CCᵀ)⁻¹:  B⁻¹ = QR gives CCᵀ = B⁻ᵀB⁻¹ = RᵀR
        identity = torch.eye(len(v), dtype=v.dtype)
        R = torch.linalg.qr(linalg.solve_lower(B, identity), mode="r").R
        return (Posterior(base, torch.tensor(self.mean, dtype=v.dtype), v, (R.diagonal().sign()[:, None] * R).mT),)


def vem(
    modules: Iterable[Module],
    Z: Array,  # the points Z_*, or the first of them
    *,
    kernel: str | gpytorch.kernels.Kernel | None = None,  # this and weights as for `merge`
    weights: Mapping[str, float] | Sequence[float] | None = None,
    learn: Sequence[str] = ("q",),  # what moves: "q" always, "kernel" and "points" if named
    optimiser: str = "published",  # Algorithm 1 with `rates`; or "adam" or "lbfgs", everything at once
    rates: Rates = PUBLISHED,
    adam_rate: float = ADAM_RATE,
    target: float | None = None,  # a bound to come `within` so many nats of
    within: float = 1.0,
    seconds: float = 60.0,  # after which the ascent stops
    max_steps: int | None = None,  # after which it stops, too
    seed: int = 0,  # of the first μ_*
    every: int = 10,  # steps between two records
    watch: Watch | None = None,  # called at every recorded step and at the last; its time counts
) -> Climbed:
    """Climb eq. (ensemble) from μ_* ~ N(m, I), L_* = I and the given (or pooled) kernel and points.

    The clock runs from the sites as they are stored: projecting them on Z_*, once where kernel and points are fixed, is
    part of the ascent, as it is part of `merge`. As published, a run is 10 rounds: 300 steps of q alone, 500 with
    kernel and points.
    """
    ascents: dict[str, Callable[[_Climb], NoReturn]] = {
        "published": lambda climb: _published(climb, rates),
        "adam": lambda climb: _adam(climb, adam_rate),
        "lbfgs": _lbfgs,
    }
    if optimiser not in ascents:
        raise RecycleGPError(f"optimiser={optimiser!r}; use {', '.join(ascents)}")
    if "q" not in learn or not set(learn) <= {"q", "kernel", "points"}:
        raise RecycleGPError(f"learn={tuple(learn)!r}; name 'q', and 'kernel' and 'points' where they should move")
    # the same checks, pooled kernel and mean as merge; its closed form is not used
    begin = merge(modules, inducing=Z, kernel=kernel, weights=weights, learn=False)
    Z = begin._points[0]
    M = len(Z)
    with stored(begin._members) as store:
        problem = Problem(begin.mean, tuple(store.packs(M)))
    noise = torch.as_tensor(np.random.default_rng(arrays.seed(seed)).standard_normal(M))
    start = Place(begin.mean + noise, torch.eye(M, dtype=torch.float64), begin.kernel_spec, Z)
    limits = Limits(
        np.inf if target is None else target - within, seconds, np.inf if max_steps is None else max_steps, every
    )
    climb = _Climb(problem, start, learn, optimiser == "published", limits, watch)
    try:
        ascents[optimiser](climb)
    except _Stop as stop:
        stopped = str(stop)
    return Climbed(begin.mean, begin.likelihoods, begin, climb.kept, tuple(climb.trace), stopped)
