"""One model as it is drawn: its look, its points, and what it says in the columns of the figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import arrays
from ..arrays import CodedInputs
from ..categories import Categories
from ..likelihoods import Likelihood
from ..merging.member import Member
from ..models.group import Group
from .scale import Array, Band, Model
from .style import BAND_LEVEL, FAINT

LONGEST_NAME = 34  # characters

Look = tuple[str, str]  # colour and dashes


class Held(NamedTuple):
    """Categories do not vary in a figure: each is held at one level."""

    free: list[int]  # the columns that do vary, among all
    categories: Categories  # the levels that any of the models knows
    codes: Array  # (D,): at which level each category is held; zero for the other columns

    @property
    def words(self) -> list[tuple[int, str]]:
        """Columns, and their levels by name."""
        return [(c, names[int(self.codes[c])]) for c, names in self.categories.levels]


class Marks(NamedTuple):
    """Points of one colour: where one module has published, or an ensemble's Z_*."""

    label: str
    colour: str
    dashes: str  # tell it from others of the same colour
    Z: Array  # (M, D)
    chosen: bool = False  # are they Z_*, which merging has chosen?


def together(several: Sequence[Marks]) -> Marks:
    """Points of modules that cannot be told apart."""
    return Marks(f"points of {len(several)} modules", FAINT, "-", np.concatenate([m.Z for m in several]))


class Owner(NamedTuple):
    """Somebody whose own function an ensemble knows, as it is drawn."""

    name: str
    label: str
    colour: str
    dashes: str


class Origin(NamedTuple):
    """Where a model comes from: a module has a name and an owner, an ensemble is merged from groups of members."""

    name: str | None  # of a module
    owner: str | None
    modules: tuple[str, ...]  # of an ensemble, by name
    groups: tuple[Group, ...]


def origin_of(model: Model) -> Origin:
    """The one place that tells modules and ensembles apart."""
    found = (getattr(model, field, None) for field in ("name", "owner", "names", "_live"))
    name, owner, modules, groups = found
    return Origin(name, owner, tuple(modules or ()), groups or ())


class Subject(NamedTuple):
    model: Model
    origin: Origin
    functions: tuple[int, ...]  # which of the model's are drawn: one, or those of all classes together
    label: str
    colour: str
    dashes: str
    order: list[int]  # its own j-th column is the figure's column order[j]
    held: Held  # what the figure does not vary
    Z: Array  # (M, D): published points, or Z_*
    members: list[Marks]  # of an ensemble that has kept them
    owners: list[Owner]  # of an ensemble whose owners differ, those that are drawn

    @property
    def merged(self) -> bool:
        return self.origin.name is None

    @property
    def own(self) -> Marks:
        return Marks(self.label, self.colour, self.dashes, self.Z, self.merged)

    @property
    def groups(self) -> list[Group]:
        """Of an ensemble, those that have the functions that are drawn."""
        return [group for group in self.origin.groups if set(group.functions) & set(self.functions)]

    @property
    def said(self) -> list[Member]:
        """What modules of an ensemble say of these functions."""
        return [m for group in self.groups for m in group.members if m.function in self.functions]

    @property
    def reported(self) -> list[Member]:
        """The same with what the others say of them."""
        return [m for group in self.groups for m in group.report() if m.function in self.functions]

    @property
    def owners_differ(self) -> bool:
        return any(group.form.effects.present for group in self.groups)

    @property
    def likelihoods(self) -> list[Likelihood]:
        """What observations of its function may be."""
        return [p.parts[self.functions[0]] for p in self.model.likelihoods]

    def length(self, column: int) -> float:
        """The shortest lengthscale along a column of the figure; 1 where the kernel has none."""
        own = self.order.index(self.held.free[column])
        kernels = (self.model._kernels[c] for c in self.functions)
        return min(float(k.lengths(self.model.dimension).nan_to_num(posinf=1.0)[own]) for k in kernels)

    # --- what it says, at rows in the figure's columns ---

    def predict(self, X: Array, owner: str | None = None) -> tuple[Array, Array]:
        """Mean and variance of its function, the shared one or an owner's: asked as a whole, for what outputs share."""
        return self.predict_whole(self._whole(X), owner)

    def predict_whole(self, whole: Array, owner: str | None = None) -> tuple[Array, Array]:
        """The same at rows in all columns and codes of the figure, also those that it holds."""
        c = self.functions[0]
        mean, variance = self.model._moments(self._coded(whole), owner, of_y=False)
        return arrays.like(whole, mean[:, c]), arrays.like(whole, variance[:, c])

    def prior_variance(self, whole: Array) -> Array:
        """k(x, x) of its function at such rows."""
        found: Array = self.model._kernels[self.functions[0]].diagonal(torch.as_tensor(self._coded(whole).X)).numpy()
        return found

    def interval(self, X: Array, owner: str | None) -> Band:
        """The 95% band of a new y."""
        return Band(*self.model.predict_interval(self._coded(self._whole(X)), BAND_LEVEL, owner=owner))

    def probabilities(self, X: Array) -> Array:
        """(n, C) of the model's own classes."""
        found: Array = self.model.predict_proba(self._coded(self._whole(X)))
        return found

    def _whole(self, X: Array) -> Array:
        """In all columns, those that are held at their level."""
        whole = np.tile(self.held.codes, (len(X), 1))
        whole[:, self.held.free] = X
        return whole

    def _coded(self, whole: Array) -> CodedInputs:
        """In the model's own columns and codes; behind its levels those that only others know."""
        levels = self.held.categories.permuted(self.order)
        own = levels.recoded(torch.tensor(whole[:, self.order]), self.model.categories.union(levels))
        return CodedInputs(own.numpy())

    @property
    def whole_points(self) -> Array:
        """Its points in all columns and codes of the figure."""
        levels = self.model.categories.permuted(np.argsort(self.order).tolist())
        points = in_order(places([arrays.frozen(self.model._points[c]) for c in self.functions]), self.order)
        return levels.recoded(torch.tensor(points), self.held.categories).numpy()


def places(points: Sequence[Array]) -> Array:
    """Z of one function; of several each place once."""
    return points[0] if len(points) == 1 else np.unique(np.concatenate(points), axis=0)


def in_order(Z: Array, order: list[int]) -> Array:
    """A model's columns as the figure has them."""
    found = np.empty_like(Z)
    found[:, order] = Z
    return found


def plain(text: Any) -> str:
    """Text for a figure: shortened, and without characters that do not print."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
