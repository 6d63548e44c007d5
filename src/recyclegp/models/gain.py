"""Does merging help its owner? Asked at home, with rows that were kept out of the owner's own fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch

from ..arrays import Array
from ..errors import Argument, Name, RecycleGPError, warn_user
from ..likelihoods import Outputs, labels
from ..local import held_back
from ..merging.member import Member
from ..record import About, Privacy
from .module import Module
from .naming import few
from .predictive import Predictive

LEVEL = 0.95  # of the interval beyond which a difference is more than chance


class Verdict(Enum):
    HELPS = "merging helps"
    HURTS = "merging hurts"
    UNCLEAR = "cannot tell"


class Gain(NamedTuple):
    """How well y is predicted by the merged model and by the owner's module alone, on rows that neither has seen."""

    name: str  # of the owner's module
    rows: int  # that were held back
    merged: float  # mean of −log p(y), when asked as this owner
    alone: float  # the same of the module by itself
    standard_error: float  # of their difference, row by row; NaN of a single row
    left_out: int = 0  # rows of a class that the module has never met

    @property
    def gain(self) -> float:
        """Nats for each row by which the merged model is better."""
        return self.alone - self.merged

    @property
    def verdict(self) -> Verdict:
        """By a t-test of the paired differences."""
        from scipy.special import stdtrit

        if self.rows < 2 or not abs(self.gain) > stdtrit(self.rows - 1, 0.5 + 0.5 * LEVEL) * self.standard_error:
            return Verdict.UNCLEAR
        return Verdict.HELPS if self.gain > 0 else Verdict.HURTS

    def __str__(self) -> str:
        """In plain words, with what to do."""
        rows = f"{self.rows} row{'s' * (self.rows != 1)}"
        error = "" if math.isnan(self.standard_error) else f" ± {self.standard_error:.2g}"
        said = f"merged {self.merged:.2f}, alone {self.alone:.2f} on {rows} held back: "
        if self.verdict is Verdict.HELPS:
            return f"{said}merging helps by {self.gain:.2f}{error}; now fit with all rows, and send that module instead"
        if self.verdict is Verdict.HURTS:
            return (
                f"{said}merging hurts by {-self.gain:.2f}{error}; do not use the merged model for your own rows, but "
                "your own module, fitted to all of them"
            )
        if self.gain == 0:
            return f"{said}merging changes nothing; fit with all rows"
        which = "better" if self.gain > 0 else "worse"
        return f"{said}merged is {abs(self.gain):.2f}{error} {which}, which may be chance; hold back more rows to know"


