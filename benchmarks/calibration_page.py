"""Tables and the figure of docs/calibration.md, from results of benchmarks/where_merging_loses.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.scale import SymmetricalLogScale

from pages import Column, figure, table

LOSS = 0.1  # nats per point: from here on merging has lost
WRONG = 1.25  # a factor that matters
SETTING, CASE = ["dimension", "noise", "seed"], ["noise", "owners", "dimension", "rows"]

SUMMARY: list[Column] = [
    ("", lambda run: run[0], ""),
    ("cases", lambda run: len(run[1]), "d"),
    (f"lose more than {LOSS:g}", lambda run: len(losing(run[1])), "d"),
    ("median excess", lambda run: run[1].excess.median(), ".3f"),
    ("worst", lambda run: run[1].excess.max(), ".2f"),
    ("95% in the mean", lambda run: run[1].coverage.mean(), ".3f"),
    ("least", lambda run: run[1].coverage.min(), ".3f"),
    ("noise too small", lambda run: (losing(run[1]).believed < 1 / WRONG).sum(), "d"),
    ("too large", lambda run: (losing(run[1]).believed > WRONG).sum(), "d"),
    ("mean wrong", lambda run: (losing(run[1]).rmse > WRONG).sum(), "d"),
    ("failed", lambda run: run[1].failed.sum(), "d"),
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
    rows["failed"] = rows["nlpd_x"].isna()
    groups = rows.groupby(CASE, observed=True)
    found = groups[["excess", "coverage", "rmse", "believed", "alone", "published", "bytes"]].mean()
    found[["rmse", "believed"]] = np.exp(found[["rmse", "believed"]])
    found["spread"] = groups["excess"].std().fillna(0.0)
    return found.join(groups["failed"].sum())


def losing(found: pd.DataFrame) -> pd.DataFrame:
    return found[~(found.excess <= LOSS)]


def values(run: Mapping[str, Any], beside: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    others = {other["label"]: cells(other, run["references"]) for other in beside}
    ours = cells(run, run["references"])
    parts = {f"{owners}, noise {s:g}": part for (s, owners), part in ours.groupby(CASE[:2], observed=True)}
    found = {"summary": table(SUMMARY, [(run["label"], ours), *others.items()])}
    if run["rounds"]:
        rows = pd.DataFrame(run["rounds"]).merge(pd.DataFrame(run["references"])[[*SETTING, "nlpd"]], on=SETTING)
        rows["excess"] = rows["nlpd_x"] - rows["nlpd_y"]
        found["rounds"] = table(ROUNDS, rows.groupby(SETTING[:2]).mean().reset_index().to_dict("records"))
    return found | {name: _cases(part, others) for name, part in parts.items()}


def _cases(part: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> str:
    columns = list(CASES)
    for label, other in others.items():
        part = part.join(other[["excess", "coverage"]].add_suffix(f" of {label}"))
        columns.append((label, lambda row, key=f"excess of {label}": nats(row[key]), ">"))
        columns.append(("95%", f"coverage of {label}", ".3f"))
    return table(columns, part.reset_index().to_dict("records"))


# the words of the figure: how points were published, and how rows were divided among owners
PUBLISHED = {'publish="auto"': "points as published now", "64 points": "64 points each"}
DIVIDED = {"random": "rows at random", "adjoining": "adjoining regions"}


def picture(run: Mapping[str, Any], beside: Sequence[Mapping[str, Any]]) -> Figure:
    """Excess against rows per owner, a line for each number of inputs: a row of panels for each run."""
    scales = {"xscale": "log", "yscale": SymmetricalLogScale(None, linthresh=0.01)}
    axes = scales | {"xlabel": "rows of each owner", "ylabel": "nats lost per held-out row"}
    panels = []
    for some in (run, *beside):
        for (noise, owners), part in cells(some, run["references"]).excess.groupby(CASE[:2], observed=True):
            lines = [
                (f"{D} input{'s' * (D > 1)}", line.index.get_level_values("rows"), line.to_numpy(), {"marker": "o"})
                for D, line in part.groupby("dimension")
            ]
            title = f"{PUBLISHED.get(some['label'], some['label'])}\n{DIVIDED[owners]}, noise {noise:g}"
            panels.append((lines, axes | {"title": title}))
    return figure(panels, len(panels) // (1 + len(beside)), (2.9, 2.7))
