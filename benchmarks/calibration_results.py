"""What a run of benchmarks/where_merging_loses.py leaves behind, and the means over its seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibration_cases import Cut, Merged, Reference, Rounds, Setting, sensible

DIGITS = 5  # of what is written
LOSS = 0.1  # nats per point: from here on merging has lost


class Grid(NamedTuple):
    """What is measured: every combination."""

    rows: tuple[int, ...]
    dimensions: tuple[int, ...]
    noises: tuple[float, ...]
    owners: tuple[str, ...]
    seeds: int
    total: int

    def settings(self) -> list[Setting]:
        """The slowest first, so that no process ends with them alone."""
        found = [Setting(D, s, k, self.total) for D in self.dimensions for s in self.noises for k in range(self.seeds)]
        return sorted(found, key=lambda setting: -setting.dimension)

    def cuts(self) -> list[Cut]:
        return [
            c for c in (Cut(rows, owners) for owners in self.owners for rows in self.rows) if sensible(c, self.total)
        ]

    def skipped(self) -> list[int]:
        """Rows per owner that leave fewer than two owners."""
        return [rows for rows in self.rows if not sensible(Cut(rows, ""), self.total)]


class Results(NamedTuple):
    """A run: one version of the library, one way to publish."""

    label: str
    version: str
    publish: int | str
    grid: Grid
    seconds: float
    cpu_seconds: float  # of all processes together, without waiting for cores that others use
    processes: int
    merged: list[Merged]
    references: list[Reference]
    rounds: list[Rounds]

    def write(self, file: Path) -> None:
        """A row on a line, so that two runs can be compared line by line."""
        head = {
            "grid": self.grid._asdict(),
            **{k: v for k, v in self._asdict().items() if not isinstance(v, (list, Grid))},
        }
        text = json.dumps(head, ensure_ascii=False)[:-1]
        for name in ("references", "rounds", "merged"):
            lines = (json.dumps(row._asdict(), allow_nan=False) for row in sorted(getattr(self, name)))
            text += f',\n"{name}": [\n' + ",\n".join(lines) + "\n]"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "}\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Results:
        said = json.loads(file.read_text(encoding="utf-8"))
        said["grid"] = Grid(**{k: tuple(v) if isinstance(v, list) else v for k, v in said["grid"].items()})
        for name, row in (("merged", Merged), ("references", Reference), ("rounds", Rounds)):
            said[name] = [row(**r) for r in said[name]]
        return cls(**said)


class Cell(NamedTuple):
    """A case, the mean over the seeds. Excess is over the exact GP on all rows; nan where nothing was measured."""

    excess: float
    spread: float  # standard deviation of the excess over seeds
    coverage: float
    rmse: float  # of the mean against f, over that of the exact GP: the factor
    noise: float  # believed, over the true one: the factor
    alone: float  # excess of single modules
    published: float
    bytes: float
    warned: int  # merges with a warning of the library's
    failed: int


class Where(NamedTuple):
    noise: float
    owners: str
    dimension: int
    rows: int


def cells(results: Results, exact: Sequence[Reference]) -> dict[Where, Cell]:
    """Always over the same exact GP: a run that is set beside another must not be measured by its own."""
    level = {(r.dimension, r.noise, r.seed): r for r in exact}
    groups: dict[Where, list[Merged]] = {}
    for row in results.merged:
        groups.setdefault(Where(row.noise, row.owners, row.dimension, row.rows), []).append(row)
    order = sorted(groups, key=lambda where: where._replace(owners=str(results.grid.owners.index(where.owners))))
    return {where: _cell(groups[where], level) for where in order}


def _cell(rows: Sequence[Merged], level: dict[tuple[int, float, int], Reference]) -> Cell:
    good = [(row, level[row.dimension, row.noise, row.seed]) for row in rows if row.nlpd is not None]
    over = [row.nlpd - exact.nlpd for row, exact in good]
    return Cell(
        excess=_mean(over),
        spread=float(np.std(over, ddof=1)) if len(over) > 1 else 0.0,
        coverage=_mean([row.coverage for row, _ in good]),
        rmse=_factor([row.rmse / exact.rmse for row, exact in good]),
        noise=_factor([row.believed / row.noise for row, _ in good]),
        alone=_mean([row.alone - exact.nlpd for row, exact in good]),
        published=_mean([row.published for row, _ in good]),
        bytes=_mean([row.bytes for row, _ in good]),
        warned=sum(row.warned > 0 for row, _ in good),
        failed=len(rows) - len(good),
    )


def losing(found: dict[Where, Cell]) -> list[Where]:
    return [where for where, cell in found.items() if not cell.excess <= LOSS]


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _factor(values: Sequence[float]) -> float:
    """Twice as much and half as much are as far from the truth."""
    return float(np.exp(_mean(np.log(values))))


def rounded(row: Any) -> Any:
    """As it is written: a page made from the file is the page made from the run."""
    return row._make(round(v, DIGITS) if isinstance(v, float) else v for v in row)
