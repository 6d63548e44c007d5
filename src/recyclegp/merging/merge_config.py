"""How an ensemble's kernel and noise were chosen, and whom it trusts: what relearning does again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import threads
from ..kernels import Kernel
from ..kernels.units import InputUnits, in_units
from ..local.kernel_choice import AUTO
from .build import Merged, build, chosen_kernel, step_cost
from .member import Member
from .owners import Owners
from .points import PointsWanted
from .pooling import kernel_by_name, most_common_kernel
from .site_source import SiteSource
from .trust import Trust, apply_screening


class MergeResult(NamedTuple):
    """What was chosen, the members as they were screened, and the sites of those that count."""

    merged: Merged
    members: tuple[Member, ...]
    sites: SiteSource


class MergeConfig(NamedTuple):
    kernel: Kernel | str | None = None  # one that was given, a structure by name, "auto", or None for the members' own
    learn: bool = True
    pool_noise: bool = True
    trust: Trust = Trust.LEARN  # without learning nobody is screened

    def start(self, members: Sequence[Member], store: SiteSource, dimension: int, owners: Owners) -> Kernel:
        """Where learning begins: the given kernel, or one from the members."""
        return self._start(members, store, dimension, owners).to(store.device)

    def _start(self, members: Sequence[Member], store: SiteSource, dimension: int, owners: Owners) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if self.kernel is None:
            return most_common_kernel(members)
        if self.kernel == AUTO:
            return chosen_kernel(members, store, dimension, owners)
        return kernel_by_name(self.kernel, members, store, dimension)

    def run(
        self,
        members: Sequence[Member],
        store: SiteSource,
        wanted: PointsWanted,
        dimension: int,
        owners: Owners,
    ) -> MergeResult:
        """All that is chosen, chosen from these members: in the same way whenever it is done."""
        with threads.limit_threads(step_cost(store, wanted)):
            trust = self.trust if self.learn else Trust.NONE
            whom, sites, learned = apply_screening(
                members, store, trust=trust, owners=owners, pool_noise=self.pool_noise
            )
            start = self.start(whom, sites, dimension, owners)
            merged = build(
                start,
                whom,
                sites,
                wanted,
                learn=self.learn,
                owners=owners,
                pool_noise=self.pool_noise,
                first=learned if self.kernel is None else None,
            )
        return MergeResult(merged, whom, sites)

    def in_units(self, scale: float, inputs: InputUnits) -> MergeConfig:
        """For the ensemble of s·f((x − shift)/scale) + b, the inputs changed so."""
        if not isinstance(self.kernel, Kernel):
            return self
        return self._replace(kernel=in_units(self.kernel, scale, inputs))


USUAL = MergeConfig()  # what merge does by default
