"""Ensemble: the merged GP. Immutable; every operation returns a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from os import PathLike
from typing import Any, ParamSpec, TypeVar

import gpytorch
import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..categories import NO_CATEGORIES, Categories, used_codes
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.exact import ExactPosterior
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Basis, Posterior
from ..core.sites import box
from ..devices import CPU, default_device, retry_on_oom
from ..errors import RecycleGPError
from ..export import gpytorch_model
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..merging import affordable, pooling
from ..merging.build import Form
from ..merging.exact_form import ExactForm
from ..merging.forgetting import check_share, faded
from ..merging.growing import grow_exact, grow_points, published
from ..merging.member import Member, active, boxes, extent, kept_points, stored
from ..merging.merge_config import USUAL, MergeConfig, MergeResult
from ..merging.noise import PooledNoise, Readings, at_noise, with_noise
from ..merging.owners import Owners, owner_numbers
from ..merging.points import PointsWanted
from ..merging.points_form import PointsForm
from ..merging.site_source import SiteSource, corners
from ..merging.site_store import SiteStore
from ..merging.size import Size, size_of
from ..merging.trust import reset_screening
from ..storage import container
from ..storage.container import Document
from ..storage.fields import Fields
from ..target import NO_TARGET, Target
from . import doubts, ensemble_files, reporting, unlearning
from .choice import ALL, AUTO, choice_of, wanted_again
from .module import Module, check_finite
from .naming import NEW, check_owner, few, name_of_update
from .new_rows import as_member, observed
from .predictive import Predictive, outside_autograd
from .reading import Frame, Source, check_weight, read_modules
from .units import new_units
from .unlearning import NOTHING_REMOVED, Chosen, Guarantee, Unlearned

P = ParamSpec("P")
R = TypeVar("R")


def on_its_device(method: Callable[P, R]) -> Callable[P, R]:
    """New tensors are made where the ensemble is, and where its memory does not suffice less is done at once."""

    @wraps(method)
    def there(*arguments: P.args, **options: P.kwargs) -> R:
        with default_device(arguments[0]._device):  # type: ignore[attr-defined]
            return retry_on_oom(lambda: method(*arguments, **options))

    return there


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Predictive):
    """Many modules as one GP, itself publishable. Made by `merge` and `load`."""

    _form: Form  # prior and posterior, as values
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    choice: int | str | None  # how its points were chosen: "auto", "all", a number, or None for points that were given
    _members: tuple[Member, ...]
    convergence: Convergence = NOTHING_TO_LEARN  # of the search for its kernel
    unlearned: Unlearned = NOTHING_REMOVED  # what is left of modules that were removed
    _extent: Tensor | None = None  # (2, D): where modules have points, where their sites are not kept
    _owners: Owners = Owners.NONE  # how owners might differ: what relearning compares
    _noise: PooledNoise | None = None  # to which modules were brought; None: they stay as they were published
    _recipe: MergeConfig = USUAL  # how kernel, noise and trust were chosen: what relearning does again
    categories: Categories = NO_CATEGORIES  # the levels of columns that hold some, by name
    _device: torch.device = CPU  # where its form is, and where it computes; members stay on the CPU

    def __post_init__(self) -> None:
        check_finite("ensemble", *self._form.tensors())
        object.__setattr__(self, "_form", self._form.own(self._device))
        if self._owners_differ and NEW in self.owners:
            raise RecycleGPError(f"where owners differ, none can be called {NEW!r}; rename the module, or use owned_by")

    @staticmethod
    def _from_merged(
        made: MergeResult,
        wanted: PointsWanted,
        columns: arrays.Columns,
        categories: Categories,
        owners: Owners,
        recipe: MergeConfig,
    ) -> Ensemble:
        """What merging found, with the members it came from."""
        merged, members, store = made
        members = tuple(
            m._replace(added_after_merge=m.weight == 0, points_appended=0) for m in with_noise(members, merged.noise)
        )
        ensemble = Ensemble(
            _form=merged.form,
            likelihoods=pooling.pool_likelihoods(members),
            columns=columns,
            choice=choice_of(wanted),
            _members=members,
            convergence=merged.convergence,
            _owners=owners,
            _noise=merged.noise,
            _recipe=recipe,
            categories=categories,
            _device=store.device,
        )
        doubts.about_trust(members)
        doubts.about_regions(members, columns)
        doubts.about_learning(merged.form.kernel, merged.convergence, members)
        if wanted.automatic:
            doubts.about_points(size_of(merged.form, store.rows), members)
        return (
            ensemble
            if ensemble._keeps_sites
            else ensemble._without_sites(at_noise(store, Readings.of(members), merged.noise))
        )

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", …" if len(self.names) > 3 else "")
        form = "exact, " if isinstance(self._form, ExactForm) else ""
        loss = "" if isinstance(self._form, ExactForm) else f", slack {self.slack:.3g}"
        return (
            f"Ensemble({len(self._members)} modules: {shown}; {self.rows} rows, {form}{len(self._form.Z)} points in "
            f"{self.dimension}-D, {self._form.kernel.describe()}{loss})"
        )

    # --- what it knows ---

    @property
    def names(self) -> list[str]:
        """Of the modules, in the order in which they came."""
        return [m.name for m in self._members]

    @property
    def rows(self) -> int:
        """Data rows behind it, each counted with its module's weight."""
        return max(1, round(sum(m.rows * m.weight for m in self._members)))

    @property
    def mean(self) -> float:
        """Constant prior mean of f."""
        return self._form.mean

    @property
    def jitter(self) -> float:
        """Added to the diagonal of K_**, and part of the kernel there."""
        return self._form.jitter

    @property
    @on_its_device
    def bound(self) -> float:
        """The ensemble bound L_E (of log∫Πt_k dp(f); not in general of log p(y))."""
        return self._form.bound

    @property
    @on_its_device
    def evidence(self) -> float:
        """The block-marginal evidence E ≥ L_E; of an exact ensemble the evidence itself."""
        return self._with_evidence.evidence(SiteStore())

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that the points Z_* cannot express; none where it is exact."""
        return self._form.slack

    @property
    def traces_of_removed(self) -> int:
        """Modules that were removed where something still reflects them; `unlearned` says what."""
        return self.unlearned.removed if self.unlearned.guarantee is Guarantee.TRACES else 0

    @property
    def size(self) -> Size:
        """Which form it has, exact or at points, what that loses, and what an exact one costs."""
        kept = [m.site for m in active(self._members) if m.site is not None]
        return size_of(self._form, sum(len(site.rho) for site in kept) if self._keeps_sites else None)

    @property
    def owners(self) -> list[str]:
        """Whose modules they are, in the order in which they came."""
        return list(dict.fromkeys(m.owner for m in self._members))

    @property
    def offset_sd(self) -> float:
        """σ_b: how far owners' constants are from the shared function, as a standard deviation."""
        return self._form.effects.offset_sd

    @property
    def smooth_sd(self) -> float:
        """σ_d: how large owners' smooth departures from the shared function are, beside that function itself."""
        return self._form.effects.smooth_sd

    @property
    def target(self) -> Target:
        """What y means, where all modules that say so agree."""
        said = {m.target for m in active(self._members) if m.target.known}
        return said.pop() if len(said) == 1 else NO_TARGET

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where modules have points, along each input."""
        ends = [t for t in (self._extent, extent(self._members)) if t is not None] or [self._form.Z]
        both = torch.cat([t.cpu() for t in ends])
        return arrays.frozen(torch.stack([both.amin(0), both.amax(0)], 1))

    @property
    def basis(self) -> Basis:
        """Z_* and the factor of its kernel matrix: a copy. An exact ensemble has the points it would publish at."""
        return self._points_form.basis.map(torch.Tensor.clone)

    @on_its_device
    def report(self) -> list[dict[str, Any]]:
        """One row per module: rows, points, weight, agreement with the rest, and its owner's offset.

        `surprise` is the squared distance of the module's pseudo-observations from what all the
        others predict for them, per pseudo-observation: about 1 where they agree. `agreement` is the
        probability of a larger one, if the model is right. Both are judged under the ensemble's kernel or, where that
        is far rougher than any module's own, as a kernel that has absorbed a contradiction is, under their median.
        `offset` and `offset_sd` say what is known of its owner's constant, where owners differ. `trust` is the verdict
        of `screen`, None where nobody looked, and `proposal` the change of units that would explain a flagged module.
        `guarantee` says, the same in every row, what holds of modules that were removed (`unlearned` says more).
        """
        with self._sites(self._members) as store:
            return reporting.report(self._with_evidence, self._members, store, self.unlearned.guarantee)

    # --- the form, for those inside ---

    @property
    def _prior_kernel(self) -> Kernel:
        return self._form.kernel

    @property
    def _points(self) -> Tensor:
        return self._form.Z

    @property
    def _boxes(self) -> list[Tensor]:
        whole = [] if self._extent is None else [self._extent]
        return [*boxes(self._members), *whole] or [box(self._form.Z.cpu())]

    @property
    def _owners_differ(self) -> bool:
        """Have owners functions of their own about the shared one?"""
        return self._form.effects.present

    @cached_property
    @outside_autograd
    @on_its_device
    def _posterior(self) -> Posterior | ExactPosterior:
        return self._form.posterior

    @cached_property
    @outside_autograd
    @on_its_device
    def _points_form(self) -> PointsForm:
        """The form at points; an exact one at those that express it."""
        return self._form if isinstance(self._form, PointsForm) else published(self._form, None)

    @cached_property
    @outside_autograd
    @on_its_device
    def _with_evidence(self) -> Form:
        """Nothing but the evidence and the report asks for it, so it may wait."""
        with self._sites(self._members) as store:
            form = self._form.without_sites(store)
        check_finite("ensemble", *form.tensors())
        return form

    @on_its_device
    def _answers(self, owner: str | None, *, of_y: bool) -> FunctionPosterior:
        """y is somebody's: without an owner it is a new one's; f without an owner is the shared one."""
        if owner is not None and owner != NEW and owner not in self.owners:
            raise RecycleGPError(f"owner={owner!r}: nobody here is called so; there are {few(self.owners)}, and 'new'")
        if not self._owners_differ or (owner is None and not of_y):
            return self._posterior
        if owner is None or not any(m.owner == owner and m.weight > 0 for m in self._members):
            return self._form.of_new_owner()  # also for somebody whose modules do not count
        return reporting.as_seen_by(self._form, self._members, owner)

    # --- operations: each returns a new ensemble ---

    def add(self, modules: Source, *, relearn: bool = False) -> Ensemble:
        """With more modules, at the same kernel, mean and noise unless `relearn`.

        Args:
            modules: as for `merge`: one or many, from an iterator, files or a directory.
            relearn: choose kernel, points, mean and noise anew, in the way they were chosen first.

        Returns:
            The larger ensemble. Where points were chosen automatically, new ones are appended if the modules speak of
            a region that has none; points that were given, or whose number was, stay.
        """
        if relearn:
            self._need_sites("relearn=True")
        frame = Frame(self.dimension, self.columns, "(ensemble)", self.categories)
        with SiteStore(self._device) as store:
            read = read_modules(modules, store, keep=self._keeps_sites, already=self._members, frame=frame)
            return self._knowing(read.frame.categories)._with_read(read.members, store, relearn)

    @on_its_device
    def _with_read(self, new: tuple[Member, ...], store: SiteStore, relearn: bool) -> Ensemble:
        now = at_noise(store, Readings.of(new), self._noise)
        return self._with(with_noise(new, self._noise), now, relearn)

    @on_its_device
    def remove(self, names: str | Iterable[str], *, relearn: bool = False) -> Ensemble:
        """Without the named modules, whose sites are gone: the rest is stacked anew.

        Args:
            names: one or several.
            relearn: False keeps kernel, points, mean, noise and owners' variances, also where they had been chosen with
                the removed modules. True chooses all of these anew, as if the modules had never been merged.

        Returns:
            The smaller ensemble. Its `unlearned` says which guarantee holds, and what is left where none does.
        """
        gone = {names} if isinstance(names, str) else set(names)
        self._need_names("remove", gone)
        rest = tuple(m for m in self._members if m.name not in gone)
        if not active(rest):
            raise RecycleGPError("remove: nothing would be left; an ensemble needs at least one module")
        self._need_sites("remove")
        form = self._form
        if isinstance(form, PointsForm):  # points that were appended for a module go with it
            form = form.without_points(kept_points(self._members, gone, len(form.Z)))
        left = replace(self, _form=form)._knowing_only(rest, relearn)
        known = left.likelihoods if relearn else unlearning.likelihoods_without(self.likelihoods, rest)
        whole = (self._form, self._members, self._recipe, self._owners, self._noise, self.likelihoods)
        chosen = Chosen(*whole, self.choice not in (None, ALL))
        unlearned = unlearning.after_removal(self.unlearned, chosen, gone, relearned=relearn)
        return replace(left, likelihoods=known, unlearned=unlearned)

    @on_its_device
    def reweight(self, weights: dict[str, float], *, relearn: bool = False) -> Ensemble:
        """With other weights for the named modules.

        Args:
            weights: name → w ≥ 0; modules that are not named keep theirs.
            relearn: choose kernel, points, mean and noise anew.

        Returns:
            The reweighted ensemble.
        """
        self._need_names("reweight", set(weights))
        for name, weight in weights.items():
            check_weight(arrays.number(weight, f"weights[{name!r}]"))
        self._need_sites("reweight")
        rest = tuple(
            m._replace(weight=float(weights[m.name]), verdict=None) if m.name in weights else m for m in self._members
        )
        if not active(rest):
            raise RecycleGPError("reweight: all weights are zero; an ensemble needs at least one module")
        return self._rebuild(rest, relearn)

    @on_its_device
    def update(
        self,
        X: Any,
        y: Any,
        *,
        likelihood: str | None = None,
        noise: Any = None,
        name: str | None = None,
        owner: str | None = None,
        relearn: bool = False,
        forget: float = 1.0,
    ) -> Ensemble:
        """With new data of any likelihood; those that are not Gaussian are better collected until they are a few dozen.

        Args:
            X: inputs of the new rows.
            y: their targets.
            likelihood: of the new rows; may be left out where the ensemble has one.
            noise: noise variance of the new rows; the ensemble's own unless given. An array holds one for each row, as
                for `fit`.
            name: what to call them; update-1, … unless given.
            owner: whose rows they are; somebody new, called like them, unless given.
            relearn: choose kernel, points, mean and noise anew afterwards.
            forget: what all that is known counts beside the new rows, in (0, 1]: 0.98 multiplies every weight by 0.98
                first, for a function that drifts.

        Returns:
            The ensemble with the new rows. Where points were chosen automatically, new ones are appended if the rows
            lie in a region that has none; other points stay, and a warning says what they cannot express.
        """
        label = name_of_update(name, self.names)
        device = self._form.Z.device
        points, _, levels = arrays.matched(X, self.dimension, self.columns, self.categories, device=device)
        if not len(points):
            raise RecycleGPError("update: X has no rows; pass at least one")
        if levels != self.categories:
            return self._knowing(levels).update(
                X, y, likelihood=likelihood, noise=noise, name=label, owner=owner, relearn=relearn, forget=forget
            )
        if check_share(forget) < 1:
            less = faded(self._form, self._members, forget)
            return replace(self, _form=less.form, _members=less.members).update(
                X, y, likelihood=likelihood, noise=noise, name=label, owner=owner, relearn=relearn
            )
        data = observed(points, y, self.likelihoods, likelihood, noise)
        rows = self.rows + len(data.y) if self.choice == AUTO else None
        new, form = as_member(self._form, data, label, check_owner(owner), rows=rows, stacklevel=2)
        with stored((new,)) as store:
            return self._with((new,), store, relearn, form)

    def transform(
        self,
        input_shift: Any = None,
        output_scale: float = 1.0,
        output_shift: float = 0.0,
        unit: str | None = None,
        *,
        input_scale: Any = None,
    ) -> Ensemble:
        """The ensemble of s·f((x − shift)/scale) + b; arguments as for modules, all of which change with it."""
        new = new_units(
            input_scale,
            input_shift,
            output_scale,
            output_shift,
            unit,
            dimension=self.dimension,
            columns=self.columns,
            discrete=self._form.kernel.structure.discrete,
        )
        return replace(
            self,
            _form=self._form.in_units(new.scale, new.shift, new.inputs.to(self._device), self._densities),
            likelihoods=tuple(p.in_units(new.scale, new.shift) for p in self.likelihoods),
            _members=tuple(m.in_units(new.scale, new.shift, new.inputs, unit) for m in self._members),
            _extent=None if self._extent is None else new.inputs.of(self._extent),
            _noise=None if self._noise is None else self._noise.in_units(new.scale),
            _recipe=self._recipe.in_units(new.scale, new.inputs),
        )

    def to_module(self, name: str, inducing: Any = "auto") -> Module:
        """What the whole ensemble knows of the shared f as one module, to be recycled again.

        Args:
            name: of the module.
            inducing: "auto" (its points Z_*; where it is exact, as many of the modules' points as express it), a
                number of points, or the points themselves: the exact marginal there.

        Returns:
            The module.
        """
        points = None
        if not (isinstance(inducing, str) and inducing == "auto"):
            points = arrays.count_or_points(inducing, "inducing", self.dimension, self.columns, "cpu", self.categories)
        if points is None or isinstance(self._form, ExactForm):
            return self._as_module(name, points)
        return self._as_module(name, None).publish(points)

    @on_its_device
    def _as_module(self, name: str, points: int | Tensor | None) -> Module:
        """At its own points; an exact one at these, at so many, or at as many as it takes."""
        settled = self.convergence.converged and all(m.converged for m in self._members)
        said = "" if settled else "; its search or some of them had not converged"
        form = self._points_form
        if points is not None and isinstance(self._form, ExactForm):
            form = published(self._form, points.to(self._device) if isinstance(points, Tensor) else points)
        return Module(
            name=name,
            _site=form.site(),
            _kernel=form.kernel,
            mean=self.mean,
            jitter=form.jitter,
            likelihoods=self.likelihoods,
            rows=self.rows,
            columns=self.columns,
            convergence=Convergence(settled, 0, f"ensemble of {len(self._members)} modules{said}"),
            method="ensemble",
            target=self.target,
            densities=None if self._densities == self.rows else self._densities,
            categories=self.categories,
        )

    @on_its_device
    def to_gpytorch(
        self, likelihood: str | None = None
    ) -> tuple[gpytorch_model.MergedGP, gpytorch.likelihoods.Likelihood]:
        """A whitened GPyTorch `ApproximateGP` that predicts the same, in evaluation mode, and its likelihood.

        The model can be trained on like any other; but its ELBO measures q from the prior, so rows beyond the
        ensemble's own belong into `update`.

        Args:
            likelihood: which one, where the ensemble has several.

        Returns:
            The model and the likelihood.
        """
        return gpytorch_model.to_gpytorch(self._points_form.posterior, self._likelihood(likelihood))

    def to_botorch(self) -> Any:
        """A BoTorch `Model` of f whose posterior has batches and gradients: for acquisition functions."""
        try:
            from ..export.botorch_model import MergedModel  # BoTorch is an optional extra
        except ModuleNotFoundError as absent:
            raise ModuleNotFoundError(f"to_botorch: {absent}; pip install botorch") from None
        return MergedModel(self._posterior, self.likelihoods)

    @on_its_device
    def forget_sites(self) -> Ensemble:
        """Keep only the modules' names: small, but nothing can be removed afterwards."""
        with stored(self._members) as store:
            return self._without_sites(store)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        container.write(path, self._document())

    @on_its_device
    def _document(self) -> Document:
        facts = ensemble_files.Facts(
            form=self._with_evidence,
            likelihoods=self.likelihoods,
            columns=self.columns,
            choice=self.choice,
            members=self._members,
            convergence=self.convergence,
            unlearned=self.unlearned,
            extent=self._extent,
            owners=self._owners,
            noise=self._noise,
            recipe=self._recipe,
            categories=self.categories,
        )
        return ensemble_files.to_document(facts)

    @staticmethod
    def _from_fields(fields: Fields) -> Ensemble:
        return Ensemble(*ensemble_files.from_fields(fields))

    # --- behind them ---

    def _knowing(self, categories: Categories) -> Ensemble:
        """With more levels, whose codes are behind those that it has."""
        return self if categories == self.categories else replace(self, categories=categories)

    def _knowing_only(self, members: tuple[Member, ...], relearn: bool) -> Ensemble:
        """Made of these members again; levels that only others had are forgotten."""
        known = [m.site.Z for m in members if m.site is not None]
        form = self._form
        stay = isinstance(form, PointsForm) and (self.choice is None or not relearn)
        used = used_codes([*known, form.Z.cpu()] if stay else known, self.categories.columns)
        fewer = self.categories.only(used)
        if isinstance(form, PointsForm) and stay:
            form = replace(form, Z=self.categories.recoded(form.Z, fewer))
        members = tuple(
            m if m.site is None else m._replace(site=m.site._replace(Z=self.categories.recoded(m.site.Z, fewer)))
            for m in members
        )
        return replace(self, _form=form, categories=fewer)._rebuild(members, relearn)

    def _with(self, new: tuple[Member, ...], store: SiteSource, relearn: bool, form: Form | None = None) -> Ensemble:
        """New members' rows, from their store, under what is already there; `form` has points for them already."""
        members = (*self._members, *new)
        first, numbers = len(self._members), owner_numbers(members)
        if relearn:
            self._need_sites("relearn=True")
            return self._rebuild(members, relearn=True)
        known: Form = vars(self).get("_with_evidence", self._form)
        base = known if form is None or form is self._form else form
        rows = sum(m.weighted_rows for m in members)
        grown: Form
        if isinstance(base, ExactForm):
            most = None if self.choice == ALL else affordable.held()
            grown = grow_exact(base, store, numbers, first, most, rows)
            if isinstance(grown, PointsForm):  # whose points were chosen with everybody
                members = tuple(m._replace(added_after_merge=False) for m in members)
        elif base.effects.present and not set(numbers[:first]).isdisjoint(numbers[first:]):
            # an owner's modules are one site where owners differ, so that its old ones must be read again
            self._need_sites("another module of an owner who has one here")
            with self._sites(members) as everything:
                grown = base.only(everything)
        else:
            may_append = form is None and self.choice == AUTO
            grown, appended = grow_points(base, store, numbers[first:], rows if may_append else None)
            new = tuple(m._replace(points_appended=m.points_appended + appended.count(i)) for i, m in enumerate(new))
            members = (*self._members, *new)
        pooled = pooling.with_unknown_filled(self.likelihoods, pooling.pool_likelihoods(members))
        more = replace(self, _form=grown, _members=members, likelihoods=pooled)
        if self.choice is not None:  # who gave the points themselves knows what they can express
            points = len(grown.Z) if isinstance(grown, PointsForm) else sum(len(m.site.Z) for m in new if m.site)
            doubts.about_new_slack(points, more.slack - self.slack + sum(m.slack for m in new))
        return more if self._keeps_sites else more._without_sites(store, first)

    def _without_sites(self, store: SiteSource, first: int = 0) -> Ensemble:
        """Names only; how well those in the store agree with the rest is written down while it is known."""
        store = self._form.grouped(store, owner_numbers(self._members)[first:])
        form = self._form.without_sites(store)
        members = reporting.remembered(form, self._members, store, first)
        ends = torch.cat([corners(store).cpu()] + ([] if self._extent is None else [self._extent]))
        return replace(
            self,
            _form=form,
            _members=members[:first] + tuple(m._replace(site=None) for m in members[first:]),
            _extent=torch.stack([ends.amin(0), ends.amax(0)]),
        )

    def _rebuild(self, members: tuple[Member, ...], relearn: bool) -> Ensemble:
        if relearn:
            return self._relearned(members)
        left = {p.name for m in active(members) for p in m.likelihoods}
        with self._sites(members) as store:
            form = self._form.only(store, owner_numbers(members))
        likelihoods = tuple(p for p in self.likelihoods if p.name in left)
        return replace(self, _form=form, likelihoods=likelihoods, _members=members)

    def _relearned(self, members: tuple[Member, ...]) -> Ensemble:
        """Kernel, mean, effects, points, noise and trust chosen anew, in the way they were chosen first."""
        wanted = wanted_again(self.choice, self._form.Z)
        recipe = self._recipe._replace(learn=True)
        with stored(reset_screening(members), now=False) as store:
            made = recipe.run(reset_screening(members), store, wanted, self.dimension, self._owners, self.columns)
            new = Ensemble._from_merged(made, wanted, self.columns, self.categories, self._owners, recipe)
            return replace(new, unlearned=self.unlearned.relearned())

    def _sites(self, members: tuple[Member, ...]) -> SiteSource:
        """The sites that members have kept, as the form takes them."""
        return self._form.grouped(stored(members), owner_numbers(members))

    @property
    def _densities(self) -> float:
        """Densities of y behind it, weighted."""
        return sum(m.effective_row_count * m.weight for m in self._members)

    @property
    def _keeps_sites(self) -> bool:
        return all(m.site is not None for m in self._members)

    def _need_names(self, what: str, wanted: set[str]) -> None:
        unknown = wanted - set(self.names)
        if unknown:
            raise RecycleGPError(
                f"{what}: no module is named {', '.join(sorted(map(str, unknown)))}; there are {few(self.names)}"
            )

    def _need_sites(self, what: str) -> None:
        if not self._keeps_sites:
            raise RecycleGPError(
                f"{what} needs the modules' sites, and this ensemble keeps only names; merge the module files "
                "again without the ones to leave out, or merge with keep='sites'"
            )
