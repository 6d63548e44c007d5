"""What an ensemble remembers of how it was made, and small values of its groups, as JSON: a line for each field."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..core.effects import Effects, Scales
from ..core.owner_posterior import Level
from ..core.spread import Spread
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.file_form import from_json, to_json
from ..merging.merge_config import USUAL, MergeConfig
from ..merging.noise import PooledNoise
from ..merging.owners import Owners
from ..merging.points import ALL, AUTO, Choice
from ..merging.trust import Trust
from ..storage import limits
from ..storage.container import Header
from ..storage.facts import At, Entry, Fact
from ..storage.fields import count, flag, listed, number, positive
from . import ensemble_tables as tables
from .how import Coupling, How, OutputsWanted, Signer, Skipped
from .naming import check_name
from .unlearning import Trace, Unlearned


def _config_kernel(found: Any, at: At) -> Kernel | str | None:
    """A structure by name is parsed later, beside the members."""
    return found if found is None or isinstance(found, str) else from_json(found, at.dimension)


def _choice(choice: Any) -> Choice:
    if choice is None or choice in (AUTO, ALL) or (type(choice) is int and 0 < choice <= limits.MOST_POINTS):
        found: Choice = choice
        return found
    raise RecycleGPError(f"choice is {str(choice)[:50]}, neither a number of points nor 'auto' or 'all'")


def _matrix(found: Any, functions: int) -> Tensor | None:
    """Covariances between all outputs."""
    if found is None:
        return None
    rows = [listed(row, "a row of a matrix", most=functions) for row in listed(found, "matrix", most=functions)]
    B = torch.tensor([[number(v, "a covariance") for v in row] for row in rows], dtype=torch.float64)
    if B.shape != (functions, functions) or not torch.equal(B, B.mT):
        raise RecycleGPError("the matrix of outputs is not symmetric, or not of all outputs")
    return B


def _traces(found: Any) -> tuple[Trace, ...]:
    said = {Trace(trace) for trace in listed([] if found is None else found, "traces", most=len(Trace))}
    return tuple(trace for trace in Trace if trace in said)


def _updates(found: Any) -> tuple[str, ...]:
    names = listed([] if found is None else found, "updates", most=limits.MOST_MEMBERS)
    for name in names:
        check_name(name)
    return tuple(names)


CONFIG = Entry(
    MergeConfig,
    (
        Fact("kernel", _config_kernel, lambda v, at: to_json(v, at.dimension) if isinstance(v, Kernel) else v),
        Fact("learn", lambda v, at: v is None or flag(v, "learn"), lambda v, at: None if v else False),
        Fact("pool_noise", lambda v, at: v is None or flag(v, "pool_noise"), lambda v, at: None if v else False),
        Fact(
            "trust",
            lambda v, at: USUAL.trust if v is None else Trust(v),
            lambda v, at: None if v is USUAL.trust else v.value,
        ),
        Fact("noise", lambda v, at: None if v is None else positive(v, "a noise")),
    ),
    "a config",
)
OUTPUTS = Entry(
    OutputsWanted,
    (
        Fact("rank", lambda v, at: None if v is None else count(v, "rank", least=1)),
        Fact("matrix", lambda v, at: _matrix(v, at.functions), lambda v, at: None if v is None else v.tolist()),
        Fact("only_if_better", lambda v, at: v is not None and flag(v, "only_if_better"), lambda v, at: v or None),
    ),
    "outputs",
)


def _configs(found: Any, at: At) -> tuple[MergeConfig, ...]:
    if found is None:
        return (USUAL,) * at.functions
    entries = listed(found, "configs", most=at.functions)
    if len(entries) != at.functions:
        raise RecycleGPError(f"{len(entries)} configs for {at.functions} functions")
    return tuple(CONFIG.read(entry, at) for entry in entries)


def _configs_to_json(configs: tuple[MergeConfig, ...], at: At) -> list[Header] | None:
    return None if all(c == USUAL for c in configs) else [CONFIG.write(c, at) for c in configs]


SKIPPED = Entry(Skipped, tables.SKIPPED, "what was left out")
SIGNER = Entry(Signer, tables.SIGNER, "who signed a module")


def _skipped(found: Any, at: At) -> tuple[Skipped, ...]:
    return tuple(SKIPPED.read(entry, at) for entry in listed(found or [], "skipped", most=limits.MOST_MEMBERS))


def _signers(found: Any, at: At) -> tuple[Signer, ...]:
    return tuple(SIGNER.read(entry, at) for entry in listed(found or [], "signers", most=limits.MOST_MEMBERS))


HOW = Entry(
    How,
    (
        Fact("choice", lambda v, at: _choice(v)),
        Fact("owners", lambda v, at: Owners.NONE if v is None else Owners(v), lambda v, at: v.value),
        Fact("configs", _configs, _configs_to_json),
        Fact("outputs", OUTPUTS.read_if_any, OUTPUTS.write),
        Fact("skipped", _skipped, lambda v, at: [SKIPPED.write(s, at) for s in v] or None),
        Fact("signers", _signers, lambda v, at: [SIGNER.write(s, at) for s in v] or None),
    ),
    "how",
)
EFFECTS = Entry(Effects, tables.EFFECTS, "effects")
LEVEL = Entry(Level, tables.LEVEL, "a level")
SPREAD = Entry(
    Spread,
    (
        Fact("effects", EFFECTS.read, EFFECTS.write),
        Fact(
            "scales",
            lambda v, at: Scales(*tables.scales(v)),
            lambda v, at: [list(pair) for pair in zip(*v, strict=True)],
        ),
        Fact("level", LEVEL.read_if_any, LEVEL.write),
    ),
    "a spread",
)
NOISE = Entry(
    PooledNoise,
    (
        *tables.NOISE,
        Fact(
            "kernel",
            lambda v, at: None if v is None else from_json(v, at.dimension),
            lambda v, at: None if v is None else to_json(v, at.dimension),
        ),
    ),
    "noise",
)
UNLEARNED = Entry(
    Unlearned,
    (
        Fact("removed", lambda v, at: count(v, "removed", least=1)),
        Fact("traces", lambda v, at: _traces(v), lambda v, at: [trace.value for trace in v] or None),
        Fact("updates", lambda v, at: _updates(v), lambda v, at: list(v) or None),
    ),
    "unlearned",
)
COUPLING = Entry(
    Coupling,
    (
        Fact("scale", lambda v, at: _numbers(v, "scale", at.functions), lambda v, at: list(v)),
        Fact("shift", lambda v, at: _numbers(v, "shift", at.functions), lambda v, at: list(v)),
    ),
    "coupling",
)


def _numbers(found: Any, what: str, most: int) -> tuple[float, ...]:
    return tuple(number(v, f"a {what}") for v in listed(found, what, most=most))
