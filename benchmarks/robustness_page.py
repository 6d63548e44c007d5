"""Tables and the figure of docs/robustness.md, from the outcomes of benchmarks/robustness.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pages import Column, table
from robustness_cases import HONEST, SPOILED

MODELS = {
    "screened": ('merge, trust="learn"', "#1b5e9c"),
    "trusting": ("merge, trust=None", "#d1611c"),
    "poe": ("PoE", "#8c8c8c"),
    "gpoe": ("gPoE", "#b08bc9"),
    "rbcm": ("rBCM", "#6aa56a"),
}
TOLERABLE = 0.3  # share of bad modules up to which a merge must hold
COLUMNS: list[Column] = [
    ("bad modules", "kind", ""),
    ("share", "share", ".0%"),
    *((label, name, ".3f") for name, (label, _) in MODELS.items()),
    ("worst", "worst", ".3f"),
    ("found", lambda row: "" if row["share"] == 0 else row["found"], ".1%"),
    ("false alarms", "accused", ".2%"),
    ("trials", "trials", ".0f"),
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
    found[list(MODELS)] = found[list(MODELS)].sub(found["clean"], axis=0)
    return found


def means(some: pd.DataFrame) -> pd.Series:
    """Over trials; and the shares of modules that were flagged."""
    counted = {"found": some.found.sum() / max(1, some.bad.sum()), "trials": len(some)}
    counted |= {"worst": some.screened.max(), "accused": some.accused.sum() / (some.owners - some.bad).sum()}
    return pd.concat([some[list(MODELS)].mean(), pd.Series(counted)])


def cells(found: pd.DataFrame) -> list[dict[str, Any]]:
    """By kind and share of bad modules."""
    groups = found.groupby(["kind", "share"], observed=True)
    return [{"kind": kind, "share": share, **means(some)} for (kind, share), some in groups]


def values(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    found = excess(outcomes)
    parts = {
        "none": found[found.share == 0],
        f"up to {TOLERABLE:.0%}": found[(found.share > 0) & (found.share <= TOLERABLE)],
        f"more than {TOLERABLE:.0%}": found[found.share > TOLERABLE],
    }
    rows = [{"kind": name, "share": some.share.max(), **means(some)} for name, some in parts.items() if len(some)]
    return {
        "robustness.md": {
            "trials": str(len(found)),
            "seeds": str(found.seed.nunique()),
            "summary": table([c for c in COLUMNS if c[0] != "share"], rows),
            "honest": f"{(parts['none'].screened - parts['none'].trusting).abs().max():.4f}",
            "all": table(COLUMNS, cells(found)),
            "reasons": table(REASONS, [row for row in found.groupby("kind", observed=True).reasons if any(row[1])]),
        }
    }


def figure(outcomes: Sequence[Mapping[str, Any]]) -> Figure:
    """One panel for each kind: share of bad modules against the excess, on a scale that shows both ends."""
    found = pd.DataFrame(cells(excess(outcomes)))
    bad = [kind for kind in SPOILED if kind in set(found.kind)]
    columns, lines = min(4, len(bad)), -(-len(bad) // 4)
    drawn = Figure(figsize=(3.1 * columns, 2.9 * lines), layout="constrained")
    axes = drawn.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for ax, kind in zip(axes, bad, strict=False):
        some = found[found.kind.isin([HONEST, kind])]
        for name, (label, colour) in MODELS.items():
            width = 2.2 if name == "screened" else 1.3
            ax.plot(some.share, some[name], "o-", color=colour, label=label, linewidth=width, markersize=3.5)
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_title(kind, fontsize=10)
        ax.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for ax in axes[len(bad) :]:
        ax.axis("off")
    axes[len(bad) % len(axes)].legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="center")
    drawn.supxlabel("bad modules", fontsize=10)
    drawn.supylabel("nats above the honest modules alone", fontsize=10)
    return drawn
