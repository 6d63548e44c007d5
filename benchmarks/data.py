"""The data of the benchmarks, which are the experiments'."""

from recyclegp.experiments.core import MissingDataError
from recyclegp.experiments.data import (
    Split,
    adjoining,
    banana,
    intervals,
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
    "intervals",
    "kin40k",
    "noisy",
    "oracle",
    "overlapping",
    "shuffled",
    "sunspots",
]
