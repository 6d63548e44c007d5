"""A plan from public knowledge alone: what a user says of points, kernel, noise and y, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .. import arrays, likelihoods
from ..arrays import Array
from ..core.effects import Effects
from ..errors import Argument, RecycleGPError
from ..kernels import Kernel, parse
from ..kernels.parsing import parse_with_values
from ..likelihoods import Likelihood, Outputs
from ..local.options import KernelLike
from ..plans.prior import Prior
from ..plans.search import Search
from ..target import described
from .how import Frame
from .moments import with_noise
from .plan_facts import PlanFacts


def from_public_knowledge(
    points: Array,
    kernel: KernelLike,
    *,
    noise: Any,
    mean: Any,
    likelihood: str,
    effects: tuple[float, float],
    learn: bool,
    columns: Sequence[str] | None,
    target: str | Sequence[str] | None,
    unit: Any,
    classes: Sequence[Any] | None,
) -> PlanFacts:
    """All that `Plan` is given; `effects` are the standard deviations of owners' constants and smooth departures."""
    if not isinstance(learn, bool):
        raise TypeError(f"learn must be True or False, not {learn!r}")
    Z, named, categories = arrays.inputs(points, "points", device="cpu")
    if columns is not None:
        named = arrays.named_columns(columns, Z.shape[1])
    if not len(Z) or len(torch.unique(Z, dim=0)) < len(Z):
        raise RecycleGPError(f"points has {len(Z)} rows, which must be distinct and at least one")
    words: tuple[str | None, ...] = (target,) if target is None or isinstance(target, str) else tuple(target)
    names = () if target is None or isinstance(target, str) else tuple(target)
    family = likelihoods.named(likelihood)
    if classes is not None:
        family = family.for_data(list(classes), len(classes), classes)
    elif family.names_classes:
        raise RecycleGPError(Argument("classes"), " is missing; a plan needs all that a row could have been")
    whole: Likelihood = Outputs(names, (family,) * len(names)) if names else family
    C = len(whole.functions)
    units = _each(unit, C, "unit")
    words = words if len(words) == C else words * C
    targets = tuple(described(None, name, own, None) for name, own in zip(words, units, strict=True))
    offset_sd, smooth_sd = (
        arrays.number(sd, name) for sd, name in zip(effects, ("offset_sd", "smooth_sd"), strict=True)
    )
    departures = Effects(offset_sd**2, smooth_sd**2)
    if noise is None and family.has_units:
        raise RecycleGPError(Argument("noise"), " is missing; a plan needs the noise variance of a row")
    if noise is not None and not family.has_units:
        raise RecycleGPError(Argument("noise", noise), f": likelihood {family.name!r} has none; leave it out")
    if not (family.has_units or family.known):
        raise RecycleGPError(
            Argument("likelihood", family.name),
            f": the {family.parameter_names[0]} of it is learned from rows; merge modules, and make the plan of their "
            "ensemble (Ensemble.plan)",
        )
    noises = _each(1.0 if noise is None else noise, C, "noise")
    if not family.conjugate:
        if noise is not None:
            whole = _with_noises(whole, noises)
        noises = [1.0] * C
    priors = tuple(
        Prior.at(
            Z,
            _kernel(k, Z.shape[1], categories.columns),
            arrays.number(m, "mean"),
            arrays.number(s, "noise", positive=True),
            departures,
        )
        for k, m, s in zip(_each(kernel, C, "kernel"), _each(mean, C, "mean"), noises, strict=True)
    )
    frame = Frame(Z.shape[1], named, categories)
    return PlanFacts(whole, frame, targets, priors, start(priors), learn)


def start(priors: Sequence[Prior]) -> Search:
    """Of all functions together."""
    return Search.start(torch.cat([p.x for p in priors]))


def _kernel(given: Any, dimension: int, levels: tuple[int, ...]) -> Kernel:
    if isinstance(given, Kernel):
        return given
    if not isinstance(given, str):
        from ..kernels.gpytorch_objects import from_gpytorch

        return from_gpytorch(given, dimension)
    return parse_with_values(given, dimension, levels) if "(" in given else parse(given, dimension, levels)


def _with_noises(whole: Likelihood, noises: Sequence[Any]) -> Likelihood:
    """Of likelihoods whose noise is one of their parameters."""
    return whole.with_parts([(with_noise(part, s),) for part, s in zip(whole.parts, noises, strict=True)])[0]


def _each(value: Any, count: int, argument: str) -> list[Any]:
    """One for all functions, or one for each."""
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        if len(value) != count:
            raise RecycleGPError(f"{argument} has {len(value)} entries for {count} functions; give one, or one each")
        return list(value)
    return [value] * count


# --- points that need no data ---------------------------------------------------------------------


def grid(low: Sequence[float], high: Sequence[float], each: int | Sequence[int]) -> np.ndarray:
    """So many along every input."""
    bounds = _bounds(low, high)
    counts = [each] * len(bounds) if isinstance(each, int) else list(each)
    if len(counts) != len(bounds) or any(not isinstance(n, int) or n < 1 for n in counts):
        raise RecycleGPError(f"each is {each!r}; pass a positive number for each of {len(bounds)} inputs")
    axes = [np.linspace(a, b, n) for (a, b), n in zip(bounds, counts, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(bounds))


def spread(low: Sequence[float], high: Sequence[float], points: int) -> np.ndarray:
    """A Sobol sequence."""
    bounds = _bounds(low, high)
    count = arrays.count_or_points(points, "points", len(bounds), None, "cpu")
    drawn = torch.quasirandom.SobolEngine(len(bounds)).draw(int(count), dtype=torch.float64).numpy()
    return np.array([a for a, _ in bounds]) + drawn * np.array([b - a for a, b in bounds])


def _bounds(low: Sequence[float], high: Sequence[float]) -> list[tuple[float, float]]:
    a, b = ([arrays.number(v, name) for v in np.atleast_1d(ends)] for ends, name in ((low, "low"), (high, "high")))
    if len(a) != len(b) or not a or any(x >= y for x, y in zip(a, b, strict=True)):
        raise RecycleGPError(f"low has {len(a)} bounds and high {len(b)}; give one of each, low below high")
    return list(zip(a, b, strict=True))
