"""Tables and the figure of docs/robustness.md, from the outcomes of benchmarks/robustness.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.scale import SymmetricalLogScale

import pages
from pages import Column, table
from recyclegp.plot import style
from robustness_cases import HONEST, SPOILED

MODELS = {
    "screened": ('merge, trust="learn"', style.BLUE),
    "trusting": ("merge, trust=None", style.VERMILION),
    "poe": ("PoE", style.FAINT),
    "gpoe": ("gPoE", style.PURPLE),
    "rbcm": ("rBCM", style.GREEN),
}
TOLERABLE = 0.3  # share of bad modules up to which a merge must hold
PARTS = ("none", f"up to {TOLERABLE:.0%}", f"more than {TOLERABLE:.0%}")
MEANS: list[Column] = [
    *((label, name, ".3f") for name, (label, _) in MODELS.items()),
    ("worst", "worst", ".3f"),
    ("found", "found", ".1%"),
    ("false alarms", "accused", ".2%"),
    ("trials", "trials", "d"),
]
REASONS: list[Column] = [
    ("bad modules", lambda row: row[0], ""),
    ("reasons, as they were given", lambda row: "; ".join(most_often([*chain(*row[1])])[:4]), ""),
]


def most_often(said: Sequence[str]) -> list[str]:
    return sorted(set(said), key=lambda one: (-said.count(one), one))


def excess(outcomes: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """NLPD of every model above that of the honest modules alone."""
    found = pd.DataFrame(outcomes)
    found["kind"] = pd.Categorical(found["kind"], [HONEST, *SPOILED])
    found["share"] = (found.bad / found.owners).round(2)
    found["part"] = pd.cut(found.share, [-1, 0, TOLERABLE, 1], labels=PARTS)
    found[list(MODELS)] = found[list(MODELS)].sub(found["clean"], axis=0)
    return found


def cells(found: pd.DataFrame, *by: str) -> list[dict[str, Any]]:
    """Means over trials; and the shares of modules that were flagged."""

    def means(some: pd.DataFrame) -> dict[str, Any]:
        bad, honest = some.bad.sum(), (some.owners - some.bad).sum()
        shares = {"found": some.found.sum() / bad if bad else "", "accused": some.accused.sum() / honest}
        return dict(some[list(MODELS)].mean()) | shares | {"worst": some.screened.max(), "trials": len(some)}

    return [dict(zip(by, key, strict=True)) | means(some) for key, some in found.groupby(list(by), observed=True)]


def values(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    found = excess(outcomes)
    every = [("bad modules", "kind", ""), ("share", "share", ".0%"), *MEANS]
    reasons = [row for row in found.groupby("kind", observed=True).reasons if any(row[1])]
    return {
        "robustness.md": {
            "summary": table([("bad modules", "part", ""), *MEANS], cells(found, "part")),
            "all": table(every, cells(found, "kind", "share")),
            "reasons": table(REASONS, reasons),
        }
    }


def figure(outcomes: Sequence[Mapping[str, Any]]) -> Figure:
    """One panel for each kind: share of bad modules against the excess, on a scale that shows both ends."""
    found = pd.DataFrame(cells(excess(outcomes), "kind", "share"))
    labels = {"xlabel": "share of bad modules", "ylabel": "nats above the honest alone"}
    axes = labels | {"yscale": SymmetricalLogScale(None, linthresh=0.1)}
    panels = []
    for kind in SPOILED:
        some = found[found.kind.isin([HONEST, kind])]
        lines = [(label, some.share, some[name], {"color": c, "marker": "o"}) for name, (label, c) in MODELS.items()]
        panels.append((lines, axes | {"title": kind}))
    return pages.figure(panels, 4, (3.1, 2.8))
