"""Merging: against variational EM, against itself at half the size, and against the products it cannot avoid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

import recyclegp as rgp
from data import adjoining
from recyclegp.baselines.vem import Climbed, vem
from recyclegp.core import optimiser
from recyclegp.core.effects import Effects
from recyclegp.core.packing import PackedSites
from recyclegp.core.stacked import stack
from recyclegp.kernels import parse
from recyclegp.merging.exact_learning import Sites
from speed_cases import TimingCase, merged, timing_case
from speed_default import Owners, against_once
from speed_rows import Options, Row, finite, interleaved, shown, timed, versus

OPTIMISERS = {"published": "VEM, published rates", "adam": "VEM, Adam", "lbfgs": "VEM, L-BFGS"}
COUNTED_FROM = 160  # modules: below, what every merge costs hides how it grows


class Floor(NamedTuple):
    K: int  # modules
    M: int  # points


class Sizes(NamedTuple):
    vem_seconds: float
    most: int  # modules in the doubling
    rounds: int
    floors: tuple[Floor, ...]
    exact: int  # modules of 128 points in the exact evidence
    owners: Owners  # of the default merge
    default_rounds: int


SMALL = Floor(500, 128)
FULL = Sizes(120.0, 5120, 9, (SMALL, Floor(5000, 512)), 16, Owners(16, 128, 8, 400), 2)
QUICK = Sizes(4.0, 640, 5, (SMALL,), 4, Owners(8, 24, 4, 80), 3)
TARGETS = {"published": 800.0, "adam": 20.0, "lbfgs": 4.0}  # times VEM, by its optimiser


def rows(options: Options) -> Iterator[Row]:
    sizes = QUICK if options.quick else FULL
    yield from against_vem(sizes, options.seed)
    yield doubling(sizes, options.seed)
    for size in sizes.floors:
        yield from against_floor(size, sizes.rounds, options.seed)
    yield exact_evidence(sizes, options.seed)
    yield against_once(sizes.owners, sizes.default_rounds, options.seed)


# --- variational EM ---------------------------------------------------------------------------


def against_vem(sizes: Sizes, seed: int) -> Iterator[Row]:
    """The paper's 10k case at the kernel and points of the learned merge: one closed form, three ascents."""
    modules = rgp.fit_many(adjoining(50, 200, np.random.default_rng(seed)), publish=3, progress=False)
    learned = rgp.merge(modules, inducing=35)
    kernel, Z = learned.kernel, learned.inducing

    def ours() -> rgp.Ensemble:
        return rgp.merge(modules, kernel=kernel, inducing=Z, learn=False)

    bound = ours().bound
    case = {"K": 50, "M_k": 3, "M": 35, "within_nats": 1.0, "cap_s": sizes.vem_seconds}
    for way, name in OPTIMISERS.items():
        times = [timed(ours)[0] for _ in range(10)]  # before and after: the rival's run is long
        found = vem(modules, Z, kernel=kernel, optimiser=way, target=bound, seconds=sizes.vem_seconds, seed=seed)
        times += [timed(ours)[0] for _ in range(10)]
        last = found.trace[-1]
        yield Row(
            "merge",
            "merge of 50 modules, M=35",
            name,
            ours=median(times),
            other=last.seconds,
            target=TARGETS[way],
            bounded=not found.reached,
            note=_ending(found, bound),
            sizes=case,
            raw={
                "ours": times,
                "steps": last.steps,
                "stopped": found.stopped,
                "nats_below": finite(bound - found.bound),
            },
        )


def _ending(found: Climbed, bound: float) -> str:
    if found.reached:
        return f"within 1 nat after {found.trace[-1].steps} steps"
    return f"stopped ({found.stopped}) after {found.trace[-1].steps} steps, still {bound - found.bound:.3g} nats below"


# --- growth -----------------------------------------------------------------------------------


