"""The pictures of the home page, docs/concepts.md and docs/start-csv.md, from models fitted here to data made here.

python benchmarks/concept_pictures.py [--docs docs]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import gpytorch
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import recyclegp as rgp
from plot_pictures import shrink
from recyclegp.plot.style import BAND_SDS, BLACK, BLUE, CHOSEN, FAINT, GREEN, ORANGE, VERMILION, band, inducing, tidy

LOW, HIGH, NOISE = 0.0, 9.0, 0.3  # region, and the standard deviation of the noise
GRID = np.linspace(LOW, HIGH, 361)[:, None]
OWNERS = ((0.0, 3.5, 50, BLUE), (2.5, 6.5, 50, ORANGE), (5.5, 9.0, 50, GREEN))


def truth(x: np.ndarray) -> np.ndarray:
    return np.sin(1.7 * x) + 0.4 * np.cos(0.6 * x)


def rows(k: int) -> tuple[np.ndarray, np.ndarray]:
    """What owner k keeps at home."""
    low, high, count, _ = OWNERS[k]
    rng = np.random.default_rng(k)
    X = rng.uniform(low, high, (count, 1))
    return X, truth(X[:, 0]) + NOISE * rng.standard_normal(count)


DATA = [rows(k) for k in range(len(OWNERS))]
X_ALL, Y_ALL = (np.concatenate(parts) for parts in zip(*DATA, strict=True))


def modules(publish: int) -> list[rgp.Module]:
    return [rgp.fit(X, y, publish=publish, name=f"owner {k + 1}") for k, (X, y) in enumerate(DATA)]


def panels(count: int, height: float = 2.5) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(9.0, height), dpi=110, layout="constrained")
    axes = list(figure.subplots(1, count, sharey=True))
    for panel in axes:
        panel.set_ylim(-2.2, 2.4)
    return figure, axes


def over(k: int) -> np.ndarray:
    """The part of the grid that owner k has seen, and a little more."""
    low, high, *_ = OWNERS[k]
    return GRID[(low - 0.2 <= GRID[:, 0]) & (GRID[:, 0] <= high + 0.2)]


def draw(panel: Axes, model: rgp.Module | rgp.Ensemble, where: np.ndarray, colour: str, label: str | None) -> None:
    band(panel, where[:, 0], *model.predict(where), colour, label)


def true(panel: Axes) -> None:
    panel.plot(GRID[:, 0], truth(GRID[:, 0]), ":", color=FAINT, lw=1.2, label="truth", zorder=2)


def dashed(panel: Axes, central: rgp.Module) -> None:
    mean, _ = central.predict(GRID)
    panel.plot(GRID[:, 0], mean, "--", color=VERMILION, lw=1.3, label="all rows in one place", zorder=6)


PLACES = ("hospital", "phone", "laboratory")


def overview() -> Figure:
    """Rows at home, files on their way, one model."""
    figure = Figure(figsize=(10.0, 4.3), dpi=110, layout="constrained")
    home, way, anywhere = figure.subfigures(1, 3, width_ratios=[1.15, 0.62, 1.9])
    panels = home.subplots(3, 1, sharex=True, sharey=True)
    road = way.subplots(3, 1)
    ms = modules(10)
    with tempfile.TemporaryDirectory() as folder:
        for k, (panel, lane, m) in enumerate(zip(panels, road, ms, strict=True)):
            (X, y), colour, file = DATA[k], OWNERS[k][3], Path(folder) / f"{PLACES[k]}.safetensors"
            m.save(file)
            panel.plot(X[:, 0], y, ".", color=colour, ms=4)
            tidy(panel, f"{PLACES[k]}: {len(X)} rows, fitted", xlim=(LOW, HIGH), ylim=(-2.2, 2.6))
            draw(panel, m, over(k), colour, None)
            panel.set(xticks=[], yticks=[])
            lane.set(xlim=(0, 1), ylim=(0, 1))
            lane.axis("off")
            # Arrows lead to the middle of the large panel.
            lane.annotate(
                "", (1.0, 0.5 + 0.22 * (k - 1)), (0.0, 0.5), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2}
            )
            said = f"{PLACES[k]}.safetensors\n{file.stat().st_size / 1000:.1f} kB, no rows"
            box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": colour, "lw": 1.4}
            lane.text(0.45, 0.5 + 0.1 * (k - 1), said, ha="center", va="center", fontsize=8, bbox=box)
    e = rgp.merge(ms)
    large = anywhere.subplots()
    for k, (low, high, _, colour) in enumerate(OWNERS):
        large.plot([low, high], [-1.95 + 0.1 * k] * 2, color=colour, lw=3, solid_capstyle="butt")
    large.text(LOW + 0.1, -1.66, "who has seen what", fontsize=8, color=FAINT)
    draw(large, e, GRID, BLACK, "merged, with 95% band")
    dashed(large, rgp.fit(X_ALL, Y_ALL, publish=64))
    tidy(large, "anywhere: one Gaussian process, from three files", xlim=(LOW, HIGH), ylim=(-2.2, 2.6), xlabel="x")
    large.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)
    return figure


def site() -> Figure:
    figure, (home, travels) = panels(2)
    (X, y), m = DATA[0], modules(8)[0]
    where = over(0)
    home.plot(X[:, 0], y, ".", color=FAINT, ms=4, label="50 rows")
    draw(home, m, where, BLUE, "local fit, 95%")
    tidy(home, "stays at home", xlabel="x", ylabel="f")
    Z = m.inducing
    mean, variance = m.predict(Z)
    travels.errorbar(
        Z[:, 0], mean, BAND_SDS * np.sqrt(variance), fmt="o", color=BLUE, ms=5, capsize=3, label=f"{len(Z)} points, 95%"
    )
    travels.set_xlim(home.get_xlim())
    tidy(travels, "travels: points, and what is known of f there", xlabel="x")
    for panel in (home, travels):
        panel.legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def publish() -> Figure:
    figure, axes = panels(3)
    rich, where = modules(64)[0], over(0)
    for panel, n in zip(axes, (2, 3, 5), strict=True):
        band(panel, where[:, 0], *rich.predict(where), FAINT, "local fit")
        few = rich.publish(n)
        draw(panel, few, where, BLUE, "published")
        Z = few.inducing
        panel.plot(Z[:, 0], few.predict(Z)[0], "o", color=BLUE, ms=5, zorder=4)
        tidy(panel, f"at {n} points", xlabel="x")
    axes[0].set_ylabel("f")
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def merge() -> Figure:
    figure, (apart, together) = panels(2, 2.8)
    ms = modules(10)
    for k, m in enumerate(ms):
        draw(apart, m, over(k), OWNERS[k][3], m.name)
        apart.plot(m.inducing[:, 0], m.predict(m.inducing)[0], "o", color=OWNERS[k][3], ms=4, zorder=4)
    tidy(apart, "three modules", xlabel="x", ylabel="f")
    e = rgp.merge(ms)
    true(together)
    draw(together, e, GRID, BLACK, "merged, 95%")
    central = rgp.fit(X_ALL, Y_ALL, publish=64)
    dashed(together, central)
    inducing(together, e.inducing[:, 0], BLACK, CHOSEN)
    tidy(together, "one model", xlabel="x")
    apart.legend(frameon=False, fontsize=8, loc="lower left", ncols=2)
    together.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    together.set_ylim(top=2.9)
    return figure


def slack() -> Figure:
    figure, axes = panels(3, 2.7)
    ms = modules(10)
    best = rgp.merge(ms)
    few = np.linspace(LOW + 0.5, HIGH - 0.5, 5)[:, None]
    more = np.linspace(LOW + 0.3, HIGH - 0.3, 8)[:, None]
    for panel, Z, how in zip(axes, (few, more, best.inducing), ("", "", " (auto)"), strict=True):
        e = rgp.merge(ms, inducing=Z, kernel=best.kernel, learn=False)
        true(panel)
        draw(panel, e, GRID, BLACK, "merged, 95%")
        inducing(panel, Z[:, 0], BLACK, CHOSEN)
        tidy(panel, f"{len(Z)} points{how}: slack {round(e.slack, 3):.3g} nats", xlabel="x")
    axes[0].set_ylabel("f")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def plan() -> Figure:
    figure, (free, agreed) = panels(2, 2.8)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    kernel.base_kernel.lengthscale, kernel.outputscale = 1.0, 1.0
    Z = np.linspace(LOW, HIGH, 15)[:, None]
    shared = {"inducing": Z, "kernel": kernel, "learn": False, "noise": NOISE**2, "method": "collapsed"}
    without = modules(10)
    together = [rgp.fit(X, y, name=f"owner {k + 1}", **shared) for k, (X, y) in enumerate(DATA)]
    whole = rgp.fit(X_ALL, Y_ALL, **shared)
    found = {
        free: (without, rgp.merge(without), rgp.fit(X_ALL, Y_ALL, publish=64), "without a plan"),
        agreed: (together, rgp.merge(together, inducing=Z, kernel=kernel, learn=False), whole, "with a plan"),
    }
    for panel, (ms, e, central, label) in found.items():
        draw(panel, e, GRID, BLACK, "merged, 95%")
        dashed(panel, central)
        for k, m in enumerate(ms):
            inducing(panel, m.inducing[:, 0], OWNERS[k][3], m.name, level=0.03 + 0.05 * k)
        apart = np.abs(e.predict(GRID)[0] - central.predict(GRID)[0]).max()
        tidy(panel, f"{label}: means differ by at most {apart:.1g}", xlabel="x")
    free.set_ylabel("f")
    free.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    return figure


def start(folder: Path) -> Path:
    """What the commands of docs/start-csv.md draw."""
    found = []
    for name, first, wild in (("north", 0, 77), ("south", 10, 79)):
        i = np.arange(120)
        hour = first + i / 9
        y = 15 - 6 * np.cos(hour / 3.8) + np.sin(wild * i * i)
        found.append(rgp.fit(pd.DataFrame({"hour": hour}), y, name=name, target="temperature", unit="°C"))
    figure = folder / "start-csv.png"
    rgp.plot.save([*found, rgp.merge(found)], figure, names=["north", "south", "both"])
    return figure


PICTURES = {"overview": overview, "site": site, "publish": publish, "merge": merge, "slack": slack, "plan": plan}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    figures = parser.parse_args().docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, picture in PICTURES.items():
            file = Path(folder) / f"{name}.png"
            picture().savefig(file)
            shrink(file, figures / f"concept-{name}.png")
        shrink(start(Path(folder)), figures / "start-csv.png")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
