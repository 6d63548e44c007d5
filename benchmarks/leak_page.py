"""Tables and the figure of docs/privacy-measured.md and docs/privacy.md, from results of benchmarks/what_leaks.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from leak_cases import ATTACKS, KEPT
from pages import Column, table

SERIES = {  # kind → colour, marker and what it is called in the figure
    "points": ("#2166ac", "o", "points per row"),
    "kept": ("#e08214", "s", "share kept"),
    "digits": ("#1b7837", "^", "the default, rounded"),
    "rows": ("#b2182b", "X", "rows as points"),
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
WHOLE: list[Column] = [
    ("rounded", lambda row: f"{row['values_right']:.2f} ({row['values_by_chance']:.2f})", ">"),
    ("solved", "rows_solved", ".2f"),
]
BY_ATTACK: list[Column] = [
    ("published", "said", ""),
    *((attack, lambda row, attack=attack: row["auc"][attack], ".2f") for attack in ATTACKS),
]
LARGER = (("points", "points", ".0f"), ("AUC", "best_auc", ".2f"), ("found", "best_caught", ".2f"), ("y", "y", ".2f"))


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
    }[kind]


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
    found, measured = leaks(run["leaks"]), {"minutes": str(max(1, round(run["seconds"] / 60)))}
    for name, some in found.groupby("table", sort=False):
        whole = WHOLE if some.values_right.notna().all() else []
        few = some[some.kind.isin(["points", "rows", "lines"]) | (some.kind.eq("kept") & some.value.eq(KEPT))]
        measured[name] = table([*WAYS, *whole], some.to_dict("records"))
        measured[f"{name}, by attack"] = table(BY_ATTACK, few.to_dict("records"))
    if run["larger"]:
        both = leaks(run["larger"]).merge(found, on=["table", "kind", "value"], suffixes=(" with", ""))
        more = f"with {run['plan']['larger']}"
        columns = [c for title, key, form in LARGER for c in ((title, key, form), (more, f"{key} with", form))]
        measured["larger"] = table([("table", "table", ""), *columns], both.to_dict("records"))
    ways = [some for _, some in found.groupby(["kind", "value"], sort=False)]
    return {"privacy-measured.md": measured, "privacy.md": {"overview": table(OVERVIEW, ways)}}


def picture(run: Mapping[str, Any]) -> Figure:
    """AUC of the best attack against what predictions lose; a panel for each table."""
    parts = list(leaks(run["leaks"]).groupby("table", sort=False))
    lines = -(-len(parts) // 3)
    drawn = Figure(figsize=(12, 3.9 * lines + 0.6), layout="constrained")
    panels = drawn.subplots(lines, 3, squeeze=False, sharex=True, sharey=True)
    for panel in panels.flat[len(parts) :]:
        panel.set_visible(False)
    for panel, (name, some) in zip(panels.flat, parts, strict=False):
        _panel(panel, some)
        panel.set_title(name, fontsize=11)
    for panel in panels[:, 0]:
        panel.set_ylabel("AUC of the best attack")
    for panel in panels[-1]:
        panel.set_xlabel("nats per row that predictions lose")
    drawn.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    drawn.suptitle(f"What leaks, and what it buys: modules of {run['plan']['rows']} rows", fontsize=12)
    return drawn


def _panel(panel: Any, leaked: pd.DataFrame) -> None:
    for kind, (colour, marker, label) in SERIES.items():
        some = leaked[leaked.kind == kind].sort_values("value")
        panel.plot(some.lost, some.best_auc, color=colour, marker=marker, label=label, lw=1.2, ms=6, clip_on=False)
        for x, y, value in zip(some.lost, some.best_auc, some.value, strict=True):
            text, place, side = _mark(kind, value)
            where = {"xytext": place, "textcoords": "offset points", "ha": side, "va": "center"}
            panel.annotate(text, (x, y), color=colour, fontsize=8, **where)
    panel.axhline(0.5, color="grey", lw=0.8, ls=":")
    panel.set_xscale("symlog", linthresh=0.01)
    panel.set_xticks([0, 0.01, 0.1, 1], labels=["0", "0.01", "0.1", "1"])
    panel.set(xlim=(-0.004, 1.2), ylim=(0.48, 1.03))
    panel.spines[["top", "right"]].set_visible(False)


def _mark(kind: str, value: float) -> tuple[str, tuple[int, int], str]:
    """What stands beside a marker, how far from it, and on which side; nothing where digits change nothing."""
    if kind == "kept":
        return f"{value:.0%}", (-6, -4), "right"
    if kind == "points":
        return f"1/{1 / value:.0f}", (6, 5), "left"
    if kind == "digits" and value <= 2:
        return f"{value:g} digit{'s' if value > 1 else ''}", (6, -6), "left"
    return "", (0, 0), "left"
