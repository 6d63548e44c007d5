"""What is drawn of a choice: curves along one input, or a map over two; for the page, and as a picture to keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from .. import likelihoods
from ..categories import shown
from ..errors import RecycleGPError
from ..models.module import Module
from ..plot import figure, lines, maps, numbers, page, ranges
from ..plot.numbers import Curve, Map, Panel
from ..plot.ranges import Range
from ..plot.scale import Model
from ..plot.scene import COLOURS, DASHES, Scene, scenes
from ..plot.style import FAINT, encoded
from ..plot.subject import Subject
from .choices import Choice
from .functions import name_of, position, position_in
from .looking import Looking
from .state import ServeState, Snapshot

MOST_DRAWN = 60  # modules whose own curves are drawn
NOT_COUNTED = ":"  # the line of a module that does not count
LINES = tuple(d for d in DASHES if d != NOT_COUNTED)  # of owners, when all colours are used
MOST_STRETCHED = 2.5  # times the height of those that count: curves beyond it are cut off
PICTURES = ("png", "svg", "pdf")

Json = dict[str, Any]


class Drawing(NamedTuple):
    """A scene with the ensemble of now; everybody as they were sent; and those who are switched on."""

    scene: Scene
    whose: Subject  # of whom a map is
    left_out: int  # modules that are not drawn, because there are too many
    compared: str  # what everybody as they were sent are called


def looks(snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """Colour and dashes of each owner, the same whoever is switched on."""
    names = dict.fromkeys(m.owner for m in snapshot.modules)
    return {name: (COLOURS[k % len(COLOURS)], LINES[k // len(COLOURS) % len(LINES)]) for k, name in enumerate(names)}


# --- categories, each of which is held at one level ---


class Levels(NamedTuple):
    """A column of categories."""

    column: str
    names: tuple[str, ...]
    usual: str  # the one that most points have


def category_levels(modules: Sequence[Module]) -> list[Levels]:
    """Of all columns of categories; none where their modules cannot be drawn together, which drawing them says."""
    try:
        first = scenes(modules, owners=False)[0].subjects[0]
    except RecycleGPError:
        return []
    held = first.held
    names = dict(held.categories.levels)
    every = _columns(modules[0])
    return [Levels(every[c], tuple(names[c]), usual) for c, usual in held.words]


def _columns(m: Model) -> list[str]:
    return list(m.columns) if m.columns is not None else [f"x{j + 1}" for j in range(m.dimension)]


def _check_levels(looking: Looking, models: Sequence[Model]) -> None:
    known: dict[str, set[str]] = {}
    for m in models:
        every = _columns(m)
        for c, names in m.categories.levels:
            known.setdefault(every[c], set()).update(names)
    for column, level in looking.levels:
        if column not in known:
            raise RecycleGPError(f"levels: {column} is no column of categories")
        if level not in known[column]:
            others = shown(sorted(known[column]))
            raise RecycleGPError(f"nobody who is switched on knows {column} = {level}; choose another level: {others}")


# --- the scene ---


def draw(serve_state: ServeState, choice: Choice, looking: Looking) -> Drawing:
    """One function of the ensemble, of those that are switched on, and of everybody as they were sent."""
    snapshot = serve_state.snapshot
    function = name_of(snapshot, looking.function)
    merged, usual = serve_state.merged(choice), serve_state.usual()
    e = merged.ensemble
    able = [m for m in snapshot.chosen(choice) if position(m, function) is not None]
    some = able[:MOST_DRAWN]
    others = [] if usual is None or usual is merged else [usual.ensemble]
    models: list[Model] = [*some, e, *others]
    names = [*(m.name for m in some), "merged", *(snapshot.compared for _ in others)]
    k = position_in(e, function)
    counted = {m.name for m in e._members if m.function == k and m.weight > 0}
    _check_levels(looking, models)
    family, at = _family(models, function), dict(looking.levels)
    (scene,) = scenes(models, names=names, owners=False, likelihood=family, function=function, at=at or None)
    scene = _with_looks(scene, snapshot, counted)
    return Drawing(scene, _whose(scene, snapshot, looking.whose), len(able) - len(some), snapshot.compared)


def _whose(scene: Scene, snapshot: Snapshot, module: int | None) -> Subject:
    """A module, unless it is switched off; or the merged model of now."""
    if module is not None and not 0 <= module < len(snapshot.held):
        raise RecycleGPError(f"whose {module}: there are {len(snapshot.held)} modules")
    name = None if module is None else snapshot.held[module].module.name
    merged = next(s for s in scene.subjects if s.merged)
    return next((s for s in scene.subjects if name is not None and s.origin.name == name), merged)


def _family(models: list[Model], function: str) -> str | None:
    """Where all are of classes, or all of counts, by whatever link, these are drawn."""
    own = [(m, position(m, function)) for m in models]
    names = list(dict.fromkeys(p.parts[k].name for m, k in own if k is not None for p in m.likelihoods))
    alike = len(names) > 1 and all(likelihoods.named(name).classifies for name in names)
    return names[0] if alike else None


def _with_looks(scene: Scene, snapshot: Snapshot, counted: set[str]) -> Scene:
    of_owners = looks(snapshot)
    subjects = []
    for s in scene.subjects:
        if s.origin.owner is not None:
            colour, dashes = of_owners[s.origin.owner]
            s = s._replace(colour=colour, dashes=dashes if s.origin.name in counted else NOT_COUNTED)
        elif s.label == snapshot.compared:
            s = s._replace(colour=FAINT, dashes="--")
        subjects.append(s._replace(members=[]))  # points of those who are switched off
    return scene._replace(subjects=subjects)


# --- curves, or a map ---


def drawn(d: Drawing, looking: Looking) -> Json:
    """What the page draws."""
    if looking.column is None:
        return page.plane(d.scene, [_map(d)])
    panel = _panel(d, looking)
    return page.curves(d.scene, [panel]) | {"span": _height(d.scene, panel)._asdict()}


def picture(d: Drawing, looking: Looking, kind: str, title: str) -> bytes:
    """The same as a file."""
    if kind not in PICTURES:
        raise RecycleGPError(f"kind: choose one of {', '.join(PICTURES)}")
    if looking.column is None:
        several = not d.scene.scale.classes
        made = Figure(figsize=(9.6 if several else 5.6, 4.6), dpi=figure.DPI, layout="constrained")
        axes, found = made.subplots(1, 1 + several, squeeze=False)[0].tolist(), [_map(d)]
        maps.draw(made, axes[:1], axes[1:], found, d.scene)
        key = maps.key(found, d.scene)
    else:
        panel = _panel(d, looking)
        made = Figure(figsize=(8, 5), dpi=figure.DPI, layout="constrained")
        figure.along(d.scene, [made.subplots()], [panel], span=_height(d.scene, panel))
        key = lines.key([panel], d.scene)
    figure.explain(made, key, f"{title}; at {d.scene.fixed}" if d.scene.fixed else title)
    return encoded(made, kind)


def _panel(d: Drawing, looking: Looking) -> Panel:
    column = looking.column
    if column is None or not 0 <= column < len(d.scene.columns):
        raise RecycleGPError(f"column {column}: there are {len(d.scene.columns)} inputs")
    return _plainer(numbers.panel(d.scene, column, d.scene.middle), d.compared)


def _map(d: Drawing) -> Map:
    if len(d.scene.columns) != 2:
        raise RecycleGPError(f"a map is of two inputs, and there are {len(d.scene.columns)}")
    return numbers.map_of(d.scene, d.whose)


def _plainer(panel: Panel, compared: str) -> Panel:
    """Bands and points of the ensemble of now alone: others would hide each other."""
    curves = [
        c if c.subject.merged and c.subject.label != compared else c._replace(banded=False, noisy=None)
        for c in panel.curves
    ]
    return panel._replace(curves=curves, lanes=[m for m in panel.lanes if not (m.chosen and m.label == compared)])


def _height(scene: Scene, panel: Panel) -> Range:
    """The range of all that counts, and of whatever else does not squeeze it."""

    def of(curves: list[Curve]) -> Range:
        return ranges.height([panel._replace(curves=curves)], scene.scale)

    inside = [c for c in panel.curves if c.subject.merged or c.subject.dashes != NOT_COUNTED]
    least = of(inside)
    for curve in panel.curves:
        wider = of([*inside, curve])
        if wider.high - wider.low <= MOST_STRETCHED * (least.high - least.low):
            inside.append(curve)
    return of(inside)
