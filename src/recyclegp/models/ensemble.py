"""Ensemble: the merged GP. Immutable; every operation returns a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .. import arrays
from ..anonymity import ROWS_PER_LEVEL, LevelGuard
from ..arrays import Array, CountOrPoints, PerOutput
from ..core.convergence import Convergence
from ..devices import CPU
from ..errors import Argument, RecycleGPError
from ..likelihoods import Gaussian, Likelihood
from ..local.constants import PEOPLE
from ..local.options import FitOptions, PrivacyLike, PublishLike
from ..local.planning import check_rows_per_point
from ..merging.decay import check_decay, decayed_members
from ..merging.member import Member, active, stored
from ..record import About, Origin, Privacy, Record, common_privacy, worst
from . import merging, operations, unlearning
from .group import Group
from .how import Frame, How, Signer
from .intake import FunctionRead, Known, ModuleIntake
from .merged import MergedModel, on_its_device
from .module import Module
from .naming import check_owner, name_of_update
from .new_rows import NewRows, observed, with_rows
from .plan import Plan
from .planning import plan_of
from .publishing import coded
from .sources import Source
from .waiting import check_publishing, strictest, updates
from .weights import check_weight


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(MergedModel):
    """Many modules as one model of one function or of several, itself publishable. Made by `merge` and `load`.

    A function is merged from the modules that have it: an owner may have seen some outputs, or some classes, only. What
    is one value for a single function (mean, kernel, noise, …) is a tuple for several.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a")
        >>> e = rgp.merge([m, rgp.fit(X + 3, np.sin(X[:, 0] + 3), noise=0.01, name="b")])
    """

    @staticmethod
    def _of_groups(
        likelihood: Likelihood, frame: Frame, groups: Sequence[Group], how: How, device: torch.device = CPU
    ) -> Ensemble:
        """What merging found."""
        known = [own for group in groups for own in group.likelihoods]
        return Ensemble(likelihood.with_parts(known), frame, tuple(groups), how, device)

    def part(self, function: str) -> Ensemble:
        """One of its functions as an ensemble by itself; of correlated outputs as it would be without the others.

        Args:
            function: its name, one of `functions`.

        Returns:
            The ensemble of this function.

        Raises:
            RecycleGPError: There is no function of this name.

        Examples:
            >>> both = rgp.merge([rgp.fit(X, np.c_[np.sin(X), np.cos(X)], target=["heat", "salt"])])
            >>> both.part("salt").functions
            ('f',)
        """
        c, apart = self._number_of(function), self.independent()
        known = tuple(p.parts[c] for p in apart.likelihoods)
        members = tuple(m._replace(function=0) for m in apart.groups[c].members)
        own = replace(apart.groups[c], functions=(0,), members=members, likelihoods=(known,))
        how = apart.how._replace(configs=(apart.how.configs[c],))
        alone = Ensemble(known, self.frame, (own,), how, self._device)
        waiting = tuple(w for w in self._waiting if w.member.function == c)
        return replace(alone, _waiting=waiting)._waiting_changed(lambda m: m._replace(function=0))

    @on_its_device
    def independent(self) -> Ensemble:
        """The same with every output by itself, as it would be without the others: merged anew, where it is not so.

        Raises:
            RecycleGPError: Outputs are correlated, and the modules' sites were dropped.

        Examples:
            >>> e.independent().names
            ['a', 'b']
        """
        how = self.how._replace(outputs=None)
        if self.output_covariance is None:
            return replace(self, how=how)
        self._need_sites("independent")
        points = self._given_points
        groups = merging.relearn(self.likelihoods[0], self._by_function(), self.frame, how.learning, points)
        return replace(self, how=how)._with_groups(groups)

    # --- operations: each returns a new ensemble ---

    def add(self, modules: Source, *, relearn: bool = False) -> Ensemble:
        """With more modules, at the same kernel, mean and noise unless `relearn`.

        Args:
            modules: as for `merge`: one or many, from an iterator, files or a directory. All of their functions must
                be known here; of new ones `merge` anew.
            relearn: choose kernel, points, mean and noise anew, in the way they were chosen first.

        Returns:
            The larger ensemble. Where points were chosen automatically, new ones are appended if the modules speak of
            a region that has none; points that were given, or whose number was, stay.

        Raises:
            RecycleGPError: A name is taken, inputs or functions are others, or sites are needed that were dropped.

        Examples:
            >>> e.add(m.rename("c")).names
            ['a', 'b', 'c']
        """
        if relearn:
            self._need_sites(Argument("relearn", True))
        known = Known(self.likelihoods[0], self.frame, tuple(self._everybody))
        with ModuleIntake(device=self._device, keep=self._keeps_sites, known=known) as intake:
            read = intake.read(modules)
            now = self if read.frame == self.frame else replace(self, frame=read.frame)
            return now._with_read(read.functions, relearn)

    @on_its_device
    def _with_read(self, functions: Sequence[FunctionRead], relearn: bool) -> Ensemble:
        if relearn:
            now = self._settled
            more = [(*old, *own.members) for old, own in zip(now._by_function(), functions, strict=True)]
            return now._relearned(more)
        noises = (config.noise for config in self.how.configs)
        functions = [merging.at_given_noise(own, noise) for own, noise in zip(functions, noises, strict=True)]
        return self._with_groups(operations.add(self.groups, functions, self.choice))

    @on_its_device
    def remove(self, names: str | Iterable[str], *, relearn: bool | None = None) -> Ensemble:
        """Without the named modules, as if they had never been merged: their sites are gone, the rest is stacked anew.

        Args:
            names: one or several.
            relearn: choose kernel, points, mean, noise and owners' variances anew. By default that is done where any of
                these had been chosen with a removed module; what was given, or chosen without them, stays. False keeps
                all of it: quicker, and not enough where consent was withdrawn. True always chooses anew.

        Returns:
            The smaller ensemble. Its `unlearned` says which guarantee holds, and what is left where none does.

        Raises:
            RecycleGPError: A name is not here, nothing would be left of a function, or sites were dropped.

        Examples:
            >>> e.remove("b").names
            ['a']
        """
        gone = {names} if isinstance(names, str) else set(names)
        self._need_names("remove", gone)
        now = replace(self, _waiting=tuple(w for w in self._waiting if w.member.name not in gone))
        left = {m.function for m in active(m for own in now._by_function() for m in own) if m.name not in gone}
        if any(w.member.function not in left for w in now._waiting):  # only rows that came by update are
            now = now._published()
        return now._without(gone, relearn)

    def _without(self, gone: set[str], relearn: bool | None) -> Ensemble:
        rest = [[m for m in own if m.name not in gone] for own in self._by_function()]
        for function, own in zip(self.functions, rest, strict=True):
            if not active(own):
                said = f" of {function}" if len(self.functions) > 1 else ""
                raise RecycleGPError(f"remove: nothing would be left{said}; an ensemble needs at least one module")
        self._need_sites("remove")
        waiting = [w.member for w in self._waiting]
        anew = relearn
        if anew is None:
            left = [group.after_removal(gone, self.how, waiting, relearned=False) for group in self.groups]
            anew = any(u.traces for u in left)
        fixed = self.groups if self.choice is None or not anew else ()
        fewer = operations.levels_of([*(m for own in rest for m in own), *waiting], fixed, self.categories)
        codes = self.categories, fewer
        now = replace(self, frame=self.frame._replace(categories=fewer))._waiting_changed(lambda m: m.recoded(*codes))
        if not anew or waiting:
            now = now._with_groups(group.without(gone, self.how, codes, waiting) for group in self.groups)
        if not anew:
            return now
        after = [group.after_removal(gone, self.how, waiting, relearned=True) for group in self.groups]
        now = now._settled  # rows that came by update, without points of those who are gone
        coded = now._by_function() if waiting else [[m.recoded(*codes) for m in own] for own in rest]
        again = now._relearned(coded, learn=relearn is True)
        together = unlearning.together(after)
        return again._with_groups(replace(group, unlearned=together) for group in again.groups)

    @on_its_device
    def reweight(self, weights: Mapping[str, float], *, relearn: bool = False) -> Ensemble:
        """With other weights for the named modules.

        Args:
            weights: name → w ≥ 0; modules that are not named keep theirs.
            relearn: choose kernel, points, mean and noise anew.

        Returns:
            The reweighted ensemble.

        Raises:
            RecycleGPError: A name is not here, a weight is negative, or all are zero.

        Examples:
            >>> e.reweight({"b": 0.5}).rows
            45
        """
        self._need_names("reweight", set(weights))
        for name, weight in weights.items():
            check_weight(arrays.number(weight, f"weights[{name!r}]"))
        self._need_sites("reweight")

        def changed(m: Member) -> Member:
            return m._replace(weight=float(weights[m.name]), verdict=None) if m.name in weights else m

        rest = [[changed(m) for m in own] for own in self._by_function()]
        for own in rest:
            if not active(own):
                raise RecycleGPError("reweight: all weights are zero; an ensemble needs at least one module")
        now = self._waiting_changed(changed)
        if relearn:
            now = now._settled
            return now._relearned([list(map(changed, own)) for own in now._by_function()])
        return now._with_groups(group.rebuilt(tuple(map(changed, group.members))) for group in self.groups)

    @on_its_device
    def update(
        self,
        X: Array,
        y: Array,
        *,
        likelihood: str | None = None,
        noise: Any = None,
        name: str | None = None,
        owner: str | None = None,
        relearn: bool = False,
        decay: float = 1.0,
        forget: float | None = None,
        publish: PublishLike = "auto",
        rows_per_point: int | None = None,
        allow_small: bool = False,
        privacy: PrivacyLike = None,
    ) -> Ensemble:
        """With new data of any likelihood; those that are not Gaussian are better collected until they are a few dozen.

        Rows are summarised as a fit publishes its own: at so few points that several rows share each, none of them a
        row, and in a region that is known already at the ensemble's own points. Rows of one name add up: Gaussian ones
        are, one by one, what they are all at once. Fewer than ten wait: they count in full, but in memory only, and
        `save` and `to_module` refuse them until there are more. (A pickle is memory as it is.)

        Args:
            X: inputs of the new rows.
            y: their targets or classes; of several outputs (n, C), NaN where one was not seen.
            likelihood: of the new rows; may be left out where the ensemble has one.
            noise: noise variance of the new rows; the ensemble's own unless given. An array holds one for each row, as
                for `fit`; of several outputs also one for each cell.
            name: what to call them; update-1, … unless given. Rows of the same name and owner join those before them,
                rows without a name those of their owner that had none.
            owner: whose rows they are; somebody new, called like them, unless given.
            relearn: choose kernel, points, mean and noise anew afterwards; rows that wait have no part in it.
            decay: what all that is known counts beside the new rows, in (0, 1]: 0.98 multiplies every weight by 0.98
                first, for a function that drifts.
            forget: the older name of `decay`.
            publish: at how many points they are summarised, as for `fit`: "auto", a number, the share to keep, points.
                None: they stay in memory, where nothing of them is lost, and are never written. This and the following
                stay as they are for rows that join later, unless given again.
            rows_per_point: so many rows, at least, share each of these points; 2 unless given.
            allow_small: they may be written although they are few. What one row says is then in the file.
            privacy: "people" or "things", as for `fit`; "people" where any of the modules is about people. Rows of
                people count in memory only: `fit` and `add` a module to publish what they say.

        Returns:
            The ensemble with the new rows. Where points were chosen automatically, new ones are appended if the rows
            lie in a region that has none; other points stay, and a warning says what they cannot express.

        Raises:
            RecycleGPError: There are no rows, they do not fit the model, the name is taken, or decay is no share.

        Examples:
            >>> e.update([[9.5], [10.0]], [-0.1, -0.5], name="today").names
            ['a', 'b', 'today']
        """
        options = FitOptions.among(locals())
        options.check()
        check_rows_per_point(options.publishing)
        label = name_of_update(name, check_owner(owner), updates(self.groups, self._waiting), self.names)
        share = check_decay(decay) if forget is None else check_decay(forget, "forget")
        publishing = strictest(options.publishing, self._everybody)
        enough = PEOPLE.rows_of_level if publishing.privacy is Privacy.PEOPLE else ROWS_PER_LEVEL
        guard = LevelGuard(rows=enough, known=dict(self.categories.levels))
        known = self.dimension, self.columns, self.categories
        points, _, levels = arrays.matched(X, *known, device=self._device, guard=guard)
        if not len(points):
            raise RecycleGPError("update: X has no rows; pass at least one")
        if relearn:
            self._need_sites(Argument("relearn", True))
        now = self if levels == self.categories else replace(self, frame=self.frame._replace(categories=levels))
        if share < 1:
            now = replace(now, groups=tuple(group.decayed(share) for group in now.groups))
            now = now._waiting_changed(lambda m: decayed_members([m], share)[0])
        whole, rows = observed(points, self._as_numbers(y), self.likelihoods, likelihood, noise)
        about = About(label, owner, None, "update", self.columns, levels, privacy=publishing.privacy)
        about = about._replace(origin=self._origin_of_points)
        waiting = with_rows(now._waiting, now.groups, whole, rows, NewRows(about, publishing, self.choice))
        check_publishing(waiting, now.frame)
        more = replace(now, _waiting=waiting)._with_groups(now.groups)
        if relearn:
            more = more._settled
            return more._relearned(more._by_function())
        return more

    @on_its_device
    def _signed(self, signers: Iterable[Signer]) -> Ensemble:
        """With whose signatures were verified, beside those that are known."""
        known = {s.name: s for s in (*self.how.signers, *signers)}
        return replace(self, how=self.how._replace(signers=tuple(known.values())))

    def with_noise(self, noise: float | PerOutput) -> Ensemble:
        """With a noise that is known in place of the one that modules say they have: for imports whose noise is wrong.

        Kernel, mean and points stay. Modules that say what their rows know of their noise are brought to it, as a merge
        brings them to a common one; of others only the noise of new observations changes. It stays when modules are
        added or removed, and when everything else is learned anew; `merge(noise=...)` also learns the kernel with it.

        Args:
            noise: the variance; of several outputs one number for all, one for each, or {output: number} of some.

        Returns:
            The ensemble with this noise.

        Raises:
            RecycleGPError: It is not positive, no module is Gaussian, or sites are needed that were dropped.

        Examples:
            >>> float(e.with_noise(0.04).noise)
            0.04
        """
        each = merging.given_noises(self.likelihoods[0], noise)
        configs = tuple(config.with_noise(value) for config, value in zip(self.how.configs, each, strict=True))
        known = {c: Gaussian(value) for c, value in enumerate(each) if value is not None}
        for c, given in known.items():
            merging.check_is_gaussian([m for m in self._everybody if m.function == c], given)

        def changed(m: Member) -> Member:
            return m.with_noise(known[m.function]) if m.function in known else m

        now = replace(self, how=self.how._replace(configs=configs))._waiting_changed(changed)
        return now._with_groups(group.with_noise(known, changed) for group in self.groups)

    def transform(
        self,
        input_shift: Any = None,
        output_scale: Any = 1.0,
        output_shift: Any = 0.0,
        unit: Any = None,
        *,
        input_scale: Any = None,
    ) -> Ensemble:
        """The ensemble of s·f((x − shift)/scale) + b; arguments as for modules, all of which change with it.

        Raises:
            RecycleGPError: A scale is zero, a column or output is not known, or y has no units.

        Examples:
            >>> round(float(e.transform(output_scale=10).noise), 6)
            1.0
        """
        changes = self.likelihoods[0].changes(output_scale, output_shift, unit)
        inputs = self._input_units(input_scale, input_shift)
        moved = replace(self, how=self.how.in_units(changes, inputs))
        moved = moved._waiting_changed(lambda m: m.in_units(changes[m.function], inputs))
        return moved._with_groups(group.in_units(changes, inputs) for group in self.groups)

    def to_module(self, name: str, inducing: CountOrPoints = "auto") -> Module:
        """What the whole ensemble knows of the shared functions as one module, to be recycled again.

        Args:
            name: of the module.
            inducing: "auto" (its points Z_*; where it is exact, as many of the modules' points as express it), a
                number of points, or the points themselves: the exact marginal there.

        Returns:
            The module. Of correlated outputs it holds what modules say of each output by itself: what outputs tell
            each other is found again where the module is merged, and would count twice otherwise.

        Raises:
            RecycleGPError: The points do not have the ensemble's columns, or rows that came by `update` must wait.

        Examples:
            >>> e.to_module("both", inducing=8).rows
            60
        """
        points = None
        if not (isinstance(inducing, str) and inducing == "auto"):
            points = arrays.count_or_points(inducing, "inducing", self.dimension, self.columns, "cpu", self.categories)
        return Module(*self._record(name, points))

    @on_its_device
    def _record(self, name: str, points: int | Tensor | None) -> Record:
        wanted = points.to(self._device) if isinstance(points, Tensor) else points
        chosen = common_privacy(m.about.privacy for m in self._members)
        given = Origin.UNKNOWN if isinstance(points, Tensor) else self._origin_of_points
        origin = worst([given, *(m.about.origin for m in self._members)])
        method = operations.method_of(self._members)
        proven = self.disclosure.guaranteed
        about = About(name, None, None, method, *self.frame[1:3], self.targets, chosen, origin, guaranteed=proven)
        settled = self.convergence.converged and all(m.converged for m in self._members)
        said = "" if settled else "; its search or some of them had not converged"
        ended = Convergence(settled, 0, f"ensemble of {len(self.names)} modules{said}")
        latents = [
            latent for group in self._published().groups for latent in operations.latents_of(group, wanted, ended)
        ]
        return Record(about, self.likelihoods, coded(latents, self.categories))

    def plan(self, points: CountOrPoints = 256, *, learn: bool = True) -> Plan:
        """The plan that this merge proposes: what owners agree on to answer once more, and better.

        Args:
            points: how many of the modules' points, or the points themselves.
            learn: whether kernel, noise and mean are to be learned by the rounds that follow.

        Returns:
            A `Plan` with this kernel, noise, mean and these variances of owners. It remembers the merge, so that rounds
            can be compared with it.

        Raises:
            RecycleGPError: Outputs are correlated, or the noise is not known.

        Examples:
            >>> e.plan(points=8).points.shape
            (8, 1)
        """
        return plan_of(self, self._record("one shot", None), points, learn)

    @on_its_device
    def drop_sites(self) -> Ensemble:
        """Keep only the modules' names: small, but nothing can be removed afterwards.

        Examples:
            >>> e.drop_sites().names
            ['a', 'b']
        """
        less = []
        for group in self.groups:
            with stored(group.mapped(group.members)) as store:
                less.append(group.without_sites(store))
        return self._with_groups(less)

    def forget_sites(self) -> Ensemble:
        """The older name of `drop_sites`."""
        return self.drop_sites()

    def _relearned(self, members: Sequence[Sequence[Member]], *, learn: bool = True) -> Ensemble:
        """Kernel, mean, effects, points, noise and trust chosen anew, in the way they were chosen first.

        With learn=False hyperparameters are learned only if they were then.
        """
        how = self.how.learning if learn else self.how
        groups = merging.relearn(self.likelihoods[0], members, self.frame, how, self._given_points)
        left = self.unlearned.relearned()
        return replace(self, how=how)._with_groups(replace(group, unlearned=left) for group in groups)


Plan._ensemble = Ensemble  # what plans make
