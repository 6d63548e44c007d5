"""What a merge of very many modules costs: flops, bytes and rounds of each stage, and seconds by measured rates.

A flop is one addition or one multiplication. K modules of n rows say something about M_k points each (`points`), by as
many rows r = M_k; the ensemble has M_* points (`inducing`). Coefficients are seconds per unit of work, found by
non-negative least squares of relative errors (benchmarks/scaling.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

DIMENSION = 2
CHILDREN = 8  # results that one join takes: recyclegp.engines.executor
REMEMBERED = 2**26  # bytes of modules that a worker keeps: recyclegp.engines.store
POOL = 8192  # candidates that compete at once: recyclegp.merging.points
FEATURES = 2**21  # numbers worked on at once: recyclegp.core.packing
FACTS = 20  # numbers of a module beside its site, in a file of many: recyclegp.models.modules_file
HEADER = 2000  # bytes of a file, about
IMPORTED = 566 * 2**20  # bytes of a process that has done nothing yet: docs/benchmarks.md


class Run(NamedTuple):
    """One thing that was measured; what does not apply is zero."""

    stage: str
    seconds: float
    modules: int = 0
    rows: int = 0
    points: int = 0
    inducing: int = 0
    evaluations: float = 0.0
    tasks: int = 0
    bytes: int = 0

    @property
    def steps(self) -> float:
        return self.modules * self.evaluations

    @property
    def entries(self) -> int:
        return self.modules * self.points * self.inducing


class Case(NamedTuple):
    """What is to be computed."""

    modules: int
    rows: int
    points: int
    inducing: int
    evaluations: int = 40
    per_task: int = 64  # modules in a file, and at least in a task: as engines choose by default


# --- bytes ------------------------------------------------------------------------------------


def site_bytes(points: int, dimension: int = DIMENSION) -> int:
    """Z (M×D), Rᵀ (r×M), ρ (r) and e, with r = M rows: 8(MD + rM + r + 1)."""
    return 8 * (points * dimension + points * points + points + 1)


def file_bytes(modules: int, points: int, dimension: int = DIMENSION) -> int:
    """A file of so many modules."""
    return HEADER + modules * (site_bytes(points, dimension) + 8 * FACTS)


def message_bytes(inducing: int) -> int:
    """What one task answers: P (M_*×M_*), or the gradient by L, which is as large."""
    return 8 * inducing**2


# --- flops ------------------------------------------------------------------------------------


def first_pass_flops(points: int, inducing: int) -> float:
    """One module's share of P = HᵀH."""
    M, S = points, inducing
    solve = S**2 * M  # V = L⁻¹K_*k
    project = 2 * M**2 * S  # H = RᵀVᵀ
    marginal = 3 * M**2 * S  # HHᵀ, and B⁻¹H
    return solve + project + marginal + 2 * M * S**2  # P += HᵀH


def second_pass_flops(points: int, inducing: int) -> float:
    """One module's share of the gradient, at fixed v̂, m̂ and P."""
    M, S = points, inducing
    forward = 2 * M * S**2 + 5 * M**2 * S  # V = L⁻¹K_*k and C⁻¹Hᵀ; H, HHᵀ and B⁻¹H
    # backwards: through C⁻¹ and L⁻¹ a solve each, L̄ = −V̄Vᵀ a product, and twice what is small
    backward = (1 + 1 + 2) * M * S**2 + 10 * M**2 * S
    return forward + backward


def dense_flops(inducing: int) -> float:
    """What the client does at each evaluation: two factors, M_*³/3 each, and the way back through one, 3M_*³."""
    return (1 / 3 + 1 / 3 + 3) * inducing**3


def qr_flops(rows: float, columns: float) -> float:
    """2mn² − ⅔n³ with n the smaller side."""
    small, large = sorted((rows, columns))
    return 2 * large * small**2 - 2 / 3 * small**3


