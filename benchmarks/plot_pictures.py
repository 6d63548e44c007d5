"""The pictures of docs/plots.md, with the page it links to, of several functions, and of scores in docs/commands.md.

All are of data that are made here.

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
from recyclegp.plot.style import tidy

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


def outputs() -> list[rgp.Ensemble]:
    """Heat and salt along a line; east has measured only salt."""
    rng = np.random.default_rng(11)
    found = []
    for name, low, high in (("north", 0.0, 5.0), ("south", 3.0, 7.5), ("east", 6.0, 10.0)):
        x = rng.uniform(low, high, 50)
        Y = np.stack([15 + 4 * np.sin(x), 34 + np.cos(0.8 * x)], axis=1) + [0.5, 0.1] * rng.standard_normal((50, 2))
        if name == "east":
            Y[:, 0] = np.nan
        words = {"target": ["heat", "salt"], "unit": ["°C", "g/kg"], "missing": "allow"}
        found.append(rgp.fit(pd.DataFrame({"km": x}), Y, name=name, publish=8, privacy="things", **words))
    return [rgp.merge(found)]


def classes() -> list[rgp.Module | rgp.Ensemble]:
    """Insects by length and weight; on the meadow there are no wasps."""
    rng = np.random.default_rng(12)
    centres, labels = np.array([[-1.0, -0.5], [1.0, -0.5], [0.0, 1.2]]), np.array(["ant", "bee", "wasp"])
    found = []
    for name, kinds in (("forest", 3), ("garden", 3), ("meadow", 2)):
        true = rng.integers(0, kinds, 90)
        X = pd.DataFrame(centres[true] + 0.6 * rng.standard_normal((90, 2)), columns=["length", "weight"])
        how = {"likelihood": "categorical", "publish": 10, "privacy": "things"}
        found.append(rgp.fit(X, labels[true], name=name, **how))
    return [*found, rgp.merge(found)]


def varying() -> list[rgp.Ensemble]:
    """Noise that grows in the middle of the day."""
    rng = np.random.default_rng(13)
    x = rng.uniform(0, 10, 300)
    y = np.sin(x) + (0.1 + 0.5 * (x > 5)) * rng.standard_normal(300)
    found = []
    for name, seen in (("morning", x < 6), ("evening", x > 4)):
        hour = pd.DataFrame({"hour": x[seen]})
        how = {"likelihood": "heteroscedastic", "publish": 10, "privacy": "things"}
        found.append(rgp.fit(hour, y[seen], name=name, **how))
    return [rgp.merge(found)]


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
        tidy(panel, title)
    classes = rgp.merge(modules("bernoulli", ["input 1"], 300, 20))
    rows = metrics.evaluate(classes, X, observe("bernoulli", truth(X), rng))
    rgp.plot.reliability(metrics.reliability(rows.proba, rows.y), panels[2])
    tidy(panels[2], "classes")
    figure.savefig(file)


def shrink(source: Path, target: Path) -> None:
    """Few colours take a third of the space; the models' own must be among them, however small their points.

    So must the shades at the edges of thin strokes, which are partly paper.
    """
    picture = Image.open(source).convert("RGB")
    own = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in COLOURS])
    shades = [np.round(share * own + (1 - share) * 255).astype(int) for share in (1, 0.75, 0.5, 0.25)]
    left = 256 - sum(map(len, shades))
    most = np.array(picture.quantize(colors=left).getpalette()).reshape(-1, 3)[:left]
    most[(most > 244).all(axis=1)] = 255  # paper is white
    palette = np.concatenate([*shades, most])
    # each colour becomes the nearest of the palette; Pillow's own search is coarse, and takes orange for red
    found, where = np.unique(np.asarray(picture).reshape(-1, 3), axis=0, return_inverse=True)
    nearest = np.concatenate([_nearest(part, palette) for part in np.array_split(found, len(found) // 2000 + 1)])
    indices = nearest[where.ravel()].reshape(picture.height, picture.width)
    shrunk = Image.fromarray(indices.astype(np.uint8), mode="P")
    shrunk.putpalette(palette.astype(np.uint8).ravel().tolist())
    shrunk.save(target, optimize=True)


def _nearest(colours: np.ndarray, palette: np.ndarray) -> np.ndarray:
    return np.square(colours[:, None].astype(int) - palette[None].astype(int)).sum(-1).argmin(1)


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
    several = {"outputs": outputs(), "classes": classes(), "noise": varying()}
    with tempfile.TemporaryDirectory() as folder:
        for kind, drawn in (("plot", pictures), ("several", several)):
            for name, models in drawn.items():
                file = Path(folder) / f"{name}.png"
                rgp.plot.save(models, file)
                shrink(file, figures / f"{kind}-{name}.png")
        scores(Path(folder) / "scores.png")
        shrink(Path(folder) / "scores.png", figures / "scores.png")
    rgp.plot.save(pictures["bands"], figures / "plot-page.html")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
