"""Pictures of modules and ensembles: bands in 1-D, maps in 2-D, one-at-a-time slices beyond.

`ensemble` and `modules` draw on axes you give, or on those of a new figure, and return them; `save` writes
everything into one file. Nothing here touches pyplot or any other global state of matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..ensemble import Ensemble
from ..errors import RecycleGPError
from ..files import write_atomically
from ..module import Module
from . import lines, maps, numbers
from .scene import Scene, scene

__all__ = ["ensemble", "modules", "save"]

FORMATS = ("png", "svg", "pdf")
SLICES = 12  # inputs in one figure
MAPS = 8  # models in one figure of maps
DPI = 130


def ensemble(e: Ensemble, ax: Any = None, *, region: Any = None, likelihood: str | None = None, at: Any = None) -> Any:
    """Draw a merged model and return the axes."""
    if not isinstance(e, Ensemble):
        raise TypeError(f"plot.ensemble draws an Ensemble, not {type(e).__name__}; plot.modules draws modules")
    return _draw(scene([e], region=region, likelihood=likelihood), ax, at)


def modules(
    ms: Module | Sequence[Module],
    ax: Any = None,
    *,
    region: Any = None,
    likelihood: str | None = None,
    at: Any = None,
) -> Any:
    """Draw modules, each in its own colour, and return the axes."""
    ms = [ms] if isinstance(ms, Module) else list(ms)
    for m in ms:
        if not isinstance(m, Module):
            raise TypeError(f"plot.modules draws Modules, not {type(m).__name__}; plot.ensemble draws ensembles")
    return _draw(scene(ms, region=region, likelihood=likelihood), ax, at)


def save(
    objects: Sequence[Module | Ensemble],
    path: str | PathLike[str],
    *,
    region: Any = None,
    likelihood: str | None = None,
    at: Any = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> None:
    """Draw modules and ensembles into one file."""
    path = Path(path)
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise RecycleGPError(f"{path}: figures are written as {', '.join(f'.{f}' for f in FORMATS)}; choose one")
    figure = _figure(scene(objects, region=region, likelihood=likelihood, names=names), at, title)
    stream = BytesIO()
    figure.savefig(stream, format=suffix)
    write_atomically(path, stream.getvalue())


def _draw(drawn: Scene, ax: Any, at: Any) -> Any:
    if ax is None:
        figure = _figure(drawn, at, None)
        return figure.axes
    axes = list(np.ravel(ax))
    if len(drawn.columns) == 2:
        pass
    else:
        lines.draw(axes, numbers.panels(drawn, len(axes), at), drawn)
    return ax


def _figure(drawn: Scene, at: Any, title: str | None) -> Figure:
    figure = Figure(dpi=DPI, layout="constrained")
    if len(drawn.columns) == 2:
        shown = numbers.maps(drawn, MAPS)
        wide = 1 if len(shown) <= 3 else 2
        high = math.ceil(len(shown) / wide)
        figure.set_size_inches(4.4 * 2 * wide, 3.6 * high + 0.6)
        grid = figure.subplots(high, 2 * wide, squeeze=False, sharex=True, sharey=True)
        centres, sds = grid[:, :wide].ravel(), grid[:, wide:].ravel()
        maps.draw(figure, centres[: len(shown)], sds[: len(shown)], shown, drawn)
        for empty in (*centres[len(shown) :], *sds[len(shown) :]):
            empty.remove()
        key = maps.key(drawn)
    else:
        panels = numbers.panels(drawn, SLICES, at)
        high = math.ceil(len(panels) / 4)
        wide = math.ceil(len(panels) / high)
        figure.set_size_inches((8, 5) if len(panels) == 1 else (3.2 * wide + 0.5, 2.6 * high + 0.8))
        grid = figure.subplots(high, wide, squeeze=False, sharey=True)
        axes = list(grid.ravel())
        for empty in axes[len(panels) :]:
            empty.remove()
        lines.draw(axes[: len(panels)], panels, drawn)
        for row in grid:
            row[0].set_ylabel(drawn.scale.label)
        key = lines.key(panels, drawn)
    figure.legend(*key, loc="outside lower left", frameon=False, fontsize=9, ncols=4)
    figure.suptitle(title or "")
    return figure
