"""Which models are drawn, and where: checked, in one order of columns, with their colours and the region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from .. import arrays
from ..arrays import CodedInputs
from ..categories import Categories, shown, union_of
from ..errors import RecycleGPError
from ..kernels import units
from ..models.ensemble import Ensemble
from ..models.joint.predictive import JointPredictive
from ..models.module import Module
from .scale import Array, Band, Model, Reading, Scale, choose
from .style import BAND_LEVEL, BLACK, BLUE, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)  # of modules; yellow lines are hard to see on white
DASHES = ("-", "--", "-.", ":")  # tell models apart when all colours are used
MERGED = (BLACK, VERMILION, BLUE)  # colours of ensembles
MARGIN = 0.06  # of the points' extent, added on either side: data reach a little further than published points
MOST_TOLD_APART = 12  # models; with more of them there are no bands, and a short legend
MOST_MODELS = 200  # models in one figure
LONGEST_NAME = 34  # characters


class Held(NamedTuple):
    """Categories do not vary in a figure: each is held at one level."""

    free: list[int]  # the columns that do vary, among all
    categories: Categories  # the levels that any of the models knows
    codes: Array  # (D,): at which level each category is held; zero for the other columns

    @property
    def words(self) -> list[tuple[int, str]]:
        """Columns, and their levels by name."""
        return [(c, names[int(self.codes[c])]) for c, names in self.categories.levels]


Look = tuple[str, str]  # colour and dashes


class Marks(NamedTuple):
    """Points of one colour: where one module has published, or an ensemble's Z_*."""

    label: str
    colour: str
    dashes: str  # tell it from others of the same colour
    Z: Array  # (M, D)
    chosen: bool = False  # are they Z_*, which merging has chosen?


class Owner(NamedTuple):
    """Somebody whose own function an ensemble knows, as it is drawn."""

    name: str
    label: str
    colour: str
    dashes: str


class Whole(NamedTuple):
    """A model of several functions, of which one is drawn."""

    model: JointPredictive
    function: int | None  # which of its outputs; None where all of them are about f

    def predict(self, rows: Any, owner: str | None) -> tuple[Array, Array]:
        mean, variance = (np.asarray(t) for t in self.model.predict(rows, owner))
        return (mean, variance) if self.function is None else (mean[:, self.function], variance[:, self.function])


class Subject(NamedTuple):
    """A model as it is drawn."""

    model: Model
    label: str
    colour: str
    dashes: str
    order: list[int]  # its own j-th column is the figure's column order[j]
    Z: Array  # (M, D): published points, or Z_*
    members: list[Marks]  # of an ensemble that has kept them
    owners: list[Owner]  # of an ensemble whose owners differ, those that are drawn
    held: Held  # what the figure does not vary
    whole: Whole | None = None  # of which it is one function

    @property
    def merged(self) -> bool:
        return isinstance(self.model, Ensemble)

    @property
    def own(self) -> Marks:
        return Marks(self.label, self.colour, self.dashes, self.Z, self.merged)

    @property
    def owners_differ(self) -> bool:
        return isinstance(self.model, Ensemble) and self.model._owners_differ

    def predict(self, X: Array, owner: str | None = None) -> tuple[Array, Array]:
        """Mean and variance of f, the shared one or an owner's, X in the figure's columns."""
        if self.whole is not None:
            return self.whole.predict(self.rows(X), owner)
        mean, variance = self.model.predict(CodedInputs(self._own(X)), owner)
        return mean, variance

    def length(self, column: int) -> float:
        """The lengthscale along a column of the figure; 1 where the kernel has none."""
        lengths = units.lengths(self.model.kernel_spec, self.model.dimension).nan_to_num(posinf=1.0)
        return float(lengths[self.order.index(self.held.free[column])])

    def varying_band(self, X: Array, owner: str | None) -> Band | None:
        """The 95% band of a new y, where noise varies."""
        if self.whole is None or self.whole.function is not None:
            return None
        return Band(*self.whole.model.predict_interval(self.rows(X), BAND_LEVEL, owner))

    def rows(self, X: Array) -> Any:
        """Rows of the figure as every model of these columns takes them: categories by name."""
        levels = self._levels
        codes = self._own(X)
        return pd.DataFrame(levels.named(codes), columns=self.model.columns) if levels.columns else codes

    def _own(self, X: Array) -> Array:
        """Rows of the figure in the model's own columns and codes."""
        whole = np.tile(self.held.codes, (len(X), 1))
        whole[:, self.held.free] = X
        return self.own_inputs(whole)

    def own_inputs(self, whole: Array) -> Array:
        """Rows in all columns and codes of the figure, also those it holds, in the model's own columns and codes."""
        levels = self.held.categories.permuted(self.order)
        return levels.recoded(torch.tensor(whole[:, self.order]), self._levels).numpy()

    @property
    def _levels(self) -> Categories:
        """Of the model, and behind them those that only others know."""
        return self.model.categories.union(self.held.categories.permuted(self.order))

    @property
    def whole_points(self) -> Array:
        """Its points in all columns and codes of the figure."""
        levels = self.model.categories.permuted(np.argsort(self.order).tolist())
        return levels.recoded(torch.tensor(_in_order(self.model.inducing, self.order)), self.held.categories).numpy()


