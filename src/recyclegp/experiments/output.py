"""What a run leaves behind: a table on the screen, and as CSV, JSON and a figure in a folder."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from ..storage.atomic import replacing, write_atomically
from ..version import __version__
from .core import Outcome, Row, Settings

CSV, JSON, FIGURE = "results.csv", "results.json", "figure.png"


class Result(NamedTuple):
    """A run with everything that is written of it."""

    name: str
    title: str
    settings: Settings
    outcome: Outcome
    seconds: float
    threads: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: numbers that are not known are null."""
        return {
            "experiment": self.name,
            "title": self.title,
            "version": __version__,
            "full": self.settings.full,
            "seeds": self.settings.seeds,
            "seed": self.settings.seed,
            "threads": self.threads,
            "seconds": round(self.seconds, 1),
            "rows": [{k: _known(v) for k, v in row._asdict().items()} for row in self.outcome.rows],
            "notes": self.outcome.notes,
            "figure": None if self.outcome.figure is None else FIGURE,
        }


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(result: Result, folder: Path) -> list[Path]:
    """Each file all or nothing, the JSON last: who finds it finds the others."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / CSV, as_csv(result.outcome.rows).encode())
    written = [folder / CSV]
    if result.outcome.figure is not None:
        with replacing(folder / FIGURE) as stream:
            result.outcome.figure.savefig(stream, format="png")
        written.append(folder / FIGURE)
    text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / JSON, text.encode())
    return [*written, folder / JSON]


def as_csv(rows: Sequence[Row]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(Row._fields)
    for row in rows:
        writer.writerow("" if value is None or _known(value) is None else value for value in row)
    return stream.getvalue()


def show(result: Result, folder: Path) -> None:
    """On the screen; where nobody looks the table is as wide as it needs to be."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table(result))
    for note in result.outcome.notes:
        console.print(f"· {note}", highlight=False, markup=False)
    console.print(f"{result.seconds:.0f} s; files in {folder}", soft_wrap=True, highlight=False, markup=False)


def table(result: Result) -> Table:
    """All rows, a section for each case; in bold the lowest NLPD of those who do not know the truth."""
    rows = result.outcome.rows
    size = "full" if result.settings.full else "quick"
    on = "/".join(dict.fromkeys(row.on for row in rows))
    made = Table(title=f"{result.name} ({size}): {result.title}", title_justify="left")
    made.add_column("case", no_wrap=True)
    made.add_column("model", no_wrap=True)
    several = any(row.seeds > 1 for row in rows)
    classes = any(math.isfinite(row.error) for row in rows)
    numbers = ["NLPD", *(["± sd"] if several else []), f"RMSE of {on}", f"MAE of {on}", "95%"]
    numbers += [*(["errors"] if classes else []), "fit s", "predict s", "bytes", "M"]
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("note", overflow="fold")
    last = None
    for row in rows:
        if last not in (None, row.case):
            made.add_section()
        shown = [row.case if row.case != last else "", row.model, number(row.nlpd, 4)]
        shown += [number(row.nlpd_sd, 4)] if several else []
        shown += [number(row.rmse, 4), number(row.mae, 4), number(row.coverage, 3)]
        shown += [number(row.error, 4)] if classes else []
        shown += [number(row.fit_seconds, 2), number(row.predict_seconds, 2), number(row.bytes, 0)]
        shown += ["" if row.points is None else str(row.points), row.note]
        made.add_row(*shown, style="bold" if row is best(rows, row.case) else None)
        last = row.case
    return made


def best(rows: Sequence[Row], case: str) -> Row | None:
    """The lowest NLPD of a case; the oracle does not compete."""
    known = [r for r in rows if r.case == case and math.isfinite(r.nlpd) and r.model != "oracle"]
    return min(known, key=lambda r: r.nlpd, default=None)


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"
