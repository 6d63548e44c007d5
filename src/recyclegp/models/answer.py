"""Answer: what an owner sends in reply to a plan. Sums over its rows, at the plan's points; no data rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

from torch import Tensor

from .. import arrays
from ..categories import Categories
from ..core.posterior import Posterior
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..storage import container
from ..target import Target
from . import plan_ensemble, plan_file
from .checks import check_finite
from .disclosure import Disclosure
from .inbox import nbytes
from .model import outside_autograd
from .module import Module
from .naming import check_name, check_owner
from .plan_facts import AnswerFacts
from .predictive import Predictive
from .processes import Process


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Predictive):
    """What an owner says in reply to a plan: also a module at the plan's points, which can be asked and merged.

    Made by `Plan.contribute` and `load`. Where a plan asks for slopes an answer has nothing else, and is no module.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf(outputscale=1, lengthscale=1)", noise=0.01)
        >>> a = plan.contribute(X, np.sin(X[:, 0]), name="ward-7")
        >>> a.name, a.rows
        ('ward-7', 40)
    """

    facts: AnswerFacts

    def __post_init__(self) -> None:
        check_name(self.facts.about.name)
        check_owner(self.facts.about.owner_override)

    def __repr__(self) -> str:
        f = self.facts
        points = max(len(p.Z) for p in f.priors)
        what = "slopes" if not f.sums else f"sums at {points} points"
        what += ", with derivatives" if f.derivatives else ""
        scored = f", {f.scores[0][1].rows} rows held back" if f.scores else ""
        return f"Answer({self.name!r}, to plan {f.plan[:8]}, {self.rows} rows, {what}{scored}, {self.nbytes:,} bytes)"

    # --- who and what ---

    @property
    def name(self) -> str:
        """Its owner's answers all have this name."""
        return self.facts.about.name

    @property
    def owner(self) -> str:
        """Whose it is: its name's, unless its owner has said so."""
        return self.facts.about.owner

    @property
    def plan(self) -> str:
        """The digest of the plan that it answers."""
        return self.facts.plan

    @property
    def rows(self) -> int:
        """Data rows behind it; of several functions, behind the one that has most. Those held back are not counted."""
        return max(self.facts.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers in it."""
        return nbytes(self.facts)

    @property
    def disclosure(self) -> Disclosure:
        """What leaves with it: sums over rows at the plan's points, how many points for each row, the fewest rows."""
        f = self.facts
        seen = [(len(p.Z), n) for p, n in zip(f.priors, f.rows, strict=True) if n]
        return Disclosure(f.about.origin, max(M / n for M, n in seen), min(n for _, n in seen), f.guaranteed)

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:  # type: ignore[override]
        return self.module.likelihoods

    @property
    def columns(self) -> arrays.Columns:
        return self.facts.about.columns

    @property
    def categories(self) -> Categories:
        return self.facts.about.categories

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.facts.about.targets

    # --- as a module ---

    @cached_property
    @outside_autograd
    def module(self) -> Module:
        """The same as a module at the plan's points: what `merge` makes of it."""
        found = Module(*plan_ensemble.record(self.facts))
        check_finite(f"answer {self.name!r}", *(t for latent in found.latents for t in latent.known_site))
        return found

    @property
    def _kernels(self) -> tuple[Kernel, ...]:
        return self.module._kernels

    @property
    def _posteriors(self) -> tuple[Posterior, ...]:
        return self.module._posteriors

    @property
    def _points(self) -> tuple[Tensor, ...]:
        return self.module._points

    @property
    def _boxes(self) -> list[Tensor]:
        return self.module._boxes

    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        return self.module._processes(owner, of_y=of_y)

    def to(self, device: Any) -> Any:
        """Its module, on another device.

        Raises:
            RecycleGPError: There is no such device here.

        Examples:
            >>> a.to("cpu").name
            'ward-7'
        """
        return self.module.to(device)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> a.save("ward-7.safetensors")
        """
        container.write(path, plan_file.answer_to_document(self.facts))
