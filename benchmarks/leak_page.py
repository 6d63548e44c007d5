"""Tables and the figure of docs/privacy-measured.md and docs/privacy.md, from results of benchmarks/what_leaks.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.scale import SymmetricalLogScale

from leak_cases import ATTACKS, KEPT
from pages import Column, figure, table
from recyclegp.plot import style

SERIES = {  # kind → what it is called in the figure, upwards along its line, and how it is drawn
    "points": ("a point for 20, 10, 5, 2, 1 rows", {"color": style.BLUE, "marker": "o"}),
    "kept": ("keep 50, 80, 95, 99%", {"color": style.ORANGE, "marker": "s"}),
    "digits": ("the default, 1 to 4 digits", {"color": style.GREEN, "marker": "^"}),
    "rows": ("rows as points", {"color": style.VERMILION, "marker": "X", "markersize": 6}),
    "people": ("published for people", {"color": style.PURPLE, "marker": "*", "markersize": 13}),
}
AXES = {
    "xlabel": "nats per row that predictions lose",
    "ylabel": "AUC of the best attack (0.5: chance)",
    "xscale": SymmetricalLogScale(None, linthresh=0.01),
}
WAYS: list[Column] = [
    ("published", "said", ""),
    ("points", "points", ".0f"),
    ("kept", "kept", ".0%"),
    ("NLPD", "nlpd", ".3f"),
    ("merged", "merged_nlpd", ".3f"),
    ("AUC", "best_auc", ".2f"),
    ("found", "best_caught", ".2f"),
    ("y", "y", ".2f"),
    ("x", "x_distance", ".2f"),
]
LARGER = ("points", "AUC", "found", "y")  # columns that are shown for both sizes
WHOLE: list[Column] = [
    ("rounded", lambda row: f"{row['values_right']:.2f} ({row['values_by_chance']:.2f})", ">"),
    ("solved", "rows_solved", ".2f"),
]
BY_ATTACK: list[Column] = [WAYS[0], *((name, lambda row, name=name: row["auc"][name], ".2f") for name in ATTACKS)]


def _mean_and(key: str, worst: Callable[[Any], float]) -> Callable[[pd.DataFrame], str]:
    return lambda some: f"{some[key].mean():.2f} ({worst(some[key]):.2f})"


OVERVIEW: list[Column] = [
    ("published", lambda some: some.said.iloc[0], ""),
    ("points", lambda some: some.points.mean(), ".0f"),
    ("nats lost", _mean_and("lost", max), ">"),
    ("AUC", _mean_and("best_auc", max), ">"),
    ("members found", _mean_and("best_caught", max), ">"),
    ("error of y", _mean_and("y", min), ">"),
    ("x from points", _mean_and("x_distance", min), ">"),
]


def said(kind: str, value: float) -> str:
    """A way to publish, in words."""
    each = Fraction(value).limit_denominator(100)
    digits = f"{value:g} digit{'s' if value != 1 else ''}"
    return {
        "kept": f"keep {value:.0%}" + (" (the default)" if value == KEPT else ""),
        "points": f"a point for each {each.denominator} rows" if each < 1 else "as many points as rows",
        "digits": f"the default, {digits}",
        "digits of all": f"as many points as rows, {digits}",
        "rows": "the rows as points",
        "lines": "points on lines between rows",
        "people": "people",
    }[kind]


PATIENTS: list[Column] = [
    ("table", "table", ""),
    ("hospitals", lambda row: f"{row['hospitals']} of {row['rows']} rows", ""),
    WAYS[0],
    WAYS[1],
    ("AUC", lambda row: f"{row['best_auc']:.3f} ± {row['auc_error'][row['attack']]:.3f}", ">"),
    ("attack", "attack", ""),
    ("found", "best_caught", ".3f"),
    ("merged", "merged", ".4f"),
    ("best alone", "alone", ".4f"),
    ("gain kept", lambda row: _gain(row), ">"),
]
NO_GAIN = 0.001  # nats per row: less is no gain of which half could be kept
ELSEWHERE: list[Column] = [
    ("published by", "way", ""),
    ("points", "points", ".0f"),
    ("AUC", lambda row: f"{row['auc']:.2f} ± {row['auc_error']:.2f}", ">"),
    ("attack", "attack", ""),
    ("found", "caught", ".2f"),
    ("y", lambda row: "" if pd.isna(row["y"]) else f"{row['y']:.2f}", ">"),
    ("ends", "ends", ".2f"),
]


def _gain(row: Mapping[str, Any]) -> str:
    if row["alone"] - row["default"] <= NO_GAIN:
        return "no gain"
    return f"{row['gain']:.0%} ± {row['gain_error']:.0%}" if row["gain_error"] else f"{row['gain']:.0%}"


def patients(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """With the best attack of each, and how much of the gain over the best hospital alone is left."""
    found = pd.DataFrame(rows)
    found["said"] = [said(kind, value) for kind, value in zip(found.kind, found.value, strict=True)]
    found["attack"] = [max(each, key=each.get) for each in found.auc]
    found["best_auc"] = [max(each.values()) for each in found.auc]
    found["best_caught"] = [max(each.values()) for each in found.caught]
    found["gain"] = (found.alone - found.merged) / (found.alone - found.default)
    return found


def leaks(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """With the few numbers that stand for a case: of the best attack, and of what it buys."""
    found = pd.DataFrame(rows)
    found["said"] = [said(kind, value) for kind, value in zip(found.kind, found.value, strict=True)]
    for name in ("auc", "caught"):
        found[f"best_{name}"] = [max(each.values()) for each in found[name]]
    found["y"] = found.y_member / found.y_stranger  # 1 where nothing leaks
    found["lost"] = found.nlpd - found.groupby("table").nlpd.transform("min")  # nats above the best way
    return found


def values(run: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    found, measured = leaks(run["leaks"]), {}
    for name, some in found.groupby("table", sort=False):
        whole = WHOLE if some.values_right.notna().all() else []
        few = some[some.kind.isin(["points", "rows", "lines", "people"]) | (some.kind.eq("kept") & some.value.eq(KEPT))]
        measured[name] = table([*WAYS, *whole], some.to_dict("records"))
        measured[f"{name}, by attack"] = table(BY_ATTACK, few.to_dict("records"))
    if run["larger"]:
        both = leaks(run["larger"]).merge(found, on=["table", "kind", "value"], suffixes=(" with", ""))
        more = f"with {run['plan']['larger']}"
        columns = [c for c in WAYS if c[0] in LARGER for c in (c, (more, f"{c[1]} with", c[2]))]
        measured["larger"] = table([("table", "table", ""), *columns], both.to_dict("records"))
    if run["patients"]:
        measured["patients"] = table(PATIENTS, patients(run["patients"]).to_dict("records"))
        measured["elsewhere"] = table(ELSEWHERE, run["elsewhere"])
    ways = [some for _, some in found.groupby(["kind", "value"], sort=False)]
    return {"privacy-measured.md": measured, "privacy.md": {"overview": table(OVERVIEW, ways)}}


def table_name(name: str) -> str:
    """As a title: 2 inputs, noise 0.1."""
    return re.sub(r"(\S+) noise$", r"noise \1", name)


def picture(run: Mapping[str, Any]) -> Figure:
    """AUC of the best attack against what predictions lose; a panel for each table."""
    panels = []
    for name, some in leaks(run["leaks"]).groupby("table", sort=False):
        kinds = [(some[some.kind == kind].sort_values("value"), *series) for kind, series in SERIES.items()]
        panels.append(
            ([(label, s.lost, s.best_auc, look) for s, label, look in kinds], AXES | {"title": table_name(name)})
        )
    return figure(panels, 3, (4, 3.8))
