"""A small demonstration: three owners, one function, no data shared.

A and B measure f directly, with different instruments; C only sees yes/no outcomes whose odds are
exp(f). Beyond x = 4.5 nobody but C has looked. Each owner fits alone and publishes a file; the
files are merged. The central fit, which needs everybody's rows in one place, is the yardstick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import recyclegp as rgp

from .plot.style import BAND_SDS, BLACK, BLUE, CHOSEN, FAINT, GREEN, ORANGE, VERMILION, band, inducing, outline, tidy

Array = NDArray[np.float64]

REGION = (0.0, 6.0)
ONLY_C = 4.5  # beyond it only C has data
POINTS = 14  # published by each owner
TEST_NOISE = 0.3  # standard deviation of the held-out measurements: A's instrument
TEST_ROWS = 2000


class Owner(NamedTuple):
    name: str
    kind: str  # likelihood
    low: float
    high: float
    rows: int
    noise: float | None  # standard deviation of its instrument


OWNERS = (
    Owner("A", "gaussian", 0.0, 3.0, 120, TEST_NOISE),
    Owner("B", "gaussian", 2.0, 4.5, 120, 0.6),
    Owner("C", "bernoulli", 4.0, 6.0, 400, None),
)


def file_of(name: str) -> str:
    return f"{name}.safetensors"


FILES = tuple(file_of(name) for name in (*(owner.name for owner in OWNERS), "merged"))


def truth(x: Array) -> Array:
    """The function all owners observe, each in their own way."""
    return 1.6 * np.sin(1.9 * x) + 0.9 * np.cos(4.1 * x + 0.5) + 0.25 * (x - 3.0)


class Rows(NamedTuple):
    """What one owner keeps at home."""

    X: Array  # (n, 1)
    y: Array  # (n,)


class Score(NamedTuple):
    """Against held-out measurements over the whole region (nlpd) and the true f (the rest)."""

    nlpd: float  # mean of −log p(y)
    rmse: float
    rmse_only_c: float  # where only C has data
    coverage: float  # of f by the 95% band


@dataclass(frozen=True)
class Results:
    seed: int
    data: dict[str, Rows]
    modules: dict[str, rgp.Module]
    merged: rgp.Ensemble
    central: rgp.Ensemble
    scores: dict[str, Score]  # by owner, then "merged" and "central"

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, ready for JSON."""
        return {
            "seed": self.seed,
            "rows": {name: len(rows.y) for name, rows in self.data.items()},
            "points": {name: len(m.inducing) for name, m in self.modules.items()}
            | {"merged": len(self.merged.inducing)},
            "scores": {name: score._asdict() for name, score in self.scores.items()},
        }


def run(seed: int, folder: Path) -> Results:
    """The real chain, through files: each owner fits and saves; somebody else loads and merges."""
    rng = np.random.default_rng(seed)
    data = {owner.name: observe(owner, rng) for owner in OWNERS}
    for name, kind, *_ in OWNERS:
        module = rgp.fit(*data[name], likelihood=kind, publish=POINTS, name=name, seed=seed, privacy="things")
        module.save(folder / file_of(name))

    # From here on only the files are known.
    modules = [cast(rgp.Module, rgp.load(folder / file_of(owner.name))) for owner in OWNERS]
    merged = rgp.merge(modules)
    merged.save(folder / file_of("merged"))

    reference = central(data, modules)
    models: dict[str, rgp.Module | rgp.Ensemble] = {m.name: m for m in modules}
    models |= {"merged": merged, "central": reference}
    X = rng.uniform(*REGION, (TEST_ROWS, 1))
    y = truth(X[:, 0]) + TEST_NOISE * rng.standard_normal(TEST_ROWS)
    scores = {name: score(model, X, y) for name, model in models.items()}
    return Results(seed, data, {m.name: m for m in modules}, merged, reference, scores)


def observe(owner: Owner, rng: np.random.Generator) -> Rows:
    X = rng.uniform(owner.low, owner.high, (owner.rows, 1))
    f = truth(X[:, 0])
    if owner.noise is None:
        # logistic: p(y = 1) = 1 / (1 + exp(−f))
        return Rows(X, (rng.uniform(size=owner.rows) < 1 / (1 + np.exp(-f))).astype(np.float64))
    return Rows(X, f + owner.noise * rng.standard_normal(owner.rows))


def central(data: dict[str, Rows], modules: Sequence[rgp.Module]) -> rgp.Ensemble:
    """One model of all rows, its kernel learned on all of them.

    A Gaussian module published at every one of its rows withholds nothing: merging such modules is
    the central fit (exactly the GP on their union, up to the grid). C's outcomes help to choose the
    kernel in the same way, and are then replaced by inference on the rows themselves given all the
    other data. The instruments' noise is the owners' own estimate.
    """
    grid = np.linspace(*REGION, 61)[:, None]
    full = []
    for owner, module in zip(OWNERS, modules, strict=True):
        X, y = data[owner.name]
        how: dict[str, Any] = {"noise": module.noise, "publish": X}
        if owner.kind != "gaussian":
            how = {"likelihood": owner.kind, "inducing": grid[(grid[:, 0] >= owner.low) & (grid[:, 0] <= owner.high)]}
        full.append(rgp.fit(X, y, kernel=module.kernel, learn=False, name=owner.name, privacy="things", **how))
    ensemble = rgp.merge(full, inducing=grid)
    for owner in OWNERS:
        if owner.kind != "gaussian":
            ensemble = ensemble.remove(owner.name, relearn=False).update(
                *data[owner.name], likelihood=owner.kind, name=owner.name, publish=None
            )
    return ensemble


