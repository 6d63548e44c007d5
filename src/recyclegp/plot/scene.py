"""Which models are drawn, and where: checked, in one order of columns, with their colours and the region.

Each output has a scene of its own, all classes have one together, and all scenes of a figure share their region.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import arrays
from ..categories import shown, union_of
from ..errors import Argument, RecycleGPError
from ..likelihoods import Likelihood, Outputs
from ..models.predictive import Predictive
from ..target import with_unit
from .scale import Array, Model, Reading, Scale, choose
from .style import BLACK, BLUE, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION
from .subject import Held, Look, Marks, Origin, Owner, Subject, in_order, origin_of, places, plain, together

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)  # of modules; yellow lines are hard to see on white
DASHES = ("-", "--", "-.", ":")  # tell models apart when all colours are used
MERGED = (BLACK, VERMILION, BLUE)  # colours of ensembles
MARGIN = 0.06  # of the points' extent, added on either side: data reach a little further than published points
MOST_TOLD_APART = 12  # models; with more of them there are no bands, and a short legend
MOST_MODELS = 200  # models in one figure


class Scene(NamedTuple):
    subjects: list[Subject]
    left_out: int  # number of models beyond MOST_MODELS
    columns: list[str]
    region: Array  # (D, 2)
    scale: Scale
    fixed: str = ""  # the levels at which categories are held, in words
    kind: str = ""  # what the functions of its models are, where there are several
    at: Any = None  # where the caller wants slices to hold the other inputs

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

    def first(self, most: int) -> list[Subject]:
        """At most so many; modules are left out before ensembles."""
        return [self.subjects[i] for i in _first([s.merged for s in self.subjects], most)]

    def read(self, subject: Subject, X: Array, owner: str | None = None) -> Reading:
        if self.scale.classes:  # which share their probability, so that no band of f would be one of it
            p = subject.probabilities(X)[:, subject.functions[0]]
            return Reading(p, p, p)
        return self.scale.read(*subject.predict(X, owner))

    @property
    def middle(self) -> Array:
        """Where a slice holds the other inputs: at the median of all points, unless the caller says otherwise."""
        base: Array = np.median(self.points, axis=0)
        if self.at is None:
            return base
        if isinstance(self.at, Mapping):
            for j, value in self.by_column(self.at, "at").items():
                base[j] = arrays.number(value, f"at of {self.columns[j]}")
            return base
        given: Array = arrays.as_tensor(self.at, "at", "cpu").numpy().reshape(-1)
        if len(given) != len(base):
            raise RecycleGPError(
                f"at has {len(given)} numbers for {len(base)} input columns; pass one each, or a mapping"
            )
        return given

    def by_column(self, given: Mapping[Any, Any], argument: str) -> dict[int, Any]:
        """The caller's values for named columns, by the positions of these columns."""
        strangers = [str(c) for c in given if c not in self.columns]
        if strangers:
            known = ", ".join(self.columns)
            raise RecycleGPError(f"{argument}: no column is named {', '.join(strangers)}; there are {known}")
        return {self.columns.index(c): value for c, value in given.items()}

    def marks(self, subject: Subject) -> list[Marks]:
        """All points that belong to a model, last its own: those of an ensemble come after those of its modules."""
        inside = set(subject.origin.modules)
        drawn = [s.own for s in self.subjects if s.origin.name in inside]
        return [*drawn, *subject.members, subject.own]


class Drawn(NamedTuple):
    """A model, whichever of its functions is drawn."""

    model: Model
    origin: Origin
    label: str
    whole: Likelihood  # of its functions, by the names that they have in the figure
    look: Look = (BLACK, "-")


