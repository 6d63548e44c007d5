"""One HTML file to explore: hover to read values, switch models on and off, no network needed.

The numbers are computed here and embedded; page.html, drawing.js and maps.js draw them with a few functions of their
own, because a plotting library would add megabytes to every file.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ..errors import printable
from ..merging.verdicts import TRUSTED, Standing
from . import classes, figure, maps, numbers, ranges
from .numbers import Curve, Map, Panel
from .scale import Array, Scale
from .scene import MOST_TOLD_APART, Scene
from .style import BLACK, FAINT, encoded
from .subject import Marks, Subject, plain

COLOUR_STOPS = 64  # colours of a map, between which the page interpolates
SHADES = 24  # of the colour of each class, from the least certain to the most
DPI = 80  # of the picture for browsers without scripts
MOST_SIGNERS = 20  # that are named
DIGITS = 5  # significant digits of every number in the file

Json = dict[str, Any]


def write(scenes: Sequence[Scene], title: str | None = None) -> bytes:
    """The whole file."""
    heading, _, note = (figure.headline(scenes) if title is None else title).partition("\n")
    picture = encoded(figure.new(scenes, title)[0], "png", dpi=DPI)
    parts = {
        "title": html.escape(heading),
        "data": _embedded(
            {"note": ". ".join(filter(None, [note, _signed(scenes)])), "views": [_view(scene) for scene in scenes]}
        ),
        "picture": base64.b64encode(picture).decode("ascii"),
        "drawing": asset("drawing.js").strip(),
        "maps": asset("maps.js").strip(),
    }
    template = asset("page.html")
    # All parts are filled in at once: names that strangers chose may themselves look like a place to fill in.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template).encode()


def _signed(scenes: Sequence[Scene]) -> str:
    """Whose signatures were verified when ensembles were merged, in words; nothing where none were."""
    models = [subject.model for scene in scenes for subject in scene.subjects]
    signers = dict.fromkeys((s.name, s.key) for model in models for s in getattr(model, "signers", ()))
    said = [f"{plain(name)} with key {key[:16]}" for name, key in signers]
    more = [f"and {len(said) - MOST_SIGNERS:,} more"] if len(said) > MOST_SIGNERS else []
    return f"Signed: {', '.join([*said[:MOST_SIGNERS], *more])}" if said else ""


def _view(scene: Scene) -> Json:
    """What the page shows at once: one function, or all classes."""
    over_two = len(scene.columns) == 2
    if scene.scale.classes:
        content = _regions(scene) if over_two else _class_curves(scene)
    else:
        content = (
            _maps(scene, numbers.maps(scene, figure.MOST_MAPS))
            if over_two
            else _lines(scene, numbers.panels(scene, figure.MOST_SLICES))
        )
    return {"columns": [plain(c) for c in scene.columns], "label": scene.scale.label, "trust": _trust(scene), **content}


def asset(name: str) -> str:
    """A file of this package, as text."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def curves(scene: Scene, panels: Sequence[Panel]) -> Json:
    """What drawing.js draws of these panels."""
    return {"label": scene.scale.label, **_lines(scene, panels)}


def plane(scene: Scene, shown: Sequence[Map]) -> Json:
    """What maps.js draws of these models over two inputs."""
    return {"columns": [plain(c) for c in scene.columns], "label": scene.scale.label, **_maps(scene, shown)}


def _trust(scene: Scene) -> list[Json]:
    """Modules of ensembles that are not simply trusted, why, and what the others add to them."""
    doubted = [s for s in scene.subjects if any(m.verdict not in (None, TRUSTED) for m in s.said)]
    judged = [(m, m.verdict, s.model.functions[m.function]) for s in doubted for m in s.reported]
    return [
        {
            "name": plain(m.name),
            "function": plain(function),
            "standing": verdict.standing.value,
            "reason": printable(verdict.reason),
            "weight": m.weight,
            "others_add": m.others_add if math.isfinite(m.others_add) else None,
        }
        for m, verdict, function in judged
        if verdict is not None and verdict.standing is not Standing.TRUSTED
    ]


