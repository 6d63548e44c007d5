"""Fitted models in what they publish, as columns: thousands of them are a few tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import site_columns
from ..core.noise import NoiseEvidence
from ..core.site_columns import SiteColumns


class Fitted(NamedTuple):
    """B models of one kernel structure and one likelihood, on the CPU."""

    sites: SiteColumns
    theta: Tensor  # (B, p)  of their kernels
    parameters: Tensor  # (B, q)  of their likelihoods
    mean: Tensor  # (B,)  constant prior mean of f
    jitter: Tensor  # (B,)
    kept: Tensor  # (B,)  of what the rows say about f, by the points
    noise: Tensor  # (B, 4)  what the rows say about their noise (NoiseEvidence); NaN where that was not learned
    converged: Tensor  # (B,) bool
    evaluations: Tensor  # (B,) int
    messages: tuple[str, ...]  # how each search ended

    def take(self, chosen: Tensor) -> Fitted:
        """Some of them, in this order."""
        numbers = {name: getattr(self, name)[chosen] for name in NUMBERS}
        messages = tuple(self.messages[i] for i in chosen.tolist())
        return self._replace(sites=self.sites.take(chosen), messages=messages, **numbers)


NUMBERS = ("theta", "parameters", "mean", "jitter", "kept", "noise", "converged", "evaluations")


def concatenate(parts: Sequence[Fitted]) -> Fitted:
    """Several, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    numbers = {name: torch.cat([getattr(part, name) for part in parts]) for name in NUMBERS}
    messages = tuple(message for part in parts for message in part.messages)
    return parts[0]._replace(
        sites=site_columns.concatenate([part.sites for part in parts]), messages=messages, **numbers
    )


def noise_evidence(values: Sequence[float]) -> NoiseEvidence | None:
    """One row of the column."""
    return None if values[0] != values[0] else NoiseEvidence(*values)
