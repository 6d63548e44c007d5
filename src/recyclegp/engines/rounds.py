"""Rounds over partitions of one's own data: every exchange is one task for some of them, and a sum."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch

from ..models.answer import Answer
from ..models.plan import Plan
from ..models.plan_facts import AnswerFacts, Score
from ..models.rounds import Rounds, check_rounds
from ..plans.sums import add
from .executor import Executor
from .fitting import Job, fit_partitions
from .partitions import Columns, load


def rounds_over_partitions(
    executor: Executor, job: Job, folder: str | PathLike[str] | None, rounds: int, points: int, plan: Plan | None
) -> Rounds:
    """One common sparse model of all rows; partitions are read where tasks run, and only sums come back."""
    check_rounds(rounds)
    now = fit_partitions(executor, job, folder).plan(points) if plan is None else plan
    make: Any = None
    while make is None or (not now.done and (now.evaluations < rounds or now.asks == "slopes")):
        items = []
        for first in range(0, len(job.sources), job.per_task):
            names = job.names[first : first + job.per_task]
            called = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            items.append((now.public, called, job.columns, job.sources[first : first + job.per_task]))
        answers = [Answer(facts) for _, facts in executor.map(answer_together, items, "answer")]
        make, now = now._combined(answers, "names", {})
    return Rounds(make(), now)


def answer_together(plan: Plan, name: str, columns: Columns, sources: Sequence[Any]) -> AnswerFacts:
    """Some partitions as one answer: sums of sums are sums."""
    each = []
    for source in sources:
        X, y = load(source, columns)
        each.append(plan.contribute(X, y, name=name, score=True, privacy="things", allow_small=True).facts)
    first = each[0]
    sums = tuple(add([a.sums[c] for a in each]) for c in range(len(first.sums)))
    derivatives = tuple(
        tuple(add([a.derivatives[c][j] for a in each]) for j in range(len(own)))
        for c, own in enumerate(first.derivatives)
    )
    slopes = [a.slopes for a in each if a.slopes is not None]
    return first._replace(
        rows=tuple(sum(rows) for rows in zip(*(a.rows for a in each), strict=True)),
        sums=sums,
        derivatives=derivatives,
        slopes=torch.stack(slopes).sum(0) if slopes else None,
        scores=_scores(name, each),
    )


def _scores(name: str, each: Sequence[AnswerFacts]) -> tuple[tuple[str, Score], ...]:
    found: dict[str, Score] = {}
    for which, score in (entry for a in each for entry in a.scores):
        old = found.get(which, Score(name, 0, 0.0))
        found[which] = Score(name, old.rows + score.rows, old.total + score.total)
    return tuple(found.items())