def fold_flops(modules: float, points: int, inducing: int) -> float:
    """Features of all modules, and one triangle of their rows, folded whenever there are 16 M_* of them."""
    rows = modules * points
    again = inducing * math.floor(rows / (16 * inducing))  # rows of triangles that are folded in once more
    return modules * (points * inducing**2 + 2 * points**2 * inducing) + qr_flops(rows + again, inducing)


def join_flops(rows: float, inducing: int) -> float:
    """Eight triangles of so many rows each become one, one after the other."""
    return sum(qr_flops(min(i * rows, inducing) + rows, inducing) for i in range(1, CHILDREN))


def agreement_flops(points: int, inducing: int) -> float:
    """One module against the others: V = L⁻¹K_*k, H, and C⁻¹Hᵀ."""
    return 2 * points * inducing**2 + 4 * points**2 * inducing


def pool_size(inducing: int) -> int:
    return max(POOL, 2 * inducing)


def competitions(candidates: float, inducing: int) -> float:
    """Pools from which the best are chosen: each leaves room for so many new candidates. And the last one."""
    return max(1.0, candidates / (pool_size(inducing) - inducing))


def competition_flops(candidates: float, inducing: int) -> float:
    """A pivoted factor of a full pool: step i multiplies (pool × i) by a vector, Σ2i = M_*²."""
    return min(candidates, pool_size(inducing)) * inducing**2


# --- rounds -----------------------------------------------------------------------------------


class Rounds(NamedTuple):
    """Reductions of one merge at a given number of points."""

    first: int  # sums: one for each evaluation, and one for the mean
    second: int  # gradients
    folds: int  # bound and evidence
    agreement: int
    points: int
    light: int  # region, and some sites for a first kernel

    @property
    def total(self) -> int:
        return sum(self)


def rounds(evaluations: int) -> Rounds:
    return Rounds(evaluations + 1, evaluations, 2, 1, 1, 2)


