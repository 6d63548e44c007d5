"""Ensemble: the merged GP. Immutable; every operation returns a new one."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import gpytorch
import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..core import least_squares
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.least_squares import CentredRows, Solution
from ..core.posterior import Basis, Posterior
from ..errors import RecycleGPError, RecycleGPWarning
from ..export import gpytorch_model
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..merging import pooling
from ..merging.agreement import compared
from ..merging.build import Merged, build
from ..merging.extending import all_candidates, candidates_among, extend, slack_of_rows
from ..merging.learning import FORGIVEN, slack_tolerance
from ..merging.member import Member, active, extent, kept_points, stored
from ..merging.points import PointsWanted
from ..merging.points_form import PointsForm, rows_in_units
from ..merging.site_store import Candidates, SiteStore, candidates
from ..merging.updating import summarise
from ..storage import container
from ..storage.fields import Fields
from ..target import NO_TARGET, Target
from . import doubts, ensemble_files
from .ensemble_files import AUTO
from .module import Module, check_finite, check_units, with_noise
from .naming import check_name, few, next_name
from .predictive import Predictive, outside_autograd
from .reading import Frame, Source, check_weight, read_modules


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Predictive):
    """Many modules as one GP, itself publishable. Made by `merge` and `load`."""

    _form: PointsForm  # prior and posterior, as values
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    choice: int | str | None  # how Z_* was chosen: "auto", a number, or None for points that were given
    _members: tuple[Member, ...]
    _marginal: CentredRows | None  # compressed block-marginal rows, or None where the sites are here to ask
    convergence: Convergence = NOTHING_TO_LEARN  # of the search for its kernel
    traces_of_removed: int = 0  # modules removed since, with whom kernel, points, mean and noise were chosen
    _extent: Tensor | None = None  # (2, D): where modules have points, where their sites are not kept

    def __post_init__(self) -> None:
        form = self._form
        check_finite("ensemble", form.Z, form.kernel.theta, *form.bound_rows, *(self._marginal or ()))
        own = replace(
            form,
            kernel=form.kernel.own(),
            Z=arrays.own(form.Z),
            bound_rows=CentredRows(*map(arrays.own, form.bound_rows)),
        )
        object.__setattr__(self, "_form", own)
        if self._marginal is not None:
            object.__setattr__(self, "_marginal", CentredRows(*map(arrays.own, self._marginal)))

    @staticmethod
    def _from_merged(
        merged: Merged, members: tuple[Member, ...], store: SiteStore, wanted: PointsWanted, columns: arrays.Columns
    ) -> Ensemble:
        """What merging found, with the members it came from, whose sites are in the store."""
        ensemble = Ensemble(
            _form=merged.form,
            likelihoods=pooling.pool_likelihoods(members),
            columns=columns,
            choice=AUTO if wanted.automatic else wanted.count,
            _members=members,
            _marginal=None,
            convergence=merged.convergence,
        )
        doubts.about_learning(merged.form.kernel, merged.convergence, members)
        if wanted.automatic:
            doubts.about_points(len(merged.form.Z), ensemble.slack, members)
        return ensemble if ensemble._keeps_sites else ensemble._without_sites(store)

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", …" if len(self.names) > 3 else "")
        return (
            f"Ensemble({len(self._members)} modules: {shown}; {self.rows} rows, {len(self._form.Z)} points in "
            f"{self.dimension}-D, {self._form.kernel.describe()}, slack {self.slack:.3g})"
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
    def bound(self) -> float:
        """The ensemble bound L_E (of log∫Πt_k dp(f); not in general of log p(y))."""
        return float(self._form.solution.bound)

    @property
    def evidence(self) -> float:
        """The block-marginal evidence E ≥ L_E."""
        return float(self._marginal_solution.bound)

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that the points Z_* cannot express."""
        return self._form.slack

    @property
    def target(self) -> Target:
        """What y means, where all modules that say so agree."""
        said = {m.target for m in active(self._members) if m.target.known}
        return said.pop() if len(said) == 1 else NO_TARGET

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where modules have points, along each input."""
        ends = [t for t in (self._extent, extent(self._members)) if t is not None] or [self._form.Z]
        both = torch.cat(ends)
        return arrays.frozen(torch.stack([both.amin(0), both.amax(0)], 1))

    @property
    def basis(self) -> Basis:
        """Z_* and the factor of its kernel matrix: a copy."""
        return self._basis.map(torch.Tensor.clone)

    def report(self) -> list[dict[str, Any]]:
        """One row per module: rows, points, weight, and agreement with the rest.

        `surprise` is the squared distance of the module's pseudo-observations from what all the
        others predict for them, per pseudo-observation: about 1 where they agree. `agreement` is the
        probability of a larger one, if the model is right. Both are judged under the ensemble's kernel or, where that
        is far rougher than any module's own, as a kernel that has absorbed a contradiction is, under their median.
        """
        with stored(self._members) as store:
            members = compared(self._form, self._marginal_solution, self._members, store)
        return [
            {
                "name": m.name,
                "rows": m.rows,
                "points": None if m.site is None else len(m.site.Z),
                "weight": m.weight,
                "likelihood": "+".join(p.name for p in m.likelihoods),
                "surprise": m.surprise,
                "agreement": m.agreement,
                "converged": m.converged,
                "slack": m.slack,
            }
            for m in members
        ]

    # --- the form, for those inside ---

    @property
    def _prior_kernel(self) -> Kernel:
        return self._form.kernel

    @property
    def _points(self) -> Tensor:
        return self._form.Z

    @property
    def _basis(self) -> Basis:
        return self._form.basis

    @property
    def _bound_rows(self) -> CentredRows:
        return self._form.bound_rows

    @cached_property
    @outside_autograd
    def _posterior(self) -> Posterior:
        return self._form.posterior

    @cached_property
    @outside_autograd
    def _marginal_rows(self) -> CentredRows:
        """Nothing but the evidence and the report asks for them, so they may wait."""
        if self._marginal is not None:
            return self._marginal
        with stored(self._members) as store:
            rows = self._form.marginal_rows(store)
        check_finite("ensemble", *rows)
        return CentredRows(*map(arrays.own, rows))

    @cached_property
    @outside_autograd
    def _marginal_solution(self) -> Solution:
        return least_squares.solve(self._marginal_rows)

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
        frame = Frame(self.dimension, self.columns, "(ensemble)")
        with SiteStore() as store:
            read = read_modules(modules, store, keep=self._keeps_sites, already=self._members, frame=frame)
            return self._with(read.members, store, relearn)

    def remove(self, names: str | Iterable[str], *, relearn: bool = False) -> Ensemble:
        """Without the named modules, whose sites are gone: the rest is stacked anew.

        Args:
            names: one or several.
            relearn: False keeps kernel, points, mean and noise, which had been chosen with the removed modules and so
                still reflect them (`traces_of_removed` counts them). True chooses all of these anew: then the
                ensemble is the one that would have been merged without them.

        Returns:
            The smaller ensemble.
        """
        gone = {names} if isinstance(names, str) else set(names)
        self._need_names("remove", gone)
        rest = tuple(m for m in self._members if m.name not in gone)
        if not active(rest):
            raise RecycleGPError("remove: nothing would be left; an ensemble needs at least one module")
        self._need_sites("remove")
        points = kept_points(self._members, gone, len(self._form.Z))  # those appended for a module go with it
        left = replace(self, _form=self._form.at_points(points))._rebuild(rest, relearn)
        return left if relearn else replace(left, traces_of_removed=self.traces_of_removed + len(gone))

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
        rest = tuple(m._replace(weight=float(weights.get(m.name, m.weight))) for m in self._members)
        if not active(rest):
            raise RecycleGPError("reweight: all weights are zero; an ensemble needs at least one module")
        return self._rebuild(rest, relearn)

    def update(
        self,
        X: Any,
        y: Any,
        *,
        likelihood: str | None = None,
        noise: float | None = None,
        name: str | None = None,
        relearn: bool = False,
    ) -> Ensemble:
        """With new data of any likelihood: the maximiser of the combined bound.

        Args:
            X: inputs of the new rows.
            y: their targets.
            likelihood: of the new rows; may be left out where the ensemble has one.
            noise: noise variance of the new rows; the ensemble's own unless given.
            name: what to call them; update-1, … unless given.
            relearn: choose kernel, points, mean and noise anew afterwards.

        Returns:
            The ensemble with the new rows. Where points were chosen automatically, new ones are appended if the rows
            lie in a region that has none; other points stay, and a warning says what they cannot express.
        """
        label = name if name is not None else next_name("update", self.names)
        check_name(label)
        if label in self.names:
            raise RecycleGPError(f"update: a module is already named {label!r}; pass another name")
        points = arrays.aligned(X, self.dimension, self.columns, device=self._form.Z.device)
        if not len(points):
            raise RecycleGPError("update: X has no rows; pass at least one")
        chosen = self._likelihood_for(likelihood, noise)
        y = chosen.check(arrays.targets(y, len(points), device=self._form.Z.device))
        form, appended = self._form, list[int]()
        if self.choice == AUTO and slack_of_rows(self._basis, points, y, chosen, self.mean) > FORGIVEN:
            form, appended = self._extended(candidates_among(points, y, chosen, form.kernel, form.mean), len(y))
        site, slack, settled = summarise(form, points, y, chosen)
        if not settled:
            warnings.warn(f"update {label!r}: the posterior had not settled", RecycleGPWarning, stacklevel=2)
        new = Member(
            name=label,
            site=site,
            rows=len(y),
            weight=1.0,
            likelihoods=(chosen,),
            kernel=self._form.kernel,
            mean=self.mean,
            appended=len(appended),
            converged=settled,
            slack=slack,
        )
        with stored((new,)) as store:
            return self._with((new,), store, relearn, form)

    def transform(self, input_shift: Any = None, output_scale: float = 1.0, output_shift: float = 0.0) -> Ensemble:
        """The ensemble of the function s·f(x − shift) + b; arguments as for modules."""
        shift, scale, offset = check_units(input_shift, output_scale, output_shift, self.dimension)
        marginal = None if self._marginal is None else rows_in_units(self._marginal, scale, self._densities)
        return replace(
            self,
            _form=self._form.in_units(scale, offset, shift, self._densities),
            likelihoods=tuple(p.in_units(scale, offset) for p in self.likelihoods),
            _members=tuple(m.in_units(scale, offset, shift) for m in self._members),
            _marginal=marginal,
            _extent=None if self._extent is None else self._extent + shift,
        )

    def to_module(self, name: str) -> Module:
        """The whole ensemble as one module at Z_*, to be recycled again."""
        settled = self.convergence.converged and all(m.converged for m in self._members)
        said = "" if settled else "; its search or some of them had not converged"
        return Module(
            name=name,
            _site=self._form.site(),
            _kernel=self._form.kernel,
            mean=self.mean,
            jitter=self.jitter,
            likelihoods=self.likelihoods,
            rows=self.rows,
            columns=self.columns,
            convergence=Convergence(settled, 0, f"ensemble of {len(self._members)} modules{said}"),
            method="ensemble",
            target=self.target,
            densities=None if self._densities == self.rows else self._densities,
        )

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
        return gpytorch_model.to_gpytorch(self._posterior, self._likelihood(likelihood))

    def to_botorch(self) -> Any:
        """A BoTorch `Model` of f whose posterior has batches and gradients: for acquisition functions."""
        try:
            from ..export.botorch_model import MergedModel  # BoTorch is an optional extra
        except ModuleNotFoundError as absent:
            raise ModuleNotFoundError(f"to_botorch: {absent}; pip install botorch") from None
        return MergedModel(self._posterior, self.likelihoods)

    def forget_sites(self) -> Ensemble:
        """Keep only the modules' names: small, but nothing can be removed afterwards."""
        with stored(self._members) as store:
            return self._without_sites(store)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        facts = ensemble_files.Facts(
            form=self._form,
            likelihoods=self.likelihoods,
            columns=self.columns,
            choice=self.choice,
            members=self._members,
            marginal=self._marginal_rows,
            convergence=self.convergence,
            traces_of_removed=self.traces_of_removed,
            extent=self._extent,
        )
        container.write(path, ensemble_files.to_document(facts))

    @staticmethod
    def _from_fields(fields: Fields) -> Ensemble:
        return Ensemble(*ensemble_files.from_fields(fields))

    # --- behind them ---

    def _with(
        self, new: tuple[Member, ...], store: SiteStore, relearn: bool, form: PointsForm | None = None
    ) -> Ensemble:
        """New members' rows, from their store, under what is already there; `form` has points for them already."""
        if relearn:
            self._need_sites("relearn=True")
            return self._rebuild((*self._members, *new), relearn=True)
        more_form = (form or self._form).with_sites(store)
        if form is None and self.choice == AUTO and more_form.slack - self._form.slack > FORGIVEN:
            form, appended = self._extended(all_candidates(store), sum(m.rows for m in new))
            new = tuple(m._replace(appended=appended.count(i)) for i, m in enumerate(new))
            more_form = form.with_sites(store)
        members = (*self._members, *new)
        known: CentredRows | None = vars(self).get("_marginal_rows", self._marginal)  # asked for, or given
        more = replace(
            self,
            _form=more_form,
            _members=members,
            _marginal=None if known is None else more_form.marginal_rows(store, known),
            likelihoods=pooling.with_unknown_filled(self.likelihoods, pooling.pool_likelihoods(members)),
        )
        if self.choice is not None:  # who gave the points themselves knows what they can express
            lost = more.slack - self.slack + sum(m.slack for m in new)
            doubts.about_new_slack(len(more._form.Z), lost)
        return more if self._keeps_sites else more._without_sites(store, first=len(self._members))

    def _extended(self, new: Candidates, rows: int) -> tuple[PointsForm, list[int]]:
        """The form with points for what is new, and for which of the new members each was appended."""
        larger, members = extend(self._basis, new, slack_tolerance(self.rows + rows))
        return self._form.extended_to(larger), members

    def _without_sites(self, store: SiteStore, first: int = 0) -> Ensemble:
        """Names only; how well those in the store agree with the rest is written down while it is known."""
        marginal = self._form.marginal_rows(store) if self._marginal is None else self._marginal
        solution = replace(self, _marginal=marginal)._marginal_solution
        members = compared(self._form, solution, self._members, store, first)
        new = torch.cat([c.Z for c in candidates(store)] + ([] if self._extent is None else [self._extent]))
        return replace(
            self,
            _members=members[:first] + tuple(m._replace(site=None) for m in members[first:]),
            _marginal=marginal,
            _extent=torch.stack([new.amin(0), new.amax(0)]),
        )

    def _rebuild(self, members: tuple[Member, ...], relearn: bool) -> Ensemble:
        if relearn:
            return self._relearned(members)
        left = {p.name for m in active(members) for p in m.likelihoods}
        with stored(members) as store:
            form = self._form.only(store)
        likelihoods = tuple(p for p in self.likelihoods if p.name in left)
        return replace(self, _form=form, likelihoods=likelihoods, _members=members, _marginal=None)

    def _relearned(self, members: tuple[Member, ...]) -> Ensemble:
        """Kernel, mean, points and noise chosen anew for other members, in the way they were chosen first."""
        start = pooling.median_kernel(members, self._form.kernel.structure) or self._form.kernel
        wanted = PointsWanted() if self.choice == AUTO else PointsWanted(given=self._form.Z)
        if isinstance(self.choice, int):
            wanted = PointsWanted(count=self.choice)
        with stored(members) as store:
            merged = build(start, members, store, wanted, learn=True)
            return Ensemble._from_merged(merged, members, store, wanted, self.columns)

    @property
    def _densities(self) -> float:
        """Densities of y behind it, weighted."""
        return sum(m.number_of_densities * m.weight for m in self._members)

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

    def _likelihood_for(self, name: str | None, noise: float | None) -> Likelihood:
        """What new data are of: one of the ensemble's own, or another whose parameters are known."""
        known = {p.name: p for p in self.likelihoods}
        if noise is not None:
            wanted = likelihoods.only(self.likelihoods) if name is None else likelihoods.named(name)
            return with_noise(known.get(wanted.name, wanted), noise)
        if name is None or likelihoods.named(name).name in known:
            return likelihoods.choose(self.likelihoods, name)
        new = likelihoods.named(name)
        if not new.known:
            raise RecycleGPError(f"update: the noise of {name} data is not known here; pass noise=")
        return new
