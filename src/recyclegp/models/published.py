"""What a module knows: all that is answered from its record as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from .. import arrays
from ..categories import Categories
from ..core import sites
from ..core.convergence import Convergence
from ..core.posterior import Posterior
from ..core.sites import Site
from ..devices import CPU
from ..errors import Argument, RecycleGPError
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..record import About, Latent, Record
from ..storage import container
from ..target import Target
from ..times import When
from . import module_file, publishing
from .checks import check_finite, check_kernel
from .disclosure import Disclosure, of_record
from .model import outside_autograd, squeezed
from .naming import check_name, check_owner
from .predictive import Predictive
from .processes import OneFunction, Process
from .publishing import Solved


@dataclass(frozen=True, eq=False, repr=False)
class PublishedModel(Predictive):
    """The record of a module, and what can be asked of it without changing it; Module is the final class."""

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
        what = f"module {self.name!r}"
        check_finite(what, *latent.known_site, latent.kernel.theta)
        check_kernel(what, latent.kernel)
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
    def disclosure(self) -> Disclosure:
        """What leaves with it: whose the points are, how many for each row, the fewest rows behind a function."""
        return of_record(self._record)

    @property
    def held_back(self) -> float | None:
        """The share of its owner's rows that were kept out of the fit, for `Ensemble.gain`; None where none were."""
        return self.about.held_back

    @property
    def rows(self) -> int:
        """Data rows behind it; where outputs were not always seen, behind the function that has most."""
        return self._record.rows

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
        return self._record.convergence

    @property
    def site(self) -> Any:
        """What it says about f, as a copy."""
        return squeezed([Site(*(t.clone() for t in latent.known_site)) for latent in self.latents])

    @property
    def evidence(self) -> float:
        """log∫ t(u) p(u) du under its own prior: the local (bound on the) log marginal likelihood."""
        return sum(float(found.bound) for found in self._solved.solutions)

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
    def _solved(self) -> Solved:
        return publishing.solve(self.latents, self.likelihoods[0])

    @cached_property
    @outside_autograd
    def _posteriors(self) -> tuple[Posterior, ...]:
        return tuple(posterior.to(self._device) for posterior in self._solved.posteriors)

    def _processes(self, owner: str | None, *, of_y: bool) -> Sequence[Process]:
        if owner not in (None, self.owner):
            raise RecycleGPError(Argument("owner", owner), f": the module is of {self.owner!r} alone; leave owner out")
        return [OneFunction(posterior) for posterior in self._posteriors]

    @property
    def _record(self) -> Record:
        return Record(self.about, self.likelihoods, self.latents)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> m.save("a.safetensors")
        """
        container.write(path, module_file.to_document(self._record))