def scenes(
    given: Sequence[Any],
    *,
    region: Any = None,
    likelihood: str | None = None,
    names: Sequence[str] | None = None,
    owners: bool = True,
    at: Any = None,
    function: str | None = None,
) -> list[Scene]:
    """Check everything that a caller has passed, and arrange it: as a scene for each output, or for one function.

    Of noise that varies there is a scene over two inputs only; else it is in a band.
    """
    if not isinstance(owners, bool):
        raise TypeError(f"owners must be True or False, not {owners!r}")
    everybody = _checked(given, names, function)
    whole = _united([d.whole for d in everybody])
    if likelihood is not None and len(whole.functions) > 1 and (whole.classifies or not whole.predicts_all):
        raise RecycleGPError(
            Argument("likelihood", likelihood), f": models of {whole.meaning} have their own; leave it out"
        )
    columns = _columns(everybody)
    drawn = [everybody[i] for i in _first([d.origin.name is None for d in everybody], MOST_MODELS)]
    drawn, looks = _with_looks(drawn)
    every = list(columns) if columns else _numbered(drawn[0].model.dimension)
    levels, at = _levels(drawn, columns, every, at)
    held = _held(drawn, columns, every, levels)
    fixed = ", ".join(f"{plain(every[c])} = {plain(level)}" for c, level in held.words)
    free, left_out = [every[c] for c in held.free], len(everybody) - len(drawn)
    found = []
    each = _functions(whole, function, over_two=len(free) == 2)
    for wanted in each:
        subjects = [_subject(d, wanted, columns, held, few=len(drawn) <= MOST_TOLD_APART) for d in drawn]
        own = [_with_inside(s, drawn, looks, owners) for s in subjects if s is not None]
        if own:
            scale = _scale(whole, wanted[0], own, likelihood, alone=len(each) == 1)
            found.append(Scene(own, left_out, free, np.empty(0), scale, fixed, _kind(whole), at))
    if not found:
        raise RecycleGPError(f"nothing to draw: no model here has {function}; there are {', '.join(whole.functions)}")
    common = _region(found, region)
    return [scene._replace(region=common) for scene in found]


# --- whose functions ---


def functions_of(models: Sequence[Model]) -> Likelihood:
    """What all functions of these models are together."""
    return _united(_wholes(models, None))


def _united(wholes: Sequence[Likelihood]) -> Likelihood:
    return reduce(lambda a, b: a.united(b), wholes)


def _wholes(models: Sequence[Model], function: str | None) -> list[Likelihood]:
    """The functions of each model; among outputs, or where one is asked for, a single one is what its y is called."""
    wholes = [m.likelihoods[0] for m in models]
    named = function is not None and not any(function in w.functions for w in wholes)
    if not named and not any(w.predicts_all and not w.classifies for w in wholes):
        return wholes
    alone = [len(w.functions) == 1 and not w.predicts_all for w in wholes]
    return [Outputs(m.outputs, (w,)) if one else w for m, w, one in zip(models, wholes, alone, strict=True)]


def _checked(given: Sequence[Any], names: Sequence[str] | None, function: str | None) -> list[Drawn]:
    models: list[Model] = list(given)
    for m in models:
        if not isinstance(m, Predictive):
            raise TypeError(f"only Modules and Ensembles can be drawn, not {type(m).__name__}")
    if not models:
        raise RecycleGPError("nothing to draw: pass at least one Module or Ensemble")
    origins = [origin_of(m) for m in models]
    labels = _labels(origins, names)
    return [Drawn(*own) for own in zip(models, origins, labels, _wholes(models, function), strict=True)]


def _functions(whole: Likelihood, function: str | None, *, over_two: bool) -> list[tuple[str, ...]]:
    """The functions of each scene, by name."""
    if function is not None:
        return [(function,)]
    if whole.predicts_all and whole.classifies:
        return [whole.functions]
    return [(name,) for name in (whole.functions if whole.predicts_all or over_two else whole.functions[:1])]


def _kind(whole: Likelihood) -> str:
    several = len(whole.functions) > 1
    return f"{len(whole.functions)} {whole.meaning}" if several and whole.predicts_all else whole.meaning * several


def _scale(whole: Likelihood, function: str, own: Sequence[Subject], wanted: str | None, *, alone: bool) -> Scale:
    """With the target's name, and the name of class 1, where all models on this scale that say one say the same."""
    scale = choose(whole, function, [p for s in own for p in s.likelihoods], wanted)
    family = None if scale.likelihood is None else scale.likelihood.name
    targets = [s.model.targets[s.functions[0]] for s in own if family in {p.name for p in s.likelihoods}]
    names = {t.name for t in targets if t.name}
    classes = {t.labels[1] for t in targets if t.labels is not None and t.labels[1]}
    units = [t.unit for t in targets]
    varying = len(whole.functions) > 1 and not whole.predicts_all
    named = (varying and not (alone and scale.varies)) or (whole.predicts_all and not whole.classifies)
    return scale._replace(
        name=_called(function, units) if named else None,
        target=_called(names.pop(), units) if len(names) == 1 else None,
        positive=plain(classes.pop()) if len(classes) == 1 else plain(scale.positive),
    )