def _embedded(data: Json) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class Entries:
    """What can be switched on and off, in order, each known by its look: label, colour and dashes."""

    def __init__(self, first: Iterable[tuple[str, str, str]], kinds: Iterable[str]) -> None:
        self.found: list[Json] = []
        self._positions: dict[tuple[str, str, str], int] = {}
        for look, kind in zip(first, kinds, strict=True):
            self._add(look, kind)

    def position(self, look: tuple[str, str, str], kind: str) -> int:
        """Of the entry that switches this; a new one where there is none yet."""
        known = self._positions.get(look)
        return self._add(look, kind) if known is None else known

    def _add(self, look: tuple[str, str, str], kind: str) -> int:
        name, colour, dashes = look
        # Black becomes the colour of text in the reader's browser, which may be white on black.
        shown = None if colour == BLACK else colour
        self.found.append({"name": name, "colour": shown, "dashes": dashes, "kind": kind})
        return self._positions.setdefault(look, len(self.found) - 1)


def _models(scene: Scene) -> Entries:
    return Entries((s.own[:3] for s in scene.subjects), ("ensemble" if s.merged else "module" for s in scene.subjects))


def _classes(scene: Scene) -> Entries:
    """Classes, each in its colour; modules, of which only points are marked, come behind them."""
    names = scene.scale.classes
    looks = [(plain(name), colour, "-") for name, colour in zip(names, classes.colours(len(names)), strict=True)]
    return Entries(looks, ["class"] * len(looks))


def _short(values: Array) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in values]


# --- along one input ---


def _lines(scene: Scene, panels: Sequence[Panel]) -> Json:
    entries = _models(scene)
    found = [
        _panel(scene, p.column, p.fixed, [_of(c, scene, entries) for c in p.curves], p.lanes, entries) for p in panels
    ]
    return _of_lines(found, entries, ranges.height(panels, scene.scale), scene.crowded)


def _class_curves(scene: Scene) -> Json:
    """A panel for each model and input."""
    entries, panels = _classes(scene), []
    shown = scene.first(classes.MOST_MODELS)
    for subject in shown:
        own = [c for c, name in enumerate(scene.scale.classes) if name in subject.model.classes]
        lanes = [m._replace(colour=FAINT) for m in classes.points(scene, subject)]
        for column, x, p, fixed in classes.along(scene, subject, classes.MOST_SLICES):
            curves = [_curve(c, x, p[:, c]) | {"owners": []} for c in own]
            title = {"title": subject.label if len(shown) > 1 else None}
            panels.append(title | _panel(scene, column, fixed, curves, lanes, entries))
    return _of_lines(panels, entries, ranges.Range(0.0, 1.02), crowded=False) | {"label": "probability"}


def _of_lines(panels: list[Json], entries: Entries, span: ranges.Range, crowded: bool) -> Json:
    return {"kind": "lines", "span": span._asdict(), "crowded": crowded, "panels": panels, "entries": entries.found}


def _panel(
    scene: Scene, column: int, fixed: float | None, curves: list[Json], lanes: Sequence[Marks], entries: Entries
) -> Json:
    return {
        "label": plain(scene.columns[column]),
        "limits": scene.region[column].tolist(),
        "fixed": fixed,
        "curves": curves,
        "lanes": [_marks(m, entries) | {"Z": _short(m.Z[:, column])} for m in lanes],
    }


def _curve(entry: int, x: Array, mean: Array, *, banded: bool = False) -> Json:
    return {"entry": entry, "from": x[0], "to": x[-1], "banded": banded, "mean": _short(mean)}


def _of(c: Curve, scene: Scene, entries: Entries) -> Json:
    """A curve with all that belongs to it."""
    curve = _curve(_entry(c.subject, scene), c.x, c.centre, banded=c.banded)
    if not scene.scale.classes:  # of which there is no band
        curve |= {"low": _short(c.low), "high": _short(c.high)}
    if c.noisy is not None:
        curve |= {"noisy": [_short(limit) for limit in c.noisy]}
    if c.at is not None and not c.subject.merged:
        curve |= {"Z": _short(c.Z), "at": _short(c.at)}
    # a module that is called and drawn like its owner is switched with it
    owners = [{"entry": entries.position(o[1:], "owner"), "mean": _short(centre)} for o, centre in c.owners]
    return curve | {"owners": owners}


def _entry(subject: Subject, scene: Scene) -> int:
    return next(i for i, s in enumerate(scene.subjects) if s is subject)


def _marks(marks: Marks, entries: Entries) -> Json:
    return {"entry": entries.position(marks[:3], "points"), "chosen": marks.chosen}


# --- over two inputs ---


