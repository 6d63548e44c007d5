"""Pictures of modules and ensembles: bands in 1-D, maps in 2-D, one-at-a-time slices beyond.

Of several outputs each has panels of its own. Several classes are curves of their probabilities in 1-D, and regions in
2-D; where noise varies, so does the band of y.

`ensemble` and `modules` draw on axes you give, or on those of a new figure, and return them; `save` writes
everything into one file. `reliability` and `pit` show whether probabilities and intervals are right. Pyplot is not
used and no setting of matplotlib is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..categories import called
from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from ..models.joint.ensemble import JointEnsemble
from ..models.joint.module import JointModule
from ..models.module import Module
from ..storage.atomic import write_atomically
from . import figure as figures
from . import joint_figure, page
from .joint_scene import are_joint, joint_scene
from .scene import scene
from .scores import pit, reliability

__all__ = ["ensemble", "modules", "pit", "reliability", "save"]

FORMATS = ("png", "svg", "pdf", "html")


def ensemble(
    e: Ensemble | JointEnsemble,
    ax: Any = None,
    *,
    region: Any = None,
    likelihood: str | None = None,
    at: Any = None,
    owners: bool = True,
) -> Any:
    """Draw a merged model with the points of its modules, as far as it has kept them; return the axes.

    One input: mean and 95% band. Two: a map of the mean (or probability, or rate) and one of the standard
    deviation of f; a single axes shows only the first. More: a slice along each input, or, where there are fewer
    axes, along those inputs that move the mean most. Of several outputs each has such panels, below each other; axes
    that you give are those of the first output, then those of the next. Of classes: their probabilities along one
    input, or over two the likeliest class as colour, the paler the less certain it is.

    Args:
        e: the ensemble.
        ax: matplotlib axes to draw on, one or several; by default those of a new figure.
        region: (low, high) of every input, or a mapping from column names to such pairs; by default around all points.
        likelihood: what to show of a model that has several: "bernoulli" shows probabilities, "poisson" rates, and
            "gaussian" the latent f and measurements of it. By default that of the only likelihood, else f.
        at: where slices hold the other inputs, as numbers or as a mapping from column names; by default at the median
            of all points. Categories are always held, each at the level that most points have unless `at` says which.
        owners: where owners differ, draw each one's own function as a thin line about the shared one; not on maps.

    Returns:
        The axes that were given; of a new figure one axes, or an array of several.
    """
    if not isinstance(e, (Ensemble, JointEnsemble)):
        raise TypeError(f"plot.ensemble draws an Ensemble, not {type(e).__name__}; plot.modules draws modules")
    levels, at = _levels([e], at)
    return _draw([e], ax, at, region=region, likelihood=likelihood, owners=owners, levels=levels)


def modules(
    ms: Module | JointModule | Sequence[Module | JointModule],
    ax: Any = None,
    *,
    region: Any = None,
    likelihood: str | None = None,
    at: Any = None,
) -> Any:
    """Draw modules, each in its own colour and where it has points; return the axes.

    Panels are those of `ensemble`. Over two inputs, n modules need n axes for the means, or 2n for the means and then
    the standard deviations.

    Args:
        ms: one module, or several.
        ax: as for `ensemble`.
        region: as for `ensemble`.
        likelihood: as for `ensemble`.
        at: as for `ensemble`.

    Returns:
        The axes, as `ensemble` does.
    """
    ms = [ms] if isinstance(ms, (Module, JointModule)) else list(ms)
    for m in ms:
        if not isinstance(m, (Module, JointModule)):
            raise TypeError(f"plot.modules draws Modules, not {type(m).__name__}; plot.ensemble draws ensembles")
    levels, at = _levels(ms, at)
    return _draw(ms, ax, at, region=region, likelihood=likelihood, levels=levels)


def save(
    objects: Sequence[Module | Ensemble | JointModule | JointEnsemble],
    path: str | PathLike[str],
    *,
    region: Any = None,
    likelihood: str | None = None,
    at: Any = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    owners: bool = True,
) -> None:
    """Draw modules and ensembles into one file: a picture, or a page to explore with the mouse.

    Args:
        objects: modules and ensembles.
        path: a file that ends in .png, .svg or .pdf for a picture, or in .html for a page, which needs no network
            (of models of one function).
        region: as for `ensemble`.
        likelihood: as for `ensemble`.
        at: as for `ensemble`.
        names: for the legend, one for each object; by default those of the modules.
        title: above the figure; by default it says what is drawn.
        owners: as for `ensemble`; owners whose modules are drawn themselves are not drawn a second time.
    """
    path = Path(path)
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise RecycleGPError(f"{path}: figures are written as {', '.join(f'.{f}' for f in FORMATS)}; choose one")
    levels, at = _levels(objects, at)
    how: dict[str, Any] = {"region": region, "likelihood": likelihood, "names": names, "owners": owners}
    how |= {"levels": levels}
    if suffix == "html":
        if are_joint(objects):
            raise RecycleGPError(
                f"{path}: pages are of models of one function; write a picture (.png, .svg or .pdf), or draw each "
                "function by itself (part)"
            )
        content = page.write(scene(objects, **how), at, title).encode()
    else:
        stream = BytesIO()
        figure = _new(objects, at, title, **how)[0]
        figure.savefig(stream, format=suffix)
        content = stream.getvalue()
    write_atomically(path, content)


def _levels(objects: Sequence[Any], at: Any) -> tuple[dict[str, Any], Any]:
    """What `at` says of categories, and what it says of numbers."""
    models = [m for m in objects if isinstance(m, (Module, Ensemble, JointModule, JointEnsemble))]
    named = {called(c, m.columns) for m in models for c in m.categories.columns}
    if not named or not isinstance(at, Mapping):
        return {}, at
    return {c: v for c, v in at.items() if c in named}, {c: v for c, v in at.items() if c not in named}


def _draw(models: Sequence[Any], ax: Any, at: Any, **how: Any) -> Any:
    if ax is not None:
        if are_joint(models):
            joint_figure.on(joint_scene(models, **how), ax, at)
        else:
            figures.on(scene(models, **how), ax, at)
        return ax
    _, axes = _new(models, at, None, **how)
    return axes[0] if len(axes) == 1 else np.array(axes)


def _new(models: Sequence[Any], at: Any, title: str | None, **how: Any) -> tuple[Figure, list[Axes]]:
    if are_joint(models):
        return joint_figure.new(joint_scene(models, **how), at, title)
    return figures.new(scene(models, **how), at, title)
