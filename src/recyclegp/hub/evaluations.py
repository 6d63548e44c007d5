"""Federated evaluation: owners score a model on rows that they have held back, and the hub keeps sums.

A score is a count of rows and two sums of log p(y), of the merged model and of the owner's own. The hub adds them up
and forgets them; a score stays under its owner's name only where the owner has agreed. Sums are shown when the
evaluation is closed and enough owners are behind them: from sums at two moments one could tell what one of them added.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .folder import Facts, read_json, write_json
from .protocol import RefusedError

MOST_ROWS = 10**12
LARGEST_DENSITY = 1e4  # nats for each row: no honest score is farther from zero


class Score(NamedTuple):
    """What one owner says."""

    rows: int
    merged: float  # Σ log p(y) of the merged model, asked as this owner
    alone: float  # the same of its own module
    shared: bool  # may the hub keep it under the owner's name?

    @staticmethod
    def of(found: Any) -> Score:
        """From JSON that a stranger has sent."""
        if not isinstance(found, dict) or set(found) != {"evaluation", "rows", "merged", "alone", "shared"}:
            raise RefusedError("a score has evaluation, rows, merged, alone and shared", 422)
        rows, sums = found["rows"], (found["merged"], found["alone"])
        if type(rows) is not int or not 1 <= rows <= MOST_ROWS or type(found["shared"]) is not bool:
            raise RefusedError("rows must be a positive number, and shared true or false", 422)
        if not all(type(s) in (int, float) and math.isfinite(s) and abs(s) <= LARGEST_DENSITY * rows for s in sums):
            raise RefusedError("merged and alone must be sums of log p(y) over these rows", 422)
        return Score(rows, float(sums[0]), float(sums[1]), found["shared"])


class Evaluation:
    """One question to all owners."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: Facts = read_json(path) or {}

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def model(self) -> str:
        return str(self.facts["model"])

    @property
    def closed(self) -> bool:
        return self.facts["closed"] is not None

    def waits_for(self, owner: str) -> bool:
        """`owner` is the id of a key."""
        return not self.closed and owner in self.facts["owners"].values() and owner not in self.facts["answered"]

    def add(self, name: str, owner: str, score: Score) -> None:
        """Counted once; the sums and who is in them are written together."""
        if not self.waits_for(owner):
            raise RefusedError("this score is not waited for: it has come already, or the evaluation is closed", 409)
        f = self.facts
        facts = {
            **f,
            "answered": [*f["answered"], owner],
            "rows": f["rows"] + score.rows,
            "merged": f["merged"] + score.merged,
            "alone": f["alone"] + score.alone,
        }
        if score.shared:
            shared = {"rows": score.rows, "merged": score.merged, "alone": score.alone}
            facts["of_owners"] = {**f["of_owners"], name: shared}
        self._save(facts)

    def due(self, now: float) -> bool:
        complete = len(self.facts["answered"]) == len(self.facts["owners"])
        return not self.closed and (complete or now > self.facts["asked"] + self.facts["deadline"])

    def close(self, now: float) -> None:
        self._save({**self.facts, "closed": now})

    def without(self, name: str) -> None:
        """An owner that has left is named no more; sums that it is in cannot be told apart, and are dropped."""
        if name in self.facts["owners"]:
            self.path.unlink(missing_ok=True)

    def shown(self, fewest: int) -> Facts:
        """What may be told: nothing of single owners but what they share, and sums of enough owners."""
        f = self.facts
        enough = self.closed and len(f["answered"]) >= fewest
        each = {name: (s["merged"] - s["alone"]) / s["rows"] for name, s in f["of_owners"].items()}
        return {
            "id": self.id,
            "model": f["model"],
            "asked": f["asked"],
            "closed": f["closed"],
            "owners": len(f["owners"]),
            "answered": len(f["answered"]),
            "rows": f["rows"] if enough else None,
            "merged": f["merged"] / f["rows"] if enough else None,
            "alone": f["alone"] / f["rows"] if enough else None,
            "gain_of_owners": each,
        }

    def _save(self, facts: Facts) -> None:
        write_json(self.path, facts)
        self.facts = facts


def ask(folder: Path, model: str, owners: Sequence[tuple[str, str]], deadline: float, now: float) -> Evaluation:
    path = folder / f"{int(now * 1000):015d}-{secrets.token_hex(3)}.json"
    facts = {"model": model, "asked": now, "deadline": deadline, "owners": dict(owners), "answered": []}
    write_json(path, {**facts, "rows": 0, "merged": 0.0, "alone": 0.0, "of_owners": {}, "closed": None})
    return Evaluation(path)


def every(folder: Path) -> list[Evaluation]:
    """The oldest first."""
    return [Evaluation(path) for path in sorted(folder.glob("*.json"))]
