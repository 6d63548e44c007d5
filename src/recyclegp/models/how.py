"""What an ensemble remembers of how it was made."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .. import arrays
from ..categories import NO_CATEGORIES, Categories
from ..kernels.units import InputUnits
from ..likelihoods import Change
from ..merging.merge_config import USUAL, MergeConfig
from ..merging.owners import Owners
from ..merging.points import Choice


class Frame(NamedTuple):
    """What modules must share: the number of input columns, and their names where somebody gives them."""

    dimension: int
    columns: arrays.Columns
    categories: Categories = NO_CATEGORIES  # the levels that anybody has seen
    named_by: str = ""  # who named the columns, for messages


class OutputsWanted(NamedTuple):
    """What `merge(outputs=...)` asks for, where outputs are not to be merged each by itself."""

    rank: int | None = None  # of B; None tries several
    matrix: Tensor | None = None  # B itself
    only_if_better: bool = False  # than each output by itself


class Skipped(NamedTuple):
    """A module that could not be read or merged."""

    name: str  # of the module, or of its file
    reason: str


class Signer(NamedTuple):
    """Whose signature a module had, where that was verified when it was merged."""

    name: str  # of the module
    key: str  # the public key, as hexadecimal digits
    version: int | None  # as signed


class How(NamedTuple):
    """How an ensemble was merged: what relearning does again."""

    choice: Choice = None  # how its points were chosen: "auto", "all", a number, or None for points that were given
    owners: Owners = Owners.NONE  # how owners might differ
    configs: tuple[MergeConfig, ...] = (USUAL,)  # how kernel, noise and trust were chosen, for each function
    outputs: OutputsWanted | None = None  # how outputs were to go together
    skipped: tuple[Skipped, ...] = ()  # what was left out because it failed
    signers: tuple[Signer, ...] = ()  # of those modules whose signatures were verified

    @property
    def learning(self) -> How:
        """The same, but that hyperparameters are learned."""
        return self._replace(configs=tuple(config._replace(learn=True) for config in self.configs))

    def in_units(self, changes: list[Change], inputs: InputUnits) -> How:
        """For the ensemble of s·f((x − shift)/scale) + b of every function, the inputs changed so."""
        configs = tuple(c.in_units(change.scale, inputs) for c, change in zip(self.configs, changes, strict=True))
        outputs = self.outputs
        if outputs is not None and outputs.matrix is not None:
            scale = outputs.matrix.new_tensor([change.scale for change in changes])
            outputs = outputs._replace(matrix=scale[:, None] * outputs.matrix * scale)
        return self._replace(configs=configs, outputs=outputs)


class Coupling(NamedTuple):
    """The units of outputs that go together: inside their process, output c is (y − shift[c]) / scale[c]."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]
