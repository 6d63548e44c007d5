"""Owners who differ: each has rows of its own, and each is asked about others of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..metrics import Model
from ..models.ensemble import Ensemble
from ..models.fit import fit_many
from ..models.merge import merge
from ..models.module import Module
from ..models.owner_view import OwnerView
from .core import Held, Measured, Row, answered_each, published_bytes, timed
from .data import Array, Parts


class Owned(NamedTuple):
    """Who has what, and what each is asked; somebody may be asked nothing."""

    case: str
    names: list[str]
    parts: Parts
    asked: list[Held]

    @property
    def rows(self) -> int:
        return sum(len(y) for _, y in self.parts)

    @property
    def questions(self) -> int:
        return sum(len(held.y) for held in self.asked)


class FittedModules(NamedTuple):
    """The owners' modules."""

    modules: list[Module]
    seconds: float  # that the local fits took

    @property
    def bytes(self) -> float:
        return published_bytes(self.modules)


def divided(case: str, X: Array, y: Array, owner: Array, test: float, seed: int) -> Owned:
    """A random share of each owner's rows held out, at least one; who has fewer than three keeps them all."""
    rng = np.random.default_rng(seed)
    order = np.argsort(owner, kind="stable")
    known, first = np.unique(owner[order], return_index=True)
    parts, asked = [], []
    for rows in np.split(order, first[1:]):
        mixed = rng.permutation(rows)
        cut = max(1, round(test * len(rows))) if len(rows) >= 3 else 0
        parts.append((X[mixed[cut:]], y[mixed[cut:]]))
        asked.append(Held(X[mixed[:cut]], y[mixed[:cut]]))
    return Owned(case, [str(k) for k in known], parts, asked)


def published(owned: Owned, seed: int, **options: Any) -> FittedModules:
    """Every owner fits its own rows, and knows nothing of the others."""
    how = {"seed": seed, "progress": False, "allow_small": True} | options
    return FittedModules(*timed(lambda: fit_many(owned.parts, names=owned.names, **how)))


def alone(owned: Owned, local: FittedModules, name: str = "each alone") -> Row:
    """Every owner is answered by its own module."""
    return answered_by(owned, name, lambda k: local.modules[k], local.seconds, 0.0)


def merged(owned: Owned, local: FittedModules, name: str, owners: str | None) -> Measured[Ensemble]:
    """Every owner is answered by the merge, about its own function."""
    ensemble, seconds = timed(lambda: merge(local.modules, owners=owners))
    known = local.seconds + seconds, local.bytes, len(ensemble.inducing)
    return Measured(answered_by(owned, name, lambda k: OwnerView(ensemble, owned.names[k]), *known), ensemble)


def answered_by(
    owned: Owned, name: str, seen: Callable[[int], Model], seconds: float, bytes: float, points: int | None = None
) -> Row:
    """One row of a table: all owners' questions, each answered by what owner k sees."""
    asked = [(seen(k), held) for k, held in enumerate(owned.asked) if len(held.y)]
    return answered_each(owned.case, name, asked, seconds, bytes, points)


# --- what was found ---------------------------------------------------------------------------


def model_of(ensemble: Ensemble) -> str:
    """How its owners differ."""
    if np.max(ensemble.smooth_sd) > 0:  # of one function, or of each
        return "smooth"
    return "offset" if np.max(ensemble.offset_sd) > 0 else "none"


def choices(found: Iterable[Ensemble]) -> str:
    """How often each model was chosen, the most frequent first: "4 offset, 1 none"."""
    counts = Counter(model_of(e) for e in found)
    return ", ".join(f"{n} {model}" for model, n in counts.most_common())
