"""Module: what a data owner publishes. Points, a site, a kernel, a few facts; no data rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import gpytorch
import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..categories import NO_CATEGORIES, Categories
from ..core import least_squares, linalg, rounding, sites
from ..core import publishing as core_publishing
from ..core.convergence import Convergence
from ..core.least_squares import Solution
from ..core.noise import NoiseEvidence
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Basis, Posterior, basis
from ..core.publishing import PublishedSite, publish
from ..core.sites import Converted, Site
from ..devices import CPU
from ..errors import RecycleGPError, RecycleGPWarning
from ..kernels import Kernel
from ..kernels.file_form import to_json
from ..kernels.gpytorch_objects import from_gpytorch
from ..kernels.units import in_units
from ..likelihoods import DEFAULT_DF, Likelihood
from ..local import placement
from ..storage import container
from ..storage.container import Document
from ..storage.fields import (
    UNITS,
    Fields,
    categories_from_json,
    categories_to_json,
    convergence_from_json,
    kept_from_json,
    likelihoods_to_json,
    noise_evidence_from_json,
    noise_evidence_to_json,
    target_from_json,
    target_to_json,
    time_from_json,
)
from ..target import NO_TARGET, Target
from ..times import When, when, written
from .naming import check_name, check_owner, name_or_new
from .predictive import Predictive, outside_autograd
from .units import new_units

MOST_DIGITS = 15  # that a float64 has
MOMENTS_JITTER = 1e-8  # of the prior variance, where the source's jitter is not given


@dataclass(frozen=True, eq=False, repr=False)
class Module(Predictive):
    """A fitted local model, ready to be saved, sent and merged. Made by `fit`, `load`, `from_moments`."""

    name: str
    _site: Site
    _kernel: Kernel
    mean: float  # constant prior mean of f
    jitter: float  # added to the diagonal of K_ZZ, and part of the kernel there
    likelihoods: tuple[Likelihood, ...]
    rows: int  # data rows behind it
    columns: arrays.Columns
    convergence: Convergence
    method: str
    target: Target = NO_TARGET  # what y means, where its owner has said so
    densities: float | None = None  # of y, in its evidence: its rows, unless it is made of weighted modules
    given_owner: str | None = None  # whose it is, where its owner has said so
    kept: float | None = None  # of what its rows say about f, in (0, 1]; None where that is not known
    noise_evidence: NoiseEvidence | None = None  # what its rows say about their noise, where they were asked
    time: When | None = None  # of its rows, where its owner has said so
    categories: Categories = NO_CATEGORIES  # the levels of columns that hold some, by name
    _device: torch.device = CPU  # where it predicts; what it says stays on the CPU

    def __post_init__(self) -> None:
        check_name(self.name)
        check_owner(self.given_owner)
        check_finite(f"module {self.name!r}", *self._site, self._kernel.theta)
        object.__setattr__(self, "_site", Site(*map(arrays.own, self._site)))
        object.__setattr__(self, "_kernel", self._kernel.own())

    def __repr__(self) -> str:
        state = "" if self.convergence.converged else ", NOT CONVERGED"
        kept = "" if self.kept is None else f" keep {self.kept:.0%}"
        return (
            f"Module({self.name!r}, {self.rows} rows, {len(self._site.Z)} points in {self.dimension}-D{kept}, "
            f"{self.likelihood}, {self._kernel.describe()}{state})"
        )

    @property
    def owner(self) -> str:
        """Whose it is: its name's, unless its owner has said so."""
        return self.name if self.given_owner is None else self.given_owner

    @property
    def site(self) -> Site:
        """What it says about f, as a copy."""
        return Site(*(t.clone() for t in self._site))

    @property
    def evidence(self) -> float:
        """log∫ t(u) p(u) du under its own prior: the local (bound on the) log marginal likelihood."""
        return float(self._solution.bound)

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where it has points, along each input."""
        return arrays.frozen(torch.stack([self._site.Z.amin(0), self._site.Z.amax(0)], 1))

    @property
    def likelihood(self) -> str:
        """Its name, or several joined by +."""
        return "+".join(p.name for p in self.likelihoods)

    @property
    def _points(self) -> Tensor:
        return self._site.Z

    @property
    def _boxes(self) -> list[Tensor]:
        return [sites.box(self._site.Z)]

    @property
    def _prior_kernel(self) -> Kernel:
        return self._kernel

    @cached_property
    @outside_autograd
    def _posterior(self) -> Posterior:
        mean = torch.tensor(self.mean, dtype=torch.float64)
        return Posterior(self._basis, mean, self._solution.v, self._solution.C).to(self._device)

    def _answers(self, owner: str | None, *, of_y: bool) -> FunctionPosterior:
        if owner not in (None, self.owner):
            raise RecycleGPError(f"owner={owner!r}: the module is of {self.owner!r} alone; leave owner out")
        return self._posterior

    @cached_property
    @outside_autograd
    def _basis(self) -> Basis:
        return basis(self._kernel, self._site.Z, self.jitter)

    @cached_property
    @outside_autograd
    def _solution(self) -> Solution:
        return least_squares.solve(sites.to_rows(self._site, self._basis.L, self.mean))

    def publish(self, points: Any, seed: int = 0) -> Module:
        """The same posterior at other, usually fewer, points: the exact marginal there.

        Args:
            points: how many, spread over its region (a module that has no more is returned as it is), or the points.
            seed: of where automatic points go.

        Returns:
            The smaller module.
        """
        chosen = arrays.count_or_points(points, "points", self.dimension, self.columns, "cpu", self.categories)
        if isinstance(chosen, int):
            if chosen >= len(self._site.Z):
                return self
            means = self._posterior.predict(self._site.Z).mean
            rng = np.random.default_rng(placement.entropy(arrays.seed(seed), self._site.Z, means))
            chosen = placement.over(self._site.Z, chosen, self._kernel, rng)
        made = publish(self._site, self.jitter, self._kernel, self.mean, chosen)
        return replace(
            self,
            _site=made.site,
            jitter=made.jitter,
            kept=self._still_kept(made.information),
            noise_evidence=self._noise_evidence_after(made),
        )

    def _still_kept(self, information: float) -> float | None:
        """The share of what the rows say that is left, where so many nats are."""
        if self.kept is None:
            return None
        now = core_publishing.information(sites.to_rows(self._site, self._basis.L, self.mean))
        return min(self.kept, max(1e-12, self.kept * information / max(now, 1e-300)))

    def _noise_evidence_after(self, made: PublishedSite) -> NoiseEvidence | None:
        noise = self.likelihoods[0].parameters[:1]
        if self.noise_evidence is None or not noise:
            return None
        return self.noise_evidence.published(noise[0], self._densities, made.chi2, made.left_open)

    def rounded(self, digits: int) -> Module:
        """The same in numbers of fewer digits: the points, and what is known of f there.

        Kernel, prior mean and noise stay as they are. Points are rounded by column, to so many digits of the column's
        standard deviation over the points; where inputs are whole numbers themselves, a rounded point can be a row.

        Args:
            digits: how many are kept, from 1 to 15.

        Returns:
            The rounded module: the posterior at the rounded points, in rounded numbers. With two digits or fewer it
            may predict visibly worse.
        """
        if isinstance(digits, bool) or not isinstance(digits, (int, np.integer)) or not 1 <= digits <= MOST_DIGITS:
            raise RecycleGPError(f"digits={digits!r}; pass a whole number from 1 to {MOST_DIGITS}")
        moved = self.publish(rounding.by_column(self._site.Z, int(digits), self._kernel.structure.discrete))
        short = rounding.site(moved._site, moved._basis.L, moved.mean, int(digits))
        evidence = moved.noise_evidence
        if evidence is not None:
            evidence = NoiseEvidence(
                *rounding.significant(torch.tensor(evidence, dtype=torch.float64), int(digits)).tolist()
            )
        return replace(moved, _site=short, noise_evidence=evidence)

    def rename(self, name: str) -> Module:
        """The same under another name."""
        return replace(self, name=name)

    def owned_by(self, owner: str) -> Module:
        """The same as a module of this owner, who may have others."""
        return replace(self, given_owner=owner)

    def at_time(self, time: Any) -> Module:
        """The same as of a time: a number in any unit, or a date, for `merge(half_life=...)`."""
        return replace(self, time=when(time))

    def with_columns(self, columns: Sequence[str]) -> Module:
        """The same with names for its input columns, in their order: for a module that has none."""
        return replace(self, columns=arrays.named_columns(columns, self.dimension))

    def transform(
        self,
        input_shift: Any = None,
        output_scale: float = 1.0,
        output_shift: float = 0.0,
        unit: str | None = None,
        *,
        input_scale: Any = None,
    ) -> Module:
        """The module of s·f((x − shift)/scale) + b: as if its owner had measured x and y in other units.

        What was x is input_scale·x + input_shift afterwards, and y is output_scale·y + output_shift: multiplied first,
        shifted then, so that °C become °F with input_scale=1.8, input_shift=32. Lengthscales, periods, slopes and
        centres of the kernel follow. The evidence does not notice a change of inputs.

        Args:
            input_shift: one number for each input column, or {column: number} by name (by position where columns have
                none); 0 for those that are not named.
            output_scale: s; a negative one turns f upside down.
            output_shift: b.
            unit: what y is measured in afterwards, if the module is to say so.
            input_scale: the same of positive numbers; 1 for those that are not named.

        Returns:
            The module in its new units.
        """
        new = new_units(
            input_scale,
            input_shift,
            output_scale,
            output_shift,
            unit,
            dimension=self.dimension,
            columns=self.columns,
            discrete=self._kernel.structure.discrete,
        )
        return replace(
            self,
            _site=sites.moved(sites.in_units(self._site, new.scale, new.shift, self._densities), new.inputs),
            _kernel=in_units(self._kernel, new.scale, new.inputs),
            mean=new.scale * self.mean + new.shift,
            jitter=new.scale**2 * self.jitter,
            likelihoods=tuple(p.in_units(new.scale, new.shift) for p in self.likelihoods),
            target=self.target.in_units(new.scale, new.shift, unit),
            noise_evidence=None if self.noise_evidence is None else self.noise_evidence.in_units(new.scale),
        )

    @property
    def _densities(self) -> float:
        return self.rows if self.densities is None else self.densities

    # --- files ---

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        container.write(path, self._document())

    def _document(self) -> Document:
        header = {
            "kind": "module",
            "name": self.name,
            "kernel": to_json(self._kernel, self.dimension),
            "mean": self.mean,
            "jitter": self.jitter,
            "likelihoods": likelihoods_to_json(self.likelihoods),
            "rows": self.rows,
            "columns": None if self.columns is None else list(self.columns),
            "units": UNITS,
            "convergence": asdict(self.convergence),
            "method": self.method,
            "owner": self.given_owner,
            **target_to_json(self.target),
        }
        if self.densities is not None:
            header["densities"] = self.densities
        if self.kept is not None:
            header["kept"] = self.kept
        if self.noise_evidence is not None:
            header["noise_evidence"] = noise_evidence_to_json(self.noise_evidence)
        if self.time is not None:
            header["time"] = written(self.time)
        header |= categories_to_json(self.categories)
        return Document(header, self._site._asdict())

    @staticmethod
    def _from_fields(f: Fields) -> Module:
        Z = f.tensor("Z", None, None)
        M, D = Z.shape
        Rt = f.tensor("Rt", None, M)
        if M == 0 or len(Rt) > M:
            raise RecycleGPError(f"a site of {len(Rt)} rows on {M} points in {D}-D is not one")
        return Module(
            name=f.text("name"),
            _site=Site(Z, Rt, f.tensor("rho", len(Rt)), f.tensor("e")),
            _kernel=f.kernel(D),
            mean=f.number("mean"),
            jitter=f.number("jitter", least=0.0),
            likelihoods=f.likelihoods(),
            rows=f.count("rows", least=1),
            columns=f.columns(D),
            convergence=convergence_from_json(f.header["convergence"]),
            method=f.text("method"),
            target=target_from_json(f.header),
            densities=f.number("densities", least=0.0) if f.header.get("densities") is not None else None,
            given_owner=f.text("owner") if f.header.get("owner") is not None else None,
            kept=kept_from_json(f.header.get("kept")),
            noise_evidence=noise_evidence_from_json(f.header.get("noise_evidence"), f.likelihoods()),
            time=time_from_json(f.header.get("time")),
            categories=categories_from_json(f.header, D, Z),
        )

    # --- from elsewhere ---

    @staticmethod
    def from_moments(
        Z: Any,
        mean: Any,
        covariance: Any,
        *,
        kernel: str | gpytorch.kernels.Kernel,
        likelihood: str = "gaussian",
        name: str | None = None,
        noise: float | None = None,
        prior_mean: float = 0.0,
        jitter: float | None = None,
        rows: int | None = None,
        evidence: float = 0.0,
    ) -> Module:
        """Any q(f(Z)) = N(mean, covariance) fitted elsewhere, under GP(prior_mean, kernel).

        Args:
            Z: (M, D) points, all distinct; of a DataFrame text and categoricals are levels, as for `fit`.
            mean: M numbers, the mean of f(Z).
            covariance: (M, M), of f(Z). One that is wider than the prior (a local fit that had not converged) is
                floored at the prior, its mean kept, with a warning.
            kernel: the fitted GPyTorch kernel, with its parameters.
            likelihood: of the rows behind the moments, by name.
            name: unique within an ensemble; made up when not given.
            noise: noise variance of that likelihood, where it has one and it is known.
            prior_mean: the source's constant mean.
            jitter: the very jitter the source added to K_ZZ: with another one the site is off by orders of
                magnitude. With None the moments are taken to be of f itself, and a little independent noise is
                added to prior and posterior alike, which keeps the subtraction of the two well posed.
            rows: data rows behind the moments; M unless given.
            evidence: the source's ELBO, where known.

        Returns:
            The module.
        """
        points, columns, categories = arrays.inputs(Z, "Z", device="cpu")
        M, D = points.shape
        if M == 0 or len(torch.unique(points, dim=0)) < M:
            raise RecycleGPError(f"Z has {M} points, which must be distinct and at least one")
        mu = arrays.targets(mean, M, "mean", device="cpu")
        S = arrays.as_tensor(covariance, "covariance", "cpu")
        if S.shape != (M, M):
            raise RecycleGPError(f"covariance has shape {tuple(S.shape)} for {M} points; pass ({M}, {M})")
        largest = float(S.diagonal().abs().max())
        if float((S - S.mT).abs().max()) > 1e-5 * largest or float(torch.linalg.eigvalsh(S).min()) < -1e-6 * largest:
            raise RecycleGPError("covariance is not symmetric positive semi-definite; pass q's covariance of f(Z)")
        prior_mean, evidence = arrays.number(prior_mean, "prior_mean"), arrays.number(evidence, "evidence")
        if jitter is not None and arrays.number(jitter, "jitter") < 0:
            raise RecycleGPError(f"jitter={jitter}; pass what the source added to the diagonal of K_ZZ, or 0")
        if rows is not None and (not isinstance(rows, (int, np.integer)) or rows < 1):
            raise RecycleGPError(f"rows={rows!r}; pass the number of data rows behind the moments, or None")
        observed = likelihoods.named(likelihood)
        if noise is not None:
            observed = with_noise(observed, noise)
        if isinstance(kernel, str):
            raise RecycleGPError(f"kernel={kernel!r}: pass the fitted GPyTorch kernel, with its parameters")
        spec = from_gpytorch(kernel, D)
        K = spec.matrix(points, points)
        first = MOMENTS_JITTER * float(K.diagonal().mean()) if jitter is None else jitter
        L, used = linalg.cholesky(K, first)
        # what is added beyond the source's own jitter is added to both: they are then moments of f + noise
        S = S + (used - (jitter or 0.0)) * torch.eye(M, dtype=S.dtype)
        return module_from_moments(
            sites.from_moments(points, L, prior_mean, mu, S),
            L,
            name=name_or_new(name),
            kernel=spec,
            mean=prior_mean,
            jitter=float(used),
            likelihood=observed,
            rows=M if rows is None else int(rows),
            columns=columns,
            categories=categories,
            evidence=evidence,
            stacklevel=3,
        )


def module_from_moments(
    converted: Converted,
    L: Tensor,
    *,
    name: str,
    kernel: Kernel,
    mean: float,
    jitter: float,
    likelihood: Likelihood,
    rows: int,
    columns: arrays.Columns = None,
    categories: Categories = NO_CATEGORIES,
    evidence: float = 0.0,
    stacklevel: int,
) -> Module:
    """A module from a site made of moments from elsewhere; directions that had to be floored are said aloud."""
    site, floored = converted
    message = "moments from elsewhere"
    if floored:
        message = f"{floored} of {len(site.Z)} directions of the covariance were wider than the prior and were floored"
        warnings.warn(
            f"module {name}: {message}; the local fit had not converged, or its kernel or jitter is not the one given",
            RecycleGPWarning,
            stacklevel=stacklevel,
        )
    # e = their ELBO − log∫ t dp
    bound = least_squares.solve(sites.to_rows(site, L, mean)).bound
    return Module(
        name=name,
        _site=site._replace(e=evidence - bound),
        _kernel=kernel,
        mean=mean,
        jitter=jitter,
        likelihoods=(likelihood,),
        rows=rows,
        columns=columns,
        convergence=Convergence(not floored, 0, message),
        method="moments",
        categories=categories,
    )


def with_noise(likelihood: Likelihood, noise: Any) -> Likelihood:
    """A likelihood with this noise variance; its other parameters as they were, or as usual."""
    if not likelihood.has_units:
        raise RecycleGPError(f"noise={noise}: likelihood {likelihood.name!r} has no noise; leave it out")
    rest = likelihood.parameters[1:] if likelihood.known else (DEFAULT_DF,) * (len(likelihood.parameter_names) - 1)
    return likelihood.with_values(arrays.number(noise, "noise", positive=True), *rest)


def likelihood_for(known: Sequence[Likelihood], name: str | None, noise: float | None) -> Likelihood:
    """What new data are of: one of those that are known, or another whose parameters are."""
    found = {p.name: p for p in known}
    if noise is not None:
        wanted = likelihoods.only(tuple(known)) if name is None else likelihoods.named(name)
        return with_noise(found.get(wanted.name, wanted), noise)
    if name is None or likelihoods.named(name).name in found:
        return likelihoods.choose(tuple(known), name)
    new = likelihoods.named(name)
    if not new.known:
        raise RecycleGPError(f"update: the noise of {name} data is not known here; pass noise=")
    return new


def check_finite(what: str, *tensors: torch.Tensor) -> None:
    """Never a silent NaN: whatever went wrong before, it stops where an object is made."""
    if not all(bool((t.abs() <= arrays.LARGEST).all()) for t in tensors):  # also catches NaN
        raise RecycleGPError(
            f"{what} would hold NaN or numbers beyond {arrays.LARGEST:g}: its data or kernel overflow; rescale "
            "X and y to ordinary sizes, use a larger noise, or smaller weights"
        )