def _maps(scene: Scene, shown: Sequence[Map]) -> Json:
    entries = _models(scene)
    layers = [_layer(maps.quantity(scene), [m.centre for m in shown], shown, scene.scale, maps.MEAN_COLOURS)]
    if not scene.scale.classes:  # whose functions share one probability: no sd of one of them says anything about it
        layers.append(_layer(maps.spread(scene), [m.sd for m in shown], shown, None, maps.SD_COLOURS))
    models = [{"entry": _entry(m.subject, scene), "points": _points(scene.marks(m.subject), entries)} for m in shown]
    return _of_maps(scene, layers, models, entries)


def _regions(scene: Scene) -> Json:
    """A map for each model; a pixel is a place in the table of shades, of the likeliest class."""
    entries, C = _classes(scene), len(scene.scale.classes)
    shown = scene.first(classes.MOST_MODELS)
    found = [classes.region(scene, s, numbers.MAP_SIDE) for s in shown]
    usual = np.mean([np.nanmean(p, axis=(0, 1)) for _, _, p in found], axis=0)
    read = numbers.largest(usual, MOST_TOLD_APART)  # the page says the probabilities of these
    shades = np.linspace(classes.FAINTEST, 1, SHADES)[:, None]
    layer = {
        "label": "likeliest class",
        "span": ranges.Range(0, C * SHADES - 1)._asdict(),
        "colours": _rgb(np.concatenate([shades * to_rgb(c) + 1 - shades for c in classes.colours(C)])),
        "dashed": False,
        "values": [_shade(p) for _, _, p in found],
        "contours": [
            [
                line | {"level": None}
                for lead in classes.leads(p)
                if lead is not None
                for line in _contours(x, y, lead, [0.0])
            ]
            for x, y, p in found
        ],
    }
    models = [
        {"name": s.label, "points": _points([m._replace(colour=FAINT) for m in classes.points(scene, s)], entries)}
        for s in shown
    ]
    said = [{"entry": c, "values": [_short(p[..., c].ravel()) for _, _, p in found]} for c in read]
    return {"label": layer["label"], "read": said, **_of_maps(scene, [layer], models, entries)}


def _of_maps(scene: Scene, layers: list[Json], models: list[Json], entries: Entries) -> Json:
    found = {"kind": "maps", "region": scene.region.tolist(), "side": numbers.MAP_SIDE}
    return found | {"layers": layers, "models": models, "entries": entries.found}


def _points(marks: Sequence[Marks], entries: Entries) -> list[Json]:
    return [_marks(m, entries) | {"x": _short(m.Z[:, 0]), "y": _short(m.Z[:, 1])} for m in marks]


def _layer(label: str, values: Sequence[Array], shown: Sequence[Map], scale: Scale | None, colours: str) -> Json:
    """One quantity over the plane, for every model."""
    levels = ranges.contours(values, scale)
    return {
        "label": label,
        "span": ranges.spread(values, scale)._asdict(),
        "colours": _rgb(matplotlib.colormaps[colours](np.linspace(0, 1, COLOUR_STOPS))[:, :3]),
        "dashed": scale is not None and scale.is_probability,
        "values": [_short(v.ravel()) for v in values],
        "contours": [_contours(m.x, m.y, v, levels) for m, v in zip(shown, values, strict=True)],
    }


def _rgb(table: Array) -> list[list[int]]:
    return [[round(255 * float(v)) for v in row] for row in table]


def _contours(x: Array, y: Array, values: Array, levels: Sequence[float]) -> list[Json]:
    """Lines of these levels, as x, y, x, y, …"""
    inside = ranges.within(levels, values)
    if not inside:
        return []
    drawn = Figure().subplots().contour(x, y, values, levels=inside)
    return [
        {"level": level, "lines": [_short(line.ravel()) for line in lines if len(line) > 1]}
        for level, lines in zip(inside, drawn.allsegs, strict=True)
    ]


def _shade(p: np.ndarray) -> list[int | None]:
    """[class, shade] as one number."""
    known = np.isfinite(p).all(-1).ravel()
    best = np.nan_to_num(p).argmax(-1).ravel()
    share = (classes.strength(p).ravel() - classes.FAINTEST) / (1 - classes.FAINTEST)
    places = best * SHADES + np.round(share * (SHADES - 1)).astype(int)
    return [int(place) if here else None for place, here in zip(places, known, strict=True)]
