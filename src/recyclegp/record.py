"""The one record of a fitted model: who and what (words), and each of its functions (numbers).

Modules, members of an ensemble, columns of many modules and files all hold these two. A new fact about a module is a
field here and a line in `storage/words_json.py` or `storage/record_json.py`. Looking at one needs no torch: what
does is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .categories import NO_CATEGORIES, Categories
from .core.convergence import NOTHING_TO_LEARN, Convergence
from .errors import Argument, RecycleGPError
from .target import NO_TARGET, Target

if TYPE_CHECKING:
    from .arrays import Columns
    from .core.noise_evidence import NoiseEvidence
    from .core.site import Site
    from .kernels import Kernel
    from .kernels.units import InputUnits
    from .likelihoods import Change, Likelihood
    from .times import When

EXACT = frozenset({"plan", "update", "ensemble of answers"})  # methods of sums over rows: whoever they are about
IMPORTED = frozenset({"moments", "ensemble of imports"})  # methods of what was fitted elsewhere


class Origin(Enum):
    """What is known of the points: whether rows of the data are among them. In the order from best to worst."""

    PLACED = "placed"  # by this library, and never on a row
    UNKNOWN = "unknown"  # chosen by somebody else, rounded since, or from an earlier file that does not say so
    ROWS = "rows"  # some of them are rows

    @property
    def rows_among_them(self) -> bool | None:
        """None where that is not known."""
        return {Origin.PLACED: False, Origin.UNKNOWN: None, Origin.ROWS: True}[self]


def worst(origins: Iterable[Origin]) -> Origin:
    """Of points that are published together."""
    different = list(dict.fromkeys(origins))
    return different[0] if len(different) == 1 else max(different, key=list(Origin).index)


class Privacy(Enum):
    """What the rows are about, which decides what is published of them (docs/privacy.md)."""

    PEOPLE = "people"
    THINGS = "things"


def common_privacy(each: Iterable[Privacy | None]) -> Privacy | None:
    """Of what is made of several modules: what all of them chose."""
    chosen = set(each)
    return chosen.pop() if len(chosen) == 1 else None


ROW, PERSON = "row", "person"  # what a guarantee is about


class Guaranteed(NamedTuple):
    """Differential privacy of what was published, whatever is done with it (docs/privacy-proof.md)."""

    epsilon: float
    delta: float
    bound: float  # |y − mean| that was let through
    unit: str = ROW  # what may be there or not: a row, or a person
    rows_each: int = 1  # of one person at most
    owners: int = 1  # whose rows were added up before anybody could see them
    honest: int = 1  # of these, so many must have added their share of the noise

    @property
    def words(self) -> str:
        of = "row" if self.unit == ROW else f"person of at most {self.rows_each} rows"
        summed = f", sums over {self.owners} owners of whom {self.honest} are honest" if self.owners > 1 else ""
        return f"private: ε = {self.epsilon:g}, δ = {self.delta:g} per {of}{summed}"


def weakest(each: Iterable[tuple[str, Guaranteed | None]]) -> Guaranteed | None:
    """Of what several owners have published together, by owner: none, if one has none.

    Rows of different owners are different rows: the largest ε and δ hold. What one owner has published several times is
    about the same rows: there ε and δ add up.
    """
    by_owner: dict[str, list[Guaranteed]] = {}
    for owner, own in each:
        if own is None:
            return None
        by_owner.setdefault(owner, []).append(own)
    if not by_owner:
        return None
    every = [own for several in by_owner.values() for own in several]
    if len({own.unit for own in every}) > 1:
        return None  # of rows here, of persons there: no sentence holds of both
    return every[0]._replace(
        epsilon=max(sum(own.epsilon for own in several) for several in by_owner.values()),
        delta=max(sum(own.delta for own in several) for several in by_owner.values()),
        bound=max(own.bound for own in every),
        rows_each=min(own.rows_each for own in every),
        owners=min(own.owners for own in every),
        honest=max(own.honest for own in every),
    )


class About(NamedTuple):
    """Who and what: words only."""

    name: str
    owner_override: str | None = None  # whose it is, where somebody has said so
    time: When | None = None  # of its rows, where somebody has said so
    method: str = "unknown"  # by which it was made
    columns: Columns = None  # names of the inputs
    categories: Categories = NO_CATEGORIES  # the levels of inputs that hold some, by name
    targets: tuple[Target, ...] = (NO_TARGET,)  # what y means, for each function
    privacy: Privacy | None = None  # as its owner chose; None: nobody has chosen
    origin: Origin = Origin.UNKNOWN  # of its points
    held_back: float | None = None  # the share of its owner's rows that were kept out; a hash of each row says which
    guaranteed: Guaranteed | None = None  # what is proven of all attacks on it; None: nothing

    @property
    def owner(self) -> str:
        """Whose it is: its name's, unless somebody has said so."""
        return self.name if self.owner_override is None else self.owner_override

    @property
    def noise_for_people(self) -> bool:
        """Has it the noise that a fit adds for people? Answers of earlier versions say "people", and have none."""
        return self.privacy is Privacy.PEOPLE and self.method not in EXACT


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
        from .core import sites
        from .kernels.units import in_units

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

    @property
    def dimension(self) -> int:
        """How many inputs it has."""
        return int(self.latents[0].known_site.Z.shape[1])

    @property
    def rows(self) -> int:
        """Data rows behind it; where outputs were not always seen, behind the function that has most."""
        return max(latent.rows for latent in self.latents)

    @property
    def convergence(self) -> Convergence:
        """How the search for its parameters ended; of several functions the first that had not, or the longest."""
        return min((p.convergence for p in self.latents), key=lambda c: (c.converged, -c.evaluations))

    @property
    def noises(self) -> list[float | None]:
        """Of the observations of each function, where they have one that is known."""
        return known_noises(self.likelihoods)

    def part(self, c: int) -> Record:
        """One of its functions."""
        about = self.about._replace(targets=(self.about.targets[c],))
        return Record(about, tuple(p.parts[c] for p in self.likelihoods), (self.latents[c],))

    def in_units(self, changes: Sequence[Change], inputs: InputUnits) -> Record:
        """As if its owner had measured x and y in other units; a change of y for each function."""
        targets = tuple(t.in_units(*change) for t, change in zip(self.about.targets, changes, strict=True))
        latents = tuple(p.in_units(change, inputs) for p, change in zip(self.latents, changes, strict=True))
        return Record(
            # rows in other units have another hash, and cannot be found again
            self.about._replace(targets=targets, held_back=None),
            tuple(p.rescaled(changes) for p in self.likelihoods),
            latents,
        )