def doubling(sizes: Sizes, seed: int) -> Row:
    """Merging K = 10, 20, 40 … modules at M = 35; the worst of the larger doublings is the row."""
    case = timing_case(sizes.most, 35, 1, seed)
    counts = [10 * 2**i for i in range(int(np.log2(sizes.most // 10)) + 1)]
    times = interleaved({K: lambda K=K: merged(case, K) for K in counts}, sizes.rounds)
    cost = {K: median(t) for K, t in times.items()}
    worst = max((p for p in pairwise(counts) if p[0] >= COUNTED_FROM), key=lambda p: cost[p[1]] / cost[p[0]])
    return Row(
        "merge",
        f"merge of {worst[1]:,} modules, M=35",
        f"merge of {worst[0]:,} modules, M=35",
        ours=cost[worst[1]],
        other=cost[worst[0]],
        cost=True,
        target=2.1,
        note=f"the worst doubling from K={COUNTED_FROM} on. All: " + ", ".join(f"{K} {shown(cost[K])}" for K in counts),
        sizes={"K": counts, "M_k": 3, "M": 35},
        raw={"by_K": {str(K): t for K, t in times.items()}},
    )


# --- the floor --------------------------------------------------------------------------------


def against_floor(sizes: Floor, rounds: int, seed: int) -> Iterator[Row]:
    """V = L⁻¹K_*k and HᵀH cannot be had for less than (M×M)@(M×n) and (M×n)@(n×M), n = ΣM_k."""
    case = timing_case(sizes.K, sizes.M, 2, seed)
    n = 3 * sizes.K
    floor = products(sizes.M, n, seed)
    what = {"K": sizes.K, "M_k": 3, "M": sizes.M, "n": n}
    times = interleaved({"merge": lambda: merged(case, sizes.K), "floor": floor}, rounds)
    named = f"({sizes.M}×{sizes.M})@({sizes.M}×{n}), ({sizes.M}×{n})@({n}×{sizes.M})"
    yield Row(
        "merge",
        f"merge of {sizes.K:,} modules, M={sizes.M}",
        "two bare matrix products",
        cost=True,
        target=3.0,
        note=named,
        sizes=what,
        **versus(times, "merge", "floor"),
    )
    times = evaluation(case, lambda step: interleaved({"step": step, "floor": floor}, max(3, rounds // 2)))
    yield Row(
        "merge",
        f"one evidence and gradient, M={sizes.M}",
        "two bare matrix products",
        cost=True,
        note=f"what learning the kernel repeats, {sizes.K:,} modules; reported, not promised",
        sizes=what,
        **versus(times, "step", "floor"),
    )


def products(M: int, n: int, seed: int) -> Callable[[], torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(M, M, dtype=torch.float64, generator=generator)
    B = torch.randn(M, n, dtype=torch.float64, generator=generator)

    def compute() -> torch.Tensor:
        V = A @ B
        return V @ V.mT

    return compute


def exact_step(K: int, M: int, D: int, seed: int) -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """E and its gradient with all pseudo-observations at once, owners' effects included; and what it cannot avoid."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    packed = PackedSites(normal(K, M, D), normal(K, M, M).tril(), normal(K, M), normal(K), tuple(range(K)), (M,) * K)
    stacked = stack([packed], list(range(K)))
    kernel = parse("rbf", D)
    A = stacked.gram(kernel) + torch.eye(K * M, dtype=torch.float64)

    def step() -> None:
        theta = kernel.theta.clone().requires_grad_()
        offset = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
        value = Sites(stacked).log_evidence(kernel.with_theta(theta), Effects(offset, 0.05)).value
        torch.autograd.grad(value, [theta, offset])

    def factor() -> torch.Tensor:
        return torch.cholesky_inverse(torch.linalg.cholesky(A))

    return step, factor


def exact_evidence(sizes: Sizes, seed: int) -> Row:
    K, M, D = sizes.exact, 128, 8
    step, factor = exact_step(K, M, D, seed)
    times = interleaved({"step": step, "floor": factor}, max(3, sizes.rounds // 2))
    return Row(
        "merge",
        f"one exact evidence and gradient, n={K * M:,}",
        "a Cholesky factor and its inverse",
        cost=True,
        target=3.0,
        note=f"{K} modules of {M} points in {D}-D, with owners' offsets and smooth departures",
        sizes={"K": K, "M_k": M, "n": K * M},
        **versus(times, "step", "floor"),
    )


class _MeasuredError(Exception):
    """Raised to leave `merge` where its objective was in hand."""


def evaluation(case: TimingCase, clock: Callable[[Callable[[], Any]], Any]) -> Any:
    """`clock` on one evaluation, with gradient, of the very objective `merge` hands to its optimiser.

    The objective may hold resources that are closed when `merge` returns, so it is timed where it is
    handed over: at `optimiser.maximise_one`. Should merging call another optimiser, this is what to change.
    """
    result = None

    maximise_one = optimiser.maximise_one

    def intercept(
        objective: Callable[[torch.Tensor], torch.Tensor], starts: list[torch.Tensor], *rest: Any, **options: Any
    ) -> Any:
        if "tolerance" in options:  # a first kernel, by the exact evidence of some of the modules
            return maximise_one(objective, starts, *rest, **options)

        def step() -> None:
            theta = starts[0].detach().clone().requires_grad_()
            torch.autograd.grad(objective(theta), theta)

        nonlocal result
        with torch.enable_grad():
            result = clock(step)
        raise _MeasuredError

    with mock.patch.object(optimiser, "maximise_one", intercept):
        try:
            rgp.merge(case.modules, kernel=case.kernel, inducing=case.Z, learn=True, owners=None)
        except _MeasuredError:
            return result
    raise RuntimeError("merge no longer learns by optimiser.maximise_one; see evaluation in speed_merge.py")
