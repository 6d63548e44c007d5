"""Members of every function → the groups of an ensemble: what `merge` does, and relearning does again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from ..errors import RecycleGPError, RecycleGPWarning, warn_user
from ..likelihoods import Likelihood
from ..merging import pooling
from ..merging.member import Member, active, stored
from ..merging.merge_config import MergeConfig
from ..merging.noise import Readings, at_noise, with_noise
from ..merging.points import PointsWanted
from ..merging.trust import Trust, reset_screening
from . import merge_warnings
from .choice import wanted_again
from .couple import Start, couple
from .coupling import over_index
from .group import Group
from .how import Coupling, Frame, How
from .intake import FunctionRead
from .naming import repeated


def merge_functions(
    likelihood: Likelihood, functions: Sequence[FunctionRead], frame: Frame, how: How, points: PointsWanted
) -> tuple[Group, ...]:
    """Each function from the modules that have it; then outputs together, where that is wanted."""
    apart = []
    several = repeated(m.name for own in functions for m in own.members)
    for c, (own, function) in enumerate(zip(functions, likelihood.functions, strict=True)):
        with _naming(function, likelihood):
            apart.append(_merge_one(c, own, frame, how, points, dict.fromkeys(several, function)))
    asked = how.outputs
    keeps = all(group.keeps_sites for group in apart)
    learn = how.configs[0].learn
    if asked is None or len(apart) == 1 or (asked.only_if_better and not (learn and keeps)):
        return tuple(apart)

    def merge_coupled(members: tuple[Member, ...], start: Start, units: Coupling) -> Group:
        return _merge_coupled(members, start, units, apart, frame, how, points)

    together = couple(apart, asked, learn, merge_coupled)
    return tuple(apart) if together is None else (together,)


def _merge_one(
    c: int, own: FunctionRead, frame: Frame, how: How, points: PointsWanted, outputs: Mapping[str, str]
) -> Group:
    """`outputs` is what the function is called, by the names of modules that have others, too."""
    if not active(own.members):
        raise RecycleGPError("all of its modules have the weight zero; give at least one a positive weight")
    config = how.configs[c]
    merged, judged, sites = config.run(own.members, own.sites, points, frame.dimension, how.owners)
    members = tuple(
        m._replace(added_after_merge=m.weight == 0, points_appended=0) for m in with_noise(judged, merged.noise)
    )
    group = Group(
        functions=(c,),
        form=merged.form,
        members=members,
        likelihoods=(pooling.pool_likelihoods(members),),
        noises=(merged.noise,),
        convergence=merged.convergence,
    )
    merge_warnings.about_screening(members, outputs)
    merge_warnings.about_regions(members, frame.columns)
    merge_warnings.about_learning(merged.form.kernel, merged.convergence, members)
    if points.automatic:
        merge_warnings.about_points(merged.form.size(sites.rows), members)
    return group if group.keeps_sites else group.without_sites(at_noise(sites, Readings.of(members), merged.noise))


def _merge_coupled(
    members: tuple[Member, ...],
    start: Start,
    units: Coupling,
    apart: Sequence[Group],
    frame: Frame,
    how: How,
    points: PointsWanted,
) -> Group:
    """They have been brought to one noise, and screened, output by output."""
    mapped = over_index(members, units, start.members)
    config = MergeConfig(start.usual, start.learn, pool_noise=False, trust=Trust.NONE)
    if points.given is not None:
        C = len(apart)
        given = torch.cat([torch.nn.functional.pad(points.given, (0, 1), value=float(c)) for c in range(C)])
        points = replace(points, given=given)
    with stored(mapped) as store:
        merged, _, _ = config.run(mapped, store, points, frame.dimension + 1, how.owners)
    return Group(
        functions=tuple(range(len(apart))),
        form=merged.form,
        members=members,
        likelihoods=tuple(group.likelihoods[0] for group in apart),
        noises=tuple(group.noises[0] for group in apart),
        convergence=merged.convergence,
        coupling=units,
    )


def relearn(
    likelihood: Likelihood, members: Sequence[Sequence[Member]], frame: Frame, how: How, Z: torch.Tensor
) -> tuple[Group, ...]:
    """Kernel, mean, effects, points, noise and trust chosen anew, in the way they were chosen first."""
    how = how._replace(configs=tuple(config._replace(learn=True) for config in how.configs))
    functions = []
    for own in members:
        before = reset_screening(tuple(own))
        functions.append(FunctionRead(before, stored(before, now=False)))
    return merge_functions(likelihood, functions, frame, how, wanted_again(how.choice, Z))


@contextmanager
def _naming(function: str, likelihood: Likelihood) -> Iterator[None]:
    """Warnings and errors say of which function they are, where there are several."""
    if len(likelihood.functions) == 1:
        yield
        return
    what = f"{function} (one of the {likelihood.meaning})"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            yield
        except RecycleGPError as refused:
            raise RecycleGPError(f"{what}: ", refused) from None
    for warning in told:
        if issubclass(warning.category, RecycleGPWarning):
            warn_user(f"{what}: ", warning.message, category=warning.category)
        else:
            warnings.warn(f"{what}: {warning.message}", warning.category, stacklevel=5)
