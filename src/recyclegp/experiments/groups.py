"""Many real data sets whose rows belong to somebody: does merging help each owner, compared with staying alone?

Each owner fits with all defaults, and is asked about rows of its own that were held out (`grouped_run.run_set`).
"""

from __future__ import annotations

import json
import math
import multiprocessing
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import torch

from ..errors import RecycleGPError
from .core import Outcome, Report, Row, Settings, averaged
from .grouped_run import ALONE, LINEAR, MERGED, PLAIN, POOLED, STRANGER, SetRow, run_set, standard_error
from .grouped_sets import ALL, SETS, names
from .groups_figure import draw

__all__ = ["ALONE", "LINEAR", "MERGED", "PLAIN", "POOLED", "STRANGER", "SetRow", "run", "run_set", "steps"]

QUICK = ("datasets/DNase", "lme4/sleepstudy", "nlme/Oxboys", "openintro/daycare_fines", "palmerpenguins/penguins")
WORSE = 0.02  # nats per row: what merging may cost an owner
FEW = 100  # held-out rows: of fewer the coverage of a set is luck
LOW = 0.85  # coverage


class Task(NamedTuple):
    name: str
    split: int


def tasks(settings: Settings) -> list[Task]:
    """Every set in every split; a quick run has a few small sets."""
    unknown = sorted(set(settings.only) - set(SETS))
    if unknown:
        raise RecycleGPError(f"no set is named {', '.join(unknown)}; there are {', '.join(SETS)}")
    chosen = list(settings.only) or (names(settings.sets or ALL) if settings.full or settings.sets else list(QUICK))
    return [Task(name, split) for split in settings.repeats for name in chosen]


def steps(settings: Settings) -> int:
    return len(tasks(settings))


def run(settings: Settings, report: Report) -> Outcome:
    kept = _Kept(settings.kept)
    todo = [t for t in tasks(settings) if t not in kept.found]
    for row in _done(todo, settings.jobs, report):
        kept.add(row)
    found = [kept.found[t] for t in tasks(settings)]
    rows = list(table(found))
    return Outcome(rows, draw(rows), summary(found))


def _done(todo: list[Task], jobs: int, report: Report) -> Iterator[SetRow]:
    if jobs == 1:
        for task in todo:
            report(f"{task.name}, split {task.split}")
            yield run_set(*task)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, torch.set_num_threads, (1,)) as pool:
        running = {pool.submit(run_set, *task): task for task in todo}
        for done in as_completed(running):
            report("{0.name}, split {0.split}".format(running[done]))
            yield done.result()


class _Kept:
    """What is done, in a file to which each set adds a line as soon as it is."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
        rows = [SetRow(**json.loads(line)) for line in lines]
        self.found = {Task(row.name, row.split): row for row in rows}

    def add(self, row: SetRow) -> None:
        self.found[Task(row.name, row.split)] = row
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row._asdict(), ensure_ascii=False) + "\n")


# --- what they say together -----------------------------------------------------------------------


def _by_set(found: Iterable[SetRow]) -> dict[str, list[SetRow]]:
    by_set: dict[str, list[SetRow]] = {}
    for row in found:
        by_set.setdefault(row.name, []).append(row)
    return by_set


def table(found: Iterable[SetRow]) -> Iterator[Row]:
    """A row for each set and model, averaged over splits; that of the merge says what it did."""
    for some in _by_set(found).values():
        for row in averaged(_row(each, model) for each in some for model in each.nlpd):
            yield row._replace(note=_told(some)) if row.model == MERGED else row


def _row(found: SetRow, model: str) -> Row:
    unknown = math.nan
    seconds = found.seconds.get(model, unknown) + (found.seconds[ALONE] if model in (MERGED, PLAIN) else 0)
    known = found.nlpd[model], unknown, unknown, found.coverage[model], unknown
    return Row(found.name, model, *known, "y", seconds, unknown, unknown, None)


def _told(some: Sequence[SetRow]) -> str:
    """What the set is, which model of owners was chosen in how many splits, and how many owners were flagged in all."""
    first, chosen = some[0], Counter(row.chosen for row in some)
    said = f"{first.likelihood}, {first.owners} owners, {first.rows} rows; "
    said += ", ".join(f"{n} {what}" for what, n in chosen.most_common())
    accused = sum(len(row.flagged) for row in some)
    return f"{said}; {accused} flagged" if accused else said


def summary(found: Sequence[SetRow]) -> list[str]:
    """The demands, over sets: means over splits, and who does not meet them."""
    by_set = _by_set(found)
    gain = {name: _mean(row.nlpd[ALONE] - row.nlpd[MERGED] for row in some) for name, some in by_set.items()}
    worse = {name: g for name, g in gain.items() if not g >= -WORSE}
    error = {name: standard_error([row.costs for row in by_set[name]]) for name in worse}
    lost = ", ".join(f"{name} ({g:.3f}{plus_minus(error[name])})" for name, g in sorted(worse.items(), key=_value))
    covered = {name: _mean(row.coverage[MERGED] for row in some) for name, some in by_set.items()}
    numbers = [c for c in covered.values() if math.isfinite(c)]
    low = [n for n, some in by_set.items() if sum(row.questions for row in some) >= FEW and covered[n] < LOW]
    owners, accused = sum(row.owners for row in found), sum(len(row.flagged) for row in found)
    new = [row for row in found if math.isfinite(row.coverage.get(STRANGER, math.nan))]
    met = [row for row in new if row.likelihood == "gaussian"]
    said = [
        f"{len(by_set)} sets, {owners} owners in all splits; each alone minus merged, in nats per row: median "
        f"{statistics.median(gain.values()):.3f}, mean {_mean(gain.values()):.3f}",
        f"merged worse than each alone by more than {WORSE}: {lost or 'nowhere'}",
        f"owners flagged, all of whom are honest: {accused} of {owners} ({accused / owners:.2%})",
        "how owners differ: " + ", ".join(f"{n} {what}" for what, n in Counter(r.chosen for r in found).most_common()),
    ]
    if numbers:
        said.append(
            f"coverage of 95%: {_mean(numbers):.3f} on average over sets; below {LOW}, of sets with {FEW} held-out "
            "rows: "
            f"{_named({n: covered[n] for n in low}, '.3f') or 'nowhere'}"
        )
    if new:
        means = f"; means of {sum(r.new_means for r in met)} of {sum(r.new_owners for r in met)} owners" if met else ""
        said.append(f"new owners: 95% cover {_mean(r.coverage[STRANGER] for r in new):.3f} of their rows{means}")
    failures = [f"{row.name}, split {row.split}: {note}" for row in found for note in row.notes if ": " in note]
    return said + failures


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def plus_minus(error: float | None) -> str:
    return "" if error is None else f" ± {error:.3f}"


def _value(item: tuple[str, float]) -> float:
    return item[1]


def _named(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} ({value:{form}})" for name, value in sorted(values.items(), key=_value))
