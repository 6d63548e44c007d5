"""One HTML file to explore: hover to read values, switch models on and off, no network needed.

The numbers are computed here and embedded; page.html and drawing.js draw them with a few functions of their own,
because a plotting library would add megabytes to every file.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ..errors import printable
from ..merging.verdicts import Standing
from ..models.ensemble import Ensemble
from . import figure, maps, numbers, ranges
from .numbers import Map, Panel
from .ranges import Range
from .scale import Array, Scale
from .scene import Marks, Owner, Scene, plain
from .style import BLACK

DIGITS = 5  # significant digits of every number in the file
COLOUR_STOPS = 64  # colours of a map, between which the page interpolates
DPI = 80  # of the picture for browsers without scripts

Json = dict[str, Any]


def write(scene: Scene, at: Any = None, title: str | None = None) -> str:
    """The whole file as text."""
    heading, _, note = (figure.headline(scene) if title is None else title).partition("\n")
    entries = _Entries(scene)
    content = _maps(scene, entries) if len(scene.columns) == 2 else _lines(scene, entries, at)
    data = {
        "note": note,
        "columns": [plain(c) for c in scene.columns],
        "label": scene.scale.label,
        "entries": entries.found,
        "trust": _trust(scene),
        **content,
    }
    parts = {
        "title": html.escape(heading),
        "data": _embedded(data),
        "picture": base64.b64encode(_picture(scene, at, title)).decode("ascii"),
        "drawing": asset("drawing.js").strip(),
    }
    template = asset("page.html")
    # All parts are filled in at once: names that strangers chose may themselves look like a place to fill in.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def asset(name: str) -> str:
    """A file of this package, as text."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def curves(scene: Scene, panels: Sequence[Panel]) -> Json:
    """What drawing.js draws of these panels."""
    entries = _Entries(scene)
    return {"label": scene.scale.label, **_drawn(scene, entries, panels), "entries": entries.found}


def _trust(scene: Scene) -> list[Json]:
    """Modules of ensembles that are not simply trusted, and why."""
    judged = [m for s in scene.subjects if isinstance(s.model, Ensemble) for m in s.model._members if m.verdict]
    return [
        {
            "name": plain(m.name),
            "standing": m.verdict.standing.value,
            "reason": printable(m.verdict.reason),
            "weight": m.weight,
        }
        for m in judged
        if m.verdict is not None and m.verdict.standing is not Standing.TRUSTED
    ]


def _embedded(data: Json) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _picture(scene: Scene, at: Any, title: str | None) -> bytes:
    stream = BytesIO()
    figure.new(scene, at, title)[0].savefig(stream, format="png", dpi=DPI)
    return stream.getvalue()


class _Entries:
    """What can be switched on and off, in order: models, owners, and modules of which only the points are known."""

    def __init__(self, scene: Scene) -> None:
        self.found: list[Json] = []
        self._positions: dict[tuple[str, str, str], int] = {}
        for s in scene.subjects:
            self._add(s.own, kind="ensemble" if s.merged else "module")

    def position(self, marks: Marks) -> int:
        """Of the entry that switches these points; a new one where there is none yet."""
        known = self._positions.get(marks[:3])
        return self._add(marks, kind="points") if known is None else known

    def of_owner(self, owner: Owner) -> int:
        """Of the entry that switches an owner's function, and the points of a module called and drawn like it."""
        marks = Marks(owner.label, owner.colour, owner.dashes, np.empty((0, 0)))
        known = self._positions.get(marks[:3])
        return self._add(marks, kind="owner") if known is None else known

    def _add(self, marks: Marks, kind: str) -> int:
        # Black becomes the colour of text in the reader's browser, which may be white on black.
        colour = None if marks.colour == BLACK else marks.colour
        self.found.append({"name": marks.label, "colour": colour, "dashes": marks.dashes, "kind": kind})
        return self._positions.setdefault(marks[:3], len(self.found) - 1)


def _lines(scene: Scene, entries: _Entries, at: Any) -> Json:
    return {"kind": "lines", **_drawn(scene, entries, numbers.panels(scene, figure.MOST_SLICES, at))}


def _drawn(scene: Scene, entries: _Entries, panels: Sequence[Panel]) -> Json:
    return {
        "span": ranges.height(panels, scene.scale)._asdict(),
        "crowded": scene.crowded,
        "panels": [_panel(p, scene, entries) for p in panels],
    }


def _panel(panel: Panel, scene: Scene, entries: _Entries) -> Json:
    curves = []
    for c in panel.curves:
        entry = next(i for i, s in enumerate(scene.subjects) if s is c.subject)
        curve: Json = {"entry": entry, "from": c.x[0], "to": c.x[-1], "banded": c.banded}
        curve |= {"mean": _short(c.centre), "low": _short(c.low), "high": _short(c.high)}
        if c.noisy is not None:
            curve |= {"noisy": [_short(limit) for limit in c.noisy]}
        if c.at is not None and not c.subject.merged:
            curve |= {"Z": _short(c.Z), "at": _short(c.at)}
        curve |= {"owners": [{"entry": entries.of_owner(o.owner), "mean": _short(o.centre)} for o in c.owners]}
        curves.append(curve)
    lanes = [
        {"entry": entries.position(marks), "chosen": marks.chosen, "Z": _short(marks.Z[:, panel.column])}
        for marks in panel.lanes
    ]
    return {"label": panel.label, "limits": list(panel.limits), "fixed": panel.fixed, "curves": curves, "lanes": lanes}


def _maps(scene: Scene, entries: _Entries) -> Json:
    shown = numbers.maps(scene, figure.MOST_MAPS)
    centres, sds = [m.centre for m in shown], [m.sd for m in shown]
    return {
        "kind": "maps",
        "region": scene.region.tolist(),
        "side": numbers.MAP_SIDE,
        "layers": [
            _layer(maps.quantity(scene), centres, shown, scene.scale, maps.MEAN_COLOURS),
            _layer(maps.spread(scene), sds, shown, None, maps.SD_COLOURS),
        ],
        "models": [
            {
                "entry": next(i for i, s in enumerate(scene.subjects) if s is m.subject),
                "points": [
                    {"entry": entries.position(k), "chosen": k.chosen, "x": _short(k.Z[:, 0]), "y": _short(k.Z[:, 1])}
                    for k in scene.marks(m.subject)
                ],
            }
            for m in shown
        ],
    }


def _layer(label: str, values: Sequence[Array], shown: Sequence[Map], scale: Scale | None, colours: str) -> Json:
    """One quantity over the plane, for every model."""
    span: Range = ranges.spread(values, scale)
    table = matplotlib.colormaps[colours](np.linspace(0, 1, COLOUR_STOPS))
    return {
        "label": label,
        "span": span._asdict(),
        "colours": [[round(255 * float(c)) for c in row[:3]] for row in table],
        "values": [_short(v.ravel()) for v in values],
        "contours": [_contours(m, v, ranges.contours(values, scale)) for m, v in zip(shown, values, strict=True)],
    }


def _contours(m: Map, values: Array, levels: Sequence[float]) -> list[Json]:
    inside = ranges.within(levels, values)
    if not inside:
        return []
    drawn = Figure().subplots().contour(m.x, m.y, values, levels=inside)
    return [
        {"level": level, "lines": [_short(line.ravel()) for line in lines if len(line) > 1]}
        for level, lines in zip(inside, drawn.allsegs, strict=True)
    ]


def _short(values: Array) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in values]
