"""Module: what a data owner publishes. Points, a site, a kernel, a few facts; no data rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .. import arrays
from ..arrays import Array, CountOrPoints
from ..local.candidates import is_row
from ..record import Origin, of_outputs, worst
from ..times import when
from . import moments, publishing
from .published import PublishedModel

if TYPE_CHECKING:
    import gpytorch


@dataclass(frozen=True, eq=False, repr=False)
class Module(PublishedModel):
    """A fitted local model of one function or of several, ready to be saved, sent and merged.

    Made by `fit`, `load`, `from_moments` and `of_outputs`. What is one value for a single function (mean, kernel,
    noise, …) is a tuple for several.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a")
    """

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
        return replace(self, **self._record.part(self._number_of(function))._asdict())

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
        whole = of_outputs([part._record for part in parts])
        return replace(parts[0], **whole._asdict())

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
        origin = self.about.origin
        if isinstance(chosen, Tensor) and not (
            origin is Origin.ROWS and any(bool(is_row(chosen, Z).any()) for Z in self._points)
        ):
            origin = Origin.UNKNOWN
        about = self.about._replace(origin=origin)
        made = publishing.published(self._solved, chosen, arrays.seed(seed))
        return replace(self, about=about, latents=publishing.coded(made, self.categories))

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
        about = self.about._replace(origin=worst([self.about.origin, Origin.UNKNOWN]))
        return replace(self, about=about, latents=publishing.rounded(self._solved, digits))

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
        changed = self._record.in_units(changes, self._input_units(input_scale, input_shift))
        return replace(self, **changed._asdict())

    # --- models from elsewhere ---

    @staticmethod
    def from_moments(
        Z: Array,
        mean: Array,
        covariance: Array,
        *,
        kernel: gpytorch.kernels.Kernel | str,
        likelihood: str = "gaussian",
        name: str | None = None,
        noise: float | None = None,
        prior_mean: float = 0.0,
        jitter: float | None = None,
        rows: int | None = None,
        evidence: float = 0.0,
        owner: str | None = None,
        time: Any = None,
        columns: Sequence[str] | None = None,
        target: str | None = None,
        unit: str | None = None,
        labels: Sequence[str | None] | None = None,
    ) -> Module:
        """Any q(f(Z)) = N(mean, covariance) fitted elsewhere, under GP(prior_mean, kernel).

        Args:
            Z: (M, D) points, all distinct; of a DataFrame text and categoricals are levels, as for `fit`.
            mean: M numbers, the mean of f(Z).
            covariance: (M, M), of f(Z). One that is wider than the prior (a local fit that had not converged) is
                floored at the prior, its mean kept, with a warning.
            kernel: the fitted GPyTorch kernel; or a name with its parameters, as kernels are printed:
                "rbf(outputscale=2, lengthscale=0.5/0.3)", one lengthscale for each input or one for all.
            likelihood: of the rows behind the moments, by name.
            name: unique within an ensemble; made up when not given.
            noise: noise variance of that likelihood, where it has one and it is known.
            prior_mean: the source's constant mean.
            jitter: the very jitter the source added to K_ZZ: with another one the site is off by orders of
                magnitude. With None the moments are taken to be of f itself, and a little independent noise is
                added to prior and posterior alike, which keeps the subtraction of the two well posed.
            rows: data rows behind the moments; M unless given.
            evidence: the source's ELBO, where known.
            owner: whose rows they were, as for `fit`.
            time: when they were observed, likewise.
            columns: names of the inputs.
            target: the name of y.
            unit: its unit.
            labels: of its classes.

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
        words = moments.Words(name, owner, time, columns, target, unit, labels)
        return Module(*moments.from_moments(given, source, words))
