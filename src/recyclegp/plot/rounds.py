"""What rounds have gained, as a picture."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import RecycleGPError
from ..models.combining import per_row
from ..models.plan import Plan
from . import style
from .scores import DPI, SIZE


def rounds(plan: Plan, ax: Any = None) -> Any:
    """Draw the held-back score of a plan's models against the exchanges, beside the one-shot merge; return the axes.

    Where owners have not held rows back, the common bound is drawn instead.

    Args:
        plan: the last plan, which has the history of all before it.
        ax: matplotlib axes to draw on; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: It is no plan, or `ax` are no axes.
        RecycleGPError: Nobody has answered yet.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 90)
        >>> plan = rgp.Plan(points=x[::9], kernel="rbf", noise=0.1)
        >>> _, plan = plan.combine([plan.contribute(x, np.sin(x), name="a", privacy="things")])
        >>> ax = rgp.plot.rounds(plan)
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plot.rounds draws a Plan, not {type(plan).__name__}")
    if not plan.history:
        raise RecycleGPError("plan: nobody has answered yet; combine answers first")
    if ax is None:
        ax = Figure(figsize=SIZE, dpi=DPI, layout="constrained").subplots()
    elif not isinstance(ax, Axes):
        raise TypeError(f"ax: pass matplotlib axes, not {type(ax).__name__}")
    scored = [(i + 1, r["score"]) for i, r in enumerate(plan.history) if r["score"] is not None]
    found = scored or [(i + 1, r["bound"]) for i, r in enumerate(plan.history)]
    ax.plot(*zip(*found, strict=True), "o-", color=style.BLUE, ms=5, lw=1.4, label="rounds", zorder=3)
    shot = plan._facts.one_shot
    if scored and shot is not None and shot.scores:
        ax.axhline(per_row(shot.scores), color=style.ORANGE, lw=1.4, ls="--", label="one-shot merge", zorder=2)
    sent = sum(r["bytes"] for r in plan.history)
    what = "held-back log density per row, in nats" if scored else "common bound, in nats"
    style.tidy(ax, None, {"loc": "lower right"}, xlabel=f"exchanges ({sent:,} bytes from an owner in all)", ylabel=what)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax
