"""The one record of a fitted model: who and what (words), and each of its functions (numbers).

Modules, members of an ensemble, columns of many modules and files all hold these two. A new fact about a module is a
field here and a line in `storage/record_json.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from . import arrays
from .categories import NO_CATEGORIES, Categories
from .core import sites
from .core.convergence import NOTHING_TO_LEARN, Convergence
from .core.noise import NoiseEvidence
from .core.sites import Site
from .kernels import Kernel
from .kernels.units import InputUnits, in_units
from .likelihoods import Change, Likelihood
from .target import NO_TARGET, Target
from .times import When

IMPORTED = frozenset(
    {"moments", "ensemble of imports"}
)  # methods of what was fitted elsewhere: points may be data rows


class About(NamedTuple):
    """Who and what: words only."""

    name: str
    owner_override: str | None = None  # whose it is, where somebody has said so
    time: When | None = None  # of its rows, where somebody has said so
    method: str = "unknown"  # by which it was made
    columns: arrays.Columns = None  # names of the inputs
    categories: Categories = NO_CATEGORIES  # the levels of inputs that hold some, by name
    targets: tuple[Target, ...] = (NO_TARGET,)  # what y means, for each function

    @property
    def owner(self) -> str:
        """Whose it is: its name's, unless somebody has said so."""
        return self.name if self.owner_override is None else self.owner_override


class Latent(NamedTuple):
    """One function as it is published: numbers only."""

    site: Site | None  # what is said about f; None in an ensemble that keeps only names
    kernel: Kernel
    mean: float  # constant prior mean of f
    rows: int  # of data behind it
    jitter: float = 0.0  # added to the diagonal of K_ZZ, and part of the kernel there
    effective_rows: float | None = None  # log-densities of y in its evidence: its rows, unless modules were weighted
    kept: float | None = None  # of what its rows say about f, in (0, 1]; None where that is not known
    noise_evidence: NoiseEvidence | None = None  # what its rows say about their noise, where they were asked
    convergence: Convergence = NOTHING_TO_LEARN

    @property
    def effective_row_count(self) -> float:
        """Densities of y behind it, not counting any weight."""
        return self.rows if self.effective_rows is None else self.effective_rows

    @property
    def known_site(self) -> Site:
        """What is said about f, of a module that must have it."""
        assert self.site is not None
        return self.site

    def in_units(self, change: Change, inputs: InputUnits) -> Latent:
        """The function s·f((x − shift)/scale) + b: as if its owner had measured x and y in other units."""
        s, b = change.scale, change.shift
        site = self.site
        if site is not None:
            site = sites.moved(sites.in_units(site, s, b, self.effective_row_count), inputs)
        return self._replace(
            site=site,
            kernel=in_units(self.kernel, s, inputs),
            mean=s * self.mean + b,
            jitter=s**2 * self.jitter,
            noise_evidence=None if self.noise_evidence is None else self.noise_evidence.in_units(s),
        )


class Record(NamedTuple):
    """All that a module is."""

    about: About
    likelihoods: tuple[Likelihood, ...]  # of all functions together
    latents: tuple[Latent, ...]  # one for each function
