"""Ensemble: the merged GP. Immutable; every operation returns a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from os import PathLike
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..arrays import Array, CountOrPoints
from ..categories import Categories
from ..core.convergence import Convergence
from ..core.exact import ExactPosterior
from ..core.posterior import Posterior
from ..core.sites import box
from ..devices import CPU, default_device, retry_on_oom
from ..errors import Argument, Part, RecycleGPError
from ..export import gpytorch_model
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..merging.decay import check_decay
from ..merging.member import Member, active, boxes, stored
from ..merging.size import Size
from ..record import About, Record
from ..storage import container
from ..target import NO_TARGET, Target
from . import ensemble_file, merging, operations, reporting, unlearning
from .choice import AUTO, Choice
from .coupling import covariance_of
from .group import Group
from .how import Frame, How
from .intake import FunctionRead, Known, ModuleIntake
from .module import Module
from .naming import NEW, check_owner, few, name_of_update
from .new_rows import members_of_rows, observed
from .predictive import Predictive, squeezed
from .processes import Process
from .sources import Source
from .units import input_units
from .unlearning import Guarantee, Unlearned
from .weights import check_weight

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
    """Many modules as one model of one function or of several, itself publishable. Made by `merge` and `load`.

    A function is merged from the modules that have it: an owner may have seen some outputs, or some classes, only. What
    is one value for a single function (mean, kernel, noise, …) is a tuple for several.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a")
        >>> e = rgp.merge([m, rgp.fit(X + 3, np.sin(X[:, 0] + 3), noise=0.01, name="b")])
    """

    likelihoods: tuple[Likelihood, ...]  # what y may be
    frame: Frame  # what all modules share: columns and categories
    groups: tuple[Group, ...]  # Gaussian processes, independent of each other; in the order of the functions
    how: How  # how it was merged, for relearning
    _device: torch.device = CPU  # where it computes; what modules have said stays on the CPU

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(group.on(self._device) for group in self.groups))
        if self._owners_differ and NEW in self.owners:
            raise RecycleGPError(f"where owners differ, none can be called {NEW!r}; rename the module, or use owned_by")

    @staticmethod
    def _of_groups(
        likelihood: Likelihood, frame: Frame, groups: Sequence[Group], how: How, device: torch.device = CPU
    ) -> Ensemble:
        """What merging found."""
        known = [own for group in groups for own in group.likelihoods]
        return Ensemble(likelihood.with_parts(known), frame, tuple(groups), how, device)

    def _with_groups(self, groups: Iterable[Group]) -> Ensemble:
        found = tuple(groups)
        known = [own for group in found for own in group.likelihoods]
        return replace(self, groups=found, likelihoods=self.likelihoods[0].with_parts(known))

    def __repr__(self) -> str:
        several = len(self.functions) > 1
        words = self.likelihoods[0].words if several else ""
        words += ", correlated; " if self.output_covariance is not None else "; " if several else ""
        rest = f" in {self.dimension}-D"
        if not several:
            form = self.groups[0].form
            exact = "exact, " if form.kind == "exact" else ""
            rest = f", {exact}{len(form.Z)} points in {self.dimension}-D, {form.kernel.describe()}{form.loss_words}"
        shown = ", ".join(self.names[:3]) + (", …" if len(self.names) > 3 else "")
        return f"Ensemble({len(self.names)} modules: {shown}; {words}{self.rows} rows{rest})"

    # --- what it knows ---

    @property
    def names(self) -> list[str]:
        """Of the modules, in the order in which they came."""
        return list(dict.fromkeys(m.name for m in self._members))

    @property
    def owners(self) -> list[str]:
        """Whose modules they are, in the order in which they came."""
        return list(dict.fromkeys(m.owner for m in self._members))

    @property
    def rows(self) -> int:
        """Data rows behind it, each counted with its module's weight: of the function that has most."""
        return max(group.rows_of(c) for group in self.groups for c in group.functions)

    @property
    def columns(self) -> arrays.Columns:
        return self.frame.columns

    @property
    def categories(self) -> Categories:
        return self.frame.categories

    @property
    def choice(self) -> Choice:
        """How its points were chosen: "auto", "all", a number, or None for points that were given."""
        return self.how.choice

    @property
    def mean(self) -> Any:
        """Constant prior mean of f."""
        return squeezed([mean for group in self.groups for mean in group.means])

    @property
    def jitter(self) -> Any:
        """Added to the diagonal of K_**, and part of the kernel there."""
        return squeezed([group.form.jitter for group in self.groups])

    @property
    def convergence(self) -> Convergence:
        """Of the search for its kernel; of several the first that had not ended, or the longest."""
        return min((g.convergence for g in self.groups), key=lambda c: (c.converged, -c.evaluations))

    @property
    @on_its_device
    def bound(self) -> float:
        """The ensemble bound L_E (of log∫Πt_k dp(f); not in general of log p(y))."""
        return sum(group.bound for group in self.groups)

    @property
    @on_its_device
    def evidence(self) -> float:
        """The block-marginal evidence E ≥ L_E; of an exact ensemble the evidence itself."""
        return sum(group.evidence for group in self.groups)

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that the points Z_* cannot express; none where it is exact."""
        return sum(group.form.slack for group in self.groups)

    @property
    def unlearned(self) -> Unlearned:
        """What is left of modules that were removed."""
        return unlearning.together([group.unlearned for group in self.groups])

    @property
    def traces_of_removed(self) -> int:
        """Modules that were removed where something still reflects them; `unlearned` says what."""
        return self.unlearned.removed if self.unlearned.guarantee is Guarantee.TRACES else 0

    @property
    def size(self) -> Any:
        """Which form it has, exact or at points, what that loses, and what an exact one costs."""
        found: list[Size] = [group.size for group in self.groups]
        return squeezed(found)

    @property
    def offset_sd(self) -> Any:
        """σ_b: how far owners' constants are from the shared function, as a standard deviation."""
        return squeezed([sd for group in self.groups for sd in group.offset_sds])

    @property
    def smooth_sd(self) -> Any:
        """σ_d: how large owners' smooth departures from the shared function are, beside that function itself."""
        return squeezed([group.form.effects.smooth_sd for group in self.groups for _ in group.functions])

    @property
    def output_covariance(self) -> np.ndarray | None:
        """B, where outputs are correlated: their prior covariances, in their units, times k(x, x'); else None."""
        group = self.groups[0]
        return None if group.coupling is None else arrays.frozen(covariance_of(group.form.kernel, group.coupling))

    @property
    def targets(self) -> tuple[Target, ...]:
        """What y means, for each function, where all modules that say so agree."""
        said = [
            {m.target for m in active(group.members) if m.function == c and m.target.known}
            for group in self.groups
            for c in group.functions
        ]
        return tuple(found.pop() if len(found) == 1 else NO_TARGET for found in said)

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where modules have points, along each input."""
        ends = torch.cat([group.reach for group in self.groups])
        return arrays.frozen(torch.stack([ends.amin(0), ends.amax(0)], 1))

    @property
    @on_its_device
    def basis(self) -> Any:
        """Z_* and the factor of its kernel matrix: a copy. An exact ensemble has the points it would publish at."""
        return squeezed([form.basis.map(Tensor.clone) for group in self.groups for form in group.at_points(None)])

    @on_its_device
    def report(self) -> list[dict[str, Any]]:
        """One row for each function of each module: rows, points, weight, agreement with the rest, owner's offset.

        `surprise` is the squared distance of the module's pseudo-observations from what all the
        others predict for them, per pseudo-observation: about 1 where they agree. `agreement` is the
        probability of a larger one, if the model is right. Both are judged under the ensemble's kernel or, where that
        is far rougher than any module's own, as a kernel that has absorbed a contradiction is, under their median.
        `offset` and `offset_sd` say what is known of its owner's constant, where owners differ. `trust` is the verdict
        of `screen`, None where nobody looked, and `proposal` the change of units that would explain a flagged module.
        `guarantee` says, the same in every row, what holds of modules that were removed (`unlearned` says more).

        Examples:
            >>> [row["name"] for row in e.report()]
            ['a', 'b']
        """
        guarantee = self.unlearned.guarantee
        return reporting.rows([m for group in self.groups for m in group.report()], self.functions, guarantee)

    # --- for those inside ---

    @property
    def _members(self) -> tuple[Member, ...]:
        return tuple(m for group in self.groups for m in group.members)

    @property
    def _kernels(self) -> tuple[Kernel, ...]:
        return tuple(kernel for group in self.groups for kernel in group.kernels)

    @property
    def _points(self) -> tuple[Tensor, ...]:
        return tuple(Z for group in self.groups for Z in group.points)

    @property
    def _boxes(self) -> list[Tensor]:
        whole = [group.extent for group in self.groups if group.extent is not None]
        return [*boxes(self._members), *whole] or [box(torch.cat(self._points).cpu())]

    @property
    def _owners_differ(self) -> bool:
        """Have owners functions of their own about the shared ones?"""
        return any(group.form.effects.present for group in self.groups)

    @property
    def _keeps_sites(self) -> bool:
        return all(group.keeps_sites for group in self.groups)

    @property
    @on_its_device
    def _posteriors(self) -> tuple[Posterior | ExactPosterior, ...]:
        return tuple(group.posterior for group in self.groups)

    @on_its_device
    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        if owner is not None and owner != NEW and owner not in self.owners:
            raise RecycleGPError(
                Argument("owner", owner), f": nobody here is called so; there are {few(self.owners)}, and 'new'"
            )
        return [group.process(owner, of_y=of_y) for group in self.groups]

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
        if function not in self.functions:
            raise RecycleGPError(f"function={function!r}: there are {', '.join(self.functions)}")
        apart = self.independent()
        c = self.functions.index(function)
        known = tuple(p.parts[c] for p in apart.likelihoods)
        members = tuple(m._replace(function=0) for m in apart.groups[c].members)
        own = replace(apart.groups[c], functions=(0,), members=members, likelihoods=(known,))
        how = apart.how._replace(configs=(apart.how.configs[c],))
        return Ensemble(known, self.frame, (own,), how, self._device)

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
        groups = merging.relearn(self.likelihoods[0], self._by_function(), self.frame, how, self._given_points)
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
        known = Known(self.likelihoods[0], self.frame, self._members)
        with ModuleIntake(device=self._device, keep=self._keeps_sites, known=known) as intake:
            read = intake.read(modules)
            now = self if read.frame == self.frame else replace(self, frame=read.frame)
            return now._with_read(read.functions, relearn)

    @on_its_device
    def _with_read(self, functions: Sequence[FunctionRead], relearn: bool) -> Ensemble:
        if relearn:
            more = [(*old, *own.members) for old, own in zip(self._by_function(), functions, strict=True)]
            return self._relearned(more)
        return self._with_groups(operations.add(self.groups, functions, self.choice))

    @on_its_device
    def remove(self, names: str | Iterable[str], *, relearn: bool = False) -> Ensemble:
        """Without the named modules, whose sites are gone: the rest is stacked anew.

        Args:
            names: one or several.
            relearn: False keeps kernel, points, mean, noise and owners' variances, also where they had been chosen with
                the removed modules. True chooses all of these anew, as if the modules had never been merged.

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
        rest = [[m for m in own if m.name not in gone] for own in self._by_function()]
        for function, own in zip(self.functions, rest, strict=True):
            if not active(own):
                said = f" of {function}" if len(self.functions) > 1 else ""
                raise RecycleGPError(f"remove: nothing would be left{said}; an ensemble needs at least one module")
        self._need_sites("remove")
        fixed = self.groups if self.choice is None or not relearn else ()
        fewer = operations.levels_of([m for own in rest for m in own], fixed, self.categories)
        frame = self.frame._replace(categories=fewer)
        if relearn:
            after = [group.after_removal(gone, self.how, relearned=True) for group in self.groups]
            coded = [[m.recoded(self.categories, fewer) for m in own] for own in rest]
            again = replace(self, frame=frame)._relearned(coded)
            left = unlearning.together(after)
            return again._with_groups(replace(group, unlearned=left) for group in again.groups)
        groups = [group.without(gone, self.how, (self.categories, fewer)) for group in self.groups]
        return replace(self, frame=frame)._with_groups(groups)

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
        if relearn:
            return self._relearned(rest)
        return self._with_groups(group.rebuilt(tuple(map(changed, group.members))) for group in self.groups)

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
    ) -> Ensemble:
        """With new data of any likelihood; those that are not Gaussian are better collected until they are a few dozen.

        Args:
            X: inputs of the new rows.
            y: their targets or classes; of several outputs (n, C), NaN where one was not seen.
            likelihood: of the new rows; may be left out where the ensemble has one.
            noise: noise variance of the new rows; the ensemble's own unless given. An array holds one for each row, as
                for `fit`; of several outputs also one for each cell.
            name: what to call them; update-1, … unless given.
            owner: whose rows they are; somebody new, called like them, unless given.
            relearn: choose kernel, points, mean and noise anew afterwards.
            decay: what all that is known counts beside the new rows, in (0, 1]: 0.98 multiplies every weight by 0.98
                first, for a function that drifts.
            forget: the older name of `decay`.

        Returns:
            The ensemble with the new rows. Where points were chosen automatically, new ones are appended if the rows
            lie in a region that has none; other points stay, and a warning says what they cannot express.

        Raises:
            RecycleGPError: There are no rows, they do not fit the model, the name is taken, or decay is no share.

        Examples:
            >>> e.update([[9.5], [10.0]], [-0.1, -0.5], name="today").names
            ['a', 'b', 'today']
        """
        label = name_of_update(name, self.names)
        share = check_decay(decay) if forget is None else check_decay(forget, "forget")
        points, _, levels = arrays.matched(X, self.dimension, self.columns, self.categories, device=self._device)
        if not len(points):
            raise RecycleGPError("update: X has no rows; pass at least one")
        if relearn:
            self._need_sites(Argument("relearn", True))
        now = self if levels == self.categories else replace(self, frame=self.frame._replace(categories=levels))
        if share < 1:
            now = now._with_groups(group.decayed(share) for group in now.groups)
        whole, rows = observed(points, y, self.likelihoods, likelihood, noise)
        about = About(label, check_owner(owner), method="update", columns=self.columns, categories=levels)
        found = members_of_rows(now.groups, whole, rows, about, may_append=self.choice == AUTO)
        if relearn:
            more = [(*old, found[c].member) if c in found else old for c, old in enumerate(now._by_function())]
            return now._relearned(more)
        return now._with_groups(operations.add_rows(now.groups, found, self.choice))

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
        inputs = input_units(
            input_scale,
            input_shift,
            dimension=self.dimension,
            columns=self.columns,
            discrete=self._kernels[0].structure.discrete,
        )
        moved = replace(self, how=self.how.in_units(changes, inputs))
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
            RecycleGPError: The points do not have the ensemble's columns.

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
        about = About(name, None, None, operations.method_of(self._members), *self.frame[1:3], self.targets)
        settled = self.convergence.converged and all(m.converged for m in self._members)
        said = "" if settled else "; its search or some of them had not converged"
        ended = Convergence(settled, 0, f"ensemble of {len(self.names)} modules{said}")
        latents = [latent for group in self.groups for latent in operations.latents_of(group, wanted, ended)]
        return Record(about, self.likelihoods, tuple(latents))

    @on_its_device
    def to_gpytorch(self, likelihood: str | None = None) -> Any:
        """A whitened GPyTorch `ApproximateGP` that predicts the same, in evaluation mode, and its likelihood.

        The model can be trained on like any other; but its ELBO measures q from the prior, so rows beyond the
        ensemble's own belong into `update`.

        Args:
            likelihood: which one, where the ensemble has several.

        Returns:
            The model and the likelihood. Of several outputs such pairs in the order of `outputs`; GPyTorch's
            IndependentModelList takes the models. Of classes one model of all functions, in the order of `classes`,
            and a SoftmaxLikelihood.

        Raises:
            RecycleGPError: GPyTorch has no such likelihood, or outputs are correlated.

        Examples:
            >>> model, likelihood = e.to_gpytorch()
            >>> type(likelihood).__name__
            'GaussianLikelihood'
        """
        if self.output_covariance is not None:
            raise RecycleGPError(
                "to_gpytorch: these outputs are correlated, and the models would be independent; use "
                "independent().to_gpytorch()"
            )
        posteriors = [form.posterior for group in self.groups for form in group.at_points(None)]
        return gpytorch_model.export(posteriors, self._likelihood(likelihood))

    def to_botorch(self) -> Any:
        """A BoTorch `Model` of f whose posterior has batches and gradients: for acquisition functions.

        Returns:
            The model; of several outputs a `ModelList` of one model for each.

        Raises:
            ModuleNotFoundError: BoTorch, an optional extra, is not installed.
            RecycleGPError: Outputs are correlated, or the functions are not outputs.

        Examples:
            >>> model = e.to_botorch()  # doctest: +SKIP
        """
        try:
            from ..export import botorch_model  # BoTorch is an optional extra
        except ModuleNotFoundError as absent:
            raise ModuleNotFoundError(f"to_botorch: {absent}; pip install botorch") from None
        if self.output_covariance is not None:
            raise RecycleGPError("to_botorch: these outputs are correlated; use independent().to_botorch()")
        return botorch_model.export(self._posteriors, self.likelihoods)

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

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> e.save("both.safetensors")
        """
        container.write(path, self._document())

    @on_its_device
    def _document(self) -> container.Document:
        groups = tuple(replace(group, form=group.with_evidence) for group in self.groups)
        return ensemble_file.to_document(ensemble_file.EnsembleFacts(self.likelihoods, self.frame, groups, self.how))

    # --- behind them ---

    def _by_function(self) -> list[list[Member]]:
        """Members of each function, as they were published."""
        return [[m for m in group.members if m.function == c] for group in self.groups for c in group.functions]

    @property
    def _given_points(self) -> Tensor:
        """Z_*, where it was given."""
        return self._points[0]

    def _relearned(self, members: Sequence[Sequence[Member]]) -> Ensemble:
        """Kernel, mean, effects, points, noise and trust chosen anew, in the way they were chosen first."""
        groups = merging.relearn(self.likelihoods[0], members, self.frame, self.how, self._given_points)
        left = self.unlearned.relearned()
        how = self.how._replace(configs=tuple(c._replace(learn=True) for c in self.how.configs))
        return replace(self, how=how)._with_groups(replace(group, unlearned=left) for group in groups)

    def _need_names(self, what: str, wanted: set[str]) -> None:
        unknown = wanted - set(self.names)
        if unknown:
            raise RecycleGPError(
                f"{what}: no module is named {', '.join(sorted(map(str, unknown)))}; there are {few(self.names)}"
            )

    def _need_sites(self, what: Part) -> None:
        for group in self.groups:
            group.need_sites(what)
