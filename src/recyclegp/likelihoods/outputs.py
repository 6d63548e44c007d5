"""Several outputs: each function has observations of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..errors import Argument, Name, RecycleGPError
from .base import Change, Expected, FunctionRows, Likelihood, Moments, Scale, Sharing
from .quantiles import Interval
from .several import SeveralFunctions, check_names


@dataclass(frozen=True)
class Outputs(SeveralFunctions):
    """y_c ~ p_c(y | f_c) of each output c, which may be missing in some rows (NaN)."""

    names: tuple[str, ...]
    each: tuple[Likelihood, ...]

    name: ClassVar[str] = "outputs"
    sharing: ClassVar[Sharing] = Sharing.SHAPE

    def __post_init__(self) -> None:
        check_names(self.names, "an output")
        if len(self.each) != len(self.names):
            raise RecycleGPError(f"{len(self.each)} likelihoods for {len(self.names)} outputs; give one each")

    @property
    def functions(self) -> tuple[str, ...]:
        return self.names

    @property
    def meaning(self) -> str:
        return "outputs"

    @property
    def predicts_all(self) -> bool:
        return True

    @property
    def parts(self) -> tuple[Likelihood, ...]:
        return self.each

    @property
    def known(self) -> bool:
        return all(p.known for p in self.each)

    def with_parts(self, parts: Sequence[Sequence[Likelihood]]) -> tuple[Likelihood, ...]:
        return (Outputs(self.names, tuple(own[0] for own in parts)),)

    def only(self, functions: Sequence[int]) -> Outputs:
        return Outputs(tuple(self.names[c] for c in functions), tuple(self.each[c] for c in functions))

    def united(self, other: Likelihood) -> Likelihood:
        super().united(other)
        assert isinstance(other, Outputs)
        new = [i for i, name in enumerate(other.names) if name not in self.names]
        return Outputs((*self.names, *(other.names[i] for i in new)), (*self.each, *(other.each[i] for i in new)))

    # --- fitting: each output by itself ---

    def check(self, y: Tensor) -> Tensor:
        self._refuse()

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        self._refuse()

    def rows_of_functions(self, y: Tensor, choice: float | None = None) -> tuple[FunctionRows, ...]:
        """Each has the rows in which it was seen."""
        found = []
        for own, column in zip(self.each, y.unbind(-1), strict=True):
            seen = ~torch.isnan(column)
            whole = bool(seen.all())
            found.append(FunctionRows(own, own.seen(own.check(column[seen])), seen=None if whole else seen))
        return tuple(found)

    def seen_by_functions(self, y: Tensor) -> Tensor:
        return torch.stack([own.seen(column) for own, column in zip(self.each, y.unbind(-1), strict=True)])

    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        self._refuse()

    # --- a whole model ---

    def targets(self, y: Any, rows: int, device: torch.device | None) -> Tensor:
        """(n, C), NaN where a cell was not seen."""
        return matrix(y, rows, self.names, device)

    def answered(self, at: Moments) -> Moments:
        return at

    def observed(self, at: Moments) -> Moments:
        each = [p.moments(m, v) for p, m, v in self._with(at)]
        return Moments(*(torch.stack(part, -1) for part in zip(*each, strict=True)))

    def probabilities(self, at: Moments) -> Tensor:
        raise RecycleGPError("predict_proba: this model has outputs; use predict_y")

    def noise_at(self, at: Moments) -> Tensor:
        each = [p.noise_at(Moments(m[:, None], v[:, None])) for p, m, v in self._with(at)]
        return torch.stack(each, -1)

    def log_density_at(self, y: Tensor, at: Moments) -> Tensor:
        """Of each cell (n, C); NaN where it was not seen."""
        found = []
        for c, (p, m, v) in enumerate(self._with(at)):
            seen = torch.isfinite(y[:, c])
            known = p.check(torch.where(seen, y[:, c], y[seen, c].mean() if bool(seen.any()) else 0.0))
            density = p.log_density(known, m, v)
            found.append(torch.where(seen, density, torch.full_like(density, math.nan)))
        return torch.stack(found, -1)

    def interval_at(self, at: Moments, level: float) -> Interval:
        ends = [p.interval(m, v, level) for p, m, v in self._with(at)]
        return Interval(*(torch.stack(end, -1) for end in zip(*ends, strict=True)))

    def quantile_at(self, p: float, at: Moments) -> Tensor:
        return torch.stack([own.quantile(p, m, v) for own, m, v in self._with(at)], -1)

    def changes(self, scale: Any, shift: Any, unit: Any) -> list[Change]:
        """One value for all outputs, one for each, or those of some by name."""
        scales = [arrays.number(s, "output_scale") for s in self.one_each(scale, "output_scale", 1.0)]
        shifts = [arrays.number(b, "output_shift") for b in self.one_each(shift, "output_shift", 0.0)]
        if any(abs(s) < 1 / arrays.LARGEST for s in scales):
            raise RecycleGPError(Argument("output_scale", scale), "; pass numbers that are not zero")
        units = self.one_each(unit, "unit", None)
        return [Change(*new) for new in zip(scales, shifts, units, strict=True)]

    def rescaled(self, changes: Sequence[Change]) -> Likelihood:
        parts = zip(self.each, changes, strict=True)
        return Outputs(self.names, tuple(p.in_units(change.scale, change.shift) for p, change in parts))

    def _with(self, at: Moments) -> list[tuple[Likelihood, Tensor, Tensor]]:
        """Each likelihood with the moments of its function."""
        return list(zip(self.each, at.mean.unbind(-1), at.variance.unbind(-1), strict=True))

    def one_each(self, given: Any, argument: str, usual: Any) -> list[Any]:
        """One value for all outputs, one for each, or those of some by name, and the usual one for the others."""
        names = self.names
        if isinstance(given, Mapping):
            unknown = [str(key) for key in given if key not in names]
            if unknown:
                raise RecycleGPError(Name(argument), f": no output {', '.join(unknown)}; there are {', '.join(names)}")
            return [given.get(name, usual) for name in names]
        if not arrays.are_several(given):
            return [given] * len(names)
        found = np.asarray(given).tolist()
        if len(found) != len(names):
            raise RecycleGPError(
                Name(argument),
                f" has {len(found)} values for {len(names)} outputs; give one, one each, or a dict by output",
            )
        return list(found)


def matrix(y: Any, rows: int, names: Sequence[str], device: torch.device | None, argument: str = "y") -> Tensor:
    """(n, C) numbers, NaN where a cell was not seen; a DataFrame is matched by name."""
    if hasattr(y, "columns"):
        found = {str(c): c for c in y.columns}
        absent = [name for name in names if name not in found]
        if absent:
            raise RecycleGPError(f"{argument} lacks the columns {', '.join(absent)}; the model has {', '.join(names)}")
        y = y[[found[name] for name in names]]
    tensor = arrays.with_missing(y, argument, device)
    tensor = tensor[:, None] if tensor.ndim == 1 and len(names) == 1 else tensor
    if tensor.shape != (rows, len(names)):
        raise RecycleGPError(
            f"{argument} has shape {tuple(tensor.shape)} for {rows} rows of X and {len(names)} outputs "
            f"({', '.join(names[:5])}{', …' * (len(names) > 5)}); pass ({rows}, {len(names)})"
        )
    return tensor


def noise_of_cells(noise: Any, rows: int, names: Sequence[str]) -> Any:
    """Noise variances of all cells, (n, C), from one for each row or cell; one number, or nothing, as it is."""
    if not arrays.are_several(noise):
        return noise
    given = arrays.with_missing(noise, "noise", None)
    if given.shape in ((rows,), (rows, 1)):
        return given.reshape(-1, 1).expand(-1, len(names))
    return matrix(noise, rows, names, None, "noise")