def score(model: rgp.Module | rgp.Ensemble, X: Array, y: Array) -> Score:
    mean, variance = model.predict(X)
    f, total = truth(X[:, 0]), variance + TEST_NOISE**2
    nlpd = 0.5 * np.log(2 * np.pi * total) + 0.5 * (y - mean) ** 2 / total
    error, far = mean - f, X[:, 0] > ONLY_C
    return Score(
        nlpd=float(nlpd.mean()),
        rmse=float(np.sqrt(np.mean(error**2))),
        rmse_only_c=float(np.sqrt(np.mean(error[far] ** 2))),
        coverage=float(np.mean(np.abs(error) <= BAND_SDS * np.sqrt(variance))),
    )


COLOURS = {"A": BLUE, "B": ORANGE, "C": GREEN, "merged": VERMILION, "central": BLACK}
HEIGHT = 4.6  # the panels show |f| up to here; outcomes are ticks along the edges


def draw(results: Results) -> Figure:
    """Above, each module alone; below, what the merged files know beside the central fit."""
    figure = Figure(figsize=(10, 7.2), dpi=150, layout="constrained")
    panels = figure.subplot_mosaic([["A", "B", "C"], ["all"] * 3], height_ratios=[1, 1.6])
    x = np.linspace(*REGION, 601)
    for owner in OWNERS:
        _draw_module(panels[owner.name], x, owner, results)
    _draw_merged(panels["all"], x, results)
    for panel in panels.values():
        tidy(panel, xlim=REGION, ylim=(-HEIGHT, HEIGHT), yticks=[-4, -2, 0, 2, 4], xlabel="x")
    for name in ("A", "all"):
        panels[name].set_ylabel("f(x)")
    for name in ("B", "C"):
        panels[name].tick_params(labelleft=False)
    panels["A"].legend(loc="upper left", fontsize=9, frameon=False, borderaxespad=0.1, labelspacing=0.2)
    panels["all"].legend(loc="upper left", fontsize=9, frameon=False, borderaxespad=0.2, ncols=2)
    return figure


def _draw_module(panel: Axes, x: Array, owner: Owner, results: Results) -> None:
    module, colour = results.modules[owner.name], COLOURS[owner.name]
    panel.plot(x, truth(x), color=FAINT, lw=2.2, zorder=2, label="true f")
    _draw_rows(panel, owner, results.data[owner.name], size=6, alpha=0.45)
    mean, variance = module.predict(x[:, None])
    band(panel, x, mean, variance, colour, f"{owner.name}'s model, 95% band", lw=1.8)
    Z = module.inducing
    known = module.predict(Z)[0]
    panel.plot(Z[:, 0], known, "o", color=colour, ms=5.5, mec="white", mew=0.8, zorder=4, label="published points")
    what = "yes/no outcomes" if owner.noise is None else f"measurements ± {owner.noise:g}"
    tidy(panel, f"{owner.name} alone: {owner.rows} {what}")
    panel.text(0.97, 0.07, f"NLPD {results.scores[owner.name].nlpd:.2f}", transform=panel.transAxes, ha="right")


def _draw_merged(panel: Axes, x: Array, results: Results) -> None:
    panel.axvspan(ONLY_C, REGION[1], color="#f3f3f3", zorder=0, lw=0)
    where = (ONLY_C + REGION[1]) / 2
    panel.text(where, 0.92 * HEIGHT, "seen only by C, as yes/no", ha="center", va="top")
    for owner in OWNERS:
        _draw_rows(panel, owner, results.data[owner.name], size=5, alpha=0.35)
    panel.plot(x, truth(x), color=FAINT, lw=2.2, zorder=2, label="true f")
    inducing(panel, results.merged.inducing[:, 0], COLOURS["merged"], CHOSEN, level=0.1)  # above "no"
    mean, variance = results.merged.predict(x[:, None])
    band(panel, x, mean, variance, COLOURS["merged"], "merged, 95% band", lw=1.8)
    mean, variance = results.central.predict(x[:, None])
    outline(panel, x, mean, variance, COLOURS["central"], "central fit on all rows, 95% limits dotted")
    published, scores = sum(len(m.inducing) for m in results.modules.values()), results.scores
    heading = f"Merged from three files, {published} points in all, no data rows: NLPD {scores['merged'].nlpd:.3f}"
    tidy(panel, f"{heading} (central {scores['central'].nlpd:.3f})")


def _draw_rows(panel: Axes, owner: Owner, rows: Rows, size: float, alpha: float) -> None:
    """Measurements as dots; yes/no outcomes as ticks along the upper (yes) and lower edge (no)."""
    colour = COLOURS[owner.name]
    if owner.noise is not None:
        panel.scatter(rows.X[:, 0], rows.y, s=size, color=colour, alpha=alpha, lw=0, zorder=2)
        return
    for outcome, edge, word, side in ((1.0, HEIGHT, "yes", "top"), (0.0, -HEIGHT, "no", "bottom")):
        x = rows.X[rows.y == outcome, 0]
        panel.vlines(x, edge, edge * 0.95, color=colour, alpha=0.6, lw=0.8, zorder=2)
        panel.text(owner.low - 0.05, edge * 0.98, word, ha="right", va=side, fontsize=9, color=colour)
