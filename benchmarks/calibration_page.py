"""Tables and the figure of docs/calibration.md, from results of benchmarks/where_merging_loses.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from pages import Column, table

LOSS = 0.1  # nats per point: from here on merging has lost
WRONG = 1.25  # a factor that matters
LEVELS = (-10.0, 0.01, 0.03, LOSS, 0.3, 1.0, 100.0)  # nats, the borders between colours
SHADES = ("#f7fbff", "#e3eef9", "#c6dbef", "#fdc38d", "#f16913", "#a63603")  # blues are bearable, oranges lose
DARK = 1.0  # from here on letters are white
SETTING, CASE = ["dimension", "noise", "seed"], ["noise", "owners", "dimension", "rows"]

SUMMARY: list[Column] = [
    ("", lambda run: run[0], ""),
    ("cases", lambda run: len(run[1]), "d"),
    (f"lose more than {LOSS:g}", lambda run: len(losing(run[1])), "d"),
    ("median excess", lambda run: run[1].excess.median(), ".3f"),
    ("worst", lambda run: run[1].excess.max(), ".2f"),
    ("95% in the mean", lambda run: run[1].coverage.mean(), ".3f"),
    ("least", lambda run: run[1].coverage.min(), ".3f"),
]
ROUNDS: list[Column] = [
    ("D", "dimension", ".0f"),
    ("noise", "noise", "g"),
    ("excess", "excess", "z.3f"),
    ("95%", "coverage", ".3f"),
    ("rounds", "rounds", ".0f"),
    ("bytes per owner", "bytes", ",.0f"),
]
CASES: list[Column] = [
    ("D", "dimension", "d"),
    ("rows each", "rows", "d"),
    ("excess", lambda row: nats(row["excess"]), ">"),
    ("±", "spread", ".3f"),
    ("95%", "coverage", ".3f"),
    ("RMSE ×", "rmse", ".2f"),
    ("noise ×", "believed", ".2f"),
    ("alone", "alone", ".2f"),
    ("points", "published", ".0f"),
    ("bytes", "bytes", ",.0f"),
]


def nats(value: float) -> str:
    """Losses in bold."""
    return "failed" if np.isnan(value) else f"**{value:.3f}**" if value > LOSS else f"{value:z.3f}"


def cells(run: Mapping[str, Any], exact: Sequence[Any]) -> pd.DataFrame:
    """A row for each case, its means over the seeds; "excess" is over the exact GP on all rows.

    Always over the same one: a run that is set beside another must not be measured by its own. "rmse" and "believed"
    are factors, over the exact GP's error and over the true noise: twice and half as much are as far from the truth.
    """
    rows = pd.DataFrame(run["merged"]).merge(pd.DataFrame(exact)[[*SETTING, "nlpd", "rmse"]], on=SETTING)
    rows["owners"] = pd.Categorical(rows["owners"], run["grid"]["owners"])
    numbers = ["nlpd_x", "coverage", "rmse_x", "believed", "alone", "published", "bytes"]
    rows[numbers] = rows[numbers].astype(float)
    rows["excess"], rows["alone"] = rows["nlpd_x"] - rows["nlpd_y"], rows["alone"] - rows["nlpd_y"]
    rows["rmse"], rows["believed"] = np.log(rows["rmse_x"] / rows["rmse_y"]), np.log(rows["believed"] / rows["noise"])
    rows["failed"], rows["warned"] = rows["nlpd_x"].isna(), rows["warned"] > 0
    groups = rows.groupby(CASE, observed=True)
    found = groups[["excess", "coverage", "rmse", "believed", "alone", "published", "bytes"]].mean()
    found[["rmse", "believed"]] = np.exp(found[["rmse", "believed"]])
    found["spread"] = groups["excess"].std().fillna(0.0)
    return found.join(groups[["failed", "warned"]].sum())


def losing(found: pd.DataFrame) -> pd.DataFrame:
    return found[~(found.excess <= LOSS)]


def values(run: Mapping[str, Any], beside: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    others = {other["label"]: cells(other, run["references"]) for other in beside}
    ours = cells(run, run["references"])
    lost, skipped = losing(ours), set(run["grid"]["rows"]) - set(ours.index.unique("rows"))
    return {
        "seeds": str(run["grid"]["seeds"]),
        "minutes": f"{run['cpu_seconds'] / 60:.0f}",
        "summary": table(SUMMARY, [(run["label"], ours), *others.items()]),
        "lost": f"{len(lost)} of {len(ours)}",
        "losing": _losing(ours),
        "narrow": str((lost.believed < 1 / WRONG).sum()),
        "wide": str((lost.believed > WRONG).sum()),
        "astray": str((lost.rmse > WRONG).sum()),
        "left out": ", ".join(f"{rows} rows each" for rows in sorted(skipped)) or "none",
        "failed": str(ours.failed.sum()),
        **({"rounds": _rounds(run)} if run["rounds"] else {}),
        **{
            f"{owners}, noise {noise:g}": _cases(part, others)
            for (noise, owners), part in ours.groupby(CASE[:2], observed=True)
        },
    }


def _losing(found: pd.DataFrame) -> str:
    """How many rows owners have in the cases that lose."""
    kinds = list(dict.fromkeys((noise, owners) for noise, owners, *_ in found.index))
    lost = losing(found).index

    def rows_of(noise: float, owners: str) -> Column:
        def text(D: int) -> str:
            return ", ".join(str(rows) for *where, rows in lost if where == [noise, owners, D]) or "none"

        return f"{owners}, noise {noise:g}", text, ""

    dimensions = sorted(found.index.unique("dimension"))
    return table([("D", lambda D: D, "d"), *(rows_of(*kind) for kind in kinds)], dimensions)


def _rounds(run: Mapping[str, Any]) -> str:
    rows = pd.DataFrame(run["rounds"]).merge(pd.DataFrame(run["references"])[[*SETTING, "nlpd"]], on=SETTING)
    rows["excess"] = rows["nlpd_x"] - rows["nlpd_y"]
    return table(ROUNDS, rows.groupby(SETTING[:2]).mean().reset_index().to_dict("records"))


def _cases(part: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> str:
    columns = list(CASES)
    for label, other in others.items():
        part = part.join(other[["excess", "coverage"]].add_suffix(f" of {label}"))
        columns.append((label, lambda row, key=f"excess of {label}": nats(row[key]), ">"))
        columns.append(("95%", f"coverage of {label}", ".3f"))
    return table(columns, part.reset_index().to_dict("records"))


def heat_map(run: Mapping[str, Any], beside: Sequence[Mapping[str, Any]]) -> Figure:
    """Rows per owner × D; a panel for each noise and kind of owner. In small print those beside."""
    grid, found = run["grid"], [cells(some, run["references"]).excess for some in (run, *beside)]
    drawn = Figure(figsize=(10.5, 4.9 * len(grid["noises"]) + 0.9), layout="constrained")
    panels = drawn.subplots(len(grid["noises"]), len(grid["owners"]), squeeze=False)
    for axes, noise in zip(panels, grid["noises"], strict=True):
        for panel, owners in zip(axes, grid["owners"], strict=True):
            _panel(panel, [some[noise, owners].unstack("dimension") for some in found])
            panel.set_title(f"{owners} owners, noise {noise:g}", fontsize=11)
    small = f"; small: {' · '.join(other['label'] for other in beside)}" if beside else ""
    drawn.suptitle(f"Nats per point lost against the exact GP on all rows\nlarge: {run['label']}{small}", fontsize=11.5)
    image, place = panels[0, 0].images[0], {"orientation": "horizontal", "aspect": 50, "shrink": 0.7, "pad": 0.02}
    legend = drawn.colorbar(image, ax=panels, spacing="uniform", **place)
    legend.set_ticks(LEVELS[1:-1], labels=[f"{level:g}" for level in LEVELS[1:-1]])
    legend.set_label("excess NLPD in nats")
    return drawn


def _panel(panel: Any, excess: Sequence[pd.DataFrame]) -> None:
    ours = excess[0]
    panel.imshow(ours, cmap=ListedColormap(SHADES), norm=BoundaryNorm(LEVELS, len(SHADES)), aspect="auto")
    for (i, j), value in np.ndenumerate(ours):
        ink = "white" if value > DARK else "black"
        panel.text(j, i - 0.12, f"{value:z.2f}", ha="center", va="center", fontsize=12, color=ink)
        small = " · ".join(f"{some.reindex_like(ours).iloc[i, j]:z.2f}" for some in excess[1:])
        panel.text(j, i + 0.27, small, ha="center", va="center", fontsize=8.5, color=ink)
    panel.set_xticks(range(ours.shape[1]), labels=[f"D = {D}" for D in ours.columns])
    panel.set_yticks(range(len(ours)), labels=[str(rows) for rows in ours.index])
    panel.set_ylabel("rows of each owner")
    panel.spines[:].set_visible(False)
    panel.set_xticks(np.arange(ours.shape[1] - 1) + 0.5, minor=True)
    panel.set_yticks(np.arange(len(ours) - 1) + 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=2)
    panel.tick_params(which="both", length=0)