def known_noises(likelihoods: Sequence[Likelihood]) -> list[float | None]:
    """Noise variance of the gaussian (or student-t) likelihood of each function, where there is one."""
    own = [
        [p.parameters[0] for p in each if p.has_units and p.known]
        for each in zip(*(p.parts for p in likelihoods), strict=True)
    ]
    return [known[0] if known else None for known in own]


def of_outputs(parts: Sequence[Record]) -> Record:
    """Records of one function each as one of as many outputs, each called like its target."""
    names = [part.about.targets[0].name for part in parts]
    if not parts or not all(names) or any(len(part.latents) > 1 for part in parts):
        raise RecycleGPError("outputs are called like their targets; fit each module with ", Argument("target"))

    def owned(part: Record) -> object:
        a = part.about
        return a.name, a.owner, a.columns, part.latents[0].known_site.Z.shape[1], a.categories

    if any(owned(part) != owned(parts[0]) for part in parts):
        raise RecycleGPError("functions of one module must have its name, its owner, its columns and its categories")
    from .likelihoods import Outputs

    about = parts[0].about._replace(
        targets=tuple(part.about.targets[0] for part in parts), origin=worst(part.about.origin for part in parts)
    )
    whole = Outputs(tuple(str(n) for n in names), tuple(part.likelihoods[0] for part in parts))
    return Record(about, (whole,), tuple(part.latents[0] for part in parts))
