"""The data of the accuracy benchmark, which are the experiments'."""

from recyclegp.experiments.core import MissingDataError
from recyclegp.experiments.data import (
    Split,
    adjoining,
    banana,
    kin40k,
    noisy,
    oracle,
    overlapping,
    shuffled,
    sunspots,
)

__all__ = [
    "MissingDataError",
    "Split",
    "adjoining",
    "banana",
    "kin40k",
    "noisy",
    "oracle",
    "overlapping",
    "shuffled",
    "sunspots",
]
