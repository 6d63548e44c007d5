"""The pictures of docs/plots.md, with the page it links to, and of scores in docs/commands.md, from data made here.

python benchmarks/plot_pictures.py [--docs docs]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from PIL import Image

import recyclegp as rgp
from recyclegp import metrics
from recyclegp.plot.scene import COLOURS

OWNERS = ("north", "east", "south")


def modules(likelihood: str, columns: list[str], rows: int, publish: int, **words: str) -> list[rgp.Module]:
    """Three owners, each of whom knows its own part of the first column; `words` say what y is."""
    rng = np.random.default_rng(7)
    found = []
    for k, name in enumerate(OWNERS):
        X = rng.uniform(0, 6, (rows, len(columns)))
        X[:, 0] = rng.uniform(2 * k - 0.4, 2 * k + 2.4, rows)
        y = observe(likelihood, truth(X), rng)
        frame = pd.DataFrame(X, columns=columns)
        found.append(rgp.fit(frame, y, likelihood=likelihood, publish=publish, name=name, **words))
    return found


def truth(X: np.ndarray) -> np.ndarray:
    f = np.sin(1.6 * X[:, 0]) + 0.15 * X[:, 0]
    if X.shape[1] > 1:
        f = f + 0.8 * np.cos(1.1 * X[:, 1])
    return f + 0.2 * X[:, 2] if X.shape[1] > 2 else f


def observe(likelihood: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if likelihood == "gaussian":
        return f + 0.3 * rng.standard_normal(len(f))
    if likelihood == "bernoulli":
        return (rng.uniform(size=len(f)) < 1 / (1 + np.exp(-3 * f))).astype(float)
    return rng.poisson(np.exp(f + 0.8)).astype(float)


def scores(file: Path) -> None:
    """Is a model as sure as it should be? Numbers of one that is right and of one that is too sure, and classes."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 6, (600, 1))
    figure = Figure(figsize=(12, 4), dpi=130, layout="constrained")
    panels = figure.subplots(1, 3)
    right = rgp.merge(modules("gaussian", ["input 1"], 300, 20))
    sure = rgp.merge([rgp.fit(X[:60], observe("gaussian", truth(X[:60]), rng), noise=0.02, name="sure")], learn=False)
    for panel, title, model in zip(panels, ("right", "too sure"), (right, sure), strict=False):
        rows = metrics.evaluate(model, X, observe("gaussian", truth(X), rng))
        rgp.plot.pit(metrics.pit_histogram(rows.below, rows.up_to), len(X), panel)
        panel.set_title(title, loc="left", fontsize=10, fontweight="bold")
    classes = rgp.merge(modules("bernoulli", ["input 1"], 300, 20))
    rows = metrics.evaluate(classes, X, observe("bernoulli", truth(X), rng))
    rgp.plot.reliability(metrics.reliability(rows.proba, rows.y), panels[2])
    panels[2].set_title("classes", loc="left", fontsize=10, fontweight="bold")
    figure.savefig(file)


def shrink(source: Path, target: Path) -> None:
    """Few colours take a third of the space; the models' own must be among them, however small their points."""
    picture = Image.open(source).convert("RGB")
    most = np.array(picture.quantize(colors=240).getpalette()).reshape(-1, 3)
    most[(most > 244).all(axis=1)] = 255  # paper is white
    own = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([*most[:240].ravel().tolist(), *np.ravel(own).tolist()])
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    figures = parser.parse_args().docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)

    line = modules("gaussian", ["hour"], 60, 9, target="flow", unit="l/s")
    counts = modules("poisson", ["hour"], 60, 9, target="calls")
    plane = modules("bernoulli", ["age", "dose"], 150, 16, target="cured")
    five = modules("gaussian", ["age", "dose", "weight", "height", "hour"], 150, 30, target="pressure", unit="kPa")
    pictures = {
        "bands": [*line, rgp.merge(line)],
        "counts": [rgp.merge(counts)],
        "maps": [rgp.merge(plane)],
        "modules": plane,
        "slices": [rgp.merge(five)],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, models in pictures.items():
            file = Path(folder) / f"{name}.png"
            rgp.plot.save(models, file)
            shrink(file, figures / f"plot-{name}.png")
        scores(Path(folder) / "scores.png")
        shrink(Path(folder) / "scores.png", figures / "scores.png")
    rgp.plot.save(pictures["bands"], figures / "plot-page.html")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
