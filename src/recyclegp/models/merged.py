"""What an ensemble knows: all that is answered from its groups as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from os import PathLike
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..arrays import Array
from ..categories import Categories
from ..core.convergence import Convergence
from ..core.exact import ExactPosterior
from ..core.posterior import Posterior
from ..core.sites import box
from ..devices import CPU, default_device, retry_on_oom
from ..errors import Argument, Part, RecycleGPError
from ..extras import install
from ..kernels import Kernel
from ..likelihoods import Gaussian, Likelihood, NegativeBinomial, Observed, Outputs
from ..merging.member import Member, active, boxes
from ..merging.points import Choice
from ..merging.size import Size
from ..record import Origin
from ..storage import container
from ..target import Target, united
from . import disclosure, ensemble_file, gain, new_owner, owner_answers, reporting, unlearning
from .checks import check_it_answers
from .coupling import covariance_of
from .disclosure import Disclosure
from .gain import Gain
from .group import Group
from .how import Frame, How, Signer, Skipped
from .model import squeezed
from .module import Module
from .naming import NEW, few
from .predictive import Predictive
from .processes import DrawnParts, Process
from .unlearning import Guarantee, Unlearned
from .waiting import Waiting, attached, check_enough, published

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
class MergedModel(Predictive):
    """The groups of an ensemble, and what can be asked of them without changing them; Ensemble is the final class."""

    likelihoods: tuple[Likelihood, ...]  # what y may be
    frame: Frame  # what all modules share: columns and categories
    groups: tuple[Group, ...]  # Gaussian processes, independent of each other; in the order of the functions
    how: How  # how it was merged, for relearning
    _device: torch.device = CPU  # where it computes; what modules have said stays on the CPU
    _waiting: Waiting = ()  # all that rows say which came by update: in memory only, and no part of `groups`

    def __getstate__(self) -> dict[str, object]:
        """Pickled without what can be computed again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(group.on(self._device) for group in self.groups))
        if self._owners_differ and NEW in self.owners:
            raise RecycleGPError(f"where owners differ, none can be called {NEW!r}; rename the module, or use owned_by")

    def __repr__(self) -> str:
        several = len(self.functions) > 1
        words = self.likelihoods[0].words if several else ""
        words += ", correlated; " if self.output_covariance is not None else "; " if several else ""
        rest = f" in {self.dimension}-D"
        if not several:
            form = self._live[0].form
            exact = "exact, " if form.kind == "exact" else ""
            rest = f", {exact}{len(form.Z)} points in {self.dimension}-D, {form.kernel.describe()}{form.loss_words}"
        shown = ", ".join(self.names[:3]) + (", …" if len(self.names) > 3 else "")
        count = len(self.names)
        return f"Ensemble({count} module{'s' * (count != 1)}: {shown}; {words}{self.rows} rows{rest})"

    # --- what it knows ---

    @property
    def names(self) -> list[str]:
        """Of the modules, in the order in which they came."""
        return list(dict.fromkeys(m.name for m in self._everybody))

    @property
    def owners(self) -> list[str]:
        """Whose modules they are, in the order in which they came."""
        return list(dict.fromkeys(m.owner for m in self._everybody))

    @property
    def rows(self) -> int:
        """Data rows behind it, each counted with its module's weight: of the function that has most."""
        found = {m.function: 0.0 for m in self._everybody}
        for m in self._everybody:
            found[m.function] += m.weighted_rows
        return max(1, round(max(found.values())))

    @property
    def dimension(self) -> int:
        """Number of input columns."""
        return self.frame.dimension

    @property
    def columns(self) -> arrays.Columns:
        return self.frame.columns

    @property
    def categories(self) -> Categories:
        return self.frame.categories

    @property
    def disclosure(self) -> Disclosure:
        """What leaves with it, the worst of all members: whose points, how many for each row, the fewest rows."""
        each = [len(self._points[c]) / group.rows_of(c) for group in self.groups for c in group.functions]
        return disclosure.of_members(self._members, [self._origin_of_points], max(each))

    @property
    def _origin_of_points(self) -> Origin:
        """Of its own points: those that somebody gave are not known to be no rows."""
        return Origin.UNKNOWN if self.choice is None else Origin.PLACED

    @property
    def choice(self) -> Choice:
        """How its points were chosen: "auto", "all", a number, or None for points that were given."""
        return self.how.choice

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Modules or files that the merge was made without, because they failed: each with `name` and `reason`."""
        return self.how.skipped

    @property
    def signers(self) -> tuple[Signer, ...]:
        """Whose signatures its modules had, each with `name`, `key` and `version`, where they were verified."""
        present = set(self.names)
        return tuple(s for s in self.how.signers if s.name in present)

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
        return sum(group.bound for group in self._live)

    @property
    @on_its_device
    def evidence(self) -> float:
        """The block-marginal evidence E ≥ L_E; of an exact ensemble the evidence itself."""
        return sum(group.evidence for group in self._live)

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that the points Z_* cannot express; none where it is exact."""
        return sum(group.form.slack for group in self._live)

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
        found: list[Size] = [group.size for group in self._live]
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
        """What y means, for each function, as far as modules say so and agree."""
        said = active(self._everybody)
        return tuple(
            united(m.target for m in said if m.function == c) for group in self.groups for c in group.functions
        )

    @property
    @on_its_device
    def basis(self) -> Any:
        """Z_* and the factor of its kernel matrix: a copy. An exact ensemble has the points it would publish at."""
        return squeezed([form.basis.map(Tensor.clone) for group in self._live for form in group.at_points(None)])

    @on_its_device
    def report(self) -> list[dict[str, Any]]:
        """One row for each function of each module: rows, points, weight, agreement with the rest, owner's offset.

        `points_per_row` are its points for each row of data behind it, None where only names are kept. `origin` says
        of these points whether rows are among them: "placed" (by this library, never on one), "rows", or "unknown".
        `privacy` is what its rows were said to be, "people" or "things", None where nobody said.
        `surprise` is the squared distance of the module's pseudo-observations from what all the
        others predict for them, per pseudo-observation: about 1 where they agree. `agreement` is the
        probability of a larger one, if the model is right. Both are judged under the ensemble's kernel or, where that
        is far rougher than any module's own, as a kernel that has absorbed a contradiction is, under their median.
        `others_add` are nats for each row: by how much what the others say makes what this module says more probable
        than it is without them. Below zero they mislead; whether merging helps is only known from rows that were held
        back (`gain`).
        `offset` and `offset_sd` say what is known of its owner's constant, where owners differ. `trust` is the verdict
        of `screen`, None where nobody looked, and `proposal` the change of units that would explain a flagged module.
        `guarantee` says, the same in every row, what holds of modules that were removed (`unlearned` says more).
        `waiting` are rows that came by `update` and are too few to be written. `signed_by` is the public key with which
        its file was signed, where `recyclegp merge` has verified that, else None. `skipped` are, the same in every row,
        the names of modules and files that the merge went on without (`skipped` of the ensemble says why).

        Examples:
            >>> [row["name"] for row in e.report()]
            ['a', 'b']
        """
        guarantee = self.unlearned.guarantee
        waiting = {w.member.name for w in self._settled._waiting}
        members = [m for group in self._live for m in group.report()]
        keys = {s.name: s.key for s in self.how.signers}
        skipped = tuple(s.name for s in self.skipped)
        return reporting.rows(members, self.functions, guarantee, waiting, keys, skipped)

    def gain(
        self,
        X: Array,
        y: Array,
        *,
        name: str | None = None,
        owner: str | None = None,
        module: Module | None = None,
        likelihood: str | None = None,
    ) -> Gain:
        """Whether merging helps an owner, asked at home with the table that was fitted with `hold_back`.

        The rows that were held back are found again, and the merged model, asked as this owner, is compared with the
        owner's module alone, which has seen none of them either.

        Args:
            X: (n, D) inputs of all rows of the table; those that were fitted are left aside.
            y: their targets or classes; of several outputs those that the module has.
            name: whose table it is, by the name of the module; may be left out where one module alone held rows back.
            owner: the same by the owner.
            module: the module itself, where the ensemble has kept only names.
            likelihood: which one, by name; may be left out where the model has one.

        Returns:
            Mean −log p(y) of both, the standard error of their difference, and a verdict; as text a sentence.

        Raises:
            RecycleGPError: No rows were held back, several modules could be meant, or columns are missing.

        Examples:
            >>> mine = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, hold_back=0.2, name="mine")
            >>> e.add(mine).gain(X, np.sin(X[:, 0])).rows + mine.rows
            30
        """
        return gain.gain(self, self._members, X, y, name=name, owner=owner, module=module, likelihood=likelihood)

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
        posteriors = [form.posterior for group in self._live for form in group.at_points(None)]
        from ..export import gpytorch_model

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
            raise ModuleNotFoundError(f"to_botorch: {absent}; {install('botorch')}") from None
        if self.output_covariance is not None:
            raise RecycleGPError("to_botorch: these outputs are correlated; use independent().to_botorch()")
        return botorch_model.export(self._posteriors, self.likelihoods)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.
            RecycleGPError: So few rows have come by `update` that they must wait for more; or its numbers overflow, so
                that nobody could ask it.

        Examples:
            >>> e.save("both.safetensors")
        """
        check_it_answers(self)
        container.write(path, self._document())

    # --- for those inside ---

    @property
    def _members(self) -> tuple[Member, ...]:
        return tuple(m for group in self._live for m in group.members)

    @property
    def _everybody(self) -> list[Member]:
        """The same, but rows that came by update as they are in memory: names and numbers of rows are known at once."""
        return [m for group in self.groups for m in (*group.members, *self._waiting_for(group))]

    def _waiting_for(self, group: Group) -> list[Member]:
        return [w.member for w in self._waiting if w.member.function in group.functions]

    @cached_property
    def _settled(self) -> Self:
        """With rows that came by update as a file has them; those that may not be in one still wait."""
        now = tuple(w for w in self._waiting if w.enough)
        if not now:
            return self
        rest = tuple(w for w in self._waiting if not w.enough)
        with default_device(self._device):
            return replace(self, _waiting=rest)._with_groups(published(self.groups, now, self.choice, self.frame))

    @cached_property
    def _live(self) -> tuple[Group, ...]:
        """Groups with all rows that came by update: what is asked. They are as in a file, but for those that wait."""
        now = self._settled
        with default_device(self._device):
            return attached(now.groups, now._waiting, self.choice) if now._waiting else now.groups

    def _published(self) -> Self:
        """As a file has it: no rows wait."""
        check_enough(self._waiting)
        return self._settled

    def _waiting_changed(self, change: Callable[[Member], Member]) -> Self:
        return replace(self, _waiting=tuple(w._replace(member=change(w.member)) for w in self._waiting))

    @property
    def _kernels(self) -> tuple[Kernel, ...]:
        return tuple(kernel for group in self.groups for kernel in group.kernels)

    @property
    def _points(self) -> tuple[Tensor, ...]:
        return tuple(Z for group in self._live for Z in group.points)

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
        return tuple(group.posterior for group in self._live)

    @on_its_device
    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        self._check_owner(owner)
        return [group.process(owner, of_y=of_y) for group in self._live]

    def _check_owner(self, owner: str | None) -> None:
        if owner is not None and owner != NEW and owner not in self.owners:
            raise RecycleGPError(
                Argument("owner", owner), f": nobody here is called so; there are {few(self.owners)}, and 'new'"
            )

    def _likelihood_of(self, owner: str | None, name: str | None) -> Likelihood:
        """What this owner's modules have, if there are several; where noises differ, its own, or a new one's any."""
        own = {p.name for m in self._everybody if m.owner == owner for p in m.likelihoods}
        whole = self._likelihood(own.pop() if name is None and len(self.likelihoods) > 1 and len(own) == 1 else name)
        if isinstance(whole, NegativeBinomial):
            own_modules = [m for m in self._members if m.owner == owner]
            return owner_answers.dispersed_as(whole, own_modules)
        if not isinstance(whole, (Gaussian, Outputs)):
            return whole
        parts = list(whole.parts)
        for group in self.groups:
            for c in group.functions:
                noise = group.noise_of(owner, c)
                part = parts[c]
                if noise is not None and isinstance(part, Gaussian):
                    parts[c] = part.with_noise(noise)
        return whole.with_parts([(part,) for part in parts])[0]

    def _observed(self, X: Any, owner: str | None, name: str | None) -> Observed:
        """Of a new owner, where few are known, under each of the scales that effects may have."""
        chosen = self._likelihood_of(owner, name)
        points = self._inputs(X)
        at = self._moments_at(points, owner, of_y=True)
        scales = [group.scales_of(owner or NEW, c) for group in self._live for c in group.functions]
        if not any(scales):
            return Observed(chosen, at)
        return new_owner.observed(chosen, at, self._moments_at(points), scales)

    @on_its_device
    def _parts_to_draw(self, points: Tensor, owner: str | None) -> list[DrawnParts]:
        self._check_owner(owner)
        return [new_owner.parts_to_draw(group, points, owner) for group in self._live]

    def _with_groups(self, groups: Iterable[Group]) -> Self:
        found = tuple(groups)
        known = [own for group in found for own in group.pooled((*group.members, *self._waiting_for(group)))]
        return replace(self, groups=found, likelihoods=self.likelihoods[0].with_parts(known))

    @on_its_device
    def _document(self) -> container.Document:
        groups = tuple(replace(group, form=group.with_evidence) for group in self._published().groups)
        return ensemble_file.to_document(ensemble_file.EnsembleFacts(self.likelihoods, self.frame, groups, self.how))

    def _by_function(self) -> list[list[Member]]:
        """Members of each function, as they were published."""
        return [[m for m in group.members if m.function == c] for group in self.groups for c in group.functions]

    @property
    def _given_points(self) -> Tensor:
        """Z_*, where it was given."""
        return self.groups[0].points[0]

    def _need_names(self, what: str, wanted: set[str]) -> None:
        unknown = wanted - set(self.names)
        if unknown:
            raise RecycleGPError(
                f"{what}: no module is named {', '.join(sorted(map(str, unknown)))}; there are {few(self.names)}"
            )

    def _need_sites(self, what: Part) -> None:
        for group in self.groups:
            group.need_sites(what)
