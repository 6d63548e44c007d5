"""Outputs that go together: one GP over the inputs and the output's index, k((x, c), (x', c')) = B[c, c'] k(x, x').

What a module says about output c is a statement over (x, c) with the same c everywhere. So outputs are coupled by an
ordinary merge of as many members as there are pairs of module and output, under a kernel that multiplies the one of the
inputs by an index kernel B = WWᵀ + diag(κ); an owner who has measured one output informs those who have measured
another, where their inputs overlap. Outputs are in units of their own scale there, and about their own mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import sites
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Joint, Predicted
from ..devices import retry_on_oom
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.nodes import Index
from ..kernels.units import InputUnits, beside, in_units
from ..likelihoods import Change, Likelihood
from ..merging.member import Member, active
from .how import Coupling
from .processes import finite

# --- between a module's own statement and the process over (x, c) --------------------------------


def over_index(members: Sequence[Member], coupling: Coupling, kernel: Kernel) -> tuple[Member, ...]:
    """Members over (x, c), as they count now: in units of their output's scale and about its mean."""
    return tuple(_over_index(m, coupling, kernel) for m in members)


def _over_index(m: Member, coupling: Coupling, kernel: Kernel) -> Member:
    scale, shift = coupling.scale[m.function], coupling.shift[m.function]
    site, effective_rows = m.site_now, _measured(m.likelihoods, m.effective_row_count)
    if site is not None:
        site = sites.in_units(site, 1 / scale, -shift / scale, effective_rows)
        site = site._replace(Z=at_output(site.Z, m.function))
    latent = m.latent._replace(
        site=site,
        kernel=_kernel_over_index(m.kernel, scale, kernel),
        mean=(m.mean - shift) / scale,
        jitter=0.0,
        noise_evidence=None,
    )
    return m._replace(latent=latent, likelihoods=m.likelihoods_now, noise=None, verdict=None)


def _kernel_over_index(own: Kernel, scale: float, kernel: Kernel) -> Kernel:
    """A member's own kernel beside the index kernel, where its structure is the shared one; else the shared kernel."""
    index = index_of(kernel)
    same = beside(in_units(own, 1 / scale, InputUnits.same(index.column, own.theta)), index.column)
    if same.structure != kernel.structure.parts[0]:
        return kernel.own()
    return Kernel(kernel.structure, torch.cat([same.theta, kernel.theta.cpu()[len(kernel.theta) - index.size :]]))


def at_output(X: Tensor, c: int) -> Tensor:
    """Inputs with the index of an output behind them."""
    return torch.cat([X, X.new_full((*X.shape[:-1], 1), float(c))], -1)


def index_of(kernel: Kernel) -> Index:
    """The index kernel, of a kernel that has one."""
    found = kernel.structure.parts[1]
    assert isinstance(found, Index)
    return found


def covariance_of(kernel: Kernel, coupling: Coupling) -> Tensor:
    """B in the units of the outputs: the prior covariance between them, times k(x, x')."""
    index = index_of(kernel)
    theta = kernel.theta[len(kernel.theta) - index.size :]
    scale = theta.new_tensor(coupling.scale)
    return scale[:, None] * index.covariance(theta) * scale


def kernel_of_output(kernel: Kernel, c: int, coupling: Coupling) -> Kernel:
    """The prior kernel of one output, in its own units."""
    index = index_of(kernel)
    own = float(covariance_of(kernel, coupling)[c, c])
    shared = Kernel(kernel.structure.parts[0], kernel.theta[: len(kernel.theta) - index.size])
    return in_units(shared, math.sqrt(own), InputUnits.same(index.column, shared.theta))


def unscaled(members: Sequence[Member], coupling: Coupling) -> float:
    """What the evidence of outputs in their own units lacks beside that in units of their scales: Σ n_c log|s_c|."""
    return sum(
        _measured(m.likelihoods, m.effective_row_count) * m.weight * math.log(abs(coupling.scale[m.function]))
        for m in active(members)
    )


def _measured(likelihoods: Sequence[Likelihood], effective_rows: float) -> float:
    """Densities of y that change with its units: of counts and classes none do."""
    return effective_rows if all(p.has_units for p in likelihoods) else 0.0


def rescaled(coupling: Coupling, changes: Sequence[Change]) -> Coupling:
    """Of outputs that are measured in other units."""
    pairs = list(zip(changes, coupling.scale, coupling.shift, strict=True))
    return Coupling(
        tuple(change.scale * own for change, own, _ in pairs),
        tuple(change.scale * shift + change.shift for change, _, shift in pairs),
    )


class CoupledOutputs(NamedTuple):
    """The process of all outputs, each asked for its owner's function."""

    posteriors: tuple[FunctionPosterior, ...]  # of each output; one and the same where nobody in particular is asked
    coupling: Coupling

    def moments(self, X: Tensor) -> Predicted:
        found = []
        for c, (posterior, scale, shift) in enumerate(zip(self.posteriors, *self.coupling, strict=True)):
            at, there = at_output(X, c), posterior.to(X.device)
            mean, variance = finite(retry_on_oom(lambda at=at, there=there: there.predict(at)))  # type: ignore[misc]
            found.append((shift + scale * mean, scale**2 * variance))
        return Predicted(*(torch.stack(part, -1) for part in zip(*found, strict=True)))

    def each(self, X: Tensor) -> list[Joint]:
        parts = zip(self.posteriors, *self.coupling, strict=True)
        found = [(p.to(X.device).joint(at_output(X, c)), scale, shift) for c, (p, scale, shift) in enumerate(parts)]
        return [Joint(shift + scale * q.mean, scale**2 * q.covariance) for q, scale, shift in found]

    def together(self, X: Tensor) -> Joint:
        if any(q is not self.posteriors[0] for q in self.posteriors):
            raise RecycleGPError(
                "sample: what one owner's correlated outputs depart by is known for each output alone, not between "
                "them; leave owner out, or use predict_joint"
            )
        C = len(self.posteriors)
        whole = self.posteriors[0].to(X.device).joint(torch.cat([at_output(X, c) for c in range(C)]))
        scale, shift = (
            torch.tensor(v, dtype=X.dtype, device=X.device).repeat_interleave(len(X)) for v in self.coupling
        )
        return Joint(shift + scale * whole.mean, scale[:, None] * whole.covariance * scale)