class Scene(NamedTuple):
    subjects: list[Subject]
    left_out: int  # number of models beyond MOST_MODELS
    columns: list[str]
    region: Array  # (D, 2)
    scale: Scale
    fixed: str = ""  # the levels at which categories are held, in words

    @property
    def points(self) -> Array:
        """Every point of every module that is known; (n, D)."""
        return np.concatenate([Z for s in self.subjects for Z in (s.Z, *(m.Z for m in s.members))])

    @property
    def members(self) -> list[Marks]:
        """Modules of which only the points are known."""
        return [m for s in self.subjects for m in s.members]

    @property
    def crowded(self) -> bool:
        """Are there more models than can be told apart?"""
        return len(self.subjects) > MOST_TOLD_APART

    @property
    def any_merged(self) -> bool:
        return any(s.merged for s in self.subjects)

    def read(self, subject: Subject, X: Array, owner: str | None = None) -> Reading:
        return self.scale.read(*subject.predict(X, owner))

    def by_column(self, given: Mapping[Any, Any], argument: str) -> dict[int, Any]:
        """The caller's values for named columns, by the positions of these columns."""
        strangers = [str(c) for c in given if c not in self.columns]
        if strangers:
            known = ", ".join(self.columns)
            raise RecycleGPError(f"{argument}: no column is named {', '.join(strangers)}; there are {known}")
        return {self.columns.index(c): value for c, value in given.items()}

    def marks(self, subject: Subject) -> list[Marks]:
        """All points that belong to a model, last its own: those of an ensemble come after those of its modules."""
        if not isinstance(subject.model, Ensemble):
            return [subject.own]
        inside = set(subject.model.names)
        drawn = [s.own for s in self.subjects if isinstance(s.model, Module) and s.model.name in inside]
        return [*drawn, *subject.members, subject.own]


def scene(
    given: Sequence[Any],
    *,
    region: Any = None,
    likelihood: str | None = None,
    names: Sequence[str] | None = None,
    owners: bool = True,
    levels: Mapping[str, Any] = MappingProxyType({}),
    looks: Mapping[str, Look] = MappingProxyType({}),
) -> Scene:
    """Check everything that a caller has passed, and arrange it.

    Categories are held at `levels`; `looks` are of modules that other scenes have, too.
    """
    models: list[Model] = list(given)
    if not isinstance(owners, bool):
        raise TypeError(f"owners must be True or False, not {owners!r}")
    for m in models:
        if not isinstance(m, (Module, Ensemble)):
            raise TypeError(f"only Modules and Ensembles can be drawn, not {type(m).__name__}")
    if not models:
        raise RecycleGPError("nothing to draw: pass at least one Module or Ensemble")
    labels = _labels(models, names)
    columns = _columns(models, labels)
    kept = _first(models)
    every = list(columns) if columns else _numbered(models[0].dimension)
    held = _held([models[i] for i in kept], [labels[i] for i in kept], columns, every, levels)
    subjects = _subjects([models[i] for i in kept], [labels[i] for i in kept], columns, owners, held, looks)
    drawn = Scene(
        subjects=subjects,
        left_out=len(models) - len(kept),
        columns=[every[c] for c in held.free],
        region=np.empty(0),
        scale=_described(choose(models, likelihood), models),
        fixed=", ".join(f"{plain(every[c])} = {plain(level)}" for c, level in held.words),
    )
    return drawn._replace(region=_region(drawn, region))


