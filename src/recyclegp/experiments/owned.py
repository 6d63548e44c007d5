"""Owners who differ: each has rows of its own, and each is asked about others of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ..metrics import Model, concatenate, evaluate, summary
from ..models.ensemble import Ensemble
from ..models.fit import fit_many
from ..models.merge import merge
from ..models.module import Module
from ..models.predictive import AsSeenBy
from .core import Answered, Held, Row, published_bytes, shown, timed
from .data import Array, Parts

Seen = Callable[[int], Model]  # what owner k is answered by


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


class Merged(NamedTuple):
    row: Row
    ensemble: Ensemble


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
    return FittedModules(*timed(lambda: fit_many(owned.parts, names=owned.names, seed=seed, progress=False, **options)))


def alone(owned: Owned, local: FittedModules, name: str = "each alone") -> Row:
    """Every owner is answered by its own module."""
    return answered_each(owned, name, lambda k: local.modules[k], seconds=local.seconds, bytes=0.0)


def merged(owned: Owned, local: FittedModules, name: str, owners: str | None) -> Merged:
    """Every owner is answered by the merge, about its own function."""
    ensemble, seconds = timed(lambda: merge(local.modules, owners=owners))
    row = answered_each(
        owned,
        name,
        lambda k: AsSeenBy(ensemble, owned.names[k]),
        seconds=local.seconds + seconds,
        bytes=local.bytes,
        points=len(ensemble.inducing),
    )
    return Merged(row, ensemble)


def answered_each(
    owned: Owned,
    name: str,
    seen: Seen,
    *,
    seconds: float,
    bytes: float,
    points: int | None = None,
    note: str = "",
) -> Row:
    """One row of a table: all owners' questions, each answered by what that owner sees."""
    found, spent = [], 0.0
    for k, (X, y, f, likelihood) in enumerate(owned.asked):
        if len(y):
            model = seen(k)
            with torch.no_grad():
                moments, predicting = timed(partial(model.predict, X))
            found.append(evaluate(Answered(model.likelihoods, moments), X, y, f=f, likelihood=likelihood))
            spent += predicting
    return Row(owned.case, name, *shown(summary(concatenate(found))), seconds, spent, bytes, points, note)


# --- what was found ---------------------------------------------------------------------------


def model_of(ensemble: Ensemble) -> str:
    """How its owners differ."""
    if ensemble.smooth_sd > 0:
        return "smooth"
    return "offset" if ensemble.offset_sd > 0 else "none"


def choices(found: Iterable[Ensemble]) -> str:
    """How often each model was chosen, the most frequent first: "4 offset, 1 none"."""
    counts = Counter(model_of(e) for e in found)
    return ", ".join(f"{n} {model}" for model, n in counts.most_common())
