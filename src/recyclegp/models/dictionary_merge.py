"""Merging a dictionary again after a change: what the last merge has summed is kept, and changed where it must be.

What is kept are a tree of sums of what modules say at the ensemble's points, and the ensemble's members. That is exact
as long as kernel, noise, owners' effects and points stay. The constant mean need not: sums hold for any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ..core.posterior import basis
from ..core.sites import Site, weighted
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.gpytorch_objects import from_gpytorch
from ..merging import newcomers, pooling
from ..merging.constants import LEARNING
from ..merging.fold_tree import FoldTree
from ..merging.levels import Levels, levels
from ..merging.member import Member, stored
from ..merging.noise import with_noise
from ..merging.points import AUTO
from ..merging.points_form import PointsForm
from ..merging.verdicts import TRUSTED
from . import merging
from .ensemble import Ensemble
from .failures import warn_skipped
from .group import Group
from .how import Skipped
from .intake import ModuleIntake
from .merge import merge
from .module import Module

GROWN = 2.0  # times as many rows as were learned from: then it is time to learn anew


class Change(NamedTuple):
    """What happened to a dictionary since it was merged."""

    gone: frozenset[str]  # names of modules that were removed or replaced
    new: tuple[Module, ...]  # that came, or replace them
    refused: tuple[Skipped, ...] = ()  # that came, and cannot be read

    def __bool__(self) -> bool:
        return any(self)


class Kept:
    """The last merge of a dictionary, with these options, and what makes the next one quick."""

    def __init__(self, options: Mapping[str, Any], modules: Iterable[Module], refused: Sequence[Skipped]) -> None:
        """`refused` are modules that could not be read, once all others were."""
        self.options = deepcopy(dict(options))  # whoever has them may change them later
        self.ensemble: Ensemble = merge(modules, **self.options)
        if refused:
            self._skip(refused)
        self.learned_from = frozenset(self.ensemble.names)
        self.learned_rows = self.ensemble.rows
        self.slack = self.ensemble.slack
        self.given = nothing_is_chosen(self.options)
        self.screens = bool(self.options.get("learn", True)) and self.options.get("trust", "learn") is not None
        self._trees: list[FoldTree] | None = self._planted()
        self._levels: list[dict[str, Levels]] | None = None  # of each member of each group, once somebody has come

    def _skip(self, refused: Sequence[Skipped], gone: Collection[str] = ()) -> None:
        """With these among those that were left out, and without those that are another by now."""
        warn_skipped(tuple(refused))
        how = self.ensemble.how
        left = (each for each in how.skipped if each.name not in gone)
        self.ensemble = replace(self.ensemble, how=how._replace(skipped=(*refused, *left)))

    def _planted(self) -> list[FoldTree] | None:
        """For each group; None where sums of it cannot be kept."""
        groups = self.ensemble.groups
        return [_tree(group) for group in groups] if all(map(_can_be_summed, groups)) and self._is_plain() else None

    def _is_plain(self) -> bool:
        """Does every module have every function, at inputs that are numbers, and a weight that stays?"""
        ensemble, options = self.ensemble, self.options
        everybody = {len(group.members) for group in ensemble.groups} == {len(ensemble.names)}
        stays = options.get("half_life") is None and isinstance(options.get("weights"), (Mapping, type(None)))
        return everybody and stays and not ensemble.categories and options.get("device") is None

    def must_learn(self, change: Change, relearn: bool | None) -> bool:
        """Is it to be merged from scratch?"""
        if relearn is not None:
            return relearn
        if self.given:
            return False
        rows = self.ensemble.rows + sum(m.rows for m in change.new)
        return bool(change.gone & self.learned_from) or rows > GROWN * self.learned_rows

    def after(self, change: Change, relearn: bool | None) -> Ensemble | None:
        """The ensemble with what has changed; None where it is to be merged from scratch."""
        if not change:
            return self.ensemble
        lost = change.gone.difference(m.name for m in change.new)
        if self.must_learn(change, relearn) or lost.intersection(self.options.get("weights") or ()):
            return None
        if change.refused or change.gone.intersection(each.name for each in self.ensemble.skipped):
            self._skip(change.refused, change.gone)
        if self._trees is None:
            return None if change.new and self.screens else self._by_operations(change)
        read = self._read(change.new)
        if read is None:
            return None
        groups, gone = self.ensemble.groups, change.gone
        screened = self.screens and bool(change.new)
        if gone >= set(self.ensemble.names) and (screened or not change.new):
            return None  # nobody is left, with whom those who come could agree
        if screened:
            if gone:  # nobody is compared with what it has said itself
                groups, gone = self._changed(groups, [()] * len(groups), gone), frozenset()
            if not self._agree(groups, read):
                return None  # everybody is to be screened
            read = [tuple(m._replace(verdict=TRUSTED) for m in own) for own in read]
        changed = self._changed(groups, read, gone)
        ensemble = replace(self.ensemble, groups=changed)
        if self.given:
            likelihood = self.ensemble.likelihoods[0]
            known = [own for group in changed for own in group.likelihoods]
            ensemble = replace(ensemble, likelihoods=likelihood.with_parts(known))
        else:
            ensemble = ensemble._with_groups(changed)
            grown = self.ensemble.choice == AUTO and ensemble.slack - self.slack > LEARNING.slack_scale
            if grown and relearn is None:
                return None  # the points cannot express what is new
        self.ensemble = ensemble
        return ensemble

    def _agree(self, groups: Sequence[Group], read: Sequence[Sequence[Member]]) -> bool:
        """Do all that are new clearly agree with all that are there?"""
        if self._levels is None:
            self._levels = [_levels_of(group.members) for group in groups]
        for group, at, new in zip(groups, self._levels, read, strict=True):
            assert isinstance(group.form, PointsForm)
            theirs = Levels(*(torch.cat(rows) for rows in zip(*(at[m.name] for m in group.members), strict=True)))
            if not newcomers.agree(group.form, group.members, theirs, new):
                return False
            at |= _levels_of(new)
        return True

    def _by_operations(self, change: Change) -> Ensemble | None:
        """As `remove` and `add` do it, at the same kernel: what is exact, or of correlated outputs, is stacked anew."""
        if self.given or not self.ensemble._keeps_sites:
            return None
        changed = self.ensemble
        gone = change.gone.intersection(changed.names)  # others may have been skipped
        if gone >= set(changed.names):
            return None
        if gone:
            changed = changed.remove(gone, relearn=False)
        if change.new:
            changed = changed.add(change.new)
        self.ensemble = changed
        return changed

    def _read(self, modules: Sequence[Module]) -> list[tuple[Member, ...]] | None:
        """New members of each function, under the ensemble's noise; None where modules are of another kind."""
        if not modules:
            return [() for _ in self.ensemble.groups]
        try:
            return self._read_alike(modules)
        except RecycleGPError:  # not even of one kind: a merge from scratch says so, or goes on without some
            return None

    def _read_alike(self, modules: Sequence[Module]) -> list[tuple[Member, ...]] | None:
        ensemble = self.ensemble
        named = self.options.get("weights") or {}
        weights = {m.name: named[m.name] for m in modules if m.name in named}
        there = [m for group in ensemble.groups for m in group.members]
        with ModuleIntake(device=ensemble._device, keep=True, weights=weights, others=there) as intake:
            read = intake.read(modules)
            known = ensemble.likelihoods[0]
            if read.frame[:3] != ensemble.frame[:3] or read.likelihood.functions != known.functions:
                return None
            if len(known.functions) > 1 and type(read.likelihood) is not type(known):
                return None
            found = []
            for group, own, config in zip(ensemble.groups, read.functions, ensemble.how.configs, strict=True):
                own = merging.at_given_noise(own, config.noise)
                members = with_noise(own.members, group.noises[0], own.sites)
                found.append(tuple(m._replace(added_after_merge=not self.given or m.weight == 0) for m in members))
            return found

    def _changed(
        self, groups: Sequence[Group], new: Sequence[tuple[Member, ...]], gone: frozenset[str]
    ) -> tuple[Group, ...]:
        assert self._trees is not None
        each = zip(groups, self._trees, new, strict=True)
        return tuple(self._changed_group(group, tree, own, gone) for group, tree, own in each)

    def _changed_group(self, group: Group, tree: FoldTree, new: tuple[Member, ...], gone: frozenset[str]) -> Group:
        form = group.form
        assert isinstance(form, PointsForm)
        left = [m for m in group.members if m.name not in gone]
        members = tuple(sorted((*left, *new), key=lambda m: m.name))
        out = [m.name for m in group.members if m.name in gone and m.weight > 0]
        tree.change(out, _sites(new))
        if self.given:
            mean = pooling.median_mean(members)
            form = replace(form, mean=mean, bound_rows=tree.rows(mean), marginal=None)
            return replace(group, form=form, members=members, likelihoods=(pooling.pool_likelihoods(members),))
        form = replace(form, bound_rows=tree.rows(form.mean), marginal=None)
        after = group.after_removal(set(gone), self.ensemble.how, (), relearned=False) if out else group.unlearned
        return replace(group, form=form, members=members, likelihoods=group.pooled(members), unlearned=after)


