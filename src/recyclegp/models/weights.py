"""What each module counts, as users say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import arrays
from ..errors import RecycleGPError
from ..storage.limits import LARGEST_WEIGHT


class Weights:
    """name → w, or one w after the other; whether they match the modules is known when all have come."""

    def __init__(self, weights: Any) -> None:
        self.named: dict[Any, float] = {}
        self.listed: list[float] | None = None
        if isinstance(weights, Mapping):
            self.named = {n: arrays.number(w, f"weights[{n!r}]") for n, w in weights.items()}
        elif weights is not None:
            self.listed = [arrays.number(w, "weights") for w in weights]
        for weight in (*self.named.values(), *(self.listed or ())):
            check_weight(weight)

    def of(self, name: str, position: int) -> float:
        if self.listed is None:
            return self.named.get(name, 1.0)
        return self.listed[position] if position < len(self.listed) else 1.0

    def of_all(self, names: Sequence[str]) -> list[float]:
        """Of the first modules that come."""
        return self.of_those(names, range(len(names)))

    def of_those(self, names: Sequence[str], positions: Sequence[int]) -> list[float]:
        """Of modules that come at these positions."""
        if self.listed is None and not self.named:  # as nearly always
            return [1.0] * len(names)
        return [self.of(name, position) for name, position in zip(names, positions, strict=True)]

    def finish(self, count: int, names: set[str]) -> None:
        unknown = set(self.named) - names
        if unknown:
            raise RecycleGPError(f"weights: no module here is called {', '.join(sorted(map(str, unknown)))}")
        if self.listed is not None and len(self.listed) != count:
            raise RecycleGPError(f"weights has {len(self.listed)} numbers for {count} modules; give one each")


def check_weight(weight: float) -> None:
    if weight < 0:
        raise RecycleGPError("weights must not be negative")
    if weight > LARGEST_WEIGHT:
        raise RecycleGPError(f"weights: {weight:g} would count a module so many times; pass at most {LARGEST_WEIGHT:g}")
