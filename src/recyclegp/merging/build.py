"""Members and their sites → a form, as values."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels import Kernel
from ..local.kernel_choice import best
from . import affordable
from .exact_form import ExactForm
from .exact_learning import Sites, decide
from .form import Form, Merged
from .member import Member
from .noise import Readings
from .owners import Owners, owner_numbers
from .points import MOST_AUTOMATIC, PointsWanted
from .points_form import PointsForm
from .pooling import kernel_by_name
from .problem import MergeProblem
from .site_source import SiteSource

FORMS: tuple[type[Form], ...] = (ExactForm, PointsForm)  # of which the first that takes a problem has it


def build(problem: MergeProblem) -> Merged:
    """Kernel, mean, effects, noise and points chosen, and all sites folded onto them.

    The cheapest form that loses nothing: points where they can express what the modules know, else all
    pseudo-observations at once where that is affordable, else as many points as are.
    """
    offers = (form.merged(problem) for form in FORMS)
    return next(merged for merged in offers if merged is not None)


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
        sites = Sites.of(some, numbers, Readings.of(members, store))
        starts_at = {}

        def score(name: str) -> float:
            starts_at[name] = kernel_by_name(name, members, store, dimension)
            return decide(sites, starts_at[name], [starts_at[name]], model).value

        return starts_at[best(score)]
