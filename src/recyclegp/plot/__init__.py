"""Pictures of modules and ensembles: bands in 1-D, maps in 2-D, one-at-a-time slices beyond.

`ensemble` and `modules` draw on axes you give, or on those of a new figure, and return them; `save` writes
everything into one file. Pyplot is not used and no setting of matplotlib is changed.

Whatever is drawn, these arguments mean the same:

- `region`: (low, high) of every input, or a mapping from column names to such pairs; else around all points.
- `likelihood`: what to show of models that have several: "bernoulli" shows probabilities, "poisson" rates, and
  "gaussian" the latent f and measurements of it. Models of one likelihood show what it says; else f is shown.
- `at`: where slices (of three inputs and more) hold the others, as numbers or as a mapping from column names; else
  at the median of all points.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic import write_atomically
from ..ensemble import Ensemble
from ..errors import RecycleGPError
from ..module import Module
from . import figure as figures
from . import page
from .scene import Scene, scene

__all__ = ["ensemble", "modules", "save"]

FORMATS = ("png", "svg", "pdf", "html")


def ensemble(e: Ensemble, ax: Any = None, *, region: Any = None, likelihood: str | None = None, at: Any = None) -> Any:
    """Draw a merged model with the points of its modules, as far as it has kept them; return the axes.

    One input: mean and 95% band. Two: a map of the mean (or probability, or rate) and one of the standard
    deviation of f; one axes alone is given the first. More: a slice along each input, or along as many as
    there are axes, those first that move the mean most.
    """
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
    """Draw modules, each in its own colour and where it has points; return the axes.

    As `ensemble`; of two inputs, n modules take n axes for the means, or 2n with the standard deviations after
    them.
    """
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
    """Draw modules and ensembles into one file: .png, .svg or .pdf, or .html for a page that answers the pointer.

    `names` are for the legend, one for each object, where their own will not do.
    """
    path = Path(path)
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise RecycleGPError(f"{path}: figures are written as {', '.join(f'.{f}' for f in FORMATS)}; choose one")
    drawn = scene(objects, region=region, likelihood=likelihood, names=names)
    if suffix == "html":
        content = page.write(drawn, at, title).encode()
    else:
        stream = BytesIO()
        figures.new(drawn, at, title)[0].savefig(stream, format=suffix)
        content = stream.getvalue()
    write_atomically(path, content)


def _draw(drawn: Scene, ax: Any, at: Any) -> Any:
    if ax is not None:
        figures.on(drawn, ax, at)
        return ax
    _, axes = figures.new(drawn, at)
    return axes[0] if len(axes) == 1 else np.array(axes)
