"""A map of many fits and then synchronous reductions, on workers that are slow, noisy, or die: what it costs in time.

A simulation of events, with fixed seeds. Tasks wait in one queue and whoever is free takes the next one. How long a
task takes belongs to the task, so that a second copy of it escapes a slow worker but not a long task; with `hiccups`
it belongs to the attempt. A worker that is lost comes back empty after a while; the task that it was working on goes
to the front of the queue. The modules it had made are in files, or (`files=False`) are lost with it and made again.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import NamedTuple

import numpy as np

HOUR = 3600.0


class Setting(NamedTuple):
    workers: int = 100
    per_worker: int = 8  # tasks of each phase, on average
    sigma: float = 0.0  # of the logarithm of a task's time; the mean stays
    hiccups: bool = False  # noise is of an attempt, not of the task: a second copy draws again
    slow_share: float = 0.0  # of the workers
    slow_factor: float = 3.0  # how many times longer these take
    losses: float = 0.0  # of each worker, per hour
    copies: bool = False  # idle workers begin a second copy of what has been running longest
    files: bool = True
    fit: float = 320.0  # seconds of each worker, were all alike: about those predicted for 10⁶ modules on 100 workers
    reductions: int = 80
    reduction: float = 12.0  # likewise, for each reduction
    tree: float = 0.5  # seconds between two reductions in which nobody works on modules
    scheduling: float = 0.0  # seconds of the scheduler for each task that it hands out
    restart: float = 60.0  # seconds until a lost worker is replaced
    late: float = 1.5  # times the usual duration after which a task may be copied
    seed: int = 0


GIVEN_UP = 20.0  # times the ideal, after which nobody waits any longer


class Outcome(NamedTuple):
    setting: Setting
    seconds: float  # if it was given up, those until then
    lost: int  # workers
    repeated: int  # tasks that had been finished
    copied: int

    @property
    def relative(self) -> float:
        return self.seconds / ideal(self.setting)

    @property
    def given_up(self) -> bool:
        return self.relative >= GIVEN_UP


def ideal(s: Setting) -> float:
    """All workers alike, none lost, no noise: nobody ever waits."""
    return s.fit + s.reductions * (s.reduction + s.tree)


UP, DONE, LOST, LOOK = range(4)  # kinds of events
NOBODY, IDLE = -2, -1  # what a worker is doing, if it has no task: it is not there; it waits


class _Task(NamedTuple):
    """Its number, and how long it takes on an ordinary worker."""

    number: int
    seconds: float


class Simulation:
    def __init__(self, setting: Setting) -> None:
        s = self.s = setting
        self.now = 0.0
        self.end = GIVEN_UP * ideal(s)
        self.events: list[tuple[float, int, int, int, int]] = []  # when, order, kind, worker, attempt
        self.order = 0
        slow = round(s.slow_share * s.workers)
        self.speed = [s.slow_factor if w < slow else 1.0 for w in range(s.workers)]
        self.doing: list[int] = [IDLE] * s.workers
        self.idle = list(range(s.workers))  # a heap: who waits, and perhaps some who do not any more
        self.attempt = [0] * s.workers  # events of earlier ones are void
        self.began = [0.0] * s.workers
        self.made: list[set[int]] = [set() for _ in range(s.workers)]  # modules that each has fitted
        self.tasks: dict[int, _Task] = {}
        self.queue: deque[int] = deque()
        self.waiting: set[int] = set()  # tasks of this phase, and those that must be repeated, not yet done
        self.runners: dict[int, list[int]] = {}  # task → who works on it
        self.usual = 0.0
        self.dispatched = 0.0
        self.lost = self.repeated = self.copied = 0
        self.chance = [np.random.default_rng([s.seed, 1, w]) for w in range(s.workers)]
        self.again = np.random.default_rng([s.seed, 3])
        for w in range(s.workers):
            self._next_loss(w, 0.0)

    def _push(self, when: float, kind: int, worker: int, attempt: int = 0) -> None:
        self.order += 1
        heapq.heappush(self.events, (when, self.order, kind, worker, attempt))

    def _next_loss(self, w: int, since: float) -> None:
        if self.s.losses > 0:
            self._push(since + float(self.chance[w].exponential(HOUR / self.s.losses)), LOST, w)

    def _noise(self, normal: np.ndarray) -> np.ndarray:
        """Lognormal, of mean 1."""
        return np.exp(self.s.sigma * normal - self.s.sigma**2 / 2)

    def phase(self, number: int, seconds: float) -> None:
        """All tasks of one map; each worker has so many seconds of it, were all alike."""
        s = self.s
        count = s.workers * s.per_worker
        noise = np.random.default_rng([s.seed, 2, number]).standard_normal(count)
        each = seconds / s.per_worker * self._noise(noise)
        new = [_Task(number * count + i, t) for i, t in enumerate(each.tolist())]
        self.tasks.update({t.number: t for t in new})
        self.waiting.update(t.number for t in new)
        self.queue.extend(t.number for t in new)
        self.usual = seconds / s.per_worker
        self.dispatched = self.now
        self._hand_out()
        while self.waiting and self.now < self.end:
            self._step()
        if number > 0 or s.files:
            for t in new:  # nobody asks for these again
                self.tasks.pop(t.number, None)

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def _step(self) -> None:
        when, _, kind, w, attempt = heapq.heappop(self.events)
        if kind == DONE and attempt != self.attempt[w]:
            return
        self.now = max(self.now, when)
        if kind == DONE:
            self._done(w)
        elif kind == LOST:
            self._lost(w)
        elif kind == UP:
            self._wait(w)
            self._next_loss(w, self.now)
        self._hand_out()

    def _done(self, w: int) -> None:
        task = self.doing[w]
        self.waiting.discard(task)
        if task < self.s.workers * self.s.per_worker:
            self.made[w].add(task)
        for other in self.runners.pop(task):
            self._wait(other)
            self.attempt[other] += 1

    def _wait(self, w: int) -> None:
        self.doing[w] = IDLE
        heapq.heappush(self.idle, w)

    def _lost(self, w: int) -> None:
        self.lost += 1
        task = self.doing[w]
        self.attempt[w] += 1
        self.doing[w] = NOBODY
        if task >= 0:
            self.runners[task].remove(w)
            if not self.runners[task]:
                del self.runners[task]
                self.queue.appendleft(task)
        if not self.s.files:
            again = sorted(self.made[w])
            self.repeated += len(again)
            self.waiting.update(again)
            self.queue.extend(again)
        self.made[w].clear()
        self._push(self.now + self.s.restart, UP, w)

    def _hand_out(self) -> None:
        while self.idle and (self.queue or self.s.copies):
            w = self.idle[0]
            if self.doing[w] == IDLE:
                if self.queue:
                    self._begin(w, self.queue.popleft())
                elif not self._copy(w):
                    return
            heapq.heappop(self.idle)

    def _begin(self, w: int, task: int) -> None:
        self.dispatched = max(self.dispatched, self.now) + self.s.scheduling
        self.doing[w] = task
        self.began[w] = self.dispatched
        self.attempt[w] += 1
        self.runners.setdefault(task, []).append(w)
        seconds = self.tasks[task].seconds
        if self.s.hiccups and len(self.runners[task]) > 1:
            seconds = self.usual * float(self._noise(self.again.standard_normal(1))[0])
        self._push(self.dispatched + seconds * self.speed[w], DONE, w, self.attempt[w])

    def _copy(self, w: int) -> bool:
        """What has been running longest, if that is long; otherwise somebody looks again when it will be."""
        alone = [(self.began[r[0]], task) for task, r in self.runners.items() if len(r) == 1]
        if not alone:
            return False
        since, task = min(alone)
        due = since + self.s.late * self.usual
        if due > self.now:
            if not any(e[2] == LOOK and e[0] <= due for e in self.events[:1]):
                self._push(due, LOOK, w)
            return False
        self.copied += 1
        self._begin(w, task)
        return True


def simulate(setting: Setting) -> Outcome:
    run = Simulation(setting)
    run.phase(0, setting.fit)
    for i in range(setting.reductions):
        if run.now >= run.end:
            break
        run.phase(1 + i, setting.reduction)
        run.pause(setting.tree)
    return Outcome(setting, min(run.now, run.end), run.lost, run.repeated, run.copied)


# --- what is looked at ------------------------------------------------------------------------

SIGMAS = (0.0, 0.3, 1.0)
PER_WORKER = (1, 2, 4, 8, 16, 32)
LOSSES = (0.0, 0.1, 1.0, 4.0)
SLOW = 0.05
SCHEDULING = 1e-3  # seconds of Dask's scheduler for a task, about what is measured
SEEDS = 3


def designed(seeds: int = SEEDS) -> list[Setting]:
    """Noise, slow workers and second copies at every size of tasks; losses with and without files."""
    usual = Setting(scheduling=SCHEDULING)
    found = []
    for seed in range(seeds):
        here = usual._replace(seed=seed)
        for each in PER_WORKER:
            for sigma in SIGMAS:
                for share in (0.0, SLOW):
                    for copies in (False, True) if share else (False,):
                        found.append(here._replace(per_worker=each, sigma=sigma, slow_share=share, copies=copies))
            for copies in (False, True):
                found.append(here._replace(per_worker=each, sigma=SIGMAS[-1], hiccups=True, copies=copies))
        for rate in LOSSES:
            for files in (True, False):
                for each in (2, 8, 32):
                    found.append(here._replace(per_worker=each, sigma=SIGMAS[1], losses=rate, files=files))
    return found