def gain(
    ensemble: Predictive,
    members: Sequence[Member],
    X: Array,
    y: Array,
    *,
    name: str | None,
    owner: str | None,
    module: Module | None,
    likelihood: str | None,
) -> Gain:
    """Of the module that is meant; `members` are those of the ensemble."""
    alone = chosen_module(ensemble, members, name=name, owner=owner, module=module)
    about = alone.about
    share = about.held_back
    if share is None:
        raise RecycleGPError(
            f"{about.name}: no rows were held back of it, or its units were changed since; fit it with ",
            Argument("hold_back", 0.1),
        )
    ensemble._inputs(X)  # columns that are not there are said first
    whole, mine = ensemble.likelihoods[0], alone.likelihoods[0]
    several = isinstance(whole, Outputs)
    seen = _own_outputs(alone, y, len(X)) if several else alone._as_numbers(y)
    held = held_back.is_held_back(_own_columns(X, about), seen, share)
    _check_rows(about, alone, seen, ~held)
    X, seen = held_back.take(X, held), held_back.take(seen, held)
    known = _met(alone, seen) if mine.names_classes else np.ones(len(X), dtype=bool)
    if not known.any():
        raise RecycleGPError(f"{about.name}: it has met none of the classes of the {len(X)} rows that were held back")
    X, seen, left_out = held_back.take(X, known), held_back.take(seen, known), int((~known).sum())
    there = seen
    if several:
        there = np.full((len(X), len(whole.functions)), math.nan)
        there[:, [whole.functions.index(output) for output in _outputs(alone).names]] = seen
        seen = seen if isinstance(mine, Outputs) else seen[:, 0]
    told = _each(ensemble.log_density(X, there, likelihood, about.owner))
    by_itself = _each(alone.log_density(X, seen, likelihood))
    difference = told - by_itself
    n = len(difference)
    error = float(difference.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Gain(about.name, n, -float(told.mean()), -float(by_itself.mean()), error, left_out)


def chosen_module(
    ensemble: Predictive, members: Sequence[Member], *, name: str | None, owner: str | None, module: Module | None
) -> Module:
    """The module that is meant, as it was published; `members` are those of the ensemble."""
    found = _chosen_name(members, module.name if name is None and module is not None else name, owner)
    own = sorted((m for m in members if m.name == found), key=lambda m: m.function)
    return _alone(ensemble, own) if module is None else module.rename(found).owned_by(own[0].owner)


def _chosen_name(members: Sequence[Member], name: str | None, owner: str | None) -> str:
    """Of the one module that held rows back, among those that are meant."""
    for argument, given, known in (
        ("name", name, [m.name for m in members]),
        ("owner", owner, [m.owner for m in members]),
    ):
        if given is not None and given not in known:
            there = few(list(dict.fromkeys(known)))
            raise RecycleGPError(Argument(argument, given), f": nobody here is called so; there are {there}")
    wanted = [m for m in members if name in (None, m.name) and owner in (None, m.owner)]
    held = list(dict.fromkeys(m.name for m in wanted if m.about.held_back is not None))
    found = [name] if name is not None and wanted else held
    if not found:
        raise RecycleGPError(
            "gain: no rows were held back of any module here; fit yours with ", Argument("hold_back", 0.1)
        )
    if len(found) > 1:
        raise RecycleGPError("gain: whose rows are these? Pass ", Name("name"), f", one of {few(found)}")
    return found[0]


def _alone(ensemble: Predictive, own: Sequence[Member]) -> Module:
    """The module as it was published, from what an ensemble has of it."""
    about = own[0].about._replace(targets=tuple(m.target for m in own))
    if any(m.site is None for m in own):
        raise RecycleGPError(
            f"gain: the ensemble has only the name of {about.name}, and not what it says; pass ",
            Name("module"),
            ", the module itself",
        )
    whole = ensemble.likelihoods[0]
    likelihoods = own[0].likelihoods
    if len(whole.functions) > 1:
        likelihoods = whole.only([m.function for m in own]).with_parts([m.likelihoods for m in own])
    return Module(about, likelihoods, tuple(m.latent for m in own))


def _own_outputs(alone: Module, y: Array, rows: int) -> np.ndarray:
    """(n, C) of its own outputs, NaN where one was not seen; a module of one output may be one of many."""
    return _outputs(alone).targets(y, rows, None).cpu().numpy()


def _outputs(alone: Module) -> Outputs:
    mine = alone.likelihoods[0]
    return mine if isinstance(mine, Outputs) else Outputs((alone.target.name or "y",), (mine,))


def _own_columns(X: Any, about: About) -> Any:
    """Of a table that may have more columns those that the rows were fitted with."""
    if about.columns is None or not hasattr(X, "columns") or isinstance(X, torch.Tensor):
        return X
    found = {str(c): c for c in X.columns}
    return X[[found[c] for c in about.columns]]


def _check_rows(about: About, alone: Module, seen: Any, kept: np.ndarray) -> None:
    """Are as many rows left as the module was fitted to? Of people their number was rounded."""
    rows = int(kept.sum())
    if isinstance(seen, np.ndarray) and seen.ndim == 2:
        rows = int((~np.isnan(seen[kept])).sum(0).max())
    if about.privacy is not Privacy.PEOPLE and rows != alone.rows:
        warn_user(
            f"{about.name} was fitted to {alone.rows} rows, and this table has {rows} that are not held back: is it "
            "the table that was fitted, in the same units? Rows that the module has seen make it look too good"
        )


def _met(alone: Module, y: Any) -> np.ndarray:
    """(n,) bool  rows of a class that the module knows."""
    return np.isin(labels.texts(y, len(y)), alone.likelihoods[0].classes)


def _each(log_density: Any) -> np.ndarray:
    """(n,) log p(y) of each row; of several outputs the mean over those that were seen."""
    found = np.asarray(torch.as_tensor(log_density).detach().cpu(), dtype=float)
    return found if found.ndim == 1 else np.nanmean(found, axis=1)