def plain(text: str) -> str:
    """Text for a figure: shortened, and without characters that do not print."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"


def called(name: str, units: Sequence[str | None]) -> str:
    """A name for an axis, with the unit that all who say one agree on."""
    said = {unit for unit in units if unit}
    return f"{plain(name)} ({plain(said.pop())})" if len(said) == 1 else plain(name)


def _described(scale: Scale, models: Sequence[Model]) -> Scale:
    """With the target's name, and the name of class 1, where all models on this scale that say one say the same."""
    family = None if scale.likelihood is None else scale.likelihood.name
    targets = [m.target for m in models if family in {p.name for p in m.likelihoods}]
    names = {t.name for t in targets if t.name}
    classes = {t.labels[1] for t in targets if t.labels is not None and t.labels[1]}
    return scale._replace(
        target=called(names.pop(), [t.unit for t in targets]) if len(names) == 1 else None,
        positive=plain(classes.pop()) if len(classes) == 1 else scale.positive,
    )


def extent(subject: Subject, column: int) -> tuple[float, float]:
    """Where a model has points along a column, with a margin on either side."""
    return _grown(subject.Z[:, column], subject, column)


def _numbered(dimension: int) -> list[str]:
    return ["x"] if dimension == 1 else [f"x{j + 1}" for j in range(dimension)]


