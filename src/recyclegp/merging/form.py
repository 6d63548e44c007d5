"""What a form can do: prior and posterior of one function, as values.

Which one an ensemble has the forms decide: `merged`, in the order of `build.FORMS`, and `grown`, where
one has become too large. Nobody else asks which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from ..core.convergence import Convergence
from ..core.effects import Effects, Offset
from ..core.exact import ExactPosterior
from ..core.owner_posterior import FunctionPosterior, NewOwner
from ..core.posterior import Basis, Posterior
from ..core.sites import Site
from ..kernels import Kernel
from ..kernels.units import InputUnits
from .extending import Grown, GrowthLimits
from .leave_one_out import Agreement
from .member import Member
from .noise import PooledNoise
from .owners import OwnedSite
from .problem import MergeProblem
from .site_source import SiteSource
from .size import Size

__all__ = ["Form", "FormAtPoints", "Grown", "GrowthLimits", "Merged", "SavedForm"]


class Merged(NamedTuple):
    form: Form
    convergence: Convergence  # of the search for its kernel
    noise: PooledNoise | None = None  # under which all members count; None: as they were published


class SavedForm(NamedTuple):
    """What a file has of a form, checked as it is taken."""

    dimension: int  # of its points
    kernel: Kernel
    mean: float
    effects: Effects
    jitter: float
    tensor: Callable[..., Tensor]  # one that `own_tensors` wrote, by its name and shape (None: any length)
    sites: Callable[[], tuple[SiteSource, Sequence[int]]]  # of the modules, and the numbers of their owners


class Form(Protocol):
    kind: ClassVar[str]  # as in files

    @classmethod
    def merged(cls, problem: MergeProblem) -> Merged | None:
        """Of all that is to be merged; None where it would lose something, or cost too much."""

    @classmethod
    def read(cls, saved: SavedForm) -> Form:
        """As it was written."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def mean(self) -> float: ...

    @property
    def effects(self) -> Effects: ...

    @property
    def jitter(self) -> float: ...

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that its points cannot express."""

    @property
    def Z(self) -> Tensor:  # noqa: N802 (the symbol)
        """(M, D): its points; of an exact form all of the modules'."""

    @property
    def chosen_points(self) -> Tensor:
        """(M, D): points that are there whichever modules are; of an exact form none."""

    @property
    def depends_on_choice_of_points(self) -> bool:
        """Would it be another one, had its points been chosen from other modules?"""

    # --- what it knows ---

    @property
    def posterior(self) -> Posterior | ExactPosterior:
        """Of the shared f."""

    def of_owner(self, number: int, site: Site | None = None) -> FunctionPosterior:
        """Of one owner's function; `site` is all that the owner's modules say, where it was kept."""

    def of_new_owner(self) -> NewOwner:
        """Of the function of somebody nobody has met."""

    @property
    def bound(self) -> float: ...

    def evidence(self, store: SiteSource) -> float:
        """From the sites, as it takes them; without them, where it can do without."""

    def offsets(self, store: SiteSource, numbers: Sequence[int], first: int) -> dict[int, Offset]:
        """Owners' constants by their numbers: of all owners, or of those in the store, which counts from `first`."""

    def agreements(self, store: SiteSource, first: int = 0, under: Kernel | None = None) -> dict[int, Agreement]:
        """How sites agree with the rest, by positions of members: of all sites, or of those in the store.

        The store counts from `first`. `under` is the kernel under which they are compared, where it is not its own.
        """

    def size(self, rows: int | None) -> Size:
        """How large it is beside so many pseudo-observations of the modules, where that is known."""

    @property
    def described(self) -> str:
        """For people: which form, how many points, which kernel."""

    @property
    def loss_words(self) -> str:
        """What it has lost, to be written behind the kernel; nothing where nothing is lost."""

    # --- with other sites ---

    def grouped(self, store: SiteSource, numbers: Sequence[int]) -> SiteSource:
        """Sites as it takes them; `numbers` are those of their owners, for each position in the store."""

    def only(self, store: SiteSource, numbers: Sequence[int]) -> Form:
        """With these sites, as it takes them, and no others, at the same prior."""

    def like(
        self, kernel: Kernel, mean: float, effects: Effects, Z: Tensor, store: SiteSource, numbers: Sequence[int]
    ) -> Form:
        """One of its kind, at another prior, of all these sites as they were published; `Z` if it has chosen points."""

    def without_sites(self, store: SiteSource) -> Form:
        """One that can do without the sites."""

    def can_append_owner(self, known: Sequence[int], new: Sequence[int]) -> bool:
        """May sites of these new owners be appended, where those that are known are here? Else `only` makes it anew."""

    def grown(self, store: SiteSource, numbers: Sequence[int], first: int, limits: GrowthLimits) -> Grown[Form]:
        """With new sites, of owners that it can append; `numbers` are those of all members, the new ones from `first`.

        Members in the store are counted from the first new one.
        """

    def with_points(self, Z: Tensor) -> Form:
        """With these points behind its own, where it has points of its own."""

    def faded(self, members: Sequence[Member], share: float) -> Form:
        """All that it knows to a power below one; members have their smaller weights already."""

    # --- at other points, in other units, elsewhere ---

    def at_points(self, points: int | Tensor | None) -> FormAtPoints:
        """What it knows of the shared f at these points, or at so many: by exact marginalisation.

        None: where it is known best; that is its own points, or as many of the modules' as express an exact form.
        """

    def without_points(self, kept: list[int]) -> Form:
        """With only some of the points that were chosen; `only` must follow."""

    def recoded(self, change: Callable[[Tensor], Tensor]) -> Form:
        """With other codes of categories in the points that were chosen; `only` must follow."""

    def in_units(self, scale: float, shift: float, inputs: InputUnits, effective_rows: float) -> Form:
        """The form of s·f((x − shift)/scale) + b, the inputs changed so."""

    def tensors(self) -> list[Tensor]:
        """All its numbers, to be checked."""

    def own(self, device: torch.device) -> Form:
        """With copies of its numbers, there, that nobody else can change."""

    # --- for files ---

    def own_tensors(self) -> dict[str, Tensor]:
        """Beside the prior and the modules' sites, by the names that they have in files; it can do without sites."""

    def anonymous_sites(self) -> list[OwnedSite]:
        """What it is made of, without names, where it needs that also when the modules' sites are dropped."""


class FormAtPoints(Form, Protocol):
    """One that is held at points, and can be published."""

    @property
    def basis(self) -> Basis: ...

    @property
    def posterior(self) -> Posterior: ...

    def site(self) -> Site:
        """All of it as one site."""
