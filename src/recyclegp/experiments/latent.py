"""Modules whose data are classes or counts, and every rival that applies to them, on the same test points.

Exact experts exist for Gaussian data only: here committees are made of the modules, and combined on the latent f.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..baselines import central
from ..baselines.committee import module_experts
from ..baselines.rival import Rival
from ..baselines.svgp import Training
from ..baselines.vem import PUBLISHED, Rates
from ..models.ensemble import Ensemble
from ..models.fit import fit, fit_many
from ..models.module import Module
from . import ascents, rivals
from .core import Held, Measured, Outcome, Report, Row, Settings, averaged, measured, timed
from .data import Array, Parts
from .rivals import Budget

STEPS = 4  # messages of central_models and module_rivals together


class Owners(NamedTuple):
    """Everybody's rows, what they published, and the test."""

    case: str
    likelihood: str
    parts: Parts
    modules: list[Module]
    fitting: float  # seconds that the local fits took
    held: Held
    seed: int

    def measure(self, name: str, build: Callable[[], Any], **known: Any) -> Measured[Any]:
        X, y, f, _ = self.held
        return measured(self.case, name, build, X, y, f=f, likelihood=self.likelihood, **known)

    def merged(
        self, inducing: Any = "auto", name: str | None = None, owners: str | None = "auto"
    ) -> Measured[Ensemble]:
        known: dict[str, Any] = {"fitting": self.fitting, "name": name, "owners": owners}
        return rivals.merged(self.case, inducing, self.modules, self.held, **known)


def repeated(once: Callable[[Settings, Report], Outcome], settings: Settings, report: Report) -> Outcome:
    """An experiment once for each seed: rows are averaged, the figure and the notes are the first one's."""
    made = [once(settings._replace(seeds=1, seed=seed), report) for seed in settings.repeats]
    return Outcome(averaged(row for each in made for row in each.rows), made[0].figure, made[0].notes)


class Central(NamedTuple):
    rows: list[Row]
    model: Rival  # the library's own


def divided(
    case: str,
    likelihood: str,
    parts: Parts,
    held: Held,
    *,
    seed: int = 0,
    points: Sequence[Array] | None = None,
    **options: Any,
) -> Owners:
    """Owners who have fitted and published their modules; `points`: each fits at its own, and publishes there."""
    names = [f"part-{k}" for k in range(len(parts))]
    options = {"likelihood": likelihood, "seed": seed, **options}

    def work() -> Sequence[Module]:
        if points is None:
            return fit_many(parts, names=names, progress=False, **options)
        return [
            fit(X, y, name=name, inducing=Z, **options) for (X, y), name, Z in zip(parts, names, points, strict=True)
        ]

    modules, seconds = timed(work)
    return Owners(case, likelihood, parts, modules, seconds, held, seed)


def central_models(owners: Owners, inducing: int, budget: Budget, report: Report) -> Central:
    """SVGP in its dual form, and GPyTorch's: both are given all rows."""
    known: dict[str, Any] = {"inducing": inducing, "likelihood": owners.likelihood, "seed": owners.seed}
    report(f"{owners.case}: central SVGP")
    dual = owners.measure(
        f"central SVGP (dual), M={inducing}", lambda: central.sparse(owners.parts, **known), points=inducing
    )
    report(f"{owners.case}: central SVGP of GPyTorch")
    training = Training(steps=budget.svgp, rows=min(Training.rows, budget.rows))
    stochastic = owners.measure(
        f"central SVGP (GPyTorch), M={inducing}",
        lambda: central.svgp(owners.parts, training=training, **known),
        points=inducing,
    )
    return Central([dual.row, stochastic.row], dual.model)


def module_rivals(owners: Owners, Z: Any, budget: Budget, report: Report, rates: Rates = PUBLISHED) -> list[Row]:
    """What else can be made of the same modules: the paper's VEM from the points Z, and committees."""
    case, modules, held, fitting = owners.case, owners.modules, owners.held, owners.fitting
    report(f"{case}: variational EM")
    limits: dict[str, Any] = {"steps": budget.vem, "limit": budget.vem_seconds, "rates": rates, "seed": owners.seed}
    published, quick = ascents.both(case, modules, Z, held, fitting=fitting, **limits)
    report(f"{case}: committees of the modules")
    committee, seconds = timed(lambda: module_experts(modules))
    rows = rivals.committees(case, committee, held, seconds=fitting + seconds)
    return [published.row, quick.row, *rows]


class Compared(NamedTuple):
    """Owners of one split, the merge at a fixed number of points and at as many as it needs, and all rivals' rows."""

    owners: Owners
    small: Ensemble
    auto: Ensemble
    central: Rival
    rows: list[Row]


def compared(
    case: str,
    likelihood: str,
    parts: Parts,
    held: Held,
    *,
    publish: int,
    points: int,
    seed: int,
    budget: Budget,
    report: Report,
    rates: Rates = PUBLISHED,
) -> Compared:
    """One split of the data, from local fits to the last rival."""
    report(f"split {seed}: local fits")
    owners = divided(case, likelihood, parts, held, publish=publish, seed=seed)
    report(f"split {seed}: merging")
    small, auto = owners.merged(points), owners.merged()
    central = central_models(owners, points, budget, report)
    others = module_rivals(owners, small.model.inducing, budget, report, rates)
    return Compared(owners, small.model, auto.model, central.model, [small.row, auto.row, *central.rows, *others])
