"""Pictures of modules and ensembles: bands in 1-D, maps in 2-D, one-at-a-time slices beyond.

Of several outputs each has panels of its own. Several classes are curves of their probabilities in 1-D, and regions in
2-D; where noise varies, so does the band of y.

`ensemble` and `modules` draw on axes you give, or on those of a new figure, and return them; `save` writes
everything into one file. `reliability` and `pit` show whether probabilities and intervals are right, `rounds` what
asking owners again has gained. Pyplot is not
used and no setting of matplotlib is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from ..models.module import Module
from ..storage.atomic import write_atomically
from . import figure as figures
from . import page
from .rounds import rounds
from .scene import scenes
from .scores import pit, reliability
from .style import encoded

__all__ = ["ensemble", "modules", "pit", "reliability", "rounds", "save"]

FORMATS = ("png", "svg", "pdf", "html")


def ensemble(
    e: Ensemble,
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

    Raises:
        TypeError: It is no ensemble, or `ax` are no axes.
        RecycleGPError: The axes are too few, or region, likelihood or `at` do not fit the model.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 30)
        >>> m = rgp.fit(x, np.sin(x), noise=0.01, name="a")
        >>> ax = rgp.plot.ensemble(rgp.merge([m]))
    """
    if not isinstance(e, Ensemble):
        raise TypeError(f"plot.ensemble draws an Ensemble, not {type(e).__name__}; plot.modules draws modules")
    return _draw([e], ax, region=region, likelihood=likelihood, owners=owners, at=at)


def modules(
    ms: Module | Sequence[Module], ax: Any = None, *, region: Any = None, likelihood: str | None = None, at: Any = None
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

    Raises:
        TypeError: One of them is no module, or `ax` are no axes.
        RecycleGPError: Modules are over different columns, or what `ensemble` refuses.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 30)
        >>> m = rgp.fit(x, np.sin(x), noise=0.01, name="a")
        >>> ax = rgp.plot.modules([m])
    """
    ms = [ms] if isinstance(ms, Module) else list(ms)
    for m in ms:
        if not isinstance(m, Module):
            raise TypeError(f"plot.modules draws Modules, not {type(m).__name__}; plot.ensemble draws ensembles")
    return _draw(ms, ax, region=region, likelihood=likelihood, at=at)


def save(
    objects: Sequence[Module | Ensemble],
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
        path: a file that ends in .png, .svg or .pdf for a picture, or in .html for a page, which needs no network.
        region: as for `ensemble`.
        likelihood: as for `ensemble`.
        at: as for `ensemble`.
        names: for the legend, one for each object; by default those of the modules.
        title: above the figure; by default it says what is drawn.
        owners: as for `ensemble`; owners whose modules are drawn themselves are not drawn a second time.

    Raises:
        RecycleGPError: The file has another ending, or what `ensemble` refuses.
        OSError: The file cannot be written; what was there before is as it was.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 30)
        >>> m = rgp.fit(x, np.sin(x), noise=0.01, name="a")
        >>> rgp.plot.save([m], "figure.png")
    """
    path = Path(path)
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise RecycleGPError(f"{path}: figures are written as {', '.join(f'.{f}' for f in FORMATS)}; choose one")
    drawn = scenes(objects, region=region, likelihood=likelihood, names=names, owners=owners, at=at)
    html = suffix == "html"
    write_atomically(path, page.write(drawn, title) if html else encoded(figures.new(drawn, title)[0], suffix))


def _draw(models: Sequence[Any], ax: Any, **how: Any) -> Any:
    drawn = scenes(models, **how)
    if ax is not None:
        figures.on(drawn, ax)
        return ax
    _, axes = figures.new(drawn)
    return axes[0] if len(axes) == 1 else np.array(axes)