def _levels_of(members: Sequence[Member]) -> dict[str, Levels]:
    """By their names."""
    with stored(members, now=False) as store:
        whole = levels(members, store)
    return {m.name: Levels(*(rows[i : i + 1] for rows in whole)) for i, m in enumerate(members)}


def _can_be_summed(group: Group) -> bool:
    """Is it held at points, with what each module says by itself?"""
    owners = [m.owner for m in group.members]
    alone = not group.form.effects.present or len(set(owners)) == len(owners)
    return isinstance(group.form, PointsForm) and group.coupling is None and group.keeps_sites and alone


@torch.no_grad()
def _tree(group: Group) -> FoldTree:
    form = group.form
    base = basis(form.kernel, form.Z, form.jitter, effects=form.effects)
    return FoldTree(base, form.mean, _sites(group.members))


def _sites(members: Iterable[Member]) -> dict[str, Site]:
    """Of those that count, as they count."""
    found = {}
    for m in members:
        site = m.site_now
        assert site is not None
        if m.weight > 0:
            found[m.name] = site if m.weight == 1 else weighted(site, site.e.new_tensor(m.weight))
    return found


def canonical(options: Mapping[str, Any], dimension: int) -> dict[str, Any]:
    """The same with a GPyTorch kernel as a value, which nobody can change."""
    kernel = options.get("kernel")
    if kernel is None or isinstance(kernel, (str, Kernel)):
        return dict(options)
    return {**options, "kernel": from_gpytorch(kernel, dimension)}


def nothing_is_chosen(options: Mapping[str, Any]) -> bool:
    """Are kernel and points given, so that what is merged does not depend on what was merged before?"""
    points = options.get("inducing", "auto")
    kernel = options.get("kernel")
    return (
        options.get("learn", True) is False
        and kernel is not None
        and not isinstance(kernel, str)
        and not isinstance(points, (str, int))
        and options.get("owners", "auto") in (None, "auto")
        and options.get("half_life") is None
    )


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Do these options ask for the same?"""
    return one.keys() == other.keys() and all(_alike(value, other[key]) for key, value in one.items())


def _alike(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, (str, int, float, Mapping, type(None))) or type(a) is not type(b):
        return bool(type(a) is type(b) and a == b)
    if isinstance(a, Kernel):
        return bool(a == b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))
