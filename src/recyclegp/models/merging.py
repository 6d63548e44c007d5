"""Members of every function → the groups of an ensemble: what `merge` does, and relearning does again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from .. import arrays
from ..errors import Argument, RecycleGPError, RecycleGPWarning, warn_user
from ..likelihoods import Gaussian, Likelihood, Outputs, SeveralFunctions
from ..merging import noise as noises
from ..merging import pooling
from ..merging.member import Member, Members, active, stored
from ..merging.merge_config import MergeConfig
from ..merging.noise import Readings, at_noise, with_noise
from ..merging.owners import Owners
from ..merging.points import PointsWanted
from ..merging.trust import Trust, reset_screening
from . import merge_warnings
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
    # a module of one function has a name of its own
    several = repeated(m.name for own in functions for m in own.members) if len(functions) > 1 else set()
    for c, (own, function) in enumerate(zip(functions, likelihood.functions, strict=True)):
        with _naming(function, likelihood):
            own = at_given_noise(own, how.configs[c].noise)
            apart.append(_merge_one(c, own, frame, how, points, dict.fromkeys(several, function)))
    asked = how.outputs
    if asked is None or len(apart) == 1:
        return tuple(apart)
    learn = how.configs[0].learn
    if asked.only_if_better and not (learn and all(group.keeps_sites for group in apart)):
        return tuple(apart)

    def merge_coupled(members: tuple[Member, ...], start: Start, units: Coupling) -> Group:
        return _merge_coupled(members, start, units, apart, frame, how, points)

    together = couple(apart, asked, learn, merge_coupled)
    return tuple(apart) if together is None else (together,)


def given_noises(likelihood: Likelihood, noise: Any) -> list[float | None]:
    """A noise for each function, as somebody gives it: a number, or one for each output; None where none is given."""
    if isinstance(likelihood, SeveralFunctions) and not isinstance(likelihood, Outputs):
        raise RecycleGPError(
            Argument("noise", noise), f": likelihood {likelihood.name!r} has none to give; leave it out"
        )
    each = likelihood.one_each(noise, "noise", None) if isinstance(likelihood, Outputs) else [noise]
    of_some = isinstance(noise, Mapping)
    return [None if v is None and of_some else arrays.number(v, "noise", positive=True) for v in each]


def at_given_noise(own: FunctionRead, noise: float | None) -> FunctionRead:
    """What was read, as if all Gaussian modules had been published with this noise, where it is given."""
    if noise is None or not own.members:
        return own
    given = Gaussian(noise)
    check_is_gaussian(own.members, given)
    return FunctionRead(*noises.at_given_noise(own.members, own.sites, given))


def check_is_gaussian(members: Sequence[Member], given: Gaussian) -> None:
    """Can this noise be that of some of them?"""
    if not any(isinstance(p, Gaussian) for m in members for p in m.likelihoods):
        names = ", ".join(sorted({p.name for m in members for p in m.likelihoods}))
        raise RecycleGPError(
            Argument("noise", given.values[0]),
            f": it is for gaussian modules, whose sites follow it, and these have likelihood {names!r}; leave it out",
        )


def _merge_one(
    c: int, own: FunctionRead, frame: Frame, how: How, points: PointsWanted, outputs: Mapping[str, str]
) -> Group:
    """`outputs` is what the function is called, by the names of modules that have others, too."""
    if not active(own.members):
        raise RecycleGPError("all of its modules have the weight zero; give at least one a positive weight")
    config = how.configs[c]
    merged, judged, sites, held = config.run(own.members, own.sites, points, frame.dimension, how.owners)
    members = Members.of(with_noise(judged, merged.noise, sites))
    if any([m.points_appended or m.added_after_merge != (m.weight == 0) for m in members]):
        members = members.changed([m._replace(added_after_merge=m.weight == 0, points_appended=0) for m in members])
    group = Group(
        functions=(c,),
        form=merged.form,
        members=members,
        likelihoods=(pooling.pool_likelihoods(members),),
        noises=(merged.noise,),
        convergence=merged.convergence,
    )
    if how.owners is Owners.AUTO and config.learn:
        group = group.with_own_share()
    merge_warnings.about_screening(members, outputs)
    merge_warnings.about_held(held, members)
    merge_warnings.about_learning(group)
    if points.automatic:
        merge_warnings.about_points(merged.form.size(sites.rows), members)
    return (
        group if group.keeps_sites else group.without_sites(at_noise(sites, Readings.of(members, sites), merged.noise))
    )


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
        merged, *_ = config.run(mapped, store, points, frame.dimension + 1, how.owners)
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
    """Kernel, mean, effects, points, noise and trust chosen anew, in this way."""
    functions = []
    for own in members:
        before = reset_screening(tuple(own))
        functions.append(FunctionRead(before, stored(before, now=False)))
    return merge_functions(likelihood, functions, frame, how, PointsWanted.again(how.choice, Z))


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
