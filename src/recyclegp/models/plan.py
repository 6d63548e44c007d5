"""Plan: what owners agree on before they look at their rows, and what makes their sums one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import torch

from .. import arrays
from ..arrays import Array
from ..categories import Categories
from ..errors import Argument, RecycleGPError
from ..likelihoods import Likelihood
from ..local.options import KernelLike, PrivacyLike, Publishing
from ..record import About
from ..storage import container
from ..target import Target
from ..times import TimeLike, when
from . import plan_file
from .answer import Answer
from .combining import combine
from .contributing import contribute
from .model import squeezed
from .naming import check_owner, name_or_new
from .plan_answers import AnswerSource, read
from .plan_choice import better, rounds_gain
from .plan_ensemble import Parts
from .plan_facts import AnswerFacts, PlanFacts
from .plan_public import from_public_knowledge, grid, spread
from .privacy import Privacy
from .weights import check_weight


class Plan:
    """Public points, kernel, mean and noise, under which every owner's answer is a sum over its rows.

    Made from public knowledge alone, by `Ensemble.plan` from a merge, by `combine`, which makes the next one, and by
    `load`. It is immutable, and says nothing of any single row.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf(outputscale=1, lengthscale=1)", noise=0.01)
        >>> answers = [plan.contribute(X[i::2], np.sin(X[i::2, 0]), name=f"ward-{i}") for i in range(2)]
        >>> e, plan = plan.combine(answers)
        >>> e.names
        ['ward-0', 'ward-1']
    """

    _ensemble: ClassVar[type[Any]]  # which proposes plans, as plans make it: `ensemble` knows both, and says so here

    def __init__(
        self,
        points: Array,
        kernel: KernelLike,
        *,
        noise: Any = None,
        mean: Any = 0.0,
        likelihood: str = "gaussian",
        offset_sd: float = 0.0,
        smooth_sd: float = 0.0,
        learn: bool = True,
        columns: Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        unit: Any = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        """A plan from public knowledge alone.

        Args:
            points: (M, D) where sums are taken, all distinct; `grid` and `spread` make some from bounds. Of a DataFrame
                text and categoricals are levels, as for `fit`.
            kernel: a GPyTorch kernel in your units, or a name with its parameters, as kernels are printed:
                "rbf(outputscale=2, lengthscale=0.5/0.3)"; a name alone has ones, where rounds begin to learn it. Of
                several outputs one for all, or a list of one each.
            noise: noise variance of a row, where the likelihood has one; of several outputs one for all, or one each.
            mean: constant prior mean, likewise.
            likelihood: of y, by name, as for `fit`.
            offset_sd: how far owners' constants are from the shared function, as a standard deviation; 0: they are not.
            smooth_sd: how large owners' smooth departures from the shared function are, beside that function itself.
            learn: False keeps all of it as it is: one round is enough.
            columns: names for the columns of X.
            target: what y is called; several names for as many outputs.
            unit: what y is measured in; of several outputs one for all, or one each.
            classes: of "categorical", "categorical-softmax" and "ordinal", all that a row could have been.

        Raises:
            RecycleGPError: Points coincide, a kernel does not fit them, or the noise is missing.

        Examples:
            >>> rgp.Plan(points=rgp.Plan.grid([0], [6], 5), kernel="rbf", noise=0.1).points.shape
            (5, 1)
        """
        self._set(
            from_public_knowledge(
                points,
                kernel,
                noise=noise,
                mean=mean,
                likelihood=likelihood,
                effects=(offset_sd, smooth_sd),
                learn=learn,
                columns=columns,
                target=target,
                unit=unit,
                classes=classes,
            )
        )

    def _set(
        self, facts: PlanFacts, last: Mapping[str, AnswerFacts] | None = None, one_shot: Parts | None = None
    ) -> None:
        self._facts = facts
        self._last = dict(last or {})  # the newest answer of each owner: in memory only
        self._one_shot = one_shot  # likewise

    @staticmethod
    def _of(facts: PlanFacts, last: Mapping[str, AnswerFacts] | None = None, one_shot: Parts | None = None) -> Plan:
        plan = Plan.__new__(Plan)
        plan._set(facts, last, one_shot)
        return plan

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without what can be computed again."""
        return {name: value for name, value in vars(self).items() if name != "digest"}

    def __repr__(self) -> str:
        first, done = self._facts.priors[0], ", done" if self.done else ""
        several = f"{self._facts.likelihood.words}; " if len(self._facts.priors) > 1 else ""
        said = self._facts.likelihood.name if self._facts.variational else f"noise {first.noise:.3g}"
        return (
            f"Plan({self.digest[:8]}, round {self.round}, asks for {self.asks}; {several}{len(first.Z)} points in "
            f"{first.Z.shape[1]}-D, {first.kernel.describe()}, {said}{self._over_one_shot}{done})"
        )

    @property
    def _over_one_shot(self) -> str:
        gain = self.gain
        if gain is None:
            return ""
        return f", {abs(gain):.3g} nats per held-back row {'ahead of' if gain > 0 else 'behind'} the one-shot merge"

    # --- points that need no data ---

    @staticmethod
    def grid(low: Sequence[float], high: Sequence[float], each: int | Sequence[int]) -> np.ndarray:
        """Points of a grid between bounds.

        Args:
            low: the lower bound of every input.
            high: the upper ones.
            each: how many along every input; one number for all, or one each.

        Returns:
            (M, D) points.

        Raises:
            RecycleGPError: Bounds are not in order, or a number is not positive.

        Examples:
            >>> rgp.Plan.grid([0, 0], [1, 2], 3).shape
            (9, 2)
        """
        return grid(low, high, each)

    @staticmethod
    def spread(low: Sequence[float], high: Sequence[float], points: int) -> np.ndarray:
        """So many points spread evenly between bounds: a Sobol sequence, for more inputs than a grid has room for.

        Args:
            low: the lower bound of every input.
            high: the upper ones.
            points: how many.

        Returns:
            (M, D) points.

        Raises:
            RecycleGPError: Bounds are not in order, or the number is not positive.

        Examples:
            >>> rgp.Plan.spread([0, 0, 0], [1, 1, 2], 64).shape
            (64, 3)
        """
        return spread(low, high, points)

    # --- what it says ---

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that it says, by which answers are told apart."""
        return plan_file.digest(self._facts)

    @property
    def points(self) -> Any:
        """Z, read-only; of several functions that have different ones a tuple."""
        found = [p.Z for p in self._facts.priors]
        if all(torch.equal(Z, found[0]) for Z in found):
            return arrays.frozen(found[0])
        return tuple(arrays.frozen(Z) for Z in found)

    @property
    def kernel(self) -> Any:
        """A fresh GPyTorch kernel in the user's units; of several functions a tuple."""
        from ..kernels.gpytorch_objects import to_gpytorch

        return squeezed([to_gpytorch(p.kernel, p.Z.shape[1]) for p in self._facts.priors])

    @property
    def kernel_spec(self) -> Any:
        """The kernel as a value; of several functions a tuple."""
        return squeezed([p.kernel.own() for p in self._facts.priors])

    @property
    def noise(self) -> Any:
        """Noise variance of a row, where the likelihood has one; of several functions a tuple."""
        parts = self._facts.whole.parts
        return squeezed([p.parameters[0] if p.has_units and p.known else None for p in parts])

    @property
    def mean(self) -> Any:
        """Constant prior mean of f; of several functions a tuple."""
        return squeezed([p.mean for p in self._facts.priors])

    @property
    def jitter(self) -> Any:
        """Added to the diagonal of K_ZZ by everybody; of several functions a tuple."""
        return squeezed([p.jitter for p in self._facts.priors])

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of its functions; a single one is called f."""
        return self._facts.likelihood.functions

    @property
    def columns(self) -> arrays.Columns:
        """Names of the inputs, where somebody has given them."""
        return self._facts.frame.columns

    @property
    def dimension(self) -> int:
        """Number of input columns."""
        return self._facts.frame.dimension

    @property
    def categories(self) -> Categories:
        """Inputs that hold categories, with their levels by name."""
        return self._facts.frame.categories

    @property
    def targets(self) -> tuple[Target, ...]:
        """What y means, for each function."""
        return self._facts.targets

    @property
    def target(self) -> Target:
        """What y means, where somebody has said so; of several outputs see `targets`."""
        return self.targets[0]

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        """What y may be."""
        return (self._facts.whole,)

    @property
    def asks(self) -> str:
        """What an answer will hold: "sums", or "slopes" where the sums are known."""
        return self._facts.asks.value

    @property
    def round(self) -> int:
        """Exchanges before this one."""
        return self._facts.round

    @property
    def evaluations(self) -> int:
        """How often the common bound has been computed."""
        return self._facts.search.evaluations

    @property
    def done(self) -> bool:
        """Whether asking once more would change nothing: the bound, or the held-back score, has its maximum."""
        f = self._facts
        return f.search.done or (not f.learn and not f.variational and bool(f.history))

    @property
    def history(self) -> list[dict[str, Any]]:
        """One entry for each exchange: what was asked, bound, score, owners who answered, who was missing, bytes."""
        return [r._asdict() | {"asked": r.asked.value} for r in self._facts.history]

    @property
    def gain(self) -> float | None:
        """Nats per held-back row that the best round has over the one-shot merge; None where nobody has scored both."""
        return rounds_gain(self._facts)

    # --- answers ---

    def contribute(
        self,
        X: Array,
        y: Array,
        *,
        name: str | None = None,
        owner: str | None = None,
        time: TimeLike = None,
        noise: Any = None,
        weights: Array = None,
        missing: str = "refuse",
        rows_per_point: int | None = None,
        privacy: PrivacyLike | Privacy = None,
        allow_small: bool = False,
        score: bool = False,
        slopes: bool | None = None,
        persons: Array = None,
    ) -> Answer:
        """What an owner sends: sums over its rows at the plan's points, or how they change with the plan.

        Args:
            X: (n, D) inputs, as for `fit`; levels of categories must be the plan's.
            y: n targets; of several outputs (n, C).
            name: the owner's, the same in every round; made up when not given.
            owner: whose rows they are, where somebody answers under several names.
            time: when the rows were observed.
            noise: noise variance of the rows, where it is known: one for all, or one for each row or cell. The plan's
                own unless given.
            weights: how often each row counts.
            missing: "refuse", or "allow" where NaN in y (n, C) means that an output was not seen.
            rows_per_point: refuse, unless there are so many rows for each of the plan's points.
            privacy: a `Privacy`: the answer is then differentially private, its sums have noise, and it knows how much.
                Or "things", of rows that are not about people. "people" is refused: sums without a guarantee are exact.
            allow_small: say nothing where there are fewer than 10 rows.
            score: keep a tenth of the rows, chosen by a hash, out of every answer, and say what models predict of them:
                one number, by which rounds end and are compared with the one-shot merge.
            slopes: send the derivatives of the sums, too, which saves an exchange and takes as many times the bytes as
                the kernel has parameters; by default where that is little.
            persons: whose each row is, where `Privacy` protects persons. It stays here.

        Returns:
            The answer, which is also a module at the plan's points.

        Raises:
            RecycleGPError: An argument cannot be what it is, or the rows are too few for what was asked.

        Examples:
            >>> plan.contribute(X, np.sin(X[:, 0]), name="ward-2").rows
            60
        """
        private = privacy if isinstance(privacy, Privacy) else None
        if private is None and persons is not None:
            raise RecycleGPError("persons is for a Privacy that protects persons; leave it out")
        publishing = Publishing(
            "auto", rows_per_point, allow_small or private is not None, None if private else privacy
        )
        at = None if time is None else when(time)
        about = About(name_or_new(name), check_owner(owner), at)
        facts = contribute(
            self._facts,
            self.digest,
            X,
            y,
            about=about,
            noise=noise,
            weights=weights,
            missing=missing,
            publishing=publishing,
            score=score,
            with_derivatives=slopes,
            private=private,
            persons=persons,
        )
        return Answer(facts)

    def combine(
        self, answers: AnswerSource, *, keep: str = "sites", weights: Mapping[str, float] | None = None
    ) -> tuple[Any, Plan]:
        """The ensemble that all answers make, exactly as if all rows were in one place; and the next plan.

        Owners who have not answered this plan count with their last answer, which a plan remembers in memory; from
        files, give all answers there are. They are named in `history` and in a warning, like those whose answer cannot
        be that of any rows, who are left out. Whoever comes late joins.

        Args:
            answers: answers, files, or folders of them.
            keep: "sites" (needed to remove owners later) or "names", which takes less memory.
            weights: name → w ≥ 0, what an owner counts; one unless given.

        Returns:
            The ensemble and the next plan. Where owners have scored models, the better of rounds and one-shot merge.

        Raises:
            RecycleGPError: There is no answer, or one is to another plan; it is named.

        Examples:
            >>> more = [plan.contribute(X[i::2], np.sin(X[i::2, 0]), name=f"ward-{i}") for i in range(2)]
            >>> e, following = plan.combine(more)
            >>> plan.round, following.round
            (1, 2)
        """
        make, following = self._combined(answers, keep, weights or {})
        return make(), following

    def _combined(
        self, answers: AnswerSource, keep: str, weights: Mapping[str, float]
    ) -> tuple[Callable[[], Any], Plan]:
        """The next plan, and how to make the ensemble, which of many exchanges only the last needs to do."""
        if keep not in ("sites", "names"):
            raise RecycleGPError(Argument("keep", keep), "; use 'sites' or 'names'")
        for name, weight in weights.items():
            check_weight(arrays.number(weight, f"weights[{name!r}]"))
        unreadable: dict[str, str] = {}
        found = combine(
            self._facts,
            self.digest,
            read(answers, unreadable),
            self._last,
            keep=keep == "sites",
            weights=weights,
            unreadable=unreadable,
        )

        def make() -> Any:
            return self._ensemble._of_groups(*better(found, self._one_shot, weights))

        return make, Plan._of(found.plan, found.last, self._one_shot)

    @property
    def public(self) -> Plan:
        """The same without the answers that it remembers: what owners get, and what its file holds."""
        return Plan._of(self._facts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing; answers are files of their own.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> plan.save("plan.safetensors")
        """
        container.write(path, plan_file.plan_to_document(self._facts))
