"""What a plan and an answer are, as values."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from torch import Tensor

from ..likelihoods import DirichletCategorical, Gaussian, Likelihood
from ..plans.prior import Prior
from ..plans.search import Search
from ..plans.sums import Sums
from ..record import About, Guaranteed, Origin, Record
from ..target import Target
from .how import Frame


class Asks(Enum):
    """What a plan asks owners for."""

    SUMS = "sums"  # over their rows, at its points
    SLOPES = "slopes"  # how the sums that it has change with its kernel


class Score(NamedTuple):
    """How well a model does on rows that one owner has held back."""

    owner: str
    rows: int
    total: float  # Σ log p(y)


class Evaluated(NamedTuple):
    """A model that owners have answered for: all that they said, added up."""

    priors: tuple[Prior, ...]
    totals: tuple[Sums, ...]
    owners: tuple[str, ...]
    bound: float
    scores: tuple[Score, ...] = ()


class OneShot(NamedTuple):
    """The merge that a plan was made from."""

    record: Record
    scores: tuple[Score, ...] = ()


class Round(NamedTuple):
    """What became of one exchange."""

    asked: Asks
    bound: float
    owners: int
    bytes: int  # of an answer, on average
    score: float | None = None  # held-back log density per row, of the model that this exchange has scored
    missing: tuple[str, ...] = ()  # who did not answer, and counts with what was said before
    left_out: tuple[str, ...] = ()  # whose answer is not to be believed


class PlanFacts(NamedTuple):
    likelihood: Likelihood  # of all functions
    frame: Frame
    targets: tuple[Target, ...]
    priors: tuple[Prior, ...]  # of each function
    search: Search
    learn: bool = True
    origin: Origin = Origin.UNKNOWN  # of its points
    asks: Asks = Asks.SUMS
    model: Evaluated | None = None  # the last that was found; it is that of the plan where slopes are asked for
    best: Evaluated | None = None  # by held-back score
    before: Evaluated | None = None  # where a damped step began, of a likelihood that is not Gaussian
    one_shot: OneShot | None = None
    candidates: Tensor | None = None  # where points may be chosen from again
    anchor: Tensor | None = None  # parameters for which they were chosen
    lineage: tuple[str, ...] = ()  # digests of the plans before it
    history: tuple[Round, ...] = ()

    @property
    def round(self) -> int:
        return len(self.lineage)

    @property
    def variational(self) -> bool:
        """Are rows pseudo-observations, in the light of all others?"""
        known = isinstance(self.likelihood, DirichletCategorical)  # regressions with noises that are known
        return not known and not all(isinstance(p, Gaussian) for p in self.likelihood.parts)

    @property
    def whole(self) -> Likelihood:
        """The likelihood of all functions, with its noises."""
        if self.variational:
            return self.likelihood
        parts = [
            (own.with_values(prior.noise) if isinstance(own, Gaussian) else own,)
            for own, prior in zip(self.likelihood.parts, self.priors, strict=True)
        ]
        return self.likelihood.with_parts(parts)[0]


class AnswerFacts(NamedTuple):
    about: About
    likelihood: Likelihood  # of all functions, with its noises
    plan: str  # digest
    round: int
    priors: tuple[Prior, ...]  # under which the sums are
    rows: tuple[int, ...]  # behind each function
    known_noise: bool  # rows have noises of their own, so that there is none to be learned
    sums: tuple[Sums, ...] = ()  # of each function; none where only slopes were asked for
    own: tuple[Sums, ...] = ()  # where owners differ, the same of what this one sees: f_k, not the shared f
    slopes: Tensor | None = None  # (p,)  its share of the gradient
    derivatives: tuple[tuple[Sums, ...], ...] = ()  # of the sums, for each parameter of each function
    scores: tuple[tuple[str, Score], ...] = ()  # of "one shot" and "rounds"

    @property
    def guaranteed(self) -> Guaranteed | None:
        """What holds of it, where it is private."""
        return self.about.guaranteed