def _called(name: str, units: Sequence[str | None]) -> str:
    """A name for an axis, with the unit that all who say one agree on."""
    said = {unit for unit in units if unit}
    return with_unit(plain(name), plain(said.pop()) if len(said) == 1 else None)


def _numbered(dimension: int) -> list[str]:
    return ["x"] if dimension == 1 else [f"x{j + 1}" for j in range(dimension)]


def _labels(origins: Sequence[Origin], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if isinstance(names, str) or len(names) != len(origins):
            raise RecycleGPError(f"names={names!r}: pass one name for each of the {len(origins)} models")
        return [str(n) for n in names]
    merged = sum(o.name is None for o in origins)
    count = iter(range(1, merged + 1))
    return [f"merged {next(count)}" if o.name is None and merged > 1 else o.name or "merged" for o in origins]


def _columns(drawn: Sequence[Drawn]) -> arrays.Columns:
    first = drawn[0]
    for d in drawn:
        if d.model.dimension != first.model.dimension:
            raise RecycleGPError(
                f"{first.label!r} has {first.model.dimension} input columns and {d.label!r} has {d.model.dimension}; "
                "draw them in figures of their own"
            )
    return arrays.common_columns([d.model.columns for d in drawn], [d.label for d in drawn])


def _levels(
    drawn: Sequence[Drawn], columns: arrays.Columns, every: Sequence[str], at: Any
) -> tuple[dict[str, Any], Any]:
    """What `at` says of categories, and what it says of numbers."""
    named = {every[_order(d.model, columns)[c]] for d in drawn for c in d.model.categories.columns}
    if not named or not isinstance(at, Mapping):
        return {}, at
    return {c: v for c, v in at.items() if c in named}, {c: v for c, v in at.items() if c not in named}


def _held(drawn: Sequence[Drawn], columns: arrays.Columns, every: Sequence[str], levels: Mapping[str, Any]) -> Held:
    """Each category at the level that was asked for, or else at the one that most of the points have."""
    orders = [_order(d.model, columns) for d in drawn]
    own = [d.model.categories.permuted(np.argsort(order).tolist()) for d, order in zip(drawn, orders, strict=True)]
    for d, found in zip(drawn[1:], own[1:], strict=True):
        if found.columns != own[0].columns:
            raise RecycleGPError(
                f"{drawn[0].label!r} and {d.label!r} do not have categories in the same columns; draw each in a figure "
                "of its own"
            )
    categories = union_of(own)
    free = [j for j in range(len(every)) if j not in categories.columns]
    if not free:
        raise RecycleGPError("all inputs are categories, and no curve can be drawn along them; use predict")
    codes = np.zeros(len(every))
    for column, names in categories.levels:
        known = [
            mine.recoded(torch.tensor(in_order(arrays.frozen(Z), order)), categories)[:, column]
            for d, mine, order in zip(drawn, own, orders, strict=True)
            for Z in d.model._points
        ]
        codes[column] = float(torch.cat(known).mode().values)
        if every[column] in levels:
            wanted = levels[every[column]]
            wanted = f"{wanted:g}" if isinstance(wanted, float) else str(wanted)
            if wanted not in names:
                raise RecycleGPError(f"at of {every[column]} is {wanted!r}; its levels are {shown(names)}")
            codes[column] = names.index(wanted)
    return Held(free, categories, codes)


def _order(m: Model, columns: arrays.Columns) -> list[int]:
    return [columns.index(c) for c in m.columns] if columns and m.columns else list(range(m.dimension))


def _first(merged: Sequence[bool], most: int) -> list[int]:
    """Positions of at most so many models. Modules are left out before ensembles."""
    return sorted(sorted(range(len(merged)), key=lambda i: not merged[i])[:most])


# --- looks ---


def looks_of(colours: Sequence[str]) -> Iterator[Look]:
    """Colours in turn, then the same ones dashed, and so on without end."""
    return ((colour, dashes) for dashes in cycle(DASHES) for colour in colours)


def _with_looks(drawn: Sequence[Drawn]) -> tuple[list[Drawn], dict[str, Look]]:
    """Models with theirs, and those of modules by name, also of those in ensembles: the same in every scene."""
    modules, ensembles = looks_of(COLOURS), looks_of(MERGED)
    own = [d._replace(look=next(ensembles if d.origin.name is None else modules)) for d in drawn]
    looks = {d.origin.name: d.look for d in own if d.origin.name is not None}
    inside = dict.fromkeys(name for d in drawn for name in d.origin.modules if name not in looks)
    return own, looks | dict(zip(inside, modules, strict=False))


def _subject(d: Drawn, wanted: Sequence[str], columns: arrays.Columns, held: Held, *, few: bool) -> Subject | None:
    """A model for the functions that it has among those wanted, if any."""
    functions = tuple(d.whole.functions.index(name) for name in wanted if name in d.whole.functions)
    if not functions:
        return None
    colour, dashes = d.look
    dashes = dashes if few or d.origin.name is None else "-"  # so many could not be told apart by dashes
    order = _order(d.model, columns)
    Z = in_order(places([arrays.frozen(d.model._points[c]) for c in functions]), order)[:, held.free]
    return Subject(d.model, d.origin, functions, plain(d.label), colour, dashes, order, held, Z, [], [])


def _with_inside(s: Subject, drawn: Sequence[Drawn], looks: Mapping[str, Look], owners: bool) -> Subject:
    """With what is drawn of the modules in an ensemble."""
    names, whose = {d.origin.name for d in drawn}, {d.origin.owner for d in drawn}
    own = _owners(s, whose, looks) if owners and s.owners_differ else []
    return s._replace(members=_members(s, names, looks), owners=own)


def _members(s: Subject, drawn: set[str | None], looks: Mapping[str, Look]) -> list[Marks]:
    """The points an ensemble has kept of modules that are not drawn themselves; a module has one colour everywhere."""
    known: dict[str, list[Array]] = {}
    for m in s.said:
        if m.site is not None and m.weight > 0 and m.name not in drawn:
            known.setdefault(m.name, []).append(in_order(arrays.frozen(m.site.Z), s.order)[:, s.held.free])
    found = [Marks(plain(name), *looks[name], places(Z)) for name, Z in known.items()]
    return [together(found)] if len(found) > MOST_TOLD_APART else found


def _owners(s: Subject, drawn: set[str | None], looks: Mapping[str, Look]) -> list[Owner]:
    """Owners of whom no module is drawn itself; an owner has the colour of the first of its modules."""
    known = {owner: module for owner, module in _first_modules(s).items() if owner not in drawn}
    if len(known) > MOST_TOLD_APART:
        return [Owner(owner, f"{len(known):,} owners", FAINT, "-") for owner in list(known)[:MOST_MODELS]]
    return [Owner(owner, plain(owner), *looks[module]) for owner, module in known.items()]


def _first_modules(s: Subject) -> dict[str, str]:
    """Of each owner whose function the ensemble can tell from others', which at points needs all of its sites."""
    counted = [m for m in s.said if m.weight > 0]
    exact = all(group.form.kind == "exact" for group in s.groups)
    lost = set() if exact else {m.owner for m in counted if m.site is None}
    found: dict[str, str] = {}
    for m in counted:
        if m.owner not in lost:
            found.setdefault(m.owner, m.name)
    return found


# --- the region ---


def _region(found: Sequence[Scene], region: Any) -> Array:
    """Around all points, except where the caller has given a region."""
    first = found[0]
    D = len(first.columns)
    points = np.concatenate([scene.points for scene in found])
    around = np.array([_grown(points[:, j], first.subjects[0], j) for j in range(D)])
    if region is None:
        return around
    if isinstance(region, Mapping):
        wanted = first.by_column(region, "region")
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
        what = f"region of {first.columns[j]}"
        pair = arrays.as_tensor(limits, what, "cpu").tolist()
        if not isinstance(pair, list) or len(pair) != 2 or not pair[0] < pair[1]:
            raise RecycleGPError(f"{what} is {limits}; pass (low, high)")
        around[j] = pair
    return around


def extent(subject: Subject, column: int) -> tuple[float, float]:
    """Where a model has points along a column, with a margin on either side."""
    return _grown(subject.Z[:, column], subject, column)


def _grown(values: Array, subject: Subject, column: int) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    by = MARGIN * (high - low)
    if not by > 1e-9 * max(abs(low), abs(high)):  # all points are at one place: draw as far as the kernel reaches
        by = 2 * subject.length(column)
    return low - by, high + by