def _labels(models: Sequence[Model], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if isinstance(names, str) or len(names) != len(models):
            raise RecycleGPError(f"names={names!r}: pass one name for each of the {len(models)} models")
        return [str(n) for n in names]
    merged = sum(isinstance(m, Ensemble) for m in models)
    count = iter(range(1, merged + 1))
    return [m.name if isinstance(m, Module) else f"merged {next(count)}" if merged > 1 else "merged" for m in models]


def _columns(models: Sequence[Model], labels: Sequence[str]) -> arrays.Columns:
    for m, label in zip(models, labels, strict=True):
        if m.dimension != models[0].dimension:
            raise RecycleGPError(
                f"{labels[0]!r} has {models[0].dimension} input columns and {label!r} has {m.dimension}; "
                "draw them in figures of their own"
            )
    return arrays.common_columns([m.columns for m in models], labels)


def _held(
    models: Sequence[Model],
    labels: Sequence[str],
    columns: arrays.Columns,
    every: Sequence[str],
    levels: Mapping[str, Any],
) -> Held:
    """Each category at the level that was asked for, or else at the one that most of the points have."""
    own = [m.categories.permuted(np.argsort(_order(m, columns)).tolist()) for m in models]
    for label, found in zip(labels[1:], own[1:], strict=False):
        if found.columns != own[0].columns:
            raise RecycleGPError(
                f"{labels[0]!r} and {label!r} do not have categories in the same columns; draw each in a figure of "
                "its own"
            )
    categories = union_of(own)
    free = [j for j in range(len(every)) if j not in categories.columns]
    if not free:
        raise RecycleGPError("all inputs are categories, and no curve can be drawn along them; use predict")
    known = [
        mine.recoded(torch.tensor(_in_order(m.inducing, _order(m, columns))), categories)
        for m, mine in zip(models, own, strict=True)
    ]
    codes = np.zeros(len(every))
    for column, names in categories.levels:
        codes[column] = float(torch.cat([Z[:, column] for Z in known]).mode().values)
        if every[column] in levels:
            wanted = levels[every[column]]
            wanted = f"{wanted:g}" if isinstance(wanted, float) else str(wanted)
            if wanted not in names:
                raise RecycleGPError(f"at of {every[column]} is {wanted!r}; its levels are {shown(names)}")
            codes[column] = names.index(wanted)
    return Held(free, categories, codes)


def _order(m: Model, columns: arrays.Columns) -> list[int]:
    return [columns.index(c) for c in m.columns] if columns and m.columns else list(range(m.dimension))


def _first(models: Sequence[Model]) -> list[int]:
    """Positions of at most MOST_MODELS models. Modules are left out before ensembles."""
    by_rank = sorted(range(len(models)), key=lambda i: isinstance(models[i], Module))
    return sorted(by_rank[:MOST_MODELS])


def _subjects(
    models: Sequence[Model],
    labels: Sequence[str],
    columns: arrays.Columns,
    owners: bool,
    held: Held,
    known: Mapping[str, Look],
) -> list[Subject]:
    looks = {Module: looks_of(COLOURS), Ensemble: looks_of(MERGED)}
    subjects = []
    few = len(models) <= MOST_TOLD_APART
    for m, label in zip(models, labels, strict=True):
        given = known.get(m.name) if isinstance(m, Module) else None
        colour, dashes = given or next(looks[type(m)])
        dashes = dashes if few or isinstance(m, Ensemble) else "-"  # so many could not be told apart by dashes
        order = _order(m, columns)
        Z = _in_order(m.inducing, order)[:, held.free]
        subjects.append(Subject(m, plain(label), colour, dashes, order, Z, [], [], held))
    named = {m.name for m in models if isinstance(m, Module)}  # they are drawn with their points
    seen = dict(known)
    for s in subjects:
        s.members.extend(_members(s, named, seen, looks[Module]))
        if owners and s.owners_differ:
            s.owners.extend(_owners(s, {m.owner for m in models if isinstance(m, Module)}, seen, looks[Module]))
    return subjects


def _members(s: Subject, named: set[str], seen: dict[str, Look], looks: Iterator[Look]) -> list[Marks]:
    """The points an ensemble has kept of modules that are not drawn themselves; a module has one colour everywhere."""
    if not isinstance(s.model, Ensemble):
        return []
    known = [
        (m.name, _in_order(arrays.frozen(m.site.Z), s.order)[:, s.held.free])
        for m in s.model._members
        if m.site is not None and m.weight > 0 and m.name not in named
    ]
    if len(known) > MOST_TOLD_APART:
        return [Marks(f"points of {len(known)} modules", FAINT, "-", np.concatenate([Z for _, Z in known]))]
    for name, _ in known:
        if name not in seen:
            seen[name] = next(looks)
    return [Marks(plain(name), *seen[name], Z) for name, Z in known]


def _owners(s: Subject, drawn: set[str], seen: dict[str, Look], looks: Iterator[Look]) -> list[Owner]:
    """Owners of whom no module is drawn itself; an owner has the colour of the first of its modules."""
    first = _first_modules(s.model) if isinstance(s.model, Ensemble) else {}
    known = {name: module for name, module in first.items() if name not in drawn}
    if len(known) > MOST_TOLD_APART:
        return [Owner(name, f"{len(known):,} owners", FAINT, "-") for name in list(known)[:MOST_MODELS]]
    for module in known.values():
        if module not in seen:
            seen[module] = next(looks)
    return [Owner(name, plain(name), *seen[module]) for name, module in known.items()]


def _first_modules(e: Ensemble) -> dict[str, str]:
    """Of each owner whose function the ensemble can tell from others', which at points needs all of its sites."""
    counted = [m for m in e._members if m.weight > 0]
    lost = set() if e.size.form == "exact" else {m.owner for m in counted if m.site is None}
    found: dict[str, str] = {}
    for m in counted:
        if m.owner not in lost:
            found.setdefault(m.owner, m.name)
    return found


def looks_of(colours: Sequence[str]) -> Iterator[Look]:
    """Colours in turn, then the same ones dashed, and so on without end."""
    return ((colour, dashes) for dashes in cycle(DASHES) for colour in colours)


def _in_order(Z: Array, order: list[int]) -> Array:
    found = np.empty_like(Z)
    found[:, order] = Z
    return found


def _region(drawn: Scene, region: Any) -> Array:
    """Around all points, except where the caller has given a region."""
    D = len(drawn.columns)
    found = np.array([_around(drawn, j) for j in range(D)])
    if region is None:
        return found
    if isinstance(region, Mapping):
        wanted = drawn.by_column(region, "region")
    else:
        table = arrays.as_tensor(region, "region", "cpu").numpy()
        table = table[None] if table.shape == (2,) and D == 1 else table
        if table.shape != (D, 2):
            raise RecycleGPError(
                f"region has shape {table.shape} for {D} input column{'s' * (D > 1)}; pass (low, high) for each, or a "
                "mapping from names to (low, high)"
            )
        wanted = dict(enumerate(table))
    for j, limits in wanted.items():
        what = f"region of {drawn.columns[j]}"
        pair = arrays.as_tensor(limits, what, "cpu").tolist()
        if not isinstance(pair, list) or len(pair) != 2 or not pair[0] < pair[1]:
            raise RecycleGPError(f"{what} is {limits}; pass (low, high)")
        found[j] = pair
    return found


def _around(drawn: Scene, column: int) -> tuple[float, float]:
    return _grown(drawn.points[:, column], drawn.subjects[0], column)


def _grown(values: Array, subject: Subject, column: int) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    by = MARGIN * (high - low)
    if not by > 1e-9 * max(abs(low), abs(high)):  # all points are at one place: draw as far as the kernel reaches
        by = 2 * subject.length(column)
    return low - by, high + by
