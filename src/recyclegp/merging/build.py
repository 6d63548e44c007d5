"""Members and their sites → a form, as values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ..core.convergence import Convergence
from ..core.stacked import stack
from ..kernels import Kernel
from ..local.kernel_choice import best
from . import affordable
from .constants import POINTS
from .exact_form import ExactForm
from .exact_learning import Learned, Sites, decide, learn_exactly
from .form import Form
from .learning import Choice, begin, finish, slack_tolerance, starts
from .member import Member
from .noise import PooledNoise, Readings, at_noise
from .owners import Owners, by_owner, owner_numbers
from .points import MOST_AUTOMATIC, PointsWanted, select, slack_left
from .points_form import PointsForm
from .pooling import kernel_by_name, median_mean
from .site_source import SiteSource


class Merged(NamedTuple):
    form: Form
    convergence: Convergence  # of the search for its kernel
    noise: PooledNoise | None = None  # under which all members count; None: as they were published


def step_cost(store: SiteSource, wanted: PointsWanted) -> float:
    """Multiplications in one step of learning, roughly."""
    if wanted.all_of_them:
        return float(store.rows) ** 3
    points = len(wanted.given) if wanted.given is not None else wanted.count or min(MOST_AUTOMATIC, store.points)
    return float(points) ** 3 + store.points * points * (points + store.largest)


def chosen_kernel(members: Sequence[Member], store: SiteSource, dimension: int, owners: Owners) -> Kernel:
    """Where learning begins with the structure that explains some of the modules best, by their exact evidence."""
    numbers = owner_numbers(members)
    model = Owners.OFFSET if owners is Owners.AUTO and len(set(numbers)) > 1 else owners
    with store.thinned(affordable.first(store.largest)) as some:
        sites = Sites.of(some, numbers, Readings.of(members))
        starts_at = {}

        def score(name: str) -> float:
            starts_at[name] = kernel_by_name(name, members, store, dimension)
            return decide(sites, starts_at[name], [starts_at[name]], model).value

        return starts_at[best(score)]


def build(
    start: Kernel,
    members: Sequence[Member],
    store: SiteSource,
    wanted: PointsWanted,
    *,
    learn: bool,
    owners: Owners = Owners.NONE,
    pool_noise: bool = True,
    first: Learned | None = None,
) -> Merged:
    """Kernel, mean, effects, noise and points chosen, and all sites folded onto them.

    The cheapest form that loses nothing: points where they can express what the modules know, else all
    pseudo-observations at once where that is affordable, else as many points as are. `first` is what has been learned
    from some of the members already.
    """
    numbers = owner_numbers(members)
    if len(set(numbers)) == 1 or (owners is Owners.AUTO and not learn):
        owners = Owners.NONE
    readings = Readings.of(members) if pool_noise and learn else None
    exact = partial(_exact, start, members=members, store=store, learn=learn, owners=owners, readings=readings)
    if wanted.all_of_them or (wanted.automatic and store.rows <= affordable.DIRECT):
        return exact(starts(start, members))
    tolerance = POINTS.negligible * slack_tolerance(sum(m.weighted_rows for m in members))
    may_be_exact = wanted.automatic and store.rows <= affordable.held()

    def should_be_exact(c: Choice) -> bool:
        """Do its points lose something, or cost as much?"""
        many = POINTS.many * len(c.Z) >= store.rows
        now = at_noise(store, readings, c.noise)
        return may_be_exact and (many or float(slack_left(c.kernel, now, c.Z)[-1]) > tolerance)

    choice = begin(start, members, store, wanted, learn=learn, owners=owners, readings=readings, first=first)
    if should_be_exact(choice):
        return exact([choice.kernel, start])
    whole = by_owner(at_noise(store, readings, choice.noise), numbers, choice.effects)
    choice = finish(choice, start, whole, wanted) if learn else choice
    if should_be_exact(choice):
        return exact([choice.kernel, start])
    return _at_points(choice, whole, wanted, tolerance)


def _exact(
    about: Kernel,
    kernels: Sequence[Kernel],
    *,
    members: Sequence[Member],
    store: SiteSource,
    learn: bool,
    owners: Owners,
    readings: Readings | None,
) -> Merged:
    numbers = owner_numbers(members)
    found = Learned(about, median_mean(members))
    if learn:
        found = learn_exactly(store, numbers, about, kernels, owners, readings)
    elif owners is not Owners.NONE:
        found = decide(Sites.of(store, numbers), about, None, owners)
    stacked = stack(at_noise(store, readings, found.noise).packs(1), numbers)
    form = ExactForm(found.kernel, found.mean, stacked, found.effects)
    # what was learned on some of the modules has their mean; the factor that finds that of all is kept
    return Merged(form.at_best_mean() if learn else form, found.convergence, found.noise)


def _at_points(choice: Choice, store: SiteSource, wanted: PointsWanted, tolerance: float) -> Merged:
    Z = choice.Z
    if wanted.automatic and float(slack_left(choice.kernel, store, Z, choice.effects)[-1]) > tolerance:
        # with the kernel known, more points than it was learned on are affordable
        most = affordable.points_for(store.rows)
        Z = select(choice.kernel, store, None, tolerance / POINTS.negligible, most)
    form = PointsForm.of(store, choice.kernel, choice.mean, Z, choice.effects)
    return Merged(form, choice.convergence, choice.noise)