def leaves(case: Case) -> int:
    """Tasks of one reduction: one for each file. Very small files would share one, which is left out here."""
    return -(-case.modules // case.per_task)


def joins(count: int) -> list[int]:
    """On each level of the tree."""
    found = []
    while count > 1:
        count = -(-count // CHILDREN)
        found.append(count)
    return found


# --- seconds per unit of work -----------------------------------------------------------------

Work = dict[str, float]
Rates = dict[str, dict[str, float]]


def _points_work(r: Run) -> Work:
    candidates = r.modules * r.points
    pools = competitions(candidates, r.inducing)
    return {
        "step": pools * r.inducing,
        "entry": pools * min(candidates, pool_size(r.inducing)) * r.inducing,  # a column of the kernel at each step
        "flop": pools * competition_flops(candidates, r.inducing),
    }


def _file_work(r: Run) -> Work:
    return {"file": 1.0, "module": r.modules, "byte": r.bytes}


WORK: dict[str, Callable[[Run], Work]] = {
    "fit": lambda r: {
        "module": r.modules,
        "point": r.steps * r.points,  # many small matrices: a call each
        "entry": r.steps * r.rows * r.points,  # of k(Z, X)
        "flop": r.steps * 10 * r.rows * r.points**2,  # V = L⁻¹K and VVᵀ: 3nM²; backwards about twice that
    },
    "exact fit": lambda r: {"entry": r.steps * r.rows**2, "flop": r.steps * r.rows**3},  # factor n³/3, inverse ⅔n³
    "write": _file_work,
    "read": _file_work,
    "evaluation": lambda r: {
        "module": r.modules,
        "entry": r.entries,  # of k(Z_*, Z_k), and all else of that size
        "flop": r.modules * (first_pass_flops(r.points, r.inducing) + second_pass_flops(r.points, r.inducing)),
        "dense flop": dense_flops(r.inducing),
    },
    "fold": lambda r: {
        "module": r.modules,
        "entry": r.entries,
        "flop": fold_flops(r.modules, r.points, r.inducing),
    },
    "points": _points_work,
    "client": lambda r: {"merge": 1.0, "module": r.modules},
    "leaves": lambda r: {"module": r.modules},
    "cluster": lambda r: {"reduction": 1.0, "task": r.tasks + sum(joins(r.tasks)), "byte": r.tasks * r.bytes},
}


def fitted(runs: Iterable[Run]) -> Rates:
    """For each stage the rates whose relative errors are least."""
    known = [r for r in runs if r.stage in WORK]
    return {stage: _least_squares([r for r in known if r.stage == stage]) for stage in {r.stage: 0 for r in known}}


def _least_squares(runs: Sequence[Run]) -> dict[str, float]:
    """min ‖A x − 1‖² over x ≥ 0, each row of A divided by its seconds; columns are scaled to one."""
    work = [WORK[r.stage](r) for r in runs]
    A = np.array([[amount / r.seconds for amount in w.values()] for w, r in zip(work, runs, strict=True)])
    size = A.max(0)
    x, _ = nnls(A / size, np.ones(len(A)))
    return dict(zip(work[0], (x / size).tolist(), strict=True))


def seconds(rates: Rates, run: Run) -> float:
    """What the model says of a run."""
    return priced(rates, run.stage, WORK[run.stage](run))


def priced(rates: Rates, stage: str, work: Mapping[str, float]) -> float:
    return sum(rates[stage][name] * amount for name, amount in work.items())


class Gpu(NamedTuple):
    """What benchmarks/gpu.py has measured: seconds per entry and per flop, of small matrices and of large ones."""

    entry: float
    small_flop: float
    large_flop: float


LAUNCHES = 1e-4  # seconds of one step of a tournament on a GPU, about ten small kernels: assumed
GPU_MEMORY = 2e12  # bytes per second that a GPU's memory delivers: assumed, less than half of what its maker says


def gpu_rates(found: Mapping[str, Mapping[str, float]], evaluations: float) -> Gpu:
    """From three runs, one for each; how often those fits were evaluated is not recorded, and taken from ours."""
    many, exact, merge = found["whole"], found["exact fits"], found["exact merge"]
    steps = evaluations * many["modules"]
    inducing = 3  # of each fit in benchmarks/gpu.py
    return Gpu(
        many["fit"] / (steps * many["rows"] * inducing),
        exact["seconds"] / (evaluations * exact["modules"] * exact["rows"] ** 3),  # factor n³/3, inverse ⅔n³
        merge["seconds"] / (merge["evaluations"] * merge["pseudo-observations"] ** 3),
    )


def on_gpu(cpu: Rates, gpu: Gpu) -> Rates:
    """The same stages on a GPU; files, and the client's work, stay with the CPU."""
    return cpu | {
        "fit": {"module": 0.0, "point": 0.0, "entry": gpu.entry, "flop": gpu.small_flop},
        "evaluation": {"module": 0.0, "entry": gpu.entry, "flop": gpu.large_flop, "dense flop": gpu.large_flop},
        "fold": {"module": 0.0, "entry": gpu.entry, "flop": gpu.large_flop},
        "points": {"step": LAUNCHES, "entry": gpu.entry, "flop": 4 / GPU_MEMORY},  # 8 bytes are read for two flops
    }


# --- predictions ------------------------------------------------------------------------------


class Machine(NamedTuple):
    """Workers and what lies between them; what is assumed and not measured is here."""

    workers: int
    rates: Rates
    bandwidth: float = 1.25e9  # bytes per second of each worker: 10 Gbit/s
    storage: float = 1.25e9  # of the folder that all share
    latency: float = 0.5e-3  # seconds
    scheduled: bool = True  # tasks go through one scheduler; else each worker has one part of the modules
    remembered: float = REMEMBERED  # bytes of modules that a worker keeps between reductions


class Stage(NamedTuple):
    """One stage of a prediction: the largest of the things that overlap, and what cannot overlap."""

    name: str
    compute: float  # seconds of the busiest worker
    scheduler: float  # of the scheduler, which has one core
    transfer: float  # until storage and network have delivered
    serial: float  # what nothing overlaps with: sending the basis, the upper tree, the client's own work
    network: float  # bytes

    @property
    def seconds(self) -> float:
        return max(self.compute, self.scheduler, self.transfer) + self.serial

    @property
    def bound(self) -> str:
        parts = {"compute": self.compute, "scheduler": self.scheduler, "storage and network": self.transfer}
        largest = max(parts, key=lambda name: parts[name])
        return "client and tree" if self.serial > parts[largest] else largest

    def times(self, count: float) -> Stage:
        return Stage(self.name, *(count * v for v in self[1:]))

    def plus(self, other: Stage) -> Stage:
        return Stage(self.name, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))


class Prediction(NamedTuple):
    case: Case
    stages: tuple[Stage, ...]
    client_bytes: float
    worker_bytes: float

    @property
    def seconds(self) -> float:
        return sum(s.seconds for s in self.stages)

    @property
    def network(self) -> float:
        return sum(s.network for s in self.stages)

    @property
    def dominant(self) -> Stage:
        return max(self.stages, key=lambda s: s.seconds)


def shares(work: float, parts: int, workers: int) -> float:
    """Work of the busiest worker, where it comes in so many equal parts."""
    return work / parts * math.ceil(parts / workers)


def predict(case: Case, machine: Machine, fit_evaluations: float, member_bytes: float) -> Prediction:
    """Stage by stage; `fit_evaluations` is what one fit takes."""
    count, passes, message = rounds(case.evaluations), _passes(case, machine), message_bytes(case.inducing)
    own = seconds(machine.rates, Run("client", 0.0, case.modules))
    stages = (
        _fitting(case, machine, fit_evaluations),
        Stage("client's list", 0.0, 0.0, 0.0, own, 0.0),
        passes["points"].plus(passes["light"].times(count.light)),
        passes["first"].times(count.first).plus(passes["second"].times(count.second)),
        passes["fold"].times(count.folds),
        passes["agreement"],
    )
    held = case.modules * site_bytes(case.points) / (1 if machine.scheduled else machine.workers)
    # beside what is remembered: a file, results to be joined with their sum, L and C, and features
    worker = min(machine.remembered, held) + file_bytes(case.per_task, case.points) + (CHILDREN + 3) * message
    client = case.modules * member_bytes + 6 * message  # K_**, L, P, C and two for gradients
    return Prediction(case, stages, IMPORTED + client, IMPORTED + worker + 4 * 8 * FEATURES)


def _fitting(case: Case, machine: Machine, evaluations: float) -> Stage:
    rates, count, written = machine.rates, leaves(case), float(file_bytes(case.modules, case.points))
    fits = seconds(rates, Run("fit", 0.0, case.modules, case.rows, case.points, evaluations=evaluations))
    writing = priced(rates, "write", {"file": count, "module": case.modules, "byte": written})
    moved = 8.0 * case.modules * case.rows * (DIMENSION + 1) + written
    compute = shares(fits + writing, count, machine.workers)
    waiting = moved / machine.storage
    return Stage("fit and write", compute, _scheduling(machine, count), waiting, machine.latency, moved)


def _scheduling(machine: Machine, tasks: float) -> float:
    return priced(machine.rates, "cluster", {"task": tasks}) if machine.scheduled else 0.0


def _passes(case: Case, machine: Machine) -> dict[str, Stage]:
    """One reduction of each kind."""
    rates, K, M, S = machine.rates, case.modules, case.points, case.inducing
    run, rate = Run("", 0.0, K, 0, M, S), rates["evaluation"]
    first, second = first_pass_flops(M, S), second_pass_flops(M, S)
    share, dense, message = first / (first + second), rate["dense flop"] * dense_flops(S) / 2, message_bytes(S)

    def part(portion: float, flops: float) -> float:
        """Seconds of a pass that has so much of what an evaluation has beside its flops."""
        return portion * (K * rate["module"] + run.entries * rate["entry"]) + K * flops * rate["flop"]

    def reduction(name: str, compute: float, up: float, down: float, serial: float) -> Stage:
        return _reduction(name, case, machine, compute, up, down, serial)

    triangle = min(message, 8 * case.per_task * M * S)
    candidates = 8 * (DIMENSION + 1) * min(pool_size(S), case.per_task * M)
    folding, choosing = (seconds(rates, run._replace(stage=stage)) for stage in ("fold", "points"))
    agreement = part(share, agreement_flops(M, S))
    return {
        "first": reduction("learning", part(share, first), message, message, dense),
        "second": reduction("learning", part(1 - share, second), message, 2 * message, dense),
        "fold": reduction("folds", folding, triangle, message, _folding(case, machine)),
        "agreement": reduction("agreement", agreement, 16 * case.per_task, 2 * message, 0.0),
        "points": reduction("choice of points", choosing, candidates, 0, _choosing(case, machine)),
        "light": reduction("light", 0.0, 100, 0, 0.0),
    }


def _tasks(case: Case, machine: Machine) -> int:
    return leaves(case) if machine.scheduled else min(machine.workers, leaves(case))


def _reduction(
    name: str, case: Case, machine: Machine, compute: float, message: float, down: float, serial: float
) -> Stage:
    """One pass over all modules: files are read, parts computed, answers joined on their way up."""
    rates, W, tasks = machine.rates, machine.workers, _tasks(case, machine)
    stored = float(file_bytes(case.modules, case.points))
    # whoever is free takes the next file, so that a worker knows it only by chance
    reach = machine.remembered if machine.scheduled else machine.remembered * W
    missed = 1 - min(1.0, reach / stored)
    reading = missed * priced(rates, "read", {"file": leaves(case), "module": case.modules, "byte": stored})
    messages = tasks * CHILDREN / (CHILDREN - 1) * message  # answers of tasks and of joins; nearly all travel
    handling, levels = priced(rates, "cluster", {"byte": messages}), joins(tasks)
    hops = 2 + math.log2(max(1, min(W, tasks)))  # by way of the scheduler, then from worker to worker
    serial += seconds(rates, Run("leaves", 0.0, case.modules)) + hops * (down / machine.bandwidth + machine.latency)
    serial += sum(CHILDREN * message / machine.bandwidth for joined in levels if joined < W)  # the upper tree
    serial += len(levels) * 2 * machine.latency
    return Stage(
        name,
        shares(compute + reading + handling, tasks, W),
        _scheduling(machine, tasks + sum(levels)),
        max(missed * stored / machine.storage, messages / (W * machine.bandwidth)),
        serial,
        missed * stored + messages + down * min(W, tasks),
    )


def _folding(case: Case, machine: Machine) -> float:
    """Seconds in which triangles are joined: on each level one worker has one join, or several where it must."""
    tasks, spent = _tasks(case, machine), 0.0
    rows = case.modules * case.points / tasks
    for joined in joins(tasks):
        rows = min(rows, case.inducing)
        spent += join_flops(rows, case.inducing) * math.ceil(joined / machine.workers)
        rows *= CHILDREN
    return machine.rates["fold"]["flop"] * spent


def _choosing(case: Case, machine: Machine) -> float:
    """The upper tree, where pools are full and fewer meet than there are workers: seven meetings, two choices each."""
    tasks, pool, S = _tasks(case, machine), pool_size(case.inducing), case.inducing
    candidates = case.modules * case.points / tasks
    # one full pool: as the model prices a run with just as many candidates, of which it chooses once
    once = seconds(machine.rates, Run("points", 0.0, 1, 0, pool, S)) / competitions(pool, S)
    meetings = 0
    for level, joined in enumerate(joins(tasks), 1):
        meetings += candidates * CHILDREN**level > pool and joined < machine.workers
    return once * (1 + 2 * (CHILDREN - 1) * meetings)  # and the last choice
