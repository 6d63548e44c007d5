"""A model as one owner sees it, for those who ask a model and know nothing of owners."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays import Array
from ..likelihoods import Likelihood
from .predictive import Predictive


class OwnerView(NamedTuple):
    """A model, asked for one owner's functions; for the shared ones where there is no owner."""

    gp: Predictive
    owner: str | None

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        return tuple(self.gp._likelihood_of(self.owner, p.name) for p in self.gp.likelihoods)

    def predict(self, X: Array) -> tuple[Any, Any]:
        return self.gp.predict(X, self.owner)
