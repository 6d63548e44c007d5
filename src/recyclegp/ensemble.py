"""Ensemble: the merged GP. Immutable; every operation returns a new one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import gpytorch
import torch
from torch import Tensor

from . import arrays, dual, kernel_units, learn, least_squares, sites, stacking
from .errors import RecycleGPError, RecycleGPWarning
from .gp import GP, fresh, only, pick
from .kernels import Kernel
from .least_squares import Rows, Solution
from .likelihoods import Likelihood, family
from .module import DEFAULT_DF, Convergence, Module, check_finite, check_name, check_units
from .pooling import pool_likelihoods
from .posterior import Basis, Posterior, basis
from .shelf import Shelf
from .sites import Site

if TYPE_CHECKING:
    from .intake import Source
    from .interop.botorch import MergedModel
    from .interop.to_gpytorch import MergedGP


class Member(NamedTuple):
    """One module inside an ensemble."""

    name: str
    site: Site | None  # None once forgotten (keep="names")
    rows: int
    weight: float
    likelihoods: tuple[Likelihood, ...]
    kernel: Kernel  # its own, where relearning begins
    mean: float
    surprise: float = math.nan  # these two are kept only where the site is not
    agreement: float = math.nan

    @staticmethod
    def of(m: Module, weight: float) -> Member:
        return Member(m.name, m._site, m.rows, weight, m.likelihoods, m.kernel_spec, m.mean)


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(GP):
    """Many modules as one GP, itself publishable. Made by `merge` and `load`."""

    kernel_spec: Kernel
    mean: float
    jitter: float
    likelihoods: tuple[Likelihood, ...]
    columns: arrays.Columns
    choice: int | str | None  # how Z_* was chosen: "auto", a number, or None for points that were given
    _Z: Tensor
    _members: tuple[Member, ...]
    _bound_of: Rows  # compressed rows with their slack: the bound, and every prediction
    _marginal: Rows | None  # compressed block-marginal rows, or None where the sites are here to ask

    def __post_init__(self) -> None:
        for part in ("_bound_of", "_marginal"):
            rows = getattr(self, part)
            if rows is not None:
                check_finite("ensemble", *rows)
                object.__setattr__(self, part, Rows(*map(arrays.own, rows)))
        check_finite("ensemble", self._Z)
        object.__setattr__(self, "_Z", arrays.own(self._Z))

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", …" if len(self.names) > 3 else "")
        return (
            f"Ensemble({len(self._members)} modules: {shown}; {self.rows} rows, {len(self._Z)} points in "
            f"{self.dimension}-D, {self.kernel_spec.describe()}, slack {self.slack:.3g})"
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
        return float(self._bound_of.slack)

    @property
    def _points(self) -> Tensor:
        return self._Z

    @cached_property
    @fresh
    def basis(self) -> Basis:
        return basis(self.kernel_spec.tree, self.kernel_spec.tensor(), self._Z, self.jitter)

    @cached_property
    @fresh
    def _solution(self) -> Solution:
        return least_squares.solve(self._bound_of, 0.0)

    @cached_property
    @fresh
    def _evidence_of(self) -> Rows:
        """Block-marginal rows. Nothing but the evidence and the report asks for them, so they may wait."""
        if self._marginal is not None:
            return self._marginal
        with shelve(self._members) as shelf:
            rows = stacking.fold(self.basis, shelf, self.mean, marginal=True)
        check_finite("ensemble", *rows)
        return Rows(*map(arrays.own, rows))

    @cached_property
    @fresh
    def _marginal_solution(self) -> Solution:
        return least_squares.solve(self._evidence_of, 0.0)

    @cached_property
    @fresh
    def posterior(self) -> Posterior:
        mean = torch.tensor(self.mean, dtype=torch.float64)
        return Posterior(self.basis, mean, self._solution.v, self._solution.C)

    def report(self) -> list[dict[str, Any]]:
        """One row per module: rows, points, weight, and agreement with the rest.

        `surprise` is the squared distance of the module's pseudo-observations from what all the
        others predict for them, per pseudo-observation: about 1 where they agree. `agreement` is the
        probability of a larger one, if the model is right.
        """
        with shelve(self._members) as shelf:
            members = self._compared(shelf)
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
        from .intake import Frame, take

        if relearn:
            self._need_sites("relearn=True")
        frame = Frame(self.dimension, self.columns, "(ensemble)")
        with Shelf() as shelf:
            new = take(modules, shelf, keep=self._keeps_sites, names=self.names, frame=frame).members
            return self._with(new, shelf, relearn)

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
        label = name if name is not None else _fresh("update", self.names)
        check_name(label)
        if label in self.names:
            raise RecycleGPError(f"update: a module is already named {label!r}; pass another name")
        points = arrays.aligned(X, self.dimension, self.columns, device=self._Z.device)
        if not len(points):
            raise RecycleGPError("update: X has no rows; pass at least one")
        chosen = self._likelihood_for(likelihood, noise)
        y = family(chosen.name).check(arrays.targets(y, len(points), device=self._Z.device))
        log_p, mean = chosen.log_parameters(points), torch.tensor(self.mean, dtype=torch.float64)
        if chosen.name == "gaussian":
            rows = learn.stream(self.basis, points, y, log_p[0].exp(), mean)
        else:
            data = learn.dual_data(self.basis, points, y, chosen.name, log_p, mean)
            state = dual.fixed_point(data, base=self._bound_of)
            if not state.converged:
                warnings.warn(f"update {label!r}: the posterior had not settled", RecycleGPWarning, stacklevel=3)
            rows = dual.rows(data, state)
        site = sites.from_rows(self._Z, self.basis.L, rows, mean)
        new = (Member(label, site, len(y), 1.0, (chosen,), self.kernel_spec, self.mean),)
        with shelve(new) as shelf:
            return self._with(new, shelf, relearn)

    def transform(self, input_shift: Any = None, output_scale: float = 1.0, output_shift: float = 0.0) -> Ensemble:
        """The ensemble of the function s·f(x − shift) + b."""
        shift, output_scale, output_shift = check_units(input_shift, output_scale, output_shift, self.dimension)

        def member(m: Member) -> Member:
            likelihoods = tuple(p.in_units(output_scale, output_shift) for p in m.likelihoods)
            site = m.site
            if site is not None:
                site = sites.moved(sites.in_units(site, output_scale, output_shift, m.rows), shift)
            kernel, mean = kernel_units.in_units(m.kernel, output_scale, shift), output_scale * m.mean + output_shift
            return m._replace(site=site, likelihoods=likelihoods, kernel=kernel, mean=mean)

        # In whitened coordinates s·f + b is sign(s)·v: rows turn round with it, and the constant notices.
        constant = math.log(abs(output_scale)) * sum(m.rows * m.weight for m in self._members)

        def whitened(rows: Rows) -> Rows:
            return rows._replace(H=rows.H * math.copysign(1.0, output_scale), e=rows.e - constant)

        return replace(
            self,
            kernel_spec=kernel_units.in_units(self.kernel_spec, output_scale, shift),
            mean=output_scale * self.mean + output_shift,
            _Z=self._Z + shift,
            jitter=output_scale**2 * self.jitter,
            likelihoods=tuple(p.in_units(output_scale, output_shift) for p in self.likelihoods),
            _members=tuple(member(m) for m in self._members),
            _bound_of=whitened(self._bound_of),
            _marginal=None if self._marginal is None else whitened(self._marginal),
        )

    def to_module(self, name: str) -> Module:
        """The whole ensemble as one module at Z_*: Rᵀ = TL⁻¹, ρ = ρ̃ + mRᵀ1, e = Σe_k − slack."""
        return Module(
            name=name,
            _site=sites.from_rows(self._Z, self.basis.L, self._bound_of, self.mean),
            kernel_spec=self.kernel_spec,
            mean=self.mean,
            jitter=self.jitter,
            likelihoods=self.likelihoods,
            rows=self.rows,
            columns=self.columns,
            convergence=Convergence(True, 0, f"ensemble of {len(self._members)} modules"),
            method="ensemble",
        )

    def to_gpytorch(self, likelihood: str | None = None) -> tuple[MergedGP, gpytorch.likelihoods.Likelihood]:
        """(model, likelihood): a whitened GPyTorch `ApproximateGP` that predicts the same, in evaluation mode.

        `likelihood` chooses one where the ensemble has several. It can be trained on like any other; but its
        ELBO measures q from the prior, so rows beyond the ensemble's own belong into `update`.
        """
        from .interop.to_gpytorch import to_gpytorch

        return to_gpytorch(self, likelihood)

    def to_botorch(self) -> MergedModel:
        """A BoTorch `Model` of f whose posterior has batches and gradients: for acquisition functions."""
        try:
            from .interop.botorch import MergedModel
        except ModuleNotFoundError as absent:
            raise ModuleNotFoundError(f"to_botorch: {absent}; pip install botorch") from None
        return MergedModel(self)

    def forget_sites(self) -> Ensemble:
        """Keep only the modules' names: small, but nothing can be removed afterwards."""
        with shelve(self._members) as shelf:
            return self._without_sites(shelf)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        from .files import save

        save(self, path)

    # --- behind them ---

    def _with(self, new: tuple[Member, ...], shelf: Shelf, relearn: bool) -> Ensemble:
        """New members' rows, from their shelf, under what is already there."""
        members = (*self._members, *new)
        if relearn:
            self._need_sites("relearn=True")
            return self._rebuild(members, relearn=True)
        bound = stacking.fold(self.basis, shelf, self.mean, self._bound_of, marginal=False)
        known: Rows | None = vars(self).get("_evidence_of", self._marginal)  # asked for, or given
        marginal = None if known is None else stacking.fold(self.basis, shelf, self.mean, known, marginal=True)
        have = {p.name for p in self.likelihoods}
        extra = tuple(p for p in pool_likelihoods(members) if p.name not in have)
        more = replace(
            self, _members=members, _bound_of=bound, _marginal=marginal, likelihoods=self.likelihoods + extra
        )
        return more if self._keeps_sites else more._without_sites(shelf, first=len(self._members))

    def _without_sites(self, shelf: Shelf, first: int = 0) -> Ensemble:
        """Names only; how well those in the shelf agree with the rest is written down while it is known."""
        members = self._compared(shelf, first)
        forgotten = tuple(m._replace(site=None) for m in members[first:])
        return replace(self, _members=members[:first] + forgotten, _marginal=self._evidence_of)

    def _compared(self, shelf: Shelf, first: int = 0) -> tuple[Member, ...]:
        """Members with their agreement with the rest: as it is for those in the shelf, which counts from `first`."""
        if not shelf.points:
            return self._members
        found = stacking.agreements(self.basis, shelf, self.mean, self._marginal_solution)
        kept = ((m, found.get(i - first)) for i, m in enumerate(self._members))
        return tuple(m if a is None else m._replace(surprise=a.surprise, agreement=a.agreement) for m, a in kept)

    def _rebuild(self, members: tuple[Member, ...], relearn: bool) -> Ensemble:
        if relearn:
            from .merging import relearned

            return relearned(self, members)
        left = {p.name for m in members if m.weight > 0 for p in m.likelihoods}
        likelihoods = tuple(p for p in self.likelihoods if p.name in left)
        base = basis(self.kernel_spec.tree, self.kernel_spec.tensor(), self._Z, self.jitter)
        with shelve(members) as shelf:
            bound = stacking.fold(base, shelf, self.mean, marginal=False)
        return replace(
            self, jitter=float(base.jitter), likelihoods=likelihoods, _members=members, _bound_of=bound, _marginal=None
        )

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
        if noise is None:
            known = {p.name for p in self.likelihoods}
            if name is not None and family(name).name not in known:
                if family(name).has_noise:
                    raise RecycleGPError(f"update: the noise of {name} data is not known here; pass noise=")
                return Likelihood(name)
            return pick(self.likelihoods, name)
        wanted = name if name is not None else only(self.likelihoods).name
        if not family(wanted).has_noise:
            raise RecycleGPError(f"noise={noise}: likelihood {wanted!r} has no noise; leave it out")
        noise = arrays.number(noise, "noise", positive=True)
        others = [p.parameters[1:] for p in self.likelihoods if p.name == wanted and p.parameters]
        rest = others[0] if others else (DEFAULT_DF,) * (len(family(wanted).parameters) - 1)
        return Likelihood(wanted, (noise, *rest))


def shelve(members: Sequence[Member]) -> Shelf:
    """The sites that members have kept, weighted, by their positions."""
    shelf = Shelf()
    for i, m in enumerate(members):
        if m.site is not None and m.weight > 0:
            shelf.put(m.site, m.weight, i)
    return shelf


def _fresh(stem: str, names: Sequence[str]) -> str:
    taken = set(names)
    return next(f"{stem}-{i}" for i in range(1, len(taken) + 2) if f"{stem}-{i}" not in taken)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", … ({len(names)} in all)" if len(names) > 5 else "")
