"""Module: what a data owner publishes. Points, a site, a kernel, a few facts; no data rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import gpytorch
import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..arrays import Array, CountOrPoints
from ..categories import Categories
from ..core import least_squares, sites
from ..core.convergence import Convergence
from ..core.least_squares import Solution
from ..core.posterior import Basis, Posterior, basis
from ..core.sites import Site
from ..devices import CPU
from ..errors import Argument, RecycleGPError
from ..kernels import Kernel
from ..likelihoods import Likelihood, Outputs
from ..record import About, Latent, Record
from ..storage import container
from ..target import Target
from ..times import When, when
from . import module_file, moments, publishing
from .checks import check_finite
from .naming import check_name, check_owner
from .predictive import Predictive, outside_autograd, squeezed
from .processes import OneFunction, Process
from .units import input_units


@dataclass(frozen=True, eq=False, repr=False)
class Module(Predictive):
    """A fitted local model of one function or of several, ready to be saved, sent and merged.

    Made by `fit`, `load`, `from_moments` and `of_outputs`. What is one value for a single function (mean, kernel,
    noise, …) is a tuple for several.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a")
    """

    about: About
    likelihoods: tuple[Likelihood, ...]  # of all functions together
    latents: tuple[Latent, ...]  # one for each function
    _device: torch.device = CPU  # where it predicts; what it says stays on the CPU

    def __post_init__(self) -> None:
        check_name(self.about.name)
        check_owner(self.about.owner_override)
        if len({len(self.latents), len(self.about.targets), *(len(p.functions) for p in self.likelihoods)}) > 1:
            raise RecycleGPError(
                f"{len(self.latents)} functions with {len(self.about.targets)} targets, of a likelihood of "
                f"{len(self.likelihoods[0].functions)}; give one of each for every function"
            )
        object.__setattr__(self, "latents", tuple(self._owned(latent) for latent in self.latents))

    def _owned(self, latent: Latent) -> Latent:
        """With copies of its numbers that nobody else can change."""
        check_finite(f"module {self.name!r}", *latent.known_site, latent.kernel.theta)
        site = Site(*map(arrays.own, latent.known_site))
        return latent._replace(site=site, kernel=latent.kernel.own())

    def __repr__(self) -> str:
        state = "" if self.convergence.converged else ", NOT CONVERGED"
        shares = [p.kept for p in self.latents if p.kept is not None]
        kept = f" keep {min(shares):.0%}" if shares else ""
        kept += f" to {max(shares):.0%}" if shares and max(shares) > min(shares) else ""
        several = len(self.latents) > 1
        said = f"{self.likelihoods[0].words}; " if several else ""
        kernel = "" if several else f", {self.likelihood}, {self.latents[0].kernel.describe()}"
        return (
            f"Module({self.name!r}, {said}{self.rows} rows, {max(map(len, self._points))} points in "
            f"{self.dimension}-D{kept}{kernel}{state})"
        )

    # --- who and what ---

    @property
    def name(self) -> str:
        """Unique within an ensemble."""
        return self.about.name

    @property
    def owner(self) -> str:
        """Whose it is: its name's, unless its owner has said so."""
        return self.about.owner

    @property
    def time(self) -> When | None:
        """Of its rows, where its owner has said so."""
        return self.about.time

    @property
    def method(self) -> str:
        """How it was made."""
        return self.about.method

    @property
    def columns(self) -> arrays.Columns:
        return self.about.columns

    @property
    def categories(self) -> Categories:
        return self.about.categories

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.about.targets

    # --- what it knows ---

    @property
    def rows(self) -> int:
        """Data rows behind it; where outputs were not always seen, behind the function that has most."""
        return max(latent.rows for latent in self.latents)

    @property
    def mean(self) -> Any:
        """Constant prior mean of f."""
        return squeezed([latent.mean for latent in self.latents])

    @property
    def jitter(self) -> Any:
        """Added to the diagonal of K_ZZ, and part of the kernel there."""
        return squeezed([latent.jitter for latent in self.latents])

    @property
    def kept(self) -> Any:
        """Of what its rows say about f, in (0, 1]; None where that is not known."""
        return squeezed([latent.kept for latent in self.latents])

    @property
    def noise_evidence(self) -> Any:
        """What its rows say about their noise, where they were asked."""
        return squeezed([latent.noise_evidence for latent in self.latents])

    @property
    def convergence(self) -> Convergence:
        """How the search for its parameters ended; of several functions the first that had not, or the longest."""
        return min((p.convergence for p in self.latents), key=lambda c: (c.converged, -c.evaluations))

    @property
    def site(self) -> Any:
        """What it says about f, as a copy."""
        return squeezed([Site(*(t.clone() for t in latent.known_site)) for latent in self.latents])

    @property
    def evidence(self) -> float:
        """log∫ t(u) p(u) du under its own prior: the local (bound on the) log marginal likelihood."""
        return sum(float(s.bound) for s in self._solutions)

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where it has points, along each input."""
        Z = torch.cat(self._points)
        return arrays.frozen(torch.stack([Z.amin(0), Z.amax(0)], 1))

    @property
    def _points(self) -> tuple[Tensor, ...]:
        return tuple(latent.known_site.Z for latent in self.latents)

    @property
    def _boxes(self) -> list[Tensor]:
        return [sites.box(torch.cat(self._points))]

    @property
    def _kernels(self) -> tuple[Kernel, ...]:
        return tuple(latent.kernel for latent in self.latents)

    @cached_property
    @outside_autograd
    def _bases(self) -> tuple[Basis, ...]:
        return tuple(basis(latent.kernel, latent.known_site.Z, latent.jitter) for latent in self.latents)

    @cached_property
    @outside_autograd
    def _solutions(self) -> tuple[Solution, ...]:
        parts = zip(self.latents, self._bases, strict=True)
        return tuple(least_squares.solve(sites.to_rows(p.known_site, base.L, p.mean)) for p, base in parts)

    @cached_property
    @outside_autograd
    def _posteriors(self) -> tuple[Posterior, ...]:
        parts = zip(self.latents, self._bases, self._solutions, strict=True)
        return tuple(
            Posterior(base, torch.tensor(p.mean, dtype=torch.float64), found.v, found.C).to(self._device)
            for p, base, found in parts
        )

    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        if owner not in (None, self.owner):
            raise RecycleGPError(Argument("owner", owner), f": the module is of {self.owner!r} alone; leave owner out")
        return [OneFunction(posterior) for posterior in self._posteriors]

    # --- one function of several, and several as one ---

    def part(self, function: str) -> Module:
        """One of its functions as a module by itself.

        Args:
            function: its name, one of `functions`.

        Returns:
            The module of this function.

        Raises:
            RecycleGPError: There is no function of this name.

        Examples:
            >>> both = rgp.fit(X, np.c_[np.sin(X), np.cos(X)], target=["heat", "salt"])
            >>> both.part("salt").target.name
            'salt'
        """
        if function not in self.functions:
            raise RecycleGPError(f"function={function!r}: there are {', '.join(self.functions)}")
        c = self.functions.index(function)
        about = self.about._replace(targets=(self.targets[c],))
        return replace(
            self, about=about, likelihoods=tuple(p.parts[c] for p in self.likelihoods), latents=(self.latents[c],)
        )

    @staticmethod
    def of_outputs(parts: Sequence[Module]) -> Module:
        """Modules of one owner as one with as many outputs, each called like its target.

        Args:
            parts: modules of one name and one function; each must say what its y is called (`fit(target=...)`).

        Returns:
            The module of all outputs.

        Raises:
            RecycleGPError: A target has no name, or the modules are not of one name, owner and inputs.

        Examples:
            >>> heat = rgp.fit(X, np.sin(X[:, 0]), name="a", target="heat")
            >>> salt = rgp.fit(X, np.cos(X[:, 0]), name="a", target="salt")
            >>> rgp.Module.of_outputs([heat, salt]).outputs
            ('heat', 'salt')
        """
        names = [part.target.name for part in parts]
        if not parts or not all(names) or any(len(part.latents) > 1 for part in parts):
            raise RecycleGPError("outputs are called like their targets; fit each module with ", Argument("target"))
        first = parts[0]
        for part in parts[1:]:
            if (part.name, part.owner, part.columns, part.dimension, part.categories) != (
                first.name,
                first.owner,
                first.columns,
                first.dimension,
                first.categories,
            ):
                raise RecycleGPError(
                    "functions of one module must have its name, its owner, its columns and its categories"
                )
        whole = Outputs(tuple(str(n) for n in names), tuple(part.likelihoods[0] for part in parts))
        about = first.about._replace(targets=tuple(part.target for part in parts))
        return replace(first, about=about, likelihoods=(whole,), latents=tuple(part.latents[0] for part in parts))

    # --- the same, otherwise ---

    def publish(self, points: CountOrPoints, seed: int = 0) -> Module:
        """The same posterior at other, usually fewer, points: the exact marginal there.

        Args:
            points: how many, spread over its region (a module that has no more is returned as it is), or the points.
            seed: of where automatic points go.

        Returns:
            The smaller module. Functions that had points in common have them again.

        Raises:
            RecycleGPError: The points are none, or do not have the module's columns.

        Examples:
            >>> len(m.publish(4).inducing)
            4
        """
        chosen = arrays.count_or_points(points, "points", self.dimension, self.columns, "cpu", self.categories)
        return self._with_latents(publishing.published(self._as_posteriors, chosen, arrays.seed(seed)))

    def rounded(self, digits: int) -> Module:
        """The same in numbers of fewer digits: the points, and what is known of f there.

        Kernel, prior mean and noise stay as they are. Points are rounded by column, to so many digits of the column's
        standard deviation over the points; where inputs are whole numbers themselves, a rounded point can be a row.

        Args:
            digits: how many are kept, from 1 to 15.

        Returns:
            The rounded module: the posterior at the rounded points, in rounded numbers. With two digits or fewer it
            may predict visibly worse.

        Raises:
            RecycleGPError: digits is not a whole number from 1 to 15.

        Examples:
            >>> m.rounded(3).name
            'a'
        """
        return self._with_latents(publishing.rounded(self._as_posteriors, digits))

    def rename(self, name: str) -> Module:
        """The same under another name.

        Raises:
            RecycleGPError: The name is empty, too long, or cannot be printed.

        Examples:
            >>> m.rename("b").name
            'b'
        """
        return replace(self, about=self.about._replace(name=name))

    def owned_by(self, owner: str) -> Module:
        """The same as a module of this owner, who may have others.

        Raises:
            RecycleGPError: The owner is empty, too long, cannot be printed, or is "new".

        Examples:
            >>> m.owned_by("ward").owner
            'ward'
        """
        return replace(self, about=self.about._replace(owner_override=owner))

    def at_time(self, time: Any) -> Module:
        """The same as of a time: a number in any unit, or a date, for `merge(half_life=...)`.

        Raises:
            RecycleGPError: The time is neither a number nor a date.

        Examples:
            >>> m.at_time(7).time
            7.0
        """
        return replace(self, about=self.about._replace(time=when(time)))

    def with_columns(self, columns: Sequence[str]) -> Module:
        """The same with names for its input columns, in their order: for a module that has none.

        Raises:
            RecycleGPError: There are not as many different names as columns.

        Examples:
            >>> m.with_columns(["day"]).columns
            ('day',)
        """
        return replace(self, about=self.about._replace(columns=arrays.named_columns(columns, self.dimension)))

    def transform(
        self,
        input_shift: Any = None,
        output_scale: Any = 1.0,
        output_shift: Any = 0.0,
        unit: Any = None,
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
            output_scale: s; a negative one turns f upside down. Of several outputs one number for all, one for each,
                or {output: number} by name. Classes have no other units.
            output_shift: b, likewise.
            unit: what y is measured in afterwards, likewise, if the module is to say so.
            input_scale: the same of positive numbers; 1 for those that are not named.

        Returns:
            The module in its new units.

        Raises:
            RecycleGPError: A scale is zero, a column or output is not known, or y has no units.

        Examples:
            >>> m.transform(output_scale=1.8, output_shift=32, unit="°F").target.unit
            '°F'
        """
        changes = self.likelihoods[0].changes(output_scale, output_shift, unit)
        inputs = input_units(
            input_scale,
            input_shift,
            dimension=self.dimension,
            columns=self.columns,
            discrete=self.latents[0].kernel.structure.discrete,
        )
        latents = tuple(p.in_units(change, inputs) for p, change in zip(self.latents, changes, strict=True))
        targets = tuple(t.in_units(*change) for t, change in zip(self.targets, changes, strict=True))
        about, changed = self.about._replace(targets=targets), [p.rescaled(changes) for p in self.likelihoods]
        return replace(self, about=about, likelihoods=tuple(changed), latents=latents)

    @property
    def _record(self) -> Record:
        return Record(self.about, self.likelihoods, self.latents)

    @property
    def _as_posteriors(self) -> publishing.Posteriors:
        return publishing.Posteriors(self.latents, self._bases, self._posteriors, self.likelihoods[0])

    def _with_latents(self, latents: Sequence[Latent]) -> Module:
        return replace(self, latents=tuple(latents))

    # --- files, and models from elsewhere ---

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> m.save("a.safetensors")
        """
        container.write(path, module_file.to_document(self._record))

    @staticmethod
    def from_moments(
        Z: Array,
        mean: Array,
        covariance: Array,
        *,
        kernel: gpytorch.kernels.Kernel,
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

        Raises:
            RecycleGPError: The covariance is none, points coincide, or shapes do not fit.

        Examples:
            >>> import gpytorch, numpy as np, recyclegp as rgp
            >>> k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            >>> rgp.Module.from_moments([[0.0], [1.0]], [0.2, 0.4], 0.1 * np.eye(2), kernel=k, noise=0.1).rows
            2
        """
        given = moments.Moments(Z, mean, covariance)
        source = moments.Source(kernel, likelihood, noise, prior_mean, jitter, rows, evidence)
        return Module(*moments.from_moments(given, source, name))
