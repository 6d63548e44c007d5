"""Outputs that go together: one GP over the inputs and the output's index, k((x, c), (x', c')) = B[c, c'] k(x, x').

What a module says about output c is a module over (x, c) with the same c everywhere. So outputs are coupled by an
ordinary merge of as many modules as there are pairs of owner and output, under a kernel that multiplies the one of the
inputs by an index kernel B = WWᵀ + diag(κ); an owner who has measured one output informs those who have measured
another, where their inputs overlap. Outputs are in units of their own scale there, and about their own mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import arrays, categories
from ...categories import Categories
from ...core import sites
from ...core.convergence import NOTHING_TO_LEARN
from ...core.owner_posterior import FunctionPosterior
from ...core.posterior import Predicted
from ...core.sites import Site
from ...errors import RecycleGPError
from ...kernels import Kernel
from ...kernels.nodes import Index, Node
from ...kernels.units import InputUnits, beside, in_units, times
from ...likelihoods import Likelihood
from ...merging.member import Member, active
from ...storage.fields import fields, listed, number
from ..ensemble import Ensemble
from ..module import Module
from ..naming import NEW
from .links import Link, Outputs

BETWEEN = " · "  # a module's name and an output's, in the name of what it says about it
HIGHEST_RANK = 3  # of B that is tried
WORTH = 2.0  # nats by which outputs must be explained better by one more column of W
LEAST_OWN = 0.05  # of an output's variance that is its own, where a search begins
ROUNDING = 1e-12  # of a given B, that is each output's own


class Asked(NamedTuple):
    """What `merge(outputs=...)` wants."""

    rank: int | None = None  # of B; None tries several
    matrix: Tensor | None = None  # B itself
    only_if_better: bool = False  # than each output by itself


MergeCoupled = Callable[[list[Module], Kernel, bool], Ensemble]  # modules over (x, c), a kernel, and is it learned?


def asked(value: Any, outputs: int) -> Asked | None:
    """The argument `outputs`, checked; None where each is merged by itself."""
    if value is None or (isinstance(value, str) and value == "independent"):
        return None
    if isinstance(value, str) and value in ("auto", "correlated"):
        return Asked(only_if_better=value == "auto")
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 1 <= value <= outputs:
        return Asked(rank=int(value))
    if isinstance(value, (str, bool, int, float)):
        raise RecycleGPError(
            f"outputs={value!r}; use 'auto', 'independent', 'correlated', a rank from 1 to {outputs}, or B itself as "
            f"({outputs}, {outputs})"
        )
    B = arrays.as_tensor(value, "outputs", "cpu")
    if B.shape != (outputs, outputs):
        raise RecycleGPError(f"outputs has shape {tuple(B.shape)} for {outputs} outputs; pass ({outputs}, {outputs})")
    if not torch.equal(B, B.mT) or float(torch.linalg.eigvalsh(B).min()) <= 0:
        raise RecycleGPError("outputs is not symmetric and positive definite; pass the covariances between outputs")
    return Asked(matrix=B)


@dataclass(frozen=True, eq=False)
class Coupled:
    """The merged GP over (x, c), and what its units are."""

    link: Outputs
    ensemble: Ensemble
    scale: tuple[float, ...]  # of each output
    shift: tuple[float, ...]

    @property
    def covariance(self) -> np.ndarray:
        """B in the units of the outputs: the prior covariance between them, times k(x, x')."""
        kernel = self.ensemble._prior_kernel
        theta = kernel.theta[len(kernel.theta) - _index(kernel).size :]
        scale = theta.new_tensor(self.scale)
        return arrays.frozen(scale[:, None] * _index(kernel).covariance(theta) * scale)

    @property
    def rank(self) -> int:
        """Columns of W."""
        return _index(self.ensemble._prior_kernel).rank

    @property
    def evidence(self) -> float:
        """Of all outputs, as they were measured."""
        members = active(self.ensemble._members)
        number = {name: i for i, name in enumerate(self.link.names)}
        scaled = (
            _measured(m.likelihoods, m.effective_row_count)
            * m.weight
            * math.log(abs(self.scale[number[_output(m.name, self.link.names)]]))
            for m in members
        )
        return self.ensemble.evidence - sum(scaled)

    def moments(self, X: Any, owner: str | None, *, of_y: bool) -> Predicted:
        """(n, C) both."""
        inputs = self._inputs(X)
        found = []
        for c in range(len(self.link.names)):
            mean, variance = self.ensemble._latent(_at(inputs, c), self._answers(c, owner, of_y=of_y))
            found.append((self.shift[c] + self.scale[c] * mean, self.scale[c] ** 2 * variance))
        return Predicted(*(torch.stack(part, -1) for part in zip(*found, strict=True)))

    def covariances(self, X: Any, owner: str | None) -> list[Tensor]:
        """(n, n) of each output, between all rows."""
        inputs = self._inputs(X)
        return [
            self.scale[c] ** 2 * self._answers(c, owner, of_y=False).joint(_at(inputs, c)).covariance
            for c in range(len(self.link.names))
        ]

    def _answers(self, c: int, owner: str | None, *, of_y: bool) -> FunctionPosterior:
        whose = None if owner is None else owner + BETWEEN + self.link.names[c] if owner != NEW else NEW
        whose = NEW if whose is not None and whose not in self.ensemble.owners else whose
        return self.ensemble._answers(whose, of_y=of_y)

    def sample(self, X: Any, n: int, seed: int) -> Tensor:
        """(n, rows, C) draws of all outputs together."""
        inputs = self._inputs(X)
        C = len(self.link.names)
        draws = self.ensemble.sample(arrays.CodedInputs(torch.cat([_at(inputs, c) for c in range(C)])), n, seed)
        shaped = torch.as_tensor(draws).reshape(n, C, -1).mT
        return shaped * shaped.new_tensor(self.scale) + shaped.new_tensor(self.shift)

    def remove(self, names: set[str], *, relearn: bool) -> Coupled:
        gone = [n for n in self.ensemble.names if _module(n, self.link.names) in names]
        return replace(self, ensemble=self.ensemble.remove(gone, relearn=relearn)) if gone else self

    def reweight(self, weights: Mapping[str, float], *, relearn: bool) -> Coupled:
        own = {
            n: weights[_module(n, self.link.names)]
            for n in self.ensemble.names
            if _module(n, self.link.names) in weights
        }
        return replace(self, ensemble=self.ensemble.reweight(own, relearn=relearn)) if own else self

    def in_units(self, inputs: InputUnits, changes: Sequence[tuple[float, float]]) -> Coupled:
        moved = self.ensemble.transform([*inputs.shift.tolist(), 0.0], input_scale=[*inputs.scale.tolist(), 1.0])
        scale = tuple(s * own for (s, _), own in zip(changes, self.scale, strict=True))
        shift = tuple(s * own + b for (s, b), own in zip(changes, self.shift, strict=True))
        return replace(self, ensemble=moved, scale=scale, shift=shift)

    def add(self, members: Iterable[tuple[str, Member, Categories]]) -> Coupled:
        """With members that have come to the outputs' own ensembles: their output, themselves, and their levels."""
        new = [self._over_index(*member) for member in members]
        return replace(self, ensemble=self.ensemble.add(new)) if new else self

    def _over_index(self, output: str, member: Member, levels: Categories) -> Module:
        c, own = self.link.names.index(output), _as_module(member, self._columns, levels)
        site = own._site._replace(Z=levels.recoded(own._site.Z, self.ensemble.categories))
        kernel = self.ensemble.kernel_spec  # on the CPU, as modules are
        recoded = replace(own, categories=self.ensemble.categories)
        return _module_over_index(recoded, site, c, output, self.scale[c], self.shift[c], kernel)

    @property
    def _columns(self) -> arrays.Columns:
        """Of the inputs."""
        return None if self.ensemble.columns is None else self.ensemble.columns[:-1]

    def _inputs(self, X: Any) -> Tensor:
        own = self.ensemble
        device = None if own.device.type == "cpu" else own.device
        return arrays.matched(X, own.dimension - 1, self._columns, own.categories, device=device).X


def coupled_from_json(found: Any, link: Link, made: Sequence[Ensemble]) -> Coupled:
    """From a file: the last of the ensembles is over (x, c), the others are the outputs' own."""
    said = fields(found, "coupled")
    C, whole = len(link.names), made[-1]
    scale = [number(v, "a scale") for v in listed(said["scale"], "scale", most=C)]
    shift = [number(v, "a shift") for v in listed(said["shift"], "shift", most=C)]
    structure = whole._prior_kernel.structure
    fits = len(structure.parts) == 2 and structure.parts[1] == Index(made[0].dimension, C, _rank(structure))
    if not isinstance(link, Outputs) or (len(scale), len(shift)) != (C, C) or 0 in scale or not fits:
        raise RecycleGPError("coupled is not about the outputs of this file")
    if not all(any(name.endswith(BETWEEN + output) for output in link.names) for name in whole.names):
        raise RecycleGPError("coupled holds a module that is not of one of the outputs")
    return Coupled(link, whole, tuple(scale), tuple(shift))


def _rank(structure: Node) -> int:
    return structure.parts[-1].rank if structure.parts and isinstance(structure.parts[-1], Index) else 0


def couple(link: Outputs, parts: Sequence[Ensemble], wanted: Asked, learn: bool, merge: MergeCoupled) -> Coupled | None:
    """The outputs together; None where they are as well explained apart, and nobody insists."""
    if not all(part._keeps_sites for part in parts):
        raise RecycleGPError("outputs can be coupled while the modules' sites are here; merge with keep='sites'")
    whole = categories.union_of([part.categories for part in parts])
    if wanted.matrix is not None:
        return _given(link, parts, whole, wanted.matrix, learn, merge)
    scales = [math.sqrt(float(part._prior_kernel.diagonal(part._points).mean())) for part in parts]
    apart = sum(part.evidence for part in parts)
    best: Coupled | None = None
    ranks = [wanted.rank] if wanted.rank else range(1, min(HIGHEST_RANK, max(1, len(parts) - 1)) + 1)
    likeness = _likeness(parts, whole)
    for rank in ranks:
        shared, column = _shared_kernel(parts, scales), parts[0].dimension
        first = times(shared, _first_index(likeness, rank, column))  # which the modules bring with them
        usual = times(shared, _usual_index(likeness, rank, column))
        modules = _modules(link, parts, whole, scales, [part.mean for part in parts], first)
        found = Coupled(link, merge(modules, usual, learn), tuple(scales), tuple(part.mean for part in parts))
        if best is not None and found.evidence < best.evidence + WORTH:
            break
        best = found
    assert best is not None
    return None if wanted.only_if_better and best.evidence < apart else best


def _given(
    link: Outputs, parts: Sequence[Ensemble], whole: Categories, B: Tensor, learn: bool, merge: MergeCoupled
) -> Coupled:
    """With a B that is known, in the units of the outputs, beside the kernel of the first."""
    C = len(parts)
    own = ROUNDING * float(B.diagonal().mean())
    W = torch.linalg.cholesky(B - own * torch.eye(C, dtype=B.dtype))
    index = Kernel(Index(parts[0].dimension, C, C), torch.cat([W.flatten(), W.new_full((C,), math.log(own))]))
    kernel = times(beside(parts[0]._prior_kernel, parts[0].dimension), index)
    means = [part.mean for part in parts]
    modules = _modules(link, parts, whole, [1.0] * C, means, kernel)
    return Coupled(link, merge(modules, kernel, False), (1.0,) * C, tuple(means))


def _modules(
    link: Outputs,
    parts: Sequence[Ensemble],
    whole: Categories,
    scales: Sequence[float],
    means: Sequence[float],
    kernel: Kernel,
) -> list[Module]:
    """Every output of every module that counts, over (x, c), under the noise with which it counts."""
    found = []
    for c, (name, part) in enumerate(zip(link.names, parts, strict=True)):
        for m in active(part._members):
            module = replace(_as_module(m, part.columns, part.categories), categories=whole)
            site = module._site._replace(Z=part.categories.recoded(module._site.Z, whole))
            found.append(_module_over_index(module, site, c, name, scales[c], means[c], kernel))
    return found


def _as_module(m: Member, columns: arrays.Columns, levels: Categories) -> Module:
    """Under the noise with which it counts."""
    assert m.site_now is not None
    return Module(
        name=m.name,
        _site=m.site_now,
        _kernel=m.kernel,
        mean=m.mean,
        jitter=0.0,
        likelihoods=m.likelihoods_now,
        rows=m.rows,
        columns=columns,
        categories=levels,
        convergence=NOTHING_TO_LEARN,
        method="output",
        densities=m.effective_rows,
        given_owner=m.owner_override,
        time=m.time,
    )


def _module_over_index(
    module: Module, site: Site, c: int, output: str, scale: float, shift: float, kernel: Kernel
) -> Module:
    """In units of the output's scale and about its mean, with its index as one more column."""
    columns = None if module.columns is None else (*module.columns, "output")
    own = in_units(module._kernel, 1 / scale, InputUnits.same(module.dimension))
    same = beside(own, module.dimension)
    index = _index(kernel)
    if same.structure == kernel.structure.parts[0]:
        own = Kernel(kernel.structure, torch.cat([same.theta, kernel.theta[len(kernel.theta) - index.size :]]))
    else:
        own = kernel
    moved = sites.in_units(site, 1 / scale, -shift / scale, _measured(module.likelihoods, module._densities))
    return replace(
        module,
        name=module.name + BETWEEN + output,
        given_owner=module.owner + BETWEEN + output,
        _site=moved._replace(Z=_at(moved.Z, c)),
        _kernel=own,
        mean=(module.mean - shift) / scale,
        columns=columns,
        noise_evidence=None,
    )


def _measured(likelihoods: Sequence[Likelihood], densities: float) -> float:
    """Densities of y that change with its units: of counts and classes none do."""
    return densities if all(p.has_units for p in likelihoods) else 0.0


def _shared_kernel(parts: Sequence[Ensemble], scales: Sequence[float]) -> Kernel:
    """Of the inputs, for all outputs in units of their scale: the mean of those that have the first one's structure."""
    D = parts[0].dimension
    each = [beside(in_units(p.kernel_spec, 1 / s, InputUnits.same(D)), D) for p, s in zip(parts, scales, strict=True)]
    alike = [k.theta for k in each if k.structure == each[0].structure]
    return each[0].with_theta(torch.stack(alike).mean(0))


def _likeness(parts: Sequence[Ensemble], whole: Categories) -> Tensor:
    """(C, C) correlations of the outputs' means where modules have points, less sure of themselves than they look."""
    Z = torch.cat([p.categories.recoded(m.site.Z, whole) for p in parts for m in active(p._members) if m.site])
    with torch.no_grad():
        means = torch.stack([p._latent(whole.recoded(Z, p.categories), p._posterior).mean for p in parts])
    centred = means - means.mean(1, keepdim=True)
    size = centred.square().mean(1).sqrt().clamp_min(1e-12)
    found = centred @ centred.mT / Z.shape[0] / size[:, None] / size
    return 0.8 * found + 0.2 * torch.eye(len(parts), dtype=found.dtype)


def _first_index(likeness: Tensor, rank: int, column: int) -> Kernel:
    """An index kernel near these correlations: their largest directions, and the rest each output's own."""
    values, vectors = torch.linalg.eigh(likeness)
    W = vectors[:, -rank:] * values[-rank:].clamp_min(1e-3).sqrt()
    own = (likeness.diagonal() - W.square().sum(-1)).clamp_min(LEAST_OWN)
    return Kernel(Index(column, len(likeness), rank), torch.cat([W.flatten(), own.log()]))


def _usual_index(likeness: Tensor, rank: int, column: int) -> Kernel:
    """What is expected before anything is known: half of every output's variance is shared, with the signs seen."""
    signs = torch.linalg.eigh(likeness).eigenvectors[:, -1].sign()
    W = torch.zeros(len(likeness), rank, dtype=likeness.dtype)
    W[:, -1] = math.sqrt(0.5) * torch.where(signs == 0, torch.ones_like(signs), signs)
    own = torch.full((len(likeness),), math.log(0.5), dtype=likeness.dtype)
    return Kernel(Index(column, len(likeness), rank), torch.cat([W.flatten(), own]))


def _index(kernel: Kernel) -> Index:
    found = kernel.structure.parts[1]
    assert isinstance(found, Index)
    return found


def _at(X: Tensor, c: int) -> Tensor:
    """Inputs with the index of an output behind them."""
    return torch.cat([X, X.new_full((*X.shape[:-1], 1), float(c))], -1)


def _output(name: str, outputs: Sequence[str]) -> str:
    return next(output for output in outputs if name.endswith(BETWEEN + output))


def _module(name: str, outputs: Sequence[str]) -> str:
    return name[: -len(BETWEEN + _output(name, outputs))]
