"""Which outputs go together, and how much: the search for the index kernel B (see `coupling`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..errors import Argument, RecycleGPError
from ..kernels import Kernel
from ..kernels.file_form import MOST_NODES, nodes
from ..kernels.nodes import Index
from ..kernels.units import InputUnits, beside, in_units, times
from ..merging.constants import OUTPUTS
from ..merging.member import Member, active
from .group import Group
from .how import Coupling, OutputsWanted

PRODUCT_AND_INDEX = 2  # parts more than the shared kernel has
ROUNDING = 1e-12  # of a given B, that is each output's own


class Start(NamedTuple):
    """Where the search for the kernel over (x, c) begins."""

    members: Kernel  # what members bring with them
    usual: Kernel  # what is expected a priori
    learn: bool


MergeCoupled = Callable[[tuple[Member, ...], Start, Coupling], Group]


def wanted(value: Any, outputs: int) -> OutputsWanted | None:
    """The argument `outputs`, checked; None where each is merged by itself."""
    if value is None or (isinstance(value, str) and value == "independent"):
        return None
    if isinstance(value, str) and value in ("auto", "correlated"):
        return OutputsWanted(only_if_better=value == "auto")
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 1 <= value <= outputs:
        return OutputsWanted(rank=int(value))
    if isinstance(value, (str, bool, int, float)):
        raise RecycleGPError(
            Argument("outputs", value),
            f"; use 'auto', 'independent', 'correlated', a rank from 1 to {outputs}, or B itself as "
            f"({outputs}, {outputs})",
        )
    B = arrays.as_tensor(value, "outputs", "cpu")
    if B.shape != (outputs, outputs):
        raise RecycleGPError(f"outputs has shape {tuple(B.shape)} for {outputs} outputs; pass ({outputs}, {outputs})")
    if not torch.equal(B, B.mT) or float(torch.linalg.eigvalsh(B).min()) <= 0:
        raise RecycleGPError("outputs is not symmetric and positive definite; pass the covariances between outputs")
    return OutputsWanted(matrix=B)


def couple(apart: Sequence[Group], asked: OutputsWanted, learn: bool, merge: MergeCoupled) -> Group | None:
    """The outputs together; None where they are as well explained apart, and nobody insists."""
    if not all(group.keeps_sites for group in apart):
        raise RecycleGPError(
            "outputs can be coupled while the modules' sites are here; merge with ", Argument("keep", "sites")
        )
    if nodes(apart[0].form.kernel.own().structure) + PRODUCT_AND_INDEX > MOST_NODES:
        if asked.only_if_better:
            return None
        raise RecycleGPError(
            f"for outputs that go together the kernel has more than {MOST_NODES} parts, which no file can hold; use a "
            "kernel of fewer, or ",
            Argument("outputs", "independent"),
        )
    members = tuple(m for group in apart for m in group.members)
    means = tuple(group.form.mean for group in apart)
    if asked.matrix is not None:
        units = Coupling((1.0,) * len(apart), means)
        kernel = _given_kernel(apart[0].form.kernel.own(), apart[0].dimension, asked.matrix)
        return merge(members, Start(kernel, kernel, False), units)
    D = apart[0].dimension
    scales = tuple(math.sqrt(float(g.form.kernel.diagonal(g.form.Z).mean())) for g in apart)
    separately = sum(group.evidence for group in apart)
    best: Group | None = None
    ranks = [asked.rank] if asked.rank else range(1, min(OUTPUTS.highest_rank, max(1, len(apart) - 1)) + 1)
    likeness = _likeness(apart)
    for rank in ranks:
        shared = _shared_kernel(apart, scales)
        start = Start(
            times(shared, _first_index(likeness, rank, D)), times(shared, _usual_index(likeness, rank, D)), learn
        )
        found = merge(members, start, Coupling(scales, means))
        if best is not None and found.evidence < best.evidence + OUTPUTS.gain:
            break
        best = found
    assert best is not None
    return None if asked.only_if_better and best.evidence < separately else best


def _given_kernel(shared: Kernel, dimension: int, B: Tensor) -> Kernel:
    """With a B that is known, in the units of the outputs, beside the kernel of the first."""
    C = len(B)
    own = ROUNDING * float(B.diagonal().mean())
    W = torch.linalg.cholesky(B - own * torch.eye(C, dtype=B.dtype, device=B.device))
    theta = torch.cat([W.flatten(), W.new_full((C,), math.log(own))])
    return times(beside(shared, dimension), Kernel(Index(dimension, C, C), theta))


def _shared_kernel(apart: Sequence[Group], scales: Sequence[float]) -> Kernel:
    """Of the inputs, for all outputs in units of their scale: the mean of those that have the first one's structure."""
    D = apart[0].dimension
    each = [
        beside(in_units(k, 1 / s, InputUnits.same(D, k.theta)), D)
        for k, s in zip((group.form.kernel.own() for group in apart), scales, strict=True)
    ]
    alike = [k.theta for k in each if k.structure == each[0].structure]
    return each[0].with_theta(torch.stack(alike).mean(0))


def _likeness(apart: Sequence[Group]) -> Tensor:
    """(C, C) correlations of the outputs' means where modules have points, less sure of themselves than they look."""
    Z = torch.cat([m.latent.known_site.Z for g in apart for m in active(g.members)])
    with torch.no_grad():
        means = torch.stack([g.process(None, of_y=False).moments(Z).mean[:, 0] for g in apart])
    centred = means - means.mean(1, keepdim=True)
    size = centred.square().mean(1).sqrt().clamp_min(1e-12)
    found = centred @ centred.mT / Z.shape[0] / size[:, None] / size
    return 0.8 * found + 0.2 * torch.eye(len(apart), dtype=found.dtype, device=found.device)


def _first_index(likeness: Tensor, rank: int, column: int) -> Kernel:
    """An index kernel near these correlations: their largest directions, and the rest each output's own."""
    values, vectors = torch.linalg.eigh(likeness)
    W = vectors[:, -rank:] * values[-rank:].clamp_min(1e-3).sqrt()
    own = (likeness.diagonal() - W.square().sum(-1)).clamp_min(OUTPUTS.least_own)
    return Kernel(Index(column, len(likeness), rank), torch.cat([W.flatten(), own.log()]))


def _usual_index(likeness: Tensor, rank: int, column: int) -> Kernel:
    """What is expected before anything is known: half of every output's variance is shared, with the signs seen."""
    signs = torch.linalg.eigh(likeness).eigenvectors[:, -1].sign()
    W = likeness.new_zeros(len(likeness), rank)
    W[:, -1] = math.sqrt(0.5) * torch.where(signs == 0, torch.ones_like(signs), signs)
    own = likeness.new_full((len(likeness),), math.log(0.5))
    return Kernel(Index(column, len(likeness), rank), torch.cat([W.flatten(), own]))
