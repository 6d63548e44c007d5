"""Ensemble: the merged GP. Immutable; every operation returns a new one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import gpytorch
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..core import least_squares, sites
from ..core.convergence import Convergence
from ..core.least_squares import CentredRows, Solution
from ..core.posterior import Basis, Posterior, basis
from ..errors import RecycleGPError, RecycleGPWarning
from ..export import gpytorch_model
from ..kernels import Kernel
from ..kernels.file_form import to_json
from ..kernels.units import in_units
from ..likelihoods import Likelihood, gaussian_noise
from ..local import dual, observations
from ..merging import pooling
from ..merging.agreement import agreements
from ..merging.build import Merged, build
from ..merging.folding import fold
from ..merging.learning import slack_tolerance
from ..merging.member import Member, active, stored
from ..merging.points import MOST_AUTOMATIC, PointsWanted
from ..merging.site_store import SiteStore
from ..storage import container
from ..storage.container import Document
from ..storage.fields import UNITS, Fields, likelihoods_to_json
from . import member_files
from .module import Module, check_finite, check_name, check_units, with_noise
from .predictive import Predictive, outside_autograd
from .reading import Frame, Source, read_modules

AUTO = "auto"


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Predictive):
    """Many modules as one GP, itself publishable. Made by `merge` and `load`."""

    _kernel: Kernel
    mean: float
    jitter: float
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    choice: int | str | None  # how Z_* was chosen: "auto", a number, or None for points that were given
    _Z: Tensor
    _members: tuple[Member, ...]
    _bound_rows: CentredRows  # compressed rows with their slack: the bound, and every prediction
    _marginal: CentredRows | None  # compressed block-marginal rows, or None where the sites are here to ask

    def __post_init__(self) -> None:
        for part in ("_bound_rows", "_marginal"):
            rows = getattr(self, part)
            if rows is not None:
                check_finite("ensemble", *rows)
                object.__setattr__(self, part, CentredRows(*map(arrays.own, rows)))
        check_finite("ensemble", self._Z, self._kernel.theta)
        object.__setattr__(self, "_Z", arrays.own(self._Z))
        object.__setattr__(self, "_kernel", self._kernel.own())

    @staticmethod
    def _from_merged(
        merged: Merged, members: tuple[Member, ...], store: SiteStore, wanted: PointsWanted, columns: arrays.Columns
    ) -> Ensemble:
        """What merging found, with the members it came from, whose sites are in the store."""
        choice: int | str | None = AUTO if wanted.automatic else wanted.count
        ensemble = Ensemble(
            _kernel=merged.kernel,
            mean=merged.mean,
            jitter=merged.jitter,
            likelihoods=pooling.pool_likelihoods(members),
            columns=columns,
            choice=choice,
            _Z=merged.Z,
            _members=members,
            _bound_rows=merged.bound,
            _marginal=None,
        )
        if choice == AUTO and len(merged.Z) == MOST_AUTOMATIC and ensemble.slack > 10 * slack_tolerance(members):
            warnings.warn(
                f"{MOST_AUTOMATIC} points leave {ensemble.slack:.3g} nats of the modules' knowledge unexpressed; pass "
                "a larger inducing= for a sharper ensemble",
                RecycleGPWarning,
                stacklevel=3,
            )
        return ensemble if ensemble._keeps_sites else ensemble._without_sites(store)

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", …" if len(self.names) > 3 else "")
        return (
            f"Ensemble({len(self._members)} modules: {shown}; {self.rows} rows, {len(self._Z)} points in "
            f"{self.dimension}-D, {self._kernel.describe()}, slack {self.slack:.3g})"
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
    def bound(self) -> float:
        """The ensemble bound L_E (of log∫Πt_k dp(f); not in general of log p(y))."""
        return float(self._solution.bound)

    @property
    def evidence(self) -> float:
        """The block-marginal evidence E ≥ L_E."""
        return float(self._marginal_solution.bound)

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that the points Z_* cannot express."""
        return float(self._bound_rows.slack)

    @property
    def _points(self) -> Tensor:
        return self._Z

    @property
    def basis(self) -> Basis:
        """Z_* and the factor of its kernel matrix: a copy."""
        return self._basis.map(torch.Tensor.clone)

    @cached_property
    @outside_autograd
    def _basis(self) -> Basis:
        return basis(self._kernel, self._Z, self.jitter)

    @cached_property
    @outside_autograd
    def _solution(self) -> Solution:
        return least_squares.solve(self._bound_rows)

    @cached_property
    @outside_autograd
    def _marginal_rows(self) -> CentredRows:
        """Block-marginal rows. Nothing but the evidence and the report asks for them, so they may wait."""
        if self._marginal is not None:
            return self._marginal
        with stored(self._members) as store:
            rows = fold(self._basis, store, self.mean, marginal=True)
        check_finite("ensemble", *rows)
        return CentredRows(*map(arrays.own, rows))

    @cached_property
    @outside_autograd
    def _marginal_solution(self) -> Solution:
        return least_squares.solve(self._marginal_rows)

    @cached_property
    @outside_autograd
    def _posterior(self) -> Posterior:
        mean = torch.tensor(self.mean, dtype=torch.float64)
        return Posterior(self._basis, mean, self._solution.v, self._solution.C)

    def report(self) -> list[dict[str, Any]]:
        """One row per module: rows, points, weight, and agreement with the rest.

        `surprise` is the squared distance of the module's pseudo-observations from what all the
        others predict for them, per pseudo-observation: about 1 where they agree. `agreement` is the
        probability of a larger one, if the model is right.
        """
        with stored(self._members) as store:
            members = self._compared(store)
        return [
            {
                "name": m.name,
                "rows": m.rows,
                "points": None if m.site is None else len(m.site.Z),
                "weight": m.weight,
                "likelihood": "+".join(p.name for p in m.likelihoods),
                "surprise": m.surprise,
                "agreement": m.agreement,
            }
            for m in members
        ]

    # --- operations: each returns a new ensemble ---

    def add(self, modules: Source, *, relearn: bool = False) -> Ensemble:
        """With more modules, at the same kernel, points, mean and noise unless `relearn`.

        They may come as for `merge`: one or many, from an iterator, files or a directory.
        """
        if relearn:
            self._need_sites("relearn=True")
        frame = Frame(self.dimension, self.columns, "(ensemble)")
        with SiteStore() as store:
            new = read_modules(modules, store, keep=self._keeps_sites, names=self.names, frame=frame).members
            return self._with(new, store, relearn)

    def remove(self, names: str | Iterable[str], *, relearn: bool = False) -> Ensemble:
        """Without the named modules: the rest is stacked anew, so nothing of them is left behind."""
        gone = {names} if isinstance(names, str) else set(names)
        self._need_names("remove", gone)
        rest = tuple(m for m in self._members if m.name not in gone)
        if not any(m.weight > 0 for m in rest):
            raise RecycleGPError("remove: nothing would be left; an ensemble needs at least one module")
        self._need_sites("remove")
        return self._rebuild(rest, relearn)

    def reweight(self, weights: dict[str, float], *, relearn: bool = False) -> Ensemble:
        """With other weights for the named modules."""
        self._need_names("reweight", set(weights))
        if not all(arrays.number(x, f"weights[{n!r}]") >= 0 for n, x in weights.items()):
            raise RecycleGPError("reweight: weights must not be negative")
        self._need_sites("reweight")
        rest = tuple(m._replace(weight=float(weights.get(m.name, m.weight))) for m in self._members)
        if not any(m.weight > 0 for m in rest):
            raise RecycleGPError("reweight: all weights are zero; an ensemble needs at least one module")
        return self._rebuild(rest, relearn)

    @torch.no_grad()
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
        """With new data of any likelihood: the maximiser of the combined bound, at the same Z_*."""
        label = name if name is not None else _new_name("update", self.names)
        check_name(label)
        if label in self.names:
            raise RecycleGPError(f"update: a module is already named {label!r}; pass another name")
        points = arrays.aligned(X, self.dimension, self.columns, device=self._Z.device)
        if not len(points):
            raise RecycleGPError("update: X has no rows; pass at least one")
        chosen = self._likelihood_for(likelihood, noise)
        y = chosen.check(arrays.targets(y, len(points), device=self._Z.device))
        mean = torch.tensor(self.mean, dtype=torch.float64)
        if chosen.conjugate:
            rows = observations.stream(self._basis, points, y, gaussian_noise(chosen), mean)
        else:
            data = dual.whiten(self._basis, points, y, chosen, mean)
            state = dual.fixed_point(data, base=self._bound_rows)
            if not state.converged:
                warnings.warn(f"update {label!r}: the posterior had not settled", RecycleGPWarning, stacklevel=3)
            rows = dual.rows(data, state)
        site = sites.from_rows(self._Z, self._basis.L, rows, mean)
        new = (Member(label, site, len(y), 1.0, (chosen,), self._kernel, self.mean),)
        with stored(new) as store:
            return self._with(new, store, relearn)

    def transform(self, input_shift: Any = None, output_scale: float = 1.0, output_shift: float = 0.0) -> Ensemble:
        """The ensemble of the function s·f(x − shift) + b."""
        shift, output_scale, output_shift = check_units(input_shift, output_scale, output_shift, self.dimension)

        # In whitened coordinates s·f + b is sign(s)·v: rows turn round with it, and the constant notices.
        constant = math.log(abs(output_scale)) * sum(m.rows * m.weight for m in self._members)

        def whitened(rows: CentredRows) -> CentredRows:
            return rows._replace(H=rows.H * math.copysign(1.0, output_scale), e=rows.e - constant)

        return replace(
            self,
            _kernel=in_units(self._kernel, output_scale, shift),
            mean=output_scale * self.mean + output_shift,
            _Z=self._Z + shift,
            jitter=output_scale**2 * self.jitter,
            likelihoods=tuple(p.in_units(output_scale, output_shift) for p in self.likelihoods),
            _members=tuple(m.in_units(output_scale, output_shift, shift) for m in self._members),
            _bound_rows=whitened(self._bound_rows),
            _marginal=None if self._marginal is None else whitened(self._marginal),
        )

    def to_module(self, name: str) -> Module:
        """The whole ensemble as one module at Z_*: Rᵀ = TL⁻¹, ρ = ρ̃ + mRᵀ1, e = Σe_k − slack."""
        return Module(
            name=name,
            _site=sites.from_rows(self._Z, self._basis.L, self._bound_rows, self.mean),
            _kernel=self._kernel,
            mean=self.mean,
            jitter=self.jitter,
            likelihoods=self.likelihoods,
            rows=self.rows,
            columns=self.columns,
            convergence=Convergence(True, 0, f"ensemble of {len(self._members)} modules"),
            method="ensemble",
        )

    def to_gpytorch(
        self, likelihood: str | None = None
    ) -> tuple[gpytorch_model.MergedGP, gpytorch.likelihoods.Likelihood]:
        """(model, likelihood): a whitened GPyTorch `ApproximateGP` that predicts the same, in evaluation mode.

        `likelihood` chooses one where the ensemble has several. It can be trained on like any other; but its
        ELBO measures q from the prior, so rows beyond the ensemble's own belong into `update`.
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

    # --- files ---

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        container.write(path, self._document())

    def _document(self) -> Document:
        header = {
            "kind": "ensemble",
            "kernel": to_json(self._kernel, self.dimension),
            "mean": self.mean,
            "jitter": self.jitter,
            "likelihoods": likelihoods_to_json(self.likelihoods),
            "columns": None if self.columns is None else list(self.columns),
            "choice": self.choice,
            "units": UNITS,
            "members": member_files.headers(self._members, self.dimension),
        }
        tensors = {"Z": self._Z, **member_files.site_tensors(self._members, self.dimension)}
        for part, rows in (("bound", self._bound_rows), ("evidence", self._marginal_rows)):
            tensors |= {f"{part}.{key}": value for key, value in rows._asdict().items()}
        return Document(header, tensors)

    @staticmethod
    def _from_fields(f: Fields) -> Ensemble:
        Z = f.tensor("Z", None, None)
        M, D = Z.shape
        if M == 0 or D == 0:
            raise RecycleGPError("an ensemble needs at least one point")

        def rows(part: str) -> CentredRows:
            H = f.tensor(f"{part}.H", None, M)
            return CentredRows(H, f.tensor(f"{part}.rho", len(H)), f.tensor(f"{part}.e"), f.tensor(f"{part}.slack"))

        return Ensemble(
            _kernel=f.kernel(D),
            mean=f.number("mean"),
            _Z=Z,
            jitter=f.number("jitter", least=0.0),
            likelihoods=f.likelihoods(),
            _members=member_files.members(f, D),
            columns=f.columns(D),
            _bound_rows=rows("bound"),
            _marginal=rows("evidence"),
            choice=_choice_from(f.header["choice"]),
        )

    # --- behind them ---

    def _with(self, new: tuple[Member, ...], store: SiteStore, relearn: bool) -> Ensemble:
        """New members' rows, from their store, under what is already there."""
        members = (*self._members, *new)
        if relearn:
            self._need_sites("relearn=True")
            return self._rebuild(members, relearn=True)
        bound = fold(self._basis, store, self.mean, self._bound_rows, marginal=False)
        known: CentredRows | None = vars(self).get("_marginal_rows", self._marginal)  # asked for, or given
        marginal = None if known is None else fold(self._basis, store, self.mean, known, marginal=True)
        have = {p.name for p in self.likelihoods}
        extra = tuple(p for p in pooling.pool_likelihoods(members) if p.name not in have)
        more = replace(
            self, _members=members, _bound_rows=bound, _marginal=marginal, likelihoods=self.likelihoods + extra
        )
        return more if self._keeps_sites else more._without_sites(store, first=len(self._members))

    def _without_sites(self, store: SiteStore, first: int = 0) -> Ensemble:
        """Names only; how well those in the store agree with the rest is written down while it is known."""
        marginal = self._marginal
        if marginal is None:
            marginal = fold(self._basis, store, self.mean, marginal=True)
        whole = replace(self, _marginal=marginal)
        members = whole._compared(store, first)
        forgotten = tuple(m._replace(site=None) for m in members[first:])
        return replace(whole, _members=members[:first] + forgotten)

    def _compared(self, store: SiteStore, first: int = 0) -> tuple[Member, ...]:
        """Members with their agreement with the rest: as it is for those in the store, which counts from `first`."""
        if not store.points:
            return self._members
        found = agreements(self._basis, store, self.mean, self._marginal_solution)
        kept = ((m, found.get(i - first)) for i, m in enumerate(self._members))
        return tuple(m if a is None else m._replace(surprise=a.surprise, agreement=a.agreement) for m, a in kept)

    def _rebuild(self, members: tuple[Member, ...], relearn: bool) -> Ensemble:
        if relearn:
            return self._relearned(members)
        left = {p.name for m in active(members) for p in m.likelihoods}
        base = basis(self._kernel, self._Z, self.jitter)
        with stored(members) as store:
            bound = fold(base, store, self.mean, marginal=False)
        return replace(
            self,
            jitter=float(base.jitter),
            likelihoods=tuple(p for p in self.likelihoods if p.name in left),
            _members=members,
            _bound_rows=bound,
            _marginal=None,
        )

    def _relearned(self, members: tuple[Member, ...]) -> Ensemble:
        """Kernel, mean, points and noise chosen anew for other members, in the way they were chosen first."""
        start = pooling.median_kernel(members, self._kernel.structure) or self._kernel
        wanted = PointsWanted() if self.choice == AUTO else PointsWanted(given=self._Z)
        if isinstance(self.choice, int):
            wanted = PointsWanted(count=self.choice)
        with stored(members) as store:
            merged = build(start, members, store, wanted, learn=True)
            return Ensemble._from_merged(merged, members, store, wanted, self.columns)

    @property
    def _keeps_sites(self) -> bool:
        return all(m.site is not None for m in self._members)

    def _need_names(self, what: str, wanted: set[str]) -> None:
        unknown = wanted - set(self.names)
        if unknown:
            raise RecycleGPError(
                f"{what}: no module is named {', '.join(sorted(map(str, unknown)))}; there are {_few(self.names)}"
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


def _new_name(stem: str, names: Sequence[str]) -> str:
    taken = set(names)
    return next(f"{stem}-{i}" for i in range(1, len(taken) + 2) if f"{stem}-{i}" not in taken)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", … ({len(names)} in all)" if len(names) > 5 else "")


def _choice_from(choice: Any) -> int | str | None:
    if choice is None or choice == AUTO or (type(choice) is int and choice > 0):
        found: int | str | None = choice
        return found
    raise RecycleGPError(f"choice is {str(choice)[:50]}, neither a number of points nor 'auto'")
