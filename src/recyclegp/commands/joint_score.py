"""score, for models of several functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.table import Table as Shown

from .screen import Screen, plain_table, say, show

if TYPE_CHECKING:
    from .joint_predictions import Joint, Scored
    from .joint_rows import JointRows


def score_jointly(
    screen: Screen, gp: Joint, rows: JointRows, owner: str | None, threads: int, about: dict[str, Any]
) -> None:
    """A row for each output; of classes and of varying noise one. `about` says what was scored on what."""
    from ..threads import using_threads
    from .joint_predictions import Scores

    scores = Scores(gp, owner)
    with using_threads(threads):
        for part in rows.parts(screen):
            scores.add(part)
    found = scores.all
    facts = {**about, "holds": gp.link.kind, "rows_left_out": rows.incomplete, "scores": [s.facts for s in found]}
    screen.result(facts, lambda: show(_table(found)) if gp.link.kind == "outputs" else say(_words(found[0])))


def _words(s: Scored) -> dict[str, str]:
    words = {"rows": f"{s.rows:,}"}
    if not math.isnan(s.error):
        return {**words, "log-loss": f"{s.nlpd:.4f}", "error rate": f"{s.error:.4f}"}
    coverage = f"{s.coverage:.4f} of the 95% bands"
    return {**words, "NLPD": f"{s.nlpd:.4f}", "RMSE": f"{s.rmse:.4f}", "coverage": coverage}


def _table(found: list[Scored]) -> Shown:
    table = plain_table("output", "rows", "NLPD", "RMSE", "coverage", folded=1)
    for s in found:
        coverage = "" if math.isnan(s.coverage) else f"{s.coverage:.4f}"
        table.add_row(s.name, f"{s.rows:,}", f"{s.nlpd:.4f}", f"{s.rmse:.4f}", coverage)
    return table
